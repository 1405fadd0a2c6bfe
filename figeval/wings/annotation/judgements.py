"""Judgements of a folder: read from files, checked against the key, stored next to it, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

from figeval import DataError, OptionError, RecordError, TaskRecord
from figeval.io.files import cure, replacing
from figeval.io.text import near
from figeval.records.reference import write_measured
from figeval.records.run_folder import RunFolder, read_run
from figeval.runs.stored import Values, stored_metrics, stored_values
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.battles.results import battle_results, numbers_of_battles
from figeval.wings.annotation.human_results import Analysis, human_results, labels_by_criterion, numbers_of_systems
from figeval.wings.annotation.items import (
    CATEGORY,
    COMMENT,
    ERRORS,
    KEY,
    LONG_COLUMNS,
    REMARKS,
    Item,
    Key,
    csv_bytes,
    read_key,
    slug,
)
from figeval.wings.annotation.journal import find_journals
from figeval.wings.annotation.judge_record import JudgeAnswers, read_judges
from figeval.wings.annotation.judge_results import judge_results
from figeval.wings.annotation.labels import find_thresholds
from figeval.wings.annotation.remarks import checked_remark, count_categories, is_remark, list_comments, write_errors
from figeval.wings.annotation.system_tests import JudgedSample
from figeval.wings.annotation.tables import AnnotationResults
from figeval.wings.annotation.tool_files import Judgement, JudgementBatch, read_judgements
from figeval.wings.annotation.written_texts import JOIN, author_names

STORED = "judgements.csv"  # all judgements in the long form, next to the key
UNNAMED = "label"  # criterion of a file that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Arguments of `figeval.import_judgements`, which describes them; `folder` is that of the key."""

    files: tuple[Path, ...] = ()
    folder: Path | None = None
    runs: tuple[Path, ...] = ()
    task: str | None = None
    criteria: tuple[Criterion, ...] = ()
    last: bool = False
    pairs: bool = False
    exclude: tuple[str, ...] = ()
    thresholds: Mapping[str, str] = field(default_factory=dict)
    other_items: tuple[Path, ...] = ()


def analyze_judgements(source: Import, seed: int = 0) -> AnnotationResults:
    """Read and check the judgements, store them next to the key, and return the results and what was read.

    The results cover all stored judgements. Those of an annotator in the files replace that annotator's earlier
    ones; those of other annotators stay.

    Raises:
        OptionError: there is neither a key nor exactly one run, there are no files, or nobody has an excluded name.
        DataError: a file or a judgement is wrong, or there are no judgements of people or of a model.
        RecordError: a run does not have the task, or the folder cannot be written.
    """
    if source.folder is None and len(source.runs) != 1:
        raise OptionError(
            "give --to FOLDER (from `figeval annotate export`), or one --run if the items are ids of its examples"
        )
    key = None if source.folder is None else read_key(source.folder)
    batch, judges = _read(source, key)
    runs = [read_run(path) for path in source.runs]
    authors = author_names([record for record, _ in runs])
    name = source.task if key is None else key.task
    tasks = [(_find_task(record.tasks, name, folder), folder) for record, folder in runs]
    inferred = {}
    if key is None:
        scales = source.criteria or _infer_scales(batch)
        inferred = {} if source.criteria else {criterion.name: criterion.labels for criterion in scales}
        key = _key_of_run(*tasks[0], authors[0], scales)
    if key.battles:
        _refuse_options_of_means(source)
    thresholds = find_thresholds(source.thresholds, key.all_criteria)
    judgements, remarks = _merge_stored(source, key, batch)
    if not (judgements or judges):
        raise DataError(f"nobody has judged anything of {key.task} yet; import judgements before remarks on them")
    analysis = Analysis(source.pairs, thresholds, tuple(_read_sample(path, key) for path in source.other_items))
    people = human_results(key, judgements, _metrics_of(key, authors, tasks), analysis, seed)
    battles = battle_results(key, labels_by_criterion(key, judgements), judges, seed) if key.battles else None
    if source.folder is not None and judgements:
        numbers = numbers_of_systems(key, judgements, people, thresholds, seed)
        if battles is not None:
            numbers = numbers_of_battles(key, battles, len(people.annotators))
        write_measured(source.folder, numbers, "--to")
        write_errors(source.folder, key, judgements, remarks)
    return AnnotationResults(
        people=replace(
            people,
            inferred=inferred,
            comments=list_comments(key, remarks),
            categories=count_categories(key, judgements, remarks),
        ),
        judges=tuple(judge_results(key, judgements, judge, seed) for judge in judges),
        batch=batch,
        battles=battles,
    )


