"""Sweeps of several trainings: grids, whose combinations are compared on dev, and seeds, whose scores are averaged.

DIR/grid-lr-1e-5/    a training like any other; not evaluated unless it is the best
DIR/grid.json        their scores on dev
DIR/seed-0/          a training and the run of its model
DIR/seeds.json       mean and spread of the scores

Everything is computed from the folders: finished trainings are not repeated, interrupted ones are resumed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from figeval import FolderInUse, Harness, Observer, RunRecord, TrainError
from figeval.io.json_files import JSONValue
from figeval.io.text import near
from figeval.io.yaml_files import InvalidYAML, parse_yaml
from figeval.records.sweep import GRID, SEEDS, GridPoint, GridRecord, SeedsRecord, write
from figeval.records.training import OPERATIONAL_OPTIONS
from figeval.runs.seeds import scores_of, warnings_of
from figeval.wings.training.config import TrainConfig, read_none, validate_config
from figeval.wings.training.pipeline import complete_training, evaluation_folder, floor_probe, stored_evaluation
from figeval.wings.training.selection import make_criterion
from figeval.wings.training.task_training import check_evaluation, make_learner
from figeval.wings.training.train_folder import TrainFolder

# Fields that must be equal for scores on dev to be comparable.
FIXED_FIELDS = frozenset(
    ("task", "model", "seed", "preset", "select_on", "select_by", "holdout", "holdout_by", "limit")
)
HEAD_OPTION = "head_args."
GridValues = Mapping[str, Sequence[str]]
CompleteTraining = Callable[[TrainConfig], RunRecord | None]  # as `complete_training`, which may have begun earlier


@dataclass(frozen=True, slots=True)
class Sweep:
    """The common part of all trainings.

    Attributes:
        config: their common configuration.
        observer: observer of the progress of each.
        say: function that is called with a line about each one as it begins.
        start: function that begins to complete several trainings elsewhere; None if this process does it.
    """

    config: TrainConfig
    observer: Observer
    say: Callable[[str], None]
    start: Callable[[Sequence[TrainConfig]], CompleteTraining] | None = None

    def _begin_trainings(self, configs: Sequence[TrainConfig]) -> CompleteTraining:
        """Return the function that completes each of these trainings, or waits until it is complete."""
        if self.start is not None:
            return self.start([config for config in configs if stored_evaluation(config) is None])
        return lambda config: complete_training(config, self.observer)

    # ---- grid -------------------------------------------------------------------------------------------------------

    def train_grid(self, grid: GridValues) -> tuple[GridRecord, TrainConfig]:
        """Train every combination; return their record and the config of the best one.

        Raises:
            TrainError: There is no dev split to compare on, a value is wrong, or no combination could be trained.
            FolderInUse: Another process is training a combination; the others are done.
        """
        _check_grid(grid, self.config)
        harness = Harness(include=self.config.include_path)
        if self.config.floor:
            floor_probe(self.config, harness)
        has_one_head = not any(name.startswith("head") for name in grid)  # else the best one's is unknown
        if has_one_head and not (self.config.output / GRID).is_file():
            task = harness.catalogue.tasks.get(self.config.task)
            check_evaluation(self.config, harness, make_learner(self.config, task, harness, "cpu")[1])
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        configs = [self._grid_config(values) for values in points]  # check all before training the first one
        self._create_folder()
        complete = self._begin_trainings(configs)
        record, busy = GridRecord(task=self.config.task, model=self.config.model), list[str]()
        for number, (values, config) in enumerate(zip(points, configs, strict=True), start=1):
            self.say(f"{number} of {len(points)}: {_format_values(values)}")
            try:
                record.points.append(self._train_point(values, config, record, complete))
            except FolderInUse:
                busy.append(config.output.name)
                error = "being trained by another process"
                record.points.append(GridPoint(folder=config.output.name, values=dict(values), error=error))
            write(record, self.config.output / GRID)
        if busy:
            raise FolderInUse(
                f"{' and '.join(busy)} in {self.config.output}: being trained by another process; all other "
                "combinations are done, so run the same command when that has finished"
            )
        index = self._best_index(record)
        record.best = record.points[index].folder
        write(record, self.config.output / GRID)
        return record, configs[index]

    def _grid_config(self, values: Mapping[str, str]) -> TrainConfig:
        """Return the config of one combination; it is compared on dev only, so not evaluated and without a floor."""
        options = {
            name.removeprefix(HEAD_OPTION): _parse_option(text)
            for name, text in values.items()
            if name.startswith(HEAD_OPTION)
        }
        fields = {name: read_none(name, text) for name, text in values.items() if not name.startswith(HEAD_OPTION)}
        settings = self.config.model_dump() | fields
        settings["head_args"] = {**self.config.head_args, **options}
        folder = "-".join(["grid", *(re.sub(r"[^\w.-]", "_", f"{name}-{value}") for name, value in values.items())])
        settings |= {"output": self.config.output / folder, "evaluate": (), "floor": False}
        return validate_config(settings, "--grid: ")

    def _train_point(
        self, values: Mapping[str, str], config: TrainConfig, record: GridRecord, complete: CompleteTraining
    ) -> GridPoint:
        """Train one combination, or read its results; a `TrainError`, e.g. a NaN loss, ends only this combination."""
        point = GridPoint(folder=config.output.name, values=dict(values))
        try:
            complete(config)
        except FolderInUse:
            raise
        except TrainError as error:
            point.error = str(error)
            return point
        folder = TrainFolder(config.output)
        training, progress = folder.read_record(), folder.read_progress()
        record.metrics, record.dev = training.select_by, training.dev.source
        best = next(evaluation for evaluation in progress.evaluations if evaluation.step == progress.best)
        point.scores, point.step = best.scores, best.step
        return point

    def _best_index(self, record: GridRecord) -> int:
        """Return the index of the best combination; the first one wins a tie.

        Raises:
            TrainError: No combination could be trained.
        """
        indices = [index for index, point in enumerate(record.points) if not point.error]
        if not indices:
            raise TrainError(f"no combination could be trained; the first: {record.points[0].error}")
        criterion = make_criterion(record.metrics, Harness(include=self.config.include_path))
        return max(indices, key=lambda index: (criterion.key(record.points[index].scores), -index))

    # ---- seeds ------------------------------------------------------------------------------------------------------

    def train_seeds(self, seeds: Sequence[int], base: TrainConfig | None = None) -> SeedsRecord:
        """Train and evaluate with every seed; `base` is the config to use, by default the sweep's own.

        A seed that another process is training is tried again at the end; if it is still being trained then, `seeds` of
        the record lacks it.
        """
        self._create_folder()
        record = SeedsRecord(task=self.config.task, model=self.config.model, seeds=[], wanted=list(seeds), runs={})
        runs: dict[int, RunRecord | None] = {}
        configs = {seed: self._seed_config(base or self.config, seed) for seed in seeds}
        complete = self._begin_trainings([*configs.values()])
        for number, seed in enumerate(seeds, start=1):
            self.say(f"seed {seed}, {number} of {len(seeds)}")
            self._train_seed(configs[seed], record, runs, complete)
        for seed in [seed for seed in seeds if seed not in runs] if runs else ():
            self.say(f"seed {seed}, again")
            self._train_seed(configs[seed], record, runs, complete)
        if len(record.seeds) < len(runs):
            self._summarize(record, runs)
        return record

    def _seed_config(self, base: TrainConfig, seed: int) -> TrainConfig:
        changes = {"evaluate": self.config.evaluate, "floor": self.config.floor}
        return base.model_copy(update={"seed": seed, "output": self.config.output / f"seed-{seed}", **changes})

    def _train_seed(
        self, config: TrainConfig, record: SeedsRecord, runs: dict[int, RunRecord | None], complete: CompleteTraining
    ) -> None:
        """Train and evaluate with one seed; bring the record up to date unless the seed was finished before."""
        seed = config.seed
        run = stored_evaluation(config)
        if run is not None:
            runs[seed] = run
            return
        is_new = TrainFolder(config.output).finished_progress(config) is None
        try:
            runs[seed] = complete(config)
        except FolderInUse:
            self.say(f"seed {seed} is being trained or evaluated by another process in {config.output}")
            return
        if is_new:
            self._summarize(record, runs)

    def _summarize(self, record: SeedsRecord, runs: Mapping[int, RunRecord | None]) -> None:
        """Compute the scores over the finished seeds and write the record; this reads all their predictions."""
        output, tasks = self.config.output, self.config.evaluate or (self.config.task,)
        record.seeds = [seed for seed in record.wanted if seed in runs]
        finished_runs = {seed: run for seed in record.seeds if (run := runs[seed]) is not None}
        folders = {str(seed): evaluation_folder(output / f"seed-{seed}", tasks) for seed in finished_runs}
        record.runs = {seed: str(folder.relative_to(output)) for seed, folder in folders.items()}
        record.scores = scores_of(finished_runs, folders)
        no_better = [
            f"seed {seed}: no checkpoint was better on dev than the model before training"
            for seed in record.seeds
            if TrainFolder(output / f"seed-{seed}").read_record().improved is False
        ]
        record.warnings = [*warnings_of(finished_runs), *no_better]
        write(record, output / SEEDS)

    def _create_folder(self) -> None:
        """Create the folder.

        Raises:
            TrainError: It cannot be written, or contains files that belong to no sweep.
        """
        output = self.config.output
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainError(f"{output} cannot be written ({error.strerror}); choose another --output") from error
        unknown_names = [
            file.name for file in sorted(output.iterdir()) if not re.fullmatch(r"(seed|grid)(-.+|s?\.\w+)", file.name)
        ]
        if unknown_names:
            name = unknown_names[0]
            raise TrainError(f"{output} contains {name!r}, which is not part of a sweep; choose another --output")


# ---- arguments ------------------------------------------------------------------------------------------------------


def parse_grid(texts: Sequence[str]) -> GridValues:
    """Parse --grid: `lr=1e-5,2e-5;epochs=3,5`, in one text or several, lists the values of each field.

    Raises:
        TrainError: The text has another form, or names a field that is unknown or must be the same for all trainings.
    """
    fields = set(TrainConfig.model_fields) - OPERATIONAL_OPTIONS - FIXED_FIELDS - {"head_args"}
    grid: dict[str, list[str]] = {}
    for part in (part for text in texts for part in text.split(";") if part.strip()):
        name, equals, values = part.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise TrainError(f"--grid {part}: write field=value,value")
        if name not in fields and not name.startswith(HEAD_OPTION):
            see = "; see `figeval train --help`"
            raise TrainError(f"--grid {name}: this field cannot be varied{near(name, fields)}{see}")
        grid[name] = [value.strip() for value in values.split(",")]
    return grid


def _check_grid(grid: GridValues, config: TrainConfig) -> None:
    """Check that combinations can be compared on dev, and that no value is empty or given twice.

    Raises:
        TrainError: A check fails.
    """
    if config.select_on != "dev":
        raise TrainError(f"--grid compares on dev, never on test; leave out --select_on {config.select_on}")
    for name, values in grid.items():
        if len(set(values)) < len(values) or not all(values):
            raise TrainError(f"--grid {name}={','.join(values)}: give distinct, non-empty values")


def _parse_option(text: str) -> JSONValue:
    """Parse an option of a head as YAML: `0.05` is a number, `dot` is a text."""
    try:
        value: JSONValue = parse_yaml(text)
    except InvalidYAML as error:
        raise TrainError(f"--grid: {text!r:.80} is not a value ({error})") from error
    return value


def _format_values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
