"""From the files of annotators to results: with the key of `figeval annotate export`, or for the examples of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from figeval.errors import DataError, OptionError, RecordError, near
from figeval.io.storage import cure, replacing
from figeval.records.measured import write_measured
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import TaskRecord
from figeval.runs.stored import Values, stored_metrics, stored_values
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.journal import journals
from figeval.wings.annotation.judge_record import read_judges
from figeval.wings.annotation.judge_results import JudgeResults, judge_results
from figeval.wings.annotation.judgements import Judgement, Judgements, read_judgements
from figeval.wings.annotation.results import HumanResults, checked, human_results, numbers_for_tables
from figeval.wings.annotation.sheets import KEY, Item, Key, csv_bytes, read_key
from figeval.wings.annotation.texts import author_names

STORED = "judgements.csv"  # all judgements in the long form, next to the key
HEAD = ("item", "annotator", "criterion", "label", "time")
UNNAMED = "label"  # criterion of a file that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Files to import, and the items that their numbers belong to.

    Attributes:
        files: files of annotators; by default, the answers of the page and the sheets in `folder`.
        folder: folder of the key, or None if items are the ids of the examples of the only run.
        runs: runs whose metrics are correlated with the judgements.
        task: task of the run, needed only if it has several.
        criteria: scales of the criteria, for judgements without a key; by default, the labels that occur.
        last: whether the last answer counts where an annotator judged an item twice.
        pairs: whether to compute the agreement of each pair of annotators.
        exclude: annotators whose judgements do not count in the results; they stay stored.
    """

    files: tuple[Path, ...] = ()
    folder: Path | None = None
    runs: tuple[Path, ...] = ()
    task: str | None = None
    criteria: tuple[Criterion, ...] = ()
    last: bool = False
    pairs: bool = False
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """Results of people and of judges, and the judgements as they were read; `people.systems` may be empty."""

    people: HumanResults
    judges: tuple[JudgeResults, ...]
    given: Judgements


def import_judgements(wanted: Import, seed: int = 0) -> Imported:
    """Read and check the judgements, store them next to the key, and return the results and what was read.

    The results cover all stored judgements. Those of an annotator in the files replace that annotator's earlier
    ones; those of other annotators stay.

    Raises:
        OptionError: there is neither a key nor exactly one run, there are no files, or nobody has an excluded name.
        DataError: a file or a judgement is wrong, or there are no judgements of people or of a model.
        RecordError: a run does not have the task, or the folder cannot be written.
    """
    if wanted.folder is None and len(wanted.runs) != 1:
        raise OptionError(
            "give --to FOLDER (from `figeval annotate export`), or one --run if the items are ids of its examples"
        )
    key = None if wanted.folder is None else read_key(wanted.folder)
    files = wanted.files or (() if key is None or wanted.folder is None else _returned(wanted.folder, key))
    judges = () if key is None or wanted.folder is None else read_judges(wanted.folder, key)
    if not files and not judges:
        raise OptionError("there are no files to import; name the files that the annotators returned")
    runs = [read_run(path) for path in wanted.runs]
    judged = key.judged if key else wanted.criteria
    given = read_judgements(files, [one.name for one in judged])
    if not given.found and not judges:
        raise DataError(
            f"{', '.join(map(str, files)):.200}: nothing has been judged yet; import the files when they are filled in"
        )
    tasks = [(_task(record.tasks, key.task if key else wanted.task, folder), folder) for record, folder in runs]
    inferred = {}
    if key is None:
        scales = wanted.criteria or _scales(given)
        inferred = {} if wanted.criteria else {one.name: one.labels for one in scales}
        key = _key_of_run(tasks[0][0], tasks[0][1], author_names([runs[0][0]])[0], scales)
    judgements = checked(key, given, last=wanted.last)
    if wanted.folder is not None:
        judgements = (*_kept(wanted.folder, key, {one.annotator for one in judgements}), *judgements)
    people = {one.annotator for one in judgements}
    if strangers := [name for name in wanted.exclude if name not in people]:
        raise OptionError(
            f"--exclude: no annotator is called {strangers[0]!r:.40}{near(strangers[0], people)}; there are "
            f"{', '.join(sorted(people))}"
        )
    if wanted.folder is not None and given.found:
        _store(wanted.folder, judgements)
    judgements = tuple(one for one in judgements if one.annotator not in wanted.exclude)
    if wanted.folder is not None and judgements:
        write_measured(wanted.folder, numbers_for_tables(key, judgements, seed), "--to")
    metrics = _metrics(key, author_names([record for record, _ in runs]), tasks)
    found = human_results(key, judgements, metrics, seed, pairs=wanted.pairs)
    return Imported(
        people=replace(found, inferred=inferred),
        judges=tuple(judge_results(key, judgements, one, seed) for one in judges),
        given=given,
    )


