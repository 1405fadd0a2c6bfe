"""Exported items as an annotator sees them: texts, criteria and labels, but nothing of what the key hides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from figeval.errors import DataError, OptionError
from figeval.io.json_files import read_json
from figeval.io.text import UNSAFE, csv_cell, csv_text, valid
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.export import TASKS
from figeval.wings.annotation.judgements import csv_rows
from figeval.wings.annotation.sheets import COMMENT, ITEM, Key, in_order

PICTURES = 0x2400  # ␀, the first of Unicode's pictures of control characters
# Without a width, so a reader could not see them: soft hyphen, zero-width characters, marks of direction.
INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
CURE = "export the items again"

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """Items and criteria for annotators.

    Attributes:
        items: number of the item → (name, text) of each part of it.
        criteria: criteria that all items are judged by.
        seed: random seed of the orders.
        instructions: what annotators are told; may be empty.
    """

    items: Mapping[str, Fields]
    criteria: tuple[Criterion, ...]
    seed: int
    instructions: str = ""

    def order(self, annotator: str) -> list[str]:
        """Return the item numbers in the order of an annotator, which is that of a sheet with the same name."""
        return in_order(sorted(self.items, key=_place), self.seed, f"{annotator}.csv")

    def checked(self, item: str, criterion: str, label: str) -> tuple[str, str]:
        """Return the name of the criterion and the label as the scale has it; an empty label stays empty.

        Raises:
            OptionError: there is no such item or criterion, or the label is not on the scale.
        """
        if item not in self.items:
            raise OptionError(f"there is no item {item!r:.40}; reload the page")
        known = next((one for one in self.criteria if one.name == criterion), None)
        if known is None:
            raise OptionError(f"there is no criterion {criterion!r:.40}; reload the page")
        read = known.read(label) if label else ""
        if read is None:
            raise OptionError(f"{label!r:.40} is not on the scale of {known.name}: {', '.join(known.labels)}")
        return known.name, read


def questionnaire(folder: Path, key: Key) -> Questionnaire:
    """Read the texts of the items from the sheets in a folder, or from the tasks for Label Studio.

    Raises:
        DataError: there are no items, or the text of one is in none of the files.
    """
    wanted = [*key.items, *key.checks]
    if not wanted or not key.judged:
        raise DataError(f"{folder} has no items to judge; {CURE}")
    found: dict[str, Fields] = {}
    for item, fields in _tasks(folder / TASKS) if not key.sheets else _rows(folder, key):
        found.setdefault(item, fields)
    if missing := [item for item in wanted if not found.get(item)]:
        files = ", ".join(key.sheets) or TASKS
        raise DataError(f"{folder}: item {missing[0]} is not in {files:.80} ({len(missing)} are missing); {CURE}")
    criteria = tuple(one.model_copy(update={"description": visible(one.description)}) for one in key.judged)
    return Questionnaire({item: found[item] for item in wanted}, criteria, key.seed, visible(key.instructions))


def _rows(folder: Path, key: Key) -> Iterator[tuple[str, Fields]]:
    """Yield the items of all sheets that are there; people may have removed rows, columns or sheets."""
    hidden = {ITEM, COMMENT, *(csv_cell(one.name) for one in key.judged)}
    for sheet in key.sheets:
        if not (folder / sheet).exists():
            continue
        header, *rows = csv_rows(folder / sheet) or [[]]
        for row in rows:
            cells = dict(zip(header, row, strict=False))
            shown = ((name, csv_text(cell)) for name, cell in cells.items() if name not in hidden)
            yield cells.get(ITEM, "").strip(), tuple((visible(name), visible(text)) for name, text in shown if text)


def _tasks(file: Path) -> Iterator[tuple[str, Fields]]:
    """Yield the items of the tasks for Label Studio."""
    tasks = read_json(file, DataError, cure=CURE)
    for place, task in enumerate(tasks if isinstance(tasks, list) else [tasks]):
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise DataError(f"{file}, task {place}: there is no 'data'; {CURE}")
        shown = ((str(name), str(text)) for name, text in data.items() if name != ITEM)
        yield str(data.get(ITEM, "")), tuple((visible(name), visible(text)) for name, text in shown if text)


def _place(item: str) -> tuple[int, str]:
    """Return the sort key of an item number."""
    return (int(item), item) if item.isdecimal() and len(item) < 10 else (0, item)


def visible(text: str) -> str:
    """Return a text in which characters that cannot be seen, or that reorder others, are seen and do nothing."""
    return INVISIBLE.sub(_shown, UNSAFE.sub(_shown, valid(text).replace("\r\n", "\n")))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(PICTURES + code) if code < 0x20 else chr(0x2421) if code == 0x7F else f"⟨U+{code:04X}⟩"
