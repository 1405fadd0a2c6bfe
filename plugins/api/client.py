"""One attempt at one request: the request is sent, and its response becomes an answer or an error.

| response | result |
|---|---|
| an answer | the answer |
| 408, 429, 5xx, a timeout, a broken connection, a body that is no answer | `RetryableError` |
| a content filter's refusal | an answer that ended by `refusal` |
| 403 without a sign of a filter | `ForbiddenError`: about the key if no request has succeeded, else about this one |
| 401–405, 501, a redirection, no credit, no server at the first request | `ModelError`: fails for all requests |
| any other status, a context that is too long | `PermanentError`: this request will never be answered, others may be |

An error in a body of status 200 is judged by the status that it names (`faults`).
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
import zlib
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from figeval.errors import ModelError
from figeval.io.json_files import parse_json
from figeval.types import JSON, Reply

from .api_settings import ApiSettings, Endpoint
from .archive import Usage
from .dialects import Dialect, DialectAnswer, Unreadable, billed_usage, scrub_answer
from .faults import complaint, fault_in, is_bad_key, is_broke, is_refusal, is_too_long, status_of

if TYPE_CHECKING:
    from http.cookiejar import CookieJar
    from ssl import SSLContext

    from httpx import AsyncClient

T = TypeVar("T")
D = TypeVar("D", bound=Dialect)
CONNECT_SECONDS = 10.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = (
    0.5,
    60.0,
)  # seconds; a Retry-After is honoured up to the longest
DICE = random.Random()  # leaves the program's own random state alone
ENCODING = {"Accept-Encoding": "gzip, deflate"}
UNAVAILABLE = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}  # or loading
TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
MODEL_KEYS = ("id", "root", "parent", "max_model_len", "meta")  # keys of a model in vLLM's and llama.cpp's lists
MAX_LISTED_MODELS = 8
MAX_MESSAGE_CHARS = 300  # characters of a server's message that are kept
MAX_BYTES = 1 << 24  # 16 MiB, decompressed
ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
COMPRESSIONS = {"gzip", "x-gzip", "deflate"}


class RetryableError(Exception):
    """A temporary failure, worth another attempt.

    Attributes:
        kind: the status, or a word if there is none.
        wait: seconds to wait if the server named them, else None.
        lost: whether an answer may have been lost on the way, and will be billed.
        spent: tokens that the server counted beside its error, if it did.
    """

    def __init__(
        self, kind: str, message: str, *, wait: float | None = None, lost: bool = False, spent: Usage | None = None
    ) -> None:
        super().__init__(message)
        self.kind, self.wait, self.lost, self.spent = kind, wait, lost, spent

    @property
    def crowded(self) -> bool:
        """True if the server reports that we send too fast."""
        return self.kind == str(HTTPStatus.TOO_MANY_REQUESTS.value)


class PermanentError(Exception):
    """A failure that another attempt would repeat."""


class ForbiddenError(ModelError):
    """A 403 that does not say whether it is about the key or about this question.

    Attributes:
        server_message: what the server says.
    """

    def __init__(self, message: str, server_message: str) -> None:
        super().__init__(message)
        self.server_message = server_message


@cache
def certificates() -> SSLContext:
    """Return a TLS context for all clients, because reading the certificates takes 30 ms."""
    import httpx

    return httpx.create_ssl_context()


def no_cookies() -> CookieJar:
    """Return a jar that stays empty. Servers answer without cookies, and httpx fails to send some that they set."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


