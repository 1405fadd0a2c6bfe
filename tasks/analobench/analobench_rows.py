"""Reader of AnaloBench's files: the rows of `analobench:<task>`, where the task is one of `TASKS`.

340 one-sentence stories fall into 47 clusters; the stories of a cluster are analogous. T1 offers four stories, one from
the query's cluster; T2 offers a bank of 200, including all other stories of that cluster. The `_s10` tasks have the
same items with each sentence replaced by its story of about ten sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near

LETTERS = "ABCD"
OPTION = re.compile(r"^([A-D])\. ", re.MULTILINE)
Fetch = Callable[[str], Path]


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a task. Raises `DataError` if no task has that name."""
    if path not in TASKS:
        raise DataError(f"analobench has no task {path!r:.40}{near(path, TASKS)}; it has {', '.join(TASKS)}")
    return TASKS[path](lambda name: context.fetch("analobench", f"data/{name}"))


def choices(fetch: Fetch, *, items: str, stories: str = "") -> Iterator[Row]:
    """Yield the questions of T1: a story and four options, one of which is analogous to it."""
    file, clusters = fetch(items), clusters_of(fetch("clusters.tsv"))
    full_stories = stories_of(fetch(stories)) if stories else {}
    for number, row in enumerate(read_rows(file, "csv")):
        location = f"analobench: {file}, row {number}"
        options = options_in(row["Options"], location)
        if row["Label"] not in LETTERS or len(row["Label"]) != 1:
            raise DataError(f"{location}, field 'Label': {row['Label']!r:.40} is not one of {', '.join(LETTERS)}")
        texts = [
            look_up(full_stories, text, location) if full_stories else text for text in (row["Sentence"], *options)
        ]
        yield {
            "id": row["Index"],
            "story": texts[0],
            "options": tuple(texts[1:]),
            "gold": LETTERS.index(row["Label"]),
            "cluster": look_up(clusters, row["Sentence"], location),
        }


def banks(fetch: Fetch, *, stories: str = "") -> Iterator[Row]:
    """Yield the queries of T2, each with the bank of 200 stories that the authors drew for it.

    `Options` holds row numbers of the file, from 0; `Indices` holds the positions in `Options`, from 1, of the relevant
    stories.
    """
    file = fetch("AnaloBench-T2-Base.csv")
    table, clusters = list(read_rows(file, "csv")), clusters_of(fetch("clusters.tsv"))
    full_stories = stories_of(fetch(stories)) if stories else {}
    texts = [
        look_up(full_stories, row["Sentence"], f"analobench: {file}") if full_stories else row["Sentence"]
        for row in table
    ]
    for number, row in enumerate(table):
        location = f"analobench: {file}, row {number}"
        bank = numbers_in(row["Options"], range(len(table)), f"{location}, field 'Options'")
        right = numbers_in(row["Indices"], range(1, len(bank) + 1), f"{location}, field 'Indices'")
        if not right:
            raise DataError(f"{location}, field 'Indices': no story of the bank is relevant; leave the query out")
        yield {
            "id": row["Index"],
            "story": texts[number],
            "candidates": tuple(texts[index] for index in bank),
            "relevant": [position - 1 for position in right],
            "cluster": look_up(clusters, row["Sentence"], location),
        }


def options_in(text: str, location: str) -> list[str]:
    """Return the four options of a question, which follow "A. " to "D. " at the start of a line.

    Raises:
        DataError: the letters differ from these or come in another order.
    """
    _, *parts = OPTION.split(text)
    if "".join(parts[::2]) != LETTERS:
        raise DataError(
            f"{location}, field 'Options': expected four options A. to D., found {' '.join(parts[::2])!r:.40}"
        )
    return [part.strip() for part in parts[1::2]]


def numbers_in(text: str, allowed: range, location: str) -> Sequence[int]:
    """Return the numbers of a comma-separated list, which may be empty. Raises `DataError` for a value not allowed."""
    numbers = [int(part) if part.strip().isdecimal() else -1 for part in text.split(",") if text.strip()]
    if invalid := [index for index, number in enumerate(numbers) if number not in allowed]:
        raise DataError(
            f"{location}: value {invalid[0] + 1} is not a number from {allowed.start} to {allowed.stop - 1} "
            f"({text.split(',')[invalid[0]]!r:.40})"
        )
    return numbers


def clusters_of(file: Path) -> Mapping[str, str]:
    """Map each sentence to the name of its cluster."""
    return {row["sentence"]: f"cluster {row['cluster']}" for row in read_rows(file, "tsv")}


def stories_of(file: Path) -> Mapping[str, str]:
    """Map each sentence to the story of about ten sentences that was made from it."""
    return {row["sentence"]: row["story"].strip() for row in read_rows(file, "csv")}


def look_up(values: Mapping[str, str], sentence: str, location: str) -> str:
    """Return the value for a sentence. Raises `DataError` if there is none."""
    if sentence not in values:
        raise DataError(
            f"{location}: a sentence is not among the {len(values)} of the other file; replace your copy by a complete "
            "one"
        )
    return values[sentence]


TASKS: dict[str, Callable[[Fetch], Iterator[Row]]] = {
    "t1": partial(choices, items="AnaloBench-T1-Subset-S1.csv"),
    "t1_full": partial(choices, items="AnaloBench-T1-Full-S1.csv"),
    "t1_s10": partial(choices, items="AnaloBench-T1-Subset-S1.csv", stories="stories-10.csv"),
    "t1_full_s10": partial(choices, items="AnaloBench-T1-Full-S1.csv", stories="stories-10.csv"),
    "t2": banks,
    "t2_s10": partial(banks, stories="stories-10.csv"),
}
