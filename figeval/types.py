"""The immutable values that are passed through figeval: frozen, slotted, standard library only.

rows → **examples** → **requests** → outputs → **predictions** → **scores**.
One request class per capability of a model; the example classes are beside their task types.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from figeval.scores import Interval as Interval
from figeval.scores import IntervalEnds as IntervalEnds
from figeval.scores import Score as Score

JSON: TypeAlias = dict[str, Any]
"""A JSON object, such as the description of a model."""

# ---- examples --------------------------------------------------------------------------------------------------------

Meta: TypeAlias = Mapping[str, str]
FINGERPRINTED_AS = "fingerprinted_as"  # metadata key of a renamed field: its former name, which fingerprints still use
Role: TypeAlias = Literal["trained", "chosen"]  # how a model has seen an example
LATER = {"later": True}  # a field that was added later: its default does not change a task's fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The fields of an example that all task types share.

    `meta` holds the columns for breakdowns (`--by idiom`); examples that share `cluster` are not independent and
    get clustered standard errors; examples that share `group` are minimal pairs (strict accuracy requires all right).
    `language` is that of the row if the task has rows in several languages, else empty. Metrics and models that are
    fitted also see the language of a task with a single one, unless it is English, and the `segmenter` that the task
    names for the language (`figeval.language.words`).
    `prompted` is the same example with the texts for prompts, if these differ from the texts for other models
    (`prompt_fields` of a task file), e.g. not lower-cased. It is never scored.
    `removed_fields` are fields that a class no longer has, with the value that its examples had there: fingerprints
    still count them, so that earlier runs can be continued and compared.
    """

    removed_fields: ClassVar[Mapping[str, Any]] = {}

    id: str
    meta: Meta = field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None
    language: str = field(default="", metadata=LATER)
    segmenter: str = field(default="", metadata=LATER)
    prompted: Example | None = field(default=None, repr=False)

    def for_prompt(self) -> Example:
        """Return the example as prompts show it: `prompted` if there is one, else the example itself."""
        return self if self.prompted is None else self.prompted

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the example, from which a lexical model may learn word weights."""
        return ()

    @property
    def subject(self) -> str:
        """The text that is asked about. Examples with the same subject are never split between train and dev."""
        return self.id

    @property
    def asked(self) -> tuple[str, ...]:
        """The texts that are asked about, taken together; options do not count.

        Two examples with the same texts, up to spelling (`words.letters`), are the same question: a model that was
        trained on one of them has seen the other.
        """
        return (self.subject,)

    @property
    def identities(self) -> tuple[tuple[str, ...], ...]:
        """The texts that identify the question: all of its input together. A type may have several such lists of texts.

        Two examples that share one, blanks, punctuation and case aside, ask the same, whatever their ids. Neither is
        a solved example of the other (`questions.question_keys`).
        """
        return (self.asked,)

    @property
    def hidden(self) -> bool:
        """True if a right answer is unknown here, so that metrics which need it cannot be computed."""
        return False


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in a text: `text[start:end]`."""

    start: int
    end: int


NO_SPAN = Span(0, 0)  # the answer that the text has no right span, as "no answer" in SQuAD 2.0

Input: TypeAlias = str | tuple[str, ...]


# ---- requests; their attribute `capability` names the method of a model that answers them ----------------------------


