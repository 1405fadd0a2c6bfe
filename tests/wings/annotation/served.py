"""`figeval annotate serve` as a process of its own, and requests to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import figeval
from figeval import GenerationExample
from tests.processes import starting

SCALES = {"fluency": "1-5", "coherent": "yes/no"}
MEANING = "How well it is written. 1: not at all. 5: very well."
DESCRIBED_SCALES = {"fluency": {"scale": "1-5", "description": MEANING}, "coherent": "yes/no"}


def export_items(folder: Path, *texts: str, author: str = "someone", **options: Any) -> Path:
    """Items with these texts by one author, whom nobody may see."""
    written = [(author, f"example-{n}", {"proverb": f"Proverb {n}"}, text) for n, text in enumerate(texts)]
    return export_texts(folder, written, **options)


def export_texts(
    folder: Path,
    texts: Iterable[tuple[str, str, dict[str, str], str]],
    scales: Mapping[str, Any] = SCALES,
    **options: Any,
) -> Path:
    """Items with texts, each with its author, example and inputs; `options` are those of `figeval.export_items`."""
    inputs, predictions = {}, defaultdict(list)
    for author, example, shown, text in texts:
        inputs[example] = shown
        predictions[author].append({"id": example, "prediction": text})
    examples = [GenerationExample(id=example, inputs=shown, references=("",)) for example, shown in inputs.items()]
    task = figeval.task(name="a_task", type="generation", metrics=["length"])(lambda: iter(examples))
    with TemporaryDirectory() as runs:
        for author, rows in predictions.items():
            figeval.score(task, rows, name=author, output_path=Path(runs, author), baselines=False)
        folders = [Path(runs, author) for author in predictions]
        figeval.export_items(
            folders, task=task, output=folder, criteria=scales, **{"checks": 0, "instructions": "", "n": 99, **options}
        )
    return folder


class Server:
    """A server that runs, and requests to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.greeting = process.stdout.readline()
        self.address = process.stdout.readline().strip()
        assert self.address, process.communicate()[1]
        parts = urlsplit(self.address)
        self.port = parts.port or 0
        self.token = parts.fragment.removeprefix("token=")

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers of the reply; without `headers`, the request is that of the page."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        default_headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, {**default_headers, **(headers or {})})
            reply = connection.getresponse()
            content = reply.read()
            kind = reply.headers.get_content_type()
            return reply.status, json.loads(content) if kind == "application/json" else content, dict(reply.headers)
        finally:
            connection.close()

    def items(self, annotator: str) -> Any:
        """What the page of an annotator gets."""
        status, content, _ = self.request("GET", f"/api/items?annotator={annotator}")
        assert status == 200, content
        return content

    def answer(self, annotator: str, item: str, criterion: str, label: str) -> tuple[int, Any]:
        judgement = {"annotator": annotator, "item": item, "criterion": criterion, "label": label}
        return self.request("POST", "/api/answers", json.dumps(judgement).encode())[:2]

    def stop(self, by: signal.Signals = signal.SIGINT) -> str:
        """End it as Ctrl-C does, and return what it has printed since."""
        self.process.send_signal(by)
        out, err = self.process.communicate(timeout=20)
        assert (self.process.returncode, err) == (0, "")
        return out

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server of these items."""
    process = subprocess.Popen(
        [starting["python"], "-m", "figeval", "annotate", "serve", folder.name, *arguments],
        cwd=folder.parent,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
