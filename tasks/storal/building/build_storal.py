"""The command `figeval benchmark build storal`: STORAL's tasks from stories and morals. The rules are in README.md.

`figeval benchmark build storal-items` makes the items of the built-in English tasks again (frozen.py).
"""

from __future__ import annotations

import json
import re
import shlex
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.errors import OptionError
from figeval.io.text import near
from figeval.types import JSON

from .task_files import KINDS, PAPER

if TYPE_CHECKING:
    from figeval.io.observer import Observer

    from .builder import StoralOptions

FILE = click.Path(path_type=Path)


@click.command("storal")
@click.option("--pairs", "path", required=True, type=FILE, help="JSONL, CSV, TSV or JSON file of stories and morals.")
@click.option("--language", default="en", show_default=True, help="Language of the pairs: en, zh or another code.")
@click.option("--output", required=True, type=FILE, help="Folder to write to; an interrupted build resumes there.")
@click.option("--name", default="", help="Prefix of the task names.  [default: the name of the folder]")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@click.option("--tasks", default=",".join(PAPER), show_default=True, help="Tasks to build; preference can be added.")
@click.option(
    "--topics", type=click.IntRange(2), help="Number of topics; by default the smallest that gives specific ones."
)
@click.option("--antonyms", type=FILE, help="TSV file of words and antonyms, instead of WordNet.")
@click.option(
    "--stopwords", type=FILE, help="File of stop words, which separate the phrases of an outline; one per line."
)
@click.option("--columns", default="", help="Column names in the file, e.g. story=fable,moral=lesson.")
@click.option("--deduplicate", is_flag=True, help="Keep only the first of several pairs with the same story.")
@click.option(
    "--compare", multiple=True, type=FILE, help="Count the pairs that are also in this file. May be repeated."
)
def storal(  # noqa: PLR0913 - one argument per option
    *,
    path: Path,
    language: str,
    output: Path,
    name: str,
    seed: int,
    tasks: str,
    topics: int | None,
    antonyms: Path | None,
    stopwords: Path | None,
    columns: str,
    deduplicate: bool,
    compare: tuple[Path, ...],
) -> None:
    """Build moCpt, moPref, st2mo and mo2st from pairs of stories and morals.

    `--tasks preference` builds choices between a moral and its versions with a synonym and an antonym (English only).
    """
    from figeval.data.building import task_prefix
    from figeval.data.row_files import read_columns
    from figeval.reporting.progress import open_display

    from ..pairs import FIELDS, PairFile
    from .builder import StoralOptions
    from .readme import warnings

    language, column_names = read_language(language), read_columns(columns, FIELDS, "story=fable")
    options = StoralOptions(
        file=PairFile(path, language, column_names),
        language=language,
        name=task_prefix(name or output.resolve().name),
        seed=seed,
        tasks=read_tasks(tasks),
        topics=topics,
        antonyms=antonyms,
        stop_words=stopwords,
        deduplicate=deduplicate,
        compare=tuple(PairFile(other, language, column_names) for other in compare),
    )
    began = time.monotonic()
    observer = open_display(progress=True)
    with observer.live():
        report = build(options, output, observer)
    for kind, sizes in report["sizes"].items():
        click.echo(f"{kind}: {', '.join(f'{count} {split}' for split, count in sizes.items())}")
    for warning in warnings(report):
        click.echo(f"figeval: {warning[0].lower()}{warning[1:]}", err=True)
    names = ",".join(f"{options.name}_{kind}" for kind in options.tasks)
    click.echo(f"built in {time.monotonic() - began:.0f} s; the report is {output / 'README.md'}")
    click.echo(f"figeval run --include_path {shlex.quote(str(output))} --tasks {names} --model minilm")


