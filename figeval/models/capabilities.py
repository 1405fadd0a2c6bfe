"""The capabilities of models as typed protocols, and `ask`, the one function that sends requests to a model.

A **capability** is a method of the model object (roberta-large without an NLI head has no `label_pairs`). It takes a
list of requests of one class and returns as many answers, in the same order. A request class names its capability
(`Text.capability == "embed"`), so a plugin may define requests of its own: it names the method in the class attribute
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
| `FindsSpans` | `find_spans` | `SpanQuery` | `ScoredSpan`s, best first; empty if no span was found |
| `Writes` | `write` | `Inputs` | `Reply`, or a plain str |

Every model implements `Fingerprints`, or is declared `deterministic_by_name = True`. `Fits`, `Describes`, `Closes`,
`Chats`, `HasRoom`, `ScoresTokens` and `EstimatesCost` are optional. The protocols are for type checkers and
`isinstance` on plain classes; figeval itself looks for callable attributes, so that a model may gain a method in its
constructor, or pass one on to another model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from figeval.errors import CapabilityError, MissingPackage, ModelError, PluginError
from figeval.io import observer as progress
from figeval.plugins import foreign_code
from figeval.registry import a_type
from figeval.types import (
    JSON,
    REQUESTS,
    Cloze,
    Continuation,
    Example,
    Inputs,
    Many,
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
BLOCK = 2048  # requests of a `Many` that are sent together
KNOWN_CAPABILITIES = tuple(request.capability for request in REQUESTS)


@dataclass(frozen=True, slots=True)
class Outputs(Generic[T]):
    """Answers of one call with further facts. A capability may return this or any plain sequence.

    Attributes:
        values: one answer per request, in their order.
        truncated: indexes of the requests that did not fit the model.
        straddling: indexes of the requests in which a token of the model would have straddled the border of two texts,
            such as a prompt and an option, so that they were encoded apart.
    """

    values: Sequence[T]
    truncated: Set[int] = field(default_factory=frozenset)
    straddling: Set[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """Answers to some requests of a call.

    Attributes:
        rows: indexes of the requests.
        values: answers, parallel to `rows`.
        truncated: indexes of the requests that did not fit the model.
        straddling: indexes of the requests whose texts were encoded apart, as in `Outputs`.
    """

    rows: Sequence[int]
    values: Sequence[T]
    truncated: Set[int] = frozenset()
    straddling: Set[int] = frozenset()


class Answer(NamedTuple):
    """The answer to one request, and whether the request is among `Outputs.truncated` and `Outputs.straddling`."""

    output: Any
    truncated: bool = False
    straddling: bool = False


@dataclass(slots=True)
class OutputStream(Generic[T]):
    """Answers that a model gives part by part, in any order, while it computes the others.

    A capability may return this if a call takes minutes: a run then stores the rows that a part completes before it
    asks for the next part, so that an interrupt loses only the part that was being computed.

    Attributes:
        requests: number of requests.
        parts: iterator of the parts, in which every request occurs once. Each counts as progress.
    """

    requests: int
    parts: Iterator[Part[T]]
    _gathered: Outputs[T] | None = None

    def gathered(self) -> Outputs[T]:
        """Wait for all parts and return their answers in the order of the requests."""
        if self._gathered is None:
            outputs: dict[int, T] = {}
            cut: set[int] = set()
            straddling: set[int] = set()
            for part in self.parts:
                outputs.update(zip(part.rows, part.values, strict=True))
                cut.update(part.truncated)
                straddling.update(part.straddling)
            self._gathered = Outputs([outputs[row] for row in range(self.requests)], cut, straddling)
        return self._gathered

    @property
    def values(self) -> Sequence[T]:
        """All answers, in the order of the requests."""
        return self.gathered().values

    @property
    def truncated(self) -> Set[int]:
        """Indexes of all requests that did not fit the model."""
        return self.gathered().truncated

    @property
    def straddling(self) -> Set[int]:
        """Indexes of all requests whose texts were encoded apart."""
        return self.gathered().straddling


Answers: TypeAlias = Sequence[T] | Outputs[T] | OutputStream[T]


# ---- requests that a model may answer -------------------------------------------------------------------------------


@runtime_checkable
class Embeds(Protocol):
    """Computes embeddings of texts.

    An attribute `similarity = "dot"` declares that vectors must be compared by their dot product, as in training; it
    counts as a separate capability, `dot`.
    """

    def embed(self, requests: Sequence[Text], /) -> Vectors | Outputs[Any]:
        """Return one vector per text: an array of shape (n, d), or n sequences of d numbers."""


@runtime_checkable
class ScoresPairs(Protocol):
    """Scores how close two texts are."""

    def score_pairs(self, requests: Sequence[TextPair], /) -> Answers[float]:
        """Return one float per pair; higher is closer. The scale is the model's own, and equal scores are ties."""


