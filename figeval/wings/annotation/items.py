"""Items in a folder: the key to what annotators must not know, sheets, and the items as an annotator sees them.

There is one CSV sheet per annotator, with the items in an order of its own. Spreadsheets open it directly (UTF-8 with a
byte order mark) and read no text in it as a formula. The key must not reach the annotators, since it names the author
of each text.
"""

from __future__ import annotations

import csv
import hashlib
import io
import random
import re
import unicodedata
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from figeval import DataError, OptionError
from figeval.data.sheets import read_cells
from figeval.io.json_files import read_json
from figeval.io.text import UNSAFE, clean, csv_cell, csv_text, valid
from figeval.io.validation import validate
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.kinship import ModelOrigin

KEY, INSTRUCTIONS = "key.json", "instructions.txt"
TASKS, CONFIG = "tasks.json", "config.xml"  # for Label Studio
ITEM: Final = "item"
TEXT: Final = "text"
TEXT_A: Final = "A"  # of the two texts of a battle, and the label if it is better
TEXT_B: Final = "B"
TIE: Final = "tie"
COMMENT: Final = "comment"
CATEGORY: Final = "category"
REMARKS = (COMMENT, CATEGORY)  # columns that are no criteria
MAX_COMMENT_CHARS, MAX_CATEGORY_CHARS = 4000, 60
ERRORS = "errors.csv"  # wrong answers to questions, to be coded by category
LONG_COLUMNS = (ITEM, "annotator", "criterion", "label", "time")  # of a table with a row for each judgement
FILLING = (
    "Write one of the labels in brackets into each of these columns. Leave a cell empty only if you cannot decide; "
    f"put remarks in the column {COMMENT}. You may sort the rows, but do not change the column {ITEM} or the first row."
)
DIGEST_LENGTH = 16  # hexadecimal digits: 64 bits
COMPARED_CHARS = 16_000  # of a text: a cell of a spreadsheet has at most 32,767
PICTURES = 0x2400  # ␀, the first of Unicode's pictures of control characters
# Without a width, so a reader could not see them: soft hyphen, zero-width characters, marks of direction.
INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
CURE, SHEET_CURE = "export the items again", "give a filled-in sheet"

T = TypeVar("T")
Fields: TypeAlias = tuple[tuple[str, str], ...]  # (name, text) of each part of an item


# ---- the key ---------------------------------------------------------------------------------------------------------


