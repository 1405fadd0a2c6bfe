"""The command `figeval benchmark analyze impli`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from figeval.records.reference import MeasuredNumbers
    from figeval.types import Score

    from .answers import PairAnswer
    from .flexibility import IdiomCount, RankCorrelation
    from .matching import MatchedAccuracy

OUTPUT = "results/analysis/impli"
MIN_PAIRS = 5  # answered pairs that an idiom needs to be listed as never right
MAX_LISTED_IDIOMS = 10  # idioms listed per column


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
    matched_accuracies: Sequence[MatchedAccuracy]
    never: Mapping[str, Sequence[tuple[str, int]]]


@click.command("impli", short_help="Analyze a run of IMPLI.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    show_default=f"{OUTPUT}/ and the name of the run folder",
    help="Folder to write to.",
)
@click.option("--no_plots", is_flag=True, help="Write only numbers; figures need optional packages.")
def impli(run: Path, output: Path | None, no_plots: bool) -> None:
    """Analyze a run of IMPLI: flexibility of idioms, word overlap, idioms that are always answered wrong.

    \b
    * Spearman's rank correlation between an idiom's flexibility and the accuracy on its pairs;
    * accuracy on pairs matched by the similarity of their sentences;
    * idioms for which every pair is answered wrong.

    Writes analysis.json, CSV tables, measured.json for `figeval export`, and figures as PNG, SVG and HTML. No model is
    needed.

    \b
    figeval run --tasks impli,nli --model minilm --output_path runs/minilm
    figeval benchmark analyze impli runs/minilm
    """
    from rich.console import Console

    from figeval.io import plots

    if not no_plots:
        plots.require()
    analysis = analyze_run(run)
    output = output or Path(OUTPUT, run.resolve().name)
    paths = store(output, analysis)
    console = Console()
    show(analysis, console)
    if not no_plots:
        from . import figures

        charts = {"distances": figures.distances(analysis.answers, analysis.model)}
        if analysis.correlations:
            charts["flexibility"] = figures.flexibility(
                analysis.counts, analysis.accuracies, analysis.correlations, analysis.model
            )
        for name, chart in charts.items():
            paths += plots.save(chart, output, name)
    click.echo(f"\n{len(paths)} files in {output}: {', '.join(path.name for path in paths)}")


def analyze_run(path: Path) -> ImpliAnalysis:
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
    from figeval.runs.stored import recorded_variant

    from .. import impli_rows
    from .answers import of_idioms, read_answers
    from .flexibility import accuracies, correlate, flexibilities
    from .matching import matched_accuracies

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
        correlations=[correlate(column, counts, accuracy) for column, accuracy in by_idiom.items()],
        matched_accuracies=matched_accuracies(answers, seed),
        never={column: never_right(column, accuracy, idioms) for column, accuracy in by_idiom.items()},
    )


def never_right(column: str, accuracy: Mapping[str, float], answers: Sequence[PairAnswer]) -> list[tuple[str, int]]:
    """Return the idioms of a column that have at least five answered pairs there and no right answer."""
    from collections import Counter

    pairs = Counter(answer.idiom for answer in answers if answer.task == column and answer.right is not None)
    counts = [(name, pairs[name]) for name, value in accuracy.items() if value == 0 and pairs[name] >= MIN_PAIRS]
    return sorted(counts, key=lambda idiom_count: (-idiom_count[1], idiom_count[0]))


# ---- on disk --------------------------------------------------------------------------------------------------------


def store(folder: Path, analysis: ImpliAnalysis) -> list[Path]:
    """Write `analysis.json` and the tables and return their paths. Raises `RecordError` if they cannot be written."""
    import json

    from figeval.io.files import cure
    from figeval.records.findings import save_csv
    from figeval.records.reference import write_measured
    from figeval.records.schema import to_json

    content = {
        "model": analysis.model,
        **analysis.about,
        "pairs": len(analysis.answers),
        "flexibility": [asdict(correlation) for correlation in analysis.correlations],
        "matched": to_json(analysis.matched_accuracies),
        "never_right": {
            column: [list(idiom_count) for idiom_count in idiom_counts]
            for column, idiom_counts in analysis.never.items()
        },
    }
    columns = list(analysis.accuracies)
    idioms: list[Sequence[Any]] = [("idiom", "occurrences", "varied", "flexibility", *columns)]
    for name, count in analysis.counts.items():
        idiom_accuracies = [analysis.accuracies[column].get(name) for column in columns]
        idioms.append((name, count.occurrences, count.varied, count.flexibility, *idiom_accuracies))
    tables = {"idioms.csv": idioms, "distances.csv": list(_distances(analysis.answers))}
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (folder / "analysis.json").write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            save_csv(folder / name, rows)
    measured_path = write_measured(folder, cells(analysis), "--output")
    return [*(folder / name for name in ("analysis.json", *tables)), measured_path]


def cells(analysis: ImpliAnalysis) -> MeasuredNumbers:
    """Return the correlations, which the paper has in its text, for `figeval export --measured`."""
    from figeval.records.reference import MeasuredNumber, MeasuredNumbers

    numbers = [
        MeasuredNumber(
            part=f"{correlation.column}_flexibility",
            metric=metric,
            model=analysis.model,
            value=value,
            low=low,
            high=high,
            n=correlation.n,
        )
        for correlation in analysis.correlations
        for metric, value, low, high in (
            ("r", correlation.r, correlation.low, correlation.high),
            ("p", correlation.p, None, None),
        )
        if value is not None
    ]
    return MeasuredNumbers(
        source=f"figeval benchmark analyze impli of run {analysis.about['run']}", numbers=tuple(numbers)
    )


def _distances(answers: Sequence[PairAnswer]) -> Iterator[Sequence[Any]]:
    from .figures import BIN, parts
    from .matching import histogram

    yield ("pairs", "answer", "from", "to", "n")
    for title, group in parts(answers).items():
        for (_, is_right), bins in sorted(histogram(group, BIN).items()):
            for edge, n in sorted(bins.items()):
                yield (title, "right" if is_right else "wrong", edge, edge + BIN - 1, n)


# ---- on the terminal ------------------------------------------------------------------------------------------------


def show(analysis: ImpliAnalysis, console: Any) -> None:
    """Print the tables and their caveats."""
    from figeval.reporting.grid import say

    show_correlations(analysis, console)
    if analysis.about["limit"]:
        say(console, f"  --limit {analysis.about['limit']}: the first examples of each task, not a random sample")
    if analysis.about["sample"]:
        say(console, f"  --sample {analysis.about['sample']}: random examples of each task")
    console.print()
    show_matched(analysis.matched_accuracies, console)
    for column, idiom_counts in analysis.never.items():
        if idiom_counts:
            names = ", ".join(f"{name} ({n})" for name, n in idiom_counts[:MAX_LISTED_IDIOMS])
            hidden = len(idiom_counts) - MAX_LISTED_IDIOMS
            remainder = f" and {hidden} more in analysis.json" if hidden > 0 else ""
            say(console, f"  {column}: never right about {names}{remainder}")


def show_correlations(analysis: ImpliAnalysis, console: Any) -> None:
    """Print the correlations of flexibility and accuracy next to the paper's."""
    from figeval.reporting.grid import Grid, say

    from .flexibility import MISPRINT, PUBLISHED

    rows: list[tuple[str, ...]] = []
    for correlation in analysis.correlations:
        r = "–" if correlation.r is None else f"{correlation.r:.3f}"
        numbers = (
            (r, "–", "–")
            if correlation.p is None
            else (r, f"{correlation.low:.3f} to {correlation.high:.3f}", f"{correlation.p:.3g}")
        )
        paper = PUBLISHED.get(correlation.column)
        rows.append((correlation.column, *numbers, str(correlation.n), f"r {paper[0]}, p {paper[1]}" if paper else ""))
    head = ("column", "Spearman's r", "95 % interval", "p", "idioms", "paper (RoBERTa-base)")
    Grid(head, rows, f"flexibility of idioms and accuracy: {analysis.model}", head[1:5]).print(console)
    for correlation in analysis.correlations:
        if correlation.why:
            missing = "correlation" if correlation.r is None else "p and interval"
            say(console, f"  {correlation.column}: no {missing}, {correlation.why}")
    if any(correlation.column in PUBLISHED for correlation in analysis.correlations):
        say(console, f"  paper: {MISPRINT}")


