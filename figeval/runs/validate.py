"""Checks of a complete task without a model: its definition, every row of every split, every prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from figeval.config import RunConfig
from figeval.errors import CapabilityError, DataError, FigevalError, RowError, TaskError
from figeval.language.words import notion_of
from figeval.metrics.catalogue import statistic_of
from figeval.models.model import open_model
from figeval.prompts import MAX_NAMED_IDS, Leaks, PromptContext, Shots
from figeval.records.predictions import form_problem
from figeval.runs.harness import Harness
from figeval.runs.plan import context_of, template_file, template_of
from figeval.runs.retrieval.shots import Room
from figeval.runs.task_metrics import signatures
from figeval.runs.task_settings import check_settings
from figeval.spec import TaskSpec
from figeval.spec.examples import build_examples, check_languages, row_builder
from figeval.spec.survey import repeated_id, without_width
from figeval.task_types.base import HIDDEN, TaskType
from figeval.task_types.routes import Route, choose
from figeval.types import Example, Prediction

MOST_KINDS = 20  # number of different errors of a field, and of fields with errors, that are remembered
MOST_ALIKE = 3  # number of errors of one field and of warnings of one kind that are printed, and of rows in them
LEARNT = ("train", "dev", "validation")  # splits in which no test row should be
FEWEST_EQUAL = 10  # this many gold answers are all equal by chance at most once in 512 times


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong (`error`) or odd (`warning`) with a task."""

    level: Literal["error", "warning"]
    message: str


@dataclass(slots=True)
class Verdict:
    """The result of checking one task; `facts` are neither errors nor warnings, but worth reading."""

    task: str
    origin: str = ""  # file of the task
    findings: list[Finding] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """Number of findings that are errors."""
        return sum(finding.level == "error" for finding in self.findings)

    def error(self, message: object) -> None:
        """Add an error; splits that read the same rows have the same errors, which are added once."""
        if (finding := Finding("error", str(message))) not in self.findings:
            self.findings.append(finding)

    def warn(self, message: str) -> None:
        self.findings.append(Finding("warning", message))


def validate(task: TaskSpec, harness: Harness, num_fewshot: int = 0) -> Verdict:
    """Check one task. Every problem becomes a finding; none is raised.

    Args:
        task: task to check.
        harness: registries that provide the data.
        num_fewshot: number of solved examples that every test row should be able to get.
    """
    verdict = Verdict(task.name, task.origin)
    for problem in definition_problems(task, harness):
        verdict.error(problem)
    ways = prompted_routes(task, harness, verdict)
    for split in task.data or ("test",):
        survey_split(task, split, harness, ways if split == "test" else [], verdict)
    if "test" in task.data and not verdict.errors:
        for split in (split for split in LEARNT if split in task.data):
            compare_with_test(task, split, harness, num_fewshot, verdict)
    return verdict


def definition_problems(task: TaskSpec, harness: Harness) -> Iterator[FigevalError]:
    """Yield the errors in a task's definition: segmenters, metrics, settings, baselines, words of labels."""
    try:
        notion_of(task.segmenters.values())
    except FigevalError as error:
        yield error
        return  # everything that counts words would say so again
    for name in task.metrics:
        try:
            limits = harness.metrics.get(name, task.type).routes
            signatures(harness.metrics.applicable([name], task.type, min(limits, default="")), task)
        except FigevalError as error:
            yield error
    try:
        check_settings(task, harness)
    except FigevalError as error:
        yield error
    for name in task.baselines:
        try:
            harness.backends.registry.entry(name.partition(":")[0])  # a baseline is registered, never on the hub
            choose(task.type, open_model(harness.backends, name, {}).offers, harness.routes.with_parts(task.type))
        except FigevalError as error:
            yield TaskError(f"baseline {name!r}: {error}")
    words = Counter(word for label in task.labels for word in task.verbalizer.get(label, (label,)))
    for word, count in words.items():
        if count > 1:
            yield TaskError(f"verbalizer: {word!r} stands for {count} labels, so no answer could tell them apart")


@dataclass(frozen=True, slots=True)
class PromptedRoute:
    """A route that renders prompts, with the context for one of the task's prompts."""

    route: Route
    context: PromptContext
    prompt: str = ""  # name of the prompt; empty for the default one

    def __str__(self) -> str:
        return f"route {self.route.name}" + (f", prompt {self.prompt}" if self.prompt else "")


def prompted_routes(task: TaskSpec, harness: Harness, verdict: Verdict) -> list[PromptedRoute]:
    """Return every route that renders prompts, with every prompt of the task."""
    ways = list(routes_of_prompt(task, "", harness, verdict))
    for name in task.prompts:
        ways += routes_of_prompt(task.with_prompt(name), name, harness, verdict)
    return ways