def _refuse_options_of_means(source: Import) -> None:
    """Raise `OptionError` for options about the mean judgement of a text, which battles do not have."""
    options = {"--run": source.runs, "--threshold": source.thresholds, "--other_items": source.other_items}
    if useless := next((flag for flag, value in options.items() if value), None):
        raise OptionError(f"{useless}: the items are battles, whose texts have no mean judgement; remove the option")


# ---- reading and storing ---------------------------------------------------------------------------------------------


def _read(source: Import, key: Key | None) -> tuple[JudgementBatch, tuple[JudgeAnswers, ...]]:
    """Return the judgements of people in the files, and the answers of judges in the folder."""
    files = source.files
    judges: tuple[JudgeAnswers, ...] = ()
    if source.folder is not None and key is not None:
        files = files or _returned_files(source.folder, key)
        files = (*files, *_coded_errors(source.folder, files))
        judges = read_judges(source.folder, key)
    if not files and not judges:
        raise OptionError("there are no files to import; name the files that the annotators returned")
    criteria = key.all_criteria if key else source.criteria
    batch = read_judgements(files, [criterion.name for criterion in criteria], _remark_columns(key))
    if not batch.judgements and not judges:
        raise DataError(
            f"{', '.join(map(str, files)):.200}: nothing has been judged yet; import the files when they are filled in"
        )
    return batch, judges


def _remark_columns(key: Key | None) -> tuple[str, ...]:
    """Return the columns of a sheet that are remarks: other sheets may have an input that is called `category`."""
    return REMARKS if key is not None and key.categories else (COMMENT,)


