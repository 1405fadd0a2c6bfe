"""One attempt at one request: sent, judged, and turned into an answer or into what went wrong and whether to try again.

| what came back | what it means |
|---|---|
| an answer | the answer |
| 408, 429, 5xx, a timeout, a connection that broke, a body that is no answer | `RetryableError` |
| a content filter's refusal | an answer that ended by `refusal` |
| 401, 402, 403, 404, a redirection, no credit left, nobody there at the first request | `ModelError`: same for all |
| any other status | `PermanentError`: this request will never be answered, others may be |
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import zlib
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from figeval.errors import ModelError
from figeval.jsonfile import parse_json
from figeval.text import one_line
from figeval.types import JSON, Reply

from .dialects import ApiAnswer, Dialect, Unreadable, scrubbed
from .settings import ApiSettings, Endpoint

if TYPE_CHECKING:
    from httpx import AsyncClient

T = TypeVar("T")
CONNECT = 10.0  # seconds to reach the server, and for all of its list of models
ENCODING = {"Accept-Encoding": "gzip, deflate"}
TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
FILTERS = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "invalid_prompt"}
BROKE = {"insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted"}
DECLARED = ("id", "root", "parent", "max_model_len", "meta")  # of a model; by vLLM and llama.cpp
FEW = 8
LONGEST = 300  # characters of what a server says that are kept
MAX_BYTES = 1 << 24  # 16 MiB, unpacked
ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
PACKED = {"gzip", "x-gzip", "deflate"}


class RetryableError(Exception):
    """Worth another attempt, after `wait` seconds if the server said so. `kind` is the status, or a word where there
    is none; `lost` means that an answer was perhaps on its way, and will be on the bill.
    """

    def __init__(self, kind: str, why: str, *, wait: float | None = None, lost: bool = False) -> None:
        super().__init__(why)
        self.kind, self.wait, self.lost = kind, wait, lost

    @property
    def crowded(self) -> bool:
        """Whether the server says that we ask too fast."""
        return self.kind == str(HTTPStatus.TOO_MANY_REQUESTS.value)


class PermanentError(Exception):
    """Another attempt at this request would fail as well."""


@dataclass(slots=True)
class Client:
    """Sends to one endpoint. `met` tells whether the server has ever answered."""

    dialect: Dialect
    endpoint: Endpoint
    settings: ApiSettings
    met: bool = False
    _served: str | None = None

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.endpoint.url + self.dialect.path

    def opened(self) -> AsyncClient:
        """An `httpx.AsyncClient` for some requests: a context manager."""
        import httpx

        return httpx.AsyncClient(
            headers={"Content-Type": "application/json", **ENCODING, **self.dialect.headers(self.endpoint.key)},
            timeout=httpx.Timeout(None, connect=CONNECT),  # an attempt as a whole is timed
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.settings.max_concurrent),
            trust_env=not self.endpoint.local,  # no proxy lies between us and this machine
        )

    async def attempt(self, http: AsyncClient, body: bytes) -> ApiAnswer:
        """The answer to one request.

        Raises:
            RetryableError, PermanentError, ModelError: see the table above.
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
                raise ModelError(self._nobody_there(error)) from None
            raise RetryableError("connection", "the server cannot be reached any more") from None
        except httpx.RequestError as error:
            raise RetryableError("connection", f"the connection broke ({type(error).__name__})", lost=True) from None
        except BadBody as error:
            raise RetryableError("unreadable", f"an answer that cannot be read: {error}", lost=True) from None
        return self._judge(response.status_code, response.headers, received.content)

    def served(self) -> str:
        """What a server on this machine says it serves, empty elsewhere: there may be another model tomorrow behind the
        same address and name, and its answers must not be mixed with those of today. Asked once.

        Raises:
            ModelError: nobody is there.
        """
        if self._served is None:
            self._served = self._ask_served() if self.endpoint.local else ""
        return self._served

    def _ask_served(self) -> str:
        import httpx

        try:
            content = run_async(self._listed())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ModelError(self._nobody_there(error)) from None
        except (httpx.RequestError, BadBody, TimeoutError):
            return ""
        return self.endpoint.scrub(declared(parsed(content), self.settings.model))

    async def _listed(self) -> bytes:
        """The server's list of models; the time for all of it is limited, as a byte may come now and then for ever."""
        async with (
            asyncio.timeout(CONNECT),
            self.opened() as http,
            http.stream("GET", f"{self.endpoint.url}/models") as response,
        ):
            received = Body(response.headers)
            async for piece in response.aiter_raw():
                received.feed(piece)
        return received.content

    def _nobody_there(self, error: Exception) -> str:
        what = " ".join(str(error).split()) or type(error).__name__
        return f"no server at {self.endpoint.url} ({what}); start it, or mend --model_args base_url="

    def _judge(self, status: int, headers: Mapping[str, str], content: bytes) -> ApiAnswer:
        body = parsed(content)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            error = body.get("error")
            if not error:
                return self._read(body)
            code = error.get("code") if isinstance(error, Mapping) else None
            status = code if isinstance(code, int) else 502  # an upstream's error, passed on as 200
        said = self.endpoint.scrub(complaint(body, content))  # before it is cut: half of a key would not be found
        said = said if len(said) <= LONGEST else said[:LONGEST] + "…"
        if filtered(status, body):
            return ApiAnswer(Reply(text="", finish="refusal", error=said))
        if status == HTTPStatus.PAYMENT_REQUIRED or codes(body) & BROKE or "credit balance is too low" in said:
            raise ModelError(f"{self.endpoint.host}: {said}; top up the account, then the same command goes on")
        if status in TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise RetryableError(
                str(int(status)), f"{status} {said}".strip(), wait=retry_after(headers.get("retry-after"))
            )
        cure = self._cure(status)
        if cure:
            raise ModelError(f"{self.endpoint.host} answered {status} ({said}); {cure}")
        raise PermanentError(f"{status} {said}".strip())

    def _read(self, body: JSON) -> ApiAnswer:
        try:
            return scrubbed(self.dialect.read(body), self.endpoint)
        except Unreadable as error:
            raise RetryableError("unreadable", f"an answer that cannot be read: {error}", lost=True) from None

    def _cure(self, status: int) -> str:
        """What helps against an answer that is the same for every request, empty for one that is not."""
        variable = self.settings.api_key_env or self.dialect.variable
        place = f"base_url ({self.endpoint.url}, without {self.dialect.path})"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return f"mend {place}: it sends us elsewhere"
        cures: dict[int, str] = {
            HTTPStatus.UNAUTHORIZED: f"mend the key in {variable}",
            HTTPStatus.FORBIDDEN: f"the key in {variable} may not do that",
            HTTPStatus.NOT_FOUND: f"mend {place} or the model's name {self.settings.model!r}",
        }
        return cures.get(status, "")


