"""The command `figeval benchmark build impli-pairs`: pairs of IMPLI's kinds; the rules are in README.md."""

from __future__ import annotations

import heapq
import json
import random
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval.errors import OptionError
from figeval.io.text import near
from figeval.types import JSON

if TYPE_CHECKING:
    from figeval.io.observer import Observer

    from .builder import PairOptions

FILE = click.Path(path_type=Path)
SHEET = "sheets"
DEFINITION_COLUMNS = "--definition_columns"
FAULT_COLUMNS = ("ungrammatical", "does not follow")  # columns of the sheet
FIRST, SECOND = "first sentence", "second sentence"


@click.command("impli-pairs")
@click.option("--sentences", required=True, type=FILE, help="JSONL, CSV, TSV or JSON file of sentences with labels.")
@click.option(
    "--definitions", required=True, type=FILE, help="JSONL, CSV, TSV or JSON file of idioms and their definitions."
)
@click.option("--output", required=True, type=FILE, help="Folder to write to; an interrupted build resumes there.")
@click.option("--name", default="", help="Prefix of the task names.  [default: the name of the folder]")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@click.option("--kinds", default="", help="Kinds to build: ent, lit, adv, ant, met.  [default: all]")
@click.option("--columns", default="", help="Column names in the file of sentences, e.g. sentence=text,label=usage.")
@click.option(DEFINITION_COLUMNS, default="", help="Column names in the file of definitions, e.g. definition=meaning.")
@click.option(
    "--sheet",
    default=100,
    show_default=True,
    type=click.IntRange(0),
    help="Number of pairs of each kind on the annotation sheet.",
)
def impli_pairs(  # noqa: PLR0913 - one argument per option
    *,
    sentences: Path,
    definitions: Path,
    output: Path,
    name: str,
    seed: int,
    kinds: str,
    columns: str,
    definition_columns: str,
    sheet: int,
) -> None:
    """Build inference pairs from sentences with idioms or metaphors.

    `ent` and `lit` replace an idiom that is meant figuratively or literally by its definition (entailment and
    non-entailment); `adv` replaces it by the definition of a similar idiom, `ant` by its own definition with an
    antonym (both non-entailment); `met` replaces a metaphorical word by a literal one (entailment).
    """
    from figeval.data.building import task_prefix
    from figeval.data.row_files import RowFile, read_columns
    from figeval.reporting.progress import open_display

    from .builder import PairOptions
    from .inputs import DEFINITION_FIELDS, SENTENCE_FIELDS
    from .task_files import task_names, warnings

    options = PairOptions(
        sentences=RowFile(
            sentences,
            "--sentences must name a JSONL or CSV file of sentences and labels",
            read_columns(columns, SENTENCE_FIELDS, "sentence=text"),
        ),
        definitions=RowFile(
            definitions,
            "--definitions must name a JSONL or CSV file of idioms and definitions",
            read_columns(definition_columns, DEFINITION_FIELDS, "definition=meaning", DEFINITION_COLUMNS),
            DEFINITION_COLUMNS,
        ),
        name=task_prefix(name or output.resolve().name),
        seed=seed,
        kinds=read_kinds(kinds),
    )
    began = time.monotonic()
    observer = open_display(progress=True)
    with observer.live():
        report = build(options, output, sheet, observer)
    for kind, counts in report["kinds"].items():
        click.echo(f"{kind}: {counts['pairs']} of {counts['sentences']} sentences gave a pair")
    for warning in warnings(report):
        click.echo(f"figeval: {warning[0].lower()}{warning[1:]}", err=True)
    names = ",".join(task_names(options.name, kinds_with_pairs(report)))
    click.echo(f"built in {time.monotonic() - began:.0f} s; the report is {output / 'README.md'}")
    click.echo(f"figeval run --include_path {shlex.quote(str(output))} --tasks {names} --model minilm")