class Item(BaseModel):
    """The author of the text with an item number, and the example for which it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    author: str
    example: str
    cluster: str | None

    @property
    def group(self) -> str:
        """The cluster, or the example if it has none: items of different groups are independent."""
        return self.cluster or self.example

    @property
    def written_by(self) -> str:
        """The author of the text that the item shows."""
        return self.author


class Battle(Item):
    """Two texts for the same example: A is by the author, B by the opponent."""

    opponent: str

    @property
    def written_by(self) -> str:
        """The authors of text A and of text B."""
        return f"{self.author} vs. {self.opponent}"


class Key(BaseModel):
    """The key to the items of a folder: what they hide, and what is needed to read answers. It contains no texts.

    Attributes:
        criteria: criteria with their scales; the columns of `error_types` are criteria with the scale yes/no.
        gold: the right label of items that have one, which are questions with options.
        instructions: what annotators are told; the criteria have descriptions of their own.
        models: author → what its record tells about the model, if it is one.
        checks: item number → criterion → label that the item tells the annotator to give. They are not in `items`.
        blocks: item number → number of the block of items that stand together; empty if every item stands alone.
        categories: what remarks may say, in a column of their own; empty if there is none.
        parts: sheet → item numbers, if an annotator judges only a part of the battles.
        identical: battles between equal texts, which are ties and no items.
        digests: item number → column → digest of the text in it, as `digest_texts` makes them; empty in older keys.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    error_types: tuple[str, ...]
    authors: tuple[str, ...] = Field(min_length=1)
    not_written: dict[str, int]  # author → number of drawn examples without a text
    seed: int
    sheets: tuple[Annotated[str, Field(pattern=r"^sheet_[0-9]{1,2}\.csv$")], ...]  # in the folder of the key
    items: dict[str, Battle | Item]  # by item number
    criteria: tuple[Criterion, ...] = ()
    gold: dict[str, str] = {}
    checks: dict[str, dict[str, str]] = {}
    instructions: str = ""
    models: dict[str, ModelOrigin] = {}
    blocks: dict[str, int] = {}
    categories: tuple[str, ...] = ()
    parts: dict[str, tuple[str, ...]] = {}
    identical: tuple[Battle, ...] = ()
    digests: dict[str, dict[str, str]] = {}

    @property
    def battles(self) -> dict[str, Battle]:
        """The items if they are battles between two texts; empty if each is judged by itself."""
        return {number: item for number, item in self.items.items() if isinstance(item, Battle)}

    @property
    def all_criteria(self) -> tuple[Criterion, ...]:
        """All criteria, those of error types first."""
        return (*(Criterion(name=name, labels=YES_NO) for name in self.error_types), *self.criteria)

    @property
    def guidelines(self) -> str:
        """The full text for annotators: instructions, criteria, and how to fill in a sheet; empty if there is nothing.

        Without instructions and descriptions, nobody wants annotators to be told anything.
        """
        if not self.instructions and not any(criterion.description for criterion in self.all_criteria):
            return ""
        criteria = [
            f"{criterion.name} ({', '.join(criterion.labels)})"
            + (f": {criterion.description}" if criterion.description else "")
            for criterion in self.all_criteria
        ]
        filling = [FILLING, *([f"{CATEGORY}: {', '.join(self.categories)}, or empty."] if self.categories else [])]
        parts = [self.instructions, *criteria, *(filling if self.sheets else [])]
        return "\n\n".join(part for part in parts if part)

    def check_texts(self, item: str, cells: Mapping[str, str], source: str) -> None:
        """Check that an item still has the texts that were exported; missing columns are not checked.

        A label is about the texts that an annotator saw. Sorting a part of the columns, or exchanging two texts, gives
        it to another text, which nothing else shows.

        Args:
            item: number of the item.
            cells: column → cell, as in a sheet or as in a task of Label Studio, whose columns are slugs.
            source: file and place in it, for the message.

        Raises:
            DataError: a text is another one.
        """
        exported = self.digests.get(item, {})
        texts = {column: cells.get(csv_cell(column), cells.get(slug(column), "")) for column in exported}
        for column, digest in digest_texts(texts).items():
            if digest == exported[column]:
                continue
            if other := next((name for name in exported if exported[name] == digest), None):
                problem = f"the texts of the columns {column!r} and {other!r} are exchanged"
            elif other := next(
                (number for number, by_column in self.digests.items() if by_column.get(column) == digest), None
            ):
                problem = f"column {column!r} has the text of item {other}"
            else:
                problem = f"column {column!r} has another text than the one that was exported"
            raise DataError(
                f"{source}: item {item}: {problem}; put the texts back (exporting the same items to another "
                "folder writes them again), remove the columns with texts if only a program changed them, or remove "
                "the row if nobody knows which text was judged"
            )


def digest_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """Return column → digest of its text, without those that have no letter, e.g. blanks and numbers.

    What spreadsheets change by themselves does not count: white space, apostrophes, capitals (of truth values), how
    accents are composed, and the end of a very long text. They also turn numbers into others
    (007 into 7), and fractions into dates.
    """
    plain = {column: "".join(clean(text).replace("'", "").casefold().split()) for column, text in texts.items()}
    return {
        column: hashlib.sha256(unicodedata.normalize("NFC", text)[:COMPARED_CHARS].encode()).hexdigest()[:DIGEST_LENGTH]
        for column, text in plain.items()
        if any(map(str.isalpha, text))
    }


