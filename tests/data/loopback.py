"""Local HTTP server whose responses can be made faulty, one at a time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from figeval.data.sources import DataFile, Source

Behaviour = Callable[["Handler", bytes], None]


@dataclass
class Site:
    """What the server has, what it shall do next, and what it was asked."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    plan: list[Behaviour] = field(default_factory=list)  # one per request; then it behaves
    ranges: bool = True
    etag: str = ""
    requests: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def file(self, path: str, body: bytes, member: str | None = None, content: bytes | None = None) -> DataFile:
        """Put a file on the server; `content` is what the archive `body` holds under `member`."""
        self.bodies[f"/{path}"] = body
        served = body if content is None else content
        source = Source(
            path=path if member is None else member,
            url=f"{self.url}/{path}",
            sha256=hashlib.sha256(served).hexdigest(),
            bytes=len(served),
            member=member,
        )
        return DataFile("bench", source)


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        self.site.requests.append(dict(self.headers.items()) | {"path": self.path})
        behave = self.site.plan.pop(0) if self.site.plan else serve
        behave(self, self.site.bodies.get(self.path, b""))

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def give(self, body: bytes) -> None:
        self.site.sent += len(body)  # before the client can have it and look
        self.wfile.write(body)
        self.wfile.flush()

    def part(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body as HTTP wants them for the range that was asked for."""
        headers = {"ETag": self.site.etag} if self.site.etag else {}
        requested_range = self.headers.get("Range", "")
        same = self.headers.get("If-Range", self.site.etag) == self.site.etag
        if not (requested_range and self.site.ranges and same):
            return 200, headers | {"Content-Length": str(len(body))}, body
        start = int(requested_range.removeprefix("bytes=").rstrip("-"))
        if start >= len(body):
            return 416, headers | {"Content-Length": "0", "Content-Range": f"bytes */{len(body)}"}, b""
        rest = body[start:]
        content_range = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return 206, headers | {"Content-Length": str(len(rest)), "Content-Range": content_range}, rest

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle is what many of these tests are about."""


def serve(handler: Handler, body: bytes) -> None:
    if handler.path not in handler.site.bodies:
        return answer(404)(handler, b"")
    status, headers, rest = handler.part(body)
    handler.begin(status, headers)
    return handler.give(rest)


def truncate(count: int, *, announced: bool = True) -> Behaviour:
    """Send `count` bytes and hang up, having announced the full length or nothing."""

    def behave(handler: Handler, body: bytes) -> None:
        status, headers, rest = handler.part(body)
        if not announced:
            del headers["Content-Length"]
        handler.begin(status, headers)
        handler.give(rest[:count])

    return behave


def stall(count: int) -> Behaviour:
    """Send `count` bytes, then nothing, with the connection open."""

    def behave(handler: Handler, body: bytes) -> None:
        status, headers, rest = handler.part(body)
        handler.begin(status, headers)
        handler.give(rest[:count])
        handler.site.over.wait(20)

    return behave


def answer(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Send this status, body and headers, whatever was asked."""

    def behave(handler: Handler, _: bytes) -> None:
        headers_by_name = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.begin(status, {"Content-Length": str(len(body))} | headers_by_name)
        handler.give(body)

    return behave
