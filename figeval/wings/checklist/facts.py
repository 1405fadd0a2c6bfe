"""Facts about runs and the trainings behind them that reviewers ask for, as far as their records know them.

Every fact is a method of `Facts` that yields sentences. What no record knows is left to the author (`FILL_IN`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from figeval import DataError, Harness, RecordError, RunRecord, TaskRecord
from figeval.io.files import read_text
from figeval.io.json_files import read_model
from figeval.records.conditions import describe_conditions, unanswered_notes
from figeval.records.provenance import recorded_packages
from figeval.records.run_folder import read_run
from figeval.records.schema import ScoreRecord
from figeval.records.sweep import GRID, SEEDS, GridRecord, SeedsRecord, read, run_folders
from figeval.records.training import TrainingRecord, read_training
from figeval.runs.task_info import TaskInfo, task_info

FILL_IN = "fill in"
TRAINING_SETTINGS = (  # of the config of a training, in this order
    *("head", "head_args", "epochs", "max_steps", "batch_size", "lr", "optimizer", "betas", "weight_decay", "schedule"),
    *("warmup", "clip", "dropout", "mixed_precision", "lora", "max_length", "patience", "processes", "seed"),
)
TASK_SETTINGS = (  # of the settings of a task, in this order
    *("threshold", "temperature", "decision", "max_new_tokens", "stop", "chat_template", "system_instruction"),
    *("system_as_user", "orders", "reasoning", "constrain", "calibration"),
)
NOT_OPTIONS = ("sha256", "seed")  # of scored predictions


class ItemsKey(BaseModel):
    """The part of the key to a folder of `figeval annotate export` that a checklist reads."""

    task: str
    instructions: str = ""


@dataclass(frozen=True)
class Facts:
    """Records of runs and of the trainings behind them.

    Attributes:
        runs: runs; those of several seeds one by one.
        tasks: tasks of the runs by name, without prompts and probes.
        trainings: records of the trainings (`training/record.json`) that were found.
        grids: records of searches for hyperparameters.
        infos: what figeval knows about the tasks that are installed.
        seeds: records of folders with several seeds, whose runs are among the runs.
        single: names of the models of all other runs.
        annotations: the task of each folder of items for people, with the full text of their instructions.
    """

    runs: Sequence[RunRecord]
    tasks: Mapping[str, list[TaskRecord]]
    trainings: Sequence[TrainingRecord]
    grids: Sequence[GridRecord]
    infos: Sequence[TaskInfo]
    seeds: Sequence[SeedsRecord] = ()
    single: Sequence[str] = ()
    annotations: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, paths: Sequence[Path], harness: Harness, items: Sequence[Path] = ()) -> Facts:
        """Read the records.

        Args:
            paths: folders of runs, of several seeds or of trainings (all their runs).
            harness: knows the tasks and where their data is from.
            items: folders of `figeval annotate export`.

        Raises:
            RecordError: there is no run at a path, or a record is damaged.
            DataError: a folder of items has no key, or it is damaged.
        """
        folders = {folder.resolve(): folder for path in paths for folder in run_folders(path)}
        seeds = {path: read(SeedsRecord, path / SEEDS) for path in paths if (path / SEEDS).is_file()}
        folders_of_seeds = {(path / run).resolve() for path, record in seeds.items() for run in record.runs.values()}
        runs = [read_run(folder) for folder in folders.values()]
        tasks: dict[str, list[TaskRecord]] = {}
        for run, _ in runs:
            for task in run.tasks:
                if task.kind == "task":
                    tasks.setdefault(task.task, []).append(task)
        models = [
            model for run, folder in runs for model in (Path(run.model.name), *list(folder.path.resolve().parents)[:2])
        ]
        trainings = _files(model / "training" / "record.json" for model in models)
        grids = _files(folder / GRID for model in models for folder in (model, model.parent))
        specs = [harness.catalogue.tasks.get(name) for name in tasks if name in harness.catalogue.tasks]
        return cls(
            [run for run, _ in runs],
            tasks,
            [read_training(file, RecordError) for file in trainings],
            [read(GridRecord, file) for file in grids],
            [task_info(spec, harness.manager) for spec in specs],
            [*seeds.values()],
            [run.model.name for run, folder in runs if folder.path.resolve() not in folders_of_seeds],
            [*map(_read_instructions, items)],
        )

    def citations(self) -> Iterator[str]:
        """Yield the papers of the benchmarks, and the models by name."""
        sources = (source for info in self.infos for source in info.sources.items())
        yield from dict.fromkeys(f"{name}: {source.citation}" for name, source in sources)
        yield f"models: {', '.join(dict.fromkeys(self._models()))} (cite their papers)"
        yield "harness: figeval (CITATION.cff)"

    def _models(self) -> Iterator[str]:
        """Yield the names of the models; an adapter is followed by its base."""
        for run in self.runs:
            yield run.model.name
            adapter = run.model.description.get("adapter")
            if isinstance(adapter, Mapping) and adapter.get("base"):
                yield f"{adapter['base']} (base of {run.model.name})"

    def licences(self) -> Iterator[str]:
        """Yield the licence of each benchmark, as its authors state it."""
        sources = (source for info in self.infos for source in info.sources.items())
        yield from dict.fromkeys(f"{name}: {source.licence}; {source.homepage}" for name, source in sources)

    def documentation(self) -> Iterator[str]:
        """Yield the type and the languages of each task."""
        answers = {}
        for name, tasks in self.tasks.items():
            settings = tasks[0].settings
            languages = settings.get("languages") or [settings.get("language") or "en"]
            answers[name] = f"{tasks[0].task_type}, {', '.join(languages)}"
        yield from _group(answers)

    def splits(self) -> Iterator[str]:
        """Yield how many examples were used for testing, training and model selection."""
        for name, tasks in self.tasks.items():
            split = tasks[0].settings.get("split") or "test"
            sizes = sorted({task.n for task in tasks})
            total = "" if sizes == [tasks[0].available] else f" of {tasks[0].available:,}"
            yield f"{name}: {' or '.join(f'{n:,}' for n in sizes)}{total} examples of {split}"
        for training in self.trainings:
            dev = training.dev
            selection = f", chosen on {dev.n:,} ({dev.source})" if dev.n else ""
            yield f"training on {training.task}: {training.train.n:,} examples{selection}"

    def compute(self) -> Iterator[str]:
        """Yield the processors and the hours of all runs and trainings."""
        machines = [run.provenance.get("hardware") or {} for run in self.runs]
        machines += [training.provenance.hardware or {} for training in self.trainings]
        hardware = dict.fromkeys(
            f"{machine.get('cores')} × {machine.get('processor')}, {machine.get('memory_gib')} GiB"
            for machine in machines
        )
        devices = dict.fromkeys(str(run.model.description.get("device") or "cpu") for run in self.runs)
        yield f"hardware: {'; '.join(hardware)}; device {', '.join(devices)}"
        evaluation = _duration(task.seconds + task.baseline_seconds for run in self.runs for task in run.tasks)
        training_time = _duration(training.seconds for training in self.trainings)
        yield f"hours: {evaluation} (h:mm:ss) of evaluation in {len(self.runs)} runs, {training_time} of training"
        sizes = {run.model.name: run.model.parameters for run in self.runs}
        for name, size in sizes.items():
            yield f"parameters of {name}: {FILL_IN if size is None else f'{size:,}'}"
        for training in self.trainings:
            if parts := training.parameters:
                yield f"trained on {training.task}: {parts.trainable:,} of {parts.total:,} parameters"

    def settings(self) -> Iterator[str]:
        """Yield how models were asked."""
        answers = {}
        for name, tasks in self.tasks.items():
            routes = ", ".join(dict.fromkeys(task.route for task in tasks))
            conditions = "; ".join(dict.fromkeys(text for task in tasks if (text := describe_conditions(task))))
            shots = tasks[0].settings.get("num_fewshot") or 0
            changes = dict.fromkeys(
                f"{key} {value}"
                for key in TASK_SETTINGS
                for task in tasks
                if (value := task.settings.get(key)) not in (None, "", [], False)
            )
            answers[name] = "; ".join((f"{routes}, {shots}-shot", *filter(None, [conditions]), *changes))
        yield from _group(answers)
        for run in self.runs:
            if options := {key: value for key, value in run.model.options.items() if key not in NOT_OPTIONS}:
                yield f"options of {run.model.name}: {', '.join(f'{key} {value}' for key, value in options.items())}"

    def training(self) -> Iterator[str]:
        """Yield how models were trained, what selected the checkpoint, what was searched, and what was found."""
        for training in self.trainings:
            config = training.config.model_dump()
            values = [f"{key} {config[key]}" for key in TRAINING_SETTINGS if config.get(key) not in (None, {}, [])]
            yield f"training on {training.task}: {', '.join(values)}"
            step = training.steps if training.best is None else training.best
            reason = "the last one, because no examples were held out"
            if training.evaluations:
                reason = f"the best one by {', then '.join(training.select_by)} on {training.config.select_on}"
            yield f"checkpoint of {training.task}: step {step}, {reason}"
        for grid in self.grids:
            values_by_key: dict[str, dict[str, None]] = {}
            for point in grid.points:
                for key, value in point.values.items():
                    values_by_key.setdefault(key, {})[str(value)] = None
            space = "; ".join(f"{key}: {', '.join(texts)}" for key, texts in values_by_key.items())
            failed = sum(bool(point.error) for point in grid.points)
            count = f"{len(grid.points)} combinations{f', {failed} of which failed' if failed else ''}"
            by = f" by {', then '.join(grid.metrics)}" if grid.metrics else ""
            yield f"search for {grid.task}: {count} ({space}), compared{by} on {grid.dev or 'dev'}"
            yield f"best values found for {grid.task}: {_describe_best(grid)}"
        if self.trainings and not self.grids:
            yield f"search for hyperparameters: none is recorded beside the trainings; {FILL_IN}"

    def statistics(self) -> Iterator[str]:
        """Yield what the scores are (single runs or means), what the intervals are over, and the seeds."""
        if self.single:
            names = ", ".join(dict.fromkeys(self.single))
            yield f"scores of single runs: {names}; intervals are over examples, not over trainings"
        for record in self.seeds:
            subject = f"{record.model} on {record.task}"
            has_interval = any(score.low is not None for score in record.scores)
            coverage = "intervals are over seeds and examples" if has_interval else "without intervals over seeds"
            yield f"means over {len(record.runs)} seeds: {subject}; {coverage}"
            yield from (f"{subject}: {line}" for line in _describe_means(record))
        yield from _group(
            {
                name: _describe_intervals([score for task in tasks for score in task.scores])
                for name, tasks in self.tasks.items()
            }
        )
        training_seeds = sorted({training.config.seed for training in self.trainings})
        if training_seeds:
            yield f"training seeds: {', '.join(map(str, training_seeds))}"
        # The predictions of another system have its seed among the options of the model.
        seeds = {str(run.model.options.get("seed", run.config.get("seed", 0))) for run in self.runs}
        yield f"seeds of the runs: {', '.join(sorted(seeds, key=lambda seed: (len(seed), seed)))}"
        gaps: dict[str, dict[str, None]] = {}
        for run in self.runs:
            for gap in unanswered_notes(run):
                gaps.setdefault(gap, {})[run.model.name] = None
        yield from (f"{gap}: {', '.join(names)}" for gap, names in gaps.items())

    def versions(self) -> Iterator[str]:
        """Yield Python and the packages that can change a number."""
        texts: dict[str, None] = {}
        for provenance in [run.provenance for run in self.runs]:
            packages = (f"{name} {version}" for name, version in recorded_packages(provenance).items())
            texts[", ".join((f"Python {provenance.get('python')}", *packages))] = None
        yield from texts

    def implementations(self) -> Iterator[str]:
        """Yield by what each metric was computed, and with which parameters."""
        tasks_by_method: dict[str, dict[str, None]] = {}
        undescribed: dict[str, None] = {}
        for name, tasks in self.tasks.items():
            for task in tasks:
                signatures = _signatures(task)
                methods = [f"{metric}: {signature}" for metric, signature in signatures.items()]
                if task.extractor is not None:
                    methods.append(f"answers read from replies by extractor {task.extractor}")
                for method in methods:
                    tasks_by_method.setdefault(method, {})[name] = None
                undescribed |= dict.fromkeys(score.metric for score in task.scores if score.metric not in signatures)
        yield from (f"{method} ({_abbreviate(names, self.tasks)})" for method, names in tasks_by_method.items())
        if undescribed:
            metrics = ", ".join(undescribed)
            yield f"defined in figeval's documentation (statistics), computed with the packages above: {metrics}"
        yield f"other packages, such as those for preprocessing: {FILL_IN}"

    def instructions(self) -> Iterator[str]:
        """Yield the full text that annotators of each task were told, criteria included."""
        for task, text in self.annotations:
            yield f"{task}: {text or 'none'}"

    def commands(self) -> Iterator[str]:
        """Yield the command that repeats each run."""
        yield from dict.fromkeys(f"`{shlex.join(run.command)}`" for run in self.runs if run.command)


def _files(files: Iterable[Path]) -> list[Path]:
    return list({file.resolve(): file for file in files if file.is_file()}.values())


def _read_instructions(folder: Path) -> tuple[str, str]:
    """Return the task of a folder of `figeval annotate export` and the full text of its instructions.

    Raises:
        DataError: there is no key, it is damaged, or the file with the instructions is missing.
    """
    cure = "give the folder that `figeval annotate export` or `sheets` wrote"
    key, file = read_model(folder / "key.json", ItemsKey, DataError, cure=cure), folder / "instructions.txt"
    if not file.is_file() and not key.instructions:
        return key.task, ""
    return key.task, read_text(file, DataError, cure="restore it, or export the items again").removesuffix("\n")


def _group(answers: Mapping[str, str]) -> Iterator[str]:
    """Yield each answer once, before it the tasks that share it."""
    names_by_answer: dict[str, list[str]] = {}
    for name, answer in answers.items():
        names_by_answer.setdefault(answer, []).append(name)
    for answer, names in names_by_answer.items():
        yield f"{_abbreviate(names, answers)}: {answer}"


def _abbreviate(names: Iterable[str], all_names: Iterable[str]) -> str:
    """Return the names, e.g. `epic_mcq, impli_*`: an asterisk stands for all names that begin so, if there are more."""
    rest, members = list(names), set(names)
    if len(rest) > 1 and members == set(all_names):
        return "all tasks"
    parts: dict[str, None] = {}
    for name in rest:
        prefixes = [name[: index + 1] for index, letter in enumerate(name) if letter == "_"]
        groups = ((prefix, {other for other in all_names if other.startswith(prefix)}) for prefix in prefixes)
        parts[next((f"{prefix}*" for prefix, group in groups if len(group) > 1 and group <= members), name)] = None
    return ", ".join(parts)


def _duration(seconds: Iterable[float]) -> timedelta:
    return timedelta(seconds=round(sum(seconds)))


def _signatures(task: TaskRecord) -> dict[str, str]:
    signatures = {**task.settings.get("signatures", {}), **task.settings.get("metric_arguments", {})}
    return {
        metric: ", ".join(f"{key} {value}" for key, value in text.items()) if isinstance(text, Mapping) else text
        for metric, text in signatures.items()
    }


def _describe_intervals(scores: Sequence[ScoreRecord]) -> str:
    """Return the methods of the intervals, the reasons where there are none, and the number of clusters."""
    methods = dict.fromkeys(str(score.interval) for score in scores if not score.interval.reason)
    metrics_by_reason: dict[str, dict[str, None]] = {}
    for score in scores:
        if score.interval.reason:
            metrics_by_reason.setdefault(score.interval.reason, {})[score.metric] = None
    gaps = [f"none for {', '.join(names)}: {reason}" for reason, names in metrics_by_reason.items()]
    parts = [part for part in (", ".join(methods), *gaps) if part]
    clusters = max((score.clusters for score in scores), default=0)
    return f"95 % intervals ({'; '.join(parts)}), {clusters:,} clusters"


def _describe_best(grid: GridRecord) -> str:
    best = next((point for point in grid.points if grid.best is not None and point.folder == grid.best), None)
    if best is None:
        return f"{FILL_IN}, since the search has not ended"
    values = ", ".join(f"{key} {value}" for key, value in best.values.items())
    scores = ", ".join(f"{name} {value:.4g}" for name, value in best.scores.items() if value is not None)
    return f"{values}{f' (on dev: {scores})' if scores else ''}"


def _describe_means(record: SeedsRecord) -> Iterator[str]:
    """Yield mean, standard deviation and range of each score of a task, without its languages."""
    for score in record.scores:
        values = [value for value in score.values.values() if value is not None]
        if score.mean is not None and not score.language and not score.unseen_only and score.task == record.task:
            sd = "" if score.sd is None else f", sd {score.sd:.4f}"
            yield f"{score.metric} mean {score.mean:.4f}{sd}, from {min(values):.4f} to {max(values):.4f}"
