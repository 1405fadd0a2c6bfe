"""Command `figeval annotate`: what people and models judge (`export`, `sheets`), where, and the results of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from figeval import print_result, shared_options
from figeval.cli.shared import C, HeadedCommand, as_latex, echo, include_path, option_under
from figeval.io.text import pluralize

PATH = click.Path(path_type=Path)
item_option, annotator_option = option_under("What is judged"), option_under("Annotators")
battle_option, output_option = option_under("Battles"), option_under("Output")
judgement_option, result_option = option_under("Judgements"), option_under("Results")


def split_at_commas(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Split e.g. `not a moral,unrelated` into ("not a moral", "unrelated"); names may contain blanks."""
    return tuple(part.strip() for part in value.split(",")) if value.strip() else ()


def read_battles(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Read a number of battles, or `all`."""
    if value is None or value == "all":
        return value
    if not value.isdecimal() or not 0 < len(value) < 10 or not int(value):
        raise click.BadParameter(f"{value!r:.60} is neither a number nor all")
    return int(value)


def read_thresholds(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Read e.g. `quality=3` as {"quality": "3"}."""
    thresholds = {}
    for text in value:
        name, _, label = (part.strip() for part in text.rpartition("="))
        if not (name and label):
            raise click.BadParameter(f"{text!r:.60} is not NAME=NUMBER, such as quality=3")
        if name in thresholds:
            raise click.BadParameter(f"{name!r:.60} has two; import once with each")
        thresholds[name] = label
    return thresholds


def instructions(default: str) -> Callable[[C], C]:
    """Return the option `--instructions`, whose default is a text about something."""
    text = f'What annotators are told: a text, or a file with one; "" for nothing.  [default: a text about {default}]'
    return annotator_option("--instructions", metavar="TEXT|FILE", help=text)


def annotators(text: str) -> Callable[[C], C]:
    """Return the option `--annotators` with this help."""
    return annotator_option("--annotators", type=click.IntRange(1, 99), default=1, show_default=True, help=text)


sample_size = item_option(
    "--n", type=click.IntRange(min=1), default=50, show_default=True, help="Number of examples to draw."
)
together = item_option(
    "--together",
    metavar="example|cluster|NAME",
    help="Keep the items of an example, of a cluster, or with the same NAME in meta side by side. Clusters and NAMEs "
    "are drawn whole, so there may be more examples than --n.",
)
references = item_option("--references", is_flag=True, help="Also show the reference of each example, as a control.")


@click.group()
def annotate() -> None:
    """Have people judge the texts that models wrote, without knowing who wrote them."""


@annotate.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--output", "-o", required=True, type=PATH, help="Folder to write the sheets and their key to.")
@click.option("--task", help="Task whose texts are judged; needed only if the runs share several.")
@sample_size
@annotators("Number of sheets, one per annotator.")
@references
@together
@click.option(
    "--errors",
    default="",
    metavar="A,B,…",
    callback=split_at_commas,
    help="Error types, one column each.  [default: the error_types of the task]",
)
@instructions("the error types")
@shared_options("seed")
@include_path
def sheets(  # noqa: PLR0913 - one argument per option
    *,
    runs: tuple[Path, ...],
    output: Path,
    task: str | None,
    n: int,
    annotators: int,
    references: bool,
    together: str | None,
    errors: tuple[str, ...],
    instructions: str | None,
    seed: int,
    include_path: tuple[Path, ...],
) -> None:
    """Write CSV sheets with the texts of one or several runs, in a random order and without names.

    Each sheet has all texts of the same examples, an empty column for each error type, to be filled in with yes or no,
    and one for comments. instructions.txt says how to fill them in. key.json says who wrote each text: keep it from the
    annotators. The sheets contain texts of the benchmark, so its licence determines who may have them.

    \b
    figeval annotate sheets runs/a runs/b --n 30 --annotators 2 --references --output sheets
    """
    from figeval import Harness
    from figeval.wings.annotation.export import write_sheets
    from figeval.wings.annotation.items import INSTRUCTIONS, KEY
    from figeval.wings.annotation.questions import read_instructions
    from figeval.wings.annotation.written_texts import Draw, read_texts

    text = None if instructions is None else read_instructions(instructions)
    draw = Draw(n=n, seed=seed, together=together)
    written = read_texts(runs, task, draw, Harness(include=include_path), references=references)
    key = write_sheets(output, written, errors, annotators=annotators, seed=seed, instructions=text)
    examples = len({item.example for item in key.items.values()})
    texts = f"{pluralize(len(key.items), 'text')} for {pluralize(examples, 'example')}"
    echo(f"{texts} of {key.task}: {', '.join(key.sheets)}")
    columns = "column" if len(key.error_types) == 1 else "columns"
    echo(f"{columns} to fill in with yes or no: {', '.join(key.error_types)}")
    for author, count in key.not_written.items():
        echo(f"{author}: {pluralize(count, 'text')} in the sample not written")
    if key.guidelines:
        echo(f"{output / INSTRUCTIONS} tells annotators what to do; give it to them with the sheets")
    echo(f"{output / KEY} says who wrote each text; keep it from the annotators")


@annotate.command()
@click.argument("folder", type=PATH)
@click.argument("files", nargs=-1, metavar="[SHEET]...", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
@as_latex
def score(folder: Path, files: tuple[Path, ...], as_json: bool, as_latex: bool) -> None:
    """Score the filled-in sheets in FOLDER, or SHEETs from elsewhere.

    Prints the share of texts with each error per model with 95 % intervals, and the agreement of the annotators. A cell
    is yes (y, 1, x, true), no (n, 0, false) or empty; an empty cell does not count as a judgement.

    \b
    figeval annotate score sheets
    figeval annotate score sheets returned/anna.csv returned/ben.csv
    """
    from figeval import DataError
    from figeval.wings.annotation.error_shares import score_sheets
    from figeval.wings.annotation.items import read_key

    key = read_key(folder)
    shares = score_sheets(key, files or [folder / sheet for sheet in key.sheets])
    if shares.is_empty and not (as_json or as_latex):
        raise DataError(f"{key.task}: nothing has been filled in yet")
    print_result(shares, as_json=as_json, as_latex=as_latex)


@annotate.command(cls=HeadedCommand)
@click.argument("runs", nargs=-1, metavar="[RUN]...", type=PATH)
@output_option("--output", "-o", required=True, type=PATH, help="Folder to write the items and their key to.")
@item_option("--task", help="Task whose texts or examples are judged, or whose questions people answer.")
@sample_size
@item_option(
    "--criteria",
    default="",
    metavar="NAME=SCALE,…",
    callback=split_at_commas,
    help="Criteria with their scales, e.g. fluency=1-5,coherence=yes/no, or a task whose criteria are used; for "
    "battles, names alone.  [default: those of the task; for battles, preference]",
)
@output_option(
    "--to", type=click.Choice(["csv", "label_studio"]), default="csv", show_default=True, help="Format of the items."
)
@annotators("Number of CSV sheets, one per annotator.")
@annotator_option(
    "--checks", type=click.IntRange(0, 99), default=2, show_default=True, help="Number of attention checks to mix in."
)
@references
@together
@item_option(
    "--categories",
    default="",
    metavar="A,B,…",
    callback=split_at_commas,
    help="Add a column for one of these categories, e.g. kinds of errors.",
)
@battle_option(
    "--battles",
    metavar="N|all",
    callback=read_battles,
    help="Show texts of two systems side by side, and ask which is better: N battles, or each pair of systems on each "
    "example.",
)
@battle_option(
    "--overlap",
    type=click.FloatRange(0, 1),
    help="Share of the battles that all annotators judge; each other battle is judged by one.  [default: 0.2]",
)
@battle_option(
    "--both_orders",
    type=click.FloatRange(0, 1),
    help="Share of the battles that are also shown in the other order.  [default: 0]",
)
@instructions("the criteria or the task")
@shared_options("seed")
@include_path
def export(*, runs: tuple[Path, ...], **options: Any) -> None:
    """Write items for annotators, in a random order and without names: texts of runs, examples of a task, or questions.

    Without RUN, people judge the examples of --task by --criteria or the criteria of the task: whether spans are well
    aligned, labels are right, or reference texts are good. If it is a choice task and there are no --criteria, they
    answer its questions: a human baseline. With --battles, they choose between the texts of two systems; each annotator
    gets a part in which pairs and orders are balanced. key.json says who wrote each text and which answers are right:
    keep it from the annotators. The items contain texts of the benchmark, so its licence determines who may have them.

    \b
    figeval annotate export runs/a runs/b --criteria fluency=1-5,coherence=yes/no --output items
    figeval annotate export runs/a --criteria epic_narrative_unseen --to label_studio --output items
    figeval annotate export --task epic_alignment --together cluster --output items
    figeval annotate export runs/a runs/b runs/c --battles 300 --annotators 3 --references --output battles
    figeval annotate export --task epic_mcq --n 100 --annotators 3 --instructions guidelines.md -o items
    """
    from figeval import export_items

    if not runs and options["task"] is None:
        raise click.UsageError("Give the runs whose texts are to be judged, or --task.")
    echo(export_items(runs, **options))


@annotate.command()
@click.argument("items", type=PATH)
@click.option(
    "--annotator", metavar="NAME", help="Name of the only annotator.  [default: everybody enters a name on the page]"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 stands for any free one."
)
def serve(items: Path, annotator: str | None, port: int) -> None:
    """Let annotators judge the folder ITEMS of `export` or `sheets` on a page in a browser on this machine.

    Open the address that is printed; others cannot open the page, because the address has a secret token and the
    server listens on 127.0.0.1 only. Every answer is stored at once in ITEMS, in one file for each annotator, and each
    continues at the first item without an answer, also after a restart. Ctrl-C ends the server.

    \b
    figeval annotate serve items
    figeval annotate serve items --annotator kim --port 8000
    """
    import shlex

    from figeval.wings.annotation.items import read_key
    from figeval.wings.annotation.serving.service import serve

    key = read_key(items)

    def announce(address: str) -> None:
        echo(f"{pluralize(len(key.items) + len(key.checks), 'item')} of {key.task}; Ctrl-C ends the server")
        echo(address)

    counts = serve(items, key, annotator, port, announce)
    for name, judgements in counts.items():
        echo(f"{name}: {pluralize(judgements, 'judgement')}")
    if not counts:
        echo("nothing has been judged yet")
    echo(f"figeval annotate import --to {shlex.quote(str(items))}")


@annotate.command()
@click.argument("items", metavar="ITEMS", type=PATH)
@click.option(
    "--judge", "model", required=True, metavar="MODEL", help="Model that judges, as for `figeval run --model`."
)
@shared_options("model_args")
@click.option("--name", help="Name of its files in ITEMS.  [default: that of the model]")
@click.option("--template", type=PATH, help="Prompt of your own, with the blocks of templates/_default/judge.jinja.")
@click.option("--limit", type=click.IntRange(min=1), help="Number of items to judge, a random part.  [default: all]")
@click.option("--device", help="cpu, cuda, cuda:1 or mps; the fastest available by default.")
@shared_options("budget", "batch")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@shared_options("seed")
@include_path
def judge(*, items: Path, model: str, as_json: bool, **options: Any) -> int:
    """Have a model judge ITEMS, the folder of `figeval annotate export`, by the same criteria as people.

    The model sees what annotators see, and not who wrote a text. Answers and a record of model, prompt and cost are
    stored in ITEMS; the same command continues after an interruption. `figeval annotate import --to ITEMS` compares
    the judge with people, and corrects its means by their judgements.

    \b
    figeval annotate judge items --judge openai:gpt-4o-mini --max_cost 2
    figeval annotate judge items --judge smollm2 --limit 50
    """
    from figeval import judge_items

    answers = judge_items(items, model, progress=True, **options)
    print_result(answers, as_json=as_json)
    if failed := answers.judged.failed:
        click.echo(f"figeval: {pluralize(failed, 'question')} failed; run the same command to ask again", err=True)
    return int(bool(failed))


@annotate.command("import", cls=HeadedCommand)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=PATH)
@judgement_option("--to", "folder", type=PATH, help="Folder with key.json, to which the judgements belong.")
@judgement_option("--run", "runs", multiple=True, type=PATH, help="Run whose metrics are correlated; may be repeated.")
@judgement_option("--task", help="Task of the run, if items are ids of its examples and it has several tasks.")
@judgement_option(
    "--criteria",
    default="",
    metavar="NAME=SCALE,…",
    callback=split_at_commas,
    help="Scales of the criteria, if there is no key.  [default: the labels that occur]",
)
@judgement_option("--last", is_flag=True, help="Count the last answer if an annotator judged an item twice.")
@judgement_option(
    "--exclude", multiple=True, metavar="NAME", help="Leave an annotator out of the results; may be repeated."
)
@result_option(
    "--threshold",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=read_thresholds,
    help="Also report the share of texts rated NUMBER or higher, and the agreement on it, e.g. quality=3; may be "
    "repeated.",
)
@result_option(
    "--other_items",
    multiple=True,
    type=PATH,
    metavar="FOLDER",
    help="Items of other data, judged by the same criteria, to compare with by Welch's t-test; may be repeated.",
)
@result_option("--pairs", is_flag=True, help="Also compute the agreement of each pair of annotators.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
@as_latex
@shared_options("seed")
def import_(*, folder: Path | None, as_json: bool, as_latex: bool, **options: Any) -> None:
    """Read judgements, and print means, agreement, tests between systems and correlations with metrics.

    FILEs are sheets, CSV files with the columns item, annotator and label (and criterion, time), the JSON export of
    Label Studio, or output of Potato. Without FILEs, the sheets in the folder of --to are read, and the answers that
    `figeval annotate serve` stored there. Items are those of key.json there; without --to, they are ids of examples of
    the one --run. The judgements are stored in judgements.csv next to the key, and the results cover all that are
    stored: an import replaces those of the annotators in FILEs only. Models that judged the items (`figeval annotate
    judge`) are compared with people, in tables of their own.

    \b
    figeval annotate import --to items
    figeval annotate import export.json --to items --run runs/a --run runs/b
    figeval annotate import ratings.csv --run runs/a --criteria fluency=1-5
    """
    from figeval import import_judgements

    results = import_judgements(options.pop("files"), to=folder, **options)
    print_result(results, as_json=as_json, as_latex=as_latex)
