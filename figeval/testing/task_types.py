"""Check of task types against their contract (`check_task_type`)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from figeval.config import RunConfig
from figeval.errors import DataError, FigevalError, TaskError
from figeval.io.text import near
from figeval.models.batching import BatchScheduler
from figeval.models.capabilities import KNOWN_CAPABILITIES
from figeval.models.model import open_model
from figeval.plugins import PluginManager, describe, plugin_manager
from figeval.prompts import PromptContext, Shots
from figeval.records.predictions import encode_row, form_problem, parse_row, prediction_row
from figeval.runs.given import dialogue, prediction_of
from figeval.runs.given_rows import GivenRow
from figeval.runs.harness import Harness
from figeval.runs.plan import context_of, default_template
from figeval.runs.score import Aggregator, MetricSet
from figeval.spec import TaskSpec
from figeval.task_types.base import TaskType
from figeval.task_types.fields import RowContext, fields_of
from figeval.task_types.given import GIVEN, Given
from figeval.task_types.registry import TaskTypes, task_type_of
from figeval.task_types.routes import DOT, ReplyReader, Route, choose, fitting_route
from figeval.testing.calls import asserting
from figeval.testing.declarations import check_gold, check_query, check_ties
from figeval.testing.fakes import (
    FakeClassifier,
    FakeEncoder,
    FakeGenerator,
    FakeLanguageModel,
    FakeMaskFiller,
    FakePairScorer,
)
from figeval.types import JSON, Example, Prediction, Reply, ScoredSpan, Span

ODD: tuple[Any, ...] = (
    *(None, True, 17, -1, 1.5, math.nan, "", " ", "no such thing"),
    *([], [None], [-1], ["a", 3], [[]], {}),
)
ODDER: tuple[Any, ...] = ({"?": [None]}, [{"?": {}}], 10**30, "\x00")
MAX_REPEATED_CHARS = 200  # characters; longer replies are read once
HOSTILE = (
    *("", " ", "\n", "A", "a/b", "/", "0", "-1", "1e999", "NaN", "null", "true", '""', "{", "}", "[", "[]", "{}"),
    *('{"', '{"quote": ', '{"quote": 3}', '{"tags": [1, null, {}]}', '{"labels": "x"}', '{"a": {"a": {"a": []}}}'),
    *("[[]]", "[null]", '["O", 7]', '{"x": 1e400}', "```json\n{}\n```", "```\n[]", "<think>", "<think>\n</think>"),
    *("I'm sorry, but I cannot help with that.", "The answer is", "Answer: ", "1. 2. 3.", "- \n- ", "Yes. No. Maybe."),
    *(
        "\x00\x01\x02",
        "\u202e\u200b\ufeff",
        "é\u0301",
        "𝔸🦆👩‍👩‍👧",
        "ﷺ",
        "İ",
        "\r\n\t\v\f",
        "\\u0041",
        "%s {0} {{ gap }}",
    ),
    *("[" * 2000, '{"a":' * 2000, "word " * 5000, "a/B " * 3000, "(" * 500, "\\" * 999, "9" * 5000),
)


def check_task_type(
    task_type: TaskType[Any] | type[TaskType[Any]],
    rows: Iterable[Mapping[str, Any]],
    *,
    replies: Iterable[str] = (),
    models: Iterable[object] = (),
    **task: Any,
) -> None:
    """Check that a task type keeps its contract.

    Examples must be frozen dataclasses whose fields are documented and refuse invalid values with an error that names
    the field. Every route must be possible for some model, name only what exists (capabilities, template blocks,
    metrics, settings, task types), and run here with fake models. Every prediction must become a row that is written
    and read back as the same answer. Replies of any kind must be read without an exception, and a stored reply must be
    read as it was at first, so that `figeval rescore` changes only what has changed. The reader of a route must
    understand the answers of `few_shot_answer`. A prediction of another system must be read or refused, whatever it is.
    The field that `query` names must be a text, and every probe must keep the ids and change something. A right answer
    must survive JSON. Default metrics and baselines must exist and work, and `chance` must tie all answers.

    Args:
        task_type: The class, or the type itself. Its plugin should be loaded if it provides the baselines.
        rows: At least two rows, as the fields of a task file make them: values by field, including `id`.
        replies: Further replies to be read, in addition to a set of strange ones.
        models: Models that answer the type's own requests. Without any, its baselines are asked.
        **task: Further keys of a task file, e.g. `labels`.

    Raises:
        AssertionError: The check failed; the message says what is wrong, and with which row, route or reply.
    """
    kind = asserting(partial(task_type_of, task_type), "the task type")
    _check_declaration(kind)
    listed_rows = list(rows)
    assert len(listed_rows) >= 2, (
        "check_task_type needs at least two rows: some routes and probes look at other examples"
    )
    fields = {name: f"row.{name}" for row in listed_rows for name in row if name not in ("cluster", "group")}
    about: JSON = {"name": "checked", "type": kind.name, "data": {"test": "jsonl:rows.jsonl"}, "fields": fields, **task}
    harness = _harness_with(kind)
    spec = asserting(lambda: TaskSpec.model_validate(about).bound(harness.task_types), "the task of the rows")
    checked = _CheckedType(kind, harness, spec, listed_rows, tuple(models))
    checked.fields()
    checked.about_examples()
    checked.probes()
    checked.retrieval()
    names = [route.name for route in kind.routes]
    assert names, f"{checked.name} has no routes, so no model could answer such a task"
    for name in names:
        assert names.count(name) == 1, f"{checked.name} has {names.count(name)} routes {name!r}; rename one"
    for route in kind.routes:
        checked.route(route, (*HOSTILE, *replies))
    checked.given()
    checked.baselines()


def _harness_with(kind: TaskType[Any]) -> Harness:
    harness = Harness(plugin_manager())
    loaded = harness.task_types
    harness.task_types = TaskTypes(PluginManager())  # no plugin registers here
    harness.task_types.add(kind.name, kind, "check_task_type")
    for entry in loaded:
        if entry.name != kind.name:
            harness.task_types.add(entry.name, entry.target, entry.owner)
    return harness


def _check_declaration(kind: TaskType[Any]) -> None:
    """Check that the class of examples declares frozen, documented fields, including those that the type names."""
    example, common = kind.Example, {declared_field.name for declared_field in dataclasses.fields(Example)}
    name, type_name = example.__name__, type(kind).__name__
    assert example.__dataclass_params__.frozen, f"{name} is not frozen; write @dataclass(frozen=True, slots=True, …)"
    fields = fields_of(example)
    for attribute in dataclasses.fields(example):
        if attribute.name not in common and attribute.default is attribute.default_factory is dataclasses.MISSING:
            assert attribute.name in fields, (
                f"{name}.{attribute.name} has no kind of field; annotate it as Annotated[…, figeval.TextField('…')]"
            )
    for field, declared in fields.items():
        assert declared.doc.strip(), f"{name}.{field} has no documentation; say in a sentence what it means"
    required = [*kind.gold_fields, *filter(None, [kind.query])]
    for field in required:
        assert field in fields, f"{type_name} names the field {field!r}, which {name} lacks{near(field, fields)}"
    asserting(partial(json.dumps, kind.json_schema()), f"{type_name}.json_schema()")


@dataclass(frozen=True)
class _CheckedType:
    """Task type under test, with a task and its rows."""

    kind: TaskType[Any]
    harness: Harness
    task: TaskSpec
    rows: Sequence[Mapping[str, Any]]
    models: Sequence[object]

    @property
    def name(self) -> str:
        """Name of the class in messages."""
        return type(self.kind).__name__

    # ---- examples ----------------------------------------------------------------------------------------------------

    def example(self, row: Mapping[str, Any], where: str = "row") -> Example:
        """Return the example of a row. Raises what the task type raises."""
        common = {key: row.get(key) for key in ("cluster", "group")} | {"meta": row.get("meta", {})}
        values = {key: value for key, value in row.items() if key in fields_of(self.kind.Example)}
        built: Example = self.kind.example(RowContext(self.task, where, values, {**common, "id": str(row["id"])}))
        return built

    @property
    def examples(self) -> list[Example]:
        """Examples of the rows."""
        return [
            asserting(partial(self.example, row, f"row {number}"), f"{self.name}.example() of row {number}")
            for number, row in enumerate(self.rows, start=1)
        ]

    def fields(self) -> None:
        """Check that every field accepts the values of the rows and refuses invalid ones with an error naming it."""
        examples = self.examples
        for example, again in zip(examples, self.examples, strict=True):
            assert isinstance(example, self.kind.Example), f"{self.name}.example() returned {type(example).__name__}"
            assert example == again, (
                f"{self.name}.example() returns a different example when it is called again on the same row"
            )
        for name in self.kind.required(self.task):
            fields = {key: source for key, source in self.task.fields.items() if key != name}
            problem = self.kind.field_problem(self.task.model_copy(update={"fields": fields})) or ""
            assert name in problem, f"a task without the field {name!r} is not refused, but {problem or 'accepted'!r}"
        for name in fields_of(self.kind.Example):
            refused = [self._refuses(name, odd) for odd in (*ODD, *ODDER)]
            assert any(refused), (
                f"the field {name!r} accepts any value; make its kind raise row.error(…) for invalid ones"
            )
        for row, example in zip(self.rows, examples, strict=True):
            self._prompted(row, example)

    def _refuses(self, name: str, value: Any) -> bool:
        try:
            self.example({**self.rows[0], name: value}, "the row")
        except DataError as error:
            named_fields = [field for field in fields_of(self.kind.Example) if f"'{field}" in str(error)]
            assert named_fields, f"the error about the field {name!r} does not name it: {error}"
            return name in named_fields  # else another field is inconsistent with the value
        except Exception as error:
            raise AssertionError(
                f"the field {name!r} does not refuse {value!r:.40} with row.error(…), but raises {describe(error)}"
            ) from error
        return False

    def _prompted(self, row: Mapping[str, Any], example: Example) -> None:
        """Check that fields which prompts may show with another text can also be shown unchanged."""
        for name, kind in fields_of(self.kind.Example).items():
            if kind.shown and name in row:
                subject = f"{self.name}.prompted() with the field {name!r}"
                shown = asserting(partial(self.kind.prompted, example, {name: row[name]}, "the row"), subject).prompted
                same = shown is not None and getattr(shown, name) == getattr(example, name)
                assert same, f"{subject} shows another value than the field where both are the same"

    def about_examples(self) -> None:
        """Check that descriptions of examples are texts, and that hidden answers are recognised."""
        for example in (*self.examples, *self._hidden()):
            about = f"{example!r:.200}"
            texts = (*example.texts, *example.asked, example.subject, *chain.from_iterable(example.identities))
            assert all(isinstance(text, str) for text in texts), (
                f"texts, asked, subject and identities are not all texts in {about}"
            )
            shown = asserting(partial(self.kind.shown_gold, example), f"{self.name}.shown_gold()")
            assert isinstance(shown, str), f"{self.name}.shown_gold() returned {shown!r:.80} for {about}"
            counted = asserting(partial(self.kind.gold_class, example), f"{self.name}.gold_class()")
            assert counted is None or isinstance(counted, str), (
                f"{self.name}.gold_class() returned {counted!r:.80}, not a text or None, for {about}"
            )
            if counted is not None:
                assert isinstance(self.kind.is_constant(counted), bool), (
                    f"{self.name}.is_constant() did not return a bool"
                )
            oddities = asserting(lambda example=example: list(self.kind.oddities(example)), f"{self.name}.oddities()")  # type: ignore[misc]
            for odd in oddities:
                pair = isinstance(odd, tuple) and len(odd) == 2 and all(isinstance(part, str) for part in odd)
                assert pair, f"{self.name}.oddities() yielded {odd!r:.80}, not a tuple (what is odd, text)"
            self.about_judging(example)
            check_gold(self.kind, example)

    def about_judging(self, example: Example) -> None:
        """Check that what people see when they judge an example has names, and is text."""
        for name in ("judged_inputs", "judged_example"):
            parts = asserting(lambda name=name: getattr(self.kind, name)(example), f"{self.name}.{name}()")  # type: ignore[misc]
            texts = [*parts, *parts.values()] if isinstance(parts, Mapping) else [parts]
            is_text = all(isinstance(part, str | tuple) and {type(text) for text in part} <= {str} for part in texts)
            assert is_text, f"{self.name}.{name}() returned {parts!r:.80}, not texts or tuples of texts by name"

    def _hidden(self) -> Iterator[Example]:
        """Yield the first example without its right answer, if the type allows that."""
        try:
            example = self.example({**self.rows[0], self.kind.gold_fields[0]: None})
        except DataError:
            return
        assert example.hidden, (
            f"{type(example).__name__}.hidden is False where {self.kind.gold_fields[0]!r} is None; return True there"
        )
        yield example

    def probes(self) -> None:
        """Check that the query is a text, and that probes keep the ids of the examples and change something."""
        examples = self.examples
        check_query(self.kind, examples)
        for name, probe in self.kind.probes.items():
            try:
                probed = list(probe(lambda: iter(examples), 0, self.task.name)())
            except TaskError:  # too few examples to exchange anything
                continue
            ids = [case.id for case in examples]
            changed_ids = [case.id for case in probed]
            assert changed_ids == ids, f"the probe {name!r} changes the ids: {changed_ids}"
            queries = {getattr(example, self.kind.query or "", None) for example in examples}
            assert probed != examples or len(queries) == 1, (
                f"the probe {name!r} changes nothing in the examples; remove something"
            )

    def retrieval(self) -> None:
        """Check that the texts for retrieval are strings, and that augmentation keeps the id."""
        for example in self.examples:
            for name in ("query_text", "answer_text"):
                text = asserting(partial(getattr(self.kind, name), example), f"{self.name}.{name}()")
                assert isinstance(text, str), f"{self.name}.{name}() returned {text!r:.80}, which is not a text"
            try:
                changed = self.kind.augmented(example, ("added",))
            except TaskError:  # the type cannot be augmented
                continue
            assert changed.id == example.id, f"{self.name}.augmented() changes the id of {example.id!r:.80}"

    # ---- routes ------------------------------------------------------------------------------------------------------

    def route(self, route: Route, replies: Sequence[str]) -> None:
        """Check that a route names only what exists, and makes predictions that can be scored, stored and read back."""
        part = f"route {route.name!r}"
        asserting(route.check, part)
        for other in route.of:
            types = [registration.name for registration in self.harness.task_types]
            assert other in types, f"{part} combines {other!r}, which is not a task type{near(other, types)}"
        for name in (*route.metrics, *route.metrics_of_orders):
            asserting(partial(self.harness.metrics.get, name, self.kind.name), part)
        asserting(partial(json.dumps, dict(route.settings)), f"{part}, settings")
        ready = self._ready(route)
        context = self._context(ready)
        metrics = self._metrics(ready)
        backend = self._backend(ready)
        conversation = BatchScheduler(backend, partial(ready.begin, context=context))
        pairs = asserting(lambda: list(conversation.predictions(self.examples)), part)
        self._scored(part, ready, pairs, metrics)
        if route.question:
            self._few_shot(route, context)
        if route.reader is not None:
            self._replies(route, route.reader, replies, metrics)

    def _ready(self, route: Route) -> Route:
        offered = frozenset((*KNOWN_CAPABILITIES, DOT, *route.needs))
        routes = self.harness.routes.with_parts(self.kind.name)
        ready = fitting_route(replace(route, task_type=self.kind.name), offered, routes)
        assert ready is not None, f"route {route.name!r} combines {' and '.join(route.of)}, which have no routes"
        return ready

    def _context(self, route: Route, *, rescored: bool = False) -> PromptContext:
        config = RunConfig(tasks=(self.task.name,), model="")
        template = None
        if route.renders and not rescored:
            template = asserting(partial(default_template, self.task), f"the template {self.kind.template}")
            for block in sorted(route.renders - template.blocks):
                raise AssertionError(f"route {route.name!r} renders {block!r}, which {template.name} lacks")
        context = context_of(self.task, route, template, Shots((), 0, 0), config)
        names = frozenset(metric.name for metric in self.kind.metrics)
        return replace(context, metrics=names, pool=lambda: self.examples)

    def _metrics(self, route: Route) -> MetricSet:
        names = list(dict.fromkeys((*self.kind.default_metrics, *route.metrics)))
        part = f"the metrics of {self.name}"
        for limit in {name for one in self.kind.metrics for name in one.routes}:
            routes = [GIVEN, *(one.name for one in self.harness.routes.of(self.kind.name))]
            assert limit in routes, f"{part} name the route {limit!r}, which does not exist{near(limit, routes)}"
        metrics = asserting(partial(self.harness.metrics.applicable, names, self.kind.name, route.name), part)
        return asserting(partial(MetricSet, metrics, self.task.labels), part)

    def _backend(self, route: Route) -> object:
        backend = _stand_in()
        for capability in (request.capability for request in route.requests):
            able = (model for model in (*self.models, *self._opened()) if callable(getattr(model, capability, None)))
            model = next(able, None)
            assert model is not None, (
                f"route {route.name!r} asks for {capability!r}, which no baseline of {self.name} answers; pass a model "
                "that does in models=[…]"
            )
            setattr(backend, capability, getattr(model, capability))
        return backend

    def _opened(self) -> Iterator[object]:
        """Yield the backends of the default baselines, fitted to the examples."""
        for name in self.kind.default_baselines:
            model = asserting(partial(open_model, self.harness.backends, name, {}), f"the baseline {name!r}")
            asserting(partial(model.fit, self.examples), f"the baseline {name!r}")
            yield model.backend

    def _scored(self, part: str, route: Route, pairs: Sequence[tuple[Example, Prediction]], metrics: MetricSet) -> None:
        """Check that predictions become rows, and rows become scores."""
        rows = []
        for example, prediction in pairs:
            assert prediction.example_id == example.id, f"{part} predicts {prediction.example_id!r} for {example.id!r}"
            problem = form_problem(self.kind, example, prediction)
            assert not problem, f"{part}: {self.name}.{problem}"
            features = self._features(part, metrics, example, prediction)
            rows.append(prediction_row(self.kind, example, prediction, features, samples=True))
        for hidden in self._hidden():
            self._features(part, metrics, hidden, replace(pairs[0][1], example_id=hidden.id))
        total = Aggregator(metrics, strict=False)
        for row in metrics.related(rows, dict(self._context(route, rescored=True).settings)):
            line = asserting(partial(encode_row, row), f"{part}: a row")
            total.add(asserting(partial(parse_row, line.encode("utf-8", "replace"), Path("row"), 1), f"{part}: a row"))
        asserting(partial(total.scores, 0), f"{part}: the scores")

    def _features(self, subject: str, metrics: MetricSet, example: Example, prediction: Prediction) -> Any:
        about = f"{subject}: a metric of {self.name}, for {prediction!r:.200}"
        return asserting(partial(metrics.features, example, prediction), about)

    def given(self) -> None:
        """Check that a prediction in a file (`figeval score`) is read and stored, or refused with a `ValueError`.

        It must be possible to score it if the type says which values are possible (`value_problem`).
        """
        subject = f"{self.name}.given()"
        example = self.examples[0]
        route = self.kind.given_route(partial(dialogue, self.task, {}), example)
        metrics = self._metrics(route)
        values = (*ODD, *ODDER, *HOSTILE, *([value] for value in ODD), {"candidates": [0], "spans": [None]})
        for value in values:
            for answer in (Given(value), Given(scores=value), Given(value, value)):
                try:
                    prediction = prediction_of(self.task, {example.id: GivenRow("row 1", answer)}, example)
                except DataError:
                    continue
                except Exception as error:
                    raise AssertionError(
                        f"{subject} does not refuse {value!r:.40} with a ValueError, but raises {describe(error)}"
                    ) from error
                if type(self.kind).value_problem is not TaskType.value_problem:
                    self._features(subject, metrics, example, prediction)

    def _few_shot(self, route: Route, context: PromptContext) -> None:
        """Check that the answers to solved examples are texts which the route's reader understands."""
        for example in self.examples:
            if example.hidden:
                continue
            subject = f"{self.name}.few_shot_answer({route.question!r}, …)"
            answer = asserting(partial(self.kind.few_shot_answer, route.question, example, context), subject)
            if answer is None:
                continue
            assert isinstance(answer, str), f"{subject} returned {answer!r:.80}, not a text or None"
            if route.reader is not None:
                read = route.reader.read(example, context, Reply(text=answer))
                assert read.status == "ok", f"{subject} writes {answer!r:.80}, which its reader calls {read.status!r}"

    def _replies(self, route: Route, reader: ReplyReader, replies: Sequence[str], metrics: MetricSet) -> None:
        """Check that any reply is read, and that its stored form is read in the same way."""
        subject = f"the reader of route {route.name!r}"
        assert isinstance(reader.version, str) and reader.version, f"{subject} has no version; start with '1'"
        first, again = self._context(route), self._context(route, rescored=True)
        example = self.examples[0]
        for text in replies:
            ended = (Reply(text=text, finish="length"), Reply(text=text, finish="refusal"), text)
            for reply in (Reply(text=text), *(ended if len(text) < MAX_REPEATED_CHARS else ())):
                read = asserting(partial(reader.read, example, first, reply), f"{subject}, of the reply {text!r:.80},")
                self._reread(subject, reader, example, again, read, text)
        failed = reader.read(example, first, Reply(text="", finish="error", error="gone"))
        self._features(subject, metrics, example, failed)

    def _reread(
        self, subject: str, reader: ReplyReader, example: Example, context: PromptContext, read: Prediction, text: str
    ) -> None:
        """Check that a stored reply gives the same prediction, without the model."""
        problem = form_problem(self.kind, example, read)
        assert not problem, f"{subject}, of the reply {text!r:.80}: {self.name}.{problem}"
        stored = Reply(text=text, finish=read.finish or "stop", error=read.error)
        again = asserting(partial(reader.read, example, context, stored), f"{subject}, of a stored reply,")
        assert (again.status, again.value) == (read.status, read.value), (
            f"{subject} reads {text!r:.80} as {read.status} {read.value!r:.80}, and when it is stored as "
            f"{again.status} {again.value!r:.80}"
        )

    # ---- baselines ---------------------------------------------------------------------------------------------------

    def baselines(self) -> None:
        """Check that default baselines exist and answer."""
        for name in self.kind.default_baselines:
            subject = f"the baseline {name!r} of {self.name}"
            try:
                self.harness.backends.registry.entry(name)
                model = open_model(self.harness.backends, name, {})
                route = choose(self.kind.name, model.offers, self.harness.routes.with_parts(self.kind.name))
            except FigevalError as error:
                raise AssertionError(f"{subject}: {error}; list another one in default_baselines") from error
            asserting(partial(model.fit, self.examples), subject)
            indifferent = getattr(model.backend, "indifferent", False)
            context = replace(self._context(route), indifferent=indifferent)
            conversation = BatchScheduler(model.backend, partial(route.begin, context=context))
            pairs = asserting(lambda conversation=conversation: list(conversation.predictions(self.examples)), subject)  # type: ignore[misc]
            self._scored(subject, route, pairs, self._metrics(route))
            if indifferent:
                check_ties(subject, [prediction for _, prediction in pairs])


def _stand_in() -> Any:
    """Return a fake model with all of figeval's capabilities."""
    return SimpleNamespace(
        embed=FakeEncoder().embed,
        score_pairs=FakePairScorer().score_pairs,
        label_pairs=FakeClassifier().label_pairs,
        loglikelihood=FakeLanguageModel().loglikelihood,
        fill=FakeMaskFiller().fill,
        generate=FakeGenerator().generate,
        find_spans=lambda requests: [[ScoredSpan(Span(0, len(query.text)), 0.0)] for query in requests],
        write=lambda requests: ["A crow." for _ in requests],
    )
