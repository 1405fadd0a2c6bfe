"""The table of a run: every score with its interval and the trivial baselines beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from figeval.records.schema import CHOSEN_ON_TEST, BreakdownRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.records.sweep import SeedScore
from figeval.report.grid import AND, Grid, say

HEAD = ("task", "route", "metric", "value", "95 % interval", "n", "clusters", "baselines")
OVER_PROMPTS = ("task", "metric", "prompts", "mean", "range", "lowest", "highest")
RIGHT = frozenset({"value", "95 % interval", "n", "clusters"})
SPARE = ("clusters", "route")
NOTHING = "–"
MARK = "†"  # behind a score on the examples that the model was chosen on
COUNTED = {
    "ties": "ties, scored by expectation",
    "truncated_inputs": "inputs cut to the model's length",
    "nan": "NaN",
    "ambiguous": "ambiguous answers",
    "unparseable": "answers that say nothing of the options",
    "absent": "quotations that stand nowhere in the text",
    "refusal": "refusals",
    "empty": "empty answers",
    "truncated": "answers cut off, give more --max_new_tokens",
    "error": "without a reply",
    "spans_unanswered": "spans without an answer",
}


def number(value: float | None) -> str:
    """Four digits behind the point; an en dash where there is none."""
    return NOTHING if value is None else f"{value:.4f}"


def interval(score: ScoreRecord | SeedScore) -> str:
    """`0.301 to 0.398`, an en dash where no honest interval exists."""
    return NOTHING if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"


def marked(score: ScoreRecord) -> str:
    """The value, with a mark where the model was chosen by it."""
    return number(score.value) + (MARK if score.interval == CHOSEN_ON_TEST else "")


def baselines(task: TaskRecord, metric: str) -> str:
    """`chance 0.200 · overlap 0.312` for one metric."""
    found = []
    for baseline in task.baselines:
        value = next((score.value for score in baseline.scores if score.metric == metric), None)
        if value is not None:
            found.append(f"{baseline.baseline} {value:.3f}")
    return AND.join(found)


def rows(record: RunRecord) -> Iterator[tuple[str, ...]]:
    """The cells of the table, HEAD's columns; a task's name stands in its first row only."""
    for task in record.tasks:
        name = f"{task.task} (probe)" if task.kind == "probe" else task.task
        if not task.scores or task.status == "failed":
            state = "failed" if task.status == "failed" else "not yet"
            yield (name, task.route, state, NOTHING, NOTHING, NOTHING, NOTHING, "")
        for index, score in enumerate(task.scores):
            yield (
                name if index == 0 else "",
                task.route if index == 0 else "",
                score.metric,
                marked(score),
                interval(score),
                str(score.n),
                str(score.clusters),
                baselines(task, score.metric),
            )
    for macro in record.macro:
        yield (f"{macro.suite}: macro mean of {macro.tasks}", "", macro.metric, number(macro.value), "", "", "", "")


def notes(record: RunRecord) -> Iterator[str]:
    """What stands under the table: answers that were none, ties, inputs cut short, warnings."""
    if any(score.interval == CHOSEN_ON_TEST for task in record.tasks for score in task.scores):
        yield f"{MARK} the model was chosen by this score, and no interval around a maximum is honest"
    for task in record.tasks:
        odd = [f"{count} {COUNTED.get(kind, kind)}" for kind, count in task.counts.items() if kind != "ok" and count]
        if odd:
            yield f"{task.task}: {'; '.join(odd)}"
        if "temperature" in task.settings:
            yield f"{task.task}: distributions at temperature {task.settings['temperature']:g}"
        yield from (f"{task.task}: {warning}" for warning in task.warnings)
        if task.error:
            yield f"{task.task} failed: {task.error.strip().splitlines()[-1]}"
    yield from record.warnings
    described = record.model.description
    yield from described.get("warnings", ())
    if "fell_back_because" in described:
        yield f"log-likelihoods from {described['scoring']} ({described['fell_back_because']})"


def spreads(record: RunRecord) -> Iterator[tuple[str, ...]]:
    """The cells of the second table, OVER_PROMPTS' columns."""
    for one in record.spreads:
        worst, best = f"{number(one.lowest)} {one.lowest_prompt}", f"{number(one.highest)} {one.highest_prompt}"
        yield (one.task, one.metric, str(one.prompts), number(one.mean), number(one.range), worst, best)


def show(record: RunRecord, console: Any) -> None:
    """Print the table on a rich console, and under it what became of tasks that were asked with several prompts."""
    Grid(HEAD, list(rows(record)), f"{record.model.name} ({record.model.backend})", RIGHT, SPARE).print(console)
    if record.spreads:
        console.print()
        Grid(OVER_PROMPTS, list(spreads(record)), "over prompts", {"prompts", "mean", "range"}).print(console)
    for note in notes(record):
        say(console, f"  {note}")


def show_breakdowns(record: RunRecord, console: Any, most: int | None = 20) -> None:
    """Print the stored scores per idiom, proverb or corpus, the most frequent first."""
    for task in record.tasks:
        for breakdown in task.breakdowns:
            show_breakdown(task.task, breakdown, console, most)


def show_breakdown(task: str, breakdown: BreakdownRecord, console: Any, most: int | None = None) -> None:
    """Print the first metric's score of each group, at most so many."""
    cells = []
    for group in breakdown.groups[:most]:
        first = group.scores[0]
        cells.append((group.value, first.metric, marked(first), interval(first), str(first.n)))
    head = (breakdown.by, "metric", "value", "95 % interval", "n")
    console.print()
    Grid(head, cells, f"{task} by {breakdown.by}", RIGHT).print(console)
    hidden = len(breakdown.groups) - len(cells)
    if hidden:
        say(console, f"  … and {hidden} more in run.json")
