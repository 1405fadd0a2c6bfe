"""Surprisal: −log2 P(word | what the model sees of the text), for each word and for the signs between words.

A left-to-right model sees what precedes a word, a masked model also what follows it. Blanks belong to the word that
they precede.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from figeval.errors import DataError
from figeval.prompts import PromptContext
from figeval.task_types.base import TaskType, metric
from figeval.task_types.fields import Definition, Field, OptionalTextField, RowContext, SpanField, TextField, TextsField
from figeval.task_types.routes import Dialogue, Route
from figeval.types import JSON, Continuation, Example, Prediction, Request, Span, Value

from .requests import WordScores
from .text_pieces import Piece, divide, locate_words, split_context, words_of

METRICS = f"{__package__}.surprisal_metrics"
FLOOR = "uniform_bytes"


# ---- examples --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilledTextField(TextField):
    """A text that is not blank."""

    def read(self, value: Any, row: RowContext) -> str:
        text = super(FilledTextField, self).read(value, row)
        if not text.strip():
            raise row.error("the text is blank")
        return text


@dataclass(frozen=True, slots=True)
class OptionalFilledTextField(OptionalTextField):
    """A text that is not blank, or null."""

    def read(self, value: Any, row: RowContext) -> str | None:  # type: ignore[override]
        return None if value is None else FilledTextField("").read(value, row)


@dataclass(frozen=True, slots=True)
class StudyWordsField(TextsField):
    """The words of the text in `of`, in order, as a study divided it; null for those of the project."""

    shown: bool = False

    def read(self, value: Any, row: RowContext) -> tuple[str, ...] | None:  # type: ignore[override]
        if value is None:
            return None
        words, text = super(StudyWordsField, self).read(value, row), row.read.get(self.of)
        if text is None:
            raise row.error(f"there is no {self.of} with these words")
        try:
            locate_words(text, words)
        except ValueError as error:
            raise row.error(str(error)) from error
        return words

    def problem(self, value: Any, example: Any) -> str:
        return "" if value is None else super(StudyWordsField, self).problem(value, example)

    def schema(self) -> JSON:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class RegionField(SpanField):
    """A span of the text in `of`, which may be null; null if there is none."""

    def read(self, value: Any, row: RowContext) -> Span | None:
        if value is not None and row.read.get(self.of) is None:
            raise row.error(f"there is no {self.of} with this span")
        return super(RegionField, self).read(value, row) or None


@dataclass(frozen=True, slots=True)
class MeasuresField(Field):
    """A number or null for each word, or null."""

    def read(self, value: Any, row: RowContext) -> tuple[float | None, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise row.error(f"expected a list of numbers, found {value!r:.80}")
        for number, measure in enumerate(value, start=1):
            is_number = isinstance(measure, int | float) and not isinstance(measure, bool) and math.isfinite(measure)
            if measure is not None and not is_number:
                raise row.error(f"measure {number} is {measure!r:.80}, not a number")
        return tuple(None if measure is None else float(measure) for measure in value)

    def schema(self) -> JSON:
        return {"anyOf": [{"type": "array", "items": {"type": ["number", "null"]}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SurprisalExample(Example):
    """A text, with what is to be learnt about the surprisal of its words.

    `words` and `contrast_words` are those of the project unless the task names others.
    """

    text: Annotated[str, FilledTextField("The text whose words are scored.")]
    context: Annotated[
        str | None, OptionalTextField("The text before it, which is not scored; null if there is none.")
    ] = None
    words: Annotated[
        tuple[str, ...] | None,
        StudyWordsField("The words of the text, in order, if a study divided it in its own way.", of="text"),
    ] = None
    region: Annotated[
        Span | None,
        RegionField(
            "The expression in question: its words (first occurrence), or [start, end]; null: none.", of="text"
        ),
    ] = None
    measures: Annotated[
        tuple[float | None, ...] | None,
        MeasuresField("What people did at each word, e.g. reading times in ms; null where it is missing."),
    ] = None
    contrast: Annotated[
        str | None, OptionalFilledTextField("Another version of the text, e.g. a literal one; null if there is none.")
    ] = None
    contrast_words: Annotated[
        tuple[str, ...] | None,
        StudyWordsField("Its words, if a study divided it in its own way.", of="contrast"),
    ] = None
    contrast_region: Annotated[
        Span | None, RegionField("The expression in the other version; null: none.", of="contrast")
    ] = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.contrast is None else (self.text, self.contrast)

    @property
    def subject(self) -> str:
        """The text."""
        return self.text

    @property
    def asked(self) -> tuple[str, ...]:
        """The text with the other version and what precedes both."""
        return (*self.texts, self.context or "")


def pieces_of(text: str, words: Sequence[str] | None) -> list[Piece]:
    """Return the pieces of a text of an example; without words, in no particular language."""
    return divide(text, words_of(text) if words is None else words)


# ---- answers ---------------------------------------------------------------------------------------------------------


class Surprisal(NamedTuple):
    """Surprisal of `text[start:end]` in bits, None if it is unknown."""

    start: int
    end: int
    bits: float | None


@dataclass(frozen=True, slots=True)
class TextSurprisals:
    """The words of a text, and the signs between them, with their surprisal."""

    words: tuple[Surprisal, ...]
    signs: tuple[Surprisal, ...] = ()

    @classmethod
    def of(cls, pieces: Sequence[Piece], logprobs: Sequence[float]) -> TextSurprisals:
        """Return the surprisals from log-probabilities in nats; NaN and infinite ones are unknown."""
        surprisals = [
            (piece, Surprisal(piece.start, piece.end, -logprob / math.log(2) + 0.0 if math.isfinite(logprob) else None))
            for piece, logprob in zip(pieces, map(float, logprobs), strict=True)
        ]
        words = tuple(surprisal for piece, surprisal in surprisals if piece.is_word)
        return cls(words, tuple(surprisal for piece, surprisal in surprisals if not piece.is_word))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TextSurprisals:
        words, signs = (tuple(Surprisal(*numbers) for numbers in stored[key]) for key in ("words", "signs"))
        return cls(words, signs)

    def to_json(self) -> JSON:
        return {"words": list(map(list, self.words)), "signs": list(map(list, self.signs))}

    @property
    def pieces(self) -> list[Surprisal]:
        """Words and signs in the order of the text."""
        return sorted((*self.words, *self.signs), key=lambda piece: piece[:2])

    def problem(self, text: str) -> str:
        """Return what is wrong with the surprisals as those of a text, or ""."""
        end = 0
        for piece in self.pieces:
            if not all(isinstance(index, int) for index in piece[:2]) or not end <= piece.start < piece.end <= len(
                text
            ):
                return f"{piece[:2]!r:.80} is no further stretch of a text of {len(text)} characters"
            if piece.bits is not None and not (isinstance(piece.bits, int | float) and math.isfinite(piece.bits)):
                return f"{piece.bits!r:.80} is no number of bits"
            end = piece.end
        return ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The surprisals of a text, and those of its other version."""

    text: TextSurprisals
    contrast: TextSurprisals | None = None


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_words(example: SurprisalExample, _context: PromptContext) -> Dialogue:
    """Score the words of each version at once, with a model that knows them."""
    versions = _versions(example)
    requests: list[Request] = [WordScores(*_split(example.context, text, pieces)) for text, pieces in versions]
    scores = yield requests
    return _predict(example, versions, scores)


