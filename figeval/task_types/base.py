"""A task type: everything in which one kind of task differs from another, as one object.

The core loops over such objects and never asks which one it has. `figeval.task_types.choice` is a short example;
plugins bring their own through the hook `register_task_types`, and `figeval.testing.check_task_type` looks whether they
keep what is promised here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from figeval.errors import PluginError, TaskError
from figeval.jsonfile import json_scores
from figeval.plugins import PluginManager, describe
from figeval.prompts import PromptContext
from figeval.registry import Deferred, Registry, fill, loaded, preferred
from figeval.task_types.fields import Definition, RowContext, fields_of, read_fields, required_fields
from figeval.task_types.routes import Route
from figeval.types import FINGERPRINTED_AS, JSON, Example, Prediction, Value

if TYPE_CHECKING:
    from figeval.task_types.probes import Probe

E = TypeVar("E", bound=Example)
HIDDEN = "hidden"  # in the distribution of gold answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric of a task type.

    Attributes:
        name: as in task files and records.
        target: `function(example, prediction)` whose mean is the score, or a `Statistic`; also as "module:attribute".
        higher_is_better: the direction.
        task_types: the task types that it is for; empty for all of them.
        routes: the routes on which it means something; empty for all of them.
        argument: what it is made from, in words for messages ("the folder of a classifier"); empty for a metric without
            an argument. `target` is then a factory (`figeval.metrics.arguments`).
        given: the argument, where it was asked for with one.
        owner: filled in when it is registered.
    """

    name: str
    target: Any
    higher_is_better: bool = True
    task_types: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()
    argument: str = ""
    given: str | None = None
    owner: str = ""

    def is_for(self, task_type: str) -> bool:
        """Return whether tasks of this type can have it."""
        return not self.task_types or task_type in self.task_types


def metric(
    name: str, target: Any, *, lower_is_better: bool = False, routes: Iterable[str] = (), argument: str = ""
) -> Metric:
    """Return a metric as task types list them."""
    better, limits = not lower_is_better, frozenset(routes)
    return Metric(name=name, target=target, higher_is_better=better, routes=limits, argument=argument)


