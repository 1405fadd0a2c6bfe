"""Numbers that a model gave, kept on disk as they come, so that an interrupted measurement asks for none twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from figeval import RecordError
from figeval.io.files import cure
from figeval.io.json_files import InvalidJSON, parse_json

Value: TypeAlias = "float | list[float | None] | None"
Request: TypeAlias = tuple[str, ...]
Compute: TypeAlias = Callable[[Sequence[Request]], Sequence[Value]]
BATCH_REQUESTS = 256  # of a call; an interrupt loses those of one


class ValueStore:
    """Values by request in a file with a line for each: a digest of the request, never its text, and the value.

    Args:
        file: the file; values that it has are not computed again. A last line that a kill cut short is dropped.
        fingerprint: fingerprint of the model, which is part of every digest.

    Raises:
        RecordError: the file cannot be read.
    """

    def __init__(self, file: Path, fingerprint: str) -> None:
        self._file = file
        self._fingerprint = fingerprint
        self._values: dict[str, Value] = {}
        with cure(file):
            lines = file.read_bytes().split(b"\n") if file.is_file() else []
            if lines and lines[-1]:
                file.write_bytes(b"\n".join([*lines[:-1], b""]))
        for number, line in enumerate(lines[:-1], start=1):
            try:
                stored = parse_json(line)
                self._values[stored["key"]] = stored["value"]
            except (InvalidJSON, KeyError, TypeError) as error:
                raise RecordError(f"{file}:{number}: not a stored answer; delete the file to ask again") from error

    def values(
        self, method: str, requests: Sequence[Request], compute: Compute, advance: Callable[[int], None]
    ) -> list[Value]:
        """Return the values of all requests, in order; those that are missing are computed and stored.

        Args:
            method: name of what is computed, which is part of the digests.
            requests: what is asked; a repeated request is computed once.
            compute: function that computes the values of some requests.
            advance: function that receives how many further requests have a value.
        """
        keys = [self._key(method, request) for request in requests]
        missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._values}
        queue = list(missing.items())
        advance(len(requests) - len(queue))
        for start in range(0, len(queue), BATCH_REQUESTS):
            batch = dict(queue[start : start + BATCH_REQUESTS])
            self._add(dict(zip(batch, compute(list(batch.values())), strict=True)))
            advance(len(batch))
        return [self._values[key] for key in keys]

    def _key(self, method: str, request: Request) -> str:
        return sha256(json.dumps([self._fingerprint, method, *request]).encode()).hexdigest()

    def _add(self, values: dict[str, Value]) -> None:
        self._values |= values
        with cure(self._file), self._file.open("a", encoding="utf-8") as stream:
            for key, value in values.items():
                stream.write(json.dumps({"key": key, "value": value}) + "\n")