def by_loglikelihood(example: SurprisalExample, _context: PromptContext) -> Dialogue:
    """Score each word as the continuation of what precedes it.

    Without anything before it, a word follows the token that begins a text; where a model has none, it is unknown.
    """
    versions = _versions(example)
    requests: list[Request] = []
    for text, pieces in versions:
        before, stretches = _split(example.context, text, pieces)
        for stretch in stretches:
            requests.append(Continuation(before, stretch))
            before += stretch
    logprobs = yield requests
    scores = iter(logprobs)
    return _predict(example, versions, [[next(scores) for _ in pieces] for _, pieces in versions])


def _split(context: str | None, text: str, pieces: Sequence[Piece]) -> tuple[str, tuple[str, ...]]:
    """Return the context, and the stretches of the text that end with each piece, with the white space before it."""
    before, space = split_context(context, text)
    first, *rest = (text[start:end] for start, end in pairwise((0, *(piece.end for piece in pieces))))
    return before, (space + first, *rest)


def _versions(example: SurprisalExample) -> list[tuple[str, list[Piece]]]:
    """Return the text and the other version with their pieces."""
    versions = [(example.text, pieces_of(example.text, example.words))]
    if example.contrast is not None:
        versions.append((example.contrast, pieces_of(example.contrast, example.contrast_words)))
    return versions


def _predict(
    example: SurprisalExample, versions: Sequence[tuple[str, list[Piece]]], scores: Sequence[Sequence[float]]
) -> Prediction:
    surprisals = [TextSurprisals.of(pieces, numbers) for (_, pieces), numbers in zip(versions, scores, strict=True)]
    if all(piece.bits is None for text in surprisals for piece in text.pieces):
        return Prediction(example_id=example.id, value=None, status="nan")
    return Prediction(example_id=example.id, value=Answer(*surprisals))


# ---- the type --------------------------------------------------------------------------------------------------------


