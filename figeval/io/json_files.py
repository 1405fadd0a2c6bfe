"""JSON from third parties: rows, records, configs and replies of servers.

Size and nesting are limited before anything is parsed, so neither the parser nor code that walks its result runs out of
stack. `parse_json` reads a text, `read_json` a file, `read_model` a file that a pydantic model describes.
`JSONValue` is the type of a value whose content is not checked yet.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from figeval.errors import FigevalError
from figeval.io.files import BYTE_ORDER_MARK, read_text

if TYPE_CHECKING:
    from pydantic import BaseModel

JSONScore: TypeAlias = float | Literal["inf", "-inf"] | None  # NaN is null; JSON has no infinity
M = TypeVar("M", bound="BaseModel")

JSONValue: TypeAlias = "bool | int | float | str | list[JSONValue] | JSONObject | None"  # any value of a JSON text
JSONObject: TypeAlias = "dict[str, JSONValue]"

MAX_BYTES = 1 << 28  # 256 MiB, because some data sets are a single list
DEFAULT_CURE = "repair or replace the file"
MAX_INTEGER = (1 << 63) - 1
MAX_DEPTH = 100  # levels of brackets and braces

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class InvalidJSON(ValueError):
    """A text is not JSON, or exceeds the limits; the message is one line. `line` counts from 1, if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_json(text: str | bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """Parse a JSON text; bytes are decoded as UTF-8.

    `NaN`, `Infinity` and numbers beyond the range of a float are accepted, as in Python's parser.

    Raises:
        InvalidJSON: the text is larger than `max_bytes`, nested deeper than `max_depth`, not UTF-8, not JSON, or holds
            an integer with more digits than Python converts (4,300).
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > max_bytes:
        raise InvalidJSON(f"larger than {max_bytes:,} bytes")
    if _deeper(data, max_depth):
        raise InvalidJSON(f"nested too deeply (more than {max_depth} levels)")
    try:
        return json.loads((text if isinstance(text, str) else text.decode()).removeprefix(BYTE_ORDER_MARK))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidJSON(f"byte {data[error.start]:#04x} at offset {error.start:,} is not utf-8", line) from error
    except json.JSONDecodeError as error:
        raise InvalidJSON(f"{error.msg} (column {error.colno})", error.lineno) from error
    except RecursionError as error:  # the caller is already deep in the stack
        raise InvalidJSON("nested too deeply") from error
    except ValueError as error:  # Python refuses to convert very long integers, which takes quadratic time
        raise InvalidJSON("an integer has too many digits") from error


def finite_json(value: Any) -> Any:
    """Return a JSON value with null for NaN and infinities, which are no JSON.

    Raises:
        InvalidJSON: an integer does not fit into 64 bits, which few programs can compute with.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [finite_json(part) for part in value]
    if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise InvalidJSON("an integer has more than 64 bits")
    return value


def read_json(
    file: Traversable, failure: type[FigevalError], *, cure: str = DEFAULT_CURE, max_bytes: int = MAX_BYTES
) -> Any:
    """Read the value in a JSON file.

    Args:
        file: a path, or a resource inside a package.
        failure: class of the error to raise.
        cure: advice for a damaged file, which ends the message.
        max_bytes: size of the largest file that is read.

    Raises:
        FigevalError: as `failure`, in one line with file and line number.
    """
    text = read_text(file, failure, cure=cure, max_bytes=max_bytes)
    try:
        return parse_json(text, max_bytes=max_bytes)
    except InvalidJSON as error:
        location = f"{file}:{error.line}" if error.line else str(file)
        raise failure(f"{location}: not valid JSON: {error}; {cure}") from error


def read_model(file: Traversable, model: type[M], failure: type[FigevalError], *, cure: str = DEFAULT_CURE) -> M:
    """Return the content of a JSON file as a pydantic model; arguments and errors are those of `read_json`."""
    from figeval.io.validation import validate  # not needed by commands that only list names

    return validate(read_json(file, failure, cure=cure), str(file), model, failure, cure=cure)


def _deeper(data: bytes, limit: int) -> bool:
    """Return whether brackets and braces outside strings are nested deeper than `limit`, in linear time at C speed."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    quoted = data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')  # every second part is the inside of a string
    left = b"".join(quoted[::2]).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(limit):  # each pass removes the innermost level
        shorter = left.replace(b"[]", b"")
        if len(shorter) == len(left):
            break
        left = shorter
    if b"[]" in left:
        return True
    depth = 0
    for bracket in left:  # unbalanced, so not JSON, but the parser descends until it notices
        depth += 1 if bracket == ord("[") else -1
        if depth < 0 or depth > limit:
            break
    return depth > limit


def json_scores(scores: Sequence[float]) -> list[JSONScore]:
    """Return scores as JSON values: NaN is null, infinities are the strings "inf" and "-inf"."""
    return [
        score if math.isfinite(score) else None if math.isnan(score) else "inf" if score > 0 else "-inf"
        for score in scores
    ]
