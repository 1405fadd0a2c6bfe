"""`figeval.export_items`, and the `AnnotationItems` that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, get_args

from pydantic import TypeAdapter, ValidationError

from figeval import frontend
from figeval.api.frames import data_frame
from figeval.api.runs import Folders, Runs, Task, given_options, listed, paths_in, run_paths, task_names
from figeval.errors import OptionError, near
from figeval.io.text import clean, counted
from figeval.io.validation import checked_arguments, first_problem
from figeval.runs.harness import Guests, Harness
from figeval.spec.criteria import Criterion, Scale, criteria_of
from figeval.types import JSON
from figeval.wings.annotation import export
from figeval.wings.annotation.instructions import given, to_answer, to_judge
from figeval.wings.annotation.sheets import INSTRUCTIONS, KEY, Key
from figeval.wings.annotation.texts import WrittenTexts, written_texts

if TYPE_CHECKING:
    from typing import Unpack

    import pandas

COLUMNS = {"item": "string", "author": "string", "example": "string", "cluster": "string", "gold": "string"}
RANGES = {"n": (1, 1_000_000), "annotators": (1, 99), "checks": (0, 99)}
Criteria: TypeAlias = str | Sequence[str] | Mapping[str, Any]


class ItemOptions(TypedDict, total=False):
    """Further flags of `figeval annotate export`; `figeval annotate export --help` describes each."""

    n: int
    to: export.Format
    annotators: int
    checks: int
    references: bool
    seed: int
    include_path: Folders


@checked_arguments
def export_items(
    runs: Runs = (),
    *,
    output: str | Path,
    task: Task | None = None,
    criteria: Criteria = (),
    instructions: str | Path | None = None,
    **options: Unpack[ItemOptions],
) -> AnnotationItems:
    """Write items for annotators, in a random order and without names: texts of runs, or questions of a choice task.

    Args:
        runs: runs whose texts are to be judged, or their folders; without any, people answer the questions of `task`.
        output: folder to write the items and their key to.
        task: task whose texts are judged, or a choice task.
        criteria: criteria with their scales, `"fluency=1-5,coherence=yes/no"` or `{"fluency": "1-5"}`; a mapping may
            describe them: `{"fluency": {"scale": "1-5", "description": "5: natural."}}`. Or a task whose criteria are
            used; by default, those of the task.
        instructions: what annotators are told: a text, or a file with one; "" for nothing. By default, a text
            about the criteria or the task.
        options: further flags of `figeval annotate export` under the same names: `n`, `to`, `annotators`, `checks`,
            `references`, `seed`, `include_path`.

    Raises:
        TypeError: there is no such option.
        OptionError: an argument has an invalid value, the task has no criteria, or the folder already has items.
        RecordError: the runs have no such texts, or were made on other examples.

    Example:
        ```python
        items = figeval.export_items(["runs/a", "runs/b"], output="items", criteria={"fluency": "1-5"}, annotators=2)
        items.to_frame()["author"].value_counts()
        ```
    """
    found = _options(given_options("figeval.export_items", options, ItemOptions.__annotations__))
    places = run_paths(runs)
    names, made = ((), ()) if task is None else task_names(task)
    if len(names) > 1 or not (places or names):
        raise OptionError("give the runs whose texts are to be judged, or one choice task")
    told = None if instructions is None else given(str(instructions))
    n, seed = found.pop("n", 50), found.setdefault("seed", 0)
    include, references = paths_in(found.pop("include_path", ())), found.pop("references", False)
    with frontend.python_program(watched=False):
        harness = Harness(include=include, guests=Guests(made))
        gold: dict[str, str] = {}
        if places:
            written = written_texts(places, names[0] if names else None, n, seed, harness, references=references)
            wanted = _wanted(criteria, written, harness)
            default = to_judge(wanted)
        else:
            spec = harness.catalogue.tasks.get(names[0])
            written, gold, answer = export.questions(spec, n, seed, harness)
            wanted, default = (answer,), to_answer(spec)
        form = export.Export(criteria=wanted, instructions=default if told is None else told, **found)
        return AnnotationItems(Path(output), export.export_items(Path(output), written, gold, form))


@dataclass(frozen=True, slots=True)
class AnnotationItems:
    """Items for annotators, as `figeval.export_items` returns them.

    `print` prints the lines that `figeval annotate export` prints.

    Attributes:
        path: folder of the items.
        key: who wrote each text and which answers are right, with the criteria and the instructions; keep it from the
            annotators.
    """

    path: Path
    key: Key

    def to_frame(self) -> pandas.DataFrame:
        """Return the key, one row per item without attention checks: `item`, `author`, `example`, `cluster`, `gold`.

        Raises:
            FigevalError: pandas is not installed.
        """
        rows = (
            {"item": number, **item.model_dump(), "gold": self.key.gold.get(number)}
            for number, item in self.key.items.items()
        )
        return data_frame(rows, COLUMNS)

    def to_dict(self) -> JSON:
        """Return the content of `key.json`."""
        return self.key.model_dump(mode="json")

    def _lines(self) -> Iterator[str]:
        key = self.key
        checks = f" and {counted(len(key.checks), 'attention check')}" if key.checks else ""
        files = ", ".join(key.sheets) or f"{export.TASKS}, {export.CONFIG}"
        yield f"{counted(len(key.items), 'item')}{checks} of {key.task}: {files}"
        for one in key.criteria:
            yield f"{one.name}: {', '.join(one.labels)}"
        for author, count in key.not_written.items():
            yield f"{author}: {counted(count, 'text')} in the sample not written"
        if (self.path / INSTRUCTIONS).exists():
            yield f"{self.path / INSTRUCTIONS} tells annotators what to do; give it to them with the items"
        yield f"{self.path / KEY} says who wrote each text and which answers are right; keep it from the annotators"

    def __str__(self) -> str:
        return clean("\n".join(self._lines()))

    def __repr__(self) -> str:
        return f"<figeval.AnnotationItems of {self.key.task}: {counted(len(self.key.items), 'item')} in {self.path}>"


def parts_of(criteria: Criteria) -> list[str] | dict[str, Scale]:
    """Return criteria as parts such as `fluency=1-5`, or as a mapping with their scales. Raises `OptionError`."""
    if isinstance(criteria, Mapping):
        try:
            return TypeAdapter(dict[str, Scale]).validate_python(dict(criteria))
        except ValidationError as error:
            raise OptionError(f"criteria: {first_problem(error)}") from error
    example = 'criteria with their scales, such as "fluency=1-5"'
    parts = criteria.split(",") if isinstance(criteria, str) else listed(criteria, str, "criteria", example)
    return [part.strip() for part in parts if part.strip()]


def _wanted(criteria: Criteria, written: WrittenTexts, harness: Harness) -> tuple[Criterion, ...]:
    parts = parts_of(criteria)
    if isinstance(parts, list):
        return export.wanted_criteria(parts, written, harness)
    try:
        return criteria_of(parts)
    except ValueError as error:
        raise OptionError(f"criteria: {error}") from error


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options if their values are possible. Raises `OptionError`."""
    for name, (least, most) in RANGES.items():
        value = given.get(name, least)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise OptionError(f"{name}={value!r:.80}: give a whole number from {least} to {most:,}")
    if not isinstance(seed := given.get("seed", 0), int) or isinstance(seed, bool):
        raise OptionError(f"seed={seed!r:.80}: give a whole number")
    if given.get("to", "csv") not in (forms := get_args(export.Format)):
        raise OptionError(f"to={given['to']!r:.80}{near(str(given['to']), forms)}; the formats are {', '.join(forms)}")
    return given
