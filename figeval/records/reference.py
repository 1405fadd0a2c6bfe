"""Numbers that tables have beside those of runs: published ones, and others that were measured without a run.

Published results, each with its paper, version and table, are in `results/reference/<benchmark>.json`. Numbers of an
analysis of data or of people's judgements are in files `measured.json`, which `figeval benchmark analyze BENCHMARK` and
`figeval annotate import` write; one that is written by hand needs the same few keys. `figeval export --to latex
--layout NAME --measured FILE` puts them into a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter, model_validator

from figeval.errors import RecordError
from figeval.io.files import cure, replacing
from figeval.io.json_files import read_json, read_model
from figeval.io.text import one_line
from figeval.records.schema import Stored

RESULTS = "figeval.builtin.results"


# ---- published numbers -----------------------------------------------------------------------------------------------


class Published(Stored):
    """One number from a paper; shares are fractions, as figeval prints them.

    Attributes:
        task: the task that measures the same, or "" if figeval has none or the metric is not among its own.
        part: what the number is about if there is no task: a part of the data, judgements of people.
        metric: name of a metric of the task; of a part, any name.
        model: the row of the printed table.
        value: the number; unlike shares, counts and lengths are as printed.
        source: paper, version, table.
        note: a caveat.
        doubt: one sentence on why the printed number cannot be right; tables have it as a footnote.
        significance: the mark of significance that is printed behind the number.
    """

    task: str = ""
    part: str = ""
    metric: str
    model: str
    value: float
    source: str
    note: str = ""
    doubt: str = ""
    significance: Literal["", "*", "**"] = ""

    @model_validator(mode="after")
    def _is_about_one_thing(self) -> Published:
        if bool(self.task) == bool(self.part):
            raise ValueError("a number is about a task or a part, and not about both")
        return self

    @property
    def about(self) -> str:
        """Name of the task, or of the part."""
        return self.task or self.part


def published_results(task: str | None = None) -> Iterator[Published]:
    """Yield the published results of a task, or of all tasks, in the order of the files."""
    return (row for row in published_numbers() if row.task and task in (None, row.task))


def published_numbers(sources: Container[str] | None = None) -> Iterator[Published]:
    """Yield all published numbers, or those of some tables, in the order of the files; some are not about a task."""
    rows = TypeAdapter(list[Published])
    for file in sorted((files(RESULTS) / "reference").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            numbers = rows.validate_python(read_json(file, RecordError))
            yield from (row for row in numbers if sources is None or row.source in sources)


# ---- measured numbers ------------------------------------------------------------------------------------------------

MEASURED_FILE = "measured.json"
JUDGED_SUFFIX = "_judged"  # ends the part of a task's judged texts: storal_st2mo_en_judged
CURE = (
    "make it with `figeval benchmark analyze BENCHMARK` or `figeval annotate import --to`, "
    "or write one (docs/exports.md)"
)
Rule: TypeAlias = Literal["mean", "majority"]  # how several people's labels of a text become its value
MEAN: Rule = "mean"
MAJORITY: Rule = "majority"
KAPPA = "_kappa"  # ends the metric with the agreement on a criterion: fluency_kappa


def _words(text: str) -> str:
    """Return a text in one line, as tables print it."""
    if not (line := one_line(text)):
        raise ValueError("must not be blank")
    return line


Words = Annotated[str, AfterValidator(_words)]


class MeasuredNumber(Stored):
    """One number, and its column of a table by part and metric, as `figeval ls layouts` and the layouts name them."""

    part: str
    metric: str
    model: Words = Field(description="the row of the table; names of runs have any length")
    value: FiniteFloat
    low: FiniteFloat | None = Field(default=None, description="lower end of the 95 % interval")
    high: FiniteFloat | None = Field(default=None, description="upper end of the 95 % interval")
    n: int | None = Field(default=None, ge=0, description="examples that the number is about")
    rule: Rule | None = Field(
        default=None,
        description="how several people's labels of a text became its value; without it, any table takes it",
    )

    @model_validator(mode="after")
    def _has_a_whole_interval(self) -> MeasuredNumber:
        if (self.low is None) != (self.high is None):
            raise ValueError("give both low and high, or neither")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is greater than high; exchange them")
        return self


class MeasuredNumbers(Stored):
    """Content of a `measured.json`.

    Attributes:
        source: how the numbers were measured, in a few words; it stands below the table.
        numbers: the numbers; each has a column and a row of its own.
    """

    source: Words = Field(max_length=500)
    numbers: tuple[MeasuredNumber, ...]


def read_measured(paths: Sequence[Path]) -> Iterator[MeasuredNumbers]:
    """Yield the numbers in some files, or in the `measured.json` of folders.

    Raises:
        RecordError: a file does not exist or is none, or has two numbers for one cell.
    """
    for path in paths:
        file = path / MEASURED_FILE if path.is_dir() else path
        content = read_model(file, MeasuredNumbers, RecordError, cure=CURE)
        cells = Counter((number.part, number.metric, number.model, number.rule or "") for number in content.numbers)
        if doubled := next((cell for cell, times in cells.items() if times > 1), None):
            raise RecordError(
                f"{file}: two numbers for {one_line(', '.join(filter(None, doubled)), 200)}; remove one of them"
            )
        yield content


def write_measured(folder: Path, numbers: MeasuredNumbers, option: str) -> Path:
    """Replace the numbers of a folder, and return the file. Raises `RecordError` with the option to be changed."""
    file = folder / MEASURED_FILE
    with cure(folder, option), replacing(file) as stream:
        stream.write((numbers.model_dump_json(indent=1, exclude_none=True) + "\n").encode())
    return file
