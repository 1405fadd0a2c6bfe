"""Metrics of a story written from an outline: coverage of the phrases' words, and the order of the phrases.

`coverage` and `order` are computed as in the evaluation script of Guan et al. (2022), with all of its quirks;
`coverage_corrected` and `order_corrected` avoid the quirks that change what is measured.

Coverage: phrase and story are split into sentences at full stops; the words of a longest common subsequence with each
sentence are united. The recall is the share of the phrase's different words, the score the mean over all phrases of all
stories. The script omits phrases for which the library `rouge` 1.0.1 raises an error, as for long Chinese texts.

Order: the phrases, in reversed order of the human story, are sorted by their positions in the written one. With the
ranks a₁ … aₙ in that sequence, the score is 1 − #{i < j: aᵢ > aⱼ} / (n (n + 1) / 2). So

1. the minimum is 2 / (n + 1), since the denominator counts pairs of a phrase with itself;
2. missing phrases count as inverted and come before all others;
3. a fragment of four letters counts as the phrase, at the first place where it occurs;
4. equal phrases count as one;
5. a story without an outline has no value (the script divides by zero);
6. the human story scores 1 if no two phrases begin at the same place;
7. the score depends on which of several longest substrings is chosen;
8. an empty text has no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from figeval import GenerationExample, Prediction, Statistic
from figeval.errors import DataError
from figeval.metrics.statistic import ratio

from .storal_metrics import language_of, written_text

OUTLINE = "outline"  # the input with the phrases
MARKS = frozenset(",.\"?';:!…-")
MIN_SHARED_CHARS = {"en": 4, "zh": 2}  # non-blank characters that a phrase must share with a story to count as found
MAX_CALLS = 991  # nested calls of a library of the script before Python, up to 3.10, raises RecursionError
NO_OUTLINE = "no story was written from an outline"


def _phrases(example: GenerationExample) -> list[str]:
    """Return the phrases of the outline in lower case, or an empty list if the task has no such input."""
    phrases = example.inputs.get(OUTLINE, ())
    return [phrase.lower().strip() for phrase in ((phrases,) if isinstance(phrases, str) else phrases)]


def _space_marks(text: str) -> str:
    """Put a blank on each side of punctuation marks, and reduce all white space to single blanks."""
    return " ".join("".join(f" {letter} " if letter in MARKS else letter for letter in text).split())


# ---- coverage --------------------------------------------------------------------------------------------------------


def _sentences(text: str, language: str) -> list[list[str]]:
    """Return the words of the stretches between full stops; the words of a Chinese text are its characters."""
    spelled = " ".join("".join(text.split())) if language == "zh" else _space_marks(text)
    return [" ".join(stretch.split()).split(" ") for stretch in spelled.split(".") if stretch]


class CommonSubsequence(NamedTuple):
    """The different words of a longest common subsequence, and the number of recursive calls that it takes."""

    words: set[str]
    calls: int


def _longest_common(phrase: Sequence[str], sentence: Sequence[str]) -> CommonSubsequence:
    """Return the longest common subsequence that the library `rouge` finds by walking back through the table.

    Among several, that is the one that ends last in the phrase, which other libraries need not find. The rows of the
    table are bit sets (Hyyrö 2004), kept only for words of the sentence that occur in the phrase: at other words, the
    walk continues with the previous word.
    """
    bits = dict.fromkeys(phrase, 0)
    for index, word in enumerate(phrase):
        bits[word] |= 1 << index
    numbers = [number for number, word in enumerate(sentence) if word in bits]
    rows = [(1 << len(phrase)) - 1]  # bit i is 0 where the subsequence with phrase[:i + 1] is longer than with [:i]
    for number in numbers:
        matches = rows[-1] & bits[sentence[number]]
        rows.append((rows[-1] + matches | rows[-1] - matches) & rows[0])

    def longest(i: int, j: int) -> int:
        return i - (rows[j] & (1 << i) - 1).bit_count()

    words, skipped, i, j, end = set(), 0, len(phrase), len(numbers), len(sentence)
    while i and j:
        if phrase[i - 1] == sentence[numbers[j - 1]]:
            i, j = i - 1, j - 1
            words.add(phrase[i])
            end = numbers[j]
        elif longest(i - 1, j) > longest(i, j - 1):
            i, skipped = i - 1, skipped + 1
        else:
            j -= 1
    return CommonSubsequence(words, 1 + skipped + len(sentence) - (end if i == 0 else 0))


def _recall(phrase: str, story: str, language: str, max_calls: int | None = None) -> float | None:
    """Return the share of a phrase's different words that are in a longest common subsequence with some sentence.

    The value is None if the phrase or the story has no words, or if `deepest` is exceeded.
    """
    parts, sentences = _sentences(phrase, language), _sentences(story, language)
    if not parts or not sentences:
        return None
    words: set[str] = set()
    for part in parts:
        for sentence in sentences:
            subsequence = _longest_common(part, sentence)
            if max_calls is not None and subsequence.calls > max_calls:
                return None
            words |= subsequence.words
    return len(words) / len({word for part in parts for word in part})


def _sum_recalls(recalls: Iterable[float]) -> tuple[float, float] | None:
    """Return the sum and the number of the recalls, or None if there are none."""
    values = list(recalls)
    return (sum(values), float(len(values))) if values else None


def _coverage(example: GenerationExample, prediction: Prediction) -> tuple[float, float] | None:
    story = written_text(prediction)
    if story is None:
        return None
    language = language_of(example)
    recalls = (_recall(phrase, story, language, MAX_CALLS) for phrase in _phrases(example))
    return _sum_recalls(recall for recall in recalls if recall is not None)


def _coverage_corrected(example: GenerationExample, prediction: Prediction) -> tuple[float, float] | None:
    language, phrases = language_of(example), _phrases(example)
    for number, phrase in enumerate(phrases, start=1):
        if not _sentences(phrase, language):
            raise DataError(f"example {example.id!r}: phrase {number} of the outline is empty; correct or remove it")
    story = written_text(prediction)
    return None if story is None else _sum_recalls(_recall(phrase, story, language) or 0.0 for phrase in phrases)


# The mean over the phrases of all stories.
coverage = Statistic(_coverage, ratio, absent=NO_OUTLINE)
coverage_corrected = Statistic(_coverage_corrected, ratio, absent=NO_OUTLINE)

# ---- order -----------------------------------------------------------------------------------------------------------


class PhrasePosition(NamedTuple):
    """Positions of a phrase.

    Attributes:
        rank: rank of the phrase by its position in the human story.
        gold: first position of the phrase, verbatim, in the human story, or -1 if it does not occur.
        story: first position in the written story of the longest common substring, or -1 if that is too short.
    """

    rank: int
    gold: int
    story: int


def _phrase_positions(example: GenerationExample, prediction: Prediction) -> list[PhrasePosition]:
    """Return the phrases in the order of the human story; the list is empty if nothing was written."""
    story = written_text(prediction)
    if story is None:
        return []
    language = language_of(example)
    spelled = _space_marks if language == "en" else lambda text: "".join(text.split())
    gold, story = example.references[0].lower().strip(), spelled(story)
    positions: dict[str, PhrasePosition] = {}
    for rank, phrase in enumerate(sorted(_phrases(example), key=gold.find)):  # a phrase that is repeated counts once
        positions[phrase] = PhrasePosition(
            rank, gold.find(phrase), _find_shared(spelled(phrase), story, MIN_SHARED_CHARS[language])
        )
    return list(positions.values())


def _find_shared(phrase: str, story: str, min_chars: int) -> int:
    """Return the position in a story of its longest common substring with a phrase, or -1 if that is too short.

    Among several such substrings, the first in the phrase counts, at its first position in the story.
    """
    start = longest = 0
    for first in range(len(phrase)):
        while first + longest < len(phrase) and phrase[first : first + longest + 1] in story:
            start, longest = first, longest + 1
    shared = phrase[start : start + longest]
    return story.find(shared) if len("".join(shared.split())) >= min_chars else -1


def order(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return how well the order of the phrases agrees with the human story, as the script computes it.

    Phrases that are not found come first, in reversed order, and each phrase counts as a pair with itself, so that the
    minimum for n phrases is 2 / (n + 1).
    """
    positions = _phrase_positions(example, prediction)
    if not positions:
        return None
    backwards = positions[::-1]  # the order kept by phrases at the same position or not found
    ranks = [position.rank for position in sorted(backwards, key=lambda position: position.story)]
    inversions = sum(earlier > later for earlier, later in combinations(ranks, 2))
    return 1 - inversions / (len(ranks) * (len(ranks) + 1) / 2)


def order_corrected(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of pairs of phrases that are not inverted, among the phrases found in both stories.

    Equal positions are not an inversion. With fewer than two such phrases, the value is 1, even for a story without any
    phrase, so it must be read together with `phrases_found`.
    """
    positions = _phrase_positions(example, prediction)
    pairs = list(combinations((position for position in positions if min(position.gold, position.story) >= 0), 2))
    inversions = sum((first.gold - second.gold) * (first.story - second.story) < 0 for first, second in pairs)
    return (1 - inversions / len(pairs) if pairs else 1.0) if positions else None


def phrases_found(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of an outline's phrases that are found in the written story, by the rule of `order`."""
    positions = _phrase_positions(example, prediction)
    return fmean(position.story >= 0 for position in positions) if positions else None
