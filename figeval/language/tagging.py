"""English sentences with Penn tags from NLTK, and the main verbs among their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from figeval.language import nltk_data

PACKAGES = ("punkt_tab", "averaged_perceptron_tagger_eng")  # of NLTK's data
BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being", "isnt", "arent", "wasnt", "werent"})
HAVE, DO = frozenset({"have", "has", "had", "having"}), frozenset({"do", "does", "did"})
PARTICIPLES, BASES = frozenset({"VBN", "VBD"}), frozenset({"VB", "VBP"})
BETWEEN = frozenset({"RB", "RBR", "RBS"})  # adverbs and "not" within a verb group
SUBJECTS = frozenset({"PRP", "NNP", "EX"})  # occur inside the verb group of a question
CLAUSE = frozenset({",", ".", ":", "''", "CC", "WRB", "WP", "WDT"})  # a question may begin after these
QUOTES = str.maketrans("’‘“”", "''\"\"")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a sentence: its place in the text, its word and its Penn tag."""

    start: int
    end: int
    word: str
    tag: str

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.word.lower()


@dataclass(frozen=True, slots=True)
class SentenceReader:
    """NLTK's loaded models."""

    split: Callable[[str], Iterable[tuple[int, int]]]
    tokenize: Callable[[str], Iterable[tuple[int, int]]]
    tag: Callable[[list[str]], list[tuple[str, str]]]

    def sentences(self, text: str) -> Iterator[list[Token]]:
        """Yield the tagged sentences of a text. Curly quotes are replaced by straight ones, which the tagger knows."""
        plain = text.translate(QUOTES)
        for start, end in self.split(plain):
            spans = [(start + left, start + right) for left, right in self.tokenize(plain[start:end])]
            words = [plain[left:right] for left, right in spans]
            tagged = self.tag([word if word.strip("\"'") else "''" for word in words])
            yield [
                Token(left, right, word, tag)
                for (left, right), word, (_, tag) in zip(spans, words, tagged, strict=True)
            ]


@cache
def reader() -> SentenceReader:
    """Return the models, loaded once. Raises `DataError` if their data are missing."""
    nltk_data.require(PACKAGES)
    from nltk.tag import PerceptronTagger
    from nltk.tokenize import NLTKWordTokenizer, PunktTokenizer

    return SentenceReader(
        PunktTokenizer("english").span_tokenize, NLTKWordTokenizer().span_tokenize, PerceptronTagger(lang="eng").tag
    )


def main_verbs(sentence: Sequence[Token]) -> Iterator[Token]:
    """Yield the verbs that are not auxiliaries: not "be", nor "have" and "do" before another verb of their group."""
    for index, token in enumerate(sentence):
        if token.tag.startswith("VB") and token.lower[0].isalpha() and not is_auxiliary(sentence, index):
            yield token


def is_auxiliary(sentence: Sequence[Token], index: int) -> bool:
    """Return whether a verb only helps another one: "had" before a participle, "did" before a base form."""
    word = sentence[index].lower
    if word in BE:
        return True
    tags = PARTICIPLES if word in HAVE else BASES if word in DO else frozenset()
    asks = index == 0 or sentence[index - 1].tag in CLAUSE
    passed = BETWEEN | SUBJECTS if asks else BETWEEN
    helped = next((token for token in sentence[index + 1 :] if token.tag not in passed), None)
    return helped is not None and helped.tag in tags
