"""Base class of task types. A task type is one object with everything that distinguishes its tasks from others.

The core loops over such objects without asking which one it has. `figeval.task_types.choice` is a short example.
Plugins add their own through the hook `register_task_types`; `figeval.testing.check_task_type` checks that these keep
the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from figeval.errors import TaskError
from figeval.io.json_files import json_scores
from figeval.plugins import describe
from figeval.prompts import PromptContext
from figeval.task_types.fields import Definition, RowContext, fields_of, read_fields, required_fields
from figeval.task_types.given import GIVEN, Given
from figeval.task_types.routes import Route, Start
from figeval.types import JSON, Example, Input, Prediction, Value

if TYPE_CHECKING:
    from figeval.task_types.probes import Probe

E = TypeVar("E", bound=Example)
HIDDEN = "hidden"
"""Class of hidden answers in the distribution of gold answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Metric of a task type.

    Attributes:
        name: name in task files and records.
        target: `function(example, prediction)` whose mean is the score, or a `Statistic`, or either as
            "module:attribute".
        higher_is_better: whether a higher score is better.
        task_types: task types that the metric is for; empty for all of them.
        routes: routes on which the metric is meaningful; empty for all of them.
        argument: description of the argument for messages ("the folder of a classifier"), or empty without an argument.
            With an argument, `target` is a factory (`figeval.metrics.catalogue`).
        given: the given argument, or None.
        languages: languages in which the metric has a sound value, without script and region; empty for all of them.
        counts_words: whether the score depends on what a word is (`figeval.language.words`).
        owner: plugin that registered the metric; filled in at registration.
    """

    name: str
    target: Any
    higher_is_better: bool = True
    task_types: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()
    argument: str = ""
    given: str | None = None
    languages: frozenset[str] = frozenset()
    counts_words: bool = False
    owner: str = ""

    def is_for(self, task_type: str) -> bool:
        """Return whether tasks of this type can have the metric."""
        return not self.task_types or task_type in self.task_types


def metric(  # noqa: PLR0913 - one argument per attribute
    name: str,
    target: Any,
    *,
    lower_is_better: bool = False,
    routes: Iterable[str] = (),
    argument: str = "",
    languages: Iterable[str] = (),
    counts_words: bool = False,
) -> Metric:
    """Return a metric for the `metrics` of a task type."""
    better, limits = not lower_is_better, frozenset(routes)
    return Metric(
        name=name,
        target=target,
        higher_is_better=better,
        routes=limits,
        argument=argument,
        languages=frozenset(languages),
        counts_words=counts_words,
    )


class TaskType(Generic[E]):
    """Kind of task. Subclasses set the class attributes and override the methods that differ.

    Attributes:
        name: value of `type:` in a task file.
        Example: dataclass of the examples, whose annotated fields are the fields of a task file
            (`figeval.task_types.fields`).
        routes: routes from an example to a prediction, best first.
        metrics: available metrics.
        default_metrics: names of the metrics of a task that lists none.
        default_baselines: trivial models for comparison, for a task that lists none.
        query: field that the probes remove or exchange; without one, there are no probes.
        options: field with the list of options, which `shuffle_options` puts in another order; empty if there is none.
        has_corpus: whether the candidates may be documents that all rows share (`corpus`).
        gold_fields: fields with the right answer; the first one is shown.
        given_form: what to write as a prediction in a file for `figeval score`, in words.
        written_routes: routes on which the answer is a text that the model itself wrote, so that people can judge it.
        folder: folder of the template `_default/<name>.jinja` and the scaffold, or None for figeval's own.
    """

    name: ClassVar[str]
    Example: ClassVar[Any]
    routes: ClassVar[tuple[Route, ...]] = ()
    metrics: ClassVar[tuple[Metric, ...]] = ()
    default_metrics: ClassVar[tuple[str, ...]] = ("acc",)
    default_baselines: ClassVar[tuple[str, ...]] = ("chance",)
    query: ClassVar[str] = ""
    options: ClassVar[str] = ""
    has_corpus: ClassVar[bool] = False
    gold_fields: ClassVar[tuple[str, ...]] = ("gold",)
    given_form: ClassVar[str] = "the value that `pred` has in the predictions of a run"
    written_routes: ClassVar[tuple[str, ...]] = ()
    folder: ClassVar[Traversable | None] = None

    @property
    def summary(self) -> str:
        """First line of the docstring, for lists."""
        return (self.__doc__ or "").strip().split("\n")[0]

    @property
    def template(self) -> str:
        """Name of the fallback template, used if a task's own template lacks the blocks of a route."""
        return f"_default/{self.name}.jinja"

    @property
    def scaffold(self) -> Traversable:
        """Folder with the files from which `figeval new task` makes a task; their names end in `.in`."""
        return (self.folder or files("figeval.task_types")) / "scaffold" / self.name

    # ---- from a row to an example ------------------------------------------------------------------------------------

    def check(self, task: Definition) -> None:
        """Check a task definition. Raises `ValueError` if it makes no sense; the message says what to write."""

    def example(self, row: RowContext) -> E:
        """Return the example of a row. Raises `DataError`, which names row and field."""
        example: Any = self.Example(**read_fields(self.Example, row), **row.common)
        return example  # type: ignore[no-any-return]

    def completed(self, example: E, task: Definition) -> E:
        """Return the example with what its task says about all examples; by default, as it is."""
        return example

    def prompted(self, example: E, values: Mapping[str, Any], where: str) -> E:
        """Return the example with `prompted` set to a copy with these field values, which prompts show.

        Raises:
            DataError: a value has another shape than the field that it replaces.
        """
        return replace(example, prompted=replace(example, **self.prompted_fields(example, values, where)))

    def prompted_fields(self, example: E, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the field values that prompts show, by field. Raises `DataError` as `prompted` does."""
        fields_by_name = fields_of(self.Example)
        return {
            name: fields_by_name[name].prompted(value, getattr(example, name), f"{where}, prompt field {name!r}")
            for name, value in values.items()
        }

    # ---- prompts -----------------------------------------------------------------------------------------------------

    def few_shot_answer(self, block: str, example: E, context: PromptContext) -> str | None:
        """Return the right answer to a solved example, as it appears after the block that asks the question.

        The result is None if the block takes no solved examples.
        """
        return None

    def with_labels(self, example: E, names: Mapping[str, str]) -> E:
        """Return a solved example of another task with the labels of the task that is asked.

        Args:
            example: the example.
            names: label of the task that is asked by label of the other one.

        Raises:
            TaskError: answers of this type are not single labels.
        """
        raise TaskError(f"the labels of {self.name} tasks cannot be exchanged; leave out --fewshot_from")

    @property
    def probes(self) -> Mapping[str, Probe]:
        """Probes by name: the same questions with something removed."""
        from figeval.task_types import probes

        return probes.of_query(self.query) if self.query else {}

    # ---- retrieval ---------------------------------------------------------------------------------------------------

    def query_text(self, example: E) -> str:
        """Return the text with which similar examples are searched; empty if there is none."""
        return str(getattr(example, self.query)) if self.query else ""

    def answer_text(self, example: E) -> str:
        """Return the right answer as a text, or the query if the answer is not a text (a label, a span)."""
        return self.query_text(example)

    def outline(self, example: E) -> Sequence[str]:
        """Return the phrases from which the answer is to be written; empty if there are none."""
        return ()

    def augmented(self, example: E, added: Sequence[str]) -> E:
        """Return the example with retrieved words or texts in front of its query.

        They come first because models truncate long inputs at the end.

        Raises:
            TaskError: the type has no field to which they can be added.
        """
        if not self.query:
            raise TaskError(f"{self.name} tasks have no query to add texts to; leave out --augment")
        return in_front(example, self.query, added)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def row(self, example: E, prediction: Prediction) -> JSON:
        """Return the type-specific part of a line of predictions: `gold` and `scores`, or other `PredictionRow` fields.

        Values without a field there go into `details`.

        A type whose examples have options of several kinds adds `choice` (`figeval.records.predictions.ChoiceRow`), so
        that tables show which kinds were chosen.
        """
        return {"gold": self.gold(example), "scores": json_scores(prediction.scores)}

    def gold(self, example: E) -> Any:
        """Return the right answer as JSON, or None if it is hidden or there is none."""
        return self.to_json(getattr(example, self.gold_fields[0]))

    def gold_texts(self, example: E) -> tuple[str, ...]:
        """Return the right answers as texts, for `majority`; by default of the first gold field, indexes as options."""
        gold = self.gold_fields[0]
        options = self.options or getattr(fields_of(self.Example).get(gold), "of", "")
        return texts_of(getattr(example, gold), getattr(example, options) if options else ())

    def to_json(self, value: Value | None) -> Any:
        """Return an answer as a JSON value: an integer, a string, a list or a mapping; None without an answer."""
        return value

    def from_json(self, stored: Any) -> Value | None:
        """Return the answer from the value that `to_json` stored."""
        return stored

    def value_problem(self, value: Value, example: E, labels: Sequence[str]) -> str:
        """Return what is wrong with a predicted value as an answer to the example, or an empty text.

        A value that cannot be an answer is a mistake in a route, a reader or a model, not a wrong answer, so the task
        fails. `labels` are the labels of the task.
        """
        return ""

    # ---- predictions of other systems --------------------------------------------------------------------------------

    def given(self, example: E, given: Given, labels: Sequence[str]) -> Prediction:
        """Return the prediction that a file gives for the example, as described in `given_form`.

        `labels` are the labels of the task.

        Raises:
            ValueError: the prediction or its scores have another form. The second argument says what to write, by
                default `given_form`.
        """
        try:
            value = self.from_json(given.parsed)
            is_stored_form = self.to_json(value) == given.parsed
        except Exception as error:  # the form of stored answers is the type's own
            raise ValueError(f"{given.value!r:.80} cannot be read ({describe(error)})") from error
        if not is_stored_form:
            raise ValueError(f"{given.value!r:.80} has another form than stored answers")
        return Prediction(example_id=example.id, value=value, scores=given.numbers("values"))

    def given_route(self, start: Start, example: E) -> Route:
        """Return the route of given predictions, with the metrics that say how many examples have an answer.

        `example` is the first example of the task.
        """
        metrics = (name for route in self.routes if route.reader is not None for name in route.metrics)
        return Route(name=GIVEN, start=start, metrics=tuple(dict.fromkeys(metrics)), task_type=self.name)

    # ---- people as judges --------------------------------------------------------------------------------------------

    def human_question(self, example: E) -> tuple[str, Sequence[str], int] | None:
        """Return the example as people answer it: a question, the options, and the index of the right one.

        The result is None if the answer is hidden, or if people cannot answer by choosing an option.
        """
        return None

    def judged_inputs(self, example: E) -> Mapping[str, Input]:
        """Return the inputs that people see, by name, when they judge a text that was written from them."""
        return {self.query: self.query_text(example)} if self.query else {}

    def judged_example(self, example: E) -> Mapping[str, Input]:
        """Return what people see, by name, when they judge the example itself: the question and its right answer.

        Types with `written_routes` need none: their `answer_text` is judged like the texts of models.
        """
        return {self.query or "text": self.query_text(example), "answer": self.shown_gold(example)}

    # ---- descriptions ------------------------------------------------------------------------------------------------

    def shown_gold(self, example: E) -> str:
        """Return the right answer as text for people."""
        value = getattr(example, self.gold_fields[0])
        return "(hidden)" if value is None else str(value)

    def gold_class(self, example: E) -> str | None:
        """Return the class of the right answer in the distribution of gold answers.

        The result is None if answers cannot be counted, e.g. texts.
        """
        return None

    def is_constant(self, gold_class: str) -> bool:
        """Return whether all examples of this gold class have the same answer."""
        return True

    def oddities(self, example: E) -> Iterator[tuple[str, str]]:
        """Yield (oddity, text that has it) of an example that can be scored nevertheless."""
        yield from ()

    # ---- training ----------------------------------------------------------------------------------------------------

    def check_training(self, task: Definition, train: Sequence[E]) -> None:
        """Check training examples. Raises `ValueError` if the task cannot be learned from them."""

    def restrict_to_split(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the examples reduced to what belongs to their split; called if it shares no cluster with the other."""
        return examples

    # ---- fields of task files ----------------------------------------------------------------------------------------

    def required(self, task: Definition) -> frozenset[str]:
        """Return the names of the fields that a task must have besides `id`."""
        return required_fields(self.Example)

    def field_problem(self, task: Definition) -> str | None:
        """Return what is wrong with the field names of a task file, or None."""
        declared, names = fields_of(self.Example), set(task.fields)
        if task.corpus is not None and not self.has_corpus:
            return f"a {self.name} task has no corpus; remove the key, or make it a ranking task"
        if len(task.languages) > 1 and "language" not in names:
            return "a task in several languages needs the field language, e.g. `language: row.lang`"
        if missing := (self.required(task) | {"id"}) - names:
            noun = "field" if len(missing) == 1 else "fields"
            return f"a {self.name} task needs the {noun} {', '.join(sorted(missing))}"
        if unknown := names - set(declared) - {"id", "meta", "language"}:
            return f"a {self.name} task has no field {' or '.join(map(repr, sorted(unknown)))}"
        shown = {name for name, kind in declared.items() if kind.shown}
        if unknown := set(task.prompt_fields) - (shown & names):
            return f"prompt_fields: {sorted(unknown)} are not among the texts of fields {sorted(names)}"
        return None

    def json_schema(self) -> JSON:
        """Return a JSON Schema of the values of a task file's fields."""
        common: JSON = {
            "id": {"type": ["string", "integer"], "description": "Id of the example."},
            "meta": {"type": "object", "description": "Columns for breakdowns (`--by`), by name."},
            "language": {"type": "string", "description": "One of the task's languages."},
        }
        schemas = {name: {**kind.schema(), "description": kind.doc} for name, kind in fields_of(self.Example).items()}
        required = ["id", *(name for name in schemas if name in required_fields(self.Example))]
        return {
            "type": "object",
            "properties": {**common, **schemas},
            "required": required,
            "additionalProperties": False,
        }


# ---- helpers that several types use ----------------------------------------------------------------------------------


def in_front(example: E, field: str, added: Sequence[str]) -> E:
    """Return the example with words or texts on a separate line in front of a field's text."""
    before = " ".join(added)
    changes: dict[str, Any] = {field: f"{before}\n{getattr(example, field)}"}
    if example.prompted is not None:
        shown: dict[str, Any] = {field: f"{before}\n{getattr(example.prompted, field)}"}
        changes["prompted"] = replace(example.prompted, **shown)
    return replace(example, **changes)


def blank_texts(example: Example, *names: str) -> Iterator[tuple[str, str]]:
    """Yield an oddity for each of these fields whose text is blank, as `TaskType.oddities` does."""
    for name in names:
        if not getattr(example, name).strip():
            yield "is empty", name


def repeated_texts(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield an oddity for each option that repeats another one, ignoring case, as `TaskType.oddities` does."""
    seen: dict[str, int] = {}
    for number, option in enumerate(options):
        first = seen.setdefault(option.strip().casefold(), number)
        if first != number:
            yield "repeats another one", f"option {number} ({option!r:.60}, as option {first})"


def texts_of(value: Any, options: Sequence[Any] = ()) -> tuple[str, ...]:
    """Return a right answer, or several, as texts: an index as its option, a number as a task file writes it.

    The result is empty for a hidden answer and for what is neither a text nor a number.
    """
    answers = value if isinstance(value, list | tuple | Set) else [value]
    texts = [text for answer in answers if (text := _text_of(answer, options)) is not None]
    if len(texts) < len(answers):
        return ()
    return tuple(sorted(texts) if isinstance(value, Set) else texts)


def _text_of(value: Any, options: Sequence[Any]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and options:
        value = options[value]
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else None