@click.command("storal-items")
@click.option("--output", default="items", show_default=True, type=FILE, help="Folder to write to.")
def storal_items(output: Path) -> None:
    """Rebuild the items of the built-in English STORAL tasks, as ids and positions only."""
    from figeval.data import DataContext
    from figeval.data.cache import fetch

    from ..pairs import english_pairs
    from .frozen import freeze

    pairs = list(english_pairs(DataContext(files(__package__.rpartition(".")[0]), fetch)))
    for name, summary in freeze(pairs, output)["files"].items():
        click.echo(f"{output / name}  {summary['items']} items  {summary['sha256']}")


def build(options: StoralOptions, output: Path, observer: Observer) -> JSON:
    """Build the tasks in a folder and return the report.

    Raises:
        FigevalError: a row of the file is wrong, a resource for the language is missing, or the folder cannot be
            written. The message is one line.
    """
    from figeval.data.building import Stages
    from figeval.io.files import replace_text

    from .builder import AUDIT, StoralBuilder, stage_key
    from .index import read_index
    from .readme import readme
    from .task_files import suite_file, task_file

    check_resources(options)
    index = read_index(options.file, options.seed, deduplicate=options.deduplicate)
    with Stages(output, stage_key(options), observer).open() as stages:
        stages.refuse_others((*options.tasks, AUDIT), "--tasks")
        report = StoralBuilder(options, index, stages).report()
        for kind in options.tasks:
            text = task_file(options.name, kind, options.language, index.by_split)
            replace_text(output / f"{kind}.task.yaml", text)
        replace_text(output / "suite.suite.yaml", suite_file(options.name, options.tasks))
        replace_text(output / "README.md", readme(options.name, report))
        record = {**report, "files": dict(sorted(stages.checksums().items()))}
        replace_text(output / "report.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return report


def check_resources(options: StoralOptions) -> None:
    """Check that all packages, data and options needed for the build are there, before anything is read.

    Raises:
        FigevalError: something is missing; the message says how to get it.
    """
    from .. import extras
    from .versions import versions

    language, tasks = options.language, options.tasks
    if "mopref" in tasks and language != "en" and options.antonyms is None:
        raise OptionError(
            f"there are no antonyms for {language!r}, which mopref needs; give --antonyms FILE (a word, a tab and its "
            "antonym on each line), or leave mopref out of --tasks"
        )
    if "preference" in tasks and language != "en":
        raise OptionError(
            f"there are no synonyms for {language!r}, which preference needs; leave preference out of --tasks"
        )
    if "mo2st" in tasks and language not in ("en", "zh") and options.stop_words is None:
        raise OptionError(
            f"there is no stop list for {language!r}, which the outlines of mo2st need; give --stopwords FILE (one "
            "word per line), or leave mo2st out of --tasks"
        )
    if "mo2st" in tasks or language == "zh":
        extras.load("jieba")
    if {"mopref", "preference"} & {*tasks} or ("mo2st" in tasks and language == "en"):
        extras.smart_stop_words()
    if "mopref" in tasks:
        list(options.antonym_source.replacements("good"))
    if "preference" in tasks:
        versions("Good.", "")
    if "mo2st" in tasks and options.stop_list is None and language == "zh":
        extras.chinese_stop_words()


def read_language(text: str) -> str:
    """Return the code of a language in lower case. Raises `OptionError` for an invalid code."""
    code = text.strip().lower()
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", code):
        raise OptionError(f"--language: {text[:40]!r} is not a language code such as en, zh or pt-br")
    return code


def read_tasks(text: str) -> tuple[str, ...]:
    """Return the kinds of tasks that `--tasks` names, in their usual order. Raises `OptionError` for unknown ones."""
    names = {kind.strip() for kind in text.split(",") if kind.strip()}
    for kind in sorted(names - {*KINDS}):
        raise OptionError(f"--tasks has no {kind!r}{near(kind, KINDS)}; it has {', '.join(KINDS)}")
    if not names:
        raise OptionError(f"--tasks is empty; choose from {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in names)
