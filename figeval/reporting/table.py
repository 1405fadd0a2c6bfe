"""Table of a run, with an interval and the trivial baselines next to every score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from figeval.io.text import one_line
from figeval.records import notes as run_notes
from figeval.records.conditions import if_answered, task_with_scores_of_all
from figeval.records.schema import (
    SEEN_NOTES,
    BaselineRecord,
    BreakdownRecord,
    ChoicesRecord,
    Role,
    RunRecord,
    ScoreRecord,
    TaskRecord,
    baseline_scores,
)
from figeval.reporting.grid import (
    AND,
    EMPTY_CELL,
    UNRELIABLE_MARK,
    UNRELIABLE_TEXT,
    Grid,
    format_interval,
    format_number,
    print_grids,
    say,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from figeval.records.sweep import SeedScore

HEAD = ("task", "route", "metric", "value", "95 % interval", "n", "clusters", "baselines")
OVER_PROMPTS = ("task", "metric", "prompts", "mean", "range", "lowest", "highest")
OF_VARIANCE = (  # head of a column → field of the record
    *(("sampling", "sampling"), ("items × prompts", "interaction"), ("items", "between_items")),
    *(("clusters", "between_clusters"), ("prompts", "between_prompts")),
)
OF_CONTRASTS = ("contrast", "metric", "value", "95 % interval", "positive", "negative", "clusters", "baselines")
OF_CHOICES = ("offered", "chosen", "95 % interval", "of wrong", "interval of it", "expected")  # after the key
RIGHT_ALIGNED = frozenset({"value", "95 % interval", "n", "clusters"})
SPARE = ("clusters", "route")
MARKS: dict[Role | None, str] = {"trained": "‡", "chosen": "†", None: ""}  # for scores on examples that were seen
NO_MARKS: Mapping[str, str] = MappingProxyType({})
MAX_ROWS = 40  # of scores below a run; of more, there is the first metric of each task
MAX_NOTES = 6  # below the table of a run; of more, there is a line for each kind
MAX_WARNINGS = 3  # that are printed in full
MAX_NOTE_CHARS = 90
KIND_MARKS = {"warnings": "!", "answers": "?", "gaps": EMPTY_CELL, "conditions": ""}  # kind of notes → mark of scores
KIND_NAMES = {
    "warnings": "{} warnings",
    "answers": "odd or missing answers in {} notes",
    "gaps": "{} notes on missing values and intervals",
    "conditions": "{} notes on what was asked and how it is scored",
}
MEAN = "  mean"  # head of a line with the unweighted mean over languages
REST_LABEL = "  remaining examples"  # head of a line with the score on examples that the model has not seen


class Explanation(NamedTuple):
    """Meaning of a sign in a table: of a mark behind values, or of the word with which the text begins."""

    text: str
    mark: str = ""

    @property
    def line(self) -> str:
        """The line below the table."""
        return f"{self.mark} {self.text}".lstrip()


def interval(score: ScoreRecord | SeedScore) -> str:
    """Return e.g. `0.301 to 0.398`, with a mark if it is unreliable, or an en dash if there is no valid interval."""
    return format_interval(score.low, score.high, reliable=score.interval.reliable)


def format_marked(score: ScoreRecord | SeedScore) -> str:
    """Return the value, with a mark if the model has seen some of its examples."""
    value = score.value if isinstance(score, ScoreRecord) else score.mean
    return format_number(value) + MARKS[score.seen]


def effective(clusters: int, number: float | None) -> str:
    """Return e.g. ` (30 eff.)` if unequal clusters are worth fewer equal ones, else nothing."""
    if number is None or round(number) == clusters:
        return ""
    return f" ({number:.{0 if number >= 10 else 1}f} eff.)"


def baselines(records: Sequence[BaselineRecord], metric: str) -> str:
    """Return the baselines' scores for one metric, e.g. `chance 0.200 · overlap 0.312`."""
    scores = baseline_scores(records, metric).items()
    return AND.join(f"{name} {score.value:.3f}" for name, score in scores if score.value is not None)