def _coded_errors(folder: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the file with coded errors if there is one, since an import writes it again."""
    errors = folder / ERRORS
    is_new = errors.exists() and errors.resolve() not in [file.resolve() for file in files]
    return (errors,) if is_new else ()


def _read_sample(folder: Path, items: Key) -> JudgedSample:
    """Return the judgements that an import stored in a folder, to be compared with those of some items.

    Raises:
        DataError: there are none.
        OptionError: both have no criterion in common.
    """
    key = read_key(folder)
    judgements = tuple(_read_stored(folder, key, frozenset()))
    if not judgements:
        raise DataError(
            f"{folder} has no judgements; import them first: figeval annotate import --to {quote(str(folder))}"
        )
    labels = labels_by_criterion(key, judgements)
    scales = {criterion.name: criterion.labels for criterion in key.all_criteria if criterion.name in labels}
    if not any(scales.get(criterion.name) == criterion.labels for criterion in items.all_criteria):
        raise OptionError(
            f"--other_items {folder}: its criteria ({', '.join(scales):.200}) are not those of {items.task} "
            f"({', '.join(criterion.name for criterion in items.all_criteria):.200}), or have other scales; give items "
            "judged by the same criteria"
        )
    return JudgedSample(key, labels)


def _returned_files(folder: Path, key: Key) -> tuple[Path, ...]:
    """Return the answers that were stored by the page and the sheets; next to answers, sheets may be empty or gone."""
    answers = tuple(journal.file for journal in find_journals(folder))
    sheets = tuple(folder / sheet for sheet in key.sheets)
    if not answers:
        return sheets
    criteria = [criterion.name for criterion in key.all_criteria]
    return (*answers, *(sheet for sheet in sheets if sheet.exists() and read_judgements([sheet], criteria).judgements))


def _merge_stored(
    source: Import, key: Key, batch: JudgementBatch
) -> tuple[tuple[Judgement, ...], tuple[Judgement, ...]]:
    """Store the judgements with earlier ones of other annotators, and return those of all but excluded annotators.

    Returns:
        The judgements, and the remarks. A file with only one of the two leaves the other as it was.
    """
    judgements = check_judgements(key, batch, last=source.last)
    if source.folder is not None:
        replaced = {_sort_of(judgement, key) for judgement in judgements}
        judgements = (*_read_stored(source.folder, key, replaced), *judgements)
    people = {judgement.annotator for judgement in judgements}
    if unknown := [name for name in source.exclude if name not in people]:
        raise OptionError(
            f"--exclude: no annotator is called {unknown[0]!r:.40}{near(unknown[0], people)}; there are "
            f"{', '.join(sorted(people))}"
        )
    if source.folder is not None and batch.judgements:
        _store(source.folder, judgements)
    included = [judgement for judgement in judgements if judgement.annotator not in source.exclude]
    answers = tuple(judgement for judgement in included if not is_remark(judgement.criterion, key))
    return answers, tuple(judgement for judgement in included if is_remark(judgement.criterion, key))


def _sort_of(judgement: Judgement, key: Key) -> tuple[str, str]:
    """Return the annotator and, for remarks, which: what a file says replaces what was of the same sort."""
    return judgement.annotator, judgement.criterion if is_remark(judgement.criterion, key) else ""


def _read_stored(folder: Path, key: Key, replaced: Set[tuple[str, str]]) -> Iterator[Judgement]:
    """Yield the judgements that an earlier import stored, without those of the replaced annotators and sorts."""
    if (folder / STORED).exists():
        for judgement in check_judgements(key, read_judgements([folder / STORED], [])):
            if _sort_of(judgement, key) not in replaced:
                yield judgement


def _store(folder: Path, judgements: Sequence[Judgement]) -> None:
    rows = [[getattr(judgement, column) for column in LONG_COLUMNS] for judgement in judgements]
    with cure(folder, "--to"), replacing(folder / STORED) as stream:
        stream.write(csv_bytes([LONG_COLUMNS, *rows]))


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_judgements(key: Key, batch: JudgementBatch, *, last: bool = False) -> tuple[Judgement, ...]:
    """Return the judgements with the key's names of criteria and labels, attention checks included.

    Args:
        key: key to the items.
        batch: judgements as they were read.
        last: True if the last answer counts where an annotator judged an item twice; otherwise, that is refused. The
            last one is that with the latest time, or without times that which is read last.

    Raises:
        DataError: an item or a criterion is unknown, its texts are not those that were exported, a label is not on the
            scale, or an annotator judged an item twice.
    """
    checked: dict[tuple[str, str, str], Judgement] = {}
    for judgement in batch.judgements:
        judgement = _spell_as_key(key, judgement)
        question = (judgement.item, judgement.annotator, judgement.criterion)
        earlier = checked.setdefault(question, judgement)
        if earlier is not judgement and judgement.criterion == COMMENT and is_remark(COMMENT, key):
            texts = dict.fromkeys((*earlier.label.split(JOIN), judgement.label))
            checked[question] = replace(judgement, label=JOIN.join(texts))
            continue
        if judgement.criterion == CATEGORY and judgement.label == earlier.label and is_remark(CATEGORY, key):
            continue  # errors.csv repeats the categories of the sheets
        if earlier is not judgement and not last:
            raise DataError(
                f"{judgement.source}: {judgement.annotator} judged item {judgement.item!r:.40} twice for "
                f"{judgement.criterion!r} (first at {earlier.source}); remove one of the two, or give --last to count "
                "the last one"
            )
        if not (judgement.time and earlier.time) or judgement.time >= earlier.time:
            checked[question] = judgement
    return tuple(checked.values())


def _spell_as_key(key: Key, judgement: Judgement) -> Judgement:
    """Return a judgement with the key's names of criterion and label. Raises `DataError` if they are not in the key."""
    if judgement.item not in key.items and judgement.item not in key.checks:
        numbers = [*key.items, *key.checks]
        raise DataError(
            f"{judgement.source}: item {judgement.item!r:.40} is unknown{near(judgement.item, numbers)}; give the key "
            "that belongs to these judgements, or remove the row"
        )
    key.check_texts(judgement.item, judgement.cells, judgement.source)
    if is_remark(judgement.criterion, key):
        return replace(judgement, label=checked_remark(key, judgement))
    criterion = _find_criterion(key, judgement)
    label = criterion.read(judgement.label)
    if label is None:
        raise DataError(
            f"{judgement.source}: {judgement.annotator} gave {judgement.label!r:.40} for {criterion.name!r}, which is "
            f"not on the scale {', '.join(criterion.labels)}; correct it, or leave it empty if there is no judgement"
        )
    return replace(judgement, criterion=criterion.name, label=label)


def _find_criterion(key: Key, judgement: Judgement) -> Criterion:
    """Return the criterion that a judgement names; the only one if it names none."""
    criteria = {criterion.name: criterion for criterion in key.all_criteria}
    if not judgement.criterion and len(criteria) == 1:
        return next(iter(criteria.values()))
    name = {slug(name): name for name in criteria}.get(slug(judgement.criterion))
    if name is None:
        problem = (
            f"criterion {judgement.criterion!r:.40} is unknown{near(judgement.criterion, criteria)}"
            if judgement.criterion
            else "there is no criterion, but several are known"
        )
        raise DataError(f"{judgement.source}: {problem}; the criteria are {', '.join(criteria)}")
    return criteria[name]


# ---- runs ------------------------------------------------------------------------------------------------------------


def _find_task(tasks: Sequence[TaskRecord], name: str | None, folder: RunFolder) -> TaskRecord:
    """Return the task of a run with this name, or its only task."""
    tasks = [task for task in tasks if task.kind != "probe"]
    matches = [task for task in tasks if name in (None, task.task)]
    if len(matches) == 1:
        return matches[0]
    names = [task.task for task in tasks]
    problem = f"has no task {name!r}{near(name, names)}" if name else "has several tasks; give --task"
    raise RecordError(f"{folder.path} {problem}; it has {', '.join(names)}")


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


def _infer_scales(batch: JudgementBatch) -> tuple[Criterion, ...]:
    """Return criteria with the labels that occur: all numbers from the lowest to the highest, or the labels sorted."""
    labels: dict[str, set[str]] = {}
    for judgement in batch.judgements:
        if is_remark(judgement.criterion, None):
            continue
        labels.setdefault(judgement.criterion or UNNAMED, set()).add(judgement.label)
    return tuple(Criterion(name=name, labels=_infer_scale(used)) for name, used in labels.items())


def _infer_scale(labels: Set[str]) -> tuple[str, ...]:
    if all(label.isdecimal() and len(label) < 4 for label in labels):
        values = sorted(map(int, labels))
        return tuple(map(str, range(values[0], values[-1] + 1)))
    return YES_NO if {label.lower() for label in labels} <= set(YES_NO) else tuple(sorted(labels))


def _metrics_of(
    key: Key, authors: Sequence[str], tasks: Sequence[tuple[TaskRecord, RunFolder]]
) -> Mapping[str, Mapping[str, Values]]:
    """Return system → metric → values of the examples, for the runs whose texts or questions were judged.

    People answered questions, so metrics of models are named after them there.
    """
    metrics: dict[str, dict[str, Values]] = {}
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
                metrics.setdefault(system, {})[name] = stored_values(folder, task.task, metric)
    return metrics
