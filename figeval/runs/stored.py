"""Stored runs: queries on their predictions, and their answers as exporters and other readers get them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from figeval.config import RunConfig
from figeval.data.readers import fetch, first_request
from figeval.data.sources import Sources, catalogue
from figeval.errors import FigevalError, RecordError, UnknownName
from figeval.io.text import near, one_line
from figeval.metrics.catalogue import Metrics, statistic_of
from figeval.metrics.intervals import Bounds
from figeval.metrics.statistic import Statistic
from figeval.plugins import PluginManager
from figeval.records.conditions import OF_ALL
from figeval.records.predictions import PredictionRow, sample_rows
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import CHOSEN_ON_TEST, BreakdownRecord, RunRecord, TaskRecord
from figeval.records.sweep import run_or_mean
from figeval.registry import Registry
from figeval.runs.harness import Harness
from figeval.runs.score import MetricSet, TaskScorer
from figeval.runs.selection_bias import without_intervals
from figeval.runs.variants import ALL_PROMPTS, Variant, variants
from figeval.spec import TaskSpec
from figeval.spec.survey import survey
from figeval.types import WITHOUT_REPLY, Example, Span

Features: TypeAlias = "list[float] | None"
Values: TypeAlias = Mapping[str, tuple[float | None, str | None]]  # example id → (value, cluster)


def stored_metrics(folder: RunFolder, task: str) -> dict[str, bool]:
    """Return metric → whether it is a mean over examples, for the metrics stored in the rows of a task."""
    is_mean: dict[str, bool] = {}
    for row in folder.rows(task):
        for name, value in row["metrics"].items():
            is_mean[name] = not isinstance(value, list)
    return is_mean


def stored_values(folder: RunFolder, task: str, metric: str, unseen_only: bool = False) -> Values:
    """Return the value of a metric for every example, which is None if the model gave no valid answer.

    `unseen_only` leaves out the examples that the model was trained or chosen on. The result is empty if no example has
    the metric, or if it is not a mean over examples (e.g. macro-F1).

    Only answers in words have a metric `acc_of_all`, in which no answer is a wrong one. For other runs, it is made from
    `acc`, so that both can be compared.
    """
    values: dict[str, tuple[float | None, str | None]] = {}
    plain = metric.removesuffix(OF_ALL)
    is_derived = plain != metric and not any(metric in row["metrics"] for row in folder.rows(task))
    is_derived = is_derived and any(plain in row["metrics"] for row in folder.rows(task))
    for row in folder.rows(task):
        value = row["metrics"].get(plain if is_derived else metric)
        if isinstance(value, list):
            return {}
        if is_derived and row["status"] not in ("ok", *WITHOUT_REPLY) and row["gold"] is not None:
            value = 0.0
        if unseen_only and row.get("seen"):
            continue
        values[row["id"]] = (value, row["cluster"])
    return values if any(value is not None for value, _ in values.values()) else {}


def stored_features(folder: RunFolder, task: str, metric: str) -> Mapping[str, tuple[Features, str | None]]:
    """Return the numbers of a metric for every example, whose sums give the score, and the example's cluster.

    They are None if the metric does not apply to the model's answer. The result is empty if no example has the metric,
    or if it is a mean, for which there is `stored_values`.
    """
    features: dict[str, tuple[Features, str | None]] = {}
    for row in folder.rows(task):
        value = row["metrics"].get(metric)
        if value is not None and not isinstance(value, list):
            return {}
        features[row["id"]] = (value, row["cluster"])
    return features if any(value is not None for value, _ in features.values()) else {}


def pooled_features(
    folder: RunFolder, task: TaskRecord, metric: str, metrics: Metrics, ids: Collection[str]
) -> dict[str, Features]:
    """Return the numbers of a metric that depends on all rows, as they are if a task has only the rows with these ids.

    Raises:
        UnknownName: the metric is not installed.
    """
    metric_set = MetricSet([metrics.get(metric, task.task_type)], _labels(task))
    rows = metric_set.related([row for row in folder.rows(task.task) if row["id"] in ids], task.settings, pooled=True)
    values = ((row["id"], row["metrics"].get(metric)) for row in rows)
    return {example: value if isinstance(value, list) else None for example, value in values}


def stored_statistic(task: TaskRecord, metric: str, metrics: Metrics) -> Statistic:
    """Return the statistic that a metric computes for a recorded task. Raises `UnknownName` if it is not installed."""
    return statistic_of(metrics.get(metric, task.task_type), _labels(task))


def _labels(task: TaskRecord) -> tuple[str, ...]:
    return tuple(task.settings.get("labels", ()))


def declared_bounds(task: TaskRecord, metric: str, metrics: Metrics) -> Bounds:
    """Return the bounds that a metric declares for its values; 0 and 1, as of a share, if it is not installed."""
    try:
        return stored_statistic(task, metric, metrics).bounds
    except FigevalError:
        return (0.0, 1.0)


def stored_languages(folder: RunFolder, task: TaskRecord) -> dict[str, dict[str, None]]:
    """Return the ids of a multilingual task's examples by language; empty for other tasks.

    Raises:
        RecordError: a row is in none of the languages that the record lists.
    """
    ids: dict[str, dict[str, None]] = {language: {} for language in task.settings.get("languages", ())}
    for row in folder.rows(task.task) if ids else ():
        language = row.get("language")
        if language not in ids:
            problem = f"is in {language!r}" if language else "has no language"
            raise RecordError(
                f"{folder.path}: example {row['id']!r} of {task.task} {problem}, and `languages` in run.json lists "
                f"{', '.join(ids)}; restore run.json, or run the task again"
            )
        ids[language][row["id"]] = None
    return ids


def seen_ids(folder: RunFolder, task: str) -> set[str]:
    """Return the ids of the examples of a task that the model was trained or chosen on."""
    return {row["id"] for row in folder.rows(task) if row.get("seen")}


def with_breakdown(path: Path, key: str, metrics: Metrics) -> RunRecord:
    """Return the record of a run with scores per value of a meta column, computed from the stored predictions.

    Raises:
        RecordError: there is no run, or none of its tasks has the column.
        UnknownName: a metric that the run was scored with is not installed.
    """
    record, folder = read_run(path)
    seed = int(record.config.get("seed", 0))
    for task in record.tasks:
        breakdown = break_down(task, partial(folder.rows, task.task), key, metrics, seed)
        task.breakdowns = [breakdown] if breakdown.groups else []
    record.digests = {}  # those of the stored record, which this one no longer is
    if not any(task.breakdowns for task in record.tasks):
        columns = {name for task in record.tasks for row in folder.rows(task.task) for name in row["meta"]}
        has = ", ".join(sorted(columns)) or "no meta columns"
        raise RecordError(f"--by {key}: no prediction of {path} has it{near(key, columns)}; they have {has}")
    return record


def break_down(
    task: TaskRecord, rows: Callable[[], Iterable[PredictionRow]], key: str, metrics: Metrics, seed: int
) -> BreakdownRecord:
    """Return the scores of a task per value of a meta column of its rows, which `rows` returns each time.

    They have no intervals where the model was chosen on the test split.

    Raises:
        UnknownName: a metric that the run was scored with is not installed.
    """
    scorer = TaskScorer(metrics=metrics_in(task, rows(), metrics), strict=False, seed=seed, settings=task.settings)
    breakdown = scorer.breakdown(key, rows)
    if any(score.interval.reason == CHOSEN_ON_TEST for score in task.scores):
        without_intervals(task.model_copy(update={"breakdowns": [breakdown]}))
    return breakdown


def metrics_in(task: TaskRecord, rows: Iterable[PredictionRow], metrics: Metrics) -> MetricSet:
    """Return the metrics that the record of a task and its rows name. Raises `UnknownName` if one is not installed."""
    scored = [score.metric for score in task.scores if score.metric in metrics]
    names = dict.fromkeys((*scored, *(name for row in rows for name in row["metrics"])))
    return MetricSet([metrics.get(name, task.task_type) for name in names], _labels(task))


NONCOMMERCIAL = re.compile(r"\bNC\b|\bnon-?commercial|excludes commercial", re.IGNORECASE)
HIDDEN_FIELDS = {"prompted", "texts"}  # not facts about the example


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A model's answer to one example, as exporters get it.

    Attributes:
        row: the line of the predictions file, without texts of the benchmark.
        input: the text that is asked about; empty unless the user asked for texts, like `options` and `fields`.
        options: the texts to choose from, if the task type has some.
        reference: the right answers: texts if the user asked for them, otherwise labels, indexes or spans.
        answer: the model's answer in the same form, or what it wrote; empty if it gave none.
        fields: all fields of the example by name, as JSON values; spans are [start, end].
        samples: each sample as an answer of its own, if the model was asked for several; `row` is then that of the most
            frequent one, with means of the metrics.
    """

    row: PredictionRow
    input: str = ""
    options: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    answer: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[StoredAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run with its answers, as exporters get it.

    Attributes:
        record: the content of `run.json`.
        folder: the folder of the run.
        harness: the installed tasks, from which the examples' texts are read.
        has_texts: True if the user asked for these texts.
    """

    record: RunRecord
    folder: RunFolder
    harness: Harness = field(default_factory=Harness)
    has_texts: bool = False

    def homepage(self, task: TaskRecord) -> str:
        """Return the address of the benchmark that a task belongs to, or an empty text if that is unknown."""
        spec = installed_task(task.of or task.task, self.harness)
        sources = None if spec is None else sources_of(spec, self.harness)
        return "" if sources is None else sources.homepage

    def benchmarks(self) -> dict[str, str]:
        """Return the plugin of each installed task, such as `epic`, by the name of the task."""
        return {entry.name: entry.owner.rpartition(".")[2] for entry in self.harness.catalogue.tasks}

    def answers(self, task: TaskRecord) -> Iterator[StoredAnswer]:
        """Yield the answers to a task in the order of its examples; there are none for a mean over seeds.

        Raises:
            RecordError: the predictions or the examples have changed since the run.
            FigevalError: the licence of the data does not permit every use, and the user did not confirm theirs.
        """
        if not task.predictions:
            return
        self.folder.check(task)
        examples = self._examples(task)
        for stored in self.folder.rows(task.task):
            row: Any = {name: value for name, value in stored.items() if name != "texts"}
            if examples is not None and row["id"] not in examples:
                raise RecordError(f"there is no example {one_line(row['id'], 80)!r} in {task.task}; run the task again")
            example = None if examples is None else examples[row["id"]]
            samples = sample_rows(row) if "samples" in row else ()
            yield replace(_answer(row, example), samples=tuple(_answer(sample, example) for sample in samples))

    def _examples(self, task: TaskRecord) -> dict[str, Example] | None:
        if not self.has_texts:
            return None
        seed = int(self.record.config.get("seed", 0))
        return {example.id: example for example in recorded_variant(task, seed, self.harness).examples()}


def installed_task(name: str, harness: Harness) -> TaskSpec | None:
    """Return the task of this name, or None if it is not installed, or damaged."""
    try:
        return harness.catalogue.tasks.get(name)
    except FigevalError:
        return None


def sources_of(task: TaskSpec, harness: Harness) -> Sources | None:
    """Return the sources of the benchmark that a task's test rows are from; None if they are not known."""
    try:
        requested = first_request(task.data["test"], task.folder or files("figeval"), harness.readers)
        return catalogue().get(requested[0]) if requested else None
    except Exception:  # rows written in Python, of a data set of the hub, or a plugin's reader that fails
        return None


def _field_names(example: Example) -> list[str]:
    return [column.name for column in fields(example) if column.name not in HIDDEN_FIELDS]


def _answer(row: PredictionRow, example: Example | None) -> StoredAnswer:
    if example is not None:
        return _with_texts(row, example)
    reference = tuple(map(_show_value, _right_answers(row)))
    return StoredAnswer(row=row, reference=reference, answer=_show_value(row["pred"]))


def _with_texts(row: PredictionRow, example: Example) -> StoredAnswer:
    """Return an answer whose indexes and spans are replaced by the texts that they stand for."""
    values = {name: getattr(example, name) for name in _field_names(example)}
    options: tuple[str, ...] = next(
        (tuple(values[name]) for name in ("options", "candidates", "anchors") if values.get(name)), ()
    )
    text = example.asked[0] if example.asked else ""

    def text_of(value: Any) -> str:
        if isinstance(value, int) and 0 <= value < len(options):
            return options[value]
        if isinstance(value, list) and len(value) == 2 and all(isinstance(offset, int) for offset in value):
            return text[value[0] : value[1]]
        return _show_value(value)

    reference = tuple(values.get("references") or map(text_of, _right_answers(row)))
    return StoredAnswer(
        row=row,
        input="\n".join(_question_texts(example, values)),
        options=options,
        reference=reference,
        answer=text_of(row["pred"]),
        fields={name: _plain(value) for name, value in values.items()},
    )


def _question_texts(example: Example, values: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts that are asked about; for generation, the inputs instead of the reference."""
    if "inputs" not in values:
        return example.asked
    inputs = ((name, text if isinstance(text, str) else ", ".join(text)) for name, text in values["inputs"].items())
    return [f"{name}: {text}" for name, text in inputs]


def _plain(value: Any) -> Any:
    if isinstance(value, Span):
        return [value.start, value.end]
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    if isinstance(value, Example):
        return {name: _plain(getattr(value, name)) for name in _field_names(value)}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _show_value(value: Any) -> str:
    return "" if value is None else str(value)


def _right_answers(row: PredictionRow) -> list[Any]:
    """Return the right answers of a row: several candidates of a ranking, otherwise one value or none."""
    gold: Any = row["gold"]
    if "relevant_scores" in row and isinstance(gold, list):
        return gold
    return [] if gold is None or gold == [] else [gold]


# ---- the examples of recorded tasks ---------------------------------------------------------------------------------


def recorded_variant(task: TaskRecord, seed: int, harness: Harness) -> Variant:
    """Return the current variant of a recorded task.

    Raises:
        RecordError: the prompt no longer exists, or the examples have changed.
        UnknownName: the task is not installed.
    """
    variant = _current_variant(task, seed, harness)
    _refuse_changed(task, variant.examples, variant.task)
    return variant


def recorded_examples(task: TaskRecord, seed: int, harness: Harness) -> tuple[Variant, list[Example]]:
    """Return the current variant of a recorded task and its examples, which are read once; see `recorded_variant`."""
    variant = _current_variant(task, seed, harness)
    examples = list(variant.examples())
    _refuse_changed(task, lambda: examples, variant.task)
    return variant, examples


def _current_variant(task: TaskRecord, seed: int, harness: Harness) -> Variant:
    name, catalogue = task.of or task.task, harness.catalogue
    if name not in catalogue.tasks and name not in catalogue.broken:  # of a file that the run was given
        cure = "give its file or folder with --include_path"
        raise UnknownName(
            "task", name, [entry.name for entry in catalogue.tasks], see=catalogue.tasks.see, or_else=cure
        )
    (spec,) = catalogue.expand([name])
    config = RunConfig(tasks=(name,), model="", seed=seed, prompts=(ALL_PROMPTS,), probes=task.kind == "probe")
    variant = next((variant for variant in variants(spec, config, harness) if variant.full_name == task.task), None)
    if variant is None:
        gone = f"{name} has no prompt {task.variant!r} any more"
        raise RecordError(f"{gone}, so the replies of {task.task} cannot be read again")
    return variant


def _refuse_changed(task: TaskRecord, examples: Callable[[], Iterable[Example]], spec: TaskSpec) -> None:
    if survey(task.task, examples, annotations=spec.annotations).sha256 != task.examples_sha256:
        raise RecordError(f"examples of {task.task} changed since this run was made; run it again")


# ---- export formats --------------------------------------------------------------------------------------------------

Exporter: TypeAlias = Callable[..., Any]  # checked when it is called (figeval.wings.exporters.api)


def load_exporters(manager: PluginManager) -> Registry[Exporter]:
    """Return the exporters of all plugins, by format."""
    return Registry.collect(manager, "register_exporters", "format", "figeval export --help")


# ---- from paths to files --------------------------------------------------------------------------------------------


def stored_runs(
    paths: Sequence[Path], include: tuple[Path, ...] = (), *, texts: bool = False, noncommercial: bool = False
) -> list[StoredRun]:
    """Return the runs in these folders, with means for folders of several seeds.

    Args:
        paths: run folders.
        include: further folders with task files.
        texts: whether exporters get the texts of the examples.
        noncommercial: whether these may be texts under a licence for non-commercial use.

    Raises:
        RecordError: there is no run.
    """
    harness = Harness(include=include, fetch=fetch if noncommercial else _fetch_unless_noncommercial)
    records = [(run_or_mean(path), path if path.is_dir() else path.parent) for path in paths]
    return [StoredRun(record, RunFolder(folder), harness, texts) for record, folder in records]


def _fetch_unless_noncommercial(benchmark: str, path: str) -> Path:
    licence = _noncommercial(benchmark, path)
    if licence:
        raise FigevalError(
            f"the texts of {benchmark} are not exported, because their licence restricts commercial use: "
            f"{one_line(licence, 200)}; add --allow_noncommercial if your use is permitted, or leave out --include_text"
        )
    return fetch(benchmark, path)


def _noncommercial(benchmark: str, path: str) -> str:
    """Return the words that restrict the use of a file to non-commercial purposes, or an empty text.

    A clause of the note that names folders of the benchmark is about these only.
    """
    sources = catalogue().get(benchmark)
    if NONCOMMERCIAL.search(sources.licence):
        return sources.licence
    folders = {file.path.partition("/")[0] for file in sources.files if "/" in file.path}
    for clause in re.split(r"[;.]\s+", sources.note):
        clause_folders = folders & set(re.findall(r"[\w-]+", clause))
        if NONCOMMERCIAL.search(clause) and (not clause_folders or path.partition("/")[0] in clause_folders):
            return clause
    return ""