class SurprisalType(TaskType[SurprisalExample]):
    """Say how unexpected each word of a text is."""

    name = "surprisal"
    Example = SurprisalExample
    gold_fields = ("text",)  # what is there to be expected
    given_form = '{"text": {"words": [[start, end, bits], …], "signs": [[start, end, bits], …]}}'
    folder = files(__package__)
    default_metrics = ("surprisal", "bits_per_byte")
    default_baselines = (FLOOR,)
    routes = (
        Route(name="by_words", start=by_words, requests=(WordScores,)),
        Route(name="by_loglikelihood", start=by_loglikelihood, needs=frozenset({"loglikelihood"})),
    )
    metrics = (
        metric("surprisal", f"{METRICS}:SURPRISAL", lower_is_better=True, counts_words=True),
        metric("bits_per_byte", f"{METRICS}:BITS_PER_BYTE", lower_is_better=True),
        metric("word_perplexity", f"{METRICS}:WORD_PERPLEXITY", lower_is_better=True, counts_words=True),
        metric("region_surprisal", f"{METRICS}:REGION_SURPRISAL", lower_is_better=True, counts_words=True),
        metric("acc", f"{METRICS}:less_surprising", counts_words=True),
        metric("contrast_difference", f"{METRICS}:CONTRAST_DIFFERENCE", counts_words=True),
        metric("pearson", f"{METRICS}:PEARSON", counts_words=True),
        metric("delta_loglik", f"{METRICS}:DELTA_LOGLIK", counts_words=True),
    )

    def completed(self, example: SurprisalExample, task: Any) -> SurprisalExample:
        """Return the example with the words of its texts.

        Raises:
            DataError: there is not one measure for each word.
        """
        reading = task.with_language(example)

        def words(text: str) -> tuple[str, ...]:
            return words_of(text, reading.language, reading.segmenter)

        changes: dict[str, Any] = {}
        if example.words is None:
            changes["words"] = words(example.text)
        if example.contrast is not None and example.contrast_words is None:
            changes["contrast_words"] = words(example.contrast)
        completed = replace(example, **changes) if changes else example
        measures, number = completed.measures, len(completed.words or ())
        if measures is not None and len(measures) != number:
            raise DataError(
                f"{example.id!r}: {len(measures)} measures for {number} words; give one for each, null where it is "
                "missing, or name the words of the study in `words`"
            )
        return completed

    def check(self, task: Definition) -> None:
        """Raise `ValueError` for a field of the other version without that version."""
        for name in ("contrast_words", "contrast_region"):
            if name in task.fields and "contrast" not in task.fields:
                raise ValueError(f"{name} is about the field contrast, which the task lacks; add it")

    def query_text(self, example: SurprisalExample) -> str:
        return example.text

    def row(self, example: SurprisalExample, prediction: Prediction) -> JSON:  # noqa: ARG002
        """Return the row; the numbers are in the answer."""
        return {"gold": self.gold(example), "scores": []}

    def gold(self, example: SurprisalExample) -> Any:
        """Return the measures."""
        return None if example.measures is None else list(example.measures)

    def gold_texts(self, example: SurprisalExample) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def to_json(self, value: Value | None) -> Any:
        """Return the surprisals as lists of [start, end, bits]."""
        if value is None:
            return None
        contrast = {} if value.contrast is None else {"contrast": value.contrast.to_json()}
        return {"text": value.text.to_json(), **contrast}

    def from_json(self, stored: Any) -> Answer | None:
        """Return the answer of a stored row."""
        if stored is None:
            return None
        contrast = TextSurprisals.from_json(stored["contrast"]) if "contrast" in stored else None
        return Answer(TextSurprisals.from_json(stored["text"]), contrast)

    def value_problem(self, value: Value, example: SurprisalExample, labels: Sequence[str]) -> str:  # noqa: ARG002
        if not isinstance(value, Answer):
            return f"{value!r:.80} is no surprisal of a text"
        contrast = "" if value.contrast is None else value.contrast.problem(example.contrast or "")
        return value.text.problem(example.text) or contrast

    def shown_gold(self, example: SurprisalExample) -> str:
        if example.measures is None:
            return "(none)"
        return " ".join("–" if measure is None else f"{measure:g}" for measure in example.measures)

    def oddities(self, example: SurprisalExample) -> Iterator[tuple[str, str]]:
        """Yield texts and regions without a word."""
        words = [piece for piece in pieces_of(example.text, example.words) if piece.is_word]
        if not words:
            yield "has no word", example.text
        elif example.region and not any(w.start < example.region.end and w.end > example.region.start for w in words):
            yield "has no word in its region", example.text
