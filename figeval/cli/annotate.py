"""Command `figeval annotate`: what people judge (`export`, `sheets`), where (`serve`), and the results of it.

`judge` is in a module of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval.cli.judge import judge, judge_grids, judge_json, judge_notes
from figeval.cli.options import include_path, seed
from figeval.cli.output import counted, echo, echo_json, interval, number

if TYPE_CHECKING:
    from figeval.evaluation.annotation.differences import SystemDifference
    from figeval.evaluation.annotation.judgements import Judgements
    from figeval.evaluation.annotation.results import HumanResults, SystemScore
    from figeval.evaluation.annotation.scores import Annotation
    from figeval.metrics.paired import PairedTest
    from figeval.reporting.grid import Grid
    from figeval.types import Score

SYSTEMS = ("criterion", "texts by", "mean", "95 % interval", "judged", "majority")
COEFFICIENTS = ("criterion", "coefficient", "value", "95 % interval", "items")
PAIRS = ("criterion", "annotators", "agreement", "Cohen's kappa", "items")
TESTS = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "examples")
METRICS = ("criterion", "texts by", "metric", "Kendall", "Spearman", "Pearson", "texts")
HEAD = ("error", "texts by", "share", "95 % interval", "judged", "of")
AGREEMENT = ("error", "Krippendorff's alpha", "texts judged by several")
PATH = click.Path(path_type=Path)


def split_at_commas(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Split e.g. `not a moral,unrelated` into ("not a moral", "unrelated"); names may contain blanks."""
    return tuple(part.strip() for part in value.split(",")) if value.strip() else ()


@click.group()
def annotate() -> None:
    """Have people judge the texts that models wrote, without knowing who wrote them."""


annotate.add_command(judge)


@annotate.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--output", "-o", required=True, type=PATH, help="Folder to write the sheets and their key to.")
@click.option("--task", help="Task whose texts are judged; needed only if the runs share several.")
@click.option("--n", type=click.IntRange(min=1), default=50, show_default=True, help="Number of examples to draw.")
@click.option(
    "--annotators",
    type=click.IntRange(1, 99),
    default=1,
    show_default=True,
    help="Number of sheets, one per annotator.",
)
@click.option("--references", is_flag=True, help="Also show the reference of each example, as a control.")
@click.option(
    "--errors",
    default="",
    metavar="A,B,…",
    callback=split_at_commas,
    help="Error types, one column each.  [default: the error_types of the task]",
)
@seed
@include_path
def sheets(  # noqa: PLR0913 - one argument per option
    *,
    runs: tuple[Path, ...],
    output: Path,
    task: str | None,
    n: int,
    annotators: int,
    references: bool,
    errors: tuple[str, ...],
    seed: int,
    include_path: tuple[Path, ...],
) -> None:
    """Write CSV sheets with the texts of one or several runs, in a random order and without names.

    Each sheet has all texts of the same examples, an empty column for each error type, to be filled in with yes or no,
    and one for comments. key.json says who wrote each text: keep it from the annotators. The sheets contain texts of
    the benchmark, so its licence determines who may have them.

    \b
    figeval annotate sheets runs/a runs/b --n 30 --annotators 2 --references --output sheets
    """
    from figeval.evaluation.annotation.sheets import KEY, write_sheets
    from figeval.evaluation.annotation.texts import written_texts
    from figeval.evaluation.harness import Harness

    written = written_texts(runs, task, n, seed, Harness(include=include_path), references=references)
    key = write_sheets(output, written, errors, annotators=annotators, seed=seed)
    examples = len({item.example for item in key.items.values()})
    echo(f"{counted(len(key.items), 'text')} for {counted(examples, 'example')} of {key.task}: {', '.join(key.sheets)}")
    columns = "column" if len(key.error_types) == 1 else "columns"
    echo(f"{columns} to fill in with yes or no: {', '.join(key.error_types)}")
    for author, count in key.not_written.items():
        echo(f"{author}: {counted(count, 'text')} in the sample not written")
    echo(f"{output / KEY} says who wrote each text; keep it from the annotators")