@dataclass(slots=True)
class Client(Generic[D]):
    """A client of one endpoint, which it asks in one dialect.

    Attributes:
        price_source: where the prices in the settings are from, if the user did not give them.
        met: whether the server has answered.
    """

    dialect: D
    endpoint: Endpoint
    settings: ApiSettings
    price_source: str = ""
    met: bool = False
    _served_models: str | None = None

    @property
    def url(self) -> str:
        """Address of the requests."""
        return self.endpoint.url + self.dialect.path

    def open_connection(self) -> AsyncClient:
        """Return an `httpx.AsyncClient`, to be used as a context manager."""
        import httpx

        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),  # the attempt as a whole has a timeout
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.settings.max_concurrent),
            **self.connection_options({"Content-Type": "application/json", **ENCODING}),
        )

    def connection_options(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return what every connection to the server has: headers with the key, no cookies, certificates, a proxy."""
        return {
            "headers": {**headers, **self.dialect.headers(self.endpoint.key)},
            "cookies": no_cookies(),
            "verify": certificates(),
            "trust_env": not self.endpoint.local,  # there is no proxy between us and this machine
        }

    async def attempt(self, http: AsyncClient, body: bytes) -> DialectAnswer:
        """Return the answer to one request.

        Raises:
            RetryableError: see the table above.
            PermanentError: see the table above.
            ModelError: see the table above.
        """
        import httpx

        try:
            async with asyncio.timeout(self.settings.timeout):
                async with http.stream("POST", self.url, content=body) as response:
                    self.met = True
                    response_body = Body(response.headers)
                    async for piece in response.aiter_raw():
                        response_body.feed(piece)
        except TimeoutError:
            raise RetryableError("timeout", f"no answer within {self.settings.timeout:g} s", lost=True) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if not self.met:
                raise ModelError(self.no_server_message(error)) from None
            raise RetryableError("connection", "the server can no longer be reached") from None
        except httpx.RequestError as error:
            raise RetryableError("connection", f"the connection broke ({type(error).__name__})", lost=True) from None
        except BadBody as error:
            raise RetryableError("unreadable", f"unreadable response: {error}", lost=True) from None
        return self.judge(response.status_code, response.headers, response_body.content)

    def served_models(self) -> str:
        """Return the models that a server on this machine lists, or "" for other servers. It is asked once.

        The same address and name may serve another model tomorrow, whose answers must not be mixed with today's.

        Raises:
            ModelError: the server does not respond.
        """
        if self._served_models is None:
            self._served_models = self._ask_served_models() if self.endpoint.local else ""
        return self._served_models

    def _ask_served_models(self) -> str:
        import httpx

        try:
            status, content = run_async(self._fetch_model_list())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ModelError(self.no_server_message(error)) from None
        except (httpx.TimeoutException, TimeoutError):  # one that is busy would seem to serve another model later
            raise self._unknown_model_error(f"within {self.settings.timeout:g} s") from None
        except (httpx.RequestError, BadBody):
            return ""
        if status in UNAVAILABLE | TRANSIENT:
            raise self._unknown_model_error(f"(status {status})")
        return self.endpoint.scrub(describe_models(parse_body(content), self.settings.model))

    def _unknown_model_error(self, detail: str) -> ModelError:
        return ModelError(
            f"{self.endpoint.host} does not say {detail} which model it serves; if it is busy, run the same command "
            "again later, or give it longer (--model_args timeout=…)"
        )

    async def _fetch_model_list(self) -> tuple[int, bytes]:
        """Return the status and the body of the server's list of models.

        The total time is limited, because a slow server could send single bytes forever.
        """
        async with (
            asyncio.timeout(self.settings.timeout),
            self.open_connection() as http,
            http.stream("GET", f"{self.endpoint.url}/models") as response,
        ):
            response_body = Body(response.headers)
            async for piece in response.aiter_raw():
                response_body.feed(piece)
        return response.status_code, response_body.content

    def no_server_message(self, error: Exception) -> str:
        """Return the message for a server that cannot be reached."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"no server at {self.endpoint.url} ({reason}); start it, or correct --model_args base_url="

    def judge(self, status: int, headers: Mapping[str, str], content: bytes) -> DialectAnswer:
        """Return the answer in a response. Raises what `attempt` raises."""
        body = full_body = parse_body(content)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            fault = fault_in(body)
            if fault is None:
                return self._parse_answer(body)
            body, status = fault, status_of(fault)
        detail = self.endpoint.scrub(complaint(body, content))  # before it is cut: half of a key would not be found
        detail = detail if len(detail) <= MAX_MESSAGE_CHARS else detail[:MAX_MESSAGE_CHARS] + "…"
        if is_refusal(status, body, detail):
            return DialectAnswer(Reply(text="", finish="refusal", error=detail))
        if status == HTTPStatus.PAYMENT_REQUIRED or is_broke(body, detail):
            raise ModelError(f"{self.endpoint.host}: {detail}; top up the account, then run the same command again")
        status = HTTPStatus.UNAUTHORIZED if is_bad_key(status, body, detail) else status
        if cure := self._cure(status):
            message = f"{self.endpoint.host} answered {int(status)} ({detail}); {cure}"
            raise ForbiddenError(message, detail) if status == HTTPStatus.FORBIDDEN and body else ModelError(message)
        is_temporary = status in TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_temporary and not is_too_long(status, body, detail):
            wait = retry_after(headers.get("retry-after"))
            spent = billed_usage(full_body)
            raise RetryableError(str(int(status)), f"{int(status)} {detail}".strip(), wait=wait, spent=spent)
        raise PermanentError(f"{int(status)} {detail}".strip())

    def _parse_answer(self, body: JSON) -> DialectAnswer:
        try:
            return scrub_answer(self.dialect.read(body), self.endpoint)
        except Unreadable as error:
            raise RetryableError("unreadable", f"unreadable response: {error}", lost=True) from None

    def _cure(self, status: int) -> str:
        """Return the cure for a status that is the same for every request, or "" for other statuses."""
        variable = self.endpoint.key_variable
        option = f"base_url ({self.endpoint.url}, without {self.dialect.path})"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return f"correct {option}: it redirects elsewhere"
        wrong_kind = f"correct {option}: what is there accepts no questions"
        cures: dict[int, str] = {
            HTTPStatus.UNAUTHORIZED: f"correct the key in {variable}",
            HTTPStatus.FORBIDDEN: f"the key in {variable} does not permit this",
            HTTPStatus.NOT_FOUND: f"correct {option} or the model's name {self.settings.model!r}",
            HTTPStatus.METHOD_NOT_ALLOWED: wrong_kind,
            HTTPStatus.NOT_IMPLEMENTED: wrong_kind,
        }
        return cures.get(status, "")


def parse_body(content: bytes) -> JSON:
    """Return a body as a JSON object: itself, or the error in a list (Gemini).

    Anything else becomes {}, which no dialect accepts as an answer.
    """
    try:
        body = parse_json(content)
    except ValueError:
        return {}
    bodies = body if isinstance(body, list) else [body]
    return next(
        (
            candidate
            for candidate in bodies
            if isinstance(candidate, dict) and (candidate is body or "error" in candidate)
        ),
        {},
    )


def describe_models(body: JSON, name: str) -> str:
    """Return what a list of models declares about this one, without fields that change when the server restarts.

    If no model has this id, all of a short list count (llama.cpp accepts any name for its only model).
    """
    data = body.get("data")
    models = [model for model in data if isinstance(model, Mapping)] if isinstance(data, list) else []
    matches = [model for model in models if model.get("id") == name] or models
    if not matches or len(matches) > MAX_LISTED_MODELS:
        return ""
    return json.dumps([{key: model[key] for key in MODEL_KEYS if key in model} for model in matches], sort_keys=True)


def pause_seconds(attempt: int, wait: float | None) -> float:
    """Return the seconds of exponential back-off with full jitter, at least those that the server asked for."""
    backoff = DICE.uniform(0, min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempt))
    return max(backoff, min(wait or 0.0, MAX_PAUSE_SECONDS))


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait by a `Retry-After` header: a number of seconds or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def run_async(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine to its end, in a thread of its own if an event loop is already running, e.g. in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(copy_context().run, asyncio.run, work).result()


class BadBody(Exception):
    """The body is too large or wrongly compressed; the message says which."""


class Body:
    """The body of a response, received piece by piece.

    It is decompressed here with a limit on its size, because a few kilobytes of compressed data can be gigabytes of
    text.

    Raises:
        BadBody: the compression is not one that was requested.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in COMPRESSIONS | {"", "identity"}:
            raise BadBody(f"a body compressed as {encoding[:40]!r}, which was not requested")
        self._unpacker = zlib.decompressobj(ZLIB_OR_GZIP) if encoding in COMPRESSIONS else None
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        """All data received so far, decompressed."""
        return bytes(self._content)

    def feed(self, piece: bytes) -> None:
        """Add a piece. Raises `BadBody` as soon as the body is too large, before more is decompressed."""
        room = MAX_BYTES - len(self._content) + 1
        try:
            self._content += piece if self._unpacker is None else self._unpacker.decompress(piece, room)
        except zlib.error as error:
            raise BadBody(f"a body that cannot be decompressed ({error})") from error
        if len(self._content) > MAX_BYTES:
            raise BadBody(f"a body of more than {MAX_BYTES:,} bytes")
