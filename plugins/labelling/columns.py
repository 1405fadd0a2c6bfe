"""Reader of files with a word and its tag per line and an empty line between sentences, as in CoNLL's shared tasks.

Released files are not always clean. White space around a word or a tag is stripped and counted; a line with a tag and
no word is left out and counted. Any other malformed line is rejected with file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable

from figeval.data import DataContext, Row
from figeval.data.formats import resource, text_lines
from figeval.errors import DataError

STRIPPED = "stripped_words"  # words with white space around them
NO_WORD = "left_out_words"  # lines with only a tag


@dataclass(slots=True)
class TaggedSentence:
    """The words of a sentence, their tags, and the number of its first line, from 1."""

    line: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def open_columns(path: str, context: DataContext) -> Iterator[Row]:
    """Yield a row for each sentence of a file beside the task (`conll:FILE`): `id` (its line), `tokens` and `tags`."""
    counts: Counter[str] = Counter()
    for sentence in sentences(resource(path, context), counts):
        yield {"id": str(sentence.line), "tokens": sentence.words, "tags": sentence.tags}
    context.notes.update(counts)


def sentences(file: Traversable, counts: Counter[str] | None = None) -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, and add the repairs to `counts`.

    Raises:
        DataError: a line does not have two columns, or a word contains a blank. The message names file and line.
    """
    mended: Counter[str] = Counter() if counts is None else counts
    sentence = TaggedSentence(1)
    for number, line in enumerate(text_lines(file), start=1):
        if not line.strip():
            if sentence.words:
                yield sentence
            sentence = TaggedSentence(number + 1)
            continue
        word, tag = _columns(line.rstrip("\r\n"), f"{file}:{number}")
        if not word.strip():
            mended[NO_WORD] += 1
            continue
        if word != word.strip():
            mended[STRIPPED] += 1
        sentence.words.append(word.strip())
        sentence.tags.append(tag)
    if sentence.words:
        yield sentence


def _columns(line: str, where: str) -> tuple[str, str]:
    """Return the unstripped word and the tag of a line. Raises `DataError` for a malformed line."""
    columns = line.split("\t")
    if len(columns) != 2 or not columns[1].strip():
        raise DataError(f"{where}: {line!r:.80} is not a word and its tag, separated by one tab")
    word, tag = columns
    if len(word.split()) > 1:
        raise DataError(f"{where}: the word {word.strip()!r:.80} contains a space; give each of its parts a line")
    return word, tag.strip()
