"""Facts about runs and the trainings behind them that reviewers ask for, as far as their records know them.

Every fact is a method of `Facts` that yields sentences. What no record knows is left to the author (`FILL_IN`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from figeval.data.sources import Sources
from figeval.errors import RecordError
from figeval.records.conditions import described, unanswered
from figeval.records.run_folder import read_run
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.sweep import GRID, SEEDS, GridRecord, SeedsRecord, read, run_folders
from figeval.records.training import TrainingRecord, read_training
from figeval.runs.harness import Harness
from figeval.runs.task_info import task_info
from figeval.wings.annotation.sheets import Key, read_key

FILL_IN = "fill in"
SHOWN = (  # of the config of a training, in this order
    *("head", "head_args", "epochs", "max_steps", "batch_size", "lr", "optimizer", "betas", "weight_decay", "schedule"),
    *("warmup", "clip", "dropout", "mixed_precision", "lora", "max_length", "patience", "processes", "seed"),
)
ASKED = (  # of the settings of a task, in this order
    *("threshold", "temperature", "decision", "max_new_tokens", "stop", "chat_template", "system_instruction"),
    *("orders", "reasoning", "constrain", "calibration"),
)
NOT_OPTIONS = ("sha256", "seed")  # of scored predictions


@dataclass(frozen=True)
class Facts:
    """Records of runs and of the trainings behind them.

    Attributes:
        runs: runs; those of several seeds one by one.
        tasks: tasks of the runs by name, without prompts and probes.
        trainings: records of the trainings (`training/record.json`) that were found.
        grids: records of searches for hyperparameters.
        seeds: records of folders with several seeds, whose runs are among the runs.
        single: names of the models of all other runs.
        sources: upstream benchmarks of the tasks that are installed.
        items: keys of the items that people have judged.
    """

    runs: Sequence[RunRecord]
    tasks: Mapping[str, list[TaskRecord]]
    trainings: Sequence[TrainingRecord]
    grids: Sequence[GridRecord]
    sources: Mapping[str, Sources]
    seeds: Sequence[SeedsRecord] = ()
    single: Sequence[str] = ()
    items: Sequence[Key] = ()

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
        places = {one.resolve(): one for path in paths for one in run_folders(path)}
        together = {path: read(SeedsRecord, path / SEEDS) for path in paths if (path / SEEDS).is_file()}
        of_seeds = {(path / run).resolve() for path, record in together.items() for run in record.runs.values()}
        found = [read_run(place) for place in places.values()]
        tasks: dict[str, list[TaskRecord]] = {}
        for run, _ in found:
            for task in run.tasks:
                if task.kind == "task":
                    tasks.setdefault(task.task, []).append(task)
        trainings: dict[Path, TrainingRecord] = {}
        grids: dict[Path, GridRecord] = {}
        for run, folder in found:
            for model in (Path(run.model.name), *list(folder.path.resolve().parents)[:2]):
                if (file := model / "training" / "record.json").is_file():
                    trainings[file.resolve()] = read_training(file, RecordError)
                for place in (model, model.parent):
                    if (file := place / GRID).is_file():
                        grids[file.resolve()] = read(GridRecord, file)
        known = [name for name in tasks if name in harness.catalogue.tasks]
        infos = [task_info(harness.catalogue.tasks.get(name), harness.manager) for name in known]
        sources = {name: source for info in infos for name, source in info.sources.items()}
        return cls(
            [run for run, _ in found],
            tasks,
            [*trainings.values()],
            [*grids.values()],
            sources,
            [*together.values()],
            [run.model.name for run, folder in found if folder.path.resolve() not in of_seeds],
            [*map(read_key, items)],
        )

    def citations(self) -> Iterator[str]:
        """Yield the papers of the benchmarks, and the models by name."""
        for name, source in self.sources.items():
            yield f"{name}: {source.citation}"
        yield f"models: {', '.join(dict.fromkeys(run.model.name for run in self.runs))} (cite their papers)"
        yield "harness: figeval (CITATION.cff)"

    def licences(self) -> Iterator[str]:
        """Yield the licence of each benchmark, as its authors state it."""
        for name, source in self.sources.items():
            yield f"{name}: {source.licence}; {source.homepage}"

    def documentation(self) -> Iterator[str]:
        """Yield the type and the languages of each task."""
        for name, tasks in self.tasks.items():
            settings = tasks[0].settings
            languages = settings.get("languages") or [settings.get("language") or "en"]
            yield f"{name}: {tasks[0].task_type}, {', '.join(languages)}"

    def splits(self) -> Iterator[str]:
        """Yield how many examples were used for testing, training and model selection."""
        for name, tasks in self.tasks.items():
            split = tasks[0].settings.get("split") or "test"
            used = sorted({task.n for task in tasks})
            of = "" if used == [tasks[0].available] else f" of {tasks[0].available:,}"
            yield f"{name}: {' or '.join(f'{n:,}' for n in used)}{of} examples of {split}"
        for training in self.trainings:
            dev = training.dev
            chosen = f", chosen on {dev.n:,} ({dev.source})" if dev.n else ""
            yield f"training on {training.task}: {training.train.n:,} examples{chosen}"

    def compute(self) -> Iterator[str]:
        """Yield the processors and the hours of all runs and trainings."""
        machines: dict[str, None] = {}
        used = [run.provenance.get("hardware") for run in self.runs]
        for own in (one or {} for one in (*used, *(one.provenance.hardware for one in self.trainings))):
            machines[f"{own.get('cores')} × {own.get('processor')}, {own.get('memory_gib')} GiB"] = None
        devices = dict.fromkeys(str(run.model.description.get("device") or "cpu") for run in self.runs)
        yield f"hardware: {'; '.join(machines)}; device {', '.join(devices)}"
        evaluated = sum(task.seconds + task.baseline_seconds for run in self.runs for task in run.tasks)
        trained = sum(training.seconds for training in self.trainings)
        evaluation, learning = (timedelta(seconds=round(seconds)) for seconds in (evaluated, trained))
        yield f"hours: {evaluation} (h:mm:ss) of evaluation in {len(self.runs)} runs, {learning} of training"
        sizes = {run.model.name: run.model.parameters for run in self.runs}
        for name, size in sizes.items():
            yield f"parameters of {name}: {FILL_IN if size is None else f'{size:,}'}"
        for training in self.trainings:
            if parts := training.parameters:
                yield f"trained on {training.task}: {parts.trainable:,} of {parts.total:,} parameters"

    def settings(self) -> Iterator[str]:
        """Yield how models were asked."""
        for name, tasks in self.tasks.items():
            routes = ", ".join(dict.fromkeys(task.route for task in tasks))
            conditions = "; ".join(dict.fromkeys(text for task in tasks if (text := described(task))))
            shots = tasks[0].settings.get("num_fewshot") or 0
            given = dict.fromkeys(
                f"{key} {value}"
                for key in ASKED
                for task in tasks
                if (value := task.settings.get(key)) not in (None, "", [], False)
            )
            yield "; ".join((f"{name}: {routes}, {shots}-shot", *filter(None, [conditions]), *given))
        for run in self.runs:
            if options := {key: value for key, value in run.model.options.items() if key not in NOT_OPTIONS}:
                yield f"options of {run.model.name}: {', '.join(f'{key} {value}' for key, value in options.items())}"

    def training(self) -> Iterator[str]:
        """Yield how models were trained, what selected the checkpoint, what was searched, and what was found."""
        for training in self.trainings:
            config = training.config.model_dump()
            given = ", ".join(f"{key} {config[key]}" for key in SHOWN if config.get(key) not in (None, {}, []))
            yield f"training on {training.task}: {given}"
            by = ", then ".join(training.select_by)
            step = training.steps if training.best is None else training.best
            selected = f"the best one by {by} on {training.config.select_on}"
            how = selected if training.evaluations else "the last one, because no examples were held out"
            yield f"checkpoint of {training.task}: step {step}, {how}"
        for grid in self.grids:
            tried: dict[str, dict[str, None]] = {}
            for point in grid.points:
                for key, value in point.values.items():
                    tried.setdefault(key, {})[str(value)] = None
            space = "; ".join(f"{key}: {', '.join(values)}" for key, values in tried.items())
            failed = sum(bool(point.error) for point in grid.points)
            count = f"{len(grid.points)} combinations{f', {failed} of which failed' if failed else ''}"
            by = f" by {', then '.join(grid.metrics)}" if grid.metrics else ""
            yield f"search for {grid.task}: {count} ({space}), compared{by} on {grid.dev or 'dev'}"
            yield f"best values found for {grid.task}: {_found(grid)}"
        if self.trainings and not self.grids:
            yield f"search for hyperparameters: none is recorded beside the trainings; {FILL_IN}"

    def statistics(self) -> Iterator[str]:
        """Yield what the scores are (single runs or means), what the intervals are over, and the seeds."""
        if self.single:
            names = ", ".join(dict.fromkeys(self.single))
            yield f"scores of single runs: {names}; intervals are over examples, not over trainings"
        for record in self.seeds:
            of = f"{record.model} on {record.task}"
            has = any(score.low is not None for score in record.scores)
            cover = "intervals are over seeds and examples" if has else "without intervals over seeds"
            yield f"means over {len(record.runs)} seeds: {of}; {cover}"
            yield from (f"{of}: {line}" for line in _over_seeds(record))
        for name, tasks in self.tasks.items():
            scores = [score for task in tasks for score in task.scores]
            methods = dict.fromkeys(str(one.interval) for one in scores if not one.interval.reason)
            lacking: dict[str, dict[str, None]] = {}
            for one in scores:
                if one.interval.reason:
                    lacking.setdefault(one.interval.reason, {})[one.metric] = None
            without = [f"none for {', '.join(names)}: {reason}" for reason, names in lacking.items()]
            parts = [part for part in (", ".join(methods), *without) if part]
            clusters = max((score.clusters for score in scores), default=0)
            yield f"{name}: 95 % intervals ({'; '.join(parts)}), {clusters:,} clusters"
        seeds = sorted({one.config.seed for one in self.trainings})
        if seeds:
            yield f"training seeds: {', '.join(map(str, seeds))}"
        # The predictions of another system have its seed among the options of the model.
        own = {run.model.options.get("seed", run.config.get("seed", 0)) for run in self.runs}
        yield f"seeds of the runs: {', '.join(sorted(map(str, own), key=lambda one: (len(one), one)))}"
        gaps: dict[str, dict[str, None]] = {}
        for run in self.runs:
            for gap in unanswered(run):
                gaps.setdefault(gap, {})[run.model.name] = None
        yield from (f"{gap}: {', '.join(names)}" for gap, names in gaps.items())

    def versions(self) -> Iterator[str]:
        """Yield Python and the packages that can change a number."""
        texts: dict[str, None] = {}
        for provenance in [run.provenance for run in self.runs]:
            packages = (f"{name} {version}" for name, version in (provenance.get("packages") or {}).items())
            texts[", ".join((f"Python {provenance.get('python')}", *packages))] = None
        yield from texts

    def implementations(self) -> Iterator[str]:
        """Yield by what each metric was computed, and with which parameters."""
        computed: dict[str, dict[str, None]] = {}
        own: dict[str, None] = {}
        for name, tasks in self.tasks.items():
            for task in tasks:
                given = [task.settings.get(key) for key in ("signatures", "metric_arguments")]
                known = {metric: said for one in given if isinstance(one, Mapping) for metric, said in one.items()}
                for metric, said in known.items():
                    told = ", ".join(f"{key} {one}" for key, one in said.items()) if isinstance(said, Mapping) else said
                    computed.setdefault(f"{metric}: {told}", {})[name] = None
                own |= dict.fromkeys(one.metric for one in task.scores if one.metric not in known)
                if task.extractor is not None:
                    computed.setdefault(f"answers read from replies by extractor {task.extractor}", {})[name] = None
        yield from (f"{what} ({', '.join(names)})" for what, names in computed.items())
        if own:
            yield f"defined in figeval's documentation (statistics), computed with the packages above: {', '.join(own)}"
        yield f"other packages, such as those for preprocessing: {FILL_IN}"

    def instructions(self) -> Iterator[str]:
        """Yield the full text that annotators of each task were told, criteria included."""
        for key in self.items:
            yield f"{key.task}: {key.told or 'none'}"

    def commands(self) -> Iterator[str]:
        """Yield the command that repeats each run."""
        yield from dict.fromkeys(f"`{shlex.join(run.command)}`" for run in self.runs if run.command)


def _found(grid: GridRecord) -> str:
    """Return the values of the best combination of a search, with its scores on dev."""
    best = next((point for point in grid.points if grid.best is not None and point.folder == grid.best), None)
    if best is None:
        return f"{FILL_IN}, since the search has not ended"
    values = ", ".join(f"{key} {value}" for key, value in best.values.items())
    scores = ", ".join(f"{name} {value:.4g}" for name, value in best.scores.items() if value is not None)
    return f"{values}{f' (on dev: {scores})' if scores else ''}"


def _over_seeds(record: SeedsRecord) -> Iterator[str]:
    """Yield mean, standard deviation and range of each score of a task, without its languages."""
    for score in record.scores:
        known = [value for value in score.values.values() if value is not None]
        if score.mean is not None and not score.language and not score.unseen_only and score.task == record.task:
            sd = "" if score.sd is None else f", sd {score.sd:.4f}"
            yield f"{score.metric} mean {score.mean:.4f}{sd}, from {min(known):.4f} to {max(known):.4f}"
