"""The conditions under which a run asked its tasks, as tables, comparisons and exports print them.

Two runs of one model may differ in nothing but a condition: the examples that were retrieved and added to the input,
the solved examples before a question, the system message, the orders of the options, the number of samples,
reasoning, answers held to a format, or calibration. Prompts and probes are not conditions: they are tasks of their own,
with names of their own.

Nor is the share of answered examples one, which tables and comparisons have to heed as well: a model that answers only
what it is sure of would otherwise be judged by these answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from figeval.config import complete
from figeval.io.text import one_line
from figeval.records.schema import (
    UNEQUAL_ANSWERS,
    BaselineRecord,
    RunRecord,
    ScoreRecord,
    TaskRecord,
    baseline_scores,
)
from figeval.types import Status

PORTION = ("limit", "sample", "stratify")  # flags that select examples
OF_ALL = "_of_all"  # ends the name of a metric that counts examples without an answer as wrong
UNANSWERED = tuple(status for status in get_args(Status) if status != "ok")


@dataclass(frozen=True, slots=True)
class Condition:
    """One setting that a run changed for a task.

    Attributes:
        label: one or two words that follow the name of the model, e.g. `concepts`.
        detail: what distinguishes it from another condition with the same label, e.g. `k=3, minilm`.
        note: full description, for the lines below a table.
    """

    label: str
    detail: str
    note: str


def conditions(task: TaskRecord) -> list[Condition]:
    """Return the conditions of a task; the list is empty if the task was asked unchanged."""
    settings = task.settings
    task_conditions = []
    if added := settings.get("augment"):
        task_conditions.append(_augmentation(added))
    if k := settings.get("num_fewshot"):
        task_conditions.append(_shots(k, settings))
    if system := settings.get("system_instruction"):
        excerpt = one_line(system, 60)
        turn = " in the user's first turn" if settings.get("system_as_user") else ""
        note = f"asked with the system message {excerpt!r}{turn}"
        task_conditions.append(Condition("system message", f"{excerpt}{turn}", note))
    if orders := settings.get("orders"):
        orders = one_line(orders)
        task_conditions.append(Condition("orders", orders, f"asked with the options in several orders ({orders})"))
    if (samples := settings.get("samples", 1)) > 1:
        note = f"asked for {samples} samples of each answer, over which scores are means"
        task_conditions.append(Condition("samples", str(samples), note))
    if thinking := settings.get("reasoning"):
        task_conditions.append(_reasoning(one_line(thinking)))
    if settings.get("constrain"):
        task_conditions.append(Condition("constrained", "acceptable answers", "constrained to acceptable answers"))
    if texts := settings.get("calibration"):
        free = ", ".join(repr(one_line(text, 20)) for text in texts)
        task_conditions.append(Condition("calibrated", free, f"calibrated with content-free inputs ({free})"))
    return task_conditions


def describe_conditions(task: TaskRecord) -> str:
    """Return the conditions of a task in one line, or an empty string if it was asked unchanged."""
    return "; ".join(condition.note for condition in conditions(task))


def _augmentation(settings: dict[str, Any]) -> Condition:
    add, split = (one_line(settings.get(key, "")) for key in ("add", "from"))
    retriever = _retriever(settings)
    k = settings.get("k", 1)
    detail = f"k={k}, {retriever}" if split in {"", "train"} else f"k={k} from {split}, {retriever}"
    whose = "training" if split in {"", "train"} else split
    is_single = k == 1
    nearest = f"the nearest {whose} example" if is_single else f"the {k} nearest {whose} examples"
    addition = {"neighbours": nearest, "outline": f"outline{'s' * (not is_single)} of {nearest}"}.get(
        add, f"{add} of {nearest}"
    )
    return Condition(add, detail, f"augmented: {addition} ({retriever})")


def _retriever(settings: dict[str, Any]) -> str:
    """Return the retriever with its options: `minilm`, `bert-base-uncased, pooling=mean`."""
    options = settings.get("options")
    shown = sorted(options.items()) if isinstance(options, dict) else ()
    return one_line(", ".join([settings.get("retriever", ""), *(f"{name}={value}" for name, value in shown)]))


def _reasoning(thinking: str) -> Condition:
    if thinking == "off":
        return Condition("no reasoning", thinking, "asked to answer without reasoning")
    return Condition("reasoning", thinking, f"asked with reasoning ({thinking})")


def _shots(k: int, settings: Mapping[str, Any]) -> Condition:
    nearest, shots = settings.get("fewshot_sampler"), settings.get("shots")
    if isinstance(nearest, dict):
        retriever = _retriever(nearest)
        selection, detail = f"nearest to the question ({retriever})", retriever
    else:
        selection, detail = (
            "in one order for all questions" if shots == "shared" else "drawn for each question",
            "random",
        )
    label, examples = f"{k}-shot", "training example" if k == 1 else "training examples"
    detail, source = shots or detail, settings.get("fewshot_from")
    if isinstance(source, dict):
        task, labels = one_line(source.get("task", "")), source.get("labels") or {}
        renamed = one_line(", ".join(f"{old} as {new}" for old, new in labels.items() if old != new))
        examples += f" of {task} ({renamed})" if renamed else f" of {task}"
        detail = f"{detail} from {task}"
    return Condition(f"{label} nearest" if nearest else label, detail, f"{label}: {examples} {selection}")


def notes(run: RunRecord) -> Iterator[str]:
    """Yield one line per condition of a run, with the task names if the condition does not hold for all tasks."""
    tasks = [task for task in run.tasks if task.kind == "task"]
    tasks_by_note: dict[str, list[str]] = {}
    for task in tasks:
        for condition in conditions(task):
            tasks_by_note.setdefault(condition.note, []).append(task.task)
    for note, names in tasks_by_note.items():
        yield note if len(names) == len(tasks) else f"{note} ({', '.join(names)})"


def portion(config: Mapping[str, Any]) -> str:
    """Return the flags that select examples, e.g. `--sample 50 --stratify cluster`; empty if all are used."""
    flags = {flag: config.get(flag) for flag in PORTION}
    return one_line(" ".join(f"--{flag} {value}" for flag, value in flags.items() if value))


def partial(run: RunRecord) -> Iterator[str]:
    """Yield a sentence about the examples if the run did not use all, e.g. `--limit 5: the first examples of …`."""
    tasks = [task for task in run.tasks if task.kind == "task"]
    n_partial = sum(task.n < task.available for task in tasks)
    of = "examples" if len(tasks) == 1 else f"examples of {n_partial} of {len(tasks)} tasks"
    flags = portion(run.config) or "part of the data"
    if any(task.sample_sha256 for task in tasks):
        yield f"{flags}: random {of}, seed {run.config.get('seed', 0)}"
    elif any(task.n < task.available for task in tasks):
        yield f"{flags}: the first {of}, not a random sample"


def portion_of(run: RunRecord, task: TaskRecord) -> str:
    """Return a phrase about the examples of a task if the run did not use all of them, else an empty string."""
    if task.n >= task.available:
        return ""
    flags = portion(run.config)
    used = f"{task.n} of {task.available} examples{f' ({flags})' if flags else ''}"
    return f"{used}, drawn at random" if task.sample_sha256 else f"{used}: the first ones, not a random sample"


def unanswered_notes(run: RunRecord) -> Iterator[str]:
    """Yield a sentence about the examples of a task or a contrast that have no answer, and what leaves them out."""
    yield from incomplete(run)
    for contrast in run.contrasts:
        if contrast.unanswered:
            yield f"{contrast.name}: {contrast.unanswered} examples have no answer and are left out"


def incomplete(run: RunRecord) -> Iterator[str]:
    """Yield a sentence about the examples of a task that have no answer, with the metrics that leave them out.

    It also says between which values the accuracy of all examples lies, since an answer that is unknown may be right.
    """
    for task in run.tasks_with_rows():
        for part, scores, trivial in task.parts_after_all():
            name = f"{task.task} ({part})" if part else task.task
            metrics_by_gap: dict[str, list[str]] = {}
            for score in scores:
                if score.value is not None and (gap := without_answer(task, score, trivial)):
                    metrics_by_gap.setdefault(gap, []).append(score.metric)
            for gap, metrics in metrics_by_gap.items():
                limits = (_limits(score, scores) for score in scores if score.metric in metrics)
                yield "; ".join((f"{name}: {gap} ({', '.join(metrics)})", *filter(None, limits)))


def _limits(score: ScoreRecord, scores: Sequence[ScoreRecord]) -> str:
    """Return between which values a share of right answers would be if all examples had one; empty if unknown.

    The lower limit is the counterpart that counts missing answers as wrong. Both must be means over examples.
    """
    of_all = next((counterpart for counterpart in scores if counterpart.metric == f"{score.metric}{OF_ALL}"), None)
    if of_all is None or of_all.value is None or score.value is None or not score.n < of_all.n:
        return ""
    if not math.isclose(of_all.value * of_all.n, score.value * score.n, abs_tol=1e-6):
        return ""
    highest = of_all.value + (of_all.n - score.n) / of_all.n
    return f"if all {of_all.n} had one, {score.metric} would be between {of_all.value:.4f} and {highest:.4f}"


def without_answer(task: TaskRecord, score: ScoreRecord, trivial: Sequence[BaselineRecord]) -> str:
    """Return a phrase about the examples that a score leaves out because they have no answer, else an empty string."""
    full = if_answered(task, score, trivial)
    if score.interval.reason == UNEQUAL_ANSWERS:
        fewest = f", one of them only {score.n} of {full}" if score.n < full else ""
        return f"the seeds answered different examples{fewest}"
    return f"only {score.n} of {full} examples have an answer" if score.n < full else ""


def if_answered(task: TaskRecord, score: ScoreRecord, trivial: Sequence[BaselineRecord]) -> int:
    """Return on how many examples a score would rest if all had an answer.

    A metric need not count all examples (`acc_strict` counts pairs), but trivial models answer all that it counts. If
    none has the metric, only unanswered examples explain that the score rests on fewer than were asked.
    """
    counts = [baseline.n for baseline in baseline_scores(trivial, score.metric).values()]
    scored = task.n - task.hidden
    if not counts and score.n == scored - sum(task.counts.get(status, 0) for status in UNANSWERED):
        counts = [scored]
    return max(score.n, min(task.n, max(counts, default=0)))


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """Return each run's model name with what distinguishes the run, e.g. `minilm + concepts (seed=1)`.

    The name is followed by the conditions that not all runs share, and in parentheses by the flags in which runs of
    the same model differ. Runs whose labels would still be equal get the details of their conditions. Labels remain
    equal if the runs differ in something else, e.g. in their tasks.
    """
    by_run = [dict.fromkeys(condition for task in run.tasks for condition in conditions(task)) for run in runs]
    distinctive = [
        [condition for condition in held if not all(condition in other for other in by_run)] for held in by_run
    ]
    names, flags = [run.model.name for run in runs], [_flags(run) for run in runs]
    differing = []
    for name, run_flags in zip(names, flags, strict=True):
        namesakes = [other_flags for other, other_flags in zip(names, flags, strict=True) if other == name]
        changed = {
            flag: value
            for flag, value in run_flags.items()
            if any(other_flags.get(flag) != value for other_flags in namesakes)
        }
        differing.append(", ".join(f"{flag}={one_line(value, 40)}" for flag, value in changed.items()))

    def label(run_index: int, parts: Iterable[str]) -> str:
        flags_label = f" ({differing[run_index]})" if differing[run_index] else ""
        return " + ".join((names[run_index], *parts)) + flags_label

    plain = [label(index, (condition.label for condition in held)) for index, held in enumerate(distinctive)]
    times = Counter(plain)
    return [
        text
        if times[text] == 1
        else label(index, (f"{condition.label} ({condition.detail})" for condition in distinctive[index]))
        for index, text in enumerate(plain)
    ]


def _flags(run: RunRecord) -> dict[str, str]:
    """Return the flags that change answers and are not a condition, as typed; without those that have their default."""
    config = complete(run.config)
    flags = {**run.model.options, **(config["routes"] or {}), **config["settings"]}
    flags |= {flag: config[flag] for flag in ("max_new_tokens", *PORTION)}
    if (is_on := config["apply_chat_template"]) is not None:
        flags["chat_template"] = "yes" if is_on else "no"
    flags |= {"seed": config["seed"]} if config["seed"] != 0 else {}
    return {flag: str(value) for flag, value in flags.items() if value not in (None, "")}


# ---- scores on all examples, which come before those that leave examples without an answer out ----------------------


def with_scores_of_all(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return runs in which the scores of all examples come first on the tasks that one of them answered only in part.

    A run that answered all examples of such a task gets the same scores by their other names: of `acc`, `acc_of_all`.
    """
    metrics: dict[str, set[str]] = {}
    for task in (task for run in runs for task in run.tasks):
        metrics.setdefault(task.task, set()).update(incomplete_metrics(task))
    return [
        run.model_copy(update={"tasks": [_with_scores_of_all(task, metrics[task.task]) for task in run.tasks]})
        if any(metrics[task.task] for task in run.tasks)
        else run
        for run in runs
    ]


