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
import time
import zlib
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from figeval.errors import ModelError
from figeval.io.json_files import parse_json
from figeval.models.archive import Usage
from figeval.types import JSON, Reply

from .dialects import ApiAnswer, Dialect, Unreadable, billed, scrubbed
from .faults import complaint, fault_in, is_bad_key, is_broke, is_refusal, is_too_long, status_of
from .settings import ApiSettings, Endpoint

if TYPE_CHECKING:
    from http.cookiejar import CookieJar
    from ssl import SSLContext

    from httpx import AsyncClient

T = TypeVar("T")
CONNECT = 10.0  # seconds to connect
ENCODING = {"Accept-Encoding": "gzip, deflate"}
AWAY = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}  # loading, or overloaded
TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
DECLARED = ("id", "root", "parent", "max_model_len", "meta")  # keys of a model in vLLM's and llama.cpp's lists
FEW = 8
LONGEST = 300  # characters of a server's message that are kept
MAX_BYTES = 1 << 24  # 16 MiB, decompressed
ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
PACKED = {"gzip", "x-gzip", "deflate"}


class RetryableError(Exception):
    """A temporary failure, worth another attempt.

    Attributes:
        kind: the status, or a word if there is none.
        wait: seconds to wait if the server named them, else None.
        lost: whether an answer may have been lost on the way, and will be billed.
        spent: tokens that the server counted beside its error, if it did.
    """

    def __init__(
        self, kind: str, why: str, *, wait: float | None = None, lost: bool = False, spent: Usage | None = None
    ) -> None:
        super().__init__(why)
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
        said: what the server says.
    """

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


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
class Client:
    """A client of one endpoint. `met` is True once the server has answered."""

    dialect: Dialect
    endpoint: Endpoint
    settings: ApiSettings
    met: bool = False
    _served: str | None = None

    @property
    def url(self) -> str:
        """Address of the requests."""
        return self.endpoint.url + self.dialect.path

    def opened(self) -> AsyncClient:
        """Return an `httpx.AsyncClient`, to be used as a context manager."""
        import httpx

        return httpx.AsyncClient(
            headers={"Content-Type": "application/json", **ENCODING, **self.dialect.headers(self.endpoint.key)},
            timeout=httpx.Timeout(None, connect=CONNECT),  # the attempt as a whole has a timeout
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.settings.max_concurrent),
            cookies=no_cookies(),
            verify=certificates(),
            trust_env=not self.endpoint.local,  # there is no proxy between us and this machine
        )

    async def attempt(self, http: AsyncClient, body: bytes) -> ApiAnswer:
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
                    received = Body(response.headers)
                    async for piece in response.aiter_raw():
                        received.feed(piece)
        except TimeoutError:
            raise RetryableError("timeout", f"no answer within {self.settings.timeout:g} s", lost=True) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if not self.met:
                raise ModelError(self.nobody_there(error)) from None
            raise RetryableError("connection", "the server can no longer be reached") from None
        except httpx.RequestError as error:
            raise RetryableError("connection", f"the connection broke ({type(error).__name__})", lost=True) from None
        except BadBody as error:
            raise RetryableError("unreadable", f"unreadable response: {error}", lost=True) from None
        return self.judge(response.status_code, response.headers, received.content)

    def served(self) -> str:
        """Return the models that a server on this machine lists, or "" for other servers. It is asked once.

        The same address and name may serve another model tomorrow, whose answers must not be mixed with today's.

        Raises:
            ModelError: the server does not respond.
        """
        if self._served is None:
            self._served = self._ask_served() if self.endpoint.local else ""
        return self._served

    def _ask_served(self) -> str:
        import httpx

        try:
            status, content = run_async(self._listed())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ModelError(self.nobody_there(error)) from None
        except (httpx.TimeoutException, TimeoutError):  # one that is busy would seem to serve another model later
            raise self._unknown(f"within {self.settings.timeout:g} s") from None
        except (httpx.RequestError, BadBody):
            return ""
        if status in AWAY | TRANSIENT:
            raise self._unknown(f"(status {status})")
        return self.endpoint.scrub(declared(parsed(content), self.settings.model))

    def _unknown(self, why: str) -> ModelError:
        return ModelError(
            f"{self.endpoint.host} does not say {why} which model it serves; if it is busy, run the same command again "
            "later, or give it longer (--model_args timeout=…)"
        )

    async def _listed(self) -> tuple[int, bytes]:
        """Return the status and the body of the server's list of models.

        The total time is limited, because a slow server could send single bytes forever.
        """
        async with (
            asyncio.timeout(self.settings.timeout),
            self.opened() as http,
            http.stream("GET", f"{self.endpoint.url}/models") as response,
        ):
            received = Body(response.headers)
            async for piece in response.aiter_raw():
                received.feed(piece)
        return response.status_code, received.content

    def nobody_there(self, error: Exception) -> str:
        """Return the message for a server that cannot be reached."""
        what = " ".join(str(error).split()) or type(error).__name__
        return f"no server at {self.endpoint.url} ({what}); start it, or correct --model_args base_url="

    def judge(self, status: int, headers: Mapping[str, str], content: bytes) -> ApiAnswer:
        """Return the answer in a response. Raises what `attempt` raises."""
        body = whole = parsed(content)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            fault = fault_in(body)
            if fault is None:
                return self._read(body)
            body, status = fault, status_of(fault)
        said = self.endpoint.scrub(complaint(body, content))  # before it is truncated: half of a key would not be found
        said = said if len(said) <= LONGEST else said[:LONGEST] + "…"
        if is_refusal(status, body, said):
            return ApiAnswer(Reply(text="", finish="refusal", error=said))
        if status == HTTPStatus.PAYMENT_REQUIRED or is_broke(body, said):
            raise ModelError(f"{self.endpoint.host}: {said}; top up the account, then run the same command again")
        status = HTTPStatus.UNAUTHORIZED if is_bad_key(status, body, said) else status
        if cure := self._cure(status):
            message = f"{self.endpoint.host} answered {int(status)} ({said}); {cure}"
            raise ForbiddenError(message, said) if status == HTTPStatus.FORBIDDEN and body else ModelError(message)
        is_temporary = status in TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_temporary and not is_too_long(status, body, said):
            wait = retry_after(headers.get("retry-after"))
            raise RetryableError(str(int(status)), f"{int(status)} {said}".strip(), wait=wait, spent=billed(whole))
        raise PermanentError(f"{int(status)} {said}".strip())

    def _read(self, body: JSON) -> ApiAnswer:
        try:
            return scrubbed(self.dialect.read(body), self.endpoint)
        except Unreadable as error:
            raise RetryableError("unreadable", f"unreadable response: {error}", lost=True) from None

    def _cure(self, status: int) -> str:
        """Return the cure for a status that is the same for every request, or "" for other statuses."""
        variable = self.settings.api_key_env or self.dialect.variable
        place = f"base_url ({self.endpoint.url}, without {self.dialect.path})"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return f"correct {place}: it redirects elsewhere"
        wrong_kind = f"correct {place}: what is there accepts no questions"
        cures: dict[int, str] = {
            HTTPStatus.UNAUTHORIZED: f"correct the key in {variable}",
            HTTPStatus.FORBIDDEN: f"the key in {variable} does not permit this",
            HTTPStatus.NOT_FOUND: f"correct {place} or the model's name {self.settings.model!r}",
            HTTPStatus.METHOD_NOT_ALLOWED: wrong_kind,
            HTTPStatus.NOT_IMPLEMENTED: wrong_kind,
        }
        return cures.get(status, "")


def parsed(content: bytes) -> JSON:
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


def declared(body: JSON, model: str) -> str:
    """Return what a list of models declares about this one, without fields that change when the server restarts.

    If no model has this id, all of a short list count (llama.cpp accepts any name for its only model).
    """
    data = body.get("data")
    models = [one for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
    mine = [one for one in models if one.get("id") == model] or models
    if not mine or len(mine) > FEW:
        return ""
    return json.dumps([{key: one[key] for key in DECLARED if key in one} for one in mine], sort_keys=True)


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
        if encoding not in PACKED | {"", "identity"}:
            raise BadBody(f"a body compressed as {encoding[:40]!r}, which was not requested")
        self._unpacker = zlib.decompressobj(ZLIB_OR_GZIP) if encoding in PACKED else None
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