@runtime_checkable
class LabelsPairs(Protocol):
    """Distributes probability over labels for a pair of texts."""

    def label_pairs(self, requests: Sequence[PairLabel], /) -> Answers[Mapping[str, float | tuple[float, ...]]]:
        """Return {label: probability} per pair, over the labels of the request; the probabilities sum to 1.

        If several classes of the model mean one label, a tuple has the probability of each class.
        """


@runtime_checkable
class ComputesLoglikelihood(Protocol):
    """Returns the probability with which the model would continue a text."""

    def loglikelihood(self, requests: Sequence[Continuation], /) -> Answers[float]:
        """Return Σ log P(token of the continuation | context and earlier tokens), in nats, at most 0."""


@runtime_checkable
class Fills(Protocol):
    """Returns the probability of words in a gap."""

    def fill(self, requests: Sequence[Cloze], /) -> Answers[tuple[float, ...]]:
        """Return per request a tuple parallel to its `words`: log P(word fills the gap), in nats."""


@runtime_checkable
class Generates(Protocol):
    """Generates answers to conversations.

    figeval infers whether the model reads conversations or plain text; an attribute `is_chat_model` overrides this (see
    `Model.is_chat_model`). An attribute `min_batch_size` sets the minimum number of examples per batch, and
    `context_length` says how many tokens the model reads and writes together, if that is known.

    An attribute `constrains_answers = True`, of the model and of its factory, declares that replies keep to
    `Prompt.answer`, of which there is one only with --constrain. An attribute `answers_in_parallel = True` of a factory
    declares that all its models have a `min_batch_size` over 1, so that workers are of no use to them. A factory with
    an option `reasoning` receives the `figeval.reasoning.Reasoning` of --reasoning, or None.

    A model whose texts can be sampled has an attribute `do_sample`, True if they are: each `Prompt.sample` of the same
    conversation is then another draw. Only such models are asked several times (--samples).

    A model that only generates with other options has an attribute `capability_hint` instead of the method: a cure for
    the error that the user sees, such as "give --apply_chat_template to have answers written".
    """

    def generate(self, requests: Sequence[Prompt], /) -> Answers[Reply | str]:
        """Return a `Reply` per conversation (`Prompt.messages`, or `Prompt.plain` as one text), or its text alone.

        A failed reply has `finish="error"`; the next run retries its example.
        """


@runtime_checkable
class FindsSpans(Protocol):
    """Finds the part of a text that corresponds to another text."""

    def find_spans(self, requests: Sequence[SpanQuery], /) -> Answers[Sequence[ScoredSpan]]:
        """Return the spans found in each `text`, best first; an empty sequence if there are none.

        Spans are half-open and count characters of `text`.
        """


@runtime_checkable
class Writes(Protocol):
    """Writes a text from named inputs, without a prompt."""

    def write(self, requests: Sequence[Inputs], /) -> Answers[Reply | str]:
        """Return a `Reply` per request, or its text alone."""


# ---- optional methods of a model ------------------------------------------------------------------------------------


@runtime_checkable
class Fingerprints(Protocol):
    """Identifies the exact model. Required of every model that is not `DeterministicByName`."""

    def fingerprint(self) -> str:
        """Return a text that changes whenever an answer could: a digest of the weights, or a version of the method.

        It is compared when a run resumes, so that no model continues the run of another. It is never empty.
        """


class DeterministicByName(Protocol):
    """A model whose answers are determined by its name and options alone, which replace a fingerprint."""

    deterministic_by_name: bool


