"""Command `figeval annotate judge`, and the tables of `figeval annotate import` about judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from figeval.cli.options import Finite, include_path, model_args, seed
from figeval.cli.output import counted, echo, echo_json

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
