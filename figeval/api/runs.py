"""`figeval.run` and `figeval.load`, and the `Run` that they return.

They do what the commands `run` and `show` do, without a terminal: they print nothing unless asked to (`progress=True`),
raise `figeval.FigevalError` where the command line exits with code 2, and leave the environment, the working folder
and the program's own objects unchanged. The keyword arguments are the flags of the command line, checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from figeval import plugins
from figeval.config import FORMER_FLAGS, RunConfig, RunOptions
from figeval.errors import OptionError, RecordError
from figeval.io import frontend
from figeval.io.settings import parse_settings
from figeval.io.text import near, one_line
from figeval.io.validation import as_list, checked_arguments, names_in, paths_in, reword_message, type_adapter
from figeval.models.capabilities import KNOWN_CAPABILITIES, capabilities
from figeval.records.notes import left_out, task_warnings
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord
from figeval.registry import a_type
from figeval.reporting import table
from figeval.reporting.grid import Grid, Result
from figeval.runs.harness import Harness
from figeval.spec import SuiteSpec, TaskSpec
from figeval.spec.loader import read_task_files as read_task_files  # of wings, too
from figeval.types import JSON

if TYPE_CHECKING:
    from typing import Unpack

    import pandas
    from rich.console import Console

    from figeval.io.observer import Observer

Task: TypeAlias = str | Path | TaskSpec | SuiteSpec
SETTINGS = {"model_args", "head_args", "settings"}  # `a=1,b=x` is the same as {"a": 1, "b": "x"}
NAMES = ("by", "prompts", "metrics", "evaluate", "lora_targets", "trackers")  # `a,b` is the same as ("a", "b")


@checked_arguments
def run(
    tasks: Task | Sequence[Task],
    model: object,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Unpack[RunOptions],
) -> Run:
    """Run tasks with a model, or resume a run that was interrupted.

    The same arguments continue where the run stopped, and runs of the command line can be continued in the same way.
    Results are stored in a folder as they are computed, so an interrupted run loses nothing.

    Args:
        tasks: names of tasks and suites (`"epic_mcq"`, `"epic_mcq,impli"`, `["epic_mcq", "impli"]`), task files
            (`"my.task.yaml"`), and tasks made with `@figeval.task`, which only this run knows.
        model: a name from `figeval ls models`, a folder or a hub id; or any object with a capability, i.e. with a
            method such as `embed`, `score_pairs` or `generate`, and with `fingerprint()` or
            `deterministic_by_name = True`. The object is not closed.
        name: name of a model object in records and tables; by default its class.
        progress: print the progress of the run on stderr.
        options: the flags of `figeval run` under the same names, with `routes` for `--route` and `baselines=False` for
            `--no_baselines`. `output_path` is the folder; by default a new one in `results/runs`, or that of the same
            earlier run.

    Returns:
        The run. If a task failed, its `warnings` say so; the other tasks are done.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value.
        FigevalError: an unknown name, a task that the model cannot answer, a folder with another run …

    Example:
        ```python
        done = figeval.run(["mini_proverbs", "mini_pairs"], "tfidf", limit=20)
        done.scores[["task", "metric", "value", "low", "high"]]
        ```
    """
    names, task_objects = task_names(tasks)
    called, objects = model_name(model, name)
    config = run_config(names, called, options)
    from figeval.runs.run import run as run_tasks

    if task_objects or objects:
        refuse_to_share(config)
    if objects and config.model_args:
        raise OptionError("model_args are for models given by name; give them to the object itself")
    with long_work(progress=progress) as observer:
        harness = Harness(include=config.include_path, tasks=task_objects, models=objects)
        record, folder = run_tasks(config, harness, observer)
        failed = [task.task for task in record.tasks if task.status == "failed"]
        if failed and not frontend.on_terminal():
            frontend.warn(f"{', '.join(failed)} failed; see the warnings of the run")
    return Run(record, folder)


@checked_arguments
def load(path: Run | str | Path) -> Run:
    """Return the run in a folder (or in its `run.json`), finished or not; for a folder of several seeds, their means.

    A `Run` is returned as it is, so that a function which takes either needs no check.

    Raises:
        OptionError: `path` is not a path.
        RecordError: there is no run, or its predictions have been changed.

    Example:
        ```python
        figeval.load("results/runs/demo").breakdown("idiom")
        ```
    """
    if isinstance(path, Run):
        return path
    from figeval.records.sweep import run_or_mean  # not needed by a new run

    folder = Path(path)
    return Run(run_or_mean(folder), folder if folder.is_dir() else folder.parent)


class Run(Result):
    """A run of one model over some tasks, as `figeval.run` and `figeval.load` return it.

    A notebook shows it as the table that `figeval run` prints; `print(run)` prints the same as text.

    Attributes:
        record: the content of `run.json`.
        path: folder of the run, with `run.json` and `predictions/`.
    """

    def __init__(self, record: RunRecord, path: Path) -> None:
        self.record = record
        self.path = path

    # ---- results ----------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks in order; a further prompt or a probe is called `task@variant`."""
        return tuple(task.task for task in self.record.tasks)

    @property
    def complete(self) -> bool:
        """True if every task is done and every example has an answer."""
        return self.record.status == "complete"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the numbers, and errors of tasks that failed, one sentence each."""
        texts = [*self.record.warnings, *left_out(self.record), *task_warnings(self.record)]
        for task in self.record.tasks:
            if task.error:
                texts.append(f"{task.task} failed: {task.error.strip().splitlines()[-1]}")
        return (*texts, *map(str, self.record.model.description.get("warnings", ())))

    @property
    def scores(self) -> pandas.DataFrame:
        """Scores, one row per task and metric.

        Columns: `run` (its identity), `model`, `task`, `kind` (task, prompt or probe), `task_type`, `route`,
        `conditions` (augmented inputs, solved examples and the like; empty if there are none), `examples` (`all`;
        `unseen`, without those that the model was trained or chosen on; or one language of a task in several),
        `metric`, `value`, `low`, `high`, `stderr`, `n`, `clusters`, `effective_clusters`, `interval` (the method, or
        why there is none), `higher_is_better`, `seen`, and `baseline_NAME` for each trivial model. Numbers are
        `float64`, counts `Int64`, texts `string`.

        Raises:
            FigevalError: pandas is not installed.
        """
        from figeval.api import frames

        return frames.scores(self.record)

    @property
    def macro(self) -> pandas.DataFrame:
        """Macro means of suites: `run`, `model`, `suite`, `metric`, `value`, `tasks`, `seen`.

        Raises:
            FigevalError: pandas is not installed.
        """
        from figeval.api import frames

        return frames.macro(self.record)

    @property
    def variances(self) -> pandas.DataFrame:
        """Components of the variance of sampled answers (`--samples`), one row per task and metric.

        Columns: `run`, `model`, `task`, `metric`, `samples`, `prompts`, `items`, `mean`, its interval (`low`, `high`,
        `stderr`, `interval`), the variances `sampling`, `interaction` (of items and prompts), `between_items`,
        `between_clusters` and `between_prompts`, NaN where nothing tells them apart, `sampling_share` (of the variance
        of the mean) and `enough_samples` (with which this share would be at most a tenth).

        Raises:
            FigevalError: pandas is not installed.
        """
        from figeval.api import frames

        return frames.variances(self.record)

    @checked_arguments
    def rows(self, task: str) -> Iterator[PredictionRow]:
        """Yield the stored answers to a task as dictionaries, one at a time, in the order of its examples.

        Each has at least `id`, `status`, `pred` (the answer), `gold` and `metrics`, a number or numbers by the name of
        the metric. This neither reads the benchmark's texts nor needs pandas. `figeval schema predictions` describes
        all keys.

        Raises:
            RecordError: the run has no such task or no predictions, or they have been changed.
        """
        if task not in self.tasks:
            raise RecordError(f"the run has no task {task!r}{near(task, self.tasks)}; it has {', '.join(self.tasks)}")
        folder = RunFolder(self.path)
        if not folder.has_predictions(task):
            raise RecordError(f"{self.path} has no predictions of {task}; run the same command again")
        return folder.rows(task)

    def predictions(self, task: str) -> pandas.DataFrame:
        """Return the stored answers to a task, one row per example in the task's order.

        Columns: `id`, `status`, `prediction` and `gold` (an index, a label, a span … depending on the task type), a
        column per metric (`acc` is 1 for a right answer and a fraction if answers tie), `tied`, `truncated`, `seen`,
        `cluster`, `group`, `language` for a task in several, `raw`, `finish` and `error` for models that write text,
        and `meta.NAME` for each column of the examples. A run with `log_samples=True` also has `texts`, a list of the
        example's texts, and `options` where a question has some: `row["options"][row["prediction"]]`.

        Raises:
            RecordError: the run has no such task or no predictions, or they have been changed.
            FigevalError: pandas is not installed.
        """
        from figeval.api import frames

        rows, task_types = self.rows(task), Harness().task_types
        kind = next(part.task_type for part in self.record.tasks if part.task == task)
        return frames.predictions(rows, has_options=kind in task_types and bool(task_types.get(kind).options))

    @checked_arguments
    def by(self, key: str) -> Run:
        """Return the run with scores per value of a column of the examples, computed from the stored answers.

        Raises:
            RecordError: no task has such a column.
            UnknownName: a metric of the run is not installed.
        """
        from figeval.runs.stored import with_breakdown

        return Run(with_breakdown(self.path, key, Harness().metrics), self.path)

    @checked_arguments
    def breakdown(self, by: str) -> pandas.DataFrame:
        """Return the scores per value of a column of the examples: per idiom, proverb or corpus.

        Columns: `run`, `model`, `task`, `by` (the column), `group` (the value), and those of `scores` from `metric` on.
        The most frequent value of a task comes first.

        Raises:
            RecordError: no task has such a column.
            FigevalError: pandas is not installed.
        """
        from figeval.api import frames

        return frames.breakdown(self.by(by).record)

    def progress(self) -> Iterator[str]:
        """Yield the progress of a run that is going on, was killed, or has a failed task; nothing if it is complete."""
        if self.complete:
            return
        folder = RunFolder(self.path)
        yield f"{self.record.status}, started {self.record.started}; the same command continues where it stopped"
        for task in self.record.tasks:
            if task.status != "done":
                answered = {row["id"] for row in folder.rows(task.task)}
                yield f"{task.task}: {len(answered)} of {task.n} examples answered"

    # ---- display ----------------------------------------------------------------------------------------------------

    @checked_arguments
    def export(self, form: str) -> str:
        """Return the scores in a format of `figeval export`: csv, json, latex, markdown, or one from a plugin.

        `figeval.export` writes the formats that are no texts.

        Raises:
            OptionError: `form` is not a string, or the name of a format that is no text.
            UnknownName: there is no such format.
        """
        from figeval import export  # of the exporters' wing

        return export(self, to=form) or ""

    def to_latex(self, **choices: Any) -> str:
        """Return the scores as a LaTeX table. Arguments are those of `figeval.export` for latex, e.g. `label`."""
        from figeval import export  # of the exporters' wing

        return export(self, to="latex", **choices) or ""

    def to_markdown(self) -> str:
        """Return the scores as a Markdown table."""
        return self.export("markdown")

    def print_summary(self, console: Console) -> None:
        """Print the tables as `figeval run` does: of many notes, one line for each kind, marked at the scores."""
        table.show_folded(self.record, console, self.path)

    @property
    def grids(self) -> list[Grid]:
        """Tables that `figeval show` prints."""
        return list(table.grids(self.record))

    def notes(self) -> list[str]:
        """Return the lines below the tables: what a reader must know of the numbers, and the progress."""
        return [*table.notes(self.record), *self.progress()]

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores, as `scores` describes them. Raises `FigevalError` if pandas is not installed."""
        return self.scores

    def to_dict(self) -> JSON:
        """Return the content of `run.json`."""
        return self.record.model_dump(mode="json")

    def __repr__(self) -> str:
        return f"<figeval.Run of {self.record.model.name!r} on {', '.join(self.tasks)}: {self.record.status}>"