@runtime_checkable
class Fits(Protocol):
    """Is fitted to a task before answering.

    The examples are those of the task's `prior` split, or else of its train or test split; an attribute `fit_splits`
    names others. Where the task has none of these, the test split takes their place, unless the model has the attribute
    `needs_fit_split = True`: then the task fails with a message.
    """

    def fit(self, examples: Iterable[Example], /) -> None:
        """Learn from the examples. Called once per task, before its first request."""


@runtime_checkable
class Describes(Protocol):
    """Describes itself for the record of a run: device, precision, longest input …"""

    def describe(self) -> JSON:
        """Return a value that JSON can hold; a list `warnings` in it is printed below the table."""


@runtime_checkable
class Unifies(Protocol):
    """Answers some requests alike, e.g. texts of different roles if it reads no prompts."""

    def canonical(self, request: Text, /) -> Text:
        """Return the text that stands for all that have the same vector; only this one is sent."""


@runtime_checkable
class Closes(Protocol):
    """Has resources that must be released."""

    def close(self) -> None:
        """Release resources. Called at the end of a run, perhaps more than once."""


@runtime_checkable
class Chats(Protocol):
    """Has a chat template. The method exists only if the template is enabled."""

    def chat(self, messages: Sequence[Message], /) -> str:
        """Return a conversation as one text, with the header of the answer."""


@runtime_checkable
class HasRoom(Protocol):
    """Knows how long its texts may be, so that solved examples are left out of prompts that would not fit."""

    def has_room(self, requests: Sequence[Continuation | Prompt], /) -> bool:
        """Return whether each request fits whole, with the answer that it asks for.

        It should need no weights, because `figeval preview` calls it, too.
        """


@runtime_checkable
class ScoresTokens(Protocol):
    """Knows the probability of every token of a text. No route needs this, but `figeval contamination` does."""

    def token_scores(self, texts: Sequence[str], /) -> Outputs[NDArray[np.float64]]:
        """Return an array of shape (tokens, 3) per text, in nats.

        A row has log P(token | earlier tokens), and the mean and the standard deviation of log P over the vocabulary at
        this place, under the model's own distribution. A text that does not fit the model loses its end.
        """


@runtime_checkable
class EstimatesCost(Protocol):
    """Estimates the cost of a run before the first prompt is sent."""

    def estimate(self, prompts: Iterable[Prompt], /) -> str:
        """Return one line for the user."""


# ---- asking ---------------------------------------------------------------------------------------------------------


def capabilities(backend: object) -> frozenset[str]:
    """Return the capabilities of a model object: methods for figeval's requests and those in its `capabilities`.

    Raises:
        PluginError: the attribute `capabilities` names a method that does not exist.
    """
    declared: Sequence[str] | str = getattr(backend, "capabilities", ())
    declared = (declared,) if isinstance(declared, str) else declared
    for name in declared:
        if not callable(getattr(backend, name, None)):
            raise PluginError(f"{type(backend).__name__}.capabilities names {name!r}, but it has no such method")
    offered = frozenset(name for name in (*KNOWN_CAPABILITIES, *declared) if callable(getattr(backend, name, None)))
    return offered | {"dot"} if "embed" in offered and getattr(backend, "similarity", "") == "dot" else offered


def capability_of(request: Request) -> str:
    """Return the name of the method that answers a request. Raises `PluginError` if it is not a request."""
    capability = getattr(request, "capability", None)
    if not isinstance(capability, str):
        raise PluginError(f"a route yielded {a_type(request)}; yield a list of requests, such as figeval.Text")
    return capability


def ask(backend: object, requests: Sequence[Request]) -> Outputs[Any]:
    """Send requests of one class to the method that answers them, and return one answer per request.

    Raises:
        PluginError: the model returned another number of values, or something without an order.
    """
    answer = send(backend, requests)
    return answer.gathered() if isinstance(answer, OutputStream) else answer


@contextmanager
def model_code() -> Iterator[None]:
    """Run code of a model like `foreign_code`. Raises `ModelError` if it lacks a package, which all tasks need."""
    try:
        with foreign_code():
            yield
    except MissingPackage as error:
        raise ModelError(str(error)) from error


