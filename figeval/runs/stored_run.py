"""Stored runs with their answers, as exporters and other readers of finished runs get them.

Texts are read from the user's own copy of the data when they are asked for, never from the run folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from figeval.data.readers import fetch, first_request
from figeval.data.sources import catalogue
from figeval.errors import FigevalError, RecordError
from figeval.io.text import one_line
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.sweep import run_or_mean
from figeval.runs.harness import Harness
from figeval.runs.variants import recorded_variant
from figeval.types import Example, Span

NONCOMMERCIAL = re.compile(r"\bNC\b|\bnon-?commercial|excludes commercial", re.IGNORECASE)
HIDDEN_FIELDS = {"prompted", "texts"}  # not facts about the example


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A model's answer to one example, as exporters get it.

    Attributes:
        row: the line of the predictions file, without texts of the benchmark.
        input: the text that is asked about; empty unless the user asked for texts, like `options` and `fields`.
        options: the texts to choose from, if the task type has some.
        reference: the right answers: texts if the user asked for them, otherwise labels, indexes or spans.
        answer: the model's answer in the same form, or what it wrote; empty if it gave none.
        fields: all fields of the example by name, as JSON values; spans are [start, end].
    """

    row: PredictionRow
    input: str = ""
    options: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    answer: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run with its answers, as exporters get it.

    Attributes:
        record: the content of `run.json`.
        folder: the folder of the run.
        harness: the installed tasks, from which the examples' texts are read.
        has_texts: True if the user asked for these texts.
    """

    record: RunRecord
    folder: RunFolder
    harness: Harness = field(default_factory=Harness)
    has_texts: bool = False

    def homepage(self, task: TaskRecord) -> str:
        """Return the address of the benchmark that a task belongs to, or an empty text if that is unknown."""
        try:
            spec = self.harness.catalogue.tasks.get(task.of or task.task)
            requested = first_request(spec.data["test"], spec.folder or files("figeval"), self.harness.readers)
        except Exception:  # the task is not installed, or a plugin's reader fails, which is no matter of the export
            return ""
        return catalogue().get(requested[0]).homepage if requested else ""

    def benchmarks(self) -> dict[str, str]:
        """Return the plugin of each installed task, such as `epic`, by the name of the task."""
        return {entry.name: entry.owner.rpartition(".")[2] for entry in self.harness.catalogue.tasks}

    def answers(self, task: TaskRecord) -> Iterator[StoredAnswer]:
        """Yield the answers to a task in the order of its examples; there are none for a mean over seeds.

        Raises:
            RecordError: the predictions or the examples have changed since the run.
            FigevalError: the licence of the data does not permit every use, and the user did not confirm theirs.
        """
        if not task.predictions:
            return
        self.folder.check(task)
        examples = self._examples(task)
        for stored in self.folder.rows(task.task):
            row: Any = {name: value for name, value in stored.items() if name != "texts"}
            if examples is None:
                yield StoredAnswer(
                    row=row, reference=tuple(map(_shown, _right_answers(row))), answer=_shown(row["pred"])
                )
                continue
            if row["id"] not in examples:
                raise RecordError(f"there is no example {one_line(row['id'], 80)!r} in {task.task}; run the task again")
            yield _with_texts(row, examples[row["id"]])

    def _examples(self, task: TaskRecord) -> dict[str, Example] | None:
        if not self.has_texts:
            return None
        seed = int(self.record.config.get("seed", 0))
        return {example.id: example for example in recorded_variant(task, seed, self.harness).examples()}


def _field_names(example: Example) -> list[str]:
    return [column.name for column in fields(example) if column.name not in HIDDEN_FIELDS]


def _with_texts(row: PredictionRow, example: Example) -> StoredAnswer:
    """Return an answer whose indexes and spans are replaced by the texts that they stand for."""
    values = {name: getattr(example, name) for name in _field_names(example)}
    options: tuple[str, ...] = next(
        (tuple(values[name]) for name in ("options", "candidates", "anchors") if values.get(name)), ()
    )
    text = example.asked[0] if example.asked else ""

    def text_of(value: Any) -> str:
        if isinstance(value, int) and 0 <= value < len(options):
            return options[value]
        if isinstance(value, list) and len(value) == 2 and all(isinstance(offset, int) for offset in value):
            return text[value[0] : value[1]]
        return _shown(value)

    reference = tuple(values.get("references") or map(text_of, _right_answers(row)))
    return StoredAnswer(
        row=row,
        input="\n".join(_question_texts(example, values)),
        options=options,
        reference=reference,
        answer=text_of(row["pred"]),
        fields={name: _plain(value) for name, value in values.items()},
    )


def _question_texts(example: Example, values: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts that are asked about; for generation, the inputs instead of the reference."""
    if "inputs" not in values:
        return example.asked
    inputs = ((name, text if isinstance(text, str) else ", ".join(text)) for name, text in values["inputs"].items())
    return [f"{name}: {text}" for name, text in inputs]


def _plain(value: Any) -> Any:
    if isinstance(value, Span):
        return [value.start, value.end]
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    if isinstance(value, Example):
        return {name: _plain(getattr(value, name)) for name in _field_names(value)}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _right_answers(row: PredictionRow) -> list[Any]:
    """Return the right answers of a row: several candidates of a ranking, otherwise one value or none."""
    gold: Any = row["gold"]
    if "relevant_scores" in row and isinstance(gold, list):
        return gold
    return [] if gold is None or gold == [] else [gold]


# ---- from paths to files --------------------------------------------------------------------------------------------


def stored_runs(
    paths: Sequence[Path], include: tuple[Path, ...] = (), *, texts: bool = False, noncommercial: bool = False
) -> list[StoredRun]:
    """Return the runs in these folders, with means for folders of several seeds.

    Args:
        paths: run folders.
        include: further folders with task files.
        texts: whether exporters get the texts of the examples.
        noncommercial: whether these may be texts under a licence for non-commercial use.

    Raises:
        RecordError: there is no run.
    """
    harness = Harness(include=include, fetch=fetch if noncommercial else _fetch_unless_noncommercial)
    records = [(run_or_mean(path), path if path.is_dir() else path.parent) for path in paths]
    return [StoredRun(record, RunFolder(folder), harness, texts) for record, folder in records]


def _fetch_unless_noncommercial(benchmark: str, path: str) -> Path:
    licence = _noncommercial(benchmark, path)
    if licence:
        raise FigevalError(
            f"the texts of {benchmark} are not exported, because their licence restricts commercial use: "
            f"{one_line(licence, 200)}; add --allow_noncommercial if your use is permitted, or leave out --include_text"
        )
    return fetch(benchmark, path)


def _noncommercial(benchmark: str, path: str) -> str:
    """Return the words that restrict the use of a file to non-commercial purposes, or an empty text.

    A clause of the note that names folders of the benchmark is about these only.
    """
    sources = catalogue().get(benchmark)
    if NONCOMMERCIAL.search(sources.licence):
        return sources.licence
    folders = {file.path.partition("/")[0] for file in sources.files if "/" in file.path}
    for clause in re.split(r"[;.]\s+", sources.note):
        clause_folders = folders & set(re.findall(r"[\w-]+", clause))
        if NONCOMMERCIAL.search(clause) and (not clause_folders or path.partition("/")[0] in clause_folders):
            return clause
    return ""
