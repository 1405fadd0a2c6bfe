"""Digests by which a text is recognised that a model has read, also behind a prefix and within a longer text.

Scheme 2. A digest is 64 bits of a BLAKE2b over a kind and the letters of texts (`words.letters`: marks count; blanks,
punctuation and case do not). What is digested:

* **A question** (`Example.asked`) as a whole, so a pair matches only with both sides; and its readings: what is left of
  it without a prefix (`Story: …`), without a label at its end (`… Answer:`), and between labels (`premise: …
  hypothesis: …` reads as a pair).
* **A passage**, i.e. a text that was read without a question (further pre-training), as a whole; each run of `SHINGLE`
  words in it; and, for texts with fewer words, each stretch between two signs that part texts (line ends, colons,
  quotation marks, brackets …), also without the label before a colon.

A passage matches every question with a text that it contains: all runs of `SHINGLE` words of the text must be among
those of passages, so a single other word, also at an edge, makes it another text. What a shorter text has in common
with the middle of a passage is no match. A reading of fewer than `SHINGLE` words matches whole questions only.

Scheme 1, which older versions wrote: the first 64 bits of a SHA-256 over letters and digits in lower case, without
marks, of questions and passages as a whole. These digests are kept, and match what they matched.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, sha256
from itertools import pairwise
from unicodedata import normalize

from figeval.language.words import find_words, letters
from figeval.types import Example

MIN_WORDS_ANYWHERE = 16  # words: texts of so many are recognised wherever they stand in a passage
SHINGLE = 8  # words, as in PaLM's search for test examples in its training data (Chowdhery et al. 2022, section 8)
PREFIX = 15  # words: the longest prefix of a text that is set aside
SUFFIX = 6  # words: the longest end of a text that is set aside, behind a sign that parts texts
PREFIXES = 5  # places at most where a text may begin
LABEL = 3  # words: the longest label in front of a colon within a text

_PARTING = re.compile(r"[:：\n\r\t|\[\]{}<>=#*]")
_ENDING = re.compile(r"[.!?…。！？।॥؟۔\"“”„‟«»「」『』《》]")
_QUOTING = re.compile(r"[?？؟\"“”„‟«»「」『』《》()（）–—]")
# Labels that no sign parts from the text before them, as in `premise: … hypothesis: …`.
LABELS = frozenset(
    (
        *("answer", "claim", "class", "context", "document", "explanation", "hypothesis", "idiom", "input", "label"),
        *("literal", "meaning", "metaphor", "moral", "narrative", "option", "output", "paragraph", "paraphrase"),
        *("passage", "premise", "proverb", "query", "question", "reference", "response", "sentence", "sentence1"),
        *("sentence2", "source", "statement", "story", "summary", "target", "text", "text1", "text2", "title"),
    )
)
NONE, WEAK, PART = range(3)  # what stands between two words


class Digests:
    """An immutable set of 64-bit digests, eight bytes each."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        import numpy as np

        digests = values if isinstance(values, array) else array("Q", values)
        self._sorted = array("Q", np.unique(np.frombuffer(digests, dtype=np.uint64)).tobytes())

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sorted)

    def __contains__(self, value: int) -> bool:
        index = bisect_left(self._sorted, value)
        return index < len(self._sorted) and self._sorted[index] == value

    def __or__(self, other: Digests) -> Digests:
        return Digests(self._sorted + other._sorted) if len(self) and len(other) else self if len(self) else other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digests) and self._sorted == other._sorted

    def __hash__(self) -> int:
        return hash(self._sorted.tobytes())


@dataclass(frozen=True, slots=True)
class SeenTexts:
    """Digests of questions and passages.

    Attributes:
        whole: those of whole questions and passages; examples without letters or digits have none.
        parts: those of their readings, runs of words and stretches.
    """

    whole: Digests = field(default_factory=Digests)
    parts: Digests = field(default_factory=Digests)

    @classmethod
    def of_questions(cls, examples: Iterable[Example]) -> SeenTexts:
        """Return the digests of the questions of examples."""
        whole, parts = array("Q"), array("Q")
        for example in examples:
            if any(map(letters, example.asked)):
                whole.append(_digest("question", example.asked))
                parts.extend(
                    _digest("question" if long else "reading", texts) for texts, long in _readings(example.asked)
                )
        return cls(Digests(whole), Digests(parts))

    @classmethod
    def of_passages(cls, texts: Iterable[str]) -> SeenTexts:
        """Return the digests of texts that were read without a question."""
        whole, parts = array("Q"), array("Q")
        for text in texts:
            if letters(text):
                whole.append(_digest("passage", (text,)))
                words = Words(text)
                parts.extend(words.shingles())
                parts.extend(words.stretches())
        return cls(Digests(whole), Digests(parts))

    def __or__(self, other: SeenTexts) -> SeenTexts:
        return SeenTexts(self.whole | other.whole, self.parts | other.parts)

    def __len__(self) -> int:
        """Return the number of distinct questions and passages."""
        return len(self.whole)

    def know(self, question: Question) -> bool:
        if not len(self):
            return False
        digests = (*question.whole, *question.readings)
        if any(digest in self.whole or digest in self.parts for digest in digests):
            return True
        return len(self.parts) > 0 and any(
            all(digest in self.parts for digest in text) for text in question.contained()
        )


