"""Measurement of what a model remembers of some tasks: checks, cost, measures, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval import AnswerFile, CapabilityError, Harness, Model, Observer, RecordError, RunRecord, TaskError, TaskSpec
from figeval.io.files import cure
from figeval.io.frontend import command
from figeval.records import provenance
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import ModelRecord
from figeval.runs.stored import Values, stored_metrics, stored_values
from figeval.wings.contamination.measures import MEASURES, NEED_MEMORIZED_TEXTS, MeasureDesign, compare_accuracy
from figeval.wings.contamination.record import ContaminationRecord, FindingRecord, TaskFindings, read_contamination
from figeval.wings.contamination.rewrites import rewrites_for
from figeval.wings.contamination.sources import Estimate, ModelSource, StoredValue
from figeval.wings.contamination.units import TaskUnits, read_units

DEFAULT_FOLDER = Path("results/contamination")
MAX_NAME_CHARS = 80
LETTERS_PER_TOKEN = 4  # of English, for estimates


@dataclass(frozen=True, kw_only=True)
class ContaminationConfig:
    """Settings of a measurement; `figeval contamination --help` describes each."""

    tasks: tuple[str, ...]
    model: str
    model_args: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    measures: tuple[str, ...] = tuple(MEASURES)
    shards: int | None = None
    permutations: int = 9_999
    run: Path | None = None
    seed: int = 0
    device: str | None = None
    output_path: Path | None = None

    def settings(self) -> dict[str, Any]:
        """Return what can change a number, for the record."""
        names = ("tasks", "model", "model_args", "limit", "measures", "shards", "permutations", "seed")
        return {name: getattr(self, name) for name in names}


def measure(config: ContaminationConfig, harness: Harness, observer: Observer) -> tuple[ContaminationRecord, Path]:
    """Measure what a model remembers of some tasks; return the record and its folder.

    The numbers of the model are kept in the folder as they come, so the same command continues an interrupted one.

    Raises:
        FigevalError: a name is unknown, the model or the data cannot be used, `--run` is of another model or of other
            data, or the folder cannot be written or holds the record of another model.
    """
    tasks = harness.catalogue.expand(config.tasks)
    _require_memorized_texts(config, tasks, harness)
    options = {"device": config.device, "seed": config.seed}
    with harness.open_model(config.model, config.model_args, options) as model:
        _require_language_model(model)
        folder = config.output_path or DEFAULT_FOLDER / _folder_name(config.model)
        with cure(folder):
            folder.mkdir(parents=True, exist_ok=True)
        run = None if config.run is None else read_run(config.run)
        units = [read_units(task, harness, config.limit) for task in tasks]
        if run is not None:
            _check_run(run[0], model, units)
        file = AnswerFile(folder / "answers.jsonl", StoredValue)
        with file.locked():
            record = _new_record(config, harness.model_record(model), folder)
            source = ModelSource.of(model, file)
            for task in units:
                _measure_task(task, source, config, record, folder, observer)
                if run is not None:
                    findings = record.tasks[-1].findings
                    findings.append(_split_by_recall(task, findings, run[1]))
            record.model.describe(model.description())
            record.status, record.finished = "complete", provenance.now()
            record.write(folder)
            return record, folder


def _measure_task(
    task: TaskUnits,
    source: ModelSource,
    config: ContaminationConfig,
    record: ContaminationRecord,
    folder: Path,
    observer: Observer,
) -> None:
    """Add the findings about a task to the record, which is written after each measure."""
    rewrites, note = rewrites_for(task.task.languages[0])
    design = MeasureDesign(rewrites, note, config.shards, config.permutations, config.seed)
    findings = TaskFindings(
        task=task.task.name,
        version=task.task.version,
        examples_sha256=task.sha256,
        n=task.n,
        units=len(task.units),
        findings=[],
    )
    record.tasks.append(findings)
    for name in config.measures:
        findings.findings += _find(name, task, source, design, observer)
        record.write(folder)


def _find(
    name: str, task: TaskUnits, source: ModelSource, design: MeasureDesign, observer: Observer
) -> list[FindingRecord]:
    if name in NEED_MEMORIZED_TEXTS and not task.with_memorized_text:
        return [FindingRecord(measure=name, unavailable="the task names no well-known text (`memorized`)")]
    estimate = Estimate(source.offers)
    MEASURES[name](task, estimate, design)
    if not estimate.requests:
        return MEASURES[name](task, source, design)
    cost = f"about {estimate.letters // LETTERS_PER_TOKEN:,} tokens at most"
    observer.start(f"{task.task.name}, {name}", estimate.requests, unit="request", note=cost)
    findings = MEASURES[name](task, source.with_observer(observer.reach), design)
    observer.end()
    return findings


def _split_by_recall(task: TaskUnits, findings: Sequence[FindingRecord], folder: RunFolder) -> FindingRecord:
    recall = next((finding for finding in findings if finding.measure == "recall"), None)
    if recall is None or recall.score is None:
        return FindingRecord(measure="accuracy", unavailable="recall was not measured")
    metric, values = _values_of_run(folder, task.task.name)
    return compare_accuracy(task, recall, metric, values)


def _values_of_run(folder: RunFolder, task: str) -> tuple[str, Values]:
    """Return the first metric of a run that is a mean over examples, with its values. Raises `RecordError`."""
    for metric, is_mean in stored_metrics(folder, task).items():
        if is_mean and (values := stored_values(folder, task, metric)):
            return metric, values
    raise RecordError(f"{folder.path}: no score of {task} is a mean over examples; leave out --run")


def _new_record(config: ContaminationConfig, model: ModelRecord, folder: Path) -> ContaminationRecord:
    """Return a new record. Raises `RecordError` if the folder holds that of another model or of other options."""
    record = ContaminationRecord(
        started=provenance.now(),
        command=["figeval", *command()] if command() else [],
        config=config.settings(),
        model=model,
        provenance=provenance.collect(),
    )
    before = read_contamination(folder)
    if before is not None and _identity(before.model) != _identity(record.model):
        raise RecordError(
            f"{folder} holds the record of another model or of other --model_args ({before.model.name}); choose "
            "another --output_path"
        )
    return record


def _identity(model: ModelRecord) -> dict[str, Any]:
    """Return what must be the same if answers are to be kept; the fingerprint has no option such as `dtype`."""
    return model.model_dump(mode="json", include={"fingerprint", "options"})


def _require_language_model(model: Model) -> None:
    if not model.offers & {"loglikelihood", "generate"}:
        offers = ", ".join(sorted(model.offers)) or "nothing"
        raise CapabilityError(
            f"{model.name} has {offers}, and contamination is measured by log-likelihoods or written words; use a "
            "language model: a folder or hub id of a causal or encoder-decoder model, smollm2, lm_eval:NAME, or one "
            "behind an API"
        )


def _require_memorized_texts(config: ContaminationConfig, tasks: Sequence[TaskSpec], harness: Harness) -> None:
    """Raise `TaskError` if no task has a well-known text, but --run or all measures need one."""
    is_needed = config.run is not None or set(config.measures) <= set(NEED_MEMORIZED_TEXTS)
    if not is_needed or any(task.memorized for task in tasks):
        return
    specs = map(harness.catalogue.tasks.get, [registration.name for registration in harness.catalogue.tasks])
    alternatives = [spec.name for spec in specs if spec.memorized]
    names = ", ".join(task.name for task in tasks)
    subject = "--run" if config.run is not None else ", ".join(config.measures)
    raise TaskError(
        f"{names}: {subject} needs the well-known text behind each row, which the key `memorized` of a task file "
        f"names; tasks with it: {', '.join(alternatives)}"
    )


def _check_run(run: RunRecord, model: Model, tasks: Sequence[TaskUnits]) -> None:
    """Raise `RecordError` if a run is of another model, or a task is missing or has other examples there."""
    if run.model.fingerprint != model.fingerprint():
        raise RecordError(f"--run is a run of another model ({run.model.name}, not {model.name}); give one of the same")
    records = {record.task: record for record in run.tasks}
    for task in tasks:
        name = task.task.name
        if name not in records:
            raise RecordError(f"--run has no task {name}; it has {', '.join(records)}")
        if records[name].status != "done":
            raise RecordError(f"--run has not finished {name}; repeat the command of that run first")
        if (records[name].version, records[name].examples_sha256) != (task.task.version, task.sha256):
            raise RecordError(f"--run was made on another version of {name} or on other data; run it again")


def _folder_name(model: str) -> str:
    text = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in model)
    return text.strip("-.")[-MAX_NAME_CHARS:] or "model"
