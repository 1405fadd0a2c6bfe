"""Routes, i.e. generators that yield requests, receive their outputs and return a prediction.

    logprobs = yield [Continuation(context, option) for option in example.options]

A route may yield more than once (a second round after the first outputs), and never sees batches, chunks or devices.
A model's route follows from its capabilities, without any branching on model or task types. Routes of several task
types share the steps at the end of this module, e.g.

    scores = yield from cosine_scores(example.query, example.options)
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from figeval.errors import CapabilityError, PluginError
from figeval.io.text import near
from figeval.prompts import Format, PromptContext, no_shots
from figeval.registry import a_type, resolve
from figeval.types import (
    REQUESTS,
    Continuation,
    Example,
    ManyPairs,
    ManyTexts,
    Prediction,
    Reply,
    Request,
    Text,
    TextPair,
    TextRole,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Dialogue: TypeAlias = Generator[Sequence[Request], Sequence[Any], Prediction]
"""What a route does with an example: yields requests, receives the model's outputs, and returns a prediction."""

Start: TypeAlias = Callable[..., Dialogue]
Scores: TypeAlias = "Generator[Sequence[Request], Sequence[Any], Sequence[float]]"
MAX_SEPARATE_OPTIONS = 4096  # longer lists of options are sent as one request, and their scores are an array
ROWS = 4096  # vectors that are compared at a time: 25 MB for 768 dimensions
DOT = "dot"  # not a request: vectors of `embed` are to be compared by their dot product
TAKEN = frozenset(  # names that figeval itself writes among the settings of a task's record
    (
        *("calibration", "chat_template", "decision", "labels", "languages", "max_new_tokens", "metric_arguments"),
        *("metrics", "num_fewshot", "orders", "constrain", "reasoning", "samples", "segmenter", "tasks", "verbalizer"),
        *("prompt_fields", "routes", "seed", "shots", "signatures", "split", "stop", "system_instruction"),
        *("system_as_user", "vocabulary"),
    )
)
WITH_PRIORS = frozenset({"acc_pmi", "mrr_pmi"})  # metrics that need the options' scores without the query


