"""Command `figeval preview`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import click

from figeval.cli.flags import model_args, prompting, seed
from figeval.cli.help_pages import HeadedCommand
from figeval.cli.shared import echo, include_path, split_names

if TYPE_CHECKING:
    from figeval.runs.preview import Asked
    from figeval.types import Example

MAX_SHOWN_REQUESTS = 6  # maximum number of requests shown for one example and route
GAP = "[____]"
EDGE = str.maketrans({" ": "·", "\n": "⏎", "\t": "→"})
LEGEND = "Texts follow │ verbatim; at their edges, · is a blank, ⏎ a line break and → a tab."


@click.command(cls=HeadedCommand)
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...", callback=split_names)
@click.option("-n", "n", type=click.IntRange(min=1), default=3, show_default=True, help="Number of examples per task.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Show the example with this id; may be repeated.")
@click.option("--model", "-m", "-M", default="", help="Show only the route that this model would take.")
@model_args
@prompting
@seed
@include_path
def preview(n: int, ids: tuple[str, ...], **flags: Any) -> None:
    """Show exactly what a model would see: the requests of every route, verbatim.

    \b
    figeval preview mini_pairs
    figeval preview mini_pairs --id I01E --id M11N
    figeval preview epic_retrieval_seen --model gpt2 --num_fewshot 2
    """
    from figeval.config import RunConfig
    from figeval.runs.harness import Harness
    from figeval.runs.preview import preview as preview_of
    from figeval.spec.loader import read_task_files

    names, files = read_task_files(flags.pop("tasks"))
    config = RunConfig(**{**flags, "tasks": names, "include_path": (*flags["include_path"], *files)})
    shown = preview_of(config, Harness(include=config.include_path), n, ids)
    for number, (variant, example, questions) in enumerate(shown):
        if number == 0:
            echo(LEGEND)
        echo(f"\n{variant.full_name}  {example.id}")
        echo("\n".join(box_texts([("gold", variant.task.task_type.shown_gold(example)), *about(example)])))
        for question in questions:
            echo("\n".join(dialogue(question)))


def about(example: Example) -> Iterator[tuple[str, str]]:
    """Yield the metadata of an example: its cluster, its group and its meta columns."""
    for key in ("cluster", "group"):
        if getattr(example, key) is not None:
            yield key, getattr(example, key)
    for key, value in example.meta.items():
        yield f"meta.{key}", value


def dialogue(question: Asked) -> Iterator[str]:
    """Yield the first round of one route as lines; texts that a request shares with the previous one are omitted."""
    route = question.route
    n = len(question.requests)
    count = f", {n} request{'s' * (n > 1)}" if n else ""
    yield f"  {route.name} ({' and '.join(route.requirements)}{count})"
    if question.refusal:
        yield f"    not possible: {question.refusal}"
    before: Mapping[str, str] = {}
    for request in question.requests[:MAX_SHOWN_REQUESTS]:
        request_parts = parts(request)
        yield from box_texts((name, text) for name, text in request_parts.items() if before.get(name) != text)
        before = request_parts
    if n > MAX_SHOWN_REQUESTS:
        yield f"    … and {n - MAX_SHOWN_REQUESTS} more like these"


def parts(request: object) -> dict[str, str]:
    """Return the texts of a request by name; the gap of a cloze is marked."""
    from figeval.types import Text

    if not is_dataclass(request):  # a plugin's own
        return {"request": repr(request)}
    values: dict[str, Any] = {field.name: getattr(request, field.name) for field in fields(request) if field.repr}
    if isinstance(request, Text) and request.role:
        values = {request.role: values["text"]}
    if "after" in values:
        values = {"cloze": f"{values.pop('before')}{GAP}{values.pop('after')}", **values}
    values |= dict(values.pop("values", ()))  # inputs have their own names
    if values.get("answer", "") is None:  # of a prompt whose answer is free
        del values["answer"]
    if not values.get("sample", 1):  # index of the first answer, where one is asked for
        del values["sample"]
    turns = enumerate(values.pop("messages", ()), start=1)
    values = {**{f"{number} {message.role}": message.content for number, message in turns}, **values}
    return {
        name: " | ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
        for name, value in values.items()
    }


def box_texts(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of named texts, each after a bar."""
    for name, text in texts:
        first, *later_lines = show_edges(text).split("\n")
        yield f"    {name:<14}│{first}"
        yield from (f"    {'':<14}│{line}" for line in later_lines)


def show_edges(text: str) -> str:
    """Return the text with the white space at its edges made visible."""
    core = text.strip(" \n\t")
    begin = text.index(core) if core else len(text)
    return text[:begin].translate(EDGE) + core + text[begin + len(core) :].translate(EDGE)