def routes_of_prompt(task: TaskSpec, prompt: str, harness: Harness, verdict: Verdict) -> Iterator[PromptedRoute]:
    """Yield the routes with the task's template, or with that of its type for routes whose blocks it lacks."""
    routes = [route for route in harness.routes.of(task.type) if route.renders]
    if not routes:  # such a task type needs no template
        return
    try:
        task_template = template_file(task)
    except TaskError as error:
        verdict.error(f"{task.name}: {error}")
        return
    config = RunConfig(tasks=(task.name,), model="")
    for route in routes:
        try:
            template = template_of(task, route)
        except TaskError as error:
            verdict.warn(f"{error}; models with {' and '.join(sorted(route.needs))} cannot use {route.name}")
            continue
        for block in sorted(route.renders - task_template.blocks):
            standing_in = template.name if template is not None else ""
            verdict.facts.append(
                f"template {task_template.name} has no block {block!r}, so {route.name} uses {standing_in}"
            )
        context = context_of(task, route, template, Shots((), 0, 0), config)
        yield PromptedRoute(route, replace(context, metrics=frozenset(task.metrics)), prompt)


@dataclass(slots=True)
class Census:
    """Counts of the examples of one split."""

    task_type: TaskType[Any]
    n: int = 0
    ids: dict[str, tuple[int, str]] = field(default_factory=dict)  # id without width → row and id
    twins: list[str] = field(default_factory=list)  # what is wrong with each row that has the id of an earlier one
    answers: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    clusters: set[str] = field(default_factory=set)
    alone: int = 0  # number of examples without a cluster
    groups: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    unstored: bool = False  # True once the task type has failed to store an answer

    def count(self, example: Example) -> None:
        """Add one example."""
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
        """Return e.g. `test: 60 examples, 30 clusters; gold entailment ×30, non-entailment ×30`."""
        answers = sorted(self.answers.items(), key=lambda item: (len(item[0]), item[0]))  # option 2 before option 10
        shares = ", ".join(f"{value} ×{count}" for value, count in answers)
        clusters = f", {len(self.clusters) + self.alone} clusters" if self.clusters else ""
        clusters += f" ({self.alone} of them are rows without a cluster)" if self.clusters and self.alone else ""
        groups = f", {len(self.groups)} minimal groups" if self.groups else ""
        counts = ", ".join(f"{name} ×{count}" for name, count in self.languages.items())
        languages = f"; languages {counts}" if counts else ""
        return f"{split}: {self.n} examples{clusters}{groups}{languages}" + (f"; gold {shares}" if shares else "")


@dataclass(slots=True)
class Rows:
    """Number of rows, and the numbers of the first ones."""

    n: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        self.n += 1
        if len(self.first) < MOST_ALIKE:
            self.first.append(number)

    def of(self, source: str, total: int | None = None) -> str:
        """Return e.g. `row 3 of 'csv:x.csv'`, `all 9 rows of …` or `84 rows of … (first 1, 2, 3)`."""
        if self.n == 1:
            return f"row {self.first[0]} of {source}"
        if self.n == total:
            return f"all {self.n:,} rows of {source}"
        numbers = ", ".join(map(str, self.first))
        return f"{self.n:,} rows of {source} ({'' if self.n <= MOST_ALIKE else 'first '}{numbers})"


