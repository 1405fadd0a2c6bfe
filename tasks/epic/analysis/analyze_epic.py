"""The command `figeval analyze epic`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .corpus import AnalysedTexts
    from .part import AnalysedNumber, Analysis

DATA = ("punkt_tab", "vader_lexicon", "stopwords")
TAGGER = "averaged_perceptron_tagger_eng"
OUTPUT = "results/analysis/epic"


@click.command("epic")
@click.option(
    "--output", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option("--wordnet", type=click.Path(path_type=Path), help="Folder of NLTK data with corpora/wordnet.")
@click.option("--no_plots", is_flag=True, help="Write numbers only, without figures; needs no optional packages.")
def epic(output: Path, wordnet: Path | None, no_plots: bool) -> None:
    """Recompute the data analysis of the ePiC paper.

    \b
    Writes analysis.json, CSV tables, and figures as PNG, SVG and HTML.
    NLTK's data (punkt_tab, vader_lexicon, stopwords) must be where NLTK looks, for example in NLTK_DATA.
    """
    from rich.console import Console

    from figeval.data import DataContext
    from figeval.data.cache import fetch
    from figeval.io import plots
    from figeval.io.files import digest_of_file
    from figeval.language import nltk_data

    from . import corpus, store

    nltk_data.require((*DATA, TAGGER) if wordnet else DATA)
    if not no_plots:
        plots.require("pyphen")
    content = corpus.read(DataContext(files(__package__), fetch))
    console = Console()
    parts = list(analyze_parts(content, wordnet))
    paths = store.write(output, content, parts, digest_of_file(fetch("epic", corpus.FILE)).hex())
    for part in parts:
        show(part, console)
    if not no_plots:
        for name, chart in figures(parts).items():
            paths += plots.save(chart, output, name)
    click.echo(f"\n{len(paths)} files in {output}: {', '.join(path.name for path in paths)}")


def analyze_parts(content: AnalysedTexts, wordnet: Path | None) -> Iterator[Analysis]:
    """Yield every part of the analysis, in the order of the paper."""
    from . import gender, hyponyms, likeness, overlap, reading, sentiment, sizes, spans

    for module in (sizes, overlap, spans, sentiment, reading, gender):
        yield module.analyse(content)
    yield hyponyms.analyse(content, wordnet)
    yield likeness.analyse(content)


def figures(parts: Sequence[Analysis]) -> dict[str, Any]:
    """Return the charts by file name; a chart whose part was left out is replaced or left out too."""
    from . import figures as draw

    sizes, _, spans, sentiment, reading, gender, hyponyms, _ = parts
    charts = {"sentiment": draw.sentiment(sentiment), "gender": draw.gender(gender)}
    if not reading.left_out:
        charts["reading_ease"] = draw.reading_ease(reading)
    if hyponyms.left_out:
        return {**charts, "lengths": draw.lengths(sizes, spans)}
    return {**charts, "hyponyms": draw.hyponyms(hyponyms)}


def show(part: Analysis, console: Any) -> None:
    """Print the measured numbers of a part next to the published ones."""
    from figeval.reporting.grid import Grid, say

    console.print()
    if part.left_out:
        say(console, f"{part.name}: left out, {part.left_out}")
        return
    published = any(finding.published for finding in part.findings)
    head = ("what", "measured", "95 %", "paper", "same digits")[: 5 if published else 2]
    rows = [cells(finding)[: len(head)] for finding in part.findings]
    Grid(head, rows, part.name, right=head[1:4]).print(console)
    for note in dict.fromkeys(finding.note for finding in part.findings if finding.note):
        say(console, f"  {note}")


def cells(finding: AnalysedNumber) -> tuple[str, ...]:
    """Return the cells of one table row."""
    value = "–" if finding.value is None else finding.digits(finding.value)
    interval = "" if finding.interval is None else " to ".join(map(finding.digits, finding.interval))
    verdict = {None: "", True: "yes", False: "no, within the interval" if finding.covers else "no"}[finding.agrees]
    return (finding.name, value, interval, finding.published, verdict)
