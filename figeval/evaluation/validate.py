"""Checks a task from end to end without a model: its definition, every row of every split, every prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from figeval.config import RunConfig
from figeval.errors import CapabilityError, DataError, FigevalError, TaskError
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import check_settings, context_of, template_file, template_of
from figeval.models.model import open_model
from figeval.prompts import PromptContext, Shots
from figeval.records.predictions import form_problem
from figeval.spec import TaskSpec
from figeval.spec.examples import build_examples, check_languages, row_builder
from figeval.task_types.base import HIDDEN, TaskType
from figeval.task_types.routes import Route, choose
from figeval.types import Example, Prediction

MOST_ERRORS = 20  # wrong rows of one split, then it is given up
MOST_ALIKE = 3  # warnings of one kind that are spelled out
FEWEST_EQUAL = 10  # gold answers that are all equal by chance once in 512 times at most


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong (`error`) or odd (`warning`) with a task."""

    level: Literal["error", "warning"]
    message: str


@dataclass(slots=True)
class Verdict:
    """What was found out about one task; `facts` is what is not wrong but worth a look."""

    task: str
    origin: str = ""  # its file
    findings: list[Finding] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(finding.level == "error" for finding in self.findings)

    def error(self, message: object) -> None:
        """Note an error."""
        self.findings.append(Finding("error", str(message)))

    def warn(self, message: str) -> None:
        """Note a warning."""
        self.findings.append(Finding("warning", message))


def validate(task: TaskSpec, harness: Harness) -> Verdict:
    """Check one task. Everything that is wrong with it becomes a finding; nothing is raised for it."""
    verdict = Verdict(task.name, task.origin)
    for problem in definition_problems(task, harness):
        verdict.error(problem)
    ways = prompted(task, harness, verdict)
    for split in task.data or ("test",):
        survey_split(task, split, harness, ways if split == "test" else [], verdict)
    return verdict


def definition_problems(task: TaskSpec, harness: Harness) -> Iterator[FigevalError]:
    """What is wrong with the names in a task file: metrics, baselines, words of labels."""
    for name in task.metrics:
        try:
            limits = harness.metrics.get(name, task.type).routes
            harness.metrics.applicable([name], task.type, min(limits, default=""))
        except FigevalError as error:
            yield error
    try:
        check_settings(task, harness)
    except FigevalError as error:
        yield error
    for name in task.baselines:
        try:
            harness.backends.registry.entry(name.partition(":")[0])  # trivial models are no hub's business
            choose(task.type, open_model(harness.backends, name, {}).offers, harness.routes.with_parts(task.type))
        except FigevalError as error:
            yield TaskError(f"baseline {name!r}: {error}")
    words = Counter(word for label in task.labels for word in task.verbalizer.get(label, (label,)))
    for word, count in words.items():
        if count > 1:
            yield TaskError(f"verbalizer: {word!r} stands for {count} labels, so no answer could tell them apart")


@dataclass(frozen=True, slots=True)
class PromptedRoute:
    """A route that renders a prompt, with the context of one of the task's prompts."""

    route: Route
    context: PromptContext
    prompt: str = ""  # the name of a further prompt

    def __str__(self) -> str:
        return f"route {self.route.name}" + (f", prompt {self.prompt}" if self.prompt else "")


def prompted(task: TaskSpec, harness: Harness, verdict: Verdict) -> list[PromptedRoute]:
    """Every route that shows a prompt, with every prompt of the task."""
    ways = list(worded(task, "", harness, verdict))
    for name in task.prompts:
        ways += worded(task.worded(name), name, harness, verdict)
    return ways


