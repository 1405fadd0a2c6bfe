"""The texts that the analysis reads, and how they are divided into sentences and words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from figeval.data import DataContext
from figeval.data.text_files import text_lines
from figeval.errors import DataError, MissingCopy, OptionError
from figeval.language import nltk_data, tagging

from .. import extras, storal_rows
from ..archive import labelled_pairs, published_rows
from ..pairs import SPLITS, Pair

LANGUAGES = {"en": "English", "zh": "Chinese"}
WORDS = {
    "en": "NLTK's word_tokenize on the lower-cased text, punctuation included",
    "zh": "jieba's default mode, punctuation included",
}
SENTENCES = {"en": "NLTK's Punkt", "zh": "divided after 。 ！ ？ … and the quotation marks that follow"}
CHINESE_END = re.compile(r"(?<=[。！？!?…])(?![。！？!?…”’」』])")
QUOTED_END = re.compile(r"(?<=[。！？!?…][”’」』])(?![”’」』])")


@dataclass(frozen=True)
class Stories:
    """The stories and morals of one language.

    Attributes:
        language: en or zh.
        pairs: all pairs, in the order of the splits.
        outlines: the phrases for each story of mo2st.
        origin: where the outlines are from.
        unlabelled: texts without a moral; None if they were not given.
    """

    language: str
    pairs: tuple[Pair, ...]
    outlines: tuple[tuple[str, ...], ...]
    origin: str
    unlabelled: tuple[str, ...] | None = None

    @property
    def row(self) -> str:
        """The row of the paper's tables."""
        return f"STORAL-{self.language.upper()}"

    @property
    def title(self) -> str:
        """The language, for headings."""
        return LANGUAGES[self.language]

    def words(self, text: str) -> list[str]:
        """Return the words of a text, as metrics of written texts count them."""
        if self.language == "zh":
            return [token for token in extras.segments(text) if not token.isspace()]
        import nltk

        return list(nltk.word_tokenize(text.lower()))

    def sentences(self, text: str) -> list[str]:
        """Return the sentences of a text."""
        if self.language == "zh":
            pieces = (piece for part in CHINESE_END.split(text) for piece in QUOTED_END.split(part))
            return [piece for piece in pieces if piece.strip()]
        import nltk

        return list(nltk.sent_tokenize(text))

    def length_of(self, phrase: str) -> int:
        """Return the number of words of a phrase of an outline."""
        return len(self.words(phrase)) if self.language == "zh" else len(phrase.split())

    @cached_property
    def story_words(self) -> tuple[list[str], ...]:
        """The words of each story."""
        return tuple(self.words(pair.story) for pair in self.pairs)

    @cached_property
    def story_sentences(self) -> tuple[list[str], ...]:
        """The sentences of each story."""
        return tuple(self.sentences(pair.story) for pair in self.pairs)


def read(language: str, context: DataContext, unlabelled: Path | None) -> Stories:
    """Return the texts of a language.

    Raises:
        MissingCopy: Chinese texts are only in a copy, and there is none.
        DataError: texts or tools are missing or damaged.
    """
    pairs = tuple(labelled_pairs(language, context))
    if language == "zh":
        extras.load("jieba")
    else:
        nltk_data.require(tagging.PACKAGES)
    outlines, origin = _outlines(language, context)
    return Stories(language, pairs, outlines, origin, None if unlabelled is None else read_lines(unlabelled))


def _outlines(language: str, context: DataContext) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the outlines of a copy, or else, in English, those built here; and where they are from."""
    folders = context.copies("storal")
    try:
        rows = [row for split in SPLITS for row in published_rows("mo2st", language, split, folders)]
    except MissingCopy:
        rows = []
    if any(row["outline"] for row in rows):
        return tuple(row["outline"] for row in rows), "published"
    if language != "en":
        return (), ""
    built = (row for split in SPLITS for row in storal_rows.open(f"mo2st_en_{split}", context))
    return tuple(row["outline"] for row in built), "built here (README.md)"


def read_lines(file: Path) -> tuple[str, ...]:
    """Return the texts of a file with one text a line. Raises `DataError` if it has none."""
    texts = tuple(line.strip() for line in text_lines(file) if line.strip())
    if not texts:
        raise DataError(f"{file} has no text; write one text a line")
    return texts


def read_files(values: Sequence[str]) -> Mapping[str, Path]:
    """Return the files of `--unlabelled` by language. Raises `OptionError` for what is no `LANGUAGE=FILE`."""
    files = {}
    for value in values:
        language, _, file = value.partition("=")
        if language not in LANGUAGES or not Path(file).is_file():
            raise OptionError(f"--unlabelled {value}: write en=FILE or zh=FILE with an existing file, one text a line")
        files[language] = Path(file)
    return files
