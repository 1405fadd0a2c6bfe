"""The command `figeval benchmark analyze storal`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval import shared_options

if TYPE_CHECKING:
    from figeval.io.observer import Observer
    from figeval.records.findings import Analysis

    from .corpus import Stories

OUTPUT = "results/analysis/storal"
LIBRARIES = ("nltk", "scikit-learn", "simplemma", "numpy", "jieba", "altair", "vl-convert-python")


@click.command("storal", short_help="Recompute the statistics of STORAL.")
@click.option(
    "--output", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option(
    "--language", type=click.Choice(["en", "zh"]), help="Only this language.  [default: all that are available]"
)
@click.option(
    "--topics",
    default="paper",
    show_default=True,
    help="Number of topics; paper: the paper's; rule: the smallest that gives specific ones, which takes minutes.",
)
@click.option(
    "--unlabelled",
    multiple=True,
    metavar="LANGUAGE=FILE",
    help="File of stories without a moral, one a line, e.g. zh=FILE. May be repeated.",
)
@shared_options("seed", "data")
@click.option("--no_plots", is_flag=True, help="Write only numbers; figures need optional packages.")
def storal(
    *, output: Path, language: str | None, topics: str, unlabelled: tuple[str, ...], seed: int, no_plots: bool
) -> None:
    """Recompute the statistics of STORAL: size, outlines, topics, nouns and 5-grams.

    Writes analysis.json, CSV tables, measured.json, and figures as PNG, SVG and HTML.

    Chinese needs your copy of the authors' archive (--data storal=FOLDER). NLTK's data (punkt_tab,
    averaged_perceptron_tagger_eng, and wordnet for kinds of nouns) must be where NLTK looks, e.g. in NLTK_DATA.
    """
    from rich.console import Console

    from figeval.io import plots
    from figeval.records.findings import Analysis
    from figeval.reporting.findings import show
    from figeval.reporting.progress import open_display

    from .corpus import read_files
    from .topic_table import read_count

    count, unlabelled_files = read_count(topics), read_files(unlabelled)
    if not no_plots:
        plots.require()
    observer = open_display(progress=True)
    parts: list[Analysis] = []
    charts: dict[str, Any] = {}
    texts: list[Stories] = []
    with observer.live():
        for stories in read_languages(language, unlabelled_files):
            if isinstance(stories, Analysis):
                parts.append(stories)
                continue
            sections = analyse(stories, count, seed, observer)
            parts += sections
            texts.append(stories)
            charts |= {} if no_plots else figures(sections, stories)
    paths = write(output, parts, texts, f"figeval benchmark analyze storal --topics {topics}")
    console = Console()
    for part in parts:
        show(part, console)
    for name, chart in charts.items():
        paths += plots.save(chart, output, name)
    click.echo(f"\n{len(paths)} files in {output}: {', '.join(path.name for path in paths)}")


def read_languages(language: str | None, unlabelled: Mapping[str, Path]) -> Iterator[Stories | Analysis]:
    """Yield the texts of one language, or of all; without a copy, what is missing for Chinese.

    Raises:
        MissingCopy: Chinese alone is wanted, and there is no copy.
        DataError: English texts or tools are missing, or a copy is damaged.
    """
    from figeval.data import DataContext
    from figeval.data.cache import fetch
    from figeval.errors import MissingCopy
    from figeval.records.findings import Analysis

    from .corpus import LANGUAGES, read

    for code in LANGUAGES if language is None else [language]:
        try:
            yield read(code, DataContext(files(__package__), fetch), unlabelled.get(code))
        except MissingCopy as error:
            if language is not None:
                raise
            yield Analysis(name=LANGUAGES[code], left_out=str(error))


def analyse(stories: Stories, count: int | str, seed: int, observer: Observer) -> list[Analysis]:
    """Return all sections about one language."""
    from .frequent import five_grams, nouns
    from .sizes import outlines, sizes
    from .topic_table import last_count, topic_table

    observer.start(f"topics, {stories.title}", last_count(count, stories.language), unit="topic")
    topics = topic_table(stories, count, seed, observer.reach)
    observer.end(f"{len(topics.listings[0].rows)}")
    observer.say(f"counting words of {len(stories.pairs):,} {stories.title} stories")
    return [sizes(stories), outlines(stories), topics, nouns(stories), five_grams(stories)]


def figures(sections: Sequence[Analysis], stories: Stories) -> dict[str, Any]:
    """Return the charts of one language by file name."""
    from . import figures as draw

    _, _, topics, nouns, _ = sections
    charts = {
        "lengths": draw.lengths(stories),
        "topics": draw.topics(topics, stories),
        "nouns": draw.nouns(nouns, stories),
    }
    return {f"{name}_{stories.language}": chart for name, chart in charts.items()}


def write(output: Path, parts: Sequence[Analysis], texts: Sequence[Stories], command: str) -> list[Path]:
    """Write all files but the figures and return their paths. Raises `RecordError` if they cannot be written."""
    from figeval.data.cache import fetch
    from figeval.io.files import digest_of_file
    from figeval.records.findings import write_analysis

    from ..pairs import ENGLISH

    data = {}
    if any(stories.language == "en" for stories in texts):
        data = {f"storal/{ENGLISH}": digest_of_file(fetch("storal", ENGLISH)).hex()}
    columns: list[tuple[str | int, ...]] = [("language", "story", "words", "sentences")]
    columns += [
        (stories.language, pair.id, len(words), len(sentences))
        for stories in texts
        for pair, words, sentences in zip(stories.pairs, stories.story_words, stories.story_sentences, strict=True)
    ]
    return write_analysis(
        output,
        parts,
        command=command,
        data=data,
        libraries=LIBRARIES,
        columns={"per_story.csv": columns},
    )
