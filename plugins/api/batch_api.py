"""The batch APIs of two families: what is sent to submit a batch, to find and observe it, and to read its results.

Nothing here is stored; `batches` decides what is submitted, and keeps it. The id of a request in a batch (`custom_id`)
is its key in the archive, so results need no order. A batch at OpenAI has our label as metadata. At Anthropic, it has
none, so a batch whose id was lost is recognised by its time and size, and by the ids of its requests once it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Protocol
from urllib.parse import quote

from figeval.io.json_files import JSONObject, JSONValue
from figeval.models.batch_archive import LONGEST_NAME, StoredBatch

from .batch_http import BatchHttp, Unexpected
from .faults import status_of

OURS = "figeval"  # key of the metadata with our label
CLOCKS = 300.0  # seconds by which the clock of a server may differ from ours
RECENT = 30 * 86_400.0  # seconds for which servers keep the results of a batch
LATEST = 1e12  # seconds since 1970 that no clock shows
PAGES = 50  # most pages of a list of batches


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch, as the server reports it.

    Attributes:
        ended: whether there will be no further answers.
        done: number of requests that have an answer or an error.
        total: number of its requests.
        problem: why the server did not process it, or "".
        cancelled: whether somebody cancelled it.
        expired: whether its time was over.
        files: names of the files with its results, for OpenAI.
    """

    ended: bool
    done: int
    total: int
    problem: str = ""
    cancelled: bool = False
    expired: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one request: a response as for a live request, or the reason why there is none."""

    key: str
    status: int = 0
    body: bytes = b""
    missing: str = ""


class BatchApi(Protocol):
    """The batch API of a family of servers.

    Attributes:
        most_requests: most requests of a batch.
        most_bytes: most bytes of a batch.
        labelled: whether a batch carries our label, so that one that was found is certainly ours.
    """

    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]
    labelled: ClassVar[bool]

    def create(self, http: BatchHttp, label: str, requests: Sequence[tuple[str, bytes]]) -> str: ...
    def recovered(self, http: BatchHttp, batch: StoredBatch) -> str: ...
    def find(self, http: BatchHttp, batch: StoredBatch, known: Set[str]) -> str: ...
    def state(self, http: BatchHttp, name: str) -> BatchState: ...
    def results(self, http: BatchHttp, name: str, state: BatchState) -> Iterator[BatchResult]: ...


# ---- OpenAI --------------------------------------------------------------------------------------------------------


class OpenAIBatches:
    """https://platform.openai.com/docs/api-reference/batch: requests and results are files."""

    most_requests: ClassVar[int] = 50_000
    most_bytes: ClassVar[int] = 190_000_000
    labelled: ClassVar[bool] = True
    endpoint: ClassVar[str] = "/v1/chat/completions"

    def create(self, http: BatchHttp, label: str, requests: Sequence[tuple[str, bytes]]) -> str:
        """Submit a batch, and return its id. Raises what `BatchHttp` raises."""
        head = f'","method":"POST","url":"{self.endpoint}","body":'.encode()
        content = b"".join(b'{"custom_id":"' + key.encode() + head + body + b"}\n" for key, body in requests)
        file = http.upload("/files", f"figeval-{label}.jsonl", content, {"purpose": "batch"})
        asked = {
            "input_file_id": named(file),
            "endpoint": self.endpoint,
            "completion_window": "24h",
            "metadata": {OURS: label},
        }
        return named(http.submit("/batches", json.dumps(asked).encode()))

    def recovered(self, http: BatchHttp, batch: StoredBatch) -> str:
        """Return the id of a batch with the same requests that was submitted elsewhere, or ""."""
        return self.find(http, replace(batch, began=batch.began - RECENT), frozenset())

    def find(self, http: BatchHttp, batch: StoredBatch, known: Set[str]) -> str:  # noqa: ARG002
        """Return the id of the batch with our label, or "" if the server has none."""

        def ours(one: JSONObject) -> bool:
            metadata = one.get("metadata")
            return isinstance(metadata, Mapping) and metadata.get(OURS) == batch.label

        return found(http, "/batches", "after", ours, lambda one: number(one.get("created_at")) < batch.began - CLOCKS)

    def state(self, http: BatchHttp, name: str) -> BatchState:
        """Return the state of a batch."""
        told = http.get(f"/batches/{quote(name, safe='')}")
        status, counts = told.get("status"), counts_in(told)
        done = counts.get("completed", 0) + counts.get("failed", 0)
        files = tuple(str(told[key]) for key in ("output_file_id", "error_file_id") if told.get(key))
        return BatchState(
            ended=status in ("completed", "failed", "expired", "cancelled"),
            done=done,
            total=counts.get("total", 0),
            problem=http.quoted(problem_of(told)) if status == "failed" else "",
            cancelled=status == "cancelled",
            expired=status == "expired",
            files=files,
        )

    def results(self, http: BatchHttp, _name: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield the results of a batch that has ended, in any order."""
        for file in state.files:
            for line in http.lines(f"/files/{quote(file, safe='')}/content"):
                key, response = str(line.get("custom_id")), line.get("response")
                if isinstance(response, Mapping) and isinstance(response.get("body"), Mapping):
                    status = response.get("status_code")
                    yield BatchResult(key, status if type(status) is int else 200, encoded(response["body"]))
                else:
                    error = line.get("error")
                    why = error.get("message") or error.get("code") if isinstance(error, Mapping) else None
                    yield BatchResult(key, missing=http.quoted(str(why or "the server gave no reason")))


def problem_of(told: JSONObject) -> str:
    """Return why OpenAI did not accept the file of a batch."""
    errors = told.get("errors")
    data = errors.get("data") if isinstance(errors, Mapping) else None
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], Mapping) else {}
    return str(first.get("message") or first.get("code") or "the server gave no reason")


# ---- Anthropic -----------------------------------------------------------------------------------------------------


class AnthropicBatches:
    """https://docs.anthropic.com/en/api/creating-message-batches: requests are sent in one body."""

    most_requests: ClassVar[int] = 100_000
    most_bytes: ClassVar[int] = 250_000_000
    labelled: ClassVar[bool] = False

    def create(self, http: BatchHttp, _label: str, requests: Sequence[tuple[str, bytes]]) -> str:
        """Submit a batch, and return its id. Raises what `BatchHttp` raises."""
        items = b",".join(b'{"custom_id":"' + key.encode() + b'","params":' + body + b"}" for key, body in requests)
        return named(http.submit("/messages/batches", b'{"requests":[' + items + b"]}"))

    def recovered(self, _http: BatchHttp, _batch: StoredBatch) -> str:
        """Return "", because nothing tells such a batch from others of its size."""
        return ""

    def find(self, http: BatchHttp, batch: StoredBatch, known: Set[str]) -> str:
        """Return the id of the first batch of this size and time that nobody knows, or "" if there is none."""

        def ours(one: JSONObject) -> bool:
            fits = sum(counts_in(one).values()) == batch.requests and moment(one) >= batch.began - CLOCKS
            return fits and one.get("id") not in known

        return found(http, "/messages/batches", "after_id", ours, lambda one: moment(one) < batch.began - CLOCKS)

    def state(self, http: BatchHttp, name: str) -> BatchState:
        """Return the state of a batch."""
        told = http.get(f"/messages/batches/{quote(name, safe='')}")
        counts = counts_in(told)
        ended = told.get("processing_status") == "ended"
        total = sum(counts.values())
        return BatchState(
            ended=ended,
            done=total - counts.get("processing", 0),
            total=total,
            cancelled=ended and told.get("cancel_initiated_at") is not None,
        )

    def results(self, http: BatchHttp, name: str, _state: BatchState) -> Iterator[BatchResult]:
        """Yield the results of a batch that has ended, in any order; its own `results_url` gets no key of ours."""
        for line in http.lines(f"/messages/batches/{quote(name, safe='')}/results"):
            key, result = str(line.get("custom_id")), line.get("result")
            told: Mapping[str, JSONValue] = result if isinstance(result, Mapping) else {}
            message, error = told.get("message"), told.get("error")
            if told.get("type") == "succeeded" and isinstance(message, Mapping):
                yield BatchResult(key, 200, encoded(message))
            elif told.get("type") == "errored" and isinstance(error, Mapping):
                yield BatchResult(key, status_of(error if error.get("error") else {"error": error}), encoded(error))
            else:
                yield BatchResult(key, missing=http.quoted(f"the request {told.get('type')}"))


def moment(one: JSONObject) -> float:
    """Return when a batch was created, in seconds since 1970; 0 if it does not say."""
    try:
        return datetime.fromisoformat(str(one.get("created_at"))).timestamp()
    except ValueError:
        return 0.0


# ---- both ----------------------------------------------------------------------------------------------------------


def found(
    http: BatchHttp,
    path: str,
    cursor: str,
    ours: Callable[[JSONObject], bool],
    too_old: Callable[[JSONObject], bool],
) -> str:
    """Return the id of the first batch in a list, newest first, that is ours, or "".

    Args:
        http: the connection.
        path: path of the list.
        cursor: name of the parameter with the last id of the page before.
        ours: whether a batch is the one that is searched.
        too_old: whether a batch, and all that follow it, are older.
    """
    last = ""
    for _ in range(PAGES):
        page = http.get(path, {"limit": "100", **({cursor: last} if last else {})})
        data = page.get("data")
        batches = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        for one in batches:
            if ours(one):
                return named(one)
        if not batches or not page.get("has_more") or too_old(batches[-1]):
            return ""
        last = named(batches[-1])
    return ""


def counts_in(one: JSONObject) -> dict[str, int]:
    """Return the numbers of requests by state."""
    told = one.get("request_counts")
    counts = told if isinstance(told, dict) else {}
    return {key: value for key, value in counts.items() if type(value) is int and value >= 0}


def named(told: JSONObject) -> str:
    """Return the id of a batch or file. Raises `Unexpected` if there is none."""
    name = told.get("id")
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Unexpected("it has no id")
    return name


def number(value: JSONValue) -> float:
    """Return a number; 0 for anything else, and for one that is no moment of any clock."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LATEST:
        return 0.0
    return float(value)


def encoded(body: object) -> bytes:
    """Return a part of a result as the body of a response."""
    return json.dumps(body).encode()
