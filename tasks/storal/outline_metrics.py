"""What a written story makes of its outline: which words of the phrases stand in it (coverage), and in which order.

`coverage` and `order` are computed as in the evaluation script of Guan et al. (2022), with all of its quirks;
`coverage_corrected` and `order_corrected` are without those that change what is measured. METRICS.md beside this file
has the formulas and the quirks by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from figeval import GenerationExample, Prediction, Statistic
from figeval.errors import DataError
from figeval.metrics.statistic import ratio

from .metrics import language_of, written_text

OUTLINE = "outline"  # the input with the phrases
MARKS = frozenset(",.\"?';:!…-")
SHORTEST = {"en": 4, "zh": 2}  # characters but blanks that a phrase and a story share, for the phrase to be found
DEEPEST = 991  # nested calls that a library of the script makes before Python, up to 3.10, raises RecursionError
NO_OUTLINE = "no story was written from an outline"


def _phrases(example: GenerationExample) -> list[str]:
    """Return the phrases of the outline, lower-cased; none where the task has no such input."""
    given = example.inputs.get(OUTLINE, ())
    return [phrase.lower().strip() for phrase in ((given,) if isinstance(given, str) else given)]


def _spaced(text: str) -> str:
    """Set blanks around marks, one each; with `str.split`, make one blank of any white space."""
    return " ".join("".join(f" {letter} " if letter in MARKS else letter for letter in text).split())


# ---- coverage --------------------------------------------------------------------------------------------------------


def _sentences(text: str, language: str) -> list[list[str]]:
    """Return the words of the stretches between full stops; the words of a Chinese text are its characters."""
    spelled = " ".join("".join(text.split())) if language == "zh" else _spaced(text)
    return [" ".join(stretch.split()).split(" ") for stretch in spelled.split(".") if stretch]


class Common(NamedTuple):
    """The different words of a longest common subsequence, and how many calls it takes to find them recursively."""

    words: set[str]
    calls: int


def _common(phrase: Sequence[str], sentence: Sequence[str]) -> Common:
    """Return the longest common subsequence that the library `rouge` finds, walking back through the table.

    Where there are several, that is the one that ends last in the phrase, which other libraries need not find. The
    rows of the table are sets of bits (Hyyrö 2004), kept for those words of the sentence alone that the phrase has:
    at the others the walk goes on to the word before.
    """
    places = dict.fromkeys(phrase, 0)
    for place, word in enumerate(phrase):
        places[word] |= 1 << place
    kept = [number for number, word in enumerate(sentence) if word in places]
    rows = [(1 << len(phrase)) - 1]  # bit i is 0 where the subsequence with phrase[:i + 1] is longer than with [:i]
    for number in kept:
        matches = rows[-1] & places[sentence[number]]
        rows.append((rows[-1] + matches | rows[-1] - matches) & rows[0])

    def longest(i: int, j: int) -> int:
        return i - (rows[j] & (1 << i) - 1).bit_count()

    words, skipped, i, j, end = set(), 0, len(phrase), len(kept), len(sentence)
    while i and j:
        if phrase[i - 1] == sentence[kept[j - 1]]:
            i, j = i - 1, j - 1
            words.add(phrase[i])
            end = kept[j]
        elif longest(i - 1, j) > longest(i, j - 1):
            i, skipped = i - 1, skipped + 1
        else:
            j -= 1
    return Common(words, 1 + skipped + len(sentence) - (end if i == 0 else 0))


def _recall(phrase: str, story: str, language: str, deepest: int | None = None) -> float | None:
    """Return the share of the different words of a phrase that are in a longest common subsequence with some sentence.

    None where there is no word in the phrase or in the story, or `deepest` is exceeded.
    """
    parts, sentences = _sentences(phrase, language), _sentences(story, language)
    if not parts or not sentences:
        return None
    found: set[str] = set()
    for part in parts:
        for sentence in sentences:
            common = _common(part, sentence)
            if deepest is not None and common.calls > deepest:
                return None
            found |= common.words
    return len(found) / len({word for part in parts for word in part})


def _covered(recalls: Iterable[float]) -> tuple[float, float] | None:
    """Return the sum of the recalls and their number, None where there are none."""
    known = list(recalls)
    return (sum(known), float(len(known))) if known else None


def _coverage(example: GenerationExample, prediction: Prediction) -> tuple[float, float] | None:
    story = written_text(prediction)
    if story is None:
        return None
    language = language_of(example)
    recalls = (_recall(phrase, story, language, DEEPEST) for phrase in _phrases(example))
    return _covered(recall for recall in recalls if recall is not None)


def _coverage_corrected(example: GenerationExample, prediction: Prediction) -> tuple[float, float] | None:
    language, phrases = language_of(example), _phrases(example)
    for number, phrase in enumerate(phrases, start=1):
        if not _sentences(phrase, language):
            raise DataError(f"example {example.id!r}: phrase {number} of the outline is empty; correct or remove it")
    story = written_text(prediction)
    return None if story is None else _covered(_recall(phrase, story, language) or 0.0 for phrase in phrases)


# The mean over the phrases of all stories.
coverage = Statistic(_coverage, ratio, absent=NO_OUTLINE)
coverage_corrected = Statistic(_coverage_corrected, ratio, absent=NO_OUTLINE)

# ---- order -----------------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Where a phrase stands.

    Attributes:
        rank: of the phrase in the human story.
        gold: where the phrase first stands in the human story, word for word; -1 where it does not.
        story: where the longest stretch that it shares with the written story first stands there; -1 where that
            stretch is too short.
    """

    rank: int
    gold: int
    story: int


