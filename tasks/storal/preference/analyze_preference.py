"""The command `figeval analyze preference`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from .sign_test import Preference

HEAD = ("model", "task", "metric", "value", "95 % interval", "n", "clusters won", "tied", "lost", "p")
NUMBERS = HEAD[3:]
READING = (
    "win_antonym is the preference; win_synonym is its control, since a synonym should preserve the meaning "
    "of the moral. "
    "If both are equally large, the preference is one of wording.",
    "win_difference − no_query: with the story minus without it, question by question; if it is not above 0, the "
    "preference does not come from the story. Its interval is that of figeval compare. A model that ties without a "
    "story is held against the story of another example (shuffled_query).",
    "p: exact two-sided sign test over clusters without ties, one test per line and not corrected for their number",
)


@click.command("preference")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "as_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Print a table, or all numbers as one JSON list.",
)
def preference(runs: tuple[Path, ...], as_format: str) -> None:
    """Test whether models prefer a moral to its versions with an antonym and with a synonym.

    Win rates are those of the runs; the sign test counts clusters (morals), not questions. The difference between the
    two win rates is also compared with the difference without the story, or with another one if the model ties
    without any (the floor, one of the run's baselines). No model and no data are needed.

    \b
    figeval run --tasks storal_preference_en --model minilm --output_path runs/minilm
    figeval analyze preference runs/minilm
    """
    from .sign_test import preferences

    found = [one for run in runs for one in preferences(run)]
    if as_format == "json":
        from figeval.cli.output import echo_json

        echo_json([asdict(one) | {"score": one.score.model_dump(mode="json")} for one in found])
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    console = Console()
    Grid(HEAD, list(map(cells, found)), "Preference for the moral over its versions", NUMBERS).print(console)
    for note in (*READING, *notes(found)):
        say(console, f"  {note}")


def cells(one: Preference) -> tuple[str, ...]:
    """Return the cells of one table row."""
    from figeval.reporting.table import interval, number

    score, test = one.score, one.test
    counts = ("–",) * 4
    if test is not None:
        counts = (str(test.wins), str(test.ties), str(test.losses), "–" if test.p is None else f"{test.p:.3g}")
    return (one.model, one.task, named(one), number(score.value), interval(score), str(score.n), *counts)


def named(one: Preference) -> str:
    """Return the name of the metric, with the probe that is subtracted from it, if any."""
    return f"{one.metric} − {one.minus}" if one.minus else one.metric


def notes(found: Sequence[Preference]) -> Iterator[str]:
    """Yield notes on missing tests and on questions that were left out."""
    for one in found:
        where = f"{one.model}, {one.task}, {named(one)}"
        if one.why:
            yield f"{where}: no test, {one.why}"
            continue
        if one.note:
            yield f"{where}: {one.note}"
        if one.unknown:
            yield f"{where}: {one.unknown} questions without scores for all options have no value"
        if one.seen:
            yield f"{where}: {one.seen} questions that the model was trained or chosen on are left out"
    if any(one.test is not None and one.test.p is None for one in found):
        yield "no p if every cluster ties"