@annotate.command()
@click.argument("folder", type=PATH)
@click.argument("files", nargs=-1, metavar="[SHEET]...", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
def score(folder: Path, files: tuple[Path, ...], as_json: bool) -> None:
    """Score the filled-in sheets in FOLDER, or SHEETs from elsewhere.

    Prints the share of texts with each error per model with 95 % intervals, and the agreement of the annotators. A cell
    is yes (y, 1, x, true), no (n, 0, false) or empty; an empty cell does not count as a judgement.

    \b
    figeval annotate score sheets
    figeval annotate score sheets returned/anna.csv returned/ben.csv
    """
    from figeval.evaluation.annotation.scores import score_sheets
    from figeval.evaluation.annotation.sheets import read_key

    key = read_key(folder)
    found = score_sheets(key, files or [folder / sheet for sheet in key.sheets])
    if as_json:
        echo_json(asdict(found) | {"key": key.model_dump(mode="json", exclude={"items"})})
        return
    if found.cells and all(count == found.cells for count in found.empty.values()):
        echo(f"{key.task}: nothing has been filled in yet")
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    console = Console()
    Grid(HEAD, list(share_rows(found)), f"{key.task}: share of texts with an error", HEAD[2:]).print(console)
    console.print()
    Grid(AGREEMENT, list(agreement_rows(found)), "Agreement of annotators", AGREEMENT[1:]).print(console)
    for note in notes(found):
        say(console, f"  {note}")


@annotate.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", type=PATH)
@click.option("--output", "-o", required=True, type=PATH, help="Folder to write the items and their key to.")
@click.option("--task", help="Task whose texts are judged, or a choice task whose questions people answer.")
@click.option("--n", type=click.IntRange(min=1), default=50, show_default=True, help="Number of examples to draw.")
@click.option(
    "--criteria",
    default="",
    metavar="NAME=SCALE,…",
    callback=split_at_commas,
    help="Criteria with their scales, e.g. fluency=1-5,coherence=yes/no, or a task whose criteria are used.  "
    "[default: those of the task]",
)
@click.option(
    "--to", type=click.Choice(["csv", "label_studio"]), default="csv", show_default=True, help="Format of the items."
)
@click.option(
    "--annotators",
    type=click.IntRange(1, 99),
    default=1,
    show_default=True,
    help="Number of CSV sheets, one per annotator.",
)
@click.option(
    "--checks", type=click.IntRange(0, 99), default=2, show_default=True, help="Number of attention checks to mix in."
)
@click.option("--references", is_flag=True, help="Also show the reference of each example, as a control.")
@click.option(
    "--instructions",
    metavar="TEXT|FILE",
    help='What annotators are told: a text, or a file with one; "" for nothing.  [default: a sentence about the task]',
)
@seed
@include_path
def export(*, runs: tuple[Path, ...], task: str | None, n: int, seed: int, **options: Any) -> None:
    """Write items for annotators, in a random order and without names: texts of runs, or questions of a choice task.

    Without RUN, --task names a choice task, and people answer its questions: a human baseline. key.json says who wrote
    each text and which answers are right: keep it from the annotators. The items contain texts of the benchmark, so its
    licence determines who may have them.

    \b
    figeval annotate export runs/a runs/b --criteria fluency=1-5,coherence=yes/no --output items
    figeval annotate export runs/a --criteria epic_narrative_unseen --to label_studio --output items
    figeval annotate export --task epic_mcq --n 100 --annotators 3 --instructions guidelines.md -o items
    """
    from figeval.evaluation.annotation.export import Export, export_items, questions, wanted_criteria
    from figeval.evaluation.annotation.instructions import INSTRUCTIONS, TO_JUDGE, given, to_answer
    from figeval.evaluation.annotation.texts import written_texts
    from figeval.evaluation.harness import Harness

    told = None if options["instructions"] is None else given(options["instructions"])
    harness = Harness(include=options["include_path"])
    gold: dict[str, str] = {}
    if runs:
        written = written_texts(runs, task, n, seed, harness, references=options["references"])
        criteria = wanted_criteria(options["criteria"], written, harness)
        default = TO_JUDGE
    elif task is None:
        raise click.UsageError("Give the runs whose texts are to be judged, or --task with a choice task.")
    else:
        spec = harness.catalogue.tasks.get(task)
        written, gold, answer = questions(spec, n, seed, harness)
        criteria, default = (answer,), to_answer(spec)
    output = options["output"]
    wanted = Export(
        criteria, options["to"], options["annotators"], options["checks"], seed, default if told is None else told
    )
    key = export_items(output, written, gold, wanted)
    checks = f" and {counted(len(key.checks), 'attention check')}" if key.checks else ""
    echo(
        f"{counted(len(key.items), 'item')}{checks} of {key.task}: {', '.join(key.sheets) or 'tasks.json, config.xml'}"
    )
    for one in key.criteria:
        echo(f"{one.name}: {', '.join(one.labels)}")
    for author, count in key.not_written.items():
        echo(f"{author}: {counted(count, 'text')} in the sample not written")
    if (output / INSTRUCTIONS).exists():
        echo(f"{output / INSTRUCTIONS} is what annotators are told; give it to them with the items")
    echo(f"{output / 'key.json'} says who wrote each text and which answers are right; keep it from the annotators")


@annotate.command()
@click.argument("items", type=PATH)
@click.option("--annotator", metavar="NAME", help="Only annotator.  [default: everybody enters a name on the page]")
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

    from figeval.evaluation.annotation.serving.service import serve
    from figeval.evaluation.annotation.sheets import read_key

    key = read_key(items)

    def ready(address: str) -> None:
        echo(f"{counted(len(key.items) + len(key.checks), 'item')} of {key.task}; Ctrl-C ends the server")
        echo(address)

    given = serve(items, key, annotator, port, ready)
    for name, judgements in given.items():
        echo(f"{name}: {counted(judgements, 'judgement')}")
    if not given:
        echo("nothing has been judged yet")
    echo(f"figeval annotate import --to {shlex.quote(str(items))}")


@annotate.command("import")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=PATH)
@click.option("--to", "folder", type=PATH, help="Folder with key.json, to which the judgements belong.")
@click.option("--run", "runs", multiple=True, type=PATH, help="Run whose metrics are correlated; may be repeated.")
@click.option("--task", help="Task of the run, if items are ids of its examples and it has several tasks.")
@click.option(
    "--criteria",
    default="",
    metavar="NAME=SCALE,…",
    callback=split_at_commas,
    help="Scales of the criteria, if there is no key.  [default: the labels that occur]",
)
@click.option("--last", is_flag=True, help="Count the last answer if an annotator judged an item twice.")
@click.option(
    "--exclude", multiple=True, metavar="NAME", help="Leave an annotator out of the results; may be repeated."
)
@click.option("--pairs", is_flag=True, help="Also compute the agreement of each pair of annotators.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
@seed
def import_(*, folder: Path | None, criteria: tuple[str, ...], seed: int, **options: Any) -> None:
    """Read judgements, and print means, agreement, tests between systems and correlations with metrics.

    FILEs are sheets, CSV files with the columns item, annotator and label (and criterion, time), the JSON export of
    Label Studio, or output of Potato. Without FILEs, the sheets in the folder of --to are read, and the answers that
    `figeval annotate serve` stored there. Items are those of key.json there; without --to, they are ids of examples of
    the one --run. The judgements are stored in judgements.csv next to the key, and the results are about all that are
    stored: an import replaces those of the annotators in FILEs only. Models that judged the items (`figeval annotate
    judge`) are compared with people, in tables of their own.

    \b
    figeval annotate import --to items
    figeval annotate import export.json --to items --run runs/a --run runs/b
    figeval annotate import ratings.csv --run runs/a --criteria fluency=1-5
    """
    from figeval.errors import OptionError
    from figeval.evaluation.annotation.importing import Import, import_judgements
    from figeval.spec.criteria import criteria_of

    try:
        scales = criteria_of({name: scale for name, _, scale in (part.partition("=") for part in criteria)})
    except ValueError as error:
        raise OptionError(f"--criteria: {error}") from error
    wanted = Import(
        files=options["files"],
        folder=folder,
        runs=options["runs"],
        task=options["task"],
        criteria=scales,
        last=options["last"],
        pairs=options["pairs"],
        exclude=options["exclude"],
    )
    done = import_judgements(wanted, seed)
    found, given = done.people, done.given
    if options["as_json"]:
        judges = [judge_json(one) for one in done.judges]
        echo_json(asdict(found) | {"judges": judges, "skipped": given.skipped, "ground_truth": given.ground_truth})
        return
    from rich.console import Console

    from figeval.reporting.grid import say

    console = Console()
    of_people = result_grids(found, pairs=options["pairs"]) if given.found else ()
    for grid in chain(of_people, judge_grids(done.judges)):
        grid.print(console)
        console.print()
    for note in chain(result_notes(found, given), judge_notes(done.judges, has_people=bool(given.found))):
        say(console, f"  {note}")


def result_grids(found: HumanResults, *, pairs: bool) -> Iterator[Grid]:
    """Yield the tables of results that have rows."""
    from figeval.reporting.grid import Grid

    yield Grid(SYSTEMS, [system_row(one) for one in found.systems], f"{found.task}: judgements", SYSTEMS[2:5])
    rows = [
        (one.criterion, score.metric, number(score.value), interval(score), str(score.n))
        for one in found.agreement
        for score in one.scores
    ]
    if len(found.annotators) > 1:
        yield Grid(COEFFICIENTS, rows, f"Agreement of {len(found.annotators)} annotators", COEFFICIENTS[2:])
    if pairs and len(found.annotators) > 1:
        rows = [
            (
                one.criterion,
                " · ".join(pair.raters),
                number(pair.percent.value),
                number(pair.kappa.value),
                str(pair.percent.n),
            )
            for one in found.agreement
            for pair in one.pairs
        ]
        yield Grid(PAIRS, rows, "Agreement of pairs of annotators", PAIRS[2:])
    if found.tests:
        yield Grid(
            TESTS,
            [test_row(one) for one in found.tests],
            "Differences between systems, for these annotators",
            TESTS[3:],
        )
    if found.correlations:
        correlated = [
            (one.criterion, one.system, one.metric, *map(correlation, one.scores), str(one.scores[0].n))
            for one in found.correlations
        ]
        yield Grid(METRICS, correlated, "Correlation of metrics with the mean judgement", METRICS[3:])


def system_row(one: SystemScore) -> tuple[str, ...]:
    """Return a row of the table of systems."""
    majority = ", ".join(f"{label}: {count}" for label, count in one.majority.items())
    undecided = f"undecided: {one.undecided}" if one.undecided else ""
    texts = sum(one.majority.values()) + one.undecided
    shown = ", ".join(part for part in (majority, undecided) if part)
    return (one.criterion, one.system, number(one.score.value), interval(one.score), str(texts), shown)


def test_row(one: SystemDifference[PairedTest]) -> tuple[str, ...]:
    """Return a row of the table of tests."""
    test = one.test
    limits = "–" if test.low is None or test.high is None else f"{test.low:+.3f} to {test.high:+.3f}"
    difference = "–" if test.difference is None else f"{test.difference:+.3f}"
    p, adjusted = ("–" if value is None else f"{value:.2g}" for value in (test.p, one.p_holm))
    return (one.criterion, one.a, one.b, difference, limits, p, adjusted, str(test.n))


def missing_agreement(found: HumanResults) -> Iterator[str]:
    """Yield why coefficients have no value or no interval, once for each reason."""
    if len(found.annotators) == 1:
        yield "one annotator: no agreement"
        return
    reasons: dict[tuple[str, str], list[str]] = {}
    scores = [(one.criterion, score) for one in found.agreement for score in one.scores]
    for criterion, score in scores:
        if score.value is None:
            reasons.setdefault((criterion, score.interval), []).append(score.metric)
    for (criterion, reason), coefficients in reasons.items():
        yield f"{criterion}: no {', '.join(coefficients)}: {reason.removeprefix('none: ')}"
    for reason in dict.fromkeys(score.interval for _, score in scores if score.value is not None and score.low is None):
        yield f"agreement without an interval: {reason.removeprefix('none: ')}"


def missing_correlations(found: HumanResults) -> Iterator[str]:
    """Yield why metrics have no correlation, once for each reason, and why correlations have no interval."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for one in found.correlations:
        if one.scores[0].value is None:
            reasons.setdefault((one.criterion, one.system, one.scores[0].interval), []).append(one.metric)
    for (criterion, system, reason), metrics in reasons.items():
        yield f"{criterion}, {system}: no correlation with {', '.join(metrics)}: {reason.removeprefix('none: ')}"
    scores = [score for one in found.correlations for score in one.scores]
    for reason in dict.fromkeys(score.interval for score in scores if score.value is not None and score.low is None):
        yield f"correlations without an interval: {reason.removeprefix('none: ')}"


def correlation(score: Score) -> str:
    """Return a correlation with its interval, if it has one."""
    return number(score.value) if score.low is None else f"{number(score.value)} ({interval(score)})"


def result_notes(found: HumanResults, given: Judgements) -> Iterator[str]:
    """Yield inferred scales, what was left out, and why numbers are missing."""
    from figeval.text import one_line

    for name, labels in found.inferred.items():
        scale = f"{labels[0]}-{labels[-1]}" if labels[0].isdecimal() else "/".join(labels)
        flag = one_line(f"--criteria {name}={scale}", 80)
        yield f"{name}: the scale is that of the labels that occur; if it is another one, give it: {flag}"
    if given.skipped:
        yield f"{counted(given.skipped, 'cell')} without a label, which do not count as judgements"
    if given.ground_truth:
        yield f"{counted(given.ground_truth, 'annotation')} marked as ground truth, which do not count as judgements"
    for name, (passed, answered) in found.checks.items():
        yield f"{name}: {passed} of {answered} answers to attention checks as requested"
    yield from missing_agreement(found)
    yield from missing_correlations(found)
    for test in found.tests:
        if test.test.note:
            yield f"{test.criterion}, {test.a} and {test.b}: {test.test.note}"


def share_rows(found: Annotation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of shares."""
    for one in found.shares:
        value = "–" if one.score.value is None else f"{one.score.value:.4f}"
        yield (one.error_type, one.author, value, interval(one.score), str(one.score.n), str(one.texts))


def agreement_rows(found: Annotation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of agreement."""
    for one in found.agreement:
        yield (one.error_type, "–" if one.alpha is None else f"{one.alpha:.3f}", str(one.texts))


def notes(found: Annotation) -> Iterator[str]:
    """Yield notes on what is missing."""
    for name, count in found.empty.items():
        if count:
            yield f"{name}: {count} of {found.cells} cells are empty and do not count as judgements"
    for one in found.agreement:
        if one.why:
            yield f"no alpha of {one.error_type!r}: {one.why}"
    for author, count in found.key.not_written.items():
        yield f"{author}: {counted(count, 'text')} in the sample not written, so not judged"
