"""Reader of files with a word and its tag per line and an empty line between sentences, as in CoNLL's shared tasks.

Columns are separated by tabs or blanks; `column_layout` says which ones are read. Comments, `-DOCSTART-` lines, and the
lines of CoNLL-U for surface words (`1-2`) and for words that are not in the text (`1.1`) are no words. The codes of
expressions in .cupt become tags: each stretch of words with the same code is a chunk.

Released files are not always clean. White space around a word or a tag is stripped and counted; a line with a tag and
no word is left out and counted. Any other malformed line is rejected with file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable

from figeval.data import DataContext, Row
from figeval.data.readers import resource
from figeval.errors import DataError
from figeval.io.files import is_file

from .column_layout import TOKEN_ID, ColumnLayout, find_layout, is_document, lines_of
from .tags import OUTSIDE

STRIPPED = "stripped_words"  # words with white space around them
NO_WORD = "left_out_words"  # lines with only a tag
NO_TOKEN = "left_out_lines"  # of surface words and of words that are not in the text
SPLIT = "split_words"  # words of CoNLL-U with blanks in them
PARTS = "expressions_in_parts"  # expressions with other words in between
SHARED = "words_of_several_expressions"  # which belong to the first of them here


@dataclass(slots=True)
class TaggedSentence:
    """The words of a sentence, their tags, and the number of its first line, from 1."""

    line: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def open_columns(path: str, context: DataContext) -> Iterator[Row]:
    """Yield a row for each sentence of a file beside the task: `id` (its line), `tokens` and `tags`.

    The path is `FILE`, or `FILE?word=2&tag=4` with the columns that hold the words and their tags.
    """
    counts: Counter[str] = Counter()
    name, _, declared = path.rpartition("?") if "?" in path and not is_file(context.folder / path) else (path, "", "")
    for sentence in sentences(resource(name, context), counts, declared):
        yield {"id": str(sentence.line), "tokens": sentence.words, "tags": sentence.tags}
    context.notes.update(counts)
    if counts[PARTS] or counts[SHARED]:
        context.notes["remark"] = (
            f"expressions with other words in between ({counts[PARTS]:,}) are scored by their parts, "
            f"words of several expressions ({counts[SHARED]:,}) by the first one"
        )


def sentences(file: Traversable, counts: Counter[str] | None = None, declared: str = "") -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, and add the repairs to `counts`; `declared` is that of `find_layout`.

    Raises:
        DataError: it is not certain which columns are meant, a line has another number of columns, or a word contains a
            blank. The message names file and line.
    """
    reader = _Reader(str(file), find_layout(file, declared), Counter() if counts is None else counts)
    sentence = TaggedSentence(1)
    for number, line in lines_of(file):
        if not line.strip() or is_document(line):
            if sentence.words:
                yield reader.decode_tags(sentence)
            sentence = TaggedSentence(number + 1)
            continue
        if not reader.layout.is_comment(line):
            reader.read(line, f"{file}:{number}", sentence)
        elif sentence.words:
            raise DataError(
                f"{file}:{number}: a comment inside a sentence; put it, or an empty line, before the sentence"
            )
        else:
            sentence = TaggedSentence(number + 1)
    if sentence.words:
        yield reader.decode_tags(sentence)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads lines of a file into sentences, and counts the repairs."""

    name: str
    layout: ColumnLayout
    counts: Counter[str]

    def read(self, line: str, location: str, sentence: TaggedSentence) -> None:
        """Add the word and the tag of a line to a sentence. Raises `DataError` for a malformed line."""
        columns = self.layout.columns(line, location)
        if not columns[self.layout.tag].strip():
            raise self.layout.error(line, location)
        if self.layout.has_ids and not columns[0].isdecimal() and TOKEN_ID.fullmatch(columns[0]):
            self.counts[NO_TOKEN] += 1
            return
        word, tag = columns[self.layout.word], columns[self.layout.tag].strip()
        parts = word.split()
        if not parts:
            self.counts[NO_WORD] += 1
            return
        if len(parts) > 1 and not self.layout.has_ids:
            raise DataError(
                f"{location}: the word {word.strip()!r:.80} contains a space; give each of its parts a line"
            )
        if word != word.strip():
            self.counts[STRIPPED] += 1
        if len(parts) > 1:
            self.counts[SPLIT] += 1
        sentence.words += parts
        sentence.tags += [tag, *[_continue_tag(tag, self.layout.has_codes)] * (len(parts) - 1)]

    def decode_tags(self, sentence: TaggedSentence) -> TaggedSentence:
        """Return a sentence with tags instead of codes. Raises `DataError` for codes that mean nothing."""
        if self.layout.has_codes:
            sentence.tags = self._tags(sentence)
        return sentence

    def _tags(self, sentence: TaggedSentence) -> list[str]:
        kinds: dict[str, str] = {}
        parts: Counter[str] = Counter()
        tags, previous = [], ""
        for word, codes in zip(sentence.words, sentence.tags, strict=True):
            numbers = [] if codes == "*" else [code.partition(":")[0] for code in codes.split(";")]
            kinds |= {number: kind for number, _, kind in (code.partition(":") for code in codes.split(";")) if kind}
            number = numbers[0] if numbers else ""
            if number and number not in kinds:
                problem = "is not annotated" if codes == "_" else f"has the code {codes!r:.40}, whose kind no word says"
                raise DataError(f"{self.name}:{sentence.line}: in this sentence, the word {word!r:.40} {problem}")
            tags.append(f"{'I' if number == previous else 'B'}-{kinds[number]}" if number else OUTSIDE)
            if number and number != previous:
                parts[number] += 1
            if len(numbers) > 1:
                self.counts[SHARED] += 1
            previous = number
        if split_count := sum(count > 1 for count in parts.values()):
            self.counts[PARTS] += split_count
        return tags


def _continue_tag(tag: str, is_code: bool) -> str:
    if is_code:
        return ";".join(single.partition(":")[0] for single in tag.split(";"))
    return f"I-{tag[2:]}" if tag.startswith("B-") else tag
