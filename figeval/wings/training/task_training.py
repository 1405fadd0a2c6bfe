"""One training, as run by each of its processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain

from figeval import (
    JSON,
    CapabilityError,
    Example,
    FigevalError,
    Harness,
    Learner,
    MissingCopy,
    Model,
    Observer,
    Setup,
    TaskSpec,
    TrainError,
)
from figeval.io.files import expand_user, is_folder
from figeval.io.json_files import read_json
from figeval.io.text import pluralize
from figeval.records import provenance
from figeval.records.seen import FILE, MODEL_FILE, Lineage, lineage_of, weights_in, write
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
from figeval.runs.retrieval.augmentation import augmentation_of
from figeval.runs.run import score_examples
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.distributed import Distributed, connect
from figeval.wings.training.learners import load_learners
from figeval.wings.training.loop import TrainingJob, train
from figeval.wings.training.presets import preset_record
from figeval.wings.training.selection import LOSS, SelectionCriterion, is_improvement, make_criterion
from figeval.wings.training.splits import Splits, augment_splits, make_splits, split_warnings, without_ids
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
    model_splits: Splits  # the splits as the model sees them, i.e. augmented
    overlong: tuple[Mapping[int, str], Mapping[int, str]] = ({}, {})  # of train and dev: those left out, and why


def plan_training(config: TrainConfig, splits: Splits, harness: Harness, device: str) -> TrainingPlan:
    """Check and resolve all settings before any weights are loaded.

    Raises:
        FigevalError: A task, head, option or model is unknown, or the model cannot read an example.
    """
    task = harness.catalogue.tasks.get(config.task)
    head, learner = make_learner(config, task, harness, device)
    model_splits = augment_splits(splits, task, config, harness, device)
    return _without_overlong(TrainingPlan(config, task, head, learner, splits, model_splits))


def make_learner(config: TrainConfig, task: TaskSpec, harness: Harness, device: str) -> tuple[str, Learner]:
    """Return the name of the head and its learner. Raises `FigevalError` for an unknown head, option or model."""
    head, factory = load_learners(harness.manager).choose(task.type, config.head)
    return head, factory(
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


def _without_overlong(training: TrainingPlan) -> TrainingPlan:
    """Return the training without the examples that its model cannot read.

    Raises:
        TrainError: there are some, and `skip_long` is not set; or it is set for a head that reads all of them.
    """
    find = getattr(training.learner, "overlong", None)
    if find is None:
        if training.config.skip_long:
            raise TrainError(f"--skip_long: the head {training.head} cuts what is too long for it; leave it out")
        return training
    train, dev = training.model_splits.train, training.model_splits.dev
    overlong = find(train), find(dev) if dev else {}
    if not any(overlong):
        return training
    if not training.config.skip_long:
        raise TrainError(
            f"{_first_reason(overlong)}; raise --max_length, or use --skip_long to leave out {_sizes(overlong)}"
        )
    if len(overlong[0]) == len(train):
        raise TrainError(f"--skip_long leaves nothing to train on ({_first_reason(overlong)}); raise --max_length")
    ids = {train[row].id for row in overlong[0]}, {dev[row].id for row in overlong[1]}
    splits, model_splits = (without_ids(splits, *ids) for splits in (training.splits, training.model_splits))
    return replace(training, splits=splits, model_splits=model_splits, overlong=overlong)


def _first_reason(overlong: Sequence[Mapping[int, str]]) -> str:
    return next(reason for reasons in overlong for reason in reasons.values())


def _sizes(overlong: Sequence[Mapping[int, str]]) -> str:
    train, dev = map(len, overlong)
    return f"{train} training and {dev} dev examples" if dev else pluralize(train, "training example")


def check_evaluation(config: TrainConfig, harness: Harness, learner: Learner) -> None:
    """Check that the tasks of `evaluate` have data, and that the model will have a route for them, if that is known.

    As in a run, those that it cannot answer are left out of a suite.

    Raises:
        FigevalError: the model cannot answer one of the tasks, or its examples cannot be read.
    """
    if (offers := getattr(learner, "offers", None)) is None:
        return
    names = (config.task,) if config.evaluate is None else config.evaluate
    tasks, refusals = harness.catalogue.expand(names), dict[str, CapabilityError]()
    for task in tasks:
        try:
            harness.choose_route(task, offers, task.route)
        except CapabilityError as error:
            refusals[task.name] = error
    for name, refusal in refusals.items():
        if name in names or len(refusals) == len(tasks):
            cure = f"leave {name} out of --evaluate" if config.evaluate else 'name other tasks with --evaluate, or ""'
            raise TrainError(f"the trained model could not answer {name}: {refusal}; {cure}") from refusal
    for task in tasks:
        if task.name not in (config.task, *refusals):
            try:
                next(iter(harness.examples(task)), None)
            except MissingCopy:
                if task.name in names:  # else a suite leaves it out
                    raise


def train_in_process(config: TrainConfig, harness: Harness, observer: Observer) -> Progress:
    """Train in this process, alone or as one of the processes that a launcher has started.

    Raises:
        FigevalError: An error that the user can correct, before the first step or (for a NaN loss) later.
    """
    folder = TrainFolder(config.output)
    finished = folder.finished_progress(config)
    if finished is not None:
        return finished
    splits = make_splits(harness.catalogue.tasks.get(config.task), config, harness)  # before torch is imported
    observer.wait(f"loading model {config.model}")
    distributed = connect(config)
    training = plan_training(config, splits, harness, distributed.device)
    check_evaluation(config, harness, training.learner)
    for text in _warnings(training):
        observer.warn(text)
    job = _make_job(training, harness, folder, observer)
    progress = train(job, distributed)
    if distributed.is_main:
        declaration = read_json(config.output / MODEL_FILE, TrainError)
        declaration["about"]["evaluations"] = len(progress.evaluations)  # unknown when the checkpoint was saved
        # Replaced rather than edited: it was a link to the checkpoint's file, which must not change.
        write_json(config.output / MODEL_FILE, declaration)
        record = _make_record(training, job, progress, harness)
        write_json(folder.record_file, record.model_dump(mode="json", exclude_unset=True))
    return progress


def _warnings(training: TrainingPlan) -> Iterator[str]:
    """Yield what should be known before the first step."""
    yield from split_warnings(training.splits, training.task, training.config)
    if any(training.overlong):
        yield f"--skip_long leaves out {_sizes(training.overlong)} (first: {_first_reason(training.overlong)})"
    yield from getattr(training.learner, "warnings", ())


def _make_job(training: TrainingPlan, harness: Harness, folder: TrainFolder, observer: Observer) -> TrainingJob:
    config, learner, splits = training.config, training.learner, training.splits
    criterion = _choose_criterion(training, harness)
    by_loss = any(name == LOSS for name, _ in criterion.metrics)
    by_metrics = bool(splits.dev) and any(name != LOSS for name, _ in criterion.metrics)
    model_splits = training.model_splits
    features, held_out = learner.features(model_splits.train), getattr(learner, "held_out", learner.features)
    lineage = cache(lambda: _trace_lineage(training, harness))  # compute digests once for all checkpoints
    return TrainingJob(
        config=config,
        learner=learner,
        train=features,
        ids=getattr(features, "ids", None) or [example.id for example in splits.train],
        criterion=criterion,
        folder=folder,
        observer=observer,
        about=partial(about, training),
        write_lineage=lambda folder: write(folder, lineage()),
        data=" ".join(splits.digests),
        prompts=getattr(learner, "prompts_by_role", {}),
        dev=held_out(model_splits.dev) if model_splits.dev and by_loss else None,
        score=partial(_score_examples, training.task, model_splits.dev, harness) if by_metrics else None,
    )


def _score_examples(
    task: TaskSpec, examples: Sequence[Example], harness: Harness, backend: object, distributed: Distributed
) -> dict[str, float | None]:
    """Score a model in training on the given examples, with the routes and metrics of `figeval run`.

    The examples are divided among the processes, and each process computes the scores from all rows.
    """
    share = slice(distributed.process, None, distributed.processes)
    model = Model(IN_TRAINING, IN_TRAINING, backend)
    return score_examples(task, model, examples, harness, share=share, gather=distributed.gather)


def _trace_lineage(training: TrainingPlan, harness: Harness) -> Lineage:
    """Return the lineage with the examples of this training and those that its model had seen before.

    A model that is trained on a probe learns the answers of the unchanged examples, so these count as well.
    """
    model, splits = training.config.model, training.splits
    folder = expand_user(model)
    has_folder = model not in harness.backends.registry and is_folder(folder)
    lineage = lineage_of(model, folder if has_folder else None)
    texts = getattr(training.learner, "texts", None)
    if texts is None:
        variants = (splits, splits.originals or splits)
        trained_on = chain.from_iterable(variant.train for variant in variants)
        chosen_on = chain.from_iterable(variant.dev for variant in variants)
        return lineage | Lineage.of_questions(trained_on, chosen_on)
    held_out = (text for example in splits.dev for text in example.texts)
    return lineage | Lineage.of_passages(texts(splits.train), held_out)


def write_missing_lineage(config: TrainConfig, harness: Harness) -> None:
    """Write digests of the examples that a complete model has seen into its folder, if an older figeval trained it.

    Nothing is added if they can no longer be determined, because the data have changed or the model from which it was
    trained is gone. The examples that such a model has seen remain unknown, and every run says so.
    """
    folder = TrainFolder(config.output)
    if (folder.path / FILE).is_file() or folder.finished_progress(config) is None:
        return
    try:
        splits = make_splits(harness.catalogue.tasks.get(config.task), config, harness)
        training = plan_training(config, splits, harness, "cpu")
        if " ".join(training.splits.digests) == folder.read_progress().data:
            write(folder.path, _trace_lineage(training, harness))
    except FigevalError:
        return


def _choose_criterion(training: TrainingPlan, harness: Harness) -> SelectionCriterion:
    """Return the criterion for checkpoints: --select_by, else that of the learner, else the task's metrics."""
    metric = training.config.select_by or training.learner.select_by
    return make_criterion((metric,) if metric else training.task.metrics, harness)


