"""Annotation sheets: one CSV file per annotator with the texts in an order of its own, and a key to their authors.

Spreadsheets open the files directly (UTF-8 with a byte order mark) and read no text in them as a formula. The key must
not reach the annotators, since it names the author of each text.
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
from figeval.io.json_files import read_json
from figeval.io.storage import cure, replacing
from figeval.io.text import csv_cell
from figeval.io.validation import validated
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.instructions import to_find
from figeval.wings.annotation.kinship import Origin
from figeval.wings.annotation.texts import WrittenText, WrittenTexts

KEY, INSTRUCTIONS = "key.json", "instructions.txt"
ITEM, TEXT, COMMENT = "item", "text", "comment"
FILLING = (
    "Write one of the labels in brackets into each of these columns. Leave a cell empty only if you cannot decide; "
    f"put remarks in the column {COMMENT}. You may sort the rows, but do not change the column {ITEM} or the first row."
)


class Item(BaseModel):
    """The author of the text with an item number, and the example for which it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    author: str
    example: str
    cluster: str | None

    @classmethod
    def of(cls, text: WrittenText) -> Item:
        """Return what the key says about a text."""
        return cls(author=text.author, example=text.example, cluster=text.cluster)


class Key(BaseModel):
    """The key to a set of sheets: what they hide, and what is needed to read them back. It contains no texts.

    Attributes:
        criteria: criteria with their scales; the columns of `error_types` are criteria with the scale yes/no.
        gold: the right label of items that have one, which are questions with options.
        instructions: what annotators are told; the criteria have descriptions of their own.
        models: author → what its record tells about the model, if it is one.
        checks: item number → criterion → label that the item tells the annotator to give. They are not in `items`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    error_types: tuple[str, ...]
    authors: tuple[str, ...] = Field(min_length=1)
    not_written: dict[str, int]  # author → number of drawn examples without a text
    seed: int
    sheets: tuple[Annotated[str, Field(pattern=r"^sheet_[0-9]{1,2}\.csv$")], ...]  # in the folder of the key
    items: dict[str, Item]  # by item number
    criteria: tuple[Criterion, ...] = ()
    gold: dict[str, str] = {}
    checks: dict[str, dict[str, str]] = {}
    instructions: str = ""
    models: dict[str, Origin] = {}

    @property
    def judged(self) -> tuple[Criterion, ...]:
        """All criteria, those of error types first."""
        return (*(Criterion(name=name, labels=YES_NO) for name in self.error_types), *self.criteria)

    @property
    def told(self) -> str:
        """The full text for annotators: instructions, criteria, and how to fill in a sheet; empty if there is nothing.

        Without instructions and descriptions, nobody wants annotators to be told anything.
        """
        if not self.instructions and not any(one.description for one in self.judged):
            return ""
        criteria = [
            f"{one.name} ({', '.join(one.labels)})" + (f": {one.description}" if one.description else "")
            for one in self.judged
        ]
        parts = [self.instructions, *criteria, *([FILLING] if self.sheets else [])]
        return "\n\n".join(part for part in parts if part)


def write_sheets(
    folder: Path,
    written: WrittenTexts,
    error_types: Sequence[str],
    *,
    annotators: int = 1,
    seed: int = 0,
    instructions: str | None = None,
) -> Key:
    """Number the texts in a random order, and write the key and a sheet for each annotator.

    Args:
        folder: folder to create. Existing sheets are refused, since they may have been filled in; of an interrupted
            call with the same key, only the missing ones are written.
        written: texts to annotate.
        error_types: error types, one column each; if empty, those of the task.
        annotators: number of sheets, each with the items in an order of its own.
        seed: random seed of the orders.
        instructions: what annotators are told; by default, a text about the error types.

    Raises:
        OptionError: there are no error types, one has the name of another column, or the folder already has sheets.
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
        items={number: Item.of(text) for number, text in numbered.items()},
        instructions=to_find(columns) if instructions is None else instructions,
        models=dict(written.models),
    )
    missing = [sheet for sheet in sheets if not (folder / sheet).exists()]
    if any((folder / name).exists() for name in (KEY, *sheets)) and not (missing and has_key(folder, key)):
        raise OptionError(f"{folder} already has sheets, which may have been filled in; choose another --output")
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / KEY) as stream:  # first, since sheets cannot be read back without it
            stream.write((json.dumps(key.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n").encode())
        if key.told:
            with replacing(folder / INSTRUCTIONS) as stream:
                stream.write(f"{key.told}\n".encode())
        for sheet in missing:
            order = in_order(list(numbered), seed, sheet)
            rows = [_row(number, numbered[number], inputs, columns) for number in order]
            with replacing(folder / sheet) as stream:
                stream.write(csv_bytes([(ITEM, *shown, TEXT, *columns, COMMENT), *rows]))
    return key


def has_key(folder: Path, key: Key) -> bool:
    """Return whether the folder contains this key."""
    try:
        return read_key(folder) == key
    except DataError:
        return False


def read_key(folder: Path) -> Key:
    """Read the key of a folder of sheets.

    Raises:
        DataError: there is no key, or it is damaged.
    """
    hint = "give the folder that `figeval annotate export` or `sheets` wrote"
    key = validated(read_json(folder / KEY, DataError, cure=hint), str(folder / KEY), Key, DataError, cure=hint)
    if not key.judged:
        raise DataError(f"{folder / KEY} names no criteria; restore it, or export the items again")
    return key


def sheet_name(annotator: int) -> str:
    """Return the file name of an annotator's sheet; annotators are numbered from 1."""
    return f"sheet_{annotator}.csv"


def in_order(numbers: Sequence[str], seed: int, sheet: str) -> list[str]:
    """Return item numbers in the random order of a sheet."""
    order = list(numbers)
    random.Random(f"{seed} {sheet}").shuffle(order)
    return order


def _check_columns(task: str, error_types: Sequence[str], others: Sequence[str]) -> None:
    if not error_types:
        raise OptionError(
            f"{task} declares no error types; give --errors, separated by commas, or write error_types in the task file"
        )
    for name in error_types:
        if not name.strip() or name in others or list(error_types).count(name) > 1:
            taken = ", ".join(others)
            raise OptionError(f"--errors: {name!r} is blank, given twice, or one of the other columns ({taken})")


def _row(number: str, text: WrittenText, inputs: Sequence[str], error_types: Sequence[str]) -> list[str]:
    given = [text.inputs.get(name, "") for name in inputs]
    return [number, *given, text.text, *("" for _ in error_types), ""]


def csv_bytes(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as a CSV file that spreadsheets open, without formulas."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows([csv_cell(cell) for cell in row] for row in rows)
    return stream.getvalue().encode("utf-8-sig")