class Request(Protocol):
    """A request of a route to a model. A plugin may define classes of its own, preferably frozen dataclasses.

    `capability` is the name of the method that answers such requests. Equal requests have equal answers, and each is
    sent to the model only once; therefore requests must be hashable.
    """

    capability: ClassVar[str]

    def __hash__(self) -> int:
        """Return a hash that is equal for equal requests."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """log P(continuation | context), summed over its tokens, natural logarithm.

    The continuation includes the blank between the two: `Continuation("It means", " yes")`. A blank at the end of the
    context is moved to the continuation before tokenising (lm-eval's rule), so both spellings have the same score.
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
class AnswerFormat:
    """Format of acceptable answers, for models that can be held to it (`--constrain`).

    Attributes:
        choices: the acceptable answers: letters of options, or words for labels.
        schema: JSON Schema of the answer, as text because requests are hashable; empty if there are choices.
    """

    choices: tuple[str, ...] = ()
    schema: str = ""

    def __str__(self) -> str:
        """Return the format for people."""
        return self.schema or f"one of {' | '.join(self.choices)}"

    @classmethod
    def of_list(cls, name: str, items: JSON, most: int) -> AnswerFormat:
        """Return the format of an object with a list of up to `most` items under one key."""
        return cls.of_object({name: {"type": "array", "items": items, "maxItems": most}})

    @classmethod
    def of_object(cls, properties: JSON) -> AnswerFormat:
        """Return the format of an object with exactly these properties."""
        whole = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        return cls(schema=json.dumps(whole))

    @property
    def json_schema(self) -> JSON:
        """The JSON Schema of the answer; choices are strings."""
        return dict(json.loads(self.schema)) if self.schema else {"type": "string", "enum": list(self.choices)}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation whose next turn the model writes, until one of `stop` or `max_new_tokens`.

    An assistant's turn begins as it would continue the user's text (a blank before the letter), because a model
    without a chat template reads the turns as one text, `plain`. `answer` is what an acceptable answer is. It is None
    unless the run asks for constrained answers, which only models with `constrains_answers = True` are asked for.
    `sample` numbers several answers to the same conversation (`--samples`), from 0: a model draws each with other
    random numbers, and the same ones in every run.
    """

    capability: ClassVar[str] = "generate"
    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 64
    answer: AnswerFormat | None = None
    sample: int = 0

    def __repr__(self) -> str:  # fields that were added later do not change the digest of a prompt (`digest_of`)
        answer = "" if self.answer is None else f", answer={self.answer!r}"
        answer += f", sample={self.sample}" if self.sample else ""
        return f"Prompt(messages={self.messages!r}, stop={self.stop!r}, max_new_tokens={self.max_new_tokens!r}{answer})"

    @property
    def plain(self) -> str:
        """The turns as one text: an answer directly follows its question, and a blank line follows the answer."""
        return plain_text(self.messages)


def plain_text(messages: Sequence[Message]) -> str:
    """Join turns into one text for a model that knows no roles."""
    after = {"system": "\n\n", "user": "", "assistant": "\n\n"}
    return "".join(message.content + after[message.role] for message in messages)


TextRole: TypeAlias = Literal["query", "document", ""]


@dataclass(frozen=True, slots=True)
class Text:
    """One text to be embedded.

    Some encoders read queries and documents differently. `role` says which the text is: "query", "document" for what a
    query is compared with, or "" for a text that is compared with others of its kind.
    """

    capability: ClassVar[str] = "embed"
    text: str
    role: TextRole = field(default="", repr=False)  # `figeval preview` shows what stands in the repr


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts whose closeness is requested; a higher score is closer."""

    capability: ClassVar[str] = "score_pairs"
    left: str
    right: str


class Many(ABC):
    """Very many requests as one, which are sent to the model block by block, never all at once.

    Its answer is an array of the answers in order. Routes use such requests for lists that the examples of a task
    share, e.g. the 100,000 documents that every query is compared with. `at_once` is the method with which a model may
    answer the whole request; `recurs` says whether other examples have the same one, so that its answer is kept.
    """

    __slots__ = ()
    capability: ClassVar[str]
    at_once: ClassVar[str] = ""
    recurs: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of requests."""

    @abstractmethod
    def block(self, begin: int, end: int) -> Sequence[Request]:
        """Return the requests from `begin` up to, but without, `end`."""


@dataclass(frozen=True, slots=True)
class ManyTexts(Many):
    """Many texts of one role to be embedded; the answer is an array of shape (n, d)."""

    capability: ClassVar[str] = "embed"
    recurs: ClassVar[bool] = True
    texts: tuple[str, ...]
    role: TextRole = ""

    def __len__(self) -> int:
        return len(self.texts)

    def block(self, begin: int, end: int) -> Sequence[Text]:  # noqa: D102
        return [Text(text, self.role) for text in self.texts[begin:end]]


@dataclass(frozen=True, slots=True)
class ManyPairs(Many):
    """A text and many others, whose closeness to it is requested; the answer is an array of shape (n,)."""

    capability: ClassVar[str] = "score_pairs"
    at_once: ClassVar[str] = "score_many"
    left: str
    rights: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rights)

    def block(self, begin: int, end: int) -> Sequence[TextPair]:  # noqa: D102
        return [TextPair(self.left, right) for right in self.rights[begin:end]]


@dataclass(frozen=True, slots=True)
class PairLabel:
    """Two texts and the labels over which the model distributes probability."""

    capability: ClassVar[str] = "label_pairs"
    left: str
    right: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpanQuery:
    """Request for the span of `text` that corresponds to `given`; `known` is the other text in full."""

    capability: ClassVar[str] = "find_spans"
    text: str
    given: str
    known: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """Named inputs from which a text is written, for systems without prompts; `sample` is as in `Prompt`."""

    capability: ClassVar[str] = "write"
    values: tuple[tuple[str, Input], ...]
    sample: int = 0

    def __repr__(self) -> str:  # as in `Prompt`
        return f"Inputs(values={self.values!r}{f', sample={self.sample}' if self.sample else ''})"


REQUESTS: tuple[type[Request], ...] = (Text, TextPair, PairLabel, Continuation, Cloze, Prompt, SpanQuery, Inputs)


# ---- predictions -----------------------------------------------------------------------------------------------------

Finish: TypeAlias = Literal["stop", "length", "refusal", "error"]
"""Why a text ends; see `Reply`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The text that a model wrote.

    `finish` is the reason for its end: the model stopped, `max_new_tokens` was reached, a filter refused, or an error
    occurred (`error` describes it; the next run asks about such an example again).
    `reasoning` is a trace that the server returned separately; a trace within `text` is removed by the extractor.
    `answer_tokens` and `reasoning_tokens` are the numbers of tokens that the model wrote for the answer and for its
    reasoning; None if unknown. Without reasoning, the latter is 0. Equal texts are equal replies, however they are
    counted.
    """

    text: str
    finish: Finish = "stop"
    reasoning: str = ""
    error: str = ""
    answer_tokens: int | None = field(default=None, compare=False)
    reasoning_tokens: int | None = field(default=None, compare=False)


class KeptReply(NamedTuple):
    """The model's original output, and whether the model did not see the whole input."""

    output: Reply | str
    truncated: bool


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span that a model found; a higher score is better, and is a log-probability if the model has one."""

    span: Span
    score: float


Status = Literal["ok", "ambiguous", "unparseable", "refusal", "empty", "truncated", "nan", "error", "absent", "unasked"]
"""Whether an answer could be used: `ok`, or the reason why not.

`absent` means that there is an answer, but not a possible one (a quotation that does not occur in the text). `unasked`
means that the route cannot put the example to a model (more options than letters), and `error` that no reply arrived.
"""
WITHOUT_REPLY: tuple[Status, ...] = ("error", "unasked")  # about which nothing is known, so that no metric counts them
Value: TypeAlias = Any  # int, str, Span, or the type that a plugin's task type uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The model's answer to one example.

    `value` is an option index, a candidate index, a label, a span or a written text, or None if there is no answer.
    `scores` run parallel to the options, to candidates + background, to `labels` (pairs), to the anchors or to the
    dimensions of a vector (similarity), and are float64: log-likelihoods, cosines or probabilities, depending on the
    route; a tuple, or an `array.array` for thousands of candidates. The score of a label is the probability of its best
    class, e.g. P(entailment) if only that class means it.
    `status` distinguishes "could not be parsed" and "was NaN" from "wrong"; `tied` counts the options that share the
    best score; `truncated` says that the model did not see the whole input, `straddling` that a token would have joined
    the prompt and an option, which were encoded apart; `dropped_shots` counts solved examples that did not fit. If
    classes of several labels tie for the best (pairs), `tied_labels` has the label of each, maybe more than once.
    `priors` are scores without the query; `raw`, `finish`, `error` and the numbers of tokens describe an answer in
    words, as in `Reply`. If the options were shown in several orders, `answers` has a prediction for each, with its
    `order`: `order[p]` is the option at place p. If the question was asked several times (`--samples`), `samples` has
    a prediction for each time. `parts` are the spans of a joint example, without those at the end that were not
    requested. If spans tie for the best, `tied_spans` holds all of them and the first is the value. `source` is the id
    of the example that a text was taken from, which records store instead of the text.
    """

    example_id: str
    value: Value | None
    scores: Sequence[float] = ()
    labels: tuple[str, ...] = ()
    status: Status = "ok"
    raw: str | None = None
    tied: int = 1
    tied_labels: tuple[str, ...] = ()
    truncated: bool = False
    straddling: bool = False
    dropped_shots: int = 0
    priors: tuple[float, ...] = ()
    finish: Finish | None = None
    error: str = ""
    order: tuple[int, ...] = ()
    answers: tuple[Prediction, ...] = ()
    samples: tuple[Prediction, ...] = ()
    parts: tuple[Prediction, ...] = ()
    tied_spans: tuple[Span, ...] = ()
    source: str = ""
    answer_tokens: int | None = None
    reasoning_tokens: int | None = None


def written(prediction: Prediction) -> JSON:
    """Return the fields about a model's text that are set, as JSON: `raw`, `finish`, `error` and its tokens."""
    names = ("raw", "finish", "error", "answer_tokens", "reasoning_tokens")
    values = {name: getattr(prediction, name) for name in names if name != "error" or prediction.error}
    return {name: value for name, value in values.items() if value is not None}
