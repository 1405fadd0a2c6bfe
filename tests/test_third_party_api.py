"""A distribution's own API model has what the built-in ones have: a budget, an archive of replies, and retries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import answering
from tests.processes import beside, figeval
from tests.test_third_party_types import install_package

READ_TOKENS, WRITTEN_TOKENS = 200, 1  # tokens that the server counts for each answer


@dataclass
class Server:
    """What the server was asked and has answered; `plan` is the status of the next requests, then all are answered."""

    url: str = ""
    plan: list[int] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    hang_at: int = 0  # number of answers after which it is silent
    silent: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: Server

    def do_GET(self) -> None:
        self.reply(404, {})

    def do_POST(self) -> None:
        state = self.server_state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/chat"
        with state.lock:
            status = state.plan.pop(0) if state.plan else 200
            hangs = state.hang_at and state.answered.total() >= state.hang_at
            if status != 200:
                state.refused += 1
            elif not hangs:
                state.answered[body["turns"][-1][1]] += 1
        if hangs:
            state.silent.set()
            state.over.wait(60)
            self.close_connection = True
            return
        self.reply(
            status, {"says": "A", "read": READ_TOKENS, "wrote": WRITTEN_TOKENS} if status == 200 else {"error": "later"}
        )

    def reply(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    handler = type("Bound", (Handler,), {"server_state": state})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with answering(http):
        state.url = f"http://127.0.0.1:{http.server_port}"
        yield state
        state.over.set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder into which the distribution is installed, to be put on PYTHONPATH."""
    return str(install_package("figeval_acme", tmp_path_factory.mktemp("site")))


def command(server: Server, output: str = "out", **options: object) -> list[str]:
    model_args = ",".join(f"{name}={value}" for name, value in {"base_url": server.url, **options}.items())
    model = ["--model", "acme_chat:small", "--model_args", model_args]
    return ["run", "--tasks", "mini_fables", *model, "--no_baselines", "-o", output]


def task_of(folder: Path) -> dict[str, Any]:
    record = json.loads((folder / "run.json").read_text())
    return {**record["tasks"][0], "description": record["model"]["description"]}


@pytest.mark.usefixtures("warm_start")
def test_temporary_failures_are_retried_and_replies_are_kept(site: str, server: Server, tmp_path: Path) -> None:
    server.plan = [429, 500, 200, 503]
    figeval(*command(server), cwd=tmp_path, PYTHONPATH=site)
    task = task_of(tmp_path / "out")
    assert (task["route"], task["status"], task["n"]) == ("by_letter", "done", 20)
    assert server.refused == 3
    assert set(server.answered.values()) == {1}
    assert len(server.answered) == 20
    assert task["description"]["tokens_in"] == 20 * READ_TOKENS
    assert task["description"]["faults"] == {"429": 1, "500": 1, "503": 1}
    figeval(*command(server, "again"), cwd=tmp_path, PYTHONPATH=site)  # another run of the same questions
    assert server.answered.total() == 20
    assert task_of(tmp_path / "again")["scores"] == task["scores"]


@pytest.mark.usefixtures("warm_start")
def test_a_budget_ends_the_run_and_a_larger_one_pays_for_the_rest(site: str, server: Server, tmp_path: Path) -> None:
    prices = {"input_price": 100, "output_price": 100, "max_concurrent": 2}
    limited = figeval(*command(server, **prices), "--max_cost", "0.25", cwd=tmp_path, code=2, PYTHONPATH=site)
    assert "the budget (--max_cost 0.25) does not allow another request" in limited.stderr
    first = server.answered.total()
    assert 0 < first < 20
    assert first * (READ_TOKENS + WRITTEN_TOKENS) * 100 / 1_000_000 <= 0.25
    figeval(*command(server, **prices), "--max_cost", "1", cwd=tmp_path, PYTHONPATH=site)
    assert set(server.answered.values()) == {1}
    assert task_of(tmp_path / "out")["description"]["cost"] == pytest.approx(
        20 * (READ_TOKENS + WRITTEN_TOKENS) * 100 / 1_000_000
    )
    refused = figeval(*command(server, "other"), "--max_cost", "1", cwd=tmp_path, code=2, PYTHONPATH=site)
    assert "--max_cost needs prices" in refused.stderr
    refused = figeval(*command(server, "other"), "--reasoning", "on", cwd=tmp_path, code=2, PYTHONPATH=site)
    assert "reasoning" in refused.stderr


@pytest.mark.slow
def test_what_was_paid_before_a_kill_is_not_paid_twice(site: str, server: Server, tmp_path: Path) -> None:
    server.hang_at = 5
    variables = {**os.environ, "PYTHONPATH": beside(site)}
    words = [sys.executable, "-m", "figeval", *command(server, max_concurrent=2)]
    with subprocess.Popen(
        words, cwd=tmp_path, env=variables, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as run:
        assert server.silent.wait(60)
        stored = tmp_path / "home/api_memo/answers.sqlite3"
        assert stored.exists()
        run.send_signal(signal.SIGKILL)
    server.hang_at = 0
    server.over.set()
    figeval(*command(server, max_concurrent=2), cwd=tmp_path, PYTHONPATH=site)
    assert len(server.answered) == 20
    assert server.answered.total() <= 21  # one answer may have been on its way when the process was killed


def test_a_response_without_an_answer_is_an_error_of_the_example(site: str, tmp_path: Path) -> None:
    program = (
        "import figeval, figeval_acme.chat as chat\n"
        "assert chat.backend.answers_in_parallel and not chat.backend.constrains_answers\n"
        "import inspect; names = inspect.signature(chat.backend).parameters\n"
        "assert {'model', 'base_url', 'max_cost', 'account'} <= names.keys() and 'batch' not in names\n"
        "model = chat.backend('small', base_url='http://127.0.0.1:9')\n"
        "answer = model.dialect.read({'says': 'A', 'read': 1, 'wrote': 1})\n"
        "assert answer.reply.text == 'A' and answer.usage.total == 2\n"
        "try:\n    model.dialect.read({'error': 'none'})\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": beside(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Unreadable AcmeChat.read raised KeyError\n", done.stderr