def task_with_scores_of_all(task: TaskRecord) -> TaskRecord:
    """Return the record of a task in which the scores of all examples come first if some have no answer."""
    return _with_scores_of_all(task, incomplete_metrics(task))


def incomplete_metrics(task: TaskRecord) -> frozenset[str]:
    """Return the metrics whose scores leave examples without an answer out, and which have a score of all examples."""
    names = {score.metric for score in task.scores}
    return frozenset(
        score.metric
        for score in task.scores
        if f"{score.metric}{OF_ALL}" in names and score.n < if_answered(task, score, task.baselines)
    )


def default_metric(runs: Iterable[RunRecord], metric: str = "acc") -> str:
    """Return a metric, or the one of all examples if one of the runs left examples of a task without an answer."""
    tasks = (task for run in runs for task in run.tasks if task.kind != "probe")
    return f"{metric}{OF_ALL}" if any(metric in incomplete_metrics(task) for task in tasks) else metric


def _with_scores_of_all(task: TaskRecord, metrics: Collection[str]) -> TaskRecord:
    if not metrics:
        return task
    complete = {score.metric for score in task.scores if score.n == if_answered(task, score, task.baselines)}

    def reorder(part: Any) -> Any:
        """Return a task or a part of it; trivial models answer all examples."""
        baselines = [
            baseline.model_copy(update={"scores": [*_scores_of_all_first(baseline.scores, metrics, metrics)]})
            for baseline in part.baselines
        ]
        scores = [*_scores_of_all_first(part.scores, metrics, complete)]
        return part.model_copy(update={"scores": scores, "baselines": baselines})

    overlap = None if task.overlap is None else reorder(task.overlap)
    languages = [*map(reorder, task.languages)]
    copy: TaskRecord = reorder(task).model_copy(update={"languages": languages, "overlap": overlap})
    return copy


def _scores_of_all_first(
    scores: Sequence[ScoreRecord], metrics: Collection[str], derived: Collection[str]
) -> Iterator[ScoreRecord]:
    """Yield scores, before each by one of the metrics that of all examples.

    Where there is none, a score by one of the metrics `derived` rests on all examples, and is repeated by that name.
    """
    by_metric = {score.metric: score for score in scores}
    moved = {f"{metric}{OF_ALL}" for metric in metrics if metric in by_metric}
    for score in scores:
        name = f"{score.metric}{OF_ALL}"
        if name in moved:
            if name in by_metric:
                yield by_metric[name]
            elif score.metric in derived:
                yield score.model_copy(update={"metric": name})
        if score.metric not in moved:
            yield score