def parsed(content: bytes) -> JSON:
    """A body as a JSON object; an empty one for everything else, which no dialect takes for an answer."""
    try:
        body = parse_json(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def declared(body: JSON, model: str) -> str:
    """What a list of models says of this one; of all, where there are few and none is called so (llama.cpp does not
    mind what its only model is called). Without what changes when a server is started anew.
    """
    data = body.get("data")
    models = [one for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
    mine = [one for one in models if one.get("id") == model] or models
    if not mine or len(mine) > FEW:
        return ""
    return json.dumps([{key: one[key] for key in DECLARED if key in one} for one in mine], sort_keys=True)


def complaint(body: JSON, content: bytes) -> str:
    """What a server says is wrong, in one line, wherever it puts that."""
    error = body.get("error")
    told = error.get("message") if isinstance(error, Mapping) else error
    told = told or body.get("message") or body.get("detail") or content.decode("utf-8", "replace")
    return one_line(str(told))


def codes(body: JSON) -> set[str]:
    """Every name that a server gives to an error."""
    error = body.get("error")
    error = error if isinstance(error, Mapping) else {}
    inner = error.get("innererror")
    inner = inner if isinstance(inner, Mapping) else {}
    return {str(code) for code in (error.get("code"), error.get("type"), inner.get("code")) if code}


def filtered(status: int, body: JSON) -> bool:
    """Whether a content filter refused the question (OpenAI, Azure by a code, OpenRouter by reasons)."""
    error = body.get("error")
    about = error.get("metadata") if isinstance(error, Mapping) else None
    flagged = isinstance(about, Mapping) and bool(about.get("reasons"))
    return status in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN) and (flagged or bool(codes(body) & FILTERS))


def retry_after(value: str | None) -> float | None:
    """Seconds from now that a `Retry-After` header asks for: a number of seconds or a date (RFC 9110, 10.2.3)."""
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
    """Run a coroutine to its end; in a thread of its own where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


class BadBody(Exception):
    """The body is too large or wrongly compressed; the message says which."""


class Body:
    """Takes the body of a reply piece by piece, as it comes over the wire.

    It is unpacked here and limited: a few kilobytes of compressed data can be gigabytes of text.

    Raises:
        BadBody: it is packed in a way that was not asked for.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in PACKED | {"", "identity"}:
            raise BadBody(f"a body packed as {encoding[:40]!r}, which was not asked for")
        self._unpacker = zlib.decompressobj(ZLIB_OR_GZIP) if encoding in PACKED else None
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        """All that has come, unpacked."""
        return bytes(self._content)

    def feed(self, piece: bytes) -> None:
        """Take a piece. Raises `BadBody` as soon as there is too much, before more is unpacked."""
        room = MAX_BYTES - len(self._content) + 1
        try:
            self._content += piece if self._unpacker is None else self._unpacker.decompress(piece, room)
        except zlib.error as error:
            raise BadBody(f"a body that cannot be decompressed ({error})") from error
        if len(self._content) > MAX_BYTES:
            raise BadBody(f"a body of more than {MAX_BYTES:,} bytes")
