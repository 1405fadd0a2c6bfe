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

from .batch_archive import LONGEST_NAME, StoredBatch
from .batch_http import BatchHttp, Unexpected
from .faults import status_of

LABEL_KEY = "figeval"  # key of the metadata with our label
CLOCK_SKEW_SECONDS = 300.0  # seconds by which the clock of a server may differ from ours
RESULT_LIFETIME_SECONDS = 30 * 86_400.0  # seconds for which servers keep the results of a batch
MAX_TIMESTAMP = 1e12  # seconds since 1970 that no clock shows
MAX_PAGES = 50  # of a list of batches


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
    def recover_id(self, http: BatchHttp, batch: StoredBatch) -> str: ...
    def find(self, http: BatchHttp, batch: StoredBatch, known_ids: Set[str]) -> str: ...
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
        fields = {
            "input_file_id": require_id(file),
            "endpoint": self.endpoint,
            "completion_window": "24h",
            "metadata": {LABEL_KEY: label},
        }
        return require_id(http.submit("/batches", json.dumps(fields).encode()))

    def recover_id(self, http: BatchHttp, batch: StoredBatch) -> str:
        """Return the id of a batch with the same requests that was submitted elsewhere, or ""."""
        return self.find(http, replace(batch, began=batch.began - RESULT_LIFETIME_SECONDS), frozenset())

    def find(self, http: BatchHttp, batch: StoredBatch, known_ids: Set[str]) -> str:  # noqa: ARG002
        """Return the id of the batch with our label, or "" if the server has none."""

        def is_ours(entry: JSONObject) -> bool:
            metadata = entry.get("metadata")
            return isinstance(metadata, Mapping) and metadata.get(LABEL_KEY) == batch.label

        return find_batch(
            http,
            "/batches",
            "after",
            is_ours,
            lambda entry: read_timestamp(entry.get("created_at")) < batch.began - CLOCK_SKEW_SECONDS,
        )

    def state(self, http: BatchHttp, name: str) -> BatchState:
        """Ask the server how far it is with a batch."""
        response = http.get(f"/batches/{quote(name, safe='')}")
        status, counts = response.get("status"), counts_in(response)
        done = counts.get("completed", 0) + counts.get("failed", 0)
        files = tuple(str(response[key]) for key in ("output_file_id", "error_file_id") if response.get(key))
        return BatchState(
            ended=status in ("completed", "failed", "expired", "cancelled"),
            done=done,
            total=counts.get("total", 0),
            problem=http.clean_message(problem_of(response)) if status == "failed" else "",
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
                    yield BatchResult(key, status if type(status) is int else 200, encode_body(response["body"]))
                else:
                    error = line.get("error")
                    reason = error.get("message") or error.get("code") if isinstance(error, Mapping) else None
                    yield BatchResult(key, missing=http.clean_message(str(reason or "the server gave no reason")))


def problem_of(batch: JSONObject) -> str:
    """Return why OpenAI did not accept the file of a batch."""
    errors = batch.get("errors")
    data = errors.get("data") if isinstance(errors, Mapping) else None
    error = data[0] if isinstance(data, list) and data and isinstance(data[0], Mapping) else {}
    return str(error.get("message") or error.get("code") or "the server gave no reason")


# ---- Anthropic -----------------------------------------------------------------------------------------------------


class AnthropicBatches:
    """https://docs.anthropic.com/en/api/creating-message-batches: requests are sent in one body."""

    most_requests: ClassVar[int] = 100_000
    most_bytes: ClassVar[int] = 250_000_000
    labelled: ClassVar[bool] = False

    def create(self, http: BatchHttp, _label: str, requests: Sequence[tuple[str, bytes]]) -> str:
        """Submit a batch, and return its id. Raises what `BatchHttp` raises."""
        items = b",".join(b'{"custom_id":"' + key.encode() + b'","params":' + body + b"}" for key, body in requests)
        return require_id(http.submit("/messages/batches", b'{"requests":[' + items + b"]}"))

    def recover_id(self, _http: BatchHttp, _batch: StoredBatch) -> str:
        """Return "", because nothing tells such a batch from others of its size."""
        return ""

    def find(self, http: BatchHttp, batch: StoredBatch, known_ids: Set[str]) -> str:
        """Return the id of the first batch of this size and time that nobody knows, or "" if there is none."""

        def is_ours(entry: JSONObject) -> bool:
            fits = (
                sum(counts_in(entry).values()) == batch.requests
                and creation_time(entry) >= batch.began - CLOCK_SKEW_SECONDS
            )
            return fits and entry.get("id") not in known_ids

        return find_batch(
            http,
            "/messages/batches",
            "after_id",
            is_ours,
            lambda entry: creation_time(entry) < batch.began - CLOCK_SKEW_SECONDS,
        )

    def state(self, http: BatchHttp, name: str) -> BatchState:
        """Ask the server how far it is with a batch."""
        response = http.get(f"/messages/batches/{quote(name, safe='')}")
        counts = counts_in(response)
        has_ended = response.get("processing_status") == "ended"
        total = sum(counts.values())
        return BatchState(
            ended=has_ended,
            done=total - counts.get("processing", 0),
            total=total,
            cancelled=has_ended and response.get("cancel_initiated_at") is not None,
        )

    def results(self, http: BatchHttp, name: str, _state: BatchState) -> Iterator[BatchResult]:
        """Yield the results of a batch that has ended, in any order; its own `results_url` gets no key of ours."""
        for line in http.lines(f"/messages/batches/{quote(name, safe='')}/results"):
            key, result = str(line.get("custom_id")), line.get("result")
            outcome: Mapping[str, JSONValue] = result if isinstance(result, Mapping) else {}
            message, error = outcome.get("message"), outcome.get("error")
            if outcome.get("type") == "succeeded" and isinstance(message, Mapping):
                yield BatchResult(key, 200, encode_body(message))
            elif outcome.get("type") == "errored" and isinstance(error, Mapping):
                yield BatchResult(key, status_of(error if error.get("error") else {"error": error}), encode_body(error))
            else:
                yield BatchResult(key, missing=http.clean_message(f"the request {outcome.get('type')}"))


def creation_time(batch: JSONObject) -> float:
    """Return when a batch was created, in seconds since 1970; 0 if it does not say."""
    try:
        return datetime.fromisoformat(str(batch.get("created_at"))).timestamp()
    except ValueError:
        return 0.0


# ---- both ----------------------------------------------------------------------------------------------------------


def find_batch(
    http: BatchHttp,
    path: str,
    cursor: str,
    is_ours: Callable[[JSONObject], bool],
    too_old: Callable[[JSONObject], bool],
) -> str:
    """Return the id of the first batch in a list, newest first, that is ours, or "".

    Args:
        http: the connection.
        path: path of the list.
        cursor: name of the parameter with the last id of the page before.
        is_ours: whether a batch is the one that is searched.
        too_old: whether a batch, and all that follow it, are older.
    """
    last_id = ""
    for _ in range(MAX_PAGES):
        page = http.get(path, {"limit": "100", **({cursor: last_id} if last_id else {})})
        data = page.get("data")
        batches = [batch for batch in data if isinstance(batch, dict)] if isinstance(data, list) else []
        for batch in batches:
            if is_ours(batch):
                return require_id(batch)
        if not batches or not page.get("has_more") or too_old(batches[-1]):
            return ""
        last_id = require_id(batches[-1])
    return ""


def counts_in(batch: JSONObject) -> dict[str, int]:
    """Count the requests of a batch by state, leaving out what is no count."""
    raw_counts = batch.get("request_counts")
    counts = raw_counts if isinstance(raw_counts, dict) else {}
    return {key: value for key, value in counts.items() if type(value) is int and value >= 0}


def require_id(resource: JSONObject) -> str:
    """Return the id of a batch or file. Raises `Unexpected` if there is none."""
    name = resource.get("id")
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Unexpected("it has no id")
    return name


def read_timestamp(value: JSONValue) -> float:
    """Return a number; 0 for anything else, and for one that is no moment of any clock."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_TIMESTAMP:
        return 0.0
    return float(value)


def encode_body(body: object) -> bytes:
    """Return a part of a result as the body of a response."""
    return json.dumps(body).encode()
