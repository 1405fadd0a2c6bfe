"""`figeval.run`, `train`, `load` and `compare`: what the commands of the same names do, without a terminal.

They print nothing unless asked to (`progress=True`), raise `figeval.FigevalError` where the command line ends with exit
code 2, and leave the environment, the working folder and the program's own objects as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figeval import frontend
from figeval.api.options import (
    RunOptions,
    Task,
    TrainOptions,
    model_name,
    refuse_to_share,
    run_config,
    task_names,
    train_config,
)
from figeval.api.results import Comparison, Run, Training
from figeval.errors import OptionError
from figeval.evaluation import run as pipeline
from figeval.evaluation.compare import compare_runs
from figeval.evaluation.harness import Guests, Harness
from figeval.evaluation.training.complete import Unheard, complete, evaluation_folder
from figeval.evaluation.training.published import told
from figeval.report import progress as run_progress
from figeval.report import training as training_progress
from figeval.report.grid import say
from figeval.training.config import TrainConfig

if TYPE_CHECKING:
    from typing import Unpack

PAIR = 2
ACCELERATOR = "DS_ACCELERATOR"


def run(
    tasks: Task | Sequence[Task],
    model: object,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Unpack[RunOptions],
) -> Run:
    """Run tasks with a model, or go on with a run that was cut short.

    The same arguments continue where the run stopped, as on the command line, whose runs can be continued as well.
    Everything is stored in a folder while it is computed; an interrupt loses nothing.

    Args:
        tasks: names of tasks and suites (`"epic_mcq"`, `"epic_mcq,impli"`, `["epic_mcq", "impli"]`), and tasks made
            with `@figeval.task`, which this run alone knows.
        model: a name from `figeval ls models`, a folder or a hub id; or any object with a capability, that is with a
            method such as `embed`, `score_pairs` or `generate`, and with `fingerprint()` or
            `deterministic_by_name = True`. It is not closed.
        name: what a model that is an object is called in records and tables; by default its class.
        progress: print how the run goes on, on stderr.
        options: the flags of `figeval run` under the same names, with `routes` for `--route` and `baselines=False` for
            `--no_baselines`. `output_path` is the folder; by default a new one in `results/runs`, or that of the same
            run before.

    Returns:
        The run. A task that failed is among its `warnings`, and the others are done.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has a value that makes no sense.
        FigevalError: an unknown name, a task that the model cannot answer, a folder with another run …

    Example:
        ```python
        done = figeval.run(["mini_proverbs", "mini_pairs"], "tfidf", limit=20)
        done.scores[["task", "metric", "value", "low", "high"]]
        ```
    """
    names, made = task_names(tasks)
    called, objects = model_name(model, name)
    config = run_config(names, called, options)
    guests = Guests(made, objects)
    refuse_to_share(config, guests)
    if objects and config.model_args:
        raise OptionError("model_args are for models given by name; give them to the object itself")
    with frontend.python_program(watched=progress):
        observer = run_progress.progress_on(_stderr()) if progress else Silent()
        with observer.live():
            record, folder = pipeline.run(config, Harness(include=config.include_path, guests=guests), observer)
        failed = [task.task for task in record.tasks if task.status == "failed"]
        if failed and not frontend.on_terminal():
            frontend.warn(f"{', '.join(failed)} failed; see the warnings of the run")
    return Run(record, folder)


def train(
    task: str,
    model: str | Path,
    output: str | Path,
    *,
    config: str | Path | None = None,
    progress: bool = False,
    **options: Unpack[TrainOptions],
) -> Training:
    """Fine-tune a model on a task, or go on with a training that was cut short, and run the trained model.

    Args:
        task: the name of a task with a train split.
        model: what to begin with: a folder, a hub id, `minilm` or `smollm2`.
        output: the folder of the trained model; the same arguments go on there.
        config: a YAML file with options; those given here win.
        progress: print how the training goes on, on stderr.
        options: the flags of `figeval train` under the same names.

    Returns:
        The training, with its scores on dev and the run of `evaluate` (by default of the task itself).

    Raises:
        TypeError: there is no such option.
        FigevalError: an unknown name, a value that makes no sense, a folder with another training …

    Example:
        ```python
        trained = figeval.train("epic_retrieval_seen", "minilm", "models/proverbs", epochs=3)
        trained.scores, trained.run.scores
        ```
    """
    asked = train_config(task, model, output, config, options)
    with frontend.python_program(watched=progress), kept_environment():
        return train_as(asked, observer_of_training(asked) if progress else Silent())


def observer_of_training(asked: TrainConfig) -> Any:
    """Return what shows on stderr how a training goes on; the row of a preset that it takes is said now."""
    console = _stderr()
    taken = told(asked)
    if taken is not None:
        say(console, taken)
    return training_progress.progress_on(console)


def train_as(asked: TrainConfig, observer: Any) -> Training:
    """Train and evaluate as a checked configuration says: what the command line does with its flags."""
    with observer.live():
        record = complete(asked, observer)
    tasks = (asked.task,) if asked.evaluate is None else asked.evaluate
    return Training(asked.output, None if record is None else Run(record, evaluation_folder(asked.output, tasks)))


def load(path: str | Path) -> Run:
    """Return the run in a folder (or in its `run.json`), finished or not; of a folder of several seeds their means.

    Raises:
        RecordError: there is no run, or its predictions were changed since.

    Example:
        ```python
        figeval.load("results/runs/demo").breakdown("idiom")
        ```
    """
    return Run.at(path)


def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    metric: str = "acc",
    seed: int = 0,
    prompts: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two runs example by example, on every task that both have.

    Args:
        a: run A, or its folder; differences are A minus B.
        b: run B, or its folder.
        metric: one that is a mean over examples.
        seed: of the sign-flip test.
        prompts: which prompt of each task in run A and which in run B, `default` is the task's own.

    Raises:
        OptionError: `prompts` are not two.
        RecordError: there is no run or no prediction, no task in common, other examples behind a name, no such metric.

    Example:
        ```python
        figeval.compare(done, "results/runs/demo", metric="acc").differences
        ```
    """
    if prompts is not None and (isinstance(prompts, str) or len(prompts) != PAIR):
        raise OptionError(f"prompts={prompts!r:.80}: give two prompts, that of run A and that of run B")
    places = [one.path if isinstance(one, Run) else Path(one) for one in (a, b)]
    wanted = None if prompts is None else (prompts[0], prompts[1])
    return Comparison(compare_runs(places[0], places[1], metric, seed, wanted))


@contextmanager
def kept_environment() -> Iterator[None]:
    """Take back what a training sets for DeepSpeed; what libraries set when they are imported is left to them."""
    before = os.environ.get(ACCELERATOR)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(ACCELERATOR, None)


class Silent(Unheard):
    """An observer of runs and trainings that nobody watches."""

    def live(self) -> AbstractContextManager[Any]:
        """Nothing to keep open."""
        return nullcontext()

    def began(self, total: int, done: int) -> None:
        """Nothing."""

    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None:
        """Nothing."""

    def evaluated(self, step: int, scores: Mapping[str, float | None], best: bool) -> None:
        """Nothing."""


def _stderr() -> Any:
    """A rich console on stderr."""
    from rich.console import Console

    return Console(stderr=True)
