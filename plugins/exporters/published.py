"""A Markdown table in which the papers' numbers stand beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from figeval.records.reference import Published, published
from figeval.records.schema import RunRecord

from ._table import Line, lines
from .markdown import MISSING, columns, remarks, table


def export(runs: Sequence[RunRecord]) -> str:
    """As `markdown`, with a column for what was published of the same task and metric, and a note for each source."""
    found = lines(runs)
    head, body = columns(runs, found)
    numbers = [latest(line) for line in found]
    body = [[*cells, said(known)] for cells, known in zip(body, numbers, strict=True)]
    told = [*remarks(runs), *sources(one for known in numbers for one in known)]
    return table([*head, "published"], body, told)


def latest(line: Line) -> list[Published]:
    """The published numbers of a line; of a model that a paper's later version prints again, the later one."""
    return list({one.model: one for one in published(line.task) if one.metric == line.metric}.values())


def said(numbers: Sequence[Published]) -> str:
    """`BERT 0.070, RoBERTa 0.068`; where they stand in several versions of a paper, by version, the latest first."""
    versions = dict.fromkeys(version(one) for one in reversed(numbers))
    parts = {
        name: ", ".join(f"{one.model} {one.value:.3f}" for one in numbers if version(one) == name) for name in versions
    }
    if len(parts) > 1:
        return "; ".join(f"{name}: {part}" for name, part in parts.items())
    return "".join(parts.values()) or MISSING


def version(number: Published) -> str:
    """The version of the paper: the second part of `ePiC, arXiv v1, Table 9`."""
    return number.source.split(", ")[1]


def sources(numbers: Iterator[Published]) -> Iterator[str]:
    """Where the numbers stand and what to beware of, each once."""
    notes = dict.fromkeys((one.task, one.source, one.note) for one in numbers)
    yield from (f"{task}: {source}" + (f": {note}" if note else "") for task, source, note in notes)
