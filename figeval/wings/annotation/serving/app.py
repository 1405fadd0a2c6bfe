"""The web application behind the page: three static files, the items of an annotator, and a place for answers.

Whoever can open the address may answer, so the address has a secret token. Other pages in the same browser must not:
they could send requests here although they cannot read the replies, or have their own host name resolved to this
machine (DNS rebinding). Therefore a request must name this server in `Host`, must not come from another origin, and
needs the token in a header that other pages cannot set. The token is in the fragment of the address, which browsers
send to nobody.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from figeval import DataError, FigevalError, OptionError
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.validation import validate
from figeval.records.provenance import now
from figeval.wings.annotation.items import TEXT_A, TEXT_B, Questionnaire
from figeval.wings.annotation.journal import Journal, PageAnswer, find_journal, find_journals

if TYPE_CHECKING:
    import asyncio

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
MAX_REQUEST_BYTES = 1 << 14
MAX_CONNECTIONS = 64
IDLE_SECONDS = 10.0  # that a connection may take to send the head of its first or next request
API = "/api/"
STATIC = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class _SentAnswer(BaseModel):
    """An answer as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    annotator: str
    item: str
    criterion: str
    label: str


class _Refusal(Exception):
    """A request that is answered with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Guard:
    """Middleware that refuses requests from elsewhere and gives every response the headers above."""

    app: ASGIApp
    port: int
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal:
            await JSONResponse({"error": refusal}, 403)(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        hosts = [f"{name}:{self.port}" for name in (HOST, "localhost")]
        host = headers.get("host", "").lower()
        if host not in hosts or len(headers.getlist("host")) > 1:
            return "this address is not that of the server"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return "the request comes from another page"
        expected = f"Bearer {self.token}".encode()
        authorization = headers.get("authorization", "").encode()
        if scope["path"].startswith(API) and not secrets.compare_digest(authorization, expected):
            return "the token is missing or old; open the address that `figeval annotate serve` has printed"
        return ""


@dataclass(frozen=True, slots=True)
class _Pages:
    """Handlers of the routes. Every answer is written while no other request is handled, so none is lost."""

    questionnaire: Questionnaire
    folder: Path
    only: str | None
    sheets: dict[str, str] = field(default_factory=dict)  # of annotators who have no answers yet

    async def annotators(self, _request: Request) -> Response:
        """Return who may answer: the annotator of `--annotator`, or those who have answered already."""
        names = [journal.annotator for journal in find_journals(self.folder)]
        return JSONResponse({"only": self.only, "known": names})

    async def items(self, request: Request) -> Response:
        """Return instructions and criteria, and an annotator's items in order, with the answers so far."""
        journal = self._journal(request.query_params.get("annotator", ""))
        answers: dict[str, dict[str, str]] = {}
        for (item, criterion), answer in journal.answers().items():
            answers.setdefault(item, {})[criterion] = answer.label
        return JSONResponse(
            {
                "annotator": journal.annotator,
                "instructions": self.questionnaire.instructions,
                "criteria": [
                    {"name": criterion.name, "labels": criterion.labels, "description": criterion.description}
                    for criterion in self.questionnaire.criteria
                ],
                "beside": [TEXT_A, TEXT_B] if self.questionnaire.is_of_battles else [],
                "items": [
                    {"item": item, "fields": self.questionnaire.items[item], "answers": answers.get(item, {})}
                    for item in self.questionnaire.order(journal.annotator, self._sheet(journal))
                ],
            }
        )

    async def answer(self, request: Request) -> Response:
        """Store an answer and return it as it was stored."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise _Refusal(415, "an answer is sent as application/json")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_REQUEST_BYTES:
                raise _Refusal(413, f"an answer has at most {MAX_REQUEST_BYTES} bytes")
        try:
            sent = validate(parse_json(body), "the answer", _SentAnswer, DataError, cure="reload the page")
        except InvalidJSON as error:
            raise _Refusal(400, f"the answer is not valid JSON: {error}") from error
        journal = self._journal(sent.annotator)
        criterion, label = self.questionnaire.check_answer(sent.item, sent.criterion, sent.label)
        answer = PageAnswer(annotator=journal.annotator, item=sent.item, criterion=criterion, label=label, time=now())
        try:
            journal.append(answer)
        except OSError as error:
            raise _Refusal(507, f"the answer could not be stored ({error.strerror}); try again") from error
        return JSONResponse(answer.model_dump())

    def _journal(self, name: str) -> Journal:
        journal = find_journal(self.folder, name)
        if self.only is not None and journal.annotator != self.only:
            raise OptionError(f"this address is for {self.only}; ask for another one")
        return journal

    def _sheet(self, journal: Journal) -> str:
        """Return the sheet whose items an annotator judges: the one of this name, the one begun, or the least used."""
        parts = self.questionnaire.parts
        if not parts or f"{journal.annotator}.csv" in parts:
            return f"{journal.annotator}.csv"
        begun = {other.annotator: _begun_sheet(parts, other) for other in find_journals(self.folder)}
        sheets = {**self.sheets, **{name: sheet for name, sheet in begun.items() if sheet}}
        if journal.annotator not in sheets:
            uses = Counter(sheets.values())
            sheets[journal.annotator] = min(parts, key=lambda sheet: uses[sheet])
        self.sheets[journal.annotator] = sheets[journal.annotator]
        return sheets[journal.annotator]


def _begun_sheet(parts: Mapping[str, Sequence[str]], journal: Journal) -> str:
    """Return the sheet with most of an annotator's answers to items that are not in all sheets; empty without any."""
    answered = {item for item, _ in journal.answers()}
    common = set.intersection(*map(set, parts.values()))
    counts = {sheet: len(answered & (set(items) - common)) for sheet, items in parts.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else ""


def application(questionnaire: Questionnaire, folder: Path, only: str | None, port: int, token: str) -> Starlette:
    """Return the application.

    Args:
        questionnaire: items and criteria.
        folder: folder in which answers are stored.
        only: the annotator who may answer; by default, everybody with the address, under a name of their choice.
        port: port that the server listens on, which `Host` must name.
        token: secret that requests must have.
    """
    pages = _Pages(questionnaire, folder, only)
    package = files("figeval.wings.annotation.serving")
    static = [Route(path, _respond(package.joinpath(name).read_bytes(), kind)) for path, (name, kind) in STATIC.items()]
    return Starlette(
        routes=[
            *static,
            Route(f"{API}annotators", pages.annotators),
            Route(f"{API}items", pages.items),
            Route(f"{API}answers", pages.answer, methods=["POST"]),
        ],
        middleware=[Middleware(_Guard, port=port, token=token)],
        exception_handlers={_Refusal: _report_error, FigevalError: _report_error},
    )


def _respond(content: bytes, kind: str) -> Callable[[Request], Response]:
    return lambda _request: Response(content, media_type=kind)


async def _report_error(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, error.status if isinstance(error, _Refusal) else 422)


# ---- connections without a request -----------------------------------------------------------------------------------


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with a limit of the number of connections and of the time without a request.

    A program that opens connections and sends nothing needs no token. Without a limit, it would use up the files that
    the server may have open, and nobody else could connect.
    """

    waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; the one that has been without a request longest makes room for it if necessary."""
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle)
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [
                connection
                for connection in self.connections
                if isinstance(connection, PatientProtocol) and connection.is_idle and connection != self
            ]
            if idle:
                min(idle, key=lambda connection: connection.waiting_since).transport.abort()

    @property
    def is_idle(self) -> bool:
        """True while no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Note when the connection began to wait for its next request."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def _close_if_idle(self) -> None:
        if self.transport.is_closing():
            return
        waited = self.loop.time() - self.waiting_since if self.is_idle else 0.0
        if waited >= IDLE_SECONDS:
            self.transport.abort()
        else:
            self.loop.call_later(IDLE_SECONDS - waited, self._close_if_idle)
