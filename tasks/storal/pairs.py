"""Pairs of a story and its moral, from which all STORAL tasks are made: STORAL's English pairs and a user's pairs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from figeval.data import DataContext
from figeval.data.row_files import RowFile, UserRow, read_json
from figeval.errors import DataError
from figeval.language.words import letters

from . import extras

ENGLISH = "english_pairs/storal_pairs.json"
SIZES = {"train": 1068, "valid": 355, "test": 356}  # Guan et al. (2022), Table 5; the file has the splits in this order
CHINESE_SIZES = {"train": 3368, "valid": 420, "test": 421}
PAPER_SIZES = {"en": SIZES, "zh": CHINESE_SIZES}  # of moCpt, st2mo and mo2st
PAPER_MOPREF = {
    "en": {"train": 988, "valid": 344, "test": 339},
    "zh": {"train": 3276, "valid": 410, "test": 411},
}
SPLITS = tuple(SIZES)
SPELLINGS = {"train": "train", "valid": "valid", "test": "test", "val": "valid", "validation": "valid", "dev": "valid"}
FIELDS = ("story", "moral", "id", "split")
FOOTNOTES = re.compile(r"([^\W\d_][^\w\s]*)\d+")  # of the source: digits after a word or its punctuation
MAX_WORD_CHARS = 20  # characters; longer stories are not checked for being a single word


@dataclass(frozen=True, slots=True)
class Pair:
    """A story with its moral.

    Attributes:
        id: `<split>-<number within the split>` in STORAL, e.g. `test-0`.
        story: story as in the data, without blanks at the ends.
        moral: moral as in the data, without blanks at the ends.
        split: `train`, `valid` or `test`; empty if a file of pairs has no splits.
    """

    id: str
    story: str
    moral: str
    split: str


def wording(text: str) -> str:
    """Return a text's letters without digits after words; texts for which it is equal count as the same.

    Such digits are footnotes of the source, which may be missing in another copy of the same fable.
    """
    return letters(FOOTNOTES.sub(r"\1", text))


def english_pairs(context: DataContext) -> Iterator[Pair]:
    """Yield the 1779 labelled English pairs, one official split after the other.

    The conversion with all pairs concatenates the three splits, and its numbering restarts with each split.

    Raises:
        DataError: the file does not hold the three splits.
    """
    rows = iter(read_json(context.fetch("storal", ENGLISH)))
    for split, size in SIZES.items():
        for number in range(size):
            row = next(rows, None)
            if row is None or row["id"] != number:
                raise DataError(f"storal: {ENGLISH} has no row {number} of the {split} split")
            yield Pair(f"{split}-{number}", row["story"].strip(), row["moral"].strip(), split)


@dataclass(frozen=True, slots=True)
class PairFile:
    """A file of pairs, in a format of `figeval.data.row_files.RowFile`.

    Attributes:
        path: the file.
        language: language of the pairs, which determines how words are counted.
        columns: names of the fields `story`, `moral`, `id` and `split` in the file, if they differ.
    """

    path: Path
    language: str = "en"
    columns: Mapping[str, str] = field(default_factory=dict)

    def pairs(self) -> Iterator[Pair]:
        """Yield every pair. If a row has no `id`, the id is the number of the row, counted from 1.

        Raises:
            DataError: the file cannot be read; a row has no story, no moral, a story of one word or an unknown split.
                The message names file, row and field.
        """
        file = RowFile(self.path, "--pairs must name a JSONL or CSV file of stories and morals", self.columns)
        for row in file.rows():
            story, moral = (row.text(name) for name in ("story", "moral"))
            if len(story) < MAX_WORD_CHARS and self._is_one_word(story):
                raise row.error("story", "is a single word, not a story")
            identity, split = (row.optional(name) for name in ("id", "split"))
            yield Pair(identity or str(row.number), story, moral, self._split(split, row))

    def _is_one_word(self, story: str) -> bool:
        if self.language == "zh":
            return sum(token[0].isalpha() for token in extras.segments(story)) < 2
        return len(story.split()) < 2

    def _split(self, name: str, row: UserRow) -> str:
        if not name:
            return ""
        if name.lower() not in SPELLINGS:
            raise row.error("split", f"is {name[:40]!r}; it must be one of {', '.join(SPLITS)}")
        return SPELLINGS[name.lower()]


def draw_splits(stories: Sequence[bytes], language: str, seed: int) -> list[str]:
    """Draw a split for each pair, in the proportions of the paper's data in this language.

    Args:
        stories: keys that are equal for equal stories, whose pairs are put into the same split.
        language: `zh` has 80, 10 and 10 per cent, every other language 60, 20 and 20.
        seed: random seed.
    """
    sizes = CHINESE_SIZES if language == "zh" else SIZES
    groups: dict[bytes, list[int]] = {}
    for index, story in enumerate(stories):
        groups.setdefault(story, []).append(index)
    order = list(groups.values())
    random.Random(f"{seed} splits").shuffle(order)
    total, split_names, split, filled, until = sum(sizes.values()), [""] * len(stories), 0, 0, 0.0
    for group in order:
        while filled >= round(until) and split < len(SPLITS):
            until += sizes[SPLITS[split]] / total * len(stories)
            split += 1
        for index in group:
            split_names[index] = SPLITS[split - 1]
        filled += len(group)
    return split_names
