"""A table with models as columns: the best in bold, and a mark where a difference is significant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from figeval import OptionError, RecordError, RunRecord
from figeval.records.conditions import with_scores_of_all
from figeval.records.notes import of_tasks
from figeval.records.provenance import recorded_packages
from figeval.records.schema import ScoreRecord
from figeval.reporting.floats import FloatStyle, Tabular, table_floats
from figeval.reporting.tex import (
    SEEN_MARKS,
    SEEN_SENTENCES,
    interval_cell,
    number_cell,
    number_column,
    printable,
    sentence,
)
from figeval.wings.exporters.score_table import (
    ScoreLine,
    any_score,
    baseline_names,
    bracket_notes,
    format_deviation,
    format_value,
    headings,
    language_notes,
    route_notes,
    score_lines,
    seen_roles,
    table_notes,
)
from figeval.wings.exporters.table_names import TableNames

if TYPE_CHECKING:
    from figeval.wings.comparison.family import RunComparisons

    Compare = Callable[..., RunComparisons]

DIFFERENCE_MARK = r"$^{\dagger}$"
FEWER_EXAMPLES_MARK = r"$^{\circ}$"
ALPHA = 0.05
MAX_CAPTION_TASKS = 8


def comparison_table(  # noqa: PLR0913 - one argument per choice of the user
    runs: Sequence[RunRecord],
    compare: Compare,
    *,
    tasks: Sequence[str],
    metrics: Sequence[str],
    against: int | None,
    intervals: bool,
    examples: bool,
    style: FloatStyle,
    names: TableNames,
) -> str:
    """Return the floats with these tasks, by default all, and metrics, by default the first one of each task.

    Raises:
        OptionError: there is no run, the runs have no such task or metric, or `against` is no place of a run.
    """
    if against is not None and not 0 <= against < len(runs):
        raise OptionError(f"against {against} is no place of a run, from 0 to {len(runs) - 1}")
    lines = comparison_lines(runs, tasks, metrics)
    shown_runs = [run for run in range(len(runs)) if any(run in line.scores for line in lines)]
    differing, gaps = _find_differing(lines, compare, against)
    models = [headings(runs)[run] for run in shown_runs]
    notes = [
        *_notes(runs, lines, gaps, against, intervals=intervals, is_tested=bool(differing)),
        *map(sentence, names.notes(line.task for line in lines)),
    ]
    lines = names.rename_lines(lines)
    tabular = _tabular(lines, models, shown_runs, differing, intervals=intervals, examples=examples)
    parts = [*tabular.parts(style.width_pt)]
    return "\n".join(table_floats(parts, _caption(models, lines), "figeval-comparison", notes, style))


def comparison_lines(runs: Sequence[RunRecord], tasks: Sequence[str], metrics: Sequence[str]) -> list[ScoreLine]:
    """Return the lines of these tasks, by default all, and metrics, by default the first one of each task.

    Raises:
        OptionError: there is no run, or the runs have no such task or metric.
    """
    if not runs:
        raise OptionError("the layout comparison needs runs; name their folders")
    every_line = _without_probes(runs if metrics else with_scores_of_all(runs), tasks)
    return _with_contrasts(_select(every_line, tasks, metrics), every_line, runs)


def _without_probes(runs: Sequence[RunRecord], tasks: Sequence[str]) -> list[ScoreLine]:
    """Return the lines of the runs, those of probes and of scores on probes only if they are named."""
    probes = {task.task for run in runs for task in run.tasks if task.kind == "probe"}
    probes |= {
        f"{contrast.name}@{floor.baseline}"
        for run in runs
        for contrast in run.contrasts
        for floor in contrast.baselines
    }
    return [line for line in score_lines(runs) if line.task in tasks or line.task not in probes]


def _select(lines: Sequence[ScoreLine], tasks: Sequence[str], metrics: Sequence[str]) -> list[ScoreLine]:
    """Return the lines of these tasks and metrics, in the order in which they were named."""
    all_tasks = dict.fromkeys(line.task for line in lines)
    _check_names("task", tasks, all_tasks)
    _check_names("metric", metrics, dict.fromkeys(line.metric for line in lines))
    task_order = {task: index for index, task in enumerate(tasks or all_tasks)}
    metric_order = {metric: index for index, metric in enumerate(metrics)}
    default_metrics = {line.task: line.metric for line in reversed(lines)}
    selected = [
        line
        for line in lines
        if line.task in task_order
        and (line.metric in metric_order if metrics else line.metric == default_metrics[line.task])
    ]
    if not selected:
        raise OptionError("the runs have none of these metrics on these tasks")
    return sorted(selected, key=lambda line: (task_order[line.task], metric_order.get(line.metric, 0)))


def _check_names(kind: str, names: Sequence[str], alternatives: Mapping[str, None]) -> None:
    for name in names:
        if name not in alternatives:
            raise OptionError(f"the runs have no {kind} {name!r}; they have {', '.join(alternatives)}")


def _with_contrasts(
    lines: Sequence[ScoreLine], every_line: Sequence[ScoreLine], runs: Sequence[RunRecord]
) -> list[ScoreLine]:
    """Return the lines, followed by those of contrasts that say what tasks with a single right answer cannot say."""
    one_label_tasks = {task_name(line) for line in lines if line.is_one_label}
    names = {
        contrast.name for run in runs for contrast in run.contrasts if one_label_tasks.intersection(contrast.tasks)
    }
    first_lines = {line.task: line for line in reversed(every_line) if line.task in names}
    shown = {line.task for line in lines}
    return [*lines, *(line for line in every_line if line is first_lines.get(line.task) and line.task not in shown)]


def task_name(line: ScoreLine) -> str:
    """Return the name of the task without the part of it that the line is about."""
    return line.task.partition(" (")[0]


def _find_differing(
    lines: Sequence[ScoreLine], compare: Compare, against: int | None
) -> tuple[dict[int, set[int]], dict[str, str]]:
    """Return the runs that differ from the reference, by index of a tested line, and why metrics were not tested."""
    comparisons, gaps = compare_lines(lines, compare, against)
    differing = {
        index: _find_worse(line, comparisons[line.metric].pairs, against)
        for index, line in enumerate(lines)
        if _is_testable(line) and line.metric in comparisons
    }
    return differing, gaps


def compare_lines(
    lines: Sequence[ScoreLine], compare: Compare, against: int | None
) -> tuple[dict[str, RunComparisons], dict[str, str]]:
    """Return the comparisons of the runs on the testable lines, and why there is none, by metric."""
    comparisons: dict[str, RunComparisons] = {}
    gaps: dict[str, str] = {}
    testable = [line for line in lines if _is_testable(line)]
    for metric in dict.fromkeys(line.metric for line in testable):
        tasks = {task_name(line) for line in testable if line.metric == metric}
        try:
            comparisons[metric] = compare(metric, tasks, against)
        except RecordError as error:
            gaps[metric] = str(error)
    return comparisons, gaps


def _is_testable(line: ScoreLine) -> bool:
    return len(line.scores) > 1 and not line.is_one_label


def _find_worse(line: ScoreLine, pairs: Mapping[tuple[int, int], Any], against: int | None) -> set[int]:
    """Return the runs whose difference to the reference, by default the best run, is significant."""
    reference = next(iter(_find_best(line)), None) if against is None else against
    return {
        run
        for runs, pair in pairs.items()
        if reference in runs and all(format_value(line.scores.get(run)) for run in runs)
        for run in runs
        if run != reference
        for test in pair.tasks
        if test.task == line.task and test.p_adjusted is not None and test.p_adjusted < ALPHA
    }


def _find_best(line: ScoreLine) -> list[int]:
    """Return the runs with the best printed value among those that answered all examples; several if they tie."""
    texts = {run: _format_value(score) for run, score in line.scores.items() if line.smaller_n(run) is None}
    values = {run: float(text) for run, text in texts.items() if text is not None}
    if len(values) < 2 or line.is_one_label:
        return []  # nothing to be better than, or at
    higher_is_better = next(iter(line.scores.values())).higher_is_better
    best = max(values.values()) if higher_is_better else min(values.values())
    return [run for run, value in values.items() if value == best]


def _tabular(
    lines: Sequence[ScoreLine],
    models: Sequence[str],
    runs: Sequence[int],
    differing: Mapping[int, set[int]],
    *,
    intervals: bool,
    examples: bool,
) -> Tabular:
    baselines = baseline_names(lines)
    scores: list[list[ScoreRecord | None]] = [
        [*(line.baselines.get(name) for name in baselines), *(line.scores.get(run) for run in runs)] for line in lines
    ]
    heads = [*baselines, *models]
    columns = [
        number_column([_format_value(row[index]) for row in scores], has_marks=index >= len(baselines))
        for index in range(len(heads))
    ]
    blocks: list[list[list[str]]] = []
    task = ""
    for index, (line, row) in enumerate(zip(lines, scores, strict=True)):
        cells = [number_cell(_format_value(score)) for score in row[: len(baselines)]]
        cells += _run_cells(line, runs, differing.get(index, set()))
        name = printable(line.task) if line.task != task else ""
        block = [[name, printable(line.metric), *([str(line.n)] if examples else []), *cells]]
        if intervals:
            cells = [
                "{}" if score is None else interval_cell(score.low, score.high, reliable=score.interval.reliable)
                for score in row
            ]
            block.append(["", "", *([""] if examples else []), *cells])
        blocks.append(block)
        task = line.task
    leading = 3 if examples else 2
    head = ["Task", "Metric", "$n$"][:leading] + [f"{{{printable(head)}}}" for head in heads]
    return Tabular(["l", "l", "r"][:leading] + columns, head, blocks, leading)


def _run_cells(line: ScoreLine, runs: Sequence[int], differing: set[int]) -> Iterator[str]:
    best = _find_best(line)
    for run in runs:
        score = line.scores.get(run)
        mark = SEEN_MARKS[score.seen] if score is not None and score.seen else ""
        mark += DIFFERENCE_MARK if run in differing else ""
        mark += FEWER_EXAMPLES_MARK if line.smaller_n(run) is not None else ""
        yield number_cell(_format_value(score), mark, bold=run in best)


def _format_value(score: ScoreRecord | None) -> str | None:
    text = format_value(score)
    return None if text == "nan" else text


def _caption(models: Sequence[str], lines: Sequence[ScoreLine]) -> str:
    systems = _join_names([printable(model) for model in models])
    tasks = [printable(task) for task in dict.fromkeys(line.task for line in lines)]
    task_list = _join_names(tasks) if len(tasks) <= MAX_CAPTION_TASKS else f"{len(tasks)} tasks"
    return f"Scores of {systems} on {task_list}, with trivial models"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _smaller_sizes(lines: Sequence[ScoreLine], names: Sequence[str]) -> Iterator[str]:
    """Yield on how many examples each score rests that has fewer than its line."""
    for line in lines:
        for run in line.scores:
            if (n := line.smaller_n(run)) is not None:
                yield f"{n} of {line.n} for {names[run]} on {line.task} ({line.metric})"


def _notes(
    runs: Sequence[RunRecord],
    lines: Sequence[ScoreLine],
    gaps: Mapping[str, str],
    against: int | None,
    *,
    intervals: bool,
    is_tested: bool,
) -> Iterator[str]:
    names = headings(runs)
    marks = ["Bold: the best run."] if any(_find_best(line) for line in lines) else []
    if is_tested:
        reference = "the best" if against is None else printable(names[against])
        correction = "Benjamini and Hochberg's" if against is None and len(runs) > 2 else "Holm's"
        marks.append(rf"$\dagger$ differs from {reference} at 5\,\% ({correction} correction, per metric).")
    yield from filter(None, [" ".join(marks)])
    if intervals:
        yield from bracket_notes(runs)
    for metric, reason in gaps.items():
        yield f"Differences in {printable(metric)} are not tested: {printable(reason)}."
    if sizes := [*_smaller_sizes(lines, names)]:
        yield rf"$\circ$ Rests on fewer examples, and is never in bold: {', '.join(map(printable, sizes))}."
    yield from (SEEN_SENTENCES[role] for role in seen_roles(runs))
    if any(line.is_one_label for line in lines):
        shown = {line.task for line in lines}
        has_contrast = any(contrast.name in shown for run in runs for contrast in run.contrasts)
        yield (
            "Where one answer is right for every example, no run is in bold and none is tested"
            f"{'; the contrasts tell the answers apart' * has_contrast}."
        )
    tasks, metrics = set(map(task_name, lines)), {line.metric for line in lines}
    shown_runs = [of_tasks(run, tasks) for run in runs]
    notes = (*route_notes(runs, tasks), *table_notes(runs, tasks, metrics), *language_notes(shown_runs))
    yield from map(sentence, notes)
    if missing := [name for index, name in enumerate(names) if not any(index in line.scores for line in lines)]:
        yield f"Left out: {printable(', '.join(missing))} {'have' if missing[1:] else 'has'} none of these scores."
    yield from _version_notes(runs)


def _version_notes(runs: Sequence[RunRecord]) -> Iterator[str]:
    names_by_version: dict[str, list[str]] = {}
    for name, run in zip(headings(runs), runs, strict=True):
        version = recorded_packages(run.provenance).get("figeval", "unknown")
        seed = "means over seeds" if any_score([run], format_deviation) else f"seed {run.config.get('seed', 0)}"
        names_by_version.setdefault(f"figeval {version}, {seed}", []).append(name)
    yield from (f"{printable(', '.join(names))}: {printable(version)}." for version, names in names_by_version.items())
