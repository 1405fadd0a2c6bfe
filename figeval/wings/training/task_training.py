"""One training, as run by each of its processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain

from figeval.config import RunConfig
from figeval.errors import FigevalError, TrainError
from figeval.io.files import expand_user, is_folder
from figeval.io.json_files import read_json
from figeval.models.learner import Learner, Setup
from figeval.models.model import Model
from figeval.records import provenance
from figeval.records.digests import SeenTexts
from figeval.records.seen import DECLARED, FILE, Lineage, lineage_of, weights_in, write
from figeval.records.training import (
    DevExamples,
    DevScores,
    Head,
    Origin,
    Parameters,
    Passes,
    TrainExamples,
    TrainingConfig,
    TrainingRecord,
)
from figeval.runs.evaluate import CachedModel, TaskEvaluator
from figeval.runs.harness import Harness
from figeval.runs.plan import Planner, route_of
from figeval.runs.retrieval.augmentation import augmentation_of
from figeval.runs.score import Aggregator, MetricSet
from figeval.spec import TaskSpec
from figeval.types import JSON, Example
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.distributed import Distributed, connect
from figeval.wings.training.learners import load_learners
from figeval.wings.training.loop import Job, TrainingObserver, train
from figeval.wings.training.presets import recorded
from figeval.wings.training.selection import LOSS, Criterion, criterion_of, improved
from figeval.wings.training.splits import Splits, doubts, shown_splits, splits_of
from figeval.wings.training.train_folder import Progress, TrainFolder, write_json

IN_TRAINING = "(in training)"  # name of the model while it is scored on dev


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A training whose settings have been checked and resolved."""

    config: TrainConfig
    task: TaskSpec
    head: str
    learner: Learner
    splits: Splits
    shown: Splits  # the splits as the model sees them, i.e. augmented


def settle(config: TrainConfig, harness: Harness, device: str) -> TrainingPlan:
    """Check and resolve all settings before any weights are loaded.

    Raises:
        FigevalError: A task, head, option or model is unknown, or there is no train split.
    """
    task = harness.catalogue.tasks.get(config.task)
    head, factory = load_learners(harness.manager).choose(task.type, config.head)
    learner = factory(
        Setup(
            model=config.model,
            options=config.head_args,
            labels=task.labels,
            max_length=config.max_length,
            tokens_per_batch=config.tokens_per_batch,
            gradient_checkpointing=config.gradient_checkpointing,
            dropout=config.dropout,
            allow_pickle=config.allow_pickle,
            seed=config.seed,
            device=device,
        )
    )
    splits = splits_of(task, config, harness)
    return TrainingPlan(config, task, head, learner, splits, shown_splits(splits, task, config, harness, device))


def train_here(config: TrainConfig, harness: Harness, observer: TrainingObserver) -> Progress:
    """Train in this process, alone or as one of the processes that a launcher has started.

    Raises:
        FigevalError: An error that the user can correct, before the first step or (for a NaN loss) later.
    """
    folder = TrainFolder(config.output)
    done = folder.finished(config)
    if done is not None:
        return done
    observer.preparing(f"loading model {config.model}")
    distributed = connect(config)
    training = settle(config, harness, distributed.device)
    warnings = getattr(training.learner, "warnings", ())
    for text in (*doubts(training.splits, training.task, config), *warnings):
        observer.warned(text)
    job = job_of(training, harness, folder, observer)
    progress = train(job, distributed)
    if distributed.is_main:
        declared = read_json(config.output / DECLARED, TrainError)
        declared["about"]["evaluations"] = len(progress.evaluations)  # unknown when the checkpoint was saved
        # Replaced rather than edited: it was a link to the checkpoint's file, which must not change.
        write_json(config.output / DECLARED, declared)
        record = record_of(training, job, progress, harness)
        write_json(folder.record_file, record.model_dump(mode="json", exclude_unset=True))
    return progress


def job_of(training: TrainingPlan, harness: Harness, folder: TrainFolder, observer: TrainingObserver) -> Job:
    """Return the job for the training loop."""
    config, learner, splits = training.config, training.learner, training.splits
    by = criterion(training, harness)
    lossy = any(name == LOSS for name, _ in by.metrics)
    scored = bool(splits.dev) and any(name != LOSS for name, _ in by.metrics)
    shown = training.shown
    features, held_out = learner.features(shown.train), getattr(learner, "held_out", learner.features)
    lineage = cache(lambda: seen_by(training, harness))  # compute digests once for all checkpoints
    return Job(
        config=config,
        learner=learner,
        train=features,
        ids=getattr(features, "ids", None) or [example.id for example in splits.train],
        criterion=by,
        folder=folder,
        observer=observer,
        about=partial(about, training),
        remember=lambda place: write(place, lineage()),
        data=" ".join(splits.digests),
        prompts=getattr(learner, "prompts_by_role", {}),
        dev=held_out(shown.dev) if shown.dev and lossy else None,
        score=partial(dev_scores, training.task, shown.dev, harness) if scored else None,
    )


