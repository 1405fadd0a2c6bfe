"""`figeval labels`: precision, recall and F1 of every label, computed from stored runs.

The rows of a run hold the counts behind macro-F1: per label the true positives, the predictions and the gold labels. So
no model is needed, and the table agrees with the run's macro-F1 to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from figeval.records.schema import TaskRecord
    from figeval.types import Score

FEATURES = "macro_f1"
TRUE, PREDICTED, GOLD = range(3)
MEASURES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # of sums (3, …): numerator, denominator
    "precision": (lambda sums: sums[TRUE], lambda sums: sums[PREDICTED]),
    "recall": (lambda sums: sums[TRUE], lambda sums: sums[GOLD]),
    "f1": (lambda sums: 2 * sums[TRUE], lambda sums: sums[PREDICTED] + sums[GOLD]),
}


@click.command(short_help="Print precision, recall and F1 of every label.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help="Only this task.  [default: every classification task of the run]")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def labels(run: Path, task: str | None, as_json: bool) -> None:
    """Print how often each label was right, how often it was predicted, and its precision, recall and F1, with 95 %
    intervals that take clusters into account.

    \b
    figeval labels results/runs/minilm
    figeval labels results/runs/minilm --task isarcasm_b_en --json
    """
    from rich.console import Console

    from figeval.cli.shared import echo_json
    from figeval.records.run_folder import RunFolder, find_record, read_run
    from figeval.reporting.grid import say

    record, _ = read_run(run)
    records = {
        task_record.task: task_record
        for task_record in record.tasks
        if FEATURES in {score.metric for score in task_record.scores}
    }
    selected = _select_tasks(run, task, records)
    folder = RunFolder(find_record(run).parent)
    lines_by_task = {
        task_record.task: list(_of_task(task_record, folder.rows(task_record.task), int(record.config["seed"])))
        for task_record in selected
    }
    if as_json:
        echo_json(lines_by_task)
        return
    console = Console()
    for name, lines in lines_by_task.items():
        _grid(f"{name}, {record.model.name}", lines).print(console)
    say(console, "A dash: no text has the label, or it was never predicted, so the number is undefined.")


def _select_tasks(run: Path, task: str | None, records: dict[str, TaskRecord]) -> list[TaskRecord]:
    """Return the tasks to print. Raises `RecordError` if there are none."""
    from figeval.errors import RecordError
    from figeval.io.text import near

    if task is not None and task not in records:
        has = ", ".join(records) or "none with labels"
        raise RecordError(f"{run} has no scores of labels for {task!r}{near(task, records)}; it has {has}")
    if not records:
        table = f"the metric {FEATURES}, whose counts the table needs"
        raise RecordError(f"{run} has no task with {table}; add it to --metrics")
    return [records[task]] if task is not None else list(records.values())


def _of_task(task: TaskRecord, rows: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one line of the table per label: its counts, and a score for each measure."""
    import numpy as np

    pairs = [(row["cluster"], row["metrics"].get(FEATURES)) for row in rows]
    counted = [(cluster, features) for cluster, features in pairs if isinstance(features, list)]
    names = task.settings["labels"]
    for index, label in enumerate(names):
        counts = [(cluster, tuple(features[index :: len(names)])) for cluster, features in counted]
        total = np.sum([label_counts for _, label_counts in counts], axis=0) if counts else np.zeros(3)
        scores = {name: _score(name, counts, seed) for name in MEASURES}
        yield {
            "label": label,
            "gold": float(total[GOLD]),
            "predicted": float(total[PREDICTED]),
            **{name: {"value": score.value, "low": score.low, "high": score.high} for name, score in scores.items()},
        }


def _score(measure: str, counts: Sequence[tuple[str | None, tuple[float, ...]]], seed: int) -> Score:
    import numpy as np

    from figeval.metrics.aggregation import MetricAggregator
    from figeval.metrics.statistic import Statistic, ratio

    upper, lower = MEASURES[measure]

    def combine(sums: Any) -> Any:
        by_count = np.moveaxis(sums, -1, 0)
        return ratio(np.stack((upper(by_count), lower(by_count)), axis=-1))

    aggregator = MetricAggregator(measure, Statistic(lambda _example, _prediction: None, combine))
    for cluster, label_counts in counts:
        aggregator.add(cluster, label_counts)
    return aggregator.score(seed)


def _grid(title: str, lines: Sequence[dict[str, Any]]) -> Any:
    from figeval.reporting.grid import Grid, format_interval, format_number

    head = ("label", "gold", "predicted", *(column for name in MEASURES for column in (name, "95 % interval")))
    cells = []
    for line in lines:
        scores = [line[name] for name in MEASURES]
        pairs = ((format_number(score["value"]), format_interval(score["low"], score["high"])) for score in scores)
        counts = (f"{line['gold']:g}", f"{line['predicted']:.6g}")
        cells.append((line["label"], *counts, *(cell for pair in pairs for cell in pair)))
    return Grid(head, cells, title=title, right=set(head[1:]))
