"""What a model can do: typed protocols, and the one function that asks a model.

A **capability** is a method of the model object (roberta-large without an NLI head has no `label_pairs`). It takes a
list of requests of one class and returns as many answers, in the same order. A class of requests knows its capability
(`Text.capability == "embed"`), so a plugin may bring requests of its own: it names the method in the class attribute
`capability` of the request, in the `needs` of the route that yields it, and in an attribute `capabilities` of the
models that answer it.

| protocol | method | request | answer |
|---|---|---|---|
| `Embeds` | `embed` | `Text` | vector of d numbers; all of one call as an array of shape (n, d) |
| `ScoresPairs` | `score_pairs` | `TextPair` | float, higher is closer |
| `LabelsPairs` | `label_pairs` | `PairLabel` | {label: probability}, summing to 1 |
| `ComputesLoglikelihood` | `loglikelihood` | `Continuation` | float, Σ log P(token), natural logarithm |
| `Fills` | `fill` | `Cloze` | tuple of floats, log P(word in the gap), parallel to `words` |
| `Generates` | `generate` | `Prompt` | `Reply`, or a plain str |
| `FindsSpans` | `find_spans` | `SpanQuery` | `ScoredSpan`s, best first; none where nothing was found |
| `Writes` | `write` | `Inputs` | `Reply`, or a plain str |

Every model implements `Fingerprints`, or is declared `deterministic_by_name = True`. `Fits`, `Describes`, `Closes`,
`Chats` and `EstimatesCost` are optional. The protocols are for type checkers and `isinstance` on plain classes;
figeval itself looks for callable attributes, so that a model may get a method while it is made, or hand it on to
another model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from figeval.errors import PluginError
from figeval.plugins import foreign_code
from figeval.registry import a_type
from figeval.types import (
    JSON,
    REQUESTS,
    Cloze,
    Continuation,
    Example,
    Inputs,
    Message,
    PairLabel,
    Prompt,
    Reply,
    Request,
    ScoredSpan,
    SpanQuery,
    Text,
    TextPair,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = Sequence[Sequence[float]] | NDArray[np.floating[Any]]

T = TypeVar("T")
KNOWN = tuple(request.capability for request in REQUESTS)


@dataclass(frozen=True, slots=True)
class Outputs(Generic[T]):
    """Answers of one call that want to say more: `truncated` holds the indexes whose input did not fit the model.

    A capability may return this or any plain sequence.
    """

    values: Sequence[T]
    truncated: Set[int] = field(default_factory=frozenset)


Answers: TypeAlias = Sequence[T] | Outputs[T]


# ---- what a model can be asked --------------------------------------------------------------------------------------


@runtime_checkable
class Embeds(Protocol):
    """Turns texts into vectors. An attribute `similarity = "dot"` says that the vectors are to be compared by their dot
    product, as they were in training; it counts as a capability of its own, `dot`.
    """

    def embed(self, requests: Sequence[Text], /) -> Vectors | Outputs[Any]:
        """Return one vector per text: an array of shape (n, d), or n sequences of d numbers."""


@runtime_checkable
class ScoresPairs(Protocol):
    """Says how close two texts are."""

    def score_pairs(self, requests: Sequence[TextPair], /) -> Answers[float]:
        """Return one float per pair; higher is closer. The scale is the model's own, and equal scores are ties."""


@runtime_checkable
class LabelsPairs(Protocol):
    """Distributes probability over labels of two texts."""

    def label_pairs(self, requests: Sequence[PairLabel], /) -> Answers[Mapping[str, float | tuple[float, ...]]]:
        """Return {label: probability} per pair, over the labels of the request; the probabilities sum to 1.

        Where several classes of the model mean one label, a tuple has the probability of each class.
        """


@runtime_checkable
class ComputesLoglikelihood(Protocol):
    """Gives the probability with which it would continue a text."""

    def loglikelihood(self, requests: Sequence[Continuation], /) -> Answers[float]:
        """Return Σ log P(token of the continuation | context and earlier tokens), in nats, at most 0."""


@runtime_checkable
class Fills(Protocol):
    """Gives the probability of words in a gap."""

    def fill(self, requests: Sequence[Cloze], /) -> Answers[tuple[float, ...]]:
        """Return per request a tuple parallel to its `words`: log P(word fills the gap), in nats."""


@runtime_checkable
class Generates(Protocol):
    """Answers conversations in words.

    An attribute `converses` says whether prompts are answered as conversations where that cannot be guessed (see
    `Model.converses`); an attribute `at_once` says how many examples the model can well be asked about together,
    however slow it is.
    """

    def generate(self, requests: Sequence[Prompt], /) -> Answers[Reply | str]:
        """Return a `Reply` per conversation (`Prompt.messages`, or `Prompt.plain` as one text), or its text alone.

        A reply that failed has `finish="error"`: its example is asked again by the next run.
        """