@dataclass(frozen=True, slots=True)
class ReplyReader:
    """Reader that makes predictions from replies in words; `figeval rescore` uses it to read stored replies again.

    Attributes:
        function: `function(example, context, reply)` returns the `Prediction` for a `Reply`; also as
            "module:attribute", which is imported when a reply is read. It is called only for replies that arrived, and
            need not keep the text.
        version: version of the reader. A run is only continued with the same version; raise it when replies are read
            differently.
    """

    function: Callable[[Any, PromptContext, Reply], Prediction] | str
    version: str

    def check(self) -> None:
        """Import the function. Raises `PluginError` if it is not callable."""
        if not callable(resolve(self.function)):
            raise PluginError(f"the reader {self.function!r} is {a_type(resolve(self.function))}; give a function")

    def read(self, example: Example, context: PromptContext, output: Reply | str) -> Prediction:
        """Return the prediction for a reply, with the whole text, so that it can be read again.

        A model may answer with a plain string. A reply that ended in an error is not read: its status is `error`, and
        the next run asks the example again.
        """
        reply = Reply(text=output) if isinstance(output, str) else output
        if reply.finish == "error":
            return Prediction(example_id=example.id, value=None, status="error", finish="error", error=reply.error)
        read = resolve(self.function)(example, context, reply)
        if not isinstance(read, Prediction):
            raise PluginError(f"the reader of replies returned {a_type(read)}; return a figeval.Prediction")
        return replace(
            read,
            raw=reply.text,
            finish=reply.finish,
            answer_tokens=reply.answer_tokens,
            reasoning_tokens=reply.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Procedure that obtains a prediction for an example from a model with certain capabilities.

    Attributes:
        name: name in records, `--route` and `figeval ls routes`.
        start: `start(example, context)` begins the dialogue about one example; also as `"module:attribute"`. A route
            that combines others receives these as further arguments.
        needs: capabilities that the model must offer.
        requests: the route's own classes of requests, whose capabilities are added to `needs`.
        question: template block with the question, which solved examples and a system message may precede.
        blocks: further template blocks that the route renders.
        reader: reader of the reply, on routes that ask for an answer in words.
        answer_format: `answer_format(example, context)` returns the `AnswerFormat` that --constrain holds a reply to;
            None on routes whose replies have none.
        settings: defaults of the route's settings, by name; a task file or a flag may give another value.
        legend: explanation of these settings in tables, a format string in which `{labels}` are those of the task, e.g.
            "a pair is labelled {labels[0]} if its score is {threshold:g} or more"; by default their names and values.
        metrics: metrics that are computed on this route in addition to those of the task.
        metrics_of_orders: further metrics if options are shown in several orders (`--orders`); only for routes that
            show a list of options.
        scores: whether the scores of the options are log-likelihoods, which can be normalised over the options; empty
            for all others. Cosines and distances may be negative, too.
        labels: maximum number of labels that the route can distinguish, or None for any number.
        compares_words: whether the only round requests log-probabilities of answer words, which do not depend on the
            texts of the example; `--calibrate` divides by their probabilities for content-free inputs.
        of: task types whose routes this route combines; the first one that the model covers is taken from each.
        on_request: whether the route is taken only if the task or `--route` requests it.
        task_type, owner: filled in at registration.
        parts: routes that this route combines, once the model is known (`fitting_route`).
    """

    name: str
    start: Start | str
    needs: frozenset[str] = frozenset()
    requests: tuple[type[Request], ...] = ()
    question: str = ""
    blocks: frozenset[str] = frozenset()
    reader: ReplyReader | None = None
    answer_format: Format | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    legend: str = ""
    metrics: tuple[str, ...] = ()
    metrics_of_orders: tuple[str, ...] = ()
    scores: Literal["", "log-likelihoods"] = ""
    labels: int | None = None
    compares_words: bool = False
    of: tuple[str, ...] = ()
    on_request: bool = False
    task_type: str = ""
    owner: str = ""
    parts: tuple[Route, ...] = ()

    def check(self) -> None:
        """Check the declaration.

        Raises:
            PluginError: a field has a value of another type, or no class of requests has a capability that the route
                needs.
        """
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.+-]+", self.name):
            raise PluginError(f"{self.name!r:.80} is not a valid route name; use only letters, digits and . _ + -")
        declared: dict[str, tuple[object, type | tuple[type, ...], str]] = {
            "start": (self.start if isinstance(self.start, str) or not callable(self.start) else "", str, "a function"),
            "needs": (self.needs, Set, "a frozenset of capabilities, such as frozenset({'embed'})"),
            "requests": (self.requests, tuple, "a tuple of classes of requests"),
            "question": (self.question, str, "the name of a template block"),
            "blocks": (self.blocks, Set, "a frozenset of names of template blocks"),
            "reader": (self.reader, (ReplyReader, type(None)), "a figeval.ReplyReader"),
            "answer_format": (
                self.answer_format if not callable(self.answer_format) else None,
                type(None),
                "a function",
            ),
            "settings": (self.settings, Mapping, "a mapping of names to defaults"),
            "legend": (self.legend, str, "a format string of its settings"),
            "metrics": (self.metrics, tuple, "a tuple of names"),
            "labels": (self.labels, (int, type(None)), "a number"),
            "compares_words": (self.compares_words, bool, "True or False"),
            "of": (self.of, tuple, "a tuple of task types"),
        }
        for field_name, (value, kind, cure) in declared.items():
            if not isinstance(value, kind):
                raise PluginError(f"route {self.name!r}: `{field_name}` is {a_type(value)}; give {cure}")
        if taken := sorted(TAKEN & set(self.settings)):
            raise PluginError(f"route {self.name!r}: the setting {taken[0]!r} is reserved; rename it")
        try:
            self.legend.format(**self.settings, labels=[f"label {number}" for number in range(self.labels or 100)])
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise PluginError(
                f"route {self.name!r}: the legend {self.legend!r:.80} cannot be filled in from its settings "
                f"{list(self.settings)} and the labels of a task ({error!r:.80}); correct it"
            ) from error
        for request in self.requests:
            if not isinstance(getattr(request, "capability", None), str):
                raise PluginError(f"route {self.name!r}: {request!r:.80} of `requests` has no attribute `capability`")
        capabilities = {request_class.capability for request_class in (*REQUESTS, *self.requests)} | {DOT}
        for name in sorted(self.needs - capabilities):
            raise PluginError(
                f"route {self.name!r} needs {name!r}, which is the capability of none of figeval's requests, nor of "
                f"those in its `requests`{near(name, capabilities)}"
            )

    @property
    def renders(self) -> frozenset[str]:
        """Template blocks that the route and its parts render."""
        own_blocks = self.blocks | ({self.question} if self.question else frozenset())
        return own_blocks.union(*(part.renders for part in self.parts))

    @property
    def is_prompted(self) -> bool:
        """True if the model reads a conversation, which may contain solved examples and a system message."""
        return bool(self.question) or any(part.is_prompted for part in self.parts)

    @property
    def has_answer_format(self) -> bool:
        """True if replies can be held to a format, on this route or one of its parts."""
        return self.answer_format is not None or any(part.has_answer_format for part in self.parts)

    @property
    def requirements(self) -> tuple[str, ...]:
        """Needs of the route in words: capabilities, and routes of other task types, by name once they are known."""
        if self.parts:
            return tuple(part.name for part in self.parts)
        return (*sorted(self.needs), *(f"a {task_type} route" for task_type in self.of))

    def can_distinguish(self, labels: Sequence[str]) -> bool:
        """Return whether the route can distinguish these labels."""
        return self.labels is None or len(labels) <= self.labels

    def explain(self, settings: Mapping[str, Any], labels: Sequence[str]) -> str:
        """Return the legend filled in with the values of a task, or names and values if it cannot be filled in.

        The result is empty for a route without settings.
        """
        own_settings = {name: settings[name] for name in self.settings}
        with suppress(LookupError, ValueError, TypeError, AttributeError):
            if self.legend:
                return self.legend.format(**own_settings, labels=labels)
        return ", ".join(f"{name} {value}" for name, value in own_settings.items())

    def begin(self, example: Example, context: PromptContext) -> Dialogue:
        """Begin the dialogue about one example.

        On a route that renders prompts, the example is the version that prompts show. A route that combines others
        leaves this to them.

        Raises:
            CapabilityError: the parts of the route are not known.
        """
        if len(self.parts) < len(self.of):
            raise CapabilityError(f"{self.name} combines a {' and a '.join(self.of)} route; choose a --model")
        if self.renders and not self.of:
            example = example.for_prompt()
        dialogue: object = resolve(self.start)(example, context, *self.parts)
        if not isinstance(dialogue, Generator):
            raise PluginError(
                f"the start of route {self.name!r} returned {a_type(dialogue)}; write it as a generator, which yields "
                "lists of requests and returns a figeval.Prediction"
            )
        return dialogue

    def first_requests(self, example: Example, context: PromptContext) -> Sequence[Request]:
        """Return the requests of the first round; none for an example that is answered without the model."""
        return next(self.begin(example, context), ())


def routes_of(task_type: str, routes: Iterable[Route]) -> list[Route]:
    """Return the routes of a task type, in order of preference."""
    return [route for route in routes if route.task_type == task_type]


def choose(task_type: str, offered: frozenset[str], routes: Sequence[Route], name: str | None = None) -> Route:
    """Return the first route of the task type that the capabilities cover, or the `name` one.

    Raises:
        CapabilityError: the model cannot answer such tasks; the message lists the capabilities that routes need.
    """
    mine = routes_of(task_type, routes)
    names = [route.name for route in mine]
    if name is not None and name not in names:
        raise CapabilityError(f"{task_type} has no route {name!r}{near(name, names)}; it has {', '.join(names)}")
    for route in mine:
        if route.name == name or (name is None and not route.on_request):
            route_with_parts = fitting_route(route, offered, routes)
            if route_with_parts is not None:
                return route_with_parts
    ways = "; ".join(f"{r.name} needs {' and '.join(r.requirements)}" for r in mine if name in (None, r.name))
    has = ", ".join(sorted(offered)) or "nothing"
    raise CapabilityError(f"this model offers {has}, which is not enough for a {task_type} task: {ways}")


def fitting_route(route: Route, offered: frozenset[str], routes: Sequence[Route]) -> Route | None:
    """Return the route with its parts for a model with these capabilities, or None if they are not enough.

    A route that combines others receives the first route of each task type that the capabilities cover, and has their
    needs, too.
    """
    if not route.needs <= offered:
        return None
    parts = []
    for task_type in route.of:
        mine = (
            fitting_route(part_route, offered, routes)
            for part_route in routes_of(task_type, routes)
            if not part_route.on_request
        )
        part = next((part_route for part_route in mine if part_route is not None), None)
        if part is None:
            return None
        parts.append(part)
    return replace(route, needs=route.needs.union(*(part.needs for part in parts)), parts=tuple(parts))


# ---- steps that routes of several task types share -------------------------------------------------------------------


def decide(example_id: str, scores: Iterable[float], n_options: int | None = None) -> Prediction:
    """Return the prediction for these scores, in float64; `n_options` limits the choice to the first ones.

    A NaN gives status `nan` and no value, so that a broken model is not mistaken for one that always picks the first
    option. If several scores are the best, the first is the value, and `tied` counts them; metrics score ties by
    expectation.
    """
    if isinstance(scores, Sized) and len(scores) > MAX_SEPARATE_OPTIONS:
        return _decide_many(example_id, scores, n_options)
    values = tuple(float(score) for score in scores)
    if any(math.isnan(value) for value in values):
        return Prediction(example_id=example_id, value=None, scores=values, status="nan")
    domain = values[:n_options]
    best = max(domain)
    return Prediction(example_id=example_id, value=domain.index(best), scores=values, tied=domain.count(best))


def _decide_many(example_id: str, scores: Any, n_options: int | None) -> Prediction:
    """Return the prediction for many scores, shape (n,), in eight bytes each."""
    import numpy as np

    values = array("d", np.asarray(scores, dtype=np.float64).tobytes())
    if np.isnan(values).any():
        return Prediction(example_id=example_id, value=None, scores=values, status="nan")
    domain = np.asarray(values)[:n_options]
    is_best = domain == domain.max()
    return Prediction(example_id=example_id, value=int(is_best.argmax()), scores=values, tied=int(is_best.sum()))


def by_reply(
    name: str,
    question: str,
    reader: ReplyReader,
    *,
    check: Callable[[Any], Any] | None = None,
    answer_format: Format | None = None,
    **declared: Any,
) -> Route:
    """Return a route on which a model writes its answer to one question, and a reader makes a prediction from it.

    `check(example)` raises `ExampleError` for an example that cannot be asked in this way, and
    `answer_format(example, context)` returns what an acceptable answer is.
    """

    def start(example: Example, context: PromptContext) -> Dialogue:
        if check is not None:
            check(example)
        (reply,) = yield [context.prompt(question, example, answer_format)]
        return reader.read(example, context, reply)

    return Route(
        name=name,
        start=start,
        needs=frozenset({"generate"}),
        question=question,
        reader=reader,
        answer_format=answer_format,
        **declared,
    )


@lru_cache(maxsize=64)
def requests_of(texts: tuple[str, ...], role: TextRole) -> tuple[Text, ...]:
    """Return the texts as requests, with one object per text, however many examples share it."""
    return tuple(Text(text, role) for text in texts)


def pair_scores(query: str, options: Sequence[str]) -> Scores:
    """Return the closeness of the query and each option, as scored by the model."""
    if len(options) > MAX_SEPARATE_OPTIONS:
        (scores,) = yield [ManyPairs(query, tuple(options))]
        return scores  # type: ignore[no-any-return]
    return (yield [TextPair(query, option) for option in options])


def cosine_scores(query: str, options: tuple[str, ...], *, symmetric: bool = False) -> Scores:
    """Return the cosine of the embeddings of the query and of each option; NaN if a vector is zero.

    Encoders that read queries and documents differently read the options as documents. With `symmetric`, both are texts
    of one kind, such as the two sentences of a pair, and are read alike.
    """
    vector, vectors = yield from _vectors(query, options, symmetric)
    scores: Any = cosines(vector, vectors)
    return scores if len(options) > MAX_SEPARATE_OPTIONS else scores.tolist()  # type: ignore[no-any-return]


def dot_scores(query: str, options: tuple[str, ...], *, symmetric: bool = False) -> Scores:
    """Return the dot product of the embeddings of the query and of each option, read as by `cosine_scores`."""
    vector, vectors = yield from _vectors(query, options, symmetric)
    scores: Any = dots(vector, vectors)
    return scores if len(options) > MAX_SEPARATE_OPTIONS else scores.tolist()  # type: ignore[no-any-return]


def _vectors(
    query: str, options: tuple[str, ...], symmetric: bool
) -> Generator[Sequence[Request], Sequence[Any], tuple[Any, Sequence[Any]]]:
    """Return the vector of the query, and those of the options."""
    left: TextRole = "" if symmetric else "query"
    right: TextRole = "" if symmetric else "document"
    if len(options) > MAX_SEPARATE_OPTIONS:
        vector, vectors = yield (Text(query, left), ManyTexts(options, right))
    else:
        vector, *vectors = yield (Text(query, left), *requests_of(options, right))
    return vector, vectors


def closeness_routes(start: Start, *, symmetric: bool = False, **declared: Any) -> tuple[Route, ...]:
    """Return the routes `by_dot`, `by_cosine` and `by_pair_score`, which differ in their measure of closeness.

    `start(example, context, closeness=…)` begins the dialogue; `closeness` is one of the three functions above, which
    compares a query with documents, or with `symmetric` texts of one kind.
    """
    ways: tuple[tuple[str, Any, set[str]], ...] = (
        ("by_dot", partial(dot_scores, symmetric=symmetric), {"embed", DOT}),
        ("by_cosine", partial(cosine_scores, symmetric=symmetric), {"embed"}),
        ("by_pair_score", pair_scores, {"score_pairs"}),
    )
    return tuple(
        Route(name=name, start=partial(start, closeness=closeness), needs=frozenset(needs), **declared)
        for name, closeness, needs in ways
    )


def by_likelihood(
    example: Example, options: Sequence[str], context: PromptContext, n_options: int | None = None
) -> Dialogue:
    """Return the prediction of log P(option | context), natural logarithm, summed over the option's tokens.

    `n_options` limits the choice to the first ones. `priors` are the same without the query, requested in the
    same round if a metric needs them (`WITH_PRIORS`).
    """
    continuations = [context.answer_start(context.block("continuation", example, option=option)) for option in options]
    premises = [context.question("context", example)]
    if WITH_PRIORS & context.metrics:
        premises.append(replace(context, shots=no_shots).question("unconditional", example))
    scores = yield [Continuation(premise, continuation) for premise in premises for continuation in continuations]
    decided = decide(example.id, scores[: len(options)], n_options)
    return replace(decided, priors=tuple(map(float, scores[len(options) :])))


def cosines(query: Any, vectors: Sequence[Any]) -> Floats:
    """Return cos(query, others[i]) for each i; vectors have the shape (d,), the result (n,).

    The result is NaN if a vector is zero or contains NaN: the angle to a zero vector is undefined, not 0. Products are
    computed row by row, because the blocked sums of a matrix product may differ by an ulp for equal vectors and so
    break a tie.
    """
    import numpy as np

    length = np.linalg.norm(np.asarray(query, dtype=np.float64))

    def cosine(matrix: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(dots(query, matrix) / (np.linalg.norm(matrix, axis=1) * length))

    return _by_blocks(cosine, vectors)


def dots(query: Any, vectors: Any) -> Floats:
    """Return query · others[i] for each i; shapes are as in `cosines`, and rows are separate for the same reason."""
    import numpy as np

    vector = np.asarray(query, dtype=np.float64)
    return _by_blocks(lambda matrix: np.asarray((matrix * vector).sum(axis=1)), vectors)


def _by_blocks(measure: Callable[[Floats], Floats], vectors: Sequence[Any] | Floats) -> Floats:
    """Return what a function of vectors, (rows, d) → (rows,), gives for all of them, in float64 block by block."""
    import numpy as np

    measures = np.empty(len(vectors))
    for begin in range(0, len(vectors), ROWS):
        block = slice(begin, begin + ROWS)
        measures[block] = measure(np.asarray(vectors[block], dtype=np.float64))
    return measures