def build(options: PairOptions, output: Path, sheet: int, observer: Observer) -> JSON:
    """Build the pairs and the tasks in a folder and return the report.

    Raises:
        FigevalError: a row of a file is wrong, a package or NLTK's data are missing, or the folder cannot be written.
            The message is one line.
    """
    from figeval.data.building import Stages
    from figeval.data.row_files import read_rows
    from figeval.io.files import replace_text, replacing

    from .builder import PairBuilder, pair_file, stage_key
    from .inputs import read_definitions
    from .task_files import ALL_KINDS, combined_task_file, readme, suite_file, task_file

    check_resources()
    glossary = read_definitions(options.definitions)
    with Stages(output, stage_key(options), observer).open() as stages:
        stages.refuse_others(("located", *options.kinds), "--kinds")
        report = PairBuilder(options, glossary, stages).report()
        kinds = kinds_with_pairs(report)
        pairs = (read_rows(output / pair_file(kind)) for kind in kinds)
        with replacing(output / f"{ALL_KINDS}.jsonl") as stream:
            # In sentence order, so that the first rows are of all kinds.
            for row in heapq.merge(*pairs, key=lambda row: row["provenance"]["row"]):
                stream.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        for kind in kinds:
            replace_text(output / f"{kind}.task.yaml", task_file(options.name, kind))
        replace_text(output / f"{ALL_KINDS}.task.yaml", combined_task_file(options.name))
        replace_text(output / "suite.suite.yaml", suite_file(options.name, kinds))
        if sheet:
            write_sheet(options, output, sheet, kinds)
        replace_text(output / "README.md", readme(options.name, report))
        record = {**report, "files": dict(sorted(stages.checksums().items()))}
        replace_text(output / "report.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return report


def kinds_with_pairs(report: JSON) -> list[str]:
    return [kind for kind, counts in report["kinds"].items() if counts["pairs"]]


def write_sheet(options: PairOptions, output: Path, max_pairs: int, kinds: Sequence[str]) -> None:
    """Write a sheet with pairs of each kind, drawn with the seed, for people to judge; only the key has the kinds.

    `figeval annotate score` reads the sheet back. An existing sheet of the same build is not overwritten.

    Raises:
        OptionError: the folder has the sheet of another build, which may have been filled in.
    """
    from figeval.data.row_files import read_rows
    from figeval.wings.annotation.export import write_sheets
    from figeval.wings.annotation.items import KEY
    from figeval.wings.annotation.written_texts import WrittenText, WrittenTexts

    from .builder import pair_file

    def draw_sample(kind: str) -> Iterator[WrittenText]:
        sample: list[Mapping[str, Any]] = []
        generator = random.Random(f"{options.seed} sheet {kind}")
        for number, row in enumerate(read_rows(output / pair_file(kind))):  # reservoir sampling needs constant memory
            if len(sample) < max_pairs:
                sample.append(row)
            elif (index := generator.randrange(number + 1)) < max_pairs:
                sample[index] = row
        for row in sample:
            yield WrittenText(kind, row["id"], row["idiom"], {FIRST: row["premise"]}, row["hypothesis"])

    texts = tuple(text for kind in kinds for text in draw_sample(kind))
    written_texts = WrittenTexts(f"{options.name}_pairs", FAULT_COLUMNS, texts, tuple(kinds), dict.fromkeys(kinds, 0))
    folder = output / SHEET
    if not (folder / KEY).is_file() or not _is_sheet_of(folder, {text.example for text in texts}):
        write_sheets(folder, written_texts, FAULT_COLUMNS, seed=options.seed)


def _is_sheet_of(folder: Path, pairs: set[str]) -> bool:
    from figeval.wings.annotation.items import read_key

    key = read_key(folder)
    return (folder / key.sheets[0]).is_file() and {item.example for item in key.items.values()} == pairs


def check_resources() -> None:
    """Check that all packages and data needed for the build are there, before anything is read.

    Raises:
        FigevalError: something is missing; the message says how to get it.
    """
    from figeval.language.tagging import reader
    from figeval.language.word_forms import open_lemminflect, open_wordnet

    reader()
    open_lemminflect()
    open_wordnet()


def read_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds that `--kinds` names, in their usual order. Raises `OptionError` for unknown ones."""
    from .kinds import KINDS

    names = {kind.strip() for kind in text.split(",") if kind.strip()} or {*KINDS}
    for kind in sorted(names - {*KINDS}):
        raise OptionError(f"--kinds has no {kind!r}{near(kind, KINDS)}; it has {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in names)
