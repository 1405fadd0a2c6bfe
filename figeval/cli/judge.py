"""Command `figeval annotate judge`, and the tables of `figeval annotate import` about judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval.cli.options import Finite, include_path, model_args, seed
from figeval.cli.output import counted, echo, echo_json, interval, number

if TYPE_CHECKING:
    from figeval.evaluation.annotation.differences import SystemDifference
    from figeval.evaluation.annotation.judge_results import JudgedSystem, JudgeResults
    from figeval.metrics.prediction_powered import PoweredMean
    from figeval.reporting.grid import Grid

MEANS = (
    *("criterion", "texts by", "people", "95 % interval", "judged", "judge, uncorrected", "parsed"),
    *("corrected", "95 % interval", "λ"),
)
DIFFERENCES = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "judged", "λ")
AGREEMENT = ("criterion", "coefficient", "value", "95 % interval", "items")
PATH = click.Path(path_type=Path)


@click.command()
@click.argument("items", metavar="ITEMS", type=PATH)
@click.option(
    "--judge", "model", required=True, metavar="MODEL", help="Model that judges, as for `figeval run --model`."
)
@model_args
@click.option("--name", help="Name of its files in ITEMS.  [default: that of the model]")
@click.option("--template", type=PATH, help="Prompt of your own, with the blocks of templates/_default/judge.jinja.")
@click.option("--limit", type=click.IntRange(min=1), help="Number of items to judge, a random part.  [default: all]")
@click.option("--device", help="cpu, cuda, cuda:1 or mps; the fastest available by default.")
@click.option(
    "--max_cost", type=Finite(min=0, min_open=True), help="Stop before the cost of an API model exceeds this amount."
)
@click.option(
    "--max_tokens", type=click.IntRange(min=1), help="Stop before an API model uses more than this number of tokens."
)
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@seed
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
    from figeval.evaluation.annotation.judge import Judging, judge_items
    from figeval.evaluation.harness import Harness

    wanted = Judging(
        folder=items,
        model=model,
        options=options["model_args"],
        name=options["name"],
        template=options["template"],
        limit=options["limit"],
        common={name: options[name] for name in ("device", "seed", "max_cost", "max_tokens")},
    )
    done = judge_items(wanted, Harness(include=options["include_path"]))
    record = done.record
    if as_json:
        echo_json(record.model_dump(mode="json"))
    else:
        answered, parsed = sum(record.statuses.values()), record.statuses.get("ok", 0)
        others = ", ".join(f"{status}: {count}" for status, count in record.statuses.items() if status != "ok")
        echo(f"{record.model} judged {counted(record.items, 'item')}: {parsed} of {answered} answers parsed")
        if others:
            echo(f"without a label: {others}")
        if record.truncated:
            echo(f"{counted(record.truncated, 'question')} did not fit the model, which saw only a part of the text")
        if record.checks[1]:
            echo(f"{record.checks[0]} of {record.checks[1]} answers to attention checks as requested")
        if record.description.get("tokens_in") is not None:
            cost = record.description.get("cost")
            told = "" if cost is None else f", at a cost of {cost:,.4f}"
            echo(f"{record.description['tokens_in']:,} tokens read, {record.description['tokens_out']:,} written{told}")
        echo(f"{items / f'judge_{done.name}.json'}: figeval annotate import --to {items} compares it with people")
    if done.failed:
        click.echo(f"figeval: {counted(done.failed, 'question')} failed; run the same command to ask again", err=True)
    return int(bool(done.failed))


def judge_json(judge: JudgeResults) -> dict[str, Any]:
    """Return the results of a judge as JSON."""
    return asdict(judge) | {"record": judge.record.model_dump(mode="json")}


def judge_grids(judges: Sequence[JudgeResults]) -> Iterator[Grid]:
    """Yield the tables about each judge: means, differences between systems, and agreement with people."""
    from figeval.reporting.grid import Grid

    for judge in judges:
        yield Grid(MEANS, [mean_row(one) for one in judge.systems], f"Judge {judge.name}: means", MEANS[2:])
        differences = [difference_row(one) for one in judge.differences if one.test.labelled]
        if differences:
            yield Grid(DIFFERENCES, differences, f"Judge {judge.name}: corrected differences", DIFFERENCES[3:])
        agreement = [
            (one.criterion, score.metric, number(score.value), interval(score), str(score.n))
            for one in judge.agreement
            for score in one.scores
        ]
        if agreement:
            yield Grid(AGREEMENT, agreement, f"Judge {judge.name}: agreement with people", AGREEMENT[2:])


def mean_row(one: JudgedSystem) -> tuple[str, ...]:
    """Return a row of the table of means."""
    powered = one.powered
    corrected = ("–", "–", "–")
    if powered is not None:
        corrected = (number(powered.score.value), interval(powered.score), number(powered.tuning))
    return (
        *(one.criterion, one.system),
        *(number(one.people.value), interval(one.people), str(one.people.n)),
        *(number(one.judge.value), f"{one.judge.n} of {one.asked}"),
        *corrected,
    )


def difference_row(one: SystemDifference[PoweredMean]) -> tuple[str, ...]:
    """Return a row of the table of differences."""
    score = one.test.score
    value = "–" if score.value is None else f"{score.value:+.3f}"
    limits = "–" if score.low is None or score.high is None else f"{score.low:+.3f} to {score.high:+.3f}"
    p, adjusted = ("–" if value is None else f"{value:.2g}" for value in (one.test.p, one.p_holm))
    judged = f"{one.test.labelled} of {score.n}"
    return (one.criterion, one.a, one.b, value, limits, p, adjusted, judged, number(one.test.tuning))


def judge_notes(judges: Sequence[JudgeResults], *, has_people: bool) -> Iterator[str]:
    """Yield what the numbers of judges mean, and why some are missing."""
    if judges and has_people:
        yield (
            "corrected: the mean of people over all texts, estimated from their judgements and the judge's answers; it "
            "is valid if the texts that people judged are a random part"
        )
    elif judges:
        yield "nobody has judged a text: the means are those of a model, and no measurement of people"
    for judge in judges:
        record = judge.record
        parsed, answered = record.statuses.get("ok", 0), sum(record.statuses.values())
        others = "".join(f", {status}: {count}" for status, count in record.statuses.items() if status != "ok")
        yield f"judge {judge.name} ({record.model}): {parsed} of {answered} answers parsed{others}"
        if answered < record.questions:
            yield f"judge {judge.name}: {counted(record.questions - answered, 'question')} not answered yet"
        if record.truncated:
            yield f"judge {judge.name}: {counted(record.truncated, 'text')} not seen as a whole"
        if record.checks[1]:
            passed, checks = record.checks
            yield f"judge {judge.name}: {passed} of {checks} answers to attention checks as requested"
        if record.judges_itself:
            yield f"judge {judge.name} is one of the judged systems; models tend to prefer their own texts"
        if has_people:
            yield from missing(judge)


def missing(judge: JudgeResults) -> Iterator[str]:
    """Yield why numbers have no value or no interval, once for each reason."""
    reasons: dict[str, list[str]] = {}
    for one in judge.systems:
        if one.powered is None:
            why = "the judge gave no number" if one.asked else "the judge was not asked"
            reasons.setdefault(why, []).append(f"{one.criterion} of {one.system}")
        elif one.powered.score.low is None:
            reasons.setdefault(one.powered.score.interval, []).append(f"{one.criterion} of {one.system}")
    for compared in judge.agreement:
        for score in compared.scores:
            if score.value is None:
                reasons.setdefault(score.interval, []).append(f"{compared.criterion}: {score.metric}")
    unused = sum(one.people.n - one.powered.labelled for one in judge.systems if one.powered is not None)
    if unused:
        yield (
            f"judge {judge.name}: {counted(unused, 'mean judgement')} of people not used in the corrected means, "
            "because the judge was not asked about the text; judge without --limit to use all"
        )
    for reason, places in reasons.items():
        yield f"judge {judge.name}: no interval or no value ({', '.join(places)}): {reason.removeprefix('none: ')}"
