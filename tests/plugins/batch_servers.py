"""An imitation of the batch APIs of OpenAI and Anthropic: it takes its time, fails, expires, shuffles, loses."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback import answering
from tests.plugins.servers import Server

CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
Fate = Callable[[str, int], str]
"""`fate(question, attempt)`: ok, error (of the server), invalid, forbidden, expired, or lost (no line at all)."""


@dataclass
class Batch:
    name: str
    label: str
    requests: list[tuple[str, dict[str, Any]]]
    polls: int
    created: float = field(default_factory=time.time)
    status: str = "in_progress"
    results: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)  # id, body, fate


@dataclass
class BatchDesk:
    """What the server shall do, and what it was asked and has done."""

    url: str = ""
    anthropic: bool = False
    polls: int = 1  # times that a batch is looked at before it has ended
    ends: str = "completed"  # completed, expired, cancelled or failed
    fate: Fate = lambda _question, _attempt: "ok"
    reply: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: answer_to(body)
    quotes: str = ""  # what its messages quote
    max_requests: int = 1000  # requests of a batch
    hang_up: str = ""  # "before" or "after" a batch is created, once
    pause: float = 0.0  # seconds between the creation of a batch and the answer that says so
    faults: int = 0  # GETs that fail from now on
    cut: int = -1  # lines of results after which the connection breaks, once; -1: never
    garbled: int = -1  # line of results that is no JSON, in the first batch; -1: none
    copies: int = 1  # of each line of results
    page: int = 2  # batches per page of the list
    listed: Any = None  # what stands in for the list of batches; "none": there is no list
    foreign: bool = False  # whether results have the ids of another batch
    prefix: str = "batch_"  # of the ids of batches
    batches: dict[str, Batch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    processed: Counter[str] = field(default_factory=Counter)  # question → times that it was answered, and billed
    attempts: Counter[str] = field(default_factory=Counter)
    request_counts: Counter[str] = field(default_factory=Counter)  # method and path
    live_bodies: list[dict[str, Any]] = field(default_factory=list)  # requests outside of batches
    line_end: bytes = b"\n"  # ends the lines of results
    endless: bytes = b""  # what comes instead of results, again and again
    endless_status: int = 200
    lock: threading.RLock = field(default_factory=threading.RLock)
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def create(self, requests: list[tuple[str, dict[str, Any]]], label: str) -> Batch:
        batch = Batch(f"{self.prefix}{len(self.batches)}", label, requests, self.polls)
        self.batches[batch.name] = batch
        return batch

    def look(self, batch: Batch) -> None:
        """Let time pass until somebody looks at a batch."""
        batch.polls -= 1
        if batch.polls < 0 and batch.status == "in_progress":
            batch.status = self.ends
            for key, body in batch.requests if self.ends != "failed" else ():
                question = body["messages"][-1]["content"]
                fate = self.fate(question, self.attempts[question])
                self.attempts[question] += 1
                self.processed[question] += fate == "ok"
                batch.results.append((key, body, fate))
            self.dice.shuffle(batch.results)


def answer_to(body: dict[str, Any]) -> dict[str, Any]:
    """The last question in capitals, in the format of chat completions."""
    text = body["messages"][-1]["content"].upper()
    return {
        "model": "served",
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


def message(body: dict[str, Any]) -> dict[str, Any]:
    """The same in the format of messages."""
    text = body["messages"][-1]["content"].upper()
    used = {"input_tokens": 10, "output_tokens": 5}
    return {"model": "served", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": used}


class BatchHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    desk: BatchDesk

    def log_message(self, *_: object) -> None:
        pass

    def send(self, status: int, content: Any) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, reason: str) -> None:
        self.send(status, {"error": {"message": reason, "type": "invalid_request_error"}})

    # ---- questions --------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        path, desk = urlsplit(self.path).path, self.desk
        with desk.lock:
            desk.request_counts[f"GET {path}"] += 1
            if path == "/v1/models":
                return self.refuse(404, "no list of models")
            if desk.faults:
                desk.faults -= 1
                return self.send(503, b"<html>oops</html>")
            if path in ("/v1/batches", "/v1/messages/batches"):
                return self.list_batches()
            if not path.startswith("/v1/"):
                return self.refuse(404, "no such path")
            return self.send_batch(path.removeprefix("/v1/messages").removeprefix("/v1").split("/")[1:])

    def send_batch(self, parts: list[str]) -> None:
        desk = self.desk
        kind, name, *rest = parts
        if kind == "files" and rest == ["content"] and name in desk.files:
            return self.lines(desk.files[name])
        if kind != "batches" or name not in desk.batches:
            return self.refuse(404, f"no {name}")
        batch = desk.batches[name]
        if rest == ["results"]:
            return self.lines(b"".join(anthropic_line(*result) for result in batch.results if result[2] != "lost"))
        desk.look(batch)
        return self.send(200, self.batch_fields(batch))

    def list_batches(self) -> None:
        desk, query = self.desk, parse_qs(urlsplit(self.path).query)
        assert int(query["limit"][0]) <= 100
        if desk.listed is not None:
            return self.refuse(404, "no list") if desk.listed == "none" else self.send(200, desk.listed)
        newest = sorted(desk.batches.values(), key=lambda batch: -batch.created)
        after = query.get("after_id" if desk.anthropic else "after", [""])[0]
        names = [batch.name for batch in newest]
        rest = newest[names.index(after) + 1 :] if after else newest
        shown = rest[: desk.page]
        return self.send(
            200, {"data": [self.batch_fields(batch) for batch in shown], "has_more": len(rest) > len(shown)}
        )

    def batch_fields(self, batch: Batch) -> dict[str, Any]:
        ended = batch.status != "in_progress"
        n, failed = len(batch.requests), sum(fate != "ok" for _, _, fate in batch.results)
        if self.desk.anthropic:
            counts = {"processing": 0 if ended else n, "succeeded": (n - failed) * ended, "errored": failed}
            return {
                "id": batch.name,
                "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat(),
                "processing_status": "ended" if ended else "in_progress",
                "cancel_initiated_at": "2026-01-01T00:00:00Z" if batch.status == "cancelled" else None,
                "request_counts": {**counts, "canceled": 0, "expired": 0},
                "results_url": "http://elsewhere.invalid/results",
            }
        files = self.written(batch) if ended else {}
        return {
            "id": batch.name,
            "created_at": int(batch.created),
            "status": batch.status,
            "metadata": {"figeval": batch.label},
            "errors": {"data": [{"code": "invalid_model", "message": f"The model is not known. {self.desk.quotes}"}]}
            if batch.status == "failed"
            else None,
            "request_counts": {"total": n, "completed": (n - failed) * ended, "failed": failed},
            **files,
        }

    def written(self, batch: Batch) -> dict[str, str]:
        files = {}
        for key, succeeded in (("output_file_id", True), ("error_file_id", False)):
            lines = [
                openai_line(*line, self.desk.reply)
                for line in batch.results
                if (line[2] == "ok") == succeeded and line[2] != "lost"
            ]
            if lines:
                files[key] = f"{key}_{batch.name}"
                message = f"not executed in time {self.desk.quotes}".encode()
                self.desk.files[files[key]] = b"".join(lines).replace(b"not executed in time", message)
        return files

    def lines(self, content: bytes) -> None:
        desk = self.desk
        if desk.endless:
            return self.send_endlessly()
        if desk.foreign:
            content = content.replace(b'"custom_id": "', b'"custom_id": "x')
        content = b"".join(line * desk.copies for line in content.splitlines(keepends=True))
        if desk.garbled >= 0 and len(desk.batches) == 1:
            lines = content.splitlines(keepends=True)
            content = b"".join([*lines[: desk.garbled], b'{"custom_id": "half\n', *lines[desk.garbled + 1 :]])
        if desk.cut < 0:
            return self.send(200, content.replace(b"\n", desk.line_end))
        whole_lines = b"\n".join(content.split(b"\n")[: desk.cut]) + b"\n"
        desk.cut = -1
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(whole_lines)
        self.close_connection = True
        return None

    def send_endlessly(self) -> None:
        self.send_response(self.desk.endless_status)
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while True:
                self.wfile.write(self.desk.endless)

    # ---- submissions ------------------------------------------------------------------------------------------------

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, desk = urlsplit(self.path).path, self.desk
        with desk.lock:
            desk.request_counts[f"POST {path}"] += 1
            if path == "/v1/files":
                return self.upload(body)
            if path == "/v1/batches":
                return self.create(json.loads(body))
            if path == "/v1/messages/batches":
                return self.submit(
                    [(request["custom_id"], request["params"]) for request in json.loads(body)["requests"]], ""
                )
            if path not in ("/v1/chat/completions", "/v1/messages"):
                return self.refuse(404, "no such path")
            request = json.loads(body)
            desk.live_bodies.append(request)
            return self.send(200, message(request) if path.endswith("/messages") else desk.reply(request))

    def upload(self, body: bytes) -> None:
        assert b'name="purpose"\r\n\r\nbatch' in body and b'filename="figeval-' in body
        _, _, rest = body[body.index(b'name="file"') :].partition(b"\r\n\r\n")
        boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
        content = rest[: rest.index(b"\r\n--" + boundary)]
        name = f"file_{len(self.desk.files)}"
        self.desk.files[name] = content
        self.send(200, {"id": name, "object": "file", "purpose": "batch"})

    def create(self, submission: dict[str, Any]) -> None:
        assert submission["completion_window"] == "24h" and submission["endpoint"] == "/v1/chat/completions"
        lines = [json.loads(line) for line in self.desk.files[submission["input_file_id"]].splitlines()]
        assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
        self.submit([(line["custom_id"], line["body"]) for line in lines], submission["metadata"]["figeval"])

    def submit(self, requests: list[tuple[str, dict[str, Any]]], label: str) -> None:
        desk = self.desk
        names = [name for name, _ in requests]
        if len(requests) > desk.max_requests:
            return self.refuse(400, f"a batch has at most {desk.max_requests} requests")
        if not all(map(CUSTOM_ID.fullmatch, names)) or len(set(names)) < len(names):
            return self.refuse(400, "custom_id must be unique and match the pattern")
        fault, desk.hang_up = desk.hang_up, ""
        if fault == "before":
            self.close_connection = True
            return None
        batch = desk.create(requests, label)
        if fault == "after":
            self.close_connection = True
            return None
        time.sleep(desk.pause)
        return self.send(200, self.batch_fields(batch))


def openai_line(key: str, body: dict[str, Any], fate: str, reply: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    responses: dict[str, Any] = {
        "ok": {"response": {"status_code": 200, "body": reply(body)}, "error": None},
        "error": {"response": {"status_code": 500, "body": {"error": {"message": "server error"}}}, "error": None},
        "invalid": {"response": {"status_code": 400, "body": {"error": {"message": "too long"}}}, "error": None},
        "forbidden": {"response": {"status_code": 403, "body": {"error": {"message": "no"}}}, "error": None},
        "expired": {"response": None, "error": {"code": "batch_expired", "message": "not executed in time"}},
    }
    return json.dumps({"id": "r", "custom_id": key, **responses[fate]}).encode() + b"\n"


def anthropic_line(key: str, body: dict[str, Any], fate: str) -> bytes:
    def failed(kind: str) -> dict[str, Any]:
        return {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": kind}}}

    results: dict[str, Any] = {
        "ok": {"type": "succeeded", "message": message(body)},
        "error": failed("api_error"),
        "invalid": failed("invalid_request_error"),
        "forbidden": failed("permission_error"),
        "expired": {"type": "expired"},
    }
    return json.dumps({"custom_id": key, "result": results[fate]}).encode() + b"\n"


@contextmanager
def batch_desk(**desk_options: Any) -> Iterator[BatchDesk]:
    """A server with both APIs on a free port of this machine."""
    desk = BatchDesk(**desk_options)
    handler = type("OwnHandler", (BatchHandler,), {"desk": desk})
    server = Server(("127.0.0.1", 0), handler)
    with answering(server) as address:
        desk.url = f"{address}/v1"
        yield desk