@runtime_checkable
class FindsSpans(Protocol):
    """Finds the stretch of a text that corresponds to another one."""

    def find_spans(self, requests: Sequence[SpanQuery], /) -> Answers[Sequence[ScoredSpan]]:
        """Return the spans found in each `text`, best first; none where nothing was found.

        Spans are half-open and count characters of `text`.
        """


@runtime_checkable
class Writes(Protocol):
    """Writes a text from named inputs, without a prompt."""

    def write(self, requests: Sequence[Inputs], /) -> Answers[Reply | str]:
        """Return a `Reply` per request, or its text alone."""


# ---- what else a model may say of itself ----------------------------------------------------------------------------


@runtime_checkable
class Fingerprints(Protocol):
    """Tells whether it is the model that it was before. Required of every model that is not `DeterministicByName`."""

    def fingerprint(self) -> str:
        """Return a text that changes whenever an answer could: a digest of the weights, or a version of the method.

        It is compared when a run goes on, so that no model continues what another one began. It is never empty.
        """


class DeterministicByName(Protocol):
    """A model whose name and options alone determine its answers: they stand in the place of a fingerprint."""

    deterministic_by_name: bool


@runtime_checkable
class Fits(Protocol):
    """Learns from a task before it answers.

    The examples are those of the task's `prior` split, or of its train or test split where there is none; an attribute
    `fit_splits` names others.
    """

    def fit(self, examples: Iterable[Example], /) -> None:
        """Learn from the examples. Called once per task, before its first request."""


@runtime_checkable
class Describes(Protocol):
    """Says what should stand in the record of a run: device, precision, longest input …"""

    def describe(self) -> JSON:
        """Return what JSON can hold; a list `warnings` is printed under the table."""


@runtime_checkable
class Closes(Protocol):
    """Holds something that should be given back."""

    def close(self) -> None:
        """Free memory. Called at the end of a run, perhaps more than once."""


@runtime_checkable
class Chats(Protocol):
    """Has a chat template. The method is there only while the template is switched on."""

    def chat(self, messages: Sequence[Message], /) -> str:
        """Return a conversation as one text, with the header of the answer."""


@runtime_checkable
class EstimatesCost(Protocol):
    """Says what a run will cost before the first prompt is asked."""

    def estimate(self, prompts: Iterable[Prompt], /) -> str:
        """Return one line for the user."""


# ---- asking ---------------------------------------------------------------------------------------------------------


def capabilities(backend: object) -> frozenset[str]:
    """The capabilities that a model object offers: its methods that answer figeval's requests, and those that it names
    in its attribute `capabilities`.

    Raises:
        PluginError: it names one that it has no method for.
    """
    named: Sequence[str] | str = getattr(backend, "capabilities", ())
    named = (named,) if isinstance(named, str) else named
    for name in named:
        if not callable(getattr(backend, name, None)):
            raise PluginError(f"{type(backend).__name__}.capabilities names {name!r}, but it has no such method")
    offered = frozenset(name for name in (*KNOWN, *named) if callable(getattr(backend, name, None)))
    return offered | {"dot"} if "embed" in offered and getattr(backend, "similarity", "") == "dot" else offered


def capability_of(request: Request) -> str:
    """The method that answers a request. Raises `PluginError` for what is no request."""
    capability = getattr(request, "capability", None)
    if not isinstance(capability, str):
        raise PluginError(f"a route yielded {a_type(request)}; yield a list of requests, such as figeval.Text")
    return capability


def ask(backend: object, requests: Sequence[Request]) -> Outputs[Any]:
    """Send requests of one class to the method that answers them; there is one answer per request.

    Raises:
        PluginError: the model answered with another number of values, or with something that has no order.
    """
    name = capability_of(requests[0])
    method = f"{type(backend).__name__}.{name}"
    with foreign_code():
        answer = getattr(backend, name)(requests)
        outputs: Outputs[Any] = answer if isinstance(answer, Outputs) else Outputs(answer)
        values = _in_order(outputs.values, method)
    if len(values) != len(requests):
        raise PluginError(f"{method} returned {len(values)} outputs for {len(requests)} requests; return one for each")
    return Outputs(values, outputs.truncated)


def _in_order(values: Any, method: str) -> Sequence[Any]:
    """Answers as a sequence. A dict would pass for one, and its keys for answers; a set has no order."""
    found = list(values) if isinstance(values, Iterator) else values
    try:
        if isinstance(found, str | bytes | Mapping | Set) or not hasattr(found, "__getitem__"):
            raise TypeError
        len(found)
    except TypeError:
        raise PluginError(
            f"{method} returned {a_type(values)}; return a list or an array with one value per request, in their order"
        ) from None
    sequence: Sequence[Any] = found
    return sequence