def _augmentation_record(training: TrainingPlan) -> JSON:
    """Return the augmentation of a training's examples, or an empty record if there was none."""
    augmentation = augmentation_of(training.task, training.config.augment)
    return {} if augmentation is None else {"augment": augmentation.model_dump(by_alias=True)}


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
        **_augmentation_record(training),
    }


def passes_record(progress: Progress) -> Passes | None:
    """Return how steps were divided into passes, or None if an older figeval did not count them."""
    if not progress.passes:
        return None
    cost = {} if progress.cost is None else progress.cost.model_dump(exclude={"device"})
    return Passes(per_step=round(progress.passes / progress.step, 2), **cost)


def _make_record(training: TrainingPlan, job: TrainingJob, progress: Progress, harness: Harness) -> TrainingRecord:
    splits = training.splits
    skipped = [{"skipped": number} if number else {} for number in map(len, training.overlong)]
    return TrainingRecord(
        identity=progress.identity,
        config=TrainingConfig(**training.config.model_dump(mode="json", exclude={"output", "include_path"})),
        head=Head(name=training.head, **training.learner.describe()),
        task=training.task.name,
        **_augmentation_record(training),
        train=TrainExamples(n=len(splits.train), sha256=splits.digests[0], **skipped[0]),
        dev=DevExamples(n=len(splits.dev), sha256=splits.digests[1], source=splits.source, **skipped[1]),
        truncated=job.train.truncated,
        select_by=[name for name, _ in job.criterion.metrics],
        before=progress.before,
        improved=is_improvement(progress.before, progress.evaluations, job.criterion),
        best=progress.best,
        weights_sha256=weights_in(training.config.output),
        steps=progress.step,
        why=progress.end_reason,
        evaluations=[DevScores(step=evaluation.step, scores=evaluation.scores) for evaluation in progress.evaluations],
        seconds=round(progress.seconds, 1),
        tokens=progress.tokens,
        parameters=None if progress.parameters is None else Parameters(**progress.parameters),
        passes=passes_record(progress),
        peak_memory_mb=provenance.peak_memory_mb(),
        provenance=Origin(**provenance.collect()),
        preset=preset_record(training.config, harness.manager),
    )
