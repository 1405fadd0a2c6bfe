"""The command `figeval analyze impli`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from figeval.types import Score

    from .answers import PairAnswer
    from .flexibility import IdiomCount, RankCorrelation
    from .matching import Matched

OUTPUT = "results/analysis/impli"
LEAST = 5  # answered pairs that an idiom needs to be listed as never right
SHOWN = 10  # idioms listed per column


@dataclass(frozen=True)
class ImpliAnalysis:
    """The analysis of one run, `about` which identity, tasks, limit or sample, and split are known.

    `never` maps each column to the idioms without a right answer and the number of their pairs, in descending order.
    """

    model: str
    about: Mapping[str, Any]
    answers: Sequence[PairAnswer]
    counts: Mapping[str, IdiomCount]
    accuracies: Mapping[str, Mapping[str, float]]
    correlations: Sequence[RankCorrelation]
    matched: Sequence[Matched]
    never: Mapping[str, Sequence[tuple[str, int]]]


@click.command("impli")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    show_default=f"{OUTPUT}/ and the name of the run folder",
    help="Folder to write to.",
)
@click.option("--no_plots", is_flag=True, help="Write numbers only, without figures; needs no optional packages.")
def impli(run: Path, output: Path | None, no_plots: bool) -> None:
    """Analyze a run of IMPLI: flexibility of idioms, word overlap, idioms that are always answered wrong.

    \b
    * Spearman's rank correlation between an idiom's flexibility and the accuracy on its pairs;
    * accuracy on pairs matched by the similarity of their sentences;
    * idioms for which every pair is answered wrong.

    Writes analysis.json, CSV tables, and figures as PNG, SVG and HTML. No model is needed.

    \b
    figeval run --tasks impli,nli --model minilm --output_path runs/minilm
    figeval analyze impli runs/minilm
    """
    from rich.console import Console

    from figeval.io import plots

    if not no_plots:
        plots.require()
    found = analysed(run)
    output = output or Path(OUTPUT, run.resolve().name)
    written = store(output, found)
    console = Console()
    show(found, console)
    if not no_plots:
        from . import figures

        drawn = {"distances": figures.distances(found.answers, found.model)}
        if found.correlations:
            drawn["flexibility"] = figures.flexibility(found.counts, found.accuracies, found.correlations, found.model)
        for name, chart in drawn.items():
            written += plots.save(chart, output, name)
    click.echo(f"\n{len(written)} files in {output}: {', '.join(path.name for path in written)}")


def analysed(path: Path) -> ImpliAnalysis:
    """Return the analysis of a run.

    Raises:
        RecordError: there is no run, it has no finished task of IMPLI, or the data changed since it was made.
    """
    from importlib.resources import files

    from figeval.data import DataContext
    from figeval.data.cache import fetch
    from figeval.plugins import plugin_manager
    from figeval.records.run_folder import read_run
    from figeval.runs.harness import Harness
    from figeval.runs.variants import recorded_variant

    from .. import impli_rows
    from .answers import of_idioms, read_answers
    from .flexibility import accuracies, correlated, flexibilities
    from .matching import matched

    record, folder = read_run(path)
    seed, harness = int(record.config.get("seed", 0)), Harness(plugin_manager())
    answers = read_answers(record, folder, lambda task: recorded_variant(task, seed, harness).examples())
    idioms = list(of_idioms(answers))
    counts, by_idiom = flexibilities(impli_rows.open("all", DataContext(files(__package__), fetch))), accuracies(idioms)
    return ImpliAnalysis(
        model=record.model.name,
        about={
            "run": record.identity,
            **{key: record.config.get(key) for key in ("tasks", "limit", "sample", "split")},
        },
        answers=answers,
        counts=counts,
        accuracies=by_idiom,
        correlations=[correlated(column, counts, own) for column, own in by_idiom.items()],
        matched=matched(answers, seed),
        never={column: never_right(column, own, idioms) for column, own in by_idiom.items()},
    )


def never_right(column: str, accuracy: Mapping[str, float], answers: Sequence[PairAnswer]) -> list[tuple[str, int]]:
    """Return the idioms of a column that have at least five answered pairs there and no right answer."""
    from collections import Counter

    pairs = Counter(one.idiom for one in answers if one.task == column and one.right is not None)
    missed = [(name, pairs[name]) for name, value in accuracy.items() if value == 0 and pairs[name] >= LEAST]
    return sorted(missed, key=lambda one: (-one[1], one[0]))


# ---- on disk --------------------------------------------------------------------------------------------------------


def store(folder: Path, found: ImpliAnalysis) -> list[Path]:
    """Write `analysis.json` and the tables and return their paths. Raises `RecordError` if they cannot be written."""
    import csv
    import json

    from figeval.io.storage import cure
    from figeval.io.text import csv_cell
    from figeval.records.result_json import to_json

    content = {
        "model": found.model,
        **found.about,
        "pairs": len(found.answers),
        "flexibility": [asdict(one) for one in found.correlations],
        "matched": to_json(found.matched),
        "never_right": {column: [list(one) for one in own] for column, own in found.never.items()},
    }
    columns = list(found.accuracies)
    idioms: list[Sequence[Any]] = [("idiom", "occurrences", "varied", "flexibility", *columns)]
    for name, count in found.counts.items():
        own = [found.accuracies[column].get(name) for column in columns]
        idioms.append((name, count.occurrences, count.varied, count.flexibility, *own))
    tables = {"idioms.csv": idioms, "distances.csv": list(_distances(found.answers))}
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (folder / "analysis.json").write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            with (folder / name).open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)
    return [folder / name for name in ("analysis.json", *tables)]


def _distances(answers: Sequence[PairAnswer]) -> Iterator[Sequence[Any]]:
    from .figures import BIN, parts
    from .matching import histogram

    yield ("pairs", "answer", "from", "to", "n")
    for title, own in parts(answers).items():
        for (_, is_right), bins in sorted(histogram(own, BIN).items()):
            for edge, n in sorted(bins.items()):
                yield (title, "right" if is_right else "wrong", edge, edge + BIN - 1, n)


# ---- on the terminal ------------------------------------------------------------------------------------------------


def show(found: ImpliAnalysis, console: Any) -> None:
    """Print the tables and their caveats."""
    from figeval.reporting.grid import say

    show_correlations(found, console)
    if found.about["limit"]:
        say(console, f"  --limit {found.about['limit']}: the first examples of each task, not a random sample")
    if found.about["sample"]:
        say(console, f"  --sample {found.about['sample']}: random examples of each task")
    console.print()
    show_matched(found.matched, console)
    for column, missed in found.never.items():
        if missed:
            names = ", ".join(f"{name} ({n})" for name, n in missed[:SHOWN])
            rest = f" and {len(missed) - SHOWN} more in analysis.json" if len(missed) > SHOWN else ""
            say(console, f"  {column}: never right about {names}{rest}")


def show_correlations(found: ImpliAnalysis, console: Any) -> None:
    """Print the correlations of flexibility and accuracy next to the paper's."""
    from figeval.reporting.grid import Grid, say

    from .flexibility import MISPRINT, PUBLISHED

    rows: list[tuple[str, ...]] = []
    for one in found.correlations:
        r = "–" if one.r is None else f"{one.r:.3f}"
        numbers = (r, "–", "–") if one.p is None else (r, f"{one.low:.3f} to {one.high:.3f}", f"{one.p:.3g}")
        paper = PUBLISHED.get(one.column)
        rows.append((one.column, *numbers, str(one.n), f"r {paper[0]}, p {paper[1]}" if paper else ""))
    head = ("column", "Spearman's r", "95 % interval", "p", "idioms", "paper (RoBERTa-base)")
    Grid(head, rows, f"flexibility of idioms and accuracy: {found.model}", head[1:5]).print(console)
    for one in found.correlations:
        if one.why:
            say(console, f"  {one.column}: no {'correlation' if one.r is None else 'p and interval'}, {one.why}")
    if any(one.column in PUBLISHED for one in found.correlations):
        say(console, f"  paper: {MISPRINT}")


