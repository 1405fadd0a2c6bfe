"""Runs whose examples are shared by workers, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.processes import figeval

SLOW_FOLDER = Path(__file__).parent.parent / "slow"  # of a model that takes its time, a plugin


class Run:
    """One command with a folder of its own, and what it has left there."""

    def __init__(self, bench: Path, output: str, *arguments: str | Path) -> None:
        self.bench = bench
        self.folder = bench / output
        self.command = ("run", "--include_path", "tasks", "--output_path", output, *map(str, arguments))

    def __call__(self, n: int, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """To the end, with so many processes."""
        return figeval(*self.command, "--processes", str(n), cwd=self.bench, code=code, **environment)

    def start(self, seconds: float, *workers: str) -> psutil.Popen:
        """In the background, with these workers, and so much time for each request."""
        return psutil.Popen(
            [sys.executable, "-m", "figeval", *self.command, *workers],
            cwd=self.bench,
            env={**os.environ, "SLOW_SECONDS": str(seconds)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, task: str = "t") -> list[dict[str, Any]]:
        text = (self.folder / "predictions" / f"{task}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def written(self, task: str = "t") -> int:
        """How many rows are on disk."""
        file = self.folder / "predictions" / f"{task}.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    @property
    def record(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "run.json").read_text(encoding="utf-8")))

    def clean(self) -> bool:
        """Whether nothing is left but what every run leaves."""
        return {path.name for path in self.folder.iterdir()} == {".lock", "run.json", "predictions"}


def results_of(run: Run) -> list[Any]:
    """All that was measured, task by task."""
    record = run.record
    assert record["status"] == "complete"
    fields = ("task", "scores", "baselines", "counts", "n", "breakdowns", "settings", "warnings")
    return [[task[key] for key in fields] for task in record["tasks"]]


def same_files(run: Run, other: Run) -> bool:
    """To the byte."""
    files = [sorted((either.folder / "predictions").iterdir()) for either in (run, other)]
    pairs = zip(*files, strict=True)
    return results_of(run) == results_of(other) and all(file.read_bytes() == two.read_bytes() for file, two in pairs)


def wait(condition: Callable[[], bool], process: psutil.Popen) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
