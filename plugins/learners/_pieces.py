"""Unlabelled texts: those of a task, or of a file, in pieces that the model can read. Nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from figeval.errors import TrainError
from figeval.jsonfile import InvalidJSON, parse_json
from figeval.resources import expand_user
from figeval.textfile import read_text
from figeval.types import Example

from .._tokens import IDS
from ._language import Piece

SPECIAL = "special_tokens_mask"
MAX_BYTES = 1 << 32  # 4 GiB: all texts are held in memory


def texts_of(examples: Iterable[Example]) -> dict[str, str]:
    """Every text of the examples, once and in order → the example that it comes from."""
    found: dict[str, str] = {}
    for example in examples:
        for text in filter(str.strip, example.texts):
            found.setdefault(text, example.id)
    return found


def texts_in(file: Path) -> dict[str, str]:
    """Every text of a file, once and in order → its line: plain lines, or the field `text` of a .jsonl.

    Raises:
        TrainError: it cannot be read, or a line of it holds no text.
    """
    lines = read_text(expand_user(file), TrainError, max_bytes=MAX_BYTES).splitlines()
    read = _field if file.suffix == ".jsonl" else _line
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            found.setdefault(read(line, f"{file}, line {number}"), f"line {number}")
    return found


def _line(line: str, _where: str) -> str:
    return line


def _field(line: str, where: str) -> str:
    try:
        value = parse_json(line)
    except InvalidJSON as error:
        raise TrainError(f"{where} is no JSON ({error})") from error
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise TrainError(f"{where} has no field 'text' with a text; every line needs one")
    return text


def pieces_of(tokenizer: Any, texts: dict[str, str], limit: int | None) -> list[Piece]:
    """Texts in pieces of at most `limit` tokens, special ones included. Raises `TrainError` if there are none."""
    cutting = {} if limit is None else {"truncation": True, "max_length": limit, "return_overflowing_tokens": True}
    encoded = tokenizer(list(texts), return_special_tokens_mask=True, verbose=False, **cutting)
    origins = list(texts.values())
    owners: Sequence[int] = encoded.get("overflow_to_sample_mapping", range(len(origins)))
    found = []
    for ids, special, owner in zip(encoded[IDS], encoded[SPECIAL], owners, strict=True):
        own = [place for place, is_special in enumerate(special) if not is_special]
        if own:
            found.append(Piece(ids, own[0], own[-1] + 1, origins[owner]))
    if not found:
        raise TrainError("there is no text to learn from; give a task with texts, or --head_args texts=FILE")
    return found