def read_key(folder: Path) -> Key:
    """Read the key of a folder of items.

    Raises:
        DataError: there is no key, or it is damaged.
    """
    hint = "give the folder that `figeval annotate export` or `sheets` wrote"
    key = validate(read_json(folder / KEY, DataError, cure=hint), str(folder / KEY), Key, DataError, cure=hint)
    if not key.all_criteria:
        raise DataError(f"{folder / KEY} names no criteria; restore it, or export the items again")
    return key


# ---- sheets ----------------------------------------------------------------------------------------------------------


def csv_bytes(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as a CSV file that spreadsheets open, without formulas."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows([csv_cell(cell) for cell in row] for row in rows)
    return stream.getvalue().encode("utf-8-sig")


def shuffle_items(numbers: Sequence[str], blocks: Mapping[str, int], seed: int, sheet: str) -> list[str]:
    """Return item numbers in the random order of a sheet; those of a block stand together."""
    return shuffle_blocks(numbers, [blocks.get(number) for number in numbers], random.Random(f"{seed} {sheet}"))


def shuffle_blocks(values: Sequence[T], blocks: Sequence[Hashable], generator: random.Random) -> list[T]:
    """Return values in a random order in which those with the same block stand together; None is no block."""
    order = list(range(len(values)))
    generator.shuffle(order)
    names = list(dict.fromkeys(block for block in blocks if block is not None))
    if names:
        # Blocks of all sizes come early equally often: a single item is one, too.
        labels = [index if block is None else (block,) for index, block in enumerate(blocks)]
        ranks = list(dict.fromkeys(labels))
        generator.shuffle(ranks)
        rank_of = {label: rank for rank, label in enumerate(ranks)}
        order.sort(key=lambda index: rank_of[labels[index]])
    return [values[index] for index in order]


def slug(name: str) -> str:
    """Return a name as identifiers spell it: lower case, with underscores for everything but letters and digits."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


# ---- what an annotator sees ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """Items and criteria as an annotator sees them, with nothing of what the key hides.

    Attributes:
        items: number of the item → (name, text) of each part of it.
        criteria: criteria that all items are judged by.
        seed: random seed of the orders.
        instructions: what annotators are told; may be empty.
        blocks: number of the item → block of items that stand together.
        parts: sheet → item numbers, if an annotator judges only a part of the items.
        is_of_battles: True if the last two parts of each item are texts to choose between.
    """

    items: Mapping[str, Fields]
    criteria: tuple[Criterion, ...]
    seed: int
    instructions: str = ""
    blocks: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_of_battles: bool = False

    @property
    def numbers(self) -> list[str]:
        """Item numbers from low to high; a part of the items with the lowest numbers is a random one."""
        return sorted(self.items, key=lambda item: (int(item), item) if item.isdecimal() else (0, item))

    def order(self, annotator: str, sheet: str = "") -> list[str]:
        """Return the item numbers in the order of an annotator, which is that of a sheet with the same name.

        With a `sheet`, they are those of this part.
        """
        numbers = self.parts.get(sheet, self.numbers)
        return shuffle_items(numbers, self.blocks, self.seed, f"{annotator}.csv")

    def check_answer(self, item: str, criterion: str, label: str) -> tuple[str, str]:
        """Return the name of the criterion and the label as the scale has it, or a comment; an empty label stays empty.

        Raises:
            OptionError: there is no such item or criterion, or the label is not on the scale.
        """
        if item not in self.items:
            raise OptionError(f"there is no item {item!r:.40}; reload the page")
        if criterion == COMMENT:
            return COMMENT, clean(label).strip()[:MAX_COMMENT_CHARS]
        scale = next((scale for scale in self.criteria if scale.name == criterion), None)
        if scale is None:
            raise OptionError(f"there is no criterion {criterion!r:.40}; reload the page")
        spelled = scale.read(label) if label else ""
        if spelled is None:
            raise OptionError(f"{label!r:.40} is not on the scale of {scale.name}: {', '.join(scale.labels)}")
        return scale.name, spelled


def read_questionnaire(folder: Path, key: Key) -> Questionnaire:
    """Read the texts of the items from the sheets in a folder, or from the tasks for Label Studio.

    Raises:
        DataError: there are no items, or the text of one is in none of the files, or not the one that was exported.
    """
    numbers = [*key.items, *key.checks]
    if not numbers or not key.all_criteria:
        raise DataError(f"{folder} has no items to judge; {CURE}")
    items: dict[str, Fields] = {}
    columns = (TEXT_A, TEXT_B) if key.battles else ()
    for item, fields in _read_sheets(folder, key) if key.sheets else _read_tasks(folder / TASKS, key, columns):
        items.setdefault(item, fields)
    if missing := [item for item in numbers if not items.get(item) or not set(columns) <= dict(items[item]).keys()]:
        files = ", ".join(key.sheets) or TASKS
        raise DataError(f"{folder}: item {missing[0]} is not in {files:.80} ({len(missing)} are missing); {CURE}")
    criteria = tuple(
        criterion.model_copy(update={"description": _make_visible(criterion.description)})
        for criterion in key.all_criteria
    )
    shown = {item: items[item] for item in numbers}
    instructions = _make_visible(key.instructions)
    return Questionnaire(shown, criteria, key.seed, instructions, key.blocks, key.parts, bool(key.battles))


def _read_sheets(folder: Path, key: Key) -> Iterator[tuple[str, Fields]]:
    """Yield the items of all sheets that are there; people may have removed rows, columns or sheets."""
    hidden = {
        ITEM,
        COMMENT,
        *([CATEGORY] if key.categories else []),
        *(csv_cell(criterion.name) for criterion in key.all_criteria),
    }
    for sheet in key.sheets:
        if not (folder / sheet).exists():
            continue
        header, *rows = read_cells(folder / sheet, SHEET_CURE) or [[]]
        for number, row in enumerate(rows, 2):
            cells = dict(zip(header, row, strict=False))
            key.check_texts(cells.get(ITEM, "").strip(), cells, f"{folder / sheet}, row {number}")
            fields = {name: csv_text(cell) for name, cell in cells.items() if name not in hidden}
            yield cells.get(ITEM, "").strip(), _visible_fields(fields)


def _read_tasks(file: Path, key: Key, columns: Sequence[str]) -> Iterator[tuple[str, Fields]]:
    """Yield the items of tasks, whose names are slugs but for these columns."""
    names = {slug(column): column for column in columns}
    tasks = read_json(file, DataError, cure=CURE)
    for number, task in enumerate(tasks if isinstance(tasks, list) else [tasks]):
        fields = task.get("data") if isinstance(task, dict) else None
        if not isinstance(fields, dict):
            raise DataError(f"{file}, task {number}: there is no 'data'; {CURE}")
        cells = {str(name): str(text) for name, text in fields.items()}
        key.check_texts(cells.get(ITEM, ""), cells, f"{file}, task {number}")
        shown = {names.get(name, name): text for name, text in cells.items() if name != ITEM}
        yield cells.get(ITEM, ""), _visible_fields(shown)


def _visible_fields(fields: Mapping[str, str]) -> Fields:
    return tuple((_make_visible(name), _make_visible(text)) for name, text in fields.items() if text)


def _make_visible(text: str) -> str:
    """Return a text in which characters that cannot be seen, or that reorder others, are seen and do nothing."""
    return INVISIBLE.sub(_picture, UNSAFE.sub(_picture, valid(text).replace("\r\n", "\n")))


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(PICTURES + code) if code < 0x20 else chr(0x2421) if code == 0x7F else f"⟨U+{code:04X}⟩"
