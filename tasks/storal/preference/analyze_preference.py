"""The command `figeval benchmark analyze preference`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from figeval.records.reference import MeasuredNumber

    from .sign_test import Preference

HEAD = ("model", "task", "metric", "value", "95 % interval", "n", "clusters won", "tied", "lost", "p")
NUMBERS = HEAD[3:]
TABLE_COLUMNS = {"win_synonym": "true_vs_syn", "win_antonym": "true_vs_ant", "win_synonym_antonym": "syn_vs_ant"}
SOURCE = (
    "figeval benchmark analyze preference; numbers without a valid test or on examples that the model has seen are "
    "left out"
)
READING = (
    "win_antonym is the preference; win_synonym is its control, since a synonym should preserve the meaning "
    "of the moral. "
    "If both are equally large, the preference is one of wording.",
    "win_synonym_antonym is the synonym version against the antonym version: neither has the words of the moral",
    "win_difference − no_query: with the story minus without it, question by question; if it is not above 0, the "
    "preference does not come from the story. Its interval is that of figeval compare. A model that ties without a "
    "story is held against the story of another example (shuffled_query).",
    "p: exact two-sided sign test over clusters without ties, one test per line and not corrected for their number",
)


@click.command("preference", short_help="Compare a moral with its rewritten versions.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "as_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Print a table, or all numbers as one JSON list.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for measured.json, which `figeval export --layout storal_table_18 --measured` reads.",
)
def preference(runs: tuple[Path, ...], as_format: str, output: Path | None) -> None:
    """Test whether models prefer a moral to its versions with an antonym and with a synonym.

    The two versions are also compared with each other. Win rates are those of the runs; the sign test counts clusters
    (morals), not questions. The difference between the win rates of the moral is also compared with the difference
    without the story, or with another one if the model ties without any (the floor, one of the run's baselines). No
    model and no data are needed.

    \b
    figeval run --tasks storal_preference_en --model minilm --output_path runs/minilm
    figeval benchmark analyze preference runs/minilm
    """
    from .sign_test import preferences

    by_run = [(run, preferences(run)) for run in runs]
    win_rates = [win_rate for _, run_rates in by_run for win_rate in run_rates]
    if output is not None:
        write_table_numbers(output, by_run)
    if as_format == "json":
        from figeval.cli.shared import echo_json

        echo_json([asdict(win_rate) | {"score": win_rate.score.model_dump(mode="json")} for win_rate in win_rates])
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid, print_grids

    console = Console()
    grid = Grid(HEAD, list(map(cells, win_rates)), "Preference for the moral over its versions", NUMBERS)
    print_grids(console, [grid], (*READING, *notes(win_rates)))


def write_table_numbers(folder: Path, by_run: Sequence[tuple[Path, Sequence[Preference]]]) -> Path:
    """Write the numbers of runs in Table 18 to a folder and return the file.

    Raises:
        RecordError: two runs have the same model and task, or the folder cannot be written.
    """
    from figeval.errors import RecordError
    from figeval.io.files import cure
    from figeval.records.reference import MeasuredNumbers, write_measured

    numbers: dict[tuple[str, str, str], MeasuredNumber] = {}
    for run, win_rates in by_run:
        for number in table_numbers(win_rates):
            if numbers.setdefault((number.part, number.metric, number.model), number) is not number:
                raise RecordError(f"{run}: another run already has {number.part} of {number.model}; leave one out")
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
    return write_measured(folder, MeasuredNumbers(source=SOURCE, numbers=tuple(numbers.values())), "--output")


def table_numbers(win_rates: Sequence[Preference]) -> Iterator[MeasuredNumber]:
    """Yield the numbers of Table 18 of a run; a probe, such as the model without the story, has a row of its own."""
    from figeval.records.reference import MeasuredNumber

    for win_rate in win_rates:
        column, score, test = TABLE_COLUMNS.get(win_rate.metric), win_rate.score, win_rate.test
        if column is None or test is None or score.value is None:
            continue
        task, _, probe = win_rate.task.partition("@")
        model = f"{win_rate.model}, {probe}" if probe else win_rate.model
        number = MeasuredNumber(part=task, metric=f"win_{column}", model=model, value=score.value, n=score.n)
        yield number.model_copy(update={"low": score.low, "high": score.high})
        if test.p is not None:
            yield number.model_copy(update={"metric": f"p_{column}", "value": test.p})


def cells(win_rate: Preference) -> tuple[str, ...]:
    """Return the cells of one table row."""
    from figeval.reporting.grid import format_number
    from figeval.reporting.table import interval

    score, test = win_rate.score, win_rate.test
    counts = ("–",) * 4
    if test is not None:
        counts = (str(test.wins), str(test.ties), str(test.losses), "–" if test.p is None else f"{test.p:.3g}")
    return (
        win_rate.model,
        win_rate.task,
        metric_label(win_rate),
        format_number(score.value),
        interval(score),
        str(score.n),
        *counts,
    )


def metric_label(win_rate: Preference) -> str:
    """Return the name of the metric, with the probe that is subtracted from it, if any."""
    return f"{win_rate.metric} − {win_rate.minus}" if win_rate.minus else win_rate.metric


def notes(win_rates: Sequence[Preference]) -> Iterator[str]:
    """Yield notes on missing tests and on questions that were left out."""
    for win_rate in win_rates:
        label = f"{win_rate.model}, {win_rate.task}, {metric_label(win_rate)}"
        if win_rate.why:
            yield f"{label}: no test, {win_rate.why}"
            continue
        if win_rate.note:
            yield f"{label}: {win_rate.note}"
        if win_rate.unknown:
            yield f"{label}: {win_rate.unknown} questions without scores for all options have no value"
        if win_rate.seen:
            yield f"{label}: {win_rate.seen} questions that the model was trained or chosen on are left out"
    if any(win_rate.test is not None and win_rate.test.p is None for win_rate in win_rates):
        yield "no p if every cluster ties"
