"""Measurement of what a model remembers of some tasks: checks, cost, measures, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from figeval.config import Size
from figeval.errors import CapabilityError, FolderInUse, RecordError, TaskError
from figeval.frontend import command
from figeval.io.storage import cure, locked
from figeval.models.model import Model, open_model
from figeval.records import provenance
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import ModelRecord, RunRecord
from figeval.runs.harness import Harness
from figeval.runs.stored import Values, stored_metrics, stored_values
from figeval.spec import TaskSpec
from figeval.types import JSON
from figeval.wings.contamination.answers import Answers
from figeval.wings.contamination.measures import MEASURES, NEED_KNOWN, Design, accuracy
from figeval.wings.contamination.record import ContaminationRecord, FindingRecord, TaskFindings, read_contamination
from figeval.wings.contamination.rewrites import rewrites_for
from figeval.wings.contamination.texts import TaskTexts, read_texts

RESULTS = Path("results/contamination")
LETTERS_PER_TOKEN = 4  # of English, for estimates


@dataclass(frozen=True, kw_only=True)
class ContaminationConfig:
    """Settings of a measurement; `figeval contamination --help` describes each."""

    tasks: tuple[str, ...]
    model: str
    model_args: Mapping[str, Any] = field(default_factory=dict)
    limit: Size | None = None
    measures: tuple[str, ...] = tuple(MEASURES)
    shards: int | None = None
    permutations: int = 9_999
    run: Path | None = None
    seed: int = 0
    device: str | None = None
    output_path: Path | None = None

    def settings(self) -> JSON:
        """Return what can change a number, for the record."""
        names = ("tasks", "model", "model_args", "limit", "measures", "shards", "permutations", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass
class Estimate:
    """A source that counts requests instead of answering them."""

    offers: frozenset[str]
    requests: int = 0
    letters: int = 0

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Count log-likelihoods; what pairs share may be read once."""
        self._count(len(pairs), sum(len(before) + len(after) for before, after in set(pairs)))
        return [0.0] * len(pairs)

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        """Count texts."""
        self._count(len(texts), sum(map(len, texts)))
        return [[0.0, 0.0] for _ in texts]

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        """Count prompts."""
        self._count(len(texts), sum(len(beginning) for beginning, _ in texts))
        return [0.0] * len(texts)

    def _count(self, requests: int, letters: int) -> None:
        self.requests, self.letters = self.requests + requests, self.letters + letters


class Observer(Protocol):
    """Receives the progress of measures: their cost, and how many of their requests are answered."""

    def measure_started(self, name: str, requests: int, tokens: int) -> None: ...  # noqa: D102
    def answered(self, requests: int) -> None: ...  # noqa: D102
    def measure_ended(self) -> None: ...  # noqa: D102


def measure(config: ContaminationConfig, harness: Harness, observer: Observer) -> tuple[ContaminationRecord, Path]:
    """Measure what a model remembers of some tasks; return the record and its folder.

    The numbers of the model are kept in the folder as they come, so the same command continues an interrupted one.

    Raises:
        FigevalError: a name is unknown, the model or the data cannot be used, `--run` is of another model or of other
            data, or the folder cannot be written or holds the record of another model.
    """
    tasks = harness.catalogue.expand(config.tasks)
    _refuse_unknown_texts(config, tasks, harness)
    common = {"device": config.device, "seed": config.seed}
    model = open_model(harness.backends, config.model, config.model_args, common)
    with nullcontext() if config.model in harness.guests.models else closing(model):
        refuse_speechless(model)
        folder = config.output_path or RESULTS / _plain(config.model)
        with cure(folder):
            folder.mkdir(parents=True, exist_ok=True)
        run = None if config.run is None else read_run(config.run)
        texts = [read_texts(task, harness, config.limit) for task in tasks]
        if run is not None:
            _refuse_other_run(run[0], model, texts)
        with locked(folder / ".lock", FolderInUse(f"{folder}: another figeval writes to this folder; wait for it")):
            return _measured(config, model, texts, run, folder, observer), folder


def _measured(
    config: ContaminationConfig,
    model: Model,
    texts: Sequence[TaskTexts],
    run: tuple[RunRecord, RunFolder] | None,
    folder: Path,
    observer: Observer,
) -> ContaminationRecord:
    record = _begun(config, model, folder)
    answers = Answers.of(model, folder / "answers.jsonl")
    for one in texts:
        rewrites, note = rewrites_for(one.task.languages[0])
        design = Design(rewrites, note, config.shards, config.permutations, config.seed)
        found = TaskFindings(
            task=one.task.name,
            version=one.task.version,
            examples_sha256=one.sha256,
            n=one.n,
            units=len(one.units),
            findings=[],
        )
        record.tasks.append(found)
        for name in config.measures:
            found.findings += _findings(name, one, answers, design, observer)
            record.write(folder)
        if run is not None:
            found.findings.append(_split(one, found.findings, run[1]))
    record.model.description = model.description()
    record.status, record.finished = "complete", provenance.now()
    record.write(folder)
    return record


