"""Reader of Metaphor-Paraphrase: rows of pairs and rows of candidate sets.

`metaphor_paraphrase:<corpus>` has a row for each pair, `metaphor_paraphrase:<corpus>/sets` one for each set. A set is a
block of lines between blank lines: a metaphorical sentence, then candidates as `sentence#grade`. Four candidates of
`metaphor_paraphrase_corpus` have no grade, which is then hidden; a last line of `#` and `*` is not a set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from figeval.data import DataContext, Row
from figeval.data.text_files import text_lines
from figeval.errors import DataError
from figeval.io.text import near
from figeval.language.words import letters

CORPORA = {"corpus": "metaphor_paraphrase_corpus.txt", "lit2met": "lit2met_corpus.txt"}
GRADES = {"1": 1, "2": 2, "3": 3, "4": 4}


@dataclass(frozen=True, slots=True)
class Candidates:
    """One set of candidates.

    Attributes:
        number: its number in the file, from 1.
        first: number of the first set with the same metaphor.
        metaphor: the metaphorical sentence.
        graded: (sentence, grade) of each candidate; a missing grade is None.
    """

    number: int
    first: int
    metaphor: str
    graded: tuple[tuple[str, int | None], ...]


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the pairs or the sets of a corpus. Raises `DataError` if no corpus has that name."""
    corpus, _, form = path.partition("/")
    if corpus not in CORPORA or form not in ("", "sets"):
        names = [*CORPORA, *(f"{name}/sets" for name in CORPORA)]
        raise DataError(f"metaphor_paraphrase has no rows {path!r}{near(path, names)}; it has {', '.join(names)}")
    sets = candidates(text_lines(context.fetch("metaphor_paraphrase", CORPORA[corpus])), CORPORA[corpus])
    return set_rows(sets) if form else pair_rows(sets)


def pair_rows(sets: Iterator[Candidates]) -> Iterator[Row]:
    for candidate_set in sets:
        for number, (sentence, grade) in enumerate(candidate_set.graded, 1):
            ids = {"id": f"{candidate_set.number}-{number}", "set": f"set {candidate_set.first}"}
            yield {**ids, "metaphor": candidate_set.metaphor, "candidate": sentence, "grade": grade}


def set_rows(sets: Iterator[Candidates]) -> Iterator[Row]:
    """Yield a row for each set whose candidates all have a grade, not all of them the lowest one, 1.

    `gains` are the grades minus 1.
    """
    for candidate_set in sets:
        grades = [grade for _, grade in candidate_set.graded if grade is not None]
        if len(grades) == len(candidate_set.graded) and max(grades) > 1:
            yield {
                "id": str(candidate_set.number),
                "set": f"set {candidate_set.first}",
                "metaphor": candidate_set.metaphor,
                "candidates": tuple(sentence for sentence, _ in candidate_set.graded),
                "gains": {index: grade - 1 for index, grade in enumerate(grades)},
            }


def candidates(lines: Iterator[str], file: str) -> Iterator[Candidates]:
    """Yield the sets of a file.

    Raises:
        DataError: a set has no candidates, its metaphor has a grade, or a grade is not on the scale.
    """
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    sets = (list(group) for filled, group in groupby(numbered, key=lambda line: bool(line[1])) if filled)
    first: dict[str, int] = {}
    for count, ((line, metaphor), *candidate_lines) in enumerate(sets, 1):
        if not set(metaphor) - {"#", "*"}:
            continue
        if not candidate_lines:
            raise DataError(f"{file}:{line}: a metaphor without candidates; write them on the lines below it")
        if "#" in metaphor:
            raise DataError(
                f"{file}:{line}: a set begins with a grade; write its metaphor on a separate line before it"
            )
        graded = tuple(_read_candidate(text, f"{file}:{number}") for number, text in candidate_lines)
        yield Candidates(count, first.setdefault(letters(metaphor), count), metaphor, graded)


def _read_candidate(text: str, location: str) -> tuple[str, int | None]:
    """Return the sentence of a candidate, and its grade if it has one."""
    sentence, mark, grade = text.rpartition("#")
    if not mark:
        return text, None
    if grade.strip() not in GRADES:
        raise DataError(f"{location}, field 'grade': {grade.strip()!r:.40} is not on the scale {', '.join(GRADES)}")
    return sentence.strip(), GRADES[grade.strip()]
