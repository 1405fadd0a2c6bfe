"""The task type `labelling`: a text as words, and a label for each.

The examples hold tags as written; the module `tags` defines their meaning. An answer has one tag per word, or a tuple
of tags if several labels of a word share the highest probability: metrics score ties by expectation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any, ClassVar, TypeAlias

from figeval.errors import CapabilityError, DataError
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, metric
from figeval.task_types.fields import Definition, Field, RowContext, TextsField
from figeval.task_types.given import Given
from figeval.task_types.label_words import TextExample
from figeval.task_types.routes import Dialogue, ReplyReader, Route
from figeval.types import JSON, LATER, AnswerFormat, Prediction, Value

from .requests import LabelWords
from .tags import (
    ALIASES,
    DEFAULT_SCHEME,
    NO_LABELS,
    OUTSIDE,
    PLAIN_SCHEME,
    SCHEMES,
    Chunk,
    Scheme,
    chunks,
    kinds,
    scheme_of,
    strays,
    write_tags,
)

Answer: TypeAlias = "tuple[str | tuple[str, ...], ...]"
METRICS = f"{__package__}.chunk_metrics"
QUOTES = "by_quotes"
MAX_QUOTES = 100  # quotations of a constrained reply, as many as are read


# ---- examples --------------------------------------------------------------------------------------------------------


def word_problem(words: Sequence[str]) -> str:
    """Return the problem with the words of a text, or "" if there is none."""
    for number, word in enumerate(words, start=1):
        if not word.strip():
            return f"word {number} is {'blank' if word else 'empty'}; leave it out together with its tag"
        if len(word.split()) > 1 or word != word.strip():
            return f"word {number} ({word!r:.80}) contains a space; split it, or strip it"
    return ""


@dataclass(frozen=True, slots=True)
class WordsField(TextsField):
    """A list of strings without blanks."""

    def problem(self, value: Any, example: Any) -> str:
        return super(WordsField, self).problem(value, example) or word_problem(value)

    def read(self, value: Any, row: RowContext) -> tuple[str, ...]:
        words = super(WordsField, self).read(value, row)
        if problem := word_problem(words):
            raise row.error(problem)
        return words


@dataclass(frozen=True, slots=True)
class TagsField(Field):
    """One of the task's labels for each word; null if the gold labels are hidden."""

    def read(self, value: Any, row: RowContext) -> tuple[str, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise row.error(f"expected a list of tags, found {value!r:.80}")
        labels = row.task.labels
        for number, tag in enumerate(value, start=1):
            if tag not in labels:
                raise row.error(f"tag {number} is {tag!r:.80}, which is not among the labels {', '.join(labels)}")
        if len(value) != len(row.read["tokens"]):
            raise row.error(f"{len(value)} tags for {len(row.read['tokens'])} words; give one for each")
        return tuple(value)

    def problem(self, value: Any, example: Any) -> str:
        if value is None or len(value) == len(example.tokens):
            return ""
        return f"{len(value)} tags for {len(example.tokens)} words"

    def schema(self) -> JSON:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class StretchesField(Field):
    """Stretches of words as [start, end], half-open; null if unknown."""

    def read(self, value: Any, row: RowContext) -> tuple[tuple[int, int], ...] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise row.error(f"expected a list of spans of words, found {value!r:.80}")
        return tuple(self._stretch(stretch, row) for stretch in value)

    def _stretch(self, value: Any, row: RowContext) -> tuple[int, int]:
        words = len(row.read["tokens"])
        match value:
            case [int(start), int(end)] | (int(start), int(end)) if 0 <= start < end <= words:
                return start, end
        raise row.error(f"{value!r:.80} is not a span of {words} words; write [start, end]")

    def schema(self) -> JSON:
        pair = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
        return {"anyOf": [{"type": "array", "items": pair}, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class SchemeField(Field):
    """The name of a scheme of tags, which becomes the scheme."""

    def read(self, value: Any, row: RowContext) -> Scheme:
        names = (*SCHEMES, PLAIN_SCHEME)
        name = ALIASES.get(str(value).upper(), value)
        if name not in names:
            raise row.error(f"{value!r:.80} is no scheme of tags; write one of {', '.join(names)}")
        try:
            return scheme_of(tuple(row.task.labels), name)
        except ValueError as error:
            raise row.error(str(error)) from error

    def schema(self) -> JSON:
        return {"enum": [*SCHEMES, *ALIASES, PLAIN_SCHEME]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingExample(TextExample):
    """The words of a text and the tag of each; `tags` is None if they are hidden.

    `seen` are the stretches whose words are an expression of the training split (`expressions`), whatever their tags.
    It is None if there is no training split.
    """

    gold_field: ClassVar[str] = "tags"

    tokens: Annotated[
        tuple[str, ...], WordsField("The words of the text, in order.", empty="there are no words", shown=False)
    ]
    tags: Annotated[tuple[str, ...] | None, TagsField("One of the labels for each word; null if they are hidden.")]
    seen: Annotated[
        tuple[tuple[int, int], ...] | None,
        StretchesField("Spans of words, [start, end], that are expressions of the training split; null if unknown."),
    ] = None
    scheme: Annotated[
        Scheme, SchemeField("Scheme of the tags: BIO, IOBES, BILOU …; needed only if the labels do not show it.")
    ] = field(default=DEFAULT_SCHEME, metadata=LATER)

    @property
    def text(self) -> str:
        """Words joined by blanks."""
        return " ".join(self.tokens)


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_tagger(example: LabellingExample, context: PromptContext) -> Dialogue:
    """Answer with the most probable label of each word, or all labels that tie for it."""
    (words,) = yield [LabelWords(example.tokens, context.labels)]
    if len(words) != len(example.tokens):
        raise DataError(f"{example.id!r}: the model labelled {len(words)} words of {len(example.tokens)}")
    if any(math.isnan(value) for word in words for value in word.values()):
        return Prediction(example_id=example.id, value=None, status="nan")
    best = [_best(word, context.labels) for word in words]
    answer: Answer = tuple(labels[0] if len(labels) == 1 else labels for labels in best)
    return Prediction(example_id=example.id, value=answer, tied=max(map(len, best)))


def _best(word: Mapping[str, float], labels: Sequence[str]) -> tuple[str, ...]:
    highest = max(word.get(label, 0.0) for label in labels)
    return tuple(label for label in labels if word.get(label, 0.0) == highest)


READER = ReplyReader(f"{__package__}.word_replies:read_quotes", version="3")


def by_quotes(example: LabellingExample, context: PromptContext) -> Dialogue:
    """Answer with the words that a language model quotes.

    Raises:
        CapabilityError: the task has chunks of several kinds, which quotations cannot distinguish.
    """
    if len(known_kinds := kinds(context.labels, example.scheme)) > 1:
        raise CapabilityError(
            f"the task distinguishes kinds of spans ({', '.join(known_kinds)}), which quotations cannot "
            "express, so language models cannot answer it; use a model that labels words"
        )
    (reply,) = yield [context.prompt("quotes", example, quotes_format)]
    return READER.read(example, context, reply)


def quotes_format(_example: LabellingExample, _context: PromptContext) -> AnswerFormat:
    """Return the format of an object with a list of quotations, which is empty if there is nothing to quote."""
    return AnswerFormat.of_list("quotes", {"type": "string"}, most=MAX_QUOTES)


# ---- the type --------------------------------------------------------------------------------------------------------


class Labelling(TaskType[LabellingExample]):
    """Give each word of a text a label."""

    name = "labelling"
    Example = LabellingExample
    gold_fields = ("tags",)
    given_form = "a list with a tag for each word; in a table, tags separated by blanks"
    folder = files(__package__)
    routes = (
        Route(name="by_tagger", start=by_tagger, requests=(LabelWords,)),
        Route(
            name=QUOTES,
            start=by_quotes,
            needs=frozenset({"generate"}),
            question="quotes",
            reader=READER,
            answer_format=quotes_format,
            metrics=("span_f1_of_all", "quotes_found", "parse_rate"),
        ),
    )
    metrics = (
        *(metric(name, f"{METRICS}:{name}") for name in ("span_f1", "span_precision", "span_recall", "span_f1_of_all")),
        *(metric(name, f"{METRICS}:{name}") for name in ("f1_seen", "f1_unseen")),
        *(metric(name, f"{METRICS}:{name}") for name in ("token_f1", "token_acc", "sentence_acc")),
        metric("quotes_found", f"{METRICS}:quotes_found", routes=[QUOTES]),
        metric("parse_rate", "figeval.metrics.classification:parse_rate"),
    )
    default_metrics = ("span_f1", "span_precision", "span_recall", "token_f1")
    default_baselines = ("chance_label", "no_label")

    def check(self, task: Definition) -> None:
        """Raise `ValueError` for labels of no known scheme, or of several unless the rows declare which it is."""
        if "scheme" not in task.fields:
            scheme_of(tuple(task.labels))
        elif OUTSIDE not in task.labels or len(task.labels) < 2:
            raise ValueError(NO_LABELS)

    def completed(self, example: LabellingExample, task: Definition) -> LabellingExample:
        """Return the example with the scheme that the task's labels show, unless its rows declare one."""
        return example if "scheme" in task.fields else replace(example, scheme=scheme_of(tuple(task.labels)))

    def query_text(self, example: LabellingExample) -> str:
        return example.text

    def few_shot_answer(self, block: str, example: LabellingExample, _context: PromptContext) -> str | None:
        """Return the chunks, one per line, or "none"; not called for examples whose tags are hidden."""
        texts = [" ".join(example.tokens[start:end]) for start, end, _ in chunks(example.tags or (), example.scheme)]
        return "\n" + ("\n".join(texts) or "none") if block == "quotes" else None

    def to_json(self, value: Value | None) -> Any:
        """Return a list with a tag per word, or a list of tags for a tie."""
        return None if value is None else [tag if isinstance(tag, str) else list(tag) for tag in value]

    def from_json(self, stored: Any) -> Answer | None:
        return None if stored is None else tuple(tag if isinstance(tag, str) else tuple(tag) for tag in stored)

    def given(self, example: LabellingExample, entry: Given, labels: Sequence[str]) -> Prediction:
        """Return the tags of a list, or of a text with blanks between them."""
        value = entry.parsed
        return super().given(example, Given(value.split() if isinstance(value, str) else value), labels)

    def value_problem(self, value: Value, example: LabellingExample, labels: Sequence[str]) -> str:
        if not isinstance(value, tuple) or len(value) != len(example.tokens):
            return f"{value!r:.80} does not have a tag for each of {len(example.tokens)} words"
        tags = {tag for word_tags in value for tag in ((word_tags,) if isinstance(word_tags, str) else word_tags)}
        unknown_tags = sorted(map(str, tags - set(labels)))
        return f"{unknown_tags[0]!r} is not among the labels {', '.join(labels)}" if unknown_tags else ""

    def shown_gold(self, example: LabellingExample) -> str:
        """Return the chunks as words."""
        if example.tags is None:
            return "(hidden)"
        texts = (" ".join(example.tokens[start:end]) for start, end, _ in chunks(example.tags, example.scheme))
        return " | ".join(texts) or "(none)"

    def gold_class(self, example: LabellingExample) -> str | None:
        if example.tags is None:
            return HIDDEN
        return "something" if set(example.tags) - {OUTSIDE} else "nothing"

    def is_constant(self, gold_class: str) -> bool:
        """Return whether all answers of a class are equal: only "nothing" is."""
        return gold_class == "nothing"

    def oddities(self, example: LabellingExample) -> Iterator[tuple[str, str]]:
        """Yield `I-` tags that do not continue a chunk."""
        for index in strays(example.tags or (), example.scheme):
            yield "continues no span of its kind, so it is read as B-", f"tag {index + 1}"

    def check_training(self, task: Definition, train: Sequence[LabellingExample]) -> None:  # noqa: ARG002
        """Raise `ValueError` if the training split has only `O`."""
        if not any(set(example.tags or ()) - {OUTSIDE} for example in train):
            raise ValueError(f"no training example has a label other than {OUTSIDE}; raise --limit")


def answer_of(spans: Sequence[tuple[int, int]], example: LabellingExample, labels: Sequence[str]) -> Answer:
    """Return the answer in which these stretches of words have the task's only kind."""
    (kind,) = kinds(labels, example.scheme)
    stretches = (Chunk(start, end, kind) for start, end in spans)
    return write_tags(stretches, len(example.tokens), labels, example.scheme)
