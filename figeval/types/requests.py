"""What a model is asked: one request class per capability, which it names in its attribute `capability`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from figeval.types.examples import Input


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