def show_matched(found: Sequence[Matched], console: Any) -> None:
    """Print the accuracies on pairs matched in similarity, and why intervals are missing."""
    from figeval.reporting.grid import Grid, say

    if not found:
        say(console, "  no accuracy on pairs matched by similarity: all pairs of the run have the same label")
        return
    head = ("pairs", "balanced_acc", "95 % interval", "matched", "interval of it", "deciles", "n")
    rows = [
        (each.group, *_cells(each.plain), *_cells(each.matched), str(each.deciles), str(each.matched.n))
        for each in found
    ]
    Grid(head, rows, "accuracy on pairs matched by similarity", head[1:]).print(console)
    told = "matched: mean over deciles of similarity (1 − Levenshtein distance / length) of balanced accuracy, each "
    say(console, f"  {told}weighted by its number of pairs of the rarer kind")
    for each in found:
        if each.left_out:
            say(console, f"  {each.group}: {each.left_out} pairs in deciles with one right answer only are left out")
        for score, what in ((each.plain, "balanced_acc"), (each.matched, "matched")):
            if score.low is None:
                say(console, f"  {each.group}: no interval of {what}: {score.interval.reason}")


def _cells(score: Score) -> tuple[str, str]:
    from figeval.records.schema import ScoreRecord
    from figeval.reporting.table import interval, number

    return number(score.value), interval(ScoreRecord.of(score))
