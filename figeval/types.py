"""The values that flow through figeval, and nothing else: frozen, slotted, standard library only.

rows → **examples** → **requests** → outputs → **predictions** → **scores**.
One request class per capability of a model; the example classes are beside their task types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias
from unicodedata import normalize

JSON: TypeAlias = dict[str, Any]


# ---- examples --------------------------------------------------------------------------------------------------------

Meta: TypeAlias = Mapping[str, str]
FINGERPRINTED_AS = "fingerprinted_as"  # in the metadata of a field that was renamed: its name in fingerprints
Role: TypeAlias = Literal["trained", "chosen"]  # how a model has seen an example
LATER = {"later": True}  # a field that came later: empty, it does not change the fingerprint of a task's examples


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case.

    They are the same for texts that differ in punctuation, case, blanks or the Unicode form of their accents.
    """
    return "".join(filter(str.isalnum, normalize("NFC", text.lower())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What an example of every task type carries.

    `meta` holds the columns for breakdowns (`--by idiom`); examples that share `cluster` are not independent and
    get clustered standard errors; examples that share `group` are minimal pairs (strict accuracy wants all right).
    `language` is that of the row where the task has rows in several, else empty.
    `prompted` is the same example with the texts that prompts show where these differ from what other models read
    (`prompt_fields` of a task file), e.g. as written instead of lower-cased. It is never scored against.
    `former_fields` are fields that a class no longer has, with the value that its examples had there: fingerprints
    still count them, so that runs stored before can be continued and compared.
    """

    former_fields: ClassVar[Mapping[str, Any]] = {}

    id: str
    meta: Meta = field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None
    language: str = field(default="", metadata=LATER)
    prompted: Example | None = field(default=None, repr=False)

    def for_prompt(self) -> Example:
        """Return the example as prompts show it: `prompted` where there is one, else the example itself."""
        return self if self.prompted is None else self.prompted

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of the example: what a lexical model may learn its word weights from."""
        return ()

    @property
    def subject(self) -> str:
        """The text that is asked about. Examples with the same one are never parted into train and dev."""
        return self.id

    @property
    def asked(self) -> tuple[str, ...]:
        """The texts that are asked about, taken together. Two examples with the same ones, up to spelling (`letters`),
        are the same question: a model that was trained on one of them has seen the other. Options do not count.
        """
        return (self.subject,)

    @property
    def hidden(self) -> bool:
        """Whether a right answer is not known here, so that what depends on it cannot be scored."""
        return False


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text, half-open, in characters: `text[start:end]`."""

    start: int
    end: int


NO_SPAN = Span(0, 0)  # the answer that no stretch of the text is right, as "no answer" in SQuAD 2.0

Input: TypeAlias = str | tuple[str, ...]


# ---- requests, whose attribute `capability` names the method of a model that answers them ----------------------------


class Request(Protocol):
    """What a route asks a model. A plugin may bring classes of its own, best as frozen dataclasses.

    `capability` is the name of the method that answers such requests. Equal requests have equal answers: each is put to
    the model once, so requests are hashable.
    """

    capability: ClassVar[str]

    def __hash__(self) -> int:
        """Equal requests have equal hashes."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """log P(continuation | context), summed over its tokens, natural logarithm.

    The continuation owns the blank between the two: `Continuation("It means", " yes")`. A blank at the end of the
    context is moved to the continuation before tokenising (lm-eval's rule), so both spellings score the same.
    """

    capability: ClassVar[str] = "loglikelihood"
    context: str
    continuation: str


@dataclass(frozen=True, slots=True)
class Cloze:
    """log P(word fills the gap) for each word: `before + word + after`. Needs a model that reads both sides."""

    capability: ClassVar[str] = "fill"
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

    capability: ClassVar[str] = "generate"
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

    capability: ClassVar[str] = "embed"
    text: str


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts whose closeness is wanted; higher is closer."""

    capability: ClassVar[str] = "score_pairs"
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class PairLabel:
    """Two texts and the labels among which the model distributes probability."""

    capability: ClassVar[str] = "label_pairs"
    left: str
    right: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanQuery:
    """Find in `text` what corresponds to `given`; `known` is the other text in full."""

    capability: ClassVar[str] = "find_spans"
    text: str
    given: str
    known: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """The named inputs of a text to be written, for systems that are not prompted."""

    capability: ClassVar[str] = "write"
    values: tuple[tuple[str, Input], ...]


REQUESTS: tuple[type[Request], ...] = (
    Text,
    TextPair,
    PairLabel,
    Continuation,
    Cloze,
    Prompt,
    SpanQuery,
    Inputs,
)


# ---- predictions and scores ------------------------------------------------------------------------------------------

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


class KeptReply(NamedTuple):
    """What a model wrote, as it gave it, and whether it did not see the whole input."""

    output: Reply | str
    truncated: bool


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span that a model found; a higher score is better, a log-probability where the model has one."""

    span: Span
    score: float


# absent: an answer was given, but it is none of the possible ones (a quotation that does not stand in the text)
Status = Literal["ok", "ambiguous", "unparseable", "refusal", "empty", "truncated", "nan", "error", "absent"]
Value: TypeAlias = Any  # int, str, Span, or what a plugin's task type has for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model answered to one example.

    `value` is an option index, a candidate index, a label, a span or a written text, None when there is no answer.
    `scores` run parallel to the options, to candidates + background, to `labels` (pairs), to the anchors or to the
    dimensions of a vector (similarity), and are float64; log-likelihoods, cosines or probabilities, as the route says.
    The score of a label is the probability of its best class: P(entailment) itself where one class stands for that.
    `status` tells "could not be parsed" and "was NaN" from "wrong"; `tied` counts the options that share the
    best score; `truncated` says that the model did not see the whole input. Where classes of several labels tie for
    the best (pairs), `among` has the label of each of these classes, so a label may be in it more than once.
    `priors` are scores without the query; `raw`, `finish` and `error` tell of an answer in words. Of options shown in
    several orders `answers` has a prediction each, with its `order`: `order[p]` is the option at place p. `parts` are
    the spans of a joint example; those that were not asked for are missing at the end. Where spans tie for the best,
    `alike` holds all of them and the first is the value. `source` is the id of the example that a text was taken
    from: records keep it in the text's place.
    """

    example_id: str
    value: Value | None
    scores: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    status: Status = "ok"
    raw: str | None = None
    tied: int = 1
    among: tuple[str, ...] = ()
    truncated: bool = False
    priors: tuple[float, ...] = ()
    finish: Finish | None = None
    error: str = ""
    order: tuple[int, ...] = ()
    answers: tuple[Prediction, ...] = ()
    parts: tuple[Prediction, ...] = ()
    alike: tuple[Span, ...] = ()
    source: str = ""


def written(prediction: Prediction) -> dict[str, str]:
    """Return what a model wrote and how it ended as JSON, as far as there is anything."""
    said = {"raw": prediction.raw, "finish": prediction.finish, "error": prediction.error or None}
    return {key: value for key, value in said.items() if value is not None}


UNRELIABLE = ", unreliable: fewer than 10 effective clusters"  # ends the name of an interval's method


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number with its uncertainty.

    `low` and `high` bound the 95 % interval, None where no honest one exists (`interval` then says why); `stderr` is
    the standard error it rests on; `n` counts examples and `clusters` the independent groups they form.
    `effective_clusters` is as many groups of equal size as would be as good, None where the groups are of equal size.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    n: int = 0
    clusters: int = 0
    effective_clusters: float | None = None
    interval: str = ""
    higher_is_better: bool = True
