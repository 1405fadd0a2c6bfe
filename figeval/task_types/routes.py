"""Routes: generators that yield requests, receive their outputs and return a prediction.

    logprobs = yield [Continuation(context, option) for option in example.options]

A route may yield more than once (a second round after the first outputs), and never sees batches, windows or
devices. Which route a model takes follows from its capabilities: no ladder over model or task types. Routes of several
task types share the steps at the end of this module, such as

    scores = yield from cosine_scores(example.query, example.options)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.errors import CapabilityError, PluginError, near
from figeval.prompts import PromptContext, no_shots
from figeval.registry import a_type, loaded
from figeval.types import REQUESTS, Continuation, Example, Prediction, Reply, Request, Text, TextPair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Dialogue: TypeAlias = Generator[Sequence[Request], Sequence[Any], Prediction]
Start: TypeAlias = Callable[..., Dialogue]
Scores: TypeAlias = "Generator[Sequence[Request], Sequence[Any], Sequence[float]]"
DOT = "dot"  # no request: the vectors of `embed` are to be compared by their dot product
TAKEN = frozenset(  # names that figeval itself writes among the settings of a task's record
    (
        *("calibration", "chat_template", "decision", "labels", "languages", "max_new_tokens", "metric_arguments"),
        *("metrics", "num_fewshot", "orders"),
        *("prompt_fields", "routes", "seed", "shots", "signatures", "split", "stop", "system_instruction", "tasks"),
        *("verbalizer", "vocabulary"),
    )
)
WITH_PRIORS = frozenset({"acc_pmi", "mrr_pmi"})  # metrics that need the options' scores without the query


@dataclass(frozen=True, slots=True)
class ReplyReader:
    """Makes predictions of replies in words; `figeval rescore` reads stored replies again with it.

    Attributes:
        function: `function(example, context, reply)` returns the `Prediction` that a `Reply` amounts to; also as
            "module:attribute", which is imported when a reply is read. It is called only for a reply that came, and
            need not keep its text.
        version: A run goes on only with the same version; raise it when a reply is read in another way.
    """

    function: Callable[[Any, PromptContext, Reply], Prediction] | str
    version: str

    def check(self) -> None:
        """Import the function. Raises `PluginError` if there is none."""
        if not callable(loaded(self.function)):
            raise PluginError(f"the reader {self.function!r} is {a_type(loaded(self.function))}; give a function")

    def read(self, example: Example, context: PromptContext, output: Reply | str) -> Prediction:
        """Return the prediction that a reply amounts to, with the whole text, so that it can be read again.

        A model may answer with a plain string. A reply that ended by an error is not read: its status is `error`, and
        the next run asks the example again.
        """
        reply = Reply(text=output) if isinstance(output, str) else output
        if reply.finish == "error":
            return Prediction(example_id=example.id, value=None, status="error", finish="error", error=reply.error)
        read = loaded(self.function)(example, context, reply)
        if not isinstance(read, Prediction):
            raise PluginError(f"the reader of replies returned {a_type(read)}; return a figeval.Prediction")
        return replace(read, raw=reply.text, finish=reply.finish)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way from an example to a prediction.

    Attributes:
        name: as in records, `--route` and `figeval ls routes`.
        start: `start(example, context)` begins the dialogue about one example; also as `"module:attribute"`. A route
            that puts others together gets these as further arguments.
        needs: capabilities of the model whose requests it yields.
        requests: classes of requests of its own; it needs their capabilities, too.
        question: the template block that asks, before which solved examples and a system message can stand.
        blocks: further template blocks that it renders.
        reader: what reads the reply, on routes that ask for an answer in words.
        settings: name → default of the settings that it obeys; a task file or a flag may give another value.
        legend: what tables say of these settings, a format string in which `{labels}` are those of the task, such as
            "a pair is called {labels[0]} if its score is {threshold:g} or more"; by default their names and values.
        metrics: metrics that are computed on this route beside those of the task.
        metrics_of_orders: of routes that show a list of options: metrics beside these where that is shown in several
            orders (`--orders`).
        labels: how many labels it can tell apart, None for any number.
        compares_words: its only round asks for log-probabilities of words that stand for the answers, whatever the
            texts of the example are; `--calibrate` divides by what they are for content-free inputs.
        of: task types whose routes it puts together; of each the first that the model covers.
        on_request: it is taken only where the task or `--route` asks for it.
        task_type, owner: filled in when it is registered.
        parts: the routes that it puts together, once the model is known (`covered`).
    """

    name: str
    start: Start | str
    needs: frozenset[str] = frozenset()
    requests: tuple[type[Request], ...] = ()
    question: str = ""
    blocks: frozenset[str] = frozenset()
    reader: ReplyReader | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    legend: str = ""
    metrics: tuple[str, ...] = ()
    metrics_of_orders: tuple[str, ...] = ()
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
            PluginError: a field has a value of another type, or it needs a capability that no class of requests names.
        """
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.+-]+", self.name):
            raise PluginError(f"a route is called {self.name!r:.80}; give it a name without blanks")
        declared: dict[str, tuple[object, type | tuple[type, ...], str]] = {
            "start": (self.start if isinstance(self.start, str) or not callable(self.start) else "", str, "a function"),
            "needs": (self.needs, Set, "a frozenset of capabilities, such as frozenset({'embed'})"),
            "requests": (self.requests, tuple, "a tuple of classes of requests"),
            "question": (self.question, str, "the name of a template block"),
            "blocks": (self.blocks, Set, "a frozenset of names of template blocks"),
            "reader": (self.reader, (ReplyReader, type(None)), "a figeval.ReplyReader"),
            "settings": (self.settings, Mapping, "a mapping of names to defaults"),
            "legend": (self.legend, str, "a format string of its settings"),
            "metrics": (self.metrics, tuple, "a tuple of names"),
            "labels": (self.labels, (int, type(None)), "a number"),
            "compares_words": (self.compares_words, bool, "True or False"),
            "of": (self.of, tuple, "a tuple of task types"),
        }
        for field_name, (value, wanted, cure) in declared.items():
            if not isinstance(value, wanted):
                raise PluginError(f"route {self.name!r}: `{field_name}` is {a_type(value)}; give {cure}")
        if taken := sorted(TAKEN & set(self.settings)):
            raise PluginError(f"route {self.name!r}: every task has the setting {taken[0]!r}; give it another name")
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
        known = {one.capability for one in (*REQUESTS, *self.requests)} | {DOT}
        for name in sorted(self.needs - known):
            raise PluginError(
                f"route {self.name!r} needs {name!r}, which is the capability of none of figeval's requests, nor of "
                f"those in its `requests`{near(name, known)}"
            )

    @property
    def renders(self) -> frozenset[str]:
        """The template blocks that it renders, those of the routes that it puts together included."""
        own = self.blocks | ({self.question} if self.question else frozenset())
        return own.union(*(part.renders for part in self.parts))

    @property
    def is_prompted(self) -> bool:
        """Whether the model reads a conversation, in which solved examples and a system message can stand."""
        return bool(self.question) or any(part.is_prompted for part in self.parts)

    @property
    def wants(self) -> tuple[str, ...]:
        """What it needs, in words: capabilities, and routes of other task types, by their names once they are known."""
        if self.parts:
            return tuple(part.name for part in self.parts)
        return (*sorted(self.needs), *(f"a {task_type} route" for task_type in self.of))

    def tells(self, labels: Sequence[str]) -> bool:
        """Return whether it can tell these labels apart."""
        return self.labels is None or len(labels) <= self.labels

    def explain(self, settings: Mapping[str, Any], labels: Sequence[str]) -> str:
        """Return the legend with the values of a task, or names and values where it does not fit them; empty for a
        route without settings.
        """
        own = {name: settings[name] for name in self.settings}
        with suppress(LookupError, ValueError, TypeError, AttributeError):
            if self.legend:
                return self.legend.format(**own, labels=labels)
        return ", ".join(f"{name} {value}" for name, value in own.items())

    def begin(self, example: Example, context: PromptContext) -> Dialogue:
        """Begin the dialogue about one example, as prompts show it on a route that renders one. A route that puts
        others together leaves that to them.

        Raises:
            CapabilityError: the parts of the route are not known.
        """
        if len(self.parts) < len(self.of):
            raise CapabilityError(f"{self.name} puts a {' and a '.join(self.of)} route together: name a --model")
        if self.renders and not self.of:
            example = example.for_prompt()
        dialogue: object = loaded(self.start)(example, context, *self.parts)
        if not isinstance(dialogue, Generator):
            raise PluginError(
                f"the start of route {self.name!r} returned {a_type(dialogue)}; write it as a generator, which yields "
                "lists of requests and returns a figeval.Prediction"
            )
        return dialogue

    def first_requests(self, example: Example, context: PromptContext) -> Sequence[Request]:
        """Return the requests of the first round; none for an example that is answered without asking the model."""
        return next(self.begin(example, context), ())


def routes_of(task_type: str, routes: Iterable[Route]) -> list[Route]:
    """Return the routes of a task type, in order of preference."""
    return [route for route in routes if route.task_type == task_type]


def choose(task_type: str, offered: frozenset[str], routes: Sequence[Route], wanted: str | None = None) -> Route:
    """Return the first route of the task type that the capabilities cover, or the `wanted` one.

    Raises:
        CapabilityError: the model cannot answer such tasks; the message lists what would be needed.
    """
    mine = routes_of(task_type, routes)
    names = [route.name for route in mine]
    if wanted is not None and wanted not in names:
        raise CapabilityError(f"{task_type} has no route {wanted!r}{near(wanted, names)}; it has {', '.join(names)}")
    for route in mine:
        if route.name == wanted or (wanted is None and not route.on_request):
            found = covered(route, offered, routes)
            if found is not None:
                return found
    ways = "; ".join(f"{r.name} needs {' and '.join(r.wants)}" for r in mine if wanted in (None, r.name))
    has = ", ".join(sorted(offered)) or "nothing"
    raise CapabilityError(f"this model offers {has}, which is not enough for a {task_type} task: {ways}")


def covered(route: Route, offered: frozenset[str], routes: Sequence[Route]) -> Route | None:
    """Return the route as a model with these capabilities goes it; None where they are not enough.

    One that puts routes together is given the first one of each task type that they cover, and needs what they need.
    """
    if not route.needs <= offered:
        return None
    parts = []
    for task_type in route.of:
        mine = (covered(one, offered, routes) for one in routes_of(task_type, routes) if not one.on_request)
        part = next((one for one in mine if one is not None), None)
        if part is None:
            return None
        parts.append(part)
    return replace(route, needs=route.needs.union(*(part.needs for part in parts)), parts=tuple(parts))


# ---- steps that routes of several task types share -------------------------------------------------------------------


def decide(example_id: str, scores: Iterable[float], among: int | None = None) -> Prediction:
    """Return the prediction that scores amount to, in float64; `among` limits the choice to the first so many.

    NaN anywhere gives status `nan` and no value: a broken model must not look like one that always picks the first
    option. Of several best scores the first is the value, and `tied` counts them; metrics score by expectation.
    """
    values = tuple(float(score) for score in scores)
    if any(math.isnan(value) for value in values):
        return Prediction(example_id=example_id, value=None, scores=values, status="nan")
    domain = values[:among]
    best = max(domain)
    return Prediction(example_id=example_id, value=domain.index(best), scores=values, tied=domain.count(best))


def by_reply(
    name: str, question: str, reader: ReplyReader, *, check: Callable[[Any], Any] | None = None, **declared: Any
) -> Route:
    """Return the route on which a model writes its answer to one question, and a reader makes a prediction of it.

    `check(example)` raises `CapabilityError` for an example that cannot be asked about so.
    """

    def start(example: Example, context: PromptContext) -> Dialogue:
        if check is not None:
            check(example)
        (reply,) = yield [context.prompt(question, example)]
        return reader.read(example, context, reply)

    return Route(name=name, start=start, needs=frozenset({"generate"}), question=question, reader=reader, **declared)


@lru_cache(maxsize=64)
def requests_of(texts: tuple[str, ...]) -> tuple[Text, ...]:
    """Return the texts as requests: one object each, however many examples share them."""
    return tuple(map(Text, texts))


def pair_scores(query: str, options: Sequence[str]) -> Scores:
    """Return the closeness of the query and each option, as the model scores it."""
    return (yield [TextPair(query, option) for option in options])


def cosine_scores(query: str, options: tuple[str, ...]) -> Scores:
    """Return the cosine of the embeddings of the query and of each option; NaN where a vector is zero."""
    vector, *others = yield (Text(query), *requests_of(options))
    return cosines(vector, others).tolist()  # type: ignore[no-any-return]


def dot_scores(query: str, options: tuple[str, ...]) -> Scores:
    """Return the dot product of the embeddings of the query and of each option."""
    vector, *others = yield (Text(query), *requests_of(options))
    return dots(vector, others).tolist()  # type: ignore[no-any-return]


def closeness_routes(start: Start, **declared: Any) -> tuple[Route, ...]:
    """Return the routes `by_dot`, `by_cosine` and `by_pair_score`, which differ in how close two texts are.

    `start(example, context, closeness=…)` begins the dialogue; `closeness` is one of the three functions above.
    """
    ways: tuple[tuple[str, Any, set[str]], ...] = (
        ("by_dot", dot_scores, {"embed", DOT}),
        ("by_cosine", cosine_scores, {"embed"}),
        ("by_pair_score", pair_scores, {"score_pairs"}),
    )
    return tuple(
        Route(name=name, start=partial(start, closeness=closeness), needs=frozenset(needs), **declared)
        for name, closeness, needs in ways
    )


def by_likelihood(
    example: Example, options: Sequence[str], context: PromptContext, among: int | None = None
) -> Dialogue:
    """Return the prediction of log P(option | context), natural logarithm, summed over the option's tokens.

    `among` limits the choice to the first so many options. `priors` are the same without the query, asked for in the
    same round where a metric needs them (`WITH_PRIORS`).
    """
    continuations = [context.begun(context.block("continuation", example, option=option)) for option in options]
    premises = [context.question("context", example)]
    if WITH_PRIORS & context.metrics:
        premises.append(replace(context, shots=no_shots).question("unconditional", example))
    scores = yield [Continuation(premise, continuation) for premise in premises for continuation in continuations]
    decided = decide(example.id, scores[: len(options)], among)
    return replace(decided, priors=tuple(map(float, scores[len(options) :])))


def cosines(query: Any, others: Sequence[Any]) -> Floats:
    """result[i] = cos(query, others[i]); vectors of shape (d,), result (n,).

    NaN where a vector is zero or not a number: an angle to nothing is unknown, not 0.
    The products are computed row by row: the blocked sums of one matrix product can tell equal vectors apart by an ulp,
    and so break a tie.
    """
    import numpy as np

    matrix = np.asarray(others, dtype=np.float64)  # (n, d)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(np.asarray(query, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(dots(query, matrix) / lengths)


def dots(query: Any, others: Any) -> Floats:
    """result[i] = query · others[i]; shapes as for `cosines`, and row by row for the same reason."""
    import numpy as np

    return np.asarray((np.asarray(others, dtype=np.float64) * np.asarray(query, dtype=np.float64)).sum(axis=1))