def dev_scores(
    task: TaskSpec, examples: Sequence[Example], harness: Harness, backend: object, distributed: Distributed
) -> dict[str, float | None]:
    """Score a model in training on the given examples, with the routes and metrics of `figeval run`.

    The examples are divided among the processes, and each process computes the scores from all rows.
    """
    changes = {"examples": lambda: iter(examples), "baselines": (), "augment": {}}  # they are augmented already
    task = task.model_copy(update=changes)
    config = RunConfig(tasks=(task.name,), model=IN_TRAINING, baselines=False)
    model = Model(IN_TRAINING, IN_TRAINING, backend)
    route = route_of(task, model, harness, config)
    plan = next(iter(Planner(config, harness, model).plans(task, route)))
    metrics = MetricSet(plan.metrics, task.labels, task.with_language)
    evaluator = TaskEvaluator(plan, CachedModel(model), route, plan.context, metrics)
    places = {example.id: place for place, example in enumerate(examples)}
    rows = distributed.gather(list(evaluator.rows(examples[distributed.process :: distributed.processes])))
    rows.sort(key=lambda row: places[row["id"]])  # same order as in a single process
    if metrics.collective:
        rows = metrics.related(rows, plan.settings)
    total = Aggregator(metrics, strict=task.group is not None)
    for row in rows:
        total.add(row)
    return {score.metric: score.value for score in total.scores(seed=0)}


def seen_by(training: TrainingPlan, harness: Harness) -> Lineage:
    """Return the lineage with the examples of this training and those that its model had seen before.

    A model that is trained on a probe learns the answers of the unchanged examples, so these count as well.
    """
    model, splits = training.config.model, training.splits
    folder = expand_user(model)
    trained = model not in harness.backends.registry and is_folder(folder)
    line = lineage_of(model, folder if trained else None)
    texts = getattr(training.learner, "texts", None)
    if texts is None:
        both = (splits, splits.originals or splits)
        trained_on = chain.from_iterable(one.train for one in both)
        chosen_on = chain.from_iterable(one.dev for one in both)
        return line | Lineage((), SeenTexts.of_questions(trained_on), SeenTexts.of_questions(chosen_on))
    held_out = (text for example in splits.dev for text in example.texts)
    return line | Lineage((), SeenTexts.of_passages(texts(splits.train)), SeenTexts.of_passages(held_out))


def catch_up(config: TrainConfig, harness: Harness) -> None:
    """Write digests of the examples that a complete model has seen into its folder, if an older figeval trained it.

    Nothing is added if they can no longer be determined, because the data have changed or the model from which it was
    trained is gone. The examples that such a model has seen remain unknown, and every run says so.
    """
    folder = TrainFolder(config.output)
    if (folder.path / FILE).is_file() or folder.finished(config) is None:
        return
    try:
        training = settle(config, harness, "cpu")
        if " ".join(training.splits.digests) == folder.read().data:
            write(folder.path, seen_by(training, harness))
    except FigevalError:
        return


def criterion(training: TrainingPlan, harness: Harness) -> Criterion:
    """Return the criterion for checkpoints: --select_by, else that of the learner, else the task's metrics."""
    asked = training.config.select_by or training.learner.select_by
    return criterion_of((asked,) if asked else training.task.metrics, harness)


def augmentation_record(training: TrainingPlan) -> JSON:
    """Return the augmentation of a training's examples, or an empty record if there was none."""
    wanted = augmentation_of(training.task, training.config.augment)
    return {} if wanted is None else {"augment": wanted.model_dump(by_alias=True)}


def about(training: TrainingPlan, progress: Progress) -> JSON:
    """Return the `about` entry of a checkpoint, which describes its training."""
    config = training.config
    return {
        "task": training.task.name,
        "head": training.head,
        "trained_from": config.model,
        "preset": config.preset,
        "seed": config.seed,
        "step": progress.step,
        "selected_on": config.select_on,
        "evaluations": len(progress.evaluations),
        **({} if config.probe is None else {"probe": config.probe}),
        **augmentation_record(training),
    }


def passes_of(progress: Progress) -> Passes | None:
    """Return how steps were divided into passes, or None if an older figeval did not count them."""
    if not progress.passes:
        return None
    cost = {} if progress.cost is None else progress.cost.model_dump(exclude={"device"})
    return Passes(per_step=round(progress.passes / progress.step, 2), **cost)


def record_of(training: TrainingPlan, job: Job, progress: Progress, harness: Harness) -> TrainingRecord:
    """Return the record of a finished training."""
    splits = training.splits
    return TrainingRecord(
        identity=progress.identity,
        config=TrainingConfig(**training.config.model_dump(mode="json", exclude={"output", "include_path"})),
        head=Head(name=training.head, **training.learner.describe()),
        task=training.task.name,
        **augmentation_record(training),
        train=TrainExamples(n=len(splits.train), sha256=splits.digests[0]),
        dev=DevExamples(n=len(splits.dev), sha256=splits.digests[1], source=splits.source),
        truncated=job.train.truncated,
        select_by=[name for name, _ in job.criterion.metrics],
        before=progress.before,
        improved=improved(progress.before, progress.evaluations, job.criterion),
        best=progress.best,
        weights_sha256=weights_in(training.config.output),
        steps=progress.step,
        why=progress.why,
        evaluations=[DevScores(step=one.step, scores=one.scores) for one in progress.evaluations],
        seconds=round(progress.seconds, 1),
        tokens=progress.tokens,
        parameters=None if progress.parameters is None else Parameters(**progress.parameters),
        passes=passes_of(progress),
        peak_memory_mb=provenance.peak_memory_mb(),
        provenance=Origin(**provenance.collect()),
        preset=recorded(training.config, harness.manager),
    )