def ask_many(backend: object, request: Many) -> Answer:
    """Return the answers to many requests as one array; a fact about some of them is one about the array.

    They are sent in blocks, unless the model has a method that answers them at once.

    Raises:
        PluginError: the model returned another number of values, or something without an order.
    """
    import numpy as np

    if request.at_once and callable(at_once := getattr(backend, request.at_once, None)):
        with model_code():
            return Answer(np.asarray(at_once(request)))
    answers = []
    truncated = straddling = False
    for begin in range(0, len(request), BLOCK):
        with progress.block(begin, len(request)):
            outputs = ask(backend, request.block(begin, begin + BLOCK))
        answers.append(np.asarray(outputs.values))
        truncated |= bool(outputs.truncated)
        straddling |= bool(outputs.straddling)
    return Answer(np.concatenate(answers), truncated, straddling)


def answered_alike(backend: object, requests: Iterable[Request]) -> dict[Request, list[Request]]:
    """Return the requests to be sent, each with those that its answer is for; usually with itself alone."""
    groups: dict[Request, list[Request]] = {}
    unifier = backend if isinstance(backend, Unifies) else None
    with model_code():
        for request in requests:
            sent = unifier.canonical(request) if unifier is not None and isinstance(request, Text) else request
            groups.setdefault(sent, []).append(request)
    return groups


def send(backend: object, requests: Sequence[Request]) -> Outputs[Any] | OutputStream[Any]:
    """Send requests like `ask`, and return a stream of answers if the model does.

    Raises:
        PluginError: the model returned another number of values, or something without an order; a stream raises it
            when the wrong part, or its end, is reached.
    """
    name = capability_of(requests[0])
    method = f"{type(backend).__name__}.{name}"
    call = progress.begin_call(len(requests))
    with model_code(), progress.within(call):
        answer = _method(backend, name)(requests)
        if isinstance(answer, OutputStream):
            return OutputStream(len(requests), _check_parts(iter(answer.parts), len(requests), call, method))
        outputs: Outputs[Any] = answer if isinstance(answer, Outputs) else Outputs(answer)
        values = _in_order(outputs.values, method)
    if len(values) != len(requests):
        raise PluginError(f"{method} returned {len(values)} outputs for {len(requests)} requests; return one for each")
    return Outputs(values, outputs.truncated, outputs.straddling)


def _method(backend: object, name: str) -> Callable[[Sequence[Request]], Any]:
    """Return the method for a capability. Raises `CapabilityError` if there is none."""
    method: Callable[[Sequence[Request]], Any] | None = getattr(backend, name, None)
    if not callable(method):
        raise CapabilityError(f"{type(backend).__name__} has no method {name}, which these requests need")
    return method


def _check_parts(parts: Iterator[Part[Any]], n: int, call: progress.Call, method: str) -> Iterator[Part[Any]]:
    """Yield the parts of the answers to `n` requests. Raises `PluginError` unless each request occurs once."""
    left = set(range(n))
    while True:
        with model_code(), progress.within(call):
            part = next(parts, None)
        if part is None:
            break
        if not isinstance(part, Part):
            raise PluginError(f"{method} returned {a_type(part)} among its parts; make each a figeval.Part")
        values = _in_order(part.values, method)
        new = len(left.intersection(part.rows))
        if not new == len(part.rows) == len(values):
            raise PluginError(f"{method} returned a part that does not have one value for each of its requests, once")
        left.difference_update(part.rows)
        call.reach(1 - len(left) / n)
        yield replace(part, values=values)
    if left:
        raise PluginError(f"{method} returned {n - len(left)} outputs for {n} requests; return one for each")


def _in_order(values: Any, method: str) -> Sequence[Any]:
    """Return answers as a sequence. A dict would pass for one with its keys as answers; a set has no order."""
    answers = list(values) if isinstance(values, Iterator) else values
    try:
        if isinstance(answers, str | bytes | Mapping | Set) or not hasattr(answers, "__getitem__"):
            raise TypeError
        len(answers)
    except TypeError:
        raise PluginError(
            f"{method} returned {a_type(values)}; return a list or an array with one value per request, in their order"
        ) from None
    sequence: Sequence[Any] = answers
    return sequence