class WrongRows:
    """Errors of the rows of a split: rows with the same problem are one error, and each field has a few at most."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, Rows]] = {}  # field → problem → rows with it
        self._others: dict[str, Rows] = {}  # field → rows with further problems; empty for further fields

    def add(self, number: int, problem: str) -> None:
        """Add a row with its problem, which begins with the field: `, field 'gold': 9 is out of range …`."""
        location, _, _ = problem.partition(": ")
        if location not in self._fields and len(self._fields) == MOST_KINDS:
            self._others.setdefault("", Rows()).add(number)
            return
        problems = self._fields.setdefault(location, {})
        if problem not in problems and len(problems) == MOST_KINDS:
            self._others.setdefault(location, Rows()).add(number)
        else:
            problems.setdefault(problem, Rows()).add(number)

    def errors(self, source: str, total: int | None) -> Iterator[str]:
        """Yield the errors, the most frequent ones of a field first.

        Args:
            source: where the rows are from.
            total: number of rows, or None if not all were read.
        """
        for location, problems in self._fields.items():
            ranked = sorted(problems.items(), key=lambda item: -item[1].n)
            for problem, rows in ranked[:MOST_ALIKE]:
                yield f"{rows.of(source, total)}{problem}"
            further = [rows for _, rows in ranked[MOST_ALIKE:]]
            yield from self._further([*further, *filter(None, [self._others.get(location)])], source, location)
        yield from self._further([*filter(None, [self._others.get("")])], source, "")

    @staticmethod
    def _further(groups: Sequence[Rows], source: str, location: str) -> Iterator[str]:
        if groups:
            first = sorted(number for rows in groups for number in rows.first)[:MOST_ALIKE]
            rows = Rows(sum(rows.n for rows in groups), first)
            yield f"{rows.of(source)}{location}: further errors"


def survey_split(task: TaskSpec, split: str, harness: Harness, ways: list[PromptedRoute], verdict: Verdict) -> None:
    """Build, check and render every example of a split, and describe the split."""
    census = Census(task.task_type)
    odd: Counter[str] = Counter()
    ways = list(ways)
    checks = metric_checks(task, harness) if split == "test" else {}  # others are rarely scored
    for number, example in valid_examples(task, split, harness, verdict):
        census.count(example)
        twin = census.ids.setdefault(without_width(example.id), (number, example.id))
        if twin[0] != number:
            census.twins.append(repeated_id(twin, (number, example.id)))
        for oddity, location in task.task_type.oddities(example):
            odd[oddity] += 1
            if odd[oddity] <= MOST_ALIKE:
                verdict.warn(f"{task.name}, {split}: row {number}, id {example.id!r}: {location} {oddity}")
        render(task, number, example, ways, verdict)
        check_metrics(task, number, example, checks, verdict)
        store(task, split, number, example, census, verdict)
    verdict.findings.extend(totals(task, split, census, odd))
    if not census.n and not verdict.errors:
        verdict.error(f"{task.name}, {split}: there are no examples")
    if task.cluster and census.n and not census.clusters:
        verdict.warn(f"{task.name}, {split}: {task.cluster!r} is null in every row, so there are no clusters")
    if census.groups and max(census.groups.values()) == 1:
        verdict.warn(f"{task.name}, {split}: no two examples share a group, so there are no minimal pairs")
    verdict.findings.extend(one_sided(task, split, census))
    verdict.findings.extend(without_rows(task, split, census))
    verdict.facts.append(census.describe(split))


def compare_with_test(task: TaskSpec, split: str, harness: Harness, num_fewshot: int, verdict: Verdict) -> None:
    """Count the test rows that another split has as well and, for train, the solved examples that each row may get."""
    pool = list(harness.examples(task, split))
    leaks, solved = Leaks(pool), Leaks([example for example in pool if not example.hidden])
    room, repeats, n = Room(solved), list[str](), 0
    for example in harness.examples(task):
        n += 1
        room.add(example)
        if same := leaks.repeats(example):
            repeats.append(f"{example.id!r:.80} as {pool[min(same)].id!r:.80}")
    if repeats:
        shown = ", ".join(repeats[:MAX_NAMED_IDS]) + (", …" if len(repeats) > MAX_NAMED_IDS else "")
        are = "is" if len(repeats) == 1 else "are"
        problem = f"{len(repeats):,} of {n:,} test rows {are} in {split} too, apart from blanks, punctuation and case"
        verdict.warn(f"{task.name}, {split}: {problem} ({shown})")
    if split == "train" and solved.pool:
        count_solved(task, room, num_fewshot, verdict)


def count_solved(task: TaskSpec, room: Room, num_fewshot: int, verdict: Verdict) -> None:
    """Add how many solved examples all test rows may get, and a warning for rows that get fewer than wanted."""
    beyond, k = room.least + 1, max(num_fewshot, 1)
    share = f"{room.count_below(beyond):,} of {room.rows:,} test rows"
    verdict.facts.append(f"--num_fewshot {room.least} is possible; {beyond} is impossible for {share}")
    if rows := room.below(k):
        reason = "solved examples never ask the same as a row, nor are they from its cluster"
        verdict.warn(f"{task.name}, train: --num_fewshot {k} is impossible for {rows}; {reason}")


def totals(task: TaskSpec, split: str, census: Census, odd: Mapping[str, int]) -> Iterator[Finding]:
    """Yield errors for rows of one id, and the number of rows with a problem of which only the first few are named."""
    prefix = f"{task.name}, {split}"
    for problem in census.twins[:MOST_ALIKE]:
        yield Finding("error", f"{prefix}: {problem}")
    if (n := len(census.twins)) > MOST_ALIKE:
        yield Finding("error", f"{prefix}: … in total, {n:,} rows have the id of an earlier row")
    for oddity, count in odd.items():
        if count > MOST_ALIKE:
            yield Finding("warning", f"{prefix}: … in total, {count} rows have a text that {oddity}")


def without_rows(task: TaskSpec, split: str, census: Census) -> Iterator[Finding]:
    """Yield an error for a language without rows in the test split; train may well be in a single language."""
    try:
        check_languages(task, census.languages if split == "test" and census.n else task.languages)
    except DataError as error:
        yield Finding("error", str(error))


def store(task: TaskSpec, split: str, number: int, example: Example, census: Census, verdict: Verdict) -> None:
    """Store the gold answer as a prediction and read it back; if that fails, add an error once per split."""
    if not census.unstored and (problem := form_of_gold(task.task_type, example)):
        verdict.error(f"{task.name}, {split}: row {number}, id {example.id!r}: task type {task.type!r}: {problem}")
        census.unstored = True


def form_of_gold(task_type: TaskType[Any], example: Example) -> str:
    """Return the problem with the row of a prediction of the gold answer, or an empty text if it can be read back.

    The text is also empty if the gold value has not the form of a predicted answer (all right candidates, references).
    """
    value = getattr(example, task_type.gold_fields[0], None)
    try:
        is_answer = value is not None and task_type.to_json(value) == task_type.gold(example)
    except Exception:  # to_json is for predicted answers and need not accept e.g. several right ones
        return ""
    return form_problem(task_type, example, Prediction(example_id=example.id, value=value)) if is_answer else ""


def one_sided(task: TaskSpec, split: str, census: Census) -> Iterator[Finding]:
    """Yield findings about gold answers: all equal though undeclared, contrary to `only_label`, or hidden in test."""
    counts = {answer: count for answer, count in census.answers.items() if answer != HIDDEN}
    total, declared = sum(counts.values()), task.only_label
    if declared is not None and split == "test" and (differences := total - counts.get(declared, 0)):
        problem = f"{differences:,} of {total:,} gold labels differ from only_label: {declared}"
        yield Finding("error", f"{task.name}, {split}: {problem}; correct the rows, or remove the key")
    if declared is None and len(counts) == 1 and total >= FEWEST_EQUAL and all(map(task.task_type.is_constant, counts)):
        cure = "; if that is intended, declare `only_label`" if task.labels else ""
        if task.task_type.options and task.shuffle_options is None:
            cure = "; `shuffle_options: true` changes the order of the options"
        equal = f"all {total:,} gold answers are {next(iter(counts))!r}, so a constant answer is always right{cure}"
        yield Finding("warning", f"{task.name}, {split}: {equal}")
    if census.hidden and split == "test":
        gone = f"{census.hidden:,} of {census.n:,} gold answers are hidden (null) and will not be scored"
        yield Finding("warning", f"{task.name}, {split}: {gone}")


def valid_examples(task: TaskSpec, split: str, harness: Harness, verdict: Verdict) -> Iterator[tuple[int, Example]]:
    """Yield (row number, example) for every valid row; a broken file ends the loop.

    The errors of wrong rows are added at the end, equal ones as one error.
    """
    wrong, number, complete = WrongRows(), 0, False
    try:
        if task.examples is not None:
            yield from enumerate(build_examples(task, ()), start=1)
            return
        build = row_builder(task, split, harness.corpus_reader(task))
        for number, row in enumerate(harness.rows(task, split), start=1):
            try:
                example = build(number, row)
            except RowError as error:
                wrong.add(number, error.problem)
            else:
                yield number, example
        complete = True
    except FigevalError as error:
        verdict.error(error)
    for message in wrong.errors(repr(task.data[split]), number if complete else None):
        verdict.error(f"{task.name}: {message}")


def metric_checks(task: TaskSpec, harness: Harness) -> dict[str, Callable[[Any], None]]:
    """Return the checks of examples by the task's metrics, by name; metrics that need a model are left out."""
    checks = {}
    for name in task.metrics:
        with suppress(FigevalError):  # of which the definition has an error already
            metric = harness.metrics.get(name, task.type)
            if not metric.argument and (check := statistic_of(metric, task.labels).check) is not None:
                checks[name] = check
    return checks


def check_metrics(
    task: TaskSpec, number: int, example: Example, checks: dict[str, Callable[[Any], None]], verdict: Verdict
) -> None:
    """Have metrics check an example. An error is reported once, then the metrics with it are removed from `checks`."""
    for name, check in list(checks.items()):
        try:
            check(example)
        except FigevalError as error:
            verdict.error(f"{task.name}: row {number}: {error}")
            del checks[name]


def render(task: TaskSpec, number: int, example: Example, ways: list[PromptedRoute], verdict: Verdict) -> None:
    """Make the first requests of every route and prompt; one that fails is reported once, then removed from `ways`."""
    for way in list(ways):
        try:
            next(way.route.begin(example, way.context))
        except (TaskError, CapabilityError) as error:
            note = verdict.error if isinstance(error, TaskError) else verdict.warn  # another route may work
            note(f"{task.name}: row {number}, id {example.id!r}, {way}: {error}")
            ways.remove(way)