def worded(task: TaskSpec, prompt: str, harness: Harness, verdict: Verdict) -> Iterator[PromptedRoute]:
    """The routes with the task's template; where it has not the blocks of one, that of the task type stands in."""
    routes = [route for route in harness.routes.of(task.type) if route.renders]
    if not routes:  # of a type that prompts nobody no template is wanted
        return
    try:
        own = template_file(task)
    except TaskError as error:
        verdict.error(f"{task.name}: {error}")
        return
    config = RunConfig(tasks=(task.name,), model="")
    for route in routes:
        try:
            template = template_of(task, route)
        except TaskError as error:
            verdict.warn(f"{error}: {route.name} is closed to models with {' and '.join(sorted(route.needs))}")
            continue
        for block in sorted(route.renders - own.blocks):
            standing_in = template.name if template is not None else ""
            verdict.facts.append(f"template {own.name} has no block {block!r}: {route.name} asks with {standing_in}")
        context = context_of(task, route, template, Shots((), 0, 0), config)
        yield PromptedRoute(route, replace(context, metrics=frozenset(task.metrics)), prompt)


@dataclass(slots=True)
class Census:
    """What one split holds."""

    task_type: TaskType[Any]
    n: int = 0
    ids: dict[str, int] = field(default_factory=dict)  # id → row
    answers: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    clusters: set[str] = field(default_factory=set)
    alone: int = 0  # examples without a cluster
    groups: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    unstored: bool = False  # whether the task type has failed to store an answer

    def count(self, example: Example) -> None:
        """Count one example in."""
        self.n += 1
        self.answers.update(filter(None, [self.task_type.gold_class(example)]))
        self.hidden += example.hidden
        self.languages.update(filter(None, [example.language]))
        if example.cluster is None:
            self.alone += 1
        else:
            self.clusters.add(example.cluster)
        if example.group is not None:
            self.groups[example.group] += 1

    def describe(self, split: str) -> str:
        """`test: 60 examples, 30 clusters; gold entailment ×30, non-entailment ×30`."""
        answers = sorted(self.answers.items(), key=lambda item: (len(item[0]), item[0]))  # option 2 before option 10
        shares = ", ".join(f"{value} ×{count}" for value, count in answers)
        clusters = f", {len(self.clusters) + self.alone} clusters" if self.clusters else ""
        clusters += f" ({self.alone} of them are rows without a cluster)" if self.clusters and self.alone else ""
        groups = f", {len(self.groups)} minimal groups" if self.groups else ""
        counts = ", ".join(f"{name} ×{count}" for name, count in self.languages.items())
        languages = f"; languages {counts}" if counts else ""
        return f"{split}: {self.n} examples{clusters}{groups}{languages}" + (f"; gold {shares}" if shares else "")


def survey_split(task: TaskSpec, split: str, harness: Harness, ways: list[PromptedRoute], verdict: Verdict) -> None:
    """Build, check and render every example of a split, and describe what it holds."""
    census = Census(task.task_type)
    odd: Counter[str] = Counter()
    ways = list(ways)
    for number, example in built(task, split, harness, verdict):
        census.count(example)
        twin = census.ids.setdefault(example.id, number)
        if twin != number:
            verdict.error(f"{task.name}, {split}: rows {twin} and {number} have the same id {example.id!r}")
        for oddity, place in task.task_type.oddities(example):
            odd[oddity] += 1
            if odd[oddity] <= MOST_ALIKE:
                verdict.warn(f"{task.name}, {split}: row {number}, id {example.id!r}: {place} {oddity}")
        render(task, number, example, ways, verdict)
        store(task, split, number, example, census, verdict)
    for oddity, count in odd.items():
        if count > MOST_ALIKE:
            verdict.warn(f"{task.name}, {split}: … {count} rows in all where a text {oddity}")
    if not census.n and not verdict.errors:
        verdict.error(f"{task.name}, {split}: there are no examples")
    if task.cluster and census.n and not census.clusters:
        verdict.warn(f"{task.name}, {split}: {task.cluster!r} is null in every row, so there are no clusters")
    if census.groups and max(census.groups.values()) == 1:
        verdict.warn(f"{task.name}, {split}: no two examples share a group, so there are no minimal pairs")
    verdict.findings.extend(one_sided(task, split, census))
    verdict.findings.extend(without_rows(task, split, census))
    verdict.facts.append(census.describe(split))


