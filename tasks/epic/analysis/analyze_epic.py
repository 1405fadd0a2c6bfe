"""The command `figeval benchmark analyze epic`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .corpus import AnalysedTexts
    from .part import Analysis, Column

DATA = ("punkt_tab", "vader_lexicon", "stopwords")
TAGGER = "averaged_perceptron_tagger_eng"
OUTPUT = "results/analysis/epic"
NO_CLASSIFIER = "since figeval has no classifier of hate speech; the paper's found none in the narratives"
LIBRARIES = ("nltk", "numpy", "scipy", "pyphen", "altair", "vl-convert-python")


@click.command("epic", short_help="Recompute the data analysis of ePiC.")
@click.option(
    "--output", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option("--wordnet", type=click.Path(path_type=Path), help="Folder of NLTK data with corpora/wordnet.")
@click.option("--no_plots", is_flag=True, help="Write only numbers; figures need optional packages.")
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
    from figeval.reporting.findings import show

    from . import corpus

    nltk_data.require((*DATA, TAGGER) if wordnet else DATA)
    if not no_plots:
        plots.require("pyphen")
    content = corpus.read(DataContext(files(__package__), fetch))
    console = Console()
    parts = list(analyze_parts(content, wordnet))
    paths = write(output, content, parts, digest_of_file(fetch("epic", corpus.FILE)).hex())
    for part in parts:
        show(part, console)
    if not no_plots:
        for name, chart in figures(parts).items():
            paths += plots.save(chart, output, name)
    click.echo(f"\n{len(paths)} files in {output}: {', '.join(path.name for path in paths)}")


def analyze_parts(content: AnalysedTexts, wordnet: Path | None) -> Iterator[Analysis]:
    """Yield every part of the analysis, in the order of the paper."""
    from . import gender, hyponyms, likeness, overlap, part, reading, sentiment, sizes, spans

    for module in (sizes, overlap, spans, sentiment, reading, gender):
        yield module.analyse(content)
    yield hyponyms.analyse(content, wordnet)
    yield likeness.analyse(content)
    yield part.Analysis(name="Hate speech", left_out=NO_CLASSIFIER)


def figures(parts: Sequence[Analysis]) -> dict[str, Any]:
    """Return the charts by file name; a chart whose part was left out is replaced or left out too."""
    from . import figures as draw

    sizes, _, spans, sentiment, reading, gender, hyponyms, *_ = parts
    charts = {"sentiment": draw.sentiment(sentiment), "gender": draw.gender(gender)}
    if not reading.left_out:
        charts["reading_ease"] = draw.reading_ease(reading)
    if hyponyms.left_out:
        return {**charts, "lengths": draw.lengths(sizes, spans)}
    return {**charts, "hyponyms": draw.hyponyms(hyponyms)}


def write(folder: Path, corpus: AnalysedTexts, parts: Sequence[Analysis], sha256: str) -> list[Path]:
    """Write all files but the figures and return their paths. Raises `RecordError` if they cannot be written."""
    from figeval.records.findings import write_analysis

    columns = {
        "per_proverb.csv": columns_table("proverb", corpus.proverbs, [part.proverbs for part in parts]),
        "per_narrative.csv": columns_table("narrative", corpus.narratives, [part.narratives for part in parts]),
    }
    data = {"epic/full_dataset.json": sha256}
    return write_analysis(
        folder, parts, command="figeval benchmark analyze epic", data=data, libraries=LIBRARIES, columns=columns
    )


def columns_table(
    kind: str, ids: Iterable[str], groups: Iterable[Mapping[str, Column]]
) -> Iterator[Sequence[str | float | None]]:
    """Yield the header and one row per id, with the columns of all parts."""
    columns = {name: column for group in groups for name, column in group.items()}
    yield (kind, *columns)
    for key in ids:
        yield (key, *(column.get(key) for column in columns.values()))