@dataclass(frozen=True)
class Question:
    """The question of an example, as it is looked up.

    Attributes:
        asked: texts that are asked about, taken together.
    """

    asked: tuple[str, ...]

    @cached_property
    def whole(self) -> list[int]:
        """Digests of the whole question and of its texts as passages, in both schemes."""
        passages = [text for text in self.asked if letters(text)]
        questions = [_digest("question", self.asked)] if passages else []
        return [*questions, *(_digest("passage", (text,)) for text in passages), *_scheme_1(self.asked)]

    @cached_property
    def readings(self) -> list[int]:
        """Digests of the question as a reading of others, and of its own readings as whole questions and passages."""
        if not any(map(letters, self.asked)):
            return []
        readings = [texts for texts, _ in self._read]
        passages = (_digest("passage", texts) for texts in readings if len(texts) == 1)
        return [_digest("reading", self.asked), *(_digest("question", texts) for texts in readings), *passages]

    @cached_property
    def _read(self) -> list[tuple[tuple[str, ...], bool]]:
        return list(_readings(self.asked))

    def contained(self) -> Iterator[Iterator[int]]:
        """Yield the digests of each text, and of each reading of a single one: a passage that contains it has all."""
        for words in filter(lambda words: words.found, map(Words, self.asked)):
            yield words.parts(0, len(words.found))
            if len(self.asked) == 1:
                yield from (words.parts(*core) for core in _cores(words) if core[1] - core[0] >= SHINGLE)


def _digest(kind: str, texts: Iterable[str]) -> int:
    return _hash("\n".join((f"2 {kind}", *map(letters, texts))))