Runs: TypeAlias = Run | str | Path | Sequence[Run | str | Path]


@contextmanager
def long_work(*, progress: bool) -> Iterator[Observer]:
    """Return the context in which a public function works with models; `progress` shows on stderr how far it is."""
    from figeval.io.observer import listening
    from figeval.reporting.progress import open_display

    with frontend.python_program(watched=progress):
        observer = open_display(progress=progress)
        with observer.live(), listening(observer):
            yield observer


# ---- arguments ------------------------------------------------------------------------------------------------------


def run_config(tasks: tuple[str, ...], model: str, options: RunOptions) -> RunConfig:
    """Return the options as a checked value; options that are not given have the command line's defaults.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value.
    """
    arguments = given_options("figeval.run", options, RunOptions.__annotations__)
    if isinstance(arguments.get("template"), Path):
        arguments["template"] = str(arguments["template"])
    names, files = read_task_files(tasks)
    folders = (*arguments.get("include_path", ()), *files)
    values = {"batch_size": "auto", **arguments, "tasks": names, "model": model, "include_path": folders}
    try:
        config: RunConfig = type_adapter(RunConfig).validate_python(values)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        message = reword_message(problem["msg"])
        raise OptionError(f"{name}={values[name]!r:.80}: {message[0].lower()}{message[1:]}") from error
    if config.limit is not None and config.sample is not None:
        raise OptionError("--limit takes the first examples, --sample random ones; give only one of them")
    if config.stratify and config.sample is None:
        raise OptionError("--stratify is for random samples; give --sample too, or leave it out")
    if config.ray and config.processes > 1:
        raise OptionError("--ray and --processes are two ways to share the examples; give only one of them")
    if not config.ray and (config.workers is not None or config.gpus_per_worker is not None):
        raise OptionError("--workers and --gpus_per_worker are for a cluster; give --ray too, or leave them out")
    return config


