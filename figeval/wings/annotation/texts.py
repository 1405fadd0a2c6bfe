"""The texts that models wrote for a task in stored runs, with their inputs.

Rows contain the model's output but no text of the benchmark, so inputs and references are read again through the data
layer, and the examples must be the ones that the run was made on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from figeval.errors import RecordError, near
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import read_run
from figeval.records.schema import RunRecord, TaskRecord
from figeval.runs.harness import Harness
from figeval.runs.variants import recorded_variant
from figeval.spec.criteria import Scale
from figeval.task_types.generation import WRITTEN, GenerationExample
from figeval.wings.annotation.kinship import Origin, origin_of

REFERENCE = "reference"  # author name of the texts that people wrote
JOIN = "; "  # separator of the texts of an input that is a list


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text, its author, and the example for which it was written, with that example's cluster and inputs."""

    author: str
    example: str
    cluster: str | None
    inputs: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class WrittenTexts:
    """The texts of some examples of a task by all authors.

    Attributes:
        task: name of the task in the records; a prompt follows after an @.
        error_types: types of errors that the task asks annotators to look for.
        texts: texts in the order of the examples, and for each example in the order of the authors.
        authors: models, followed by `REFERENCE` if references were requested.
        not_written: author → number of these examples without a text (a refusal, an error or a blank text).
        criteria: criteria of the task, each with its scale as in the task file.
        models: author → what its record tells about the model.
    """

    task: str
    error_types: tuple[str, ...]
    texts: tuple[WrittenText, ...]
    authors: tuple[str, ...]
    not_written: Mapping[str, int]
    criteria: Mapping[str, Scale] = field(default_factory=dict)
    models: Mapping[str, Origin] = field(default_factory=dict)


def written_texts(
    paths: Sequence[Path], task: str | None, n: int, seed: int, harness: Harness, *, references: bool = False
) -> WrittenTexts:
    """Draw examples that have a row in all runs, and return the texts that were written for them.

    Args:
        paths: run folders.
        task: name of the task; may be None if the runs share exactly one task with written texts.
        n: number of examples to draw; all are used if there are fewer.
        seed: random seed of the draw.
        harness: registries that provide the task.
        references: True to add the first reference of each example.

    Raises:
        RecordError: the runs share no such task or no example of it, have no texts, were made on different examples, or
            the examples have changed since.
        UnknownName: the task is not installed.
    """
    runs = [read_run(path) for path in paths]
    name = _shared_task(paths, [record for record, _ in runs], task)
    tasks = [next(one for one in record.tasks if one.task == name) for record, _ in runs]
    variant = recorded_variant(tasks[0], int(runs[0][0].config.get("seed", 0)), harness)
    _refuse_other_examples(paths, tasks)
    authors = author_names([record for record, _ in runs])
    rows = {
        author: {row["id"]: row for row in folder.rows(name)} for author, (_, folder) in zip(authors, runs, strict=True)
    }
    common = [key for key in rows[authors[0]] if all(key in own for own in rows.values())]
    if not common:
        raise RecordError(f"the runs have no example of {name} in common; run them with the same --limit or --sample")
    drawn = set(random.Random(f"{seed} examples").sample(common, min(n, len(common))))
    texts, missing = [], Counter[str]()
    for example in variant.examples():
        if example.id not in drawn or not isinstance(example, GenerationExample):
            continue
        inputs = {key: given if isinstance(given, str) else JOIN.join(given) for key, given in example.inputs.items()}
        written: dict[str, str | None] = {author: _text(own[example.id]) for author, own in rows.items()}
        if references:
            written[REFERENCE] = example.references[0]
        for author, text in written.items():
            if text is None:
                missing[author] += 1
            else:
                texts.append(WrittenText(author, example.id, example.cluster, inputs, text))
    named = (*authors, *([REFERENCE] if references else ()))
    spec = variant.task
    models = {author: origin_of(record.model) for author, (record, _) in zip(authors, runs, strict=True)}
    return WrittenTexts(name, spec.error_types, tuple(texts), named, dict(missing), spec.criteria, models)


def _shared_task(paths: Sequence[Path], records: Sequence[RunRecord], wanted: str | None) -> str:
    """Return the generation task that all runs share: the wanted one, or else the only one."""
    found = [[task.task for task in record.tasks if _has_texts(task)] for record in records]
    shared = [name for name in found[0] if all(name in names for names in found)]
    if wanted is not None and wanted in shared:
        return wanted
    if wanted is None and len(shared) == 1:
        return shared[0]
    has = "; ".join(f"{path} has {', '.join(names) or 'none'}" for path, names in zip(paths, found, strict=True))
    if wanted is None and shared:
        raise RecordError(f"the runs share several tasks with written texts: {', '.join(shared)}; give --task")
    what = "no task with written texts" if wanted is None else f"no {wanted!r} with written texts"
    hint = "" if wanted is None else near(wanted, shared)
    raise RecordError(f"the runs share {what}{hint}; {has} (a route that answers with training texts does not count)")


def _has_texts(task: TaskRecord) -> bool:
    return task.task_type == "generation" and task.kind != "probe" and task.route in WRITTEN


def _refuse_other_examples(paths: Sequence[Path], tasks: Sequence[TaskRecord]) -> None:
    for path, task in zip(paths, tasks, strict=True):
        if task.examples_sha256 != tasks[0].examples_sha256:
            raise RecordError(
                f"{task.task}: {paths[0]} and {path} were made on different examples; run both with the same version "
                "of figeval and its data"
            )


def author_names(records: Sequence[RunRecord]) -> list[str]:
    """Return the names of the models, followed by the identity of the run if two models have the same name."""
    counts = Counter(record.model.name for record in records)
    names = [
        record.model.name if counts[record.model.name] == 1 else f"{record.model.name} ({record.identity})"
        for record in records
    ]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise RecordError(f"the same run is given twice ({twice[0]}); give each run once")
    return names


def _text(row: PredictionRow) -> str | None:
    text = row["pred"] if row["status"] == "ok" else None
    return text if isinstance(text, str) and text.strip() else None