def _hash(content: str) -> int:
    return int.from_bytes(blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _scheme_1(question: Sequence[str]) -> Iterator[int]:
    """Yield the digests by which older versions recognised a question."""
    plain = ["".join(filter(str.isalnum, normalize("NFC", text.lower()))) for text in question]
    contents = [("question", *plain)] if any(plain) else []
    for content in (*contents, *(("passage", text) for text in plain if text)):
        yield int.from_bytes(sha256("\n".join(content).encode("utf-8", "surrogatepass")).digest()[:8], "big")


# ---- parts of a text -------------------------------------------------------------------------------------------------


class Words:
    """The words of a text, and the signs that part it."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, list(find_words(text))

    @cached_property
    def gaps(self) -> list[int]:
        """The sign before each word, and at last the one behind the last; the ends of a text have a sign too."""
        n, gaps = len(self.found), [PART]
        for index in range(1, n):
            between = self.between(index)
            if ":" in between:
                gaps.append(NONE if self._label(gaps) is None else PART)
            else:
                gaps.append(PART if _PARTING.search(between) else WEAK if _ENDING.search(between) else NONE)
        return [*gaps, PART]

    @cached_property
    def labels(self) -> dict[int, int]:
        """The first word of each label, by the word behind its colon."""
        colons = (index for index in range(1, len(self.found)) if ":" in self.between(index))
        labels = ((index, self._label(self.gaps[:index])) for index in colons)
        return {index: label for index, label in labels if label is not None}

    @property
    def last_label(self) -> int | None:
        """The first word of a label at the end of the text (`… Answer:`)."""
        return self._label(self.gaps[:-1]) if self.found and ":" in self.between(len(self.found)) else None

    def _label(self, gaps: Sequence[int]) -> int | None:
        """Return the first word of a label, given what stands before it and before each of its words; None for none."""
        last = len(gaps) - 1
        parted = next((index for index in range(last, max(-1, last - LABEL), -1) if gaps[index] != NONE), None)
        return last if parted is None and self.found[last].text in LABELS else parted

    @cached_property
    def lines(self) -> list[tuple[int, int]]:
        """The first word of the line of each word, and the word behind its last one."""
        n = len(self.found)
        starts = [0, *(index for index in range(1, n) if "\n" in self.between(index)), n]
        return [line for line in pairwise(starts) for _ in range(*line)]

    def between(self, index: int) -> str:
        """Return the text between a word and the one before it, or behind the last word."""
        end = self.found[index].start if index < len(self.found) else None
        return self.text[self.found[index - 1].end : end]

    def part(self, begin: int, end: int) -> str:
        """Return the text of some of the words."""
        return self.text[self.found[begin].start : self.found[end - 1].end]

    def parts(self, begin: int, end: int) -> Iterator[int]:
        """Yield the digests that are all known if a passage contains some of the words."""
        if end - begin < MIN_WORDS_ANYWHERE:
            yield _digest("stretch", (self.part(begin, end),))
        else:
            yield from self.shingles(begin, end)

    def shingles(self, begin: int = 0, end: int | None = None) -> Iterator[int]:
        """Yield the digest of each run of `SHINGLE` words."""
        words = [word.text for word in self.found[begin:end]]
        for first in range(len(words) - SHINGLE + 1):
            yield _hash(f"2 words\n{' '.join(words[first : first + SHINGLE])}")

    def stretches(self) -> Iterator[int]:
        """Yield the digest of each stretch of words that signs part from the rest of the text.

        A stretch has from 2 to `MIN_WORDS_ANYWHERE` - 1 words. Signs that also stand within texts (full
        stops, quotation marks …) count near the begin and end of a line.
        """
        n, labels = len(self.found), {*self.labels.values(), self.last_label}
        signs = [index for index in range(1, n + 1) if index in labels or index not in self.labels]
        ends = [index for index in signs if index in labels or self._parts(index, SUFFIX, index - 1, 1)]
        for begin in (index for index in range(n - 1) if self._parts(index, PREFIX, index, 0)):
            for end in ends[bisect_left(ends, begin + 2) : bisect_left(ends, begin + MIN_WORDS_ANYWHERE)]:
                yield _digest("stretch", (self.part(begin, end),))

    def _parts(self, index: int, distance: int, word: int, side: int) -> bool:
        """Return whether a text may end here: at a sign, which is near one side of the word's line if it is weak."""
        near = abs(self.lines[word][side] - index) <= distance
        return self.gaps[index] == PART or (self.gaps[index] == WEAK and near)


def _readings(question: Sequence[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield what a question may be without prefixes and labels, and whether it has at least `SHINGLE` words then."""
    if len(question) == 1:
        words = Words(question[0])
        for begin, end in _cores(words):
            yield (words.part(begin, end),), end - begin >= SHINGLE
        pieces = list(_pieces(words))
        if len(pieces) > 1:
            for count in {len(pieces), max(2, len(pieces) - 1)}:  # the last one may be the answer
                texts = tuple(words.part(*piece) for piece in pieces[:count])
                yield texts, sum(end - begin for begin, end in pieces[:count]) >= SHINGLE
        return
    fields = [Words(text) for text in question]
    cores = [next((core for core in _cores(words) if core[0]), (0, len(words.found))) for words in fields]
    if any(begin for begin, _ in cores):
        texts = tuple(words.part(*core) if words.found else "" for words, core in zip(fields, cores, strict=True))
        yield texts, sum(end - begin for begin, end in cores) >= SHINGLE


def _cores(words: Words) -> Iterator[tuple[int, int]]:
    """Yield what words are left without a prefix, and without an end, that signs part from the rest."""
    n = len(words.found)
    begins = [0, *(index for index in range(1, min(n, PREFIX + 1)) if _ends_prefix(words, index))][:PREFIXES]
    ends = [n, *dict.fromkeys(end for index in range(n, max(0, n - SUFFIX - 1), -1) for end in _ends(words, index))]
    for begin in begins:
        yield from ((begin, end) for end in ends if (begin, end) != (0, n) and end - begin >= 2)


def _ends_prefix(words: Words, index: int) -> bool:
    """Return whether what precedes a word may be a prefix: an instruction, a label, a number (`12. …`)."""
    gap = words.gaps[index]
    return gap == PART or (gap == WEAK and (index == 1 or _QUOTING.search(words.between(index)) is not None))


def _ends(words: Words, index: int) -> Iterator[int]:
    """Yield where a text may end if a sign parts it from the word at an index; a colon has a label before it."""
    between = words.between(index)
    if ":" in between:
        label = words.labels.get(index) if index < len(words.found) else words.last_label
        yield from () if label is None else (label,)
    elif index < len(words.found) and (words.gaps[index] == PART or _QUOTING.search(between)):
        yield index


def _pieces(words: Words) -> Iterator[tuple[int, int]]:
    """Yield the words between the labels of a text, if it has any."""
    begin = 0
    for index, label in words.labels.items():
        if label > begin:
            yield begin, label
        begin = index
    if begin:
        yield begin, len(words.found)