def given_options(function: str, options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options with single names and folders as tuples, and settings that are texts as mappings.

    Raises:
        TypeError: there is no such option.
        OptionError: settings have another form.
    """
    for name in options:
        if name in FORMER_FLAGS and "settings" in names:
            raise TypeError(
                f"{function}() takes {name} among the settings: settings={{{name!r}: {options[name]!r:.80}}}"
            )
        if name not in names:
            raise TypeError(f"{function}() has no option {name!r}{near(name, names)}")
    arguments = dict(options)
    for name in NAMES:
        if isinstance(value := arguments.get(name), str):
            arguments[name] = names_in(value)
    for name in SETTINGS & arguments.keys():
        arguments[name] = settings_in(name, arguments[name])
    if isinstance(folders := arguments.get("include_path"), str | Path | list | tuple):
        arguments["include_path"] = paths_in(folders)
    return arguments


def settings_in(name: str, settings: Any) -> Any:
    """Return the settings in `a=1,b=x` or in a JSON object; None is no setting, and all else is returned as it is.

    Raises:
        OptionError: the text has another form.
    """
    try:
        return parse_settings(settings or "") if isinstance(settings, str | None) else settings
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from error


def run_paths(runs: Runs) -> tuple[Path, ...]:
    """Return the folder of one run or several, which may be given as such. Raises `OptionError` for anything else."""
    return tuple(run.path if isinstance(run, Run) else Path(run) for run in several_runs(runs))


def several_runs(runs: Runs) -> list[Run | str | Path]:
    """Return one run or several, or their folders, as a list. Raises `OptionError` for anything else."""
    return as_list(runs, Run | str | Path, "runs", "runs, or their folders")


def task_names(tasks: Task | Sequence[Task]) -> tuple[tuple[str, ...], tuple[TaskSpec | SuiteSpec, ...]]:
    """Return the names of tasks and suites in order, and the objects among them, each once.

    Raises:
        OptionError: there are none, or something is neither a name nor a task.
    """
    names: list[str] = []
    objects: list[TaskSpec | SuiteSpec] = []
    if not isinstance(tasks, Iterable):
        raise OptionError(f"tasks is {a_type(tasks)}; give names, or tasks made with @figeval.task")
    for task in (tasks,) if isinstance(tasks, Task) else tasks:
        if isinstance(task, str):
            names += names_in(task)
        elif isinstance(task, Path):
            names.append(str(task))
        elif isinstance(task, TaskSpec | SuiteSpec):
            names.append(task.name)
            if not any(task is registered for registered in objects):
                objects.append(task)
        else:
            raise OptionError(f"tasks has {a_type(task)}; give names, or tasks made with @figeval.task")
    if not names:
        raise OptionError("tasks is empty; name at least one, see `figeval ls tasks`")
    return tuple(names), tuple(objects)


def model_name(model: object, name: str | None) -> tuple[str, dict[str, object]]:
    """Return the name of a model, and the model by its name if it is an object.

    Raises:
        OptionError: the model is a class or has no capability, or the name is invalid.
    """
    if isinstance(model, str | Path):
        if name is not None:
            raise OptionError(f"name={name!r:.80} is for models given as objects; leave it out for {str(model)!r:.80}")
        if isinstance(model, Path):
            from figeval.models.model import Backends

            return Backends(plugins.plugin_manager()).folder_name(model), {}
        return model, {}
    if isinstance(model, type):
        raise OptionError(f"model is the class {model.__name__}; pass an object of it: {model.__name__}(…)")
    if not capabilities(model):
        raise OptionError(
            f"model is {a_type(model)} without capabilities; give it a method such as {', '.join(KNOWN_CAPABILITIES)}"
        )
    object_name = type(model).__name__ if name is None else name
    if not isinstance(object_name, str) or not one_line(object_name):
        raise OptionError(f"name={object_name!r:.80}: the name of a model must be a non-empty string")
    return object_name, {object_name: model}


def refuse_to_share(config: RunConfig) -> None:
    """Raise `OptionError` if several processes would need tasks or models that only this process has."""
    if config.processes > 1 or config.ray:
        flag, value = ("ray", repr(config.ray)) if config.ray else ("processes", config.processes)
        raise OptionError(
            f"{flag}={value}: other processes cannot find tasks and models that are objects; leave out "
            f"{flag}, or register them in a plugin"
        )
