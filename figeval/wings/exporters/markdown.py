"""A Markdown table for a README or an issue; `published` adds a column with the numbers of the papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from figeval.io.text import one_line
from figeval.records.reference import Published, published
from figeval.records.schema import SEEN_NOTES, Role, RunRecord, ScoreRecord
from figeval.wings.exporters.side_by_side import (
    Line,
    any_score,
    baseline_names,
    bounds,
    deviation,
    headings,
    kind_lines,
    lines,
    notes,
    number,
    roles,
    routes,
    signs,
)

MISSING = "–"
SPECIAL = {**{letter: f"\\{letter}" for letter in "\\|`*~$"}, "<": "&lt;", ">": "&gt;"}
ENTITY = re.compile(r"&(?=#?\w+;)")
OUTER = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # an underscore that is not between letters or digits
# What GitHub links although it is no markup: addresses, users, issues.
LINKED = re.compile(r"\b(?:https?|ftp):(?=//)|\bwww(?=\.)|(?<!\w)@(?=\w)|#(?=\d)", re.IGNORECASE)
LEADING = re.compile(r"^(\d{0,9})(#{1,6}|[-+.)])(?=\s|$)")  # headings and lists
MARKS: dict[Role | None, str] = {"trained": "‡", "chosen": "†", None: ""}


def export(runs: Sequence[RunRecord]) -> str:
    """Return the table of values with 95 % intervals and baselines, with notes below."""
    return table(*columns(runs, lines(runs)), list(remarks(runs))) + chosen(runs)


def columns(runs: Sequence[RunRecord], found: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the cells of all lines."""
    trivial = baseline_names(found)
    head = ["task", "metric", "n", *trivial, *headings(runs)]
    body = [
        [
            *(line.task, line.metric, f"{line.n} × {line.unit}" if line.unit else str(line.n)),
            *(number(line.baselines.get(name)) or MISSING for name in trivial),
            *(cell(line.scores.get(place), line.own_n(place)) for place in range(len(runs))),
        ]
        for line in found
    ]
    return head, body


def remarks(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield the notes below the table."""
    yield "95 % intervals in brackets, over clusters if examples are not independent."
    if any_score(runs, deviation):
        yield "± is the standard deviation over seeds; intervals of such means are over other seeds and other examples."
    yield from (f"{MARKS[role]} {SEEN_NOTES[role]}." for role in roles(runs))
    yield from signs(runs)
    yield from routes(runs)
    yield from notes(runs)


def table(head: Sequence[str], body: Sequence[Sequence[str]], told: Sequence[str]) -> str:
    """Return the table with a list of notes below."""
    ruler = ["---", "---", *["---:"] * (len(head) - 2)]
    return "\n".join([*map(row, [head, ruler, *body]), "", *(f"- {plain(remark)}" for remark in told)]) + "\n"


def chosen(runs: Sequence[RunRecord]) -> str:
    """Return a second table with the kinds of chosen options, or "" if no task has kinds."""
    found = kind_lines(runs)
    if not found:
        return ""
    head = ["task", "options", "offered", "model", "chosen", "of wrong answers", "expected"]
    body = [
        [
            *(line.task, f"{line.key}: {line.kind.value}", str(line.kind.offered), line.model),
            *(cell(line.kind.chosen), cell(line.kind.chosen_wrong)),
            MISSING if line.expected is None else f"{line.expected:.3f}",
        ]
        for line in found
    ]
    note = "expected: share of wrong answers if each were drawn at random from the wrong options."
    return "\n" + table(head, body, [note])


def row(cells: Iterable[str]) -> str:
    """Return one line of the table."""
    return f"| {' | '.join(map(plain, cells))} |"


def cell(score: ScoreRecord | None, n: int | None = None) -> str:
    """Return a cell: `0.183 [0.058, 0.308]`, or `0.183 ± 0.020 [0.058, 0.308]` over seeds.

    `0.183†` means that the model was selected by this score, `0.183‡` that it was trained on it, and `0.183 (n = 10)`
    that it rests on fewer examples than its line says.
    """
    spread = deviation(score)
    parts = (
        number(score),
        None if spread is None else f"± {spread}",
        bounds(score),
    )
    text = " ".join(part for part in parts if part is not None) or MISSING
    text += MARKS[score.seen if score is not None else None]
    return text if n is None else f"{text} (n = {n})"


def plain(text: str) -> str:
    """Return a text on one line in which nothing ends a cell or starts markup, HTML, a link or a picture."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in ENTITY.sub("&amp;", one_line(text)))
    escaped = LINKED.sub(r"\g<0>&NoBreak;", OUTER.sub(r"\_", LEADING.sub(r"\1\\\2", escaped)))
    return escaped.replace("](", r"]\(").replace("]:", r"]\:").replace("][", r"]\[")


def export_published(runs: Sequence[RunRecord]) -> str:
    """Return the Markdown table with a column of the published numbers for each line, and a note per source."""
    found = lines(runs)
    head, body = columns(runs, found)
    numbers = [  # if a later version of a paper prints a model's number again, that one counts
        list({one.model: one for one in published(line.task) if one.metric == line.metric}.values()) for line in found
    ]
    body = [[*cells, published_cell(known)] for cells, known in zip(body, numbers, strict=True)]
    sources = dict.fromkeys((one.task, one.source, one.note) for known in numbers for one in known)
    notes = [f"{task}: {source}" + (f": {note}" if note else "") for task, source, note in sources]
    if sources and any(task.n < task.available for run in runs for task in run.tasks):
        notes.append("published numbers cover all examples of a task, runs with --limit or --sample only some of them")
    return table([*head, "published"], body, [*remarks(runs), *notes]) + chosen(runs)


def published_cell(numbers: Sequence[Published]) -> str:
    """Return `BERT 0.070, RoBERTa 0.068`; numbers from several versions of a paper are by version, the latest first."""
    versions = dict.fromkeys(version(one) for one in reversed(numbers))
    parts = {
        name: ", ".join(f"{one.model} {one.value:.3f}" for one in numbers if version(one) == name) for name in versions
    }
    if len(parts) > 1:
        return "; ".join(f"{name}: {part}" for name, part in parts.items())
    return "".join(parts.values()) or MISSING


def version(number: Published) -> str:
    """Return the version of the paper: the second part of `ePiC, arXiv v1, Table 9`."""
    return number.source.split(", ")[1]
