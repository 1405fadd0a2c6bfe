"""The values that flow through figeval, and nothing else: frozen, slotted, standard library only.

rows → **examples** → **requests** → outputs → **predictions** → **scores**.
One example class per protocol, one request class per capability of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Meta: TypeAlias = Mapping[str, str]


# ---- examples: one class per protocol ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What every protocol's example carries.

    `meta` holds the columns for breakdowns (`--by idiom`); examples that share `cluster` are not independent and
    get clustered standard errors; examples that share `group` are minimal pairs (strict accuracy wants all right).
    """

    id: str
    meta: Meta = field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of the example: what a lexical model may learn its word weights from."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """Pick one of a few options. `gold` is an index into `options`, None when the label is hidden."""

    query: str
    options: tuple[str, ...]
    gold: int | None

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingExample(Example):
    """Order many candidates; `relevant` holds the indexes of the right ones.

    `background` are further candidates against which only the `*_all` metrics rank (the unseen split of ePiC is
    scored among its 100 proverbs and, beside that, among all 250).
    Examples of one task share the same candidate tuple: it is stored once.
    """

    query: str
    candidates: tuple[str, ...]
    relevant: frozenset[int]
    background: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.candidates, *self.background)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Two texts and the relation between them (premise and hypothesis, idiom and paraphrase)."""

    left: str
    right: str
    label: str | None

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text, half-open, in characters: `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A span of the left text and the span of the right text that it stands for."""

    left: Span
    right: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """Align spans of two texts."""

    left: str
    right: str
    links: tuple[SpanLink, ...]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationExample(Example):
    """Write a text from named inputs; `references` are human ones."""

    inputs: Mapping[str, str]
    references: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (*self.inputs.values(), *self.references)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """One text of a nearest-neighbour task; texts of the same `motif` are similar."""

    text: str
    motif: str

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.text,)


# ---- requests: one class per capability ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Continuation:
    """log P(continuation | context), summed over its tokens, natural logarithm.

    The continuation owns the blank between the two: `Continuation("It means", " yes")`. A blank at the end of the
    context is moved to the continuation before tokenising (lm-eval's rule), so both spellings score the same.
    """

    context: str
    continuation: str


@dataclass(frozen=True, slots=True)
class Cloze:
    """log P(word fills the gap) for each word: `before + word + after`. Needs a model that reads both sides."""

    before: str
    after: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation whose next turn the model writes, until one of `stop` or `max_new_tokens`.

    An assistant's turn begins as it would continue the user's text (a blank before the letter): a model without a
    chat template reads the turns as one text, `plain`.
    """

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 64

    @property
    def plain(self) -> str:
        """The turns as one text: an answer follows its question at once, a blank line follows the answer."""
        return plain_text(self.messages)


def plain_text(messages: Sequence[Message]) -> str:
    """Turns as one text for a model that knows no roles."""
    after = {"system": "\n\n", "user": "", "assistant": "\n\n"}
    return "".join(message.content + after[message.role] for message in messages)


@dataclass(frozen=True, slots=True)
class Text:
    """One text to be embedded."""

    text: str


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts whose closeness is wanted; higher is closer."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class PairLabel:
    """Two texts and the labels among which the model distributes probability."""

    left: str
    right: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanQuery:
    """Find in `text` what corresponds to `given`; `known` is the other text in full."""

    text: str
    given: str
    known: str


Request: TypeAlias = Continuation | Cloze | Prompt | Text | TextPair | PairLabel | SpanQuery


# ---- what a model writes ---------------------------------------------------------------------------------------------

Finish: TypeAlias = Literal["stop", "length", "refusal", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model wrote. `finish` says why it ended: by itself, at `max_new_tokens`, refused by a filter, or not at
    all (`error` holds why; such an example is asked again by the next run).

    `reasoning` is a trace that the server kept apart; a trace within `text` is the extractor's to strip.
    """

    text: str
    finish: Finish = "stop"
    reasoning: str = ""
    error: str = ""


# ---- predictions and scores ----------------------------------------------------------------------------------------

Status = Literal["ok", "ambiguous", "unparseable", "refusal", "empty", "truncated", "nan", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model answered to one example.

    `value` is an option index, a candidate index or a label, None when there is no answer. `scores` run parallel to
    the options, to candidates + background, or to `labels` (pairs), and are float64; log-likelihoods, cosines or
    probabilities, as the route says.
    `status` tells "could not be parsed" and "was NaN" from "wrong"; `tied` counts the options that share the
    best score; `truncated` says that the model did not see the whole input.
    `priors` are scores without the query; `raw`, `finish` and `error` tell of an answer in words. Of options shown in
    several orders `answers` has a prediction each, with its `order`: `order[p]` is the option at place p.
    """

    example_id: str
    value: int | str | None
    scores: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    status: Status = "ok"
    raw: str | None = None
    tied: int = 1
    truncated: bool = False
    priors: tuple[float, ...] = ()
    finish: Finish | None = None
    error: str = ""
    order: tuple[int, ...] = ()
    answers: tuple[Prediction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number with its uncertainty.

    `low` and `high` bound the 95 % interval, None where no honest one exists (`interval` then says why); `stderr` is
    the standard error it rests on; `n` counts examples and `clusters` the independent groups they form.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    n: int = 0
    clusters: int = 0
    interval: str = ""
    higher_is_better: bool = True


JSON: TypeAlias = dict[str, Any]