def show_matched(groups: Sequence[MatchedAccuracy], console: Any) -> None:
    """Print the accuracies on pairs matched in similarity, and why intervals are missing."""
    from figeval.reporting.grid import Grid, say

    if not groups:
        say(console, "  no accuracy on pairs matched by similarity: all pairs of the run have the same label")
        return
    head = ("pairs", "balanced_acc", "95 % interval", "matched", "interval of it", "deciles", "n")
    rows = [
        (group.group, *_cells(group.plain), *_cells(group.matched), str(group.deciles), str(group.matched.n))
        for group in groups
    ]
    Grid(head, rows, "accuracy on pairs matched by similarity", head[1:]).print(console)
    mean = "mean over deciles of similarity (1 − Levenshtein distance / length) of balanced accuracy"
    say(console, f"  matched: {mean}, each weighted by its number of pairs of the rarer kind")
    for group in groups:
        if group.left_out:
            say(console, f"  {group.group}: {group.left_out} pairs in deciles with one right answer only are left out")
        for score, name in ((group.plain, "balanced_acc"), (group.matched, "matched")):
            if score.low is None:
                say(console, f"  {group.group}: no interval of {name}: {score.interval.reason}")


def _cells(score: Score) -> tuple[str, str]:
    from figeval.reporting.grid import format_interval, format_number

    return format_number(score.value), format_interval(score.low, score.high, reliable=score.interval.reliable)
