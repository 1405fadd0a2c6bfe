"""The connection to a batch API: small questions, which are repeated, a submission, which is not, and long results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError
from figeval.io.json_files import JSONObject, parse_json
from figeval.io.text import one_line

from .client import (
    CONNECT_SECONDS,
    MAX_BYTES,
    Client,
    PermanentError,
    RetryableError,
    parse_body,
    pause_seconds,
)

if TYPE_CHECKING:
    import httpx

IDENTITY = {"Accept-Encoding": "identity"}  # results are long, and must not be longer than they look
MAX_ERROR_BYTES = 65_536  # bytes that are read of a body which only explains an error
MAX_MESSAGE_CHARS = 200  # characters of what a server says in a message
MAX_LINES = 250_000  # of results, blank ones included; no batch has half as many requests
TRANSFER_SECONDS = 3600.0  # that the upload of a batch, or the download of its results, may take


class Unexpected(Exception):
    """A response that this API does not give; the message says in what way."""


class Absent(Exception):
    """There is nothing at an address: no batch of this name, or no batch API."""


class Unclear(Exception):
    """The server may or may not have received a submission."""


class BatchHttp:
    """A connection to the batch API of a client's server, to be used as a context manager.

    Args:
        client: client of the server, which knows address, key and how to judge errors.
        http: the connection itself.
    """

    def __init__(self, client: Client[Any], http: httpx.Client) -> None:
        self._client = client
        self._http = http

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> JSONObject:
        """Return the object at a path.

        Raises:
            Absent: there is no such path.
            ModelError: the server cannot be reached, or gives no such object after several attempts.
        """
        return self._expected(lambda: self._answer("GET", path, params=dict(parameters or {})))

    def upload(self, path: str, name: str, content: bytes, fields: Mapping[str, str]) -> JSONObject:
        """Upload a file. It is free, so it is repeated. Raises what `get` raises."""
        files = {"file": (name, content, "application/jsonl")}
        return self._expected(
            lambda: self._answer("POST", path, files=files, data=dict(fields), timeout=TRANSFER_SECONDS)
        )

    def submit(self, path: str, content: bytes) -> JSONObject:
        """Send what must not be sent twice.

        Raises:
            Absent: there is no such path.
            ModelError: the server refuses it, or cannot be reached.
            Unclear, Unexpected: it is not known whether the server has received it.
        """
        headers = {"Content-Type": "application/json"}
        return self._retry(
            lambda: self._answer("POST", path, content=content, headers=headers, timeout=TRANSFER_SECONDS),
            is_retryable=is_refusal,
        )

    def lines(self, path: str) -> Iterator[JSONObject]:
        """Yield the objects of a file with one per line, without lines that are none.

        Raises:
            ModelError: the server does not give it, or it breaks off; what was read before is complete.
        """
        import httpx

        try:
            with self._http.stream("GET", self._url(path), headers=IDENTITY) as response:
                if response.status_code != httpx.codes.OK:
                    self._client.judge(response.status_code, response.headers, read_beginning(response.iter_raw()))
                    raise ModelError(self._describe_failure(f"status {response.status_code}"))
                deadline = time.monotonic() + TRANSFER_SECONDS
                for line, is_terminated in split_lines(until_deadline(deadline, response.iter_raw())):
                    try:
                        value = parse_json(line)
                    except ValueError:
                        if not is_terminated:
                            raise ModelError(self._describe_failure("its results break off")) from None
                        continue  # otherwise this line would block the whole batch for good
                    if isinstance(value, dict):
                        yield value
        except httpx.RequestError as error:
            raise ModelError(self._describe_failure(f"the connection broke ({type(error).__name__})")) from None
        except (RetryableError, PermanentError) as error:
            raise ModelError(self._describe_failure(str(error))) from None

    def clean_message(self, text: str) -> str:
        """Return what the server said as one short line without the key, of which no half may be left either."""
        return one_line(self._client.endpoint.scrub(one_line(text)), MAX_MESSAGE_CHARS)

    def _url(self, path: str) -> str:
        return self._client.endpoint.url + path

    def _describe_failure(self, problem: str) -> str:
        return f"{self._client.endpoint.host}: {problem}; run the same command again to continue"

    def _expected(self, attempt: Callable[[], JSONObject]) -> JSONObject:
        try:
            return self._retry(attempt)
        except Unexpected as error:
            raise ModelError(self._describe_failure(f"an unexpected response ({error})")) from None

    def _retry(
        self, attempt: Callable[[], JSONObject], is_retryable: Callable[[RetryableError], bool] = lambda _: True
    ) -> JSONObject:
        """Return the first answer, after as many attempts as the settings allow."""
        max_retries = self._client.settings.max_retries
        for number in range(max_retries + 1):
            try:
                return attempt()
            except RetryableError as error:
                if not is_retryable(error):
                    raise Unclear(str(error)) from None
                if number == max_retries:
                    raise ModelError(self._describe_failure(f"{error} (after {max_retries + 1} attempts)")) from None
                time.sleep(pause_seconds(number, error.wait))
            except PermanentError as error:
                raise ModelError(f"{self._client.endpoint.host} did not accept the batch: {error}") from None
        raise AssertionError("the last attempt returns or raises")

    def _answer(self, method: str, path: str, **request: object) -> JSONObject:
        import httpx

        try:
            with self._http.stream(method, self._url(path), **request) as response:  # type: ignore[arg-type]
                content, began = bytearray(), time.monotonic()
                for piece in response.iter_raw():
                    content += piece
                    if time.monotonic() - began > self._client.settings.timeout:  # httpx limits single pieces only
                        raise RetryableError("timeout", "the response took too long", lost=True)
                    if len(content) > MAX_BYTES:
                        raise Unexpected(f"a response of more than {MAX_BYTES:,} bytes")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ModelError(self._client.no_server_message(error)) from None
        except httpx.RequestError as error:
            raise RetryableError("connection", f"the connection broke ({type(error).__name__})", lost=True) from None
        body = parse_body(bytes(content))
        if response.is_success and body and not body.get("error"):
            return body
        if response.is_success:
            raise RetryableError("unreadable", "a response that is no object", lost=True)
        if response.status_code in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
            raise Absent(path)
        self._client.judge(response.status_code, response.headers, bytes(content))
        raise PermanentError(f"status {response.status_code}")


def is_refusal(error: RetryableError) -> bool:
    """Return whether a server that failed has certainly not received what was sent."""
    return error.crowded and not error.lost


def open_connection(client: Client[Any]) -> httpx.Client:
    """Return an `httpx.Client` for a batch API, to be used as a context manager."""
    import httpx

    return httpx.Client(
        timeout=httpx.Timeout(client.settings.timeout, connect=CONNECT_SECONDS),
        **client.connection_options(IDENTITY),
    )


def read_beginning(pieces: Iterable[bytes]) -> bytes:
    """Return the beginning of a body, which may be endless."""
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_ERROR_BYTES:
            break
    return content[:MAX_ERROR_BYTES]


def until_deadline(deadline: float, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces up to a moment of the monotonic clock. Raises `ModelError` then."""
    for piece in pieces:
        if time.monotonic() > deadline:
            raise ModelError("the results of the batch took too long; run the same command again to continue")
        yield piece


def split_lines(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a stream that are not blank, and whether a line break ended them.

    Raises:
        ModelError: a line is too long, or there are more than any batch has.
    """
    remainder, line_count = b"", 0
    for piece in pieces:
        *lines, remainder = (remainder + piece).split(b"\n")
        line_count += len(lines)
        if line_count > MAX_LINES:
            raise ModelError(f"the results of the batch have more than {MAX_LINES:,} lines; use another server")
        yield from ((line, True) for line in lines if line.strip())
        if len(remainder) > MAX_BYTES:
            raise ModelError(f"the results of the batch have a line of more than {MAX_BYTES:,} bytes")
    if remainder.strip():
        yield remainder, False