def without_rows(task: TaskSpec, split: str, census: Census) -> Iterator[Finding]:
    """A language of the task that no row of the test split is in; a train split may well be in one language."""
    try:
        check_languages(task, census.languages if split == "test" and census.n else task.languages)
    except DataError as error:
        yield Finding("error", str(error))


def store(task: TaskSpec, split: str, number: int, example: Example, census: Census, verdict: Verdict) -> None:
    """Store the right answer as a prediction and read it back; a task type that cannot is told so once."""
    if not census.unstored and (problem := form_of_gold(task.task_type, example)):
        verdict.error(f"{task.name}, {split}: row {number}, id {example.id!r}: task type {task.type!r}: {problem}")
        census.unstored = True


def form_of_gold(task_type: TaskType[Any], example: Example) -> str:
    """What is wrong with the row of the prediction that gives the gold answer; empty where that can be read back, or
    where what is right is no answer as predictions hold it (all right candidates, references).
    """
    value = getattr(example, task_type.gold_fields[0], None)
    try:
        is_answer = value is not None and task_type.to_json(value) == task_type.gold(example)
    except Exception:  # to_json is for answers: of several right ones, say, it need know nothing
        return ""
    return form_problem(task_type, example, Prediction(example_id=example.id, value=value)) if is_answer else ""


def one_sided(task: TaskSpec, split: str, census: Census) -> Iterator[Finding]:
    """What is odd about the distribution of gold answers: all equal and not declared so, declared so and not equal, or
    hidden where the split is scored.
    """
    known = {answer: count for answer, count in census.answers.items() if answer != HIDDEN}
    total, declared = sum(known.values()), task.only_label
    if declared is not None and split == "test" and (others := total - known.get(declared, 0)):
        what = f"{others:,} of {total:,} gold labels differ from only_label: {declared}"
        yield Finding("error", f"{task.name}, {split}: {what}; correct the rows, or remove the key")
    if declared is None and len(known) == 1 and total >= FEWEST_EQUAL and all(map(task.task_type.is_constant, known)):
        cure = "; if that is intended, declare `only_label`" if task.labels else ""
        equal = f"all {total:,} gold answers are {next(iter(known))!r}, so a constant answer is always right{cure}"
        yield Finding("warning", f"{task.name}, {split}: {equal}")
    if census.hidden and split == "test":
        gone = f"{census.hidden:,} of {census.n:,} gold answers are hidden (null) and will not be scored"
        yield Finding("warning", f"{task.name}, {split}: {gone}")


def built(task: TaskSpec, split: str, harness: Harness, verdict: Verdict) -> Iterator[tuple[int, Example]]:
    """(row number, example) for every sound row; a wrong row is noted and passed over, a wrong file ends it."""
    wrong = 0
    try:
        if task.examples is not None:
            yield from enumerate(build_examples(task, ()), start=1)
            return
        build = row_builder(task, split, partial(harness.documents, task))
        for number, row in enumerate(harness.rows(task, split), start=1):
            try:
                yield number, build(number, row)
            except DataError as error:
                verdict.error(error)
                wrong += 1
                if wrong == MOST_ERRORS:
                    verdict.error(f"{task.name}, {split}: {wrong} rows are wrong up to row {number}; gave up here")
                    return
    except FigevalError as error:
        verdict.error(error)


def render(task: TaskSpec, number: int, example: Example, ways: list[PromptedRoute], verdict: Verdict) -> None:
    """Make the first requests of every way; one that fails is noted once and left out from then on."""
    for way in list(ways):
        try:
            next(way.route.begin(example, way.context))
        except (TaskError, CapabilityError) as error:
            note = verdict.error if isinstance(error, TaskError) else verdict.warn  # other routes remain
            note(f"{task.name}: row {number}, id {example.id!r}, {way}: {error}")
            ways.remove(way)