def _returned(folder: Path, key: Key) -> tuple[Path, ...]:
    """Return the answers that were stored by the page and the sheets; next to answers, sheets may be empty or gone."""
    served = tuple(journal.file for journal in journals(folder))
    sheets = tuple(folder / sheet for sheet in key.sheets)
    if not served:
        return sheets
    criteria = [one.name for one in key.judged]
    filled = (sheet for sheet in sheets if sheet.exists() and read_judgements([sheet], criteria).found)
    return (*served, *filled)


def _task(tasks: Sequence[TaskRecord], name: str | None, folder: RunFolder) -> TaskRecord:
    """Return the task of a run with this name, or its only task."""
    own = [task for task in tasks if task.kind != "probe"]
    found = [task for task in own if name in (None, task.task)]
    if len(found) == 1:
        return found[0]
    names = [task.task for task in own]
    what = f"has no task {name!r}{near(name, names)}" if name else "has several tasks; give --task"
    raise RecordError(f"{folder.path} {what}; it has {', '.join(names)}")


def _key_of_run(task: TaskRecord, folder: RunFolder, author: str, criteria: tuple[Criterion, ...]) -> Key:
    """Return a key whose items are the ids of a run's examples."""
    rows = {row["id"]: Item(author=author, example=row["id"], cluster=row["cluster"]) for row in folder.rows(task.task)}
    return Key(
        task=task.task,
        error_types=(),
        authors=(author,),
        not_written={},
        seed=0,
        sheets=(),
        items=rows,
        criteria=criteria,
    )


def _scales(given: Judgements) -> tuple[Criterion, ...]:
    """Return criteria with the labels that occur: all numbers from the lowest to the highest, or the labels sorted."""
    labels: dict[str, set[str]] = {}
    for one in given.found:
        labels.setdefault(one.criterion or UNNAMED, set()).add(one.label)
    found = []
    for name, own in labels.items():
        if all(label.isdecimal() and len(label) < 4 for label in own):
            values = sorted(map(int, own))
            steps = tuple(map(str, range(values[0], values[-1] + 1)))
        else:
            steps = YES_NO if {label.lower() for label in own} <= set(YES_NO) else tuple(sorted(own))
        found.append(Criterion(name=name, labels=steps))
    return tuple(found)


def _metrics(
    key: Key, authors: Sequence[str], tasks: Sequence[tuple[TaskRecord, RunFolder]]
) -> Mapping[str, Mapping[str, Values]]:
    """Return system → metric → values of the examples, for the runs whose texts or questions were judged.

    People answered questions, so metrics of models are named after them there.
    """
    found: dict[str, dict[str, Values]] = {}
    for author, (task, folder) in zip(authors, tasks, strict=True):
        system = key.authors[0] if key.gold else author
        if system not in key.authors:
            raise RecordError(
                f"{folder.path}: {author} wrote none of the judged texts{near(author, key.authors)}; {KEY} names "
                f"{', '.join(key.authors)}"
            )
        for metric, is_mean in stored_metrics(folder, task.task).items():
            if is_mean:
                name = f"{metric} of {author}" if key.gold else metric
                found.setdefault(system, {})[name] = stored_values(folder, task.task, metric)
    return found


def _kept(folder: Path, key: Key, replaced: Set[str]) -> Iterator[Judgement]:
    """Yield the judgements that an earlier import stored, without those of the replaced annotators."""
    if (folder / STORED).exists():
        for one in checked(key, read_judgements([folder / STORED], [])):
            if one.annotator not in replaced:
                yield one


def _store(folder: Path, judgements: Sequence[Judgement]) -> None:
    rows = [[one.item, one.annotator, one.criterion, one.label, one.time] for one in judgements]
    with cure(folder, "--to"), replacing(folder / STORED) as stream:
        stream.write(csv_bytes([HEAD, *rows]))
