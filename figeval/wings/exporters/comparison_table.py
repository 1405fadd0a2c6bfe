"""A table with models as columns: the best in bold, and a mark where a difference is significant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from figeval.errors import OptionError, RecordError
from figeval.records.notes import of_tasks
from figeval.records.schema import RunRecord, ScoreRecord
from figeval.wings.exporters.side_by_side import (
    Line,
    baseline_names,
    headings,
    lines,
    notes,
    number,
    over_languages,
    roles,
    routes,
    unreliable,
)
from figeval.wings.exporters.tex import between, column, figure, floating, printable, row, sentence

if TYPE_CHECKING:
    Compare = Callable[..., Any]

DIFFERS = r"$^{\dagger}$"
FEWER = r"$^{\circ}$"
SEEN = {"trained": r"$^{\S}$", "chosen": r"$^{\P}$"}
TOLD = {
    "trained": r"$\S$ The model was trained on some of these examples.",
    "chosen": r"$\P$ The model was chosen on some of these examples; the score is a maximum.",
}
ALPHA = 0.05


def comparison_table(  # noqa: PLR0913 - one argument per choice of the user
    runs: Sequence[RunRecord],
    compare: Compare,
    *,
    tasks: Sequence[str],
    metrics: Sequence[str],
    against: int | None,
    intervals: bool,
    examples: bool,
) -> str:
    """Return the float with these tasks, by default all, and metrics, by default the first one of each task.

    Raises:
        OptionError: there is no run, the runs have no such task or metric, or `against` is no place of a run.
    """
    if not runs:
        raise OptionError("the layout comparison needs runs; name their folders")
    if against is not None and not 0 <= against < len(runs):
        raise OptionError(f"against {against} is no place of a run, from 0 to {len(runs) - 1}")
    every_line = _without_probes(runs, tasks)
    table = _with_contrasts(_chosen(every_line, tasks, metrics), every_line, runs)
    shown = [run for run in range(len(runs)) if any(run in line.scores for line in table)]
    differing, untested = _differing(table, compare, against)
    trivial = baseline_names(table)
    heads = [*trivial, *(headings(runs)[run] for run in shown)]
    body = _tabular(table, heads, trivial, shown, differing, intervals=intervals, examples=examples)
    told = _notes(runs, table, untested, against, intervals=intervals, tested=bool(differing))
    return "\n".join(
        floating(body, _caption([headings(runs)[run] for run in shown], table), "figeval-comparison", told)
    )


def _without_probes(runs: Sequence[RunRecord], tasks: Sequence[str]) -> list[Line]:
    """Return the lines of the runs, those of probes and of scores on probes only if they are named."""
    probes = {task.task for run in runs for task in run.tasks if task.kind == "probe"}
    probes |= {f"{one.name}@{floor.baseline}" for run in runs for one in run.contrasts for floor in one.baselines}
    return [line for line in lines(runs) if line.task in tasks or line.task not in probes]


def _chosen(table: Sequence[Line], tasks: Sequence[str], metrics: Sequence[str]) -> list[Line]:
    """Return the lines of these tasks and metrics, in the order in which they were named."""
    names, kinds = (dict.fromkeys(getattr(line, of) for line in table) for of in ("task", "metric"))
    for asked_for, known, what in ((tasks, names, "task"), (metrics, kinds, "metric")):
        for one in asked_for:
            if one not in known:
                raise OptionError(f"the runs have no {what} {one!r}; they have {', '.join(known)}")
    order = {one: place for place, one in enumerate(tasks or names)}
    kind = {one: place for place, one in enumerate(metrics)}
    first: dict[str, str] = {}
    for line in table:
        first.setdefault(line.task, line.metric)
    found = [line for line in table if line.task in order and line.metric in (kind if metrics else (first[line.task],))]
    if not found:
        raise OptionError("the runs have none of these metrics on these tasks")
    return sorted(found, key=lambda line: (order[line.task], kind.get(line.metric, 0)))


def _with_contrasts(table: Sequence[Line], every_line: Sequence[Line], runs: Sequence[RunRecord]) -> list[Line]:
    """Return the lines, followed by those of contrasts that say what tasks with a single right answer cannot say."""
    one_label = {line.task.partition(" (")[0] for line in table if line.is_one_label}
    names = {contrast.name for run in runs for contrast in run.contrasts if one_label.intersection(contrast.tasks)}
    first = {line.task: line for line in reversed(every_line) if line.task in names}
    shown = {line.task for line in table}
    return [*table, *(line for line in every_line if line is first.get(line.task) and line.task not in shown)]


def _differing(
    table: Sequence[Line], compare: Compare, against: int | None
) -> tuple[dict[int, set[int]], dict[str, str]]:
    """Return the places of runs that differ from the reference, by tested line, and why metrics could not be tested."""
    found: dict[int, set[int]] = {}
    untested: dict[str, str] = {}
    tested = {row: line for row, line in enumerate(table) if len(line.scores) > 1 and not line.is_one_label}
    for metric in dict.fromkeys(line.metric for line in tested.values()):
        own = {place: line for place, line in tested.items() if line.metric == metric}
        try:
            made = compare(metric, {line.task.partition(" (")[0] for line in own.values()}, against)
        except RecordError as error:
            untested[metric] = str(error)
            continue
        found |= {place: _worse(line, made.pairs, against) for place, line in own.items()}
    return found, untested


def _worse(line: Line, pairs: Mapping[tuple[int, int], Any], against: int | None) -> set[int]:
    """Return the runs whose difference to the reference, by default the best run, is significant."""
    reference = next(iter(_best(line)), None) if against is None else against
    return {
        other
        for places, pair in pairs.items()
        if reference in places and all(number(line.scores.get(one)) for one in places)
        for other in places
        if other != reference
        for one in pair.tasks
        if one.task == line.task and one.p_adjusted is not None and one.p_adjusted < ALPHA
    }


def _best(line: Line) -> list[int]:
    """Return the places of the runs with the best printed value; there are several if they tie."""
    values = {place: number(score) for place, score in line.scores.items()}
    shown = {place: float(value) for place, value in values.items() if value is not None and value != "nan"}
    if len(shown) < 2 or line.is_one_label:
        return []  # nothing to be better than, or at
    higher = next(iter(line.scores.values())).higher_is_better
    best = max(shown.values()) if higher else min(shown.values())
    return [place for place, value in shown.items() if value == best]


def _tabular(  # noqa: PLR0913
    table: Sequence[Line],
    heads: Sequence[str],
    trivial: Sequence[str],
    runs: Sequence[int],
    differing: Mapping[int, set[int]],
    *,
    intervals: bool,
    examples: bool,
) -> Iterator[str]:
    scores: list[list[ScoreRecord | None]] = [
        [*(line.baselines.get(name) for name in trivial), *(line.scores.get(run) for run in runs)] for line in table
    ]
    shapes = []
    for place in range(len(heads)):
        marked = place >= len(trivial)
        shapes.append(column([_shown(line[place]) for line in scores], marked))
    yield rf"\begin{{tabular}}{{@{{}}l l {'r ' if examples else ''}{' '.join(shapes)}@{{}}}}"
    yield r"\toprule"
    yield row(["Task", "Metric", *(["$n$"] if examples else []), *(f"{{{printable(head)}}}" for head in heads)])
    yield r"\midrule"
    before = ""
    for place, (line, found) in enumerate(zip(table, scores, strict=True)):
        best, differs = _best(line), differing.get(place, set())
        cells = [figure(_shown(score)) for score in found[: len(trivial)]]
        for run in runs:
            score = line.scores.get(run)
            mark = SEEN[score.seen] if score is not None and score.seen else ""
            mark += DIFFERS if run in differs else ""
            mark += FEWER if line.own_n(run) is not None else ""
            cells.append(figure(_shown(score), mark, bold=run in best))
        yield row(
            [
                printable(line.task) if line.task != before else "",
                printable(line.metric),
                *([str(line.n)] if examples else []),
                *cells,
            ]
        )
        if intervals:
            yield row(
                [
                    "",
                    "",
                    *([""] if examples else []),
                    *(between(score.low, score.high) if score else "{}" for score in found),
                ]
            )
        before = line.task
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _shown(score: ScoreRecord | None) -> str | None:
    text = number(score)
    return None if text == "nan" else text


def _caption(models: Sequence[str], table: Sequence[Line]) -> str:
    names = _listed([printable(model) for model in models])
    tasks = _listed([printable(task) for task in dict.fromkeys(line.task for line in table)])
    return f"Scores of {names} on {tasks}, with trivial models."


def _listed(names: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _fewer(table: Sequence[Line], names: Sequence[str]) -> Iterator[str]:
    """Yield on how many examples each score rests that has fewer than its line."""
    for line in table:
        for run in line.scores:
            if (n := line.own_n(run)) is not None:
                yield f"{n} of {line.n} for {names[run]} on {line.task} ({line.metric})"


def _notes(
    runs: Sequence[RunRecord],
    table: Sequence[Line],
    untested: Mapping[str, str],
    against: int | None,
    *,
    intervals: bool,
    tested: bool,
) -> Iterator[str]:
    """Yield the lines below the table, from the records."""
    marks = ["Bold: the best run."] if any(_best(line) for line in table) else []
    if tested:
        which = "the best" if against is None else printable(headings(runs)[against])
        correction = "Benjamini and Hochberg's" if against is None and len(runs) > 2 else "Holm's"
        marks.append(rf"$\dagger$ differs from {which} at 5\,\% ({correction} correction, per metric).")
    yield from filter(None, [" ".join(marks)])
    if intervals:
        yield r"In brackets the 95\,\% interval, over clusters if examples are not independent."
    if any(unreliable(score) for line in table for score in line.scores.values() if score.low is not None):
        yield "Some intervals are unreliable: they have fewer than 10 effective clusters."
    yield from (f"Differences in {printable(name)} are not tested: {printable(why)}." for name, why in untested.items())
    if fewer := [*_fewer(table, headings(runs))]:
        yield rf"$\circ$ Rests on fewer examples: {', '.join(map(printable, fewer))}."
    yield from (TOLD[role] for role in roles(runs))
    if any(line.is_one_label for line in table):
        shown = {line.task for line in table}
        has_contrast = any(contrast.name in shown for run in runs for contrast in run.contrasts)
        yield (
            "Where one answer is right for every example, no run is in bold and none is tested"
            f"{'; the contrasts tell the answers apart' * has_contrast}."
        )
    tasks = {line.task.partition(" (")[0] for line in table}
    shown_runs = [of_tasks(run, tasks) for run in runs]
    metrics = {line.metric for line in table}
    yield from map(sentence, (*routes(runs, tasks), *notes(runs, tasks, metrics), *over_languages(shown_runs)))
    left_out = [name for index, name in enumerate(headings(runs)) if not any(index in line.scores for line in table)]
    if left_out:
        yield f"Left out: {printable(', '.join(left_out))} {'have' if left_out[1:] else 'has'} none of these scores."
    made: dict[str, list[str]] = {}
    for name, run in zip(headings(runs), runs, strict=True):
        version = run.provenance.get("packages", {}).get("figeval", "unknown")
        how = f"figeval {version}, seed {run.config.get('seed', 0)}"
        made.setdefault(how, []).append(name)
    yield from (f"{printable(', '.join(names))}: {printable(how)}." for how, names in made.items())
