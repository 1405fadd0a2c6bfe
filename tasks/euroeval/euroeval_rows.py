"""Reader of EuroEval's figurative sets on the hub, `euroeval:SET#SPLIT` and `euroeval:SET@COMMIT#SPLIT`, in file order.

A row of these sets has a `text`, the question with its options in lines that begin with letters, and a `label`, the
letter of the right one. The reader takes texts apart that have exactly the form that EuroEval's scripts and
documentation show for the set: any other row is an error that names row and reason, so nothing is ever guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from figeval.data import DataContext, Row
from figeval.data.hub import numbered_hub
from figeval.errors import DataError, MissingCopy, MissingData
from figeval.io.text import near, one_line
from figeval.language.questions import core_of

OWNER = "EuroEval"
ADDRESS = re.compile(r"(?P<name>[^@#]+)(?P<rest>(?:@[^#]+)?(?:#.+)?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a set's texts.

    Attributes:
        pattern: a whole text, with the groups `subject` (what is asked about), `options`, and maybe `variety`.
        letters: the letters of the options.
        varieties: value of `variety` → value in rows.
        clusters_by_answer: whether questions with the same right option belong together, rather than those with the
            same subject.
    """

    pattern: re.Pattern[str]
    letters: str = "abcd"
    varieties: Mapping[str, str] = field(default_factory=dict)
    clusters_by_answer: bool = False


FORMS = {
    "danske-talemaader": Form(
        re.compile(
            r"(?:Hvad betyder udtrykket|Hvilket af følgende udtryk betyder) '(?P<subject>.+)'\?\n"
            r"Svarmuligheder:\n(?P<options>(?s:.+))"
        )
    ),
    "faroese-metaphorical-explanations": Form(
        re.compile(r"Hvat merkir orðafellið '(?P<subject>.+)'\?\nSvarmøguleikar:\n(?P<options>(?s:.+))")
    ),
    "idioms-no": Form(
        re.compile(
            r"Complete the (?P<variety>\S+) idiom:\n(?P<subject>.+?) _____\n\nSvaralternativer::?\n(?P<options>(?s:.+))"
        ),
        varieties={"Bokmål": "bokmål", "Nynorsk": "nynorsk"},
    ),
    "dutch-proverbs": Form(
        re.compile(r"Scenario: (?P<subject>(?s:.+))\nWelk spreekwoord past hier het beste bij\?\n(?P<options>(?s:.+))"),
        letters="ab",
        clusters_by_answer=True,
    ),
}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a split.

    Rows have `id`, `subject`, `options`, `gold` (index of the right option), `variety` and `cluster`.

    Raises:
        MissingCopy: it is neither on this machine nor can it be downloaded.
        DataError: there is no such set or split, or a row has another form.
    """
    match = ADDRESS.fullmatch(path)
    name = match["name"] if match else path
    if match is None or name not in FORMS:
        raise DataError(f"euroeval has no set {name!r:.60}{near(name, FORMS)}; it has {', '.join(FORMS)}")
    return _questions(FORMS[name], f"{OWNER}/{name}{match['rest']}", context)


def _questions(form: Form, address: str, context: DataContext) -> Iterator[Row]:
    split = address.rpartition("#")[2] if "#" in address else "row"
    clusters: dict[str, str] = {}
    for number, (location, row) in enumerate(_numbered(address, context)):
        question = take_apart(row, form, location)
        key = core_of(question["options"][question["gold"]] if form.clusters_by_answer else question["subject"])
        identity = f"{split.replace('/', '-')}-{number}"
        yield {"id": identity, **question, "cluster": clusters.setdefault(key, identity)}


def _numbered(address: str, context: DataContext) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of a split. Raises `MissingCopy` if there is none, so that suites are run without it."""
    try:
        yield from numbered_hub(address, context)
    except MissingData as error:
        name = re.split("[@#]", address)[0]
        raise MissingCopy(
            f"hub:{address} is not on this machine, and cannot be downloaded here",
            f"run `figeval data fetch hub:{address}` where there is a network, or give a copy with "
            f"--data {name}=FOLDER",
        ) from error


def take_apart(row: Row, form: Form, location: str) -> Row:
    """Return the parts of a row's text, with the index of the right option.

    Raises:
        DataError: the text has another form, the options are not one per line with their letters in order, or the label
            is none of the letters.
    """
    for column in ("text", "label"):
        if not isinstance(row.get(column), str):
            columns = one_line(", ".join(row), 200)
            raise DataError(f"{location}: expected a text in {column!r}; the columns are {columns}")
    match = form.pattern.fullmatch(row["text"].strip())
    if match is None:
        raise DataError(f"{location}, field 'text': {row['text']!r:.120} does not have the form of the set's questions")
    options = read_options(match["options"], form.letters, f"{location}, field 'text'")
    if row["label"] not in tuple(form.letters):
        letters = ", ".join(form.letters)
        raise DataError(f"{location}, field 'label': {row['label']!r:.40} is none of the letters {letters}")
    variety = match.groupdict().get("variety") or ""
    if variety not in (form.varieties or [""]):
        raise DataError(f"{location}, field 'text': {variety!r:.40} is none of {', '.join(form.varieties)}")
    return {
        "subject": match["subject"].strip(),
        "options": options,
        "gold": form.letters.index(row["label"]),
        "variety": form.varieties.get(variety, ""),
    }


def read_options(text: str, letters: str, location: str) -> tuple[str, ...]:
    """Return the options of lines `a. TEXT`, `b. TEXT`. Raises `DataError` if the lines are not exactly these."""
    lines = text.split("\n")
    if len(lines) != len(letters):
        raise DataError(f"{location}: expected {len(letters)} options of one line each, found {len(lines)} lines")
    for letter, line in zip(letters, lines, strict=True):
        if not line.startswith(f"{letter}. ") or not line[3:].strip():
            raise DataError(f"{location}: expected option {letter}., found {line!r:.60}")
    return tuple(line[3:].strip() for line in lines)