def _placed(example: GenerationExample, prediction: Prediction) -> list[Placed]:
    """Return the phrases in the order of the human story; none where there are none, or nothing was written."""
    story = written_text(prediction)
    if story is None:
        return []
    language = language_of(example)
    spelled = _spaced if language == "en" else lambda text: "".join(text.split())
    gold, story = example.references[0].lower().strip(), spelled(story)
    placed: dict[str, Placed] = {}
    for rank, phrase in enumerate(sorted(_phrases(example), key=gold.find)):  # a phrase that is repeated counts once
        placed[phrase] = Placed(rank, gold.find(phrase), _place(spelled(phrase), story, SHORTEST[language]))
    return list(placed.values())


def _place(phrase: str, story: str, shortest: int) -> int:
    """Return where the longest stretch that a phrase and a story share stands in the story; -1 if it is too short.

    Of several such stretches, the one that comes first in the phrase counts, at its first place in the story.
    """
    start = longest = 0
    for first in range(len(phrase)):
        while first + longest < len(phrase) and phrase[first : first + longest + 1] in story:
            start, longest = first, longest + 1
    shared = phrase[start : start + longest]
    return story.find(shared) if len("".join(shared.split())) >= shortest else -1


def order(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return how far the phrases stand in the order of the human story, as the script counts it.

    Phrases that are not found come first, in reversed order, and each phrase counts as a pair with itself, so the
    least that n phrases can get is 2 / (n + 1).
    """
    placed = _placed(example, prediction)
    if not placed:
        return None
    backwards = placed[::-1]  # the order that phrases at one place keep, those that are not found among them
    ranks = [one.rank for one in sorted(backwards, key=lambda one: one.story)]
    inversions = sum(one > other for one, other in combinations(ranks, 2))
    return 1 - inversions / (len(ranks) * (len(ranks) + 1) / 2)


def order_corrected(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of pairs of phrases that are not inverted, among the phrases that stand in both stories.

    Equal places are no inversion. With fewer than two such phrases the value is 1, also for a story without any
    phrase: read it beside `phrases_found` only.
    """
    placed = _placed(example, prediction)
    pairs = list(combinations((one for one in placed if min(one.gold, one.story) >= 0), 2))
    inversions = sum((one.gold - other.gold) * (one.story - other.story) < 0 for one, other in pairs)
    return (1 - inversions / len(pairs) if pairs else 1.0) if placed else None


def phrases_found(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the phrases of an outline that are found in the written story, as `order` finds them."""
    placed = _placed(example, prediction)
    return fmean(one.story >= 0 for one in placed) if placed else None
