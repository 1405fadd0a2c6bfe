"""Servers for tests of API models: a real one with a tiny model, and one, or a proxy, with faulty responses."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.loopback import answering

Behaviour = Callable[["Handler", bytes], None]
EXHAUSTED = r"the budget \(--max_\w+ .* does not allow another request"
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"


# ---- a real server ---------------------------------------------------------------------------------------------------


def talkative(folder: Path) -> Path:
    """Give a checkpoint a chat template."""
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": TEMPLATE}))
    return folder


@contextmanager
def transformers_serve(folder: Path, log: Path, python: Path) -> Iterator[str]:
    """The address of `transformers serve` with a checkpoint, in a process of its own."""
    port = free_port()
    program = "from transformers.cli.transformers import main; main()"
    options = ["serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen([python, "-c", program, *options], env=environment, stdout=output, stderr=output)
        try:
            while not healthy(port):
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


# ---- one that misbehaves ---------------------------------------------------------------------------------------------


@dataclass
class Desk:
    """What the server shall do, and what it was asked."""

    url: str = ""
    models: Any = None  # what GET /models answers
    listing: int = 200  # with which status
    upstream: str = ""  # the base URL of the server behind; without one it answers by itself
    plan: list[Behaviour] = field(default_factory=list)  # one per request; then `usual`
    usual: Behaviour = field(default_factory=lambda: well)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    delivered: Counter[str] = field(default_factory=Counter)  # question → whole answers sent
    upstream_saw: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)  # by name of behaviour
    at_once: int = 0
    most_at_once: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    desk: Desk

    def do_GET(self) -> None:
        self.send(self.desk.listing if self.desk.models else 404, json.dumps(self.desk.models or {}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        desk = self.desk
        with desk.lock:
            desk.requests.append(json.loads(body))
            desk.headers.append({name.lower(): value for name, value in self.headers.items()})
            desk.times.append(time.monotonic())
            desk.at_once += 1
            desk.most_at_once = max(desk.most_at_once, desk.at_once)
            behave = desk.plan.pop(0) if desk.plan else desk.usual
        try:
            behave(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with desk.lock:
                desk.at_once -= 1

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """What a server in good health would say."""
        with self.desk.lock:
            self.desk.upstream_saw[question(body)] += 1
        return (
            forward(self.desk.upstream, self.path, body)
            if self.desk.upstream
            else (200, canned_answer(self.path, body))
        )

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle is what many of these tests are about."""


@contextmanager
def desk_open(upstream: str = "") -> Iterator[Desk]:
    """A server that does as `desk.plan` says, one entry per request."""
    desk = Desk(upstream=upstream)
    handler = type("Bound", (Handler,), {"desk": desk})
    server = Server(("127.0.0.1", 0), handler)
    with answering(server) as address:
        desk.url = f"{address}/v1"
        try:
            yield desk
        finally:
            desk.over.set()


def forward(upstream: str, path: str, body: bytes) -> tuple[int, bytes]:
    """The status and body that the server behind answers with."""
    parts = urlsplit(upstream)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def question(body: bytes) -> str:
    """The last turn of a conversation."""
    return str(json.loads(body)["messages"][-1]["content"])


def canned_answer(path: str, body: bytes) -> bytes:
    """An answer without a model: the question in capitals."""
    question_text = question(body).upper()
    return anthropic_answer(question_text) if path.endswith("/messages") else openai_answer(question_text)


def openai_answer(text: str | None, reason: str | None = "stop", used: bool = True, **message: Any) -> bytes:
    """An answer of chat completions that took 10 tokens and wrote 5."""
    answer: dict[str, Any] = {
        "model": "served-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": reason}
        ],
    }
    if used:
        answer["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return json.dumps(answer).encode()


def anthropic_answer(text: str, reason: str = "end_turn", *blocks: dict[str, str]) -> bytes:
    """An answer of the messages API that took 10 tokens and wrote 5."""
    content = [*blocks, {"type": "text", "text": text}]
    used = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 5}
    return json.dumps({"model": "served-2", "content": content, "stop_reason": reason, "usage": used}).encode()


# ---- behaviours ------------------------------------------------------------------------------------------------------


def well(handler: Handler, body: bytes) -> None:
    """As it should be."""
    status, answer = handler.answer(body)
    handler.send(status, answer)
    with handler.desk.lock:
        handler.desk.delivered[question(body)] += 1


def says(status: int, body: Any = b"", **headers: str) -> Behaviour:
    """Answer with this status and body, whatever was asked; `headers` are Retry_After and the like."""

    def behave(handler: Handler, _: bytes) -> None:
        handler.send(status, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)

    return behave


def after(seconds: float, behaviour: Behaviour = well) -> Behaviour:
    """Take some time."""

    def behave(handler: Handler, body: bytes) -> None:
        handler.desk.over.wait(seconds)
        behaviour(handler, body)

    return behave


def stall(handler: Handler, _: bytes) -> None:
    """Be slower than any client is patient."""
    handler.desk.over.wait(30)
    handler.close_connection = True


def truncate(handler: Handler, body: bytes) -> None:
    """Announce the whole answer, send half of it and hang up."""
    status, answer = handler.answer(body)
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(answer)))
    handler.end_headers()
    handler.wfile.write(answer[: len(answer) // 2])
    handler.close_connection = True


def mangle(handler: Handler, body: bytes) -> None:
    """Send half of the answer as if it were the whole: no JSON."""
    status, answer = handler.answer(body)
    handler.send(status, answer[: len(answer) // 2])


def hang_up(handler: Handler, _: bytes) -> None:
    """Close the connection without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def faulty(share: float, seed: int) -> Behaviour:
    """Misbehave in so many of all cases, in all ways alike; the order is that of the seed."""
    dice = random.Random(seed)
    ways: dict[str, Behaviour] = {
        "429": says(429, {"error": {"message": "slow down"}}, Retry_After="0"),
        "429 for a second": says(429, {"error": {"message": "slow down"}}, Retry_After="1"),
        "500": says(500, b"<html>oops</html>"),
        "slow": stall,
        "truncated": truncate,
        "invalid": mangle,
    }

    def behave(handler: Handler, body: bytes) -> None:
        with handler.desk.lock:
            name = dice.choice(list(ways)) if dice.random() < share else "well"
            handler.desk.done[name] += 1
        ways.get(name, well)(handler, body)

    return behave