def _findings(name: str, texts: TaskTexts, answers: Answers, design: Design, observer: Observer) -> list[FindingRecord]:
    """Return the findings of one measure, after saying what it costs."""
    if name in NEED_KNOWN and not texts.known:
        return [FindingRecord(measure=name, unavailable="the task names no well-known text (`memorized`)")]
    estimate = Estimate(answers.offers)
    MEASURES[name](texts, estimate, design)
    if not estimate.requests:
        return MEASURES[name](texts, answers, design)
    observer.measure_started(f"{texts.task.name}, {name}", estimate.requests, estimate.letters // LETTERS_PER_TOKEN)
    found = MEASURES[name](texts, replace(answers, done=0, told=observer.answered), design)
    observer.measure_ended()
    return found


def _split(texts: TaskTexts, findings: Sequence[FindingRecord], folder: RunFolder) -> FindingRecord:
    """Return the scores of a run by recall."""
    recalled = next((one for one in findings if one.measure == "recall"), None)
    if recalled is None or recalled.score is None:
        return FindingRecord(measure="accuracy", unavailable="recall was not measured")
    metric, values = _values(folder, texts.task.name)
    return accuracy(texts, recalled, metric, values)


def _values(folder: RunFolder, task: str) -> tuple[str, Values]:
    """Return the first metric of a run that is a mean over examples, with its values. Raises `RecordError`."""
    for metric, is_mean in stored_metrics(folder, task).items():
        if is_mean and (values := stored_values(folder, task, metric)):
            return metric, values
    raise RecordError(f"{folder.path}: no score of {task} is a mean over examples; leave out --run")


def _begun(config: ContaminationConfig, model: Model, folder: Path) -> ContaminationRecord:
    """Return a new record. Raises `RecordError` if the folder holds that of another model or of other options."""
    record = ContaminationRecord(
        started=provenance.now(),
        command=["figeval", *command()] if command() else [],
        config=config.settings(),
        model=ModelRecord(
            name=model.name,
            backend=model.backend_name,
            options=dict(model.options),
            capabilities=sorted(model.offers),
            fingerprint=model.fingerprint(),
        ),
        provenance=provenance.collect(),
    )
    before = read_contamination(folder)
    if before is not None and _identity(before.model) != _identity(record.model):
        raise RecordError(
            f"{folder} holds the record of another model or of other --model_args ({before.model.name}); choose "
            "another --output_path"
        )
    return record


def _identity(model: ModelRecord) -> JSON:
    """Return what must be the same if answers are to be kept; the fingerprint has no option such as `dtype`."""
    return model.model_dump(mode="json", include={"fingerprint", "options"})


def refuse_speechless(model: Model) -> None:
    """Raise `CapabilityError` if a model neither gives log-likelihoods nor writes."""
    if not model.offers & {"loglikelihood", "generate"}:
        offers = ", ".join(sorted(model.offers)) or "nothing"
        raise CapabilityError(
            f"{model.name} has {offers}, and contamination is measured by log-likelihoods or written words; use a "
            "language model: a folder or hub id of a causal or encoder-decoder model, smollm2, lm_eval:NAME, or one "
            "behind an API"
        )


def _refuse_unknown_texts(config: ContaminationConfig, tasks: Sequence[TaskSpec], harness: Harness) -> None:
    """Raise `TaskError` if no task has a well-known text, but --run or all measures need one."""
    needed = config.run is not None or set(config.measures) <= set(NEED_KNOWN)
    if not needed or any(task.memorized for task in tasks):
        return
    every = map(harness.catalogue.tasks.get, [entry.name for entry in harness.catalogue.tasks])
    having = [task.name for task in every if task.memorized]
    names = ", ".join(task.name for task in tasks)
    what = "--run" if config.run is not None else ", ".join(config.measures)
    raise TaskError(
        f"{names}: {what} needs the well-known text behind each row, which the key `memorized` of a task file names; "
        f"tasks with it: {', '.join(having)}"
    )


def _refuse_other_run(run: RunRecord, model: Model, texts: Sequence[TaskTexts]) -> None:
    """Raise `RecordError` if a run is of another model, or a task is missing or has other examples there."""
    if run.model.fingerprint != model.fingerprint():
        raise RecordError(f"--run is a run of another model ({run.model.name}, not {model.name}); give one of the same")
    has = {task.task: task for task in run.tasks}
    for one in texts:
        name = one.task.name
        if name not in has:
            raise RecordError(f"--run has no task {name}; it has {', '.join(has)}")
        if has[name].status != "done":
            raise RecordError(f"--run has not finished {name}; repeat the command of that run first")
        if (has[name].version, has[name].examples_sha256) != (one.task.version, one.sha256):
            raise RecordError(f"--run was made on another version of {name} or on other data; run it again")


def _plain(name: str) -> str:
    """Return a name as a folder's name."""
    kept = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
    return kept.strip("-.")[-80:] or "model"