def rows(
    record: RunRecord, marks: Mapping[str, str] = NO_MARKS, max_scores: int | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table, with HEAD's columns; a task's name is only in its first row.

    Args:
        record: the run.
        marks: what is put behind the values of a task, by its name.
        max_scores: number of metrics of each task that are shown, the first ones; None for all.
    """
    for task in record.tasks_with_rows():
        name = f"{task.task} (probe)" if task.kind == "probe" else task.task
        if not task.scores or task.status == "failed":
            state = "failed" if task.status == "failed" else "not yet"
            yield (name, task.route, state, EMPTY_CELL, EMPTY_CELL, EMPTY_CELL, EMPTY_CELL, "")
        ordered = task_with_scores_of_all(task)
        for index, score in enumerate(ordered.scores[:max_scores]):
            first = (name, task.route) if index == 0 else ("", "")
            yield from lines(ordered, score, *first, mark=marks.get(task.task, ""))
    for macro in record.macro:
        value = format_number(macro.value) + MARKS[macro.seen]
        yield (f"{macro.suite}: macro mean of {macro.tasks}", "", macro.metric, value, "", "", "", "")


def lines(task: TaskRecord, score: ScoreRecord, name: str, route: str, mark: str = "") -> Iterator[tuple[str, ...]]:
    """Yield the rows of one metric of a task, with name and route in the first one.

    There is one row, or one for each language and one for their mean, and below the row of the remaining examples.
    """
    is_first = True
    for part, scores, trivial in task.parts():
        if part == "remaining":
            head = REST_LABEL
        else:
            head = f"{name if is_first else ''}  {part}" if part else MEAN if task.languages else name
        for part_score in scores:
            if part_score.metric == score.metric:
                metric, value, *rest = cells(part_score, trivial, task)
                yield (head, route if is_first else "", metric, value + mark, *rest)
        is_first = False


def cells(score: ScoreRecord, trivial: Sequence[BaselineRecord], task: TaskRecord | None = None) -> tuple[str, ...]:
    """Return the cells of one score, from the metric to the baselines; `n` says if it leaves examples out."""
    full = score.n if task is None else if_answered(task, score, trivial)
    n = str(score.n) if score.n == full else f"{score.n} of {full}"
    counts = (n, f"{score.clusters}{effective(score.clusters, score.effective_clusters)}")
    return (score.metric, format_marked(score), interval(score), *counts, baselines(trivial, score.metric))


def notes(record: RunRecord) -> Iterator[str]:
    """Yield the lines below the table: the meaning of its signs, and the notes about the run."""
    yield from (explanation.line for explanation in explanations(record))
    yield from run_notes.notes(record)


def explanations(record: RunRecord) -> Iterator[Explanation]:
    """Yield explanations of the signs and abbreviations that the table contains."""
    shown = list(record.shown_scores())
    seen = {score.seen for score in shown}
    yield from (Explanation(text, MARKS[role]) for role, text in SEEN_NOTES.items() if role in seen)
    if any(task.languages for task in record.tasks):
        yield Explanation("mean: unweighted mean over languages")
    if any(task.overlap is not None and task.overlap.scores for task in record.tasks):
        yield Explanation(f"{REST_LABEL.strip()}: those used neither to train nor to select the model")
    if any(effective(score.clusters, score.effective_clusters) for score in shown):
        yield Explanation("eff.: effective clusters, the number of clusters of equal size that would be as informative")
    if any(score.low is not None and not score.interval.reliable for score in shown):
        yield Explanation(UNRELIABLE_TEXT, UNRELIABLE_MARK)
    yield from map(Explanation, explanations_of_variance(record))


def explanations_of_variance(record: RunRecord) -> Iterator[str]:
    """Yield explanations of the table of the components of variance."""
    if record.variances:
        yield "sampling of mean: share of the variance of the mean over all items that is due to sampling"
        yield "enough samples: number with which this share would be at most 10 %"
    if any(variance.prompts > 1 for variance in record.variances):
        yield "variance of an answer: its interval is about other prompts, too"


def spreads(record: RunRecord) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table over prompts, with OVER_PROMPTS' columns."""
    for spread in record.spreads:
        worst, best = (
            f"{format_number(spread.lowest)} {spread.lowest_prompt}",
            f"{format_number(spread.highest)} {spread.highest_prompt}",
        )
        mean = format_number(spread.mean) + MARKS[spread.seen]
        yield (spread.task, spread.metric, str(spread.prompts), mean, format_number(spread.range), worst, best)


def variances_grid(record: RunRecord) -> Grid:
    """Return the table of the components of variance, without those that no task has."""
    shown = [variance for variance in record.variances if variance.metric != "parse_rate"]
    columns = [pair for pair in OF_VARIANCE if any(getattr(variance, pair[1]) is not None for variance in shown)]
    rows, before = [], ""
    for variance in shown:
        components = (format_number(getattr(variance, field)) for _, field in columns)
        limits = format_interval(variance.low, variance.high, reliable=variance.interval.reliable)
        share, enough = variance.sampling_share, variance.enough_samples
        in_words = (EMPTY_CELL if share is None else f"{share:.0%}", EMPTY_CELL if enough is None else f"{enough:,}")
        name = variance.task if variance.task != before else ""
        rows.append((name, variance.metric, format_number(variance.mean), limits, *components, *in_words))
        before = variance.task
    heads = [head for head, _ in columns]
    head = ("task", "metric", "mean", "95 % interval", *heads, "sampling of mean", "enough samples")
    return Grid(head, rows, "variance of an answer", set(head[2:]))


def contrasts(record: RunRecord) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of contrasts, with OF_CONTRASTS' columns; a name is only in its first row."""
    for contrast in record.contrasts:
        for index, score in enumerate(contrast.scores):
            metric, value, limits, n, clusters, trivial = cells(score, contrast.baselines)
            units = f"{n} × {contrast.within}" if contrast.within else clusters
            counts = (str(contrast.positive), str(contrast.negative), units)
            yield ("" if index else contrast.name, metric, value, limits, *counts, trivial)


def grids(record: RunRecord, marks: Mapping[str, str] = NO_MARKS, max_scores: int | None = None) -> Iterator[Grid]:
    """Yield the tables of a run: scores, contrasts, scores over prompts, and the kinds of options that were chosen."""
    title = f"{record.model.name} ({record.model.backend})"
    yield Grid(HEAD, list(rows(record, marks, max_scores)), title, RIGHT_ALIGNED, SPARE, "baselines")
    if record.contrasts:
        labels = AND.join(dict.fromkeys(contrast.label for contrast in record.contrasts))
        counts = {"value", "95 % interval", "positive", "negative", "clusters"}
        title = f"discrimination: {labels} against the rest"
        yield Grid(OF_CONTRASTS, list(contrasts(record)), title, counts, ("clusters",), "baselines")
    if record.spreads:
        yield Grid(OVER_PROMPTS, list(spreads(record)), "over prompts", {"prompts", "mean", "range"})
    if record.variances:
        yield variances_grid(record)
    for task in record.tasks:
        for table in task.choices:
            yield choices_grid(task.task, table)


def show(record: RunRecord, console: Console) -> None:
    """Print the tables of a run on a rich console, and the notes under them."""
    print_grids(console, grids(record), notes(record))


def show_folded(record: RunRecord, console: Console, path: Path) -> None:
    """Print the tables of a run on one screen, and how to print what they leave out.

    If there are many scores, the first metric of each task is shown; if there are many notes, one line for each kind,
    with its mark at the scores.
    """
    all_rows = len(list(rows(record)))
    max_scores = None if all_rows <= MAX_ROWS else 1
    left_out = [f"{all_rows - len(list(rows(record, max_scores=1)))} further scores"] if max_scores else []
    notes_by_kind = list(run_notes.notes_by_kind(record))
    explained = list(explanations(record))
    lines = [*(explanation.line for explanation in explained), *(text for _, text in notes_by_kind)]
    marks = NO_MARKS
    if (total := len(notes_by_kind) + len(explained)) > MAX_NOTES:
        kinds = run_notes.marked_tasks(record)
        marks = {task: "".join(KIND_MARKS[kind] for kind in of_task) for task, of_task in kinds.items()}
        marked_kinds = {"gaps", *(kind for of_task in kinds.values() for kind in of_task)}
        lines = [explanation.line for explanation in explained if explanation.mark]
        for kind, mark in KIND_MARKS.items():
            texts = [text for of_kind, text in notes_by_kind if of_kind == kind]
            lines += fold_notes(kind, texts, mark if kind in marked_kinds else "") if texts else []
        left_out.append(f"all {total} notes")
    more = [f"figeval show {quote(str(path))} prints {' and '.join(left_out)}"] if left_out else []
    print_grids(console, grids(record, marks, max_scores), [*lines, *more])


def fold_notes(kind: str, texts: Sequence[str], mark: str) -> list[str]:
    """Return one line for all notes of a kind, with the mark that some scores have, or the notes if they are few.

    A few warnings are not folded, and the first is complete: it may say what to do about a task that was not run.
    """
    head = f"{mark} " if mark else ""
    if len(texts) <= (MAX_WARNINGS if kind == "warnings" else 1):
        return [head + text for text in texts]
    example = texts[0] if kind == "warnings" else one_line(texts[0], MAX_NOTE_CHARS)
    return [f"{head}{KIND_NAMES[kind].format(len(texts))}, such as: {example}"]


def choices_grid(task: str, table: ChoicesRecord) -> Grid:
    """Return the table of chosen kinds of options, with the shares to expect if wrong answers were random."""
    rows = []
    for kind in table.kinds:
        wrong = kind.chosen_wrong
        expected = format_number(kind.expected_wrong if wrong.value is not None else None)
        shares = (format_marked(kind.chosen), interval(kind.chosen), format_marked(wrong), interval(wrong), expected)
        rows.append((kind.value, str(kind.offered), *shares))
    total = f"{table.wrong:.1f}".removesuffix(".0")
    title = f"{task}: chosen by {table.key} in {table.answered} answers, {total} of them wrong"
    return Grid((table.key, *OF_CHOICES), rows, title, OF_CHOICES)


def show_breakdowns(record: RunRecord, console: Console, most: int | None = 20) -> None:
    """Print the stored scores by idiom, proverb or corpus, the most frequent first."""
    for task in record.tasks:
        for breakdown in task.breakdowns:
            show_breakdown(task.task, breakdown, console, most)


def show_breakdown(task: str, breakdown: BreakdownRecord, console: Console, max_groups: int | None = None) -> None:
    """Print every score of at most `max_groups` groups; a group's value is only in its first row."""
    cells = [
        (group.value if index == 0 else "", score.metric, format_marked(score), interval(score), str(score.n))
        for group in breakdown.groups[:max_groups]
        for index, score in enumerate(group.scores)
    ]
    head = (breakdown.by, "metric", "value", "95 % interval", "n")
    console.print()
    Grid(head, cells, f"{task} by {breakdown.by}", RIGHT_ALIGNED).print(console)
    hidden = max(0, len(breakdown.groups) - max_groups) if max_groups is not None else 0
    if hidden:
        say(console, f"  … and {hidden} more in run.json")