class TaskType(Generic[E]):
    """A kind of task. Subclasses set the class attributes and override what differs.

    Attributes:
        name: as in `type:` of a task file.
        Example: the dataclass of its examples, whose annotated fields are those of a task file
            (`figeval.task_types.fields`).
        routes: ways to put such a task to a model, best first.
        metrics: what can be computed; `default_metrics` name those that are, where a task lists none.
        default_baselines: trivial models beside which scores stand, where a task lists none.
        query: the field that the probes take away or exchange; without one there are no probes.
        has_corpus: whether its candidates may be documents that all rows share (`corpus`).
        gold_fields: fields that hold the right answer, the first of which is shown.
        folder: where its template `_default/<name>.jinja` and its scaffold lie, None for figeval's own.
    """

    name: ClassVar[str]
    Example: ClassVar[Any]
    routes: ClassVar[tuple[Route, ...]] = ()
    metrics: ClassVar[tuple[Metric, ...]] = ()
    default_metrics: ClassVar[tuple[str, ...]] = ("acc",)
    default_baselines: ClassVar[tuple[str, ...]] = ("chance",)
    query: ClassVar[str] = ""
    has_corpus: ClassVar[bool] = False
    gold_fields: ClassVar[tuple[str, ...]] = ("gold",)
    folder: ClassVar[Traversable | None] = None

    @property
    def template(self) -> str:
        """The name of the template that stands in where a task's own has not the blocks of a route."""
        return f"_default/{self.name}.jinja"

    @property
    def scaffold(self) -> Traversable:
        """The folder with the files of which `figeval new task` makes a task; their names end in `.in`."""
        return (self.folder or files("figeval.task_types")) / "scaffold" / self.name

    # ---- from a row to an example ------------------------------------------------------------------------------------

    def check(self, task: Definition) -> None:
        """Raise `ValueError` for a task definition that makes no sense; the message says what to write."""

    def example(self, row: RowContext) -> E:
        """Return the example of a row. Raises `DataError` naming row and field."""
        made: Any = self.Example(**read_fields(self.Example, row), **row.common)
        return made  # type: ignore[no-any-return]

    def prompted(self, example: E, values: Mapping[str, Any], where: str) -> E:
        """Return the example with `prompted` set to a copy whose fields have these values, as prompts show them.

        Raises:
            DataError: a value has another shape than the field in whose place it stands.
        """
        return replace(example, prompted=replace(example, **self.prompted_fields(example, values, where)))

    def prompted_fields(self, example: E, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return field → value as prompts show it. Raises as `prompted` does."""
        known = fields_of(self.Example)
        return {
            name: known[name].prompted(value, getattr(example, name), f"{where}, prompt field {name!r}")
            for name, value in values.items()
        }

    # ---- what is asked -----------------------------------------------------------------------------------------------

    def few_shot_answer(self, block: str, example: E, context: PromptContext) -> str | None:
        """Return the right answer to a solved example as it stands behind the block that asks; None where the block
        takes no solved examples.
        """
        return None

    @property
    def probes(self) -> Mapping[str, Probe]:
        """Name → probe: the same questions with something taken from them."""
        from figeval.task_types import probes

        return probes.of_query(self.query) if self.query else {}

    # ---- what is retrieved for it ------------------------------------------------------------------------------------

    def query_text(self, example: E) -> str:
        """Return the text by which similar examples are sought; empty where there is nothing to seek by."""
        return str(getattr(example, self.query)) if self.query else ""

    def answer_text(self, example: E) -> str:
        """Return the right answer as a text; where it is none (a label, a span), the text that is asked about."""
        return self.query_text(example)

    def outline(self, example: E) -> Sequence[str]:
        """Return the phrases that the answer is to be written from; empty where there are none."""
        return ()

    def augmented(self, example: E, added: Sequence[str]) -> E:
        """Return the example with retrieved words or texts in front of its query.

        They stand in front, because models cut what is too long at its end.

        Raises:
            TaskError: the type has no field that could take them.
        """
        if not self.query:
            raise TaskError(f"{self.name} tasks have no query to add texts to; leave out --augment")
        return in_front(example, self.query, added)

    # ---- what is stored ----------------------------------------------------------------------------------------------

    def row(self, example: E, prediction: Prediction) -> JSON:
        """Return what a line of predictions holds of this type alone: `gold` and `scores`, or other fields of
        `PredictionRow`; what has no field there goes into `details`.

        A type whose examples have options of several kinds adds `choice` (`figeval.records.predictions.ChoiceRow`):
        then tables say which kinds were chosen.
        """
        return {"gold": self.gold(example), "scores": json_scores(prediction.scores)}

    def gold(self, example: E) -> Any:
        """Return the right answer as JSON, None where it is hidden or there is none."""
        return self.to_json(getattr(example, self.gold_fields[0]))

    def to_json(self, value: Value | None) -> Any:
        """Return an answer as JSON knows it: a whole number, a string, a list or a mapping; None without an answer."""
        return value

    def from_json(self, stored: Any) -> Value | None:
        """Return the answer that `to_json` has stored."""
        return stored

    def value_problem(self, value: Value, example: E, labels: Sequence[str]) -> str:
        """Return what is wrong with a predicted value as an answer to the example; empty where nothing is.

        A value that cannot be an answer is a mistake of a route, a reader or a model, and not a wrong answer: its task
        fails. `labels` are those of the task.
        """
        return ""

    # ---- what is said of it ------------------------------------------------------------------------------------------

    def shown_gold(self, example: E) -> str:
        """Return the right answer in words, for people."""
        value = getattr(example, self.gold_fields[0])
        return "(hidden)" if value is None else str(value)

    def gold_class(self, example: E) -> str | None:
        """Return what the right answer counts as in the distribution of gold answers; None where there is nothing to
        count, as for texts.
        """
        return None

    def is_constant(self, gold_class: str) -> bool:
        """Return whether all examples of this gold class have the same answer."""
        return True

    def oddities(self, example: E) -> Iterator[tuple[str, str]]:
        """Yield (what is odd, with which text) of an example that can be scored all the same."""
        yield from ()

    # ---- how it is learned -------------------------------------------------------------------------------------------

    def check_training(self, task: Definition, train: Sequence[E]) -> None:
        """Raise `ValueError` for examples from which nothing could be learned that the task asks about."""

    def held_apart(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the examples of a split that shares no cluster with the other one, without what belongs to that."""
        return examples

    # ---- what a task file may write ----------------------------------------------------------------------------------

    def required(self, task: Definition) -> frozenset[str]:
        """Return the names of the fields that a task has to give beside `id`."""
        return required_fields(self.Example)

    def field_problem(self, task: Definition) -> str | None:
        """Return what is wrong with the names of fields in a task file, None if nothing is."""
        known, given = fields_of(self.Example), set(task.fields)
        if task.corpus is not None and not self.has_corpus:
            return f"a {self.name} task has no corpus; remove the key, or make it a ranking task"
        if len(task.languages) > 1 and "language" not in given:
            return "a task in several languages needs the field language, such as `language: row.lang`"
        if missing := (self.required(task) | {"id"}) - given:
            first_names = {one.name: one.metadata.get(FINGERPRINTED_AS) for one in fields(self.Example)}
            renamed = [f"; {old!r} of figeval 0.1 is {name!r} now" for name, old in first_names.items() if old in given]
            return f"a {self.name} task needs the fields {', '.join(sorted(missing))}{''.join(renamed)}"
        if unknown := given - set(known) - {"id", "meta", "language"}:
            return f"a {self.name} task has no fields {sorted(unknown)}"
        shown = {name for name, one in known.items() if one.shown}
        if unknown := set(task.prompt_fields) - (shown & given):
            return f"prompt_fields: {sorted(unknown)} are not among the texts of fields {sorted(given)}"
        return None

    def json_schema(self) -> JSON:
        """Return a JSON Schema of what the fields of a task file evaluate to."""
        common: JSON = {
            "id": {"type": ["string", "integer"]},
            "meta": {"type": "object"},
            "language": {"type": "string", "description": "One of the task's languages."},
        }
        own = {name: {**one.schema(), "description": one.doc} for name, one in fields_of(self.Example).items()}
        required = ["id", *(name for name in own if name in required_fields(self.Example))]
        return {"type": "object", "properties": {**common, **own}, "required": required, "additionalProperties": False}


# ---- helpers that several types use ----------------------------------------------------------------------------------


def in_front(example: E, field: str, added: Sequence[str]) -> E:
    """Return the example with words or texts, on a line of their own, in front of a field's text."""
    before = " ".join(added)
    changes: dict[str, Any] = {field: f"{before}\n{getattr(example, field)}"}
    if example.prompted is not None:
        shown: dict[str, Any] = {field: f"{before}\n{getattr(example.prompted, field)}"}
        changes["prompted"] = replace(example.prompted, **shown)
    return replace(example, **changes)


def blank_texts(example: Example, *names: str) -> Iterator[tuple[str, str]]:
    """Yield the fields whose text is empty, as `TaskType.oddities` does."""
    for name in names:
        if not getattr(example, name).strip():
            yield "is empty", name


def repeated_texts(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options that repeat another one up to case, as `TaskType.oddities` does."""
    seen: dict[str, int] = {}
    for number, option in enumerate(options):
        first = seen.setdefault(option.strip().casefold(), number)
        if first != number:
            yield "repeats another one", f"option {number} ({option!r:.60}, as option {first})"


# ---- all of them -----------------------------------------------------------------------------------------------------


class TaskTypes(Registry[Any]):
    """The task types that plugins offer, by name. One that was registered with its name is imported when it is used."""

    def __init__(self, manager: PluginManager) -> None:
        super().__init__("task type", "figeval ls types")
        fill(manager, "register_task_types", self._register)

    def _register(self, task_type: Any, name: str, *, owner: str) -> None:
        if name:
            self.add(name, Deferred(partial(_named, name, task_type, owner)), owner)
            return
        one = task_type_of(loaded(task_type))
        self.add(one.name, one, owner)


def _named(name: str, task_type: Any, owner: str) -> TaskType[Any]:
    """Return the task type that was registered under a name. Raises `PluginError` naming type and plugin."""
    try:
        one = task_type_of(loaded(task_type))
    except Exception as error:  # its module may raise anything when it is imported
        raise PluginError(f"task type {name!r} of {owner}: {describe(error)}") from error
    if one.name != name:
        raise PluginError(f"task type {name!r} of {owner} has the name {one.name!r} itself; register it under that")
    return one


def task_type_of(made: Any) -> TaskType[Any]:
    """Return the task type that a subclass of `TaskType` declares, or the type itself.

    Raises:
        PluginError: it is none, or what every task of it would trip over is wrong with it.
    """
    if not (isinstance(made, TaskType) or (isinstance(made, type) and issubclass(made, TaskType))):
        raise PluginError(f"register(task_type) takes a subclass of figeval.TaskType, not {made!r:.80}")
    one: TaskType[Any] = made() if isinstance(made, type) else made
    name = type(one).__name__
    for attribute in ("name", "Example"):
        if not hasattr(one, attribute):
            raise PluginError(f"the task type {name} has no `{attribute}`; give it one as a class attribute")
    example: Any = one.Example
    if not (is_dataclass(example) and isinstance(example, type) and issubclass(example, Example)):
        raise PluginError(
            f"{name}.Example is {one.Example!r:.80}; make it a dataclass that derives from figeval.Example"
        )
    fields_of(one.Example)  # annotations that cannot be read show here, and not with the first task
    seen: set[str] = set()
    for listed in one.metrics:
        if not isinstance(listed, Metric):
            raise PluginError(f"{name}.metrics lists {listed!r:.80}; make it with figeval.metric(name, target)")
        if listed.name in seen:
            raise PluginError(f"{name}.metrics has two metrics {listed.name!r}; rename one")
        seen.add(listed.name)
    return one


class Routes:
    """The routes of task types: those that a type has itself, and those that plugins add to it."""

    def __init__(self, manager: PluginManager, task_types: TaskTypes) -> None:
        self._manager = manager
        self._task_types = task_types
        self._added: dict[str, list[Route]] = {}
        self._of: dict[str, list[Route]] = {}
        self._owners = fill(manager, "register_routes", self._add)
        self._tried_first = frozenset(manager.tried_first("register_routes"))

    def _add(self, task_type: str, route: Any, *, owner: str) -> None:
        self._added.setdefault(task_type, []).append(_checked(route, task_type, owner))

    def of(self, task_type: str) -> list[Route]:
        """Return the routes of a task type, best first.

        Its own come before those that plugins add, so that installing a plugin changes no score, unless the plugin asks
        for `tryfirst`. A route whose name is taken is a problem of its plugin, and is left out.
        """
        if task_type not in self._of:
            own = list(self._own(task_type))
            routes = {route.name: route for route in own}
            for route in self._added.get(task_type, ()):
                known = routes.setdefault(route.name, route)
                if known is not route:
                    taken = f"route {route.name!r} for {task_type} of {route.owner} is already registered"
                    self._manager.problem(route.owner, f"{taken} by {known.owner}")
            added = preferred(list(routes.values())[len(own) :], self._owners)
            first = [route for route in added if route.owner in self._tried_first]
            self._of[task_type] = [*first, *own, *(route for route in added if route.owner not in self._tried_first)]
        return self._of[task_type]

    def _own(self, task_type: str) -> Iterator[Route]:
        """Yield the routes that a task type has itself; none for a type that nobody offers."""
        if task_type not in self._task_types:
            return
        entry = self._task_types.entry(task_type)
        for route in entry.load().routes:
            try:
                yield _checked(route, task_type, entry.owner)
            except PluginError as error:  # costs this route; the others stay in force
                self._manager.problem(entry.owner, f"task type {task_type!r}: {error}")

    def with_parts(self, task_type: str) -> list[Route]:
        """Return the routes of a task type, and of the types whose routes they put together (`choose`)."""
        types = [task_type]
        for one in types:  # which grows meanwhile
            parts = dict.fromkeys(part for route in self.of(one) for part in route.of)
            types += [part for part in parts if part not in types]
        return [route for one in types for route in self.of(one)]

    def __iter__(self) -> Iterator[Route]:
        """Yield every route, by task type."""
        types = dict.fromkeys([*(entry.name for entry, _ in self._task_types.usable(self._manager)), *self._added])
        return (route for one in types for route in self.of(one))


def _checked(route: Any, task_type: str, owner: str) -> Route:
    """Return a route as it is registered. Raises `PluginError` for one that no model could go."""
    if not isinstance(route, Route):
        raise PluginError(f"a route of {task_type} is {route!r:.80}; make it a figeval.Route")
    route.check()
    needs = route.needs | {request.capability for request in route.requests}
    return replace(route, needs=needs, task_type=task_type, owner=owner)
