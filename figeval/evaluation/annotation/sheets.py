"""Sheets for annotators: a CSV file each, with the same texts in another order, and a key that says who wrote what.

Spreadsheets read the files as they are (UTF-8 with a byte order mark), and no text in them as a formula. The key must
not reach the annotators: it is what hides the authors.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from figeval.errors import DataError, OptionError
from figeval.evaluation.annotation.texts import WrittenText, WrittenTexts
from figeval.jsonfile import read_json
from figeval.storage import cure, replacing
from figeval.text import csv_cell
from figeval.validation import validated

KEY = "key.json"
ITEM, TEXT, COMMENT = "item", "text", "comment"


class Item(BaseModel):
    """The text behind an item number: whose it is, and the example that it was written for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    author: str
    example: str
    cluster: str | None


class Key(BaseModel):
    """Key to a set of sheets: what they hide, and what reading them back needs; it holds no text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    error_types: tuple[str, ...]
    authors: tuple[str, ...]
    not_written: dict[str, int]  # author → examples of the draw without a text
    seed: int
    sheets: tuple[Annotated[str, Field(pattern=r"^sheet_[0-9]{1,2}\.csv$")], ...]  # in its own folder
    items: dict[str, Item]  # by item number


def write_sheets(
    folder: Path, written: WrittenTexts, error_types: Sequence[str], *, annotators: int = 1, seed: int = 0
) -> Key:
    """Number the texts in an order drawn from the seed, and write a sheet for each annotator and the key.

    Args:
        folder: is made. Sheets that are there are refused, since they may have been filled in; of those that were begun
            with the same key and interrupted, the missing ones are written.
        written: the texts.
        error_types: a column for each; the task's own where there are none.
        annotators: number of sheets, each with the items in an order of its own.
        seed: of all orders.

    Raises:
        OptionError: there are no error types, or one is called like another column.
        RecordError: the folder cannot be written.
    """
    columns = tuple(error_types) or written.error_types
    inputs = tuple(dict.fromkeys(name for text in written.texts for name in text.inputs))
    shown = tuple(f"input {name}" if name in (ITEM, TEXT, COMMENT) else name for name in inputs)
    _check_columns(written.task, columns, (ITEM, *shown, TEXT, COMMENT))
    texts = list(written.texts)
    random.Random(f"{seed} items").shuffle(texts)
    numbered = {str(number): text for number, text in enumerate(texts, 1)}
    sheets = tuple(sheet_name(annotator) for annotator in range(1, annotators + 1))
    key = Key(
        task=written.task,
        error_types=columns,
        authors=written.authors,
        not_written=dict(written.not_written),
        seed=seed,
        sheets=sheets,
        items={
            number: Item(author=text.author, example=text.example, cluster=text.cluster)
            for number, text in numbered.items()
        },
    )
    missing = [sheet for sheet in sheets if not (folder / sheet).exists()]
    if any((folder / name).exists() for name in (KEY, *sheets)) and not (missing and _is_key_in(folder, key)):
        raise OptionError(f"{folder} has sheets already, which may be filled in; choose another --output")
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / KEY) as stream:  # first: sheets without it could not be read back
            stream.write((json.dumps(key.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode())
        for sheet in missing:
            order = list(numbered)
            random.Random(f"{seed} {sheet}").shuffle(order)
            rows = [_row(number, numbered[number], inputs, columns) for number in order]
            with replacing(folder / sheet) as stream:
                stream.write(_csv([(ITEM, *shown, TEXT, *columns, COMMENT), *rows]))
    return key


def _is_key_in(folder: Path, key: Key) -> bool:
    """Return whether the same sheets were begun in the folder."""
    try:
        return read_key(folder) == key
    except DataError:
        return False


def read_key(folder: Path) -> Key:
    """Read the key of a folder of sheets.

    Raises:
        DataError: there is none, or it is damaged.
    """
    hint = "give the folder that `figeval annotate sheets` wrote"
    return validated(read_json(folder / KEY, DataError, cure=hint), str(folder / KEY), Key, DataError, cure=hint)


def sheet_name(annotator: int) -> str:
    """Return the name of the sheet of an annotator, from 1."""
    return f"sheet_{annotator}.csv"


def _check_columns(task: str, error_types: Sequence[str], others: Sequence[str]) -> None:
    if not error_types:
        raise OptionError(
            f"{task} names no error types; give --errors, separated by commas, or write error_types in the task file"
        )
    for name in error_types:
        if not name.strip() or name in others or list(error_types).count(name) > 1:
            taken = ", ".join(others)
            raise OptionError(f"--errors: {name!r} is blank, given twice, or one of the other columns ({taken})")


def _row(number: str, text: WrittenText, inputs: Sequence[str], error_types: Sequence[str]) -> list[str]:
    given = [text.inputs.get(name, "") for name in inputs]
    return [number, *given, text.text, *("" for _ in error_types), ""]


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows([csv_cell(cell) for cell in row] for row in rows)
    return stream.getvalue().encode("utf-8-sig")
