"""The keyword arguments of `figeval.run` and `figeval.train`: the flags of the command line, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic import TypeAdapter, ValidationError

from figeval.config import RunConfig
from figeval.errors import OptionError, near
from figeval.evaluation.harness import Guests
from figeval.evaluation.training.configure import configured
from figeval.models.capabilities import KNOWN, capabilities
from figeval.registry import a_type
from figeval.spec import SuiteSpec, TaskSpec
from figeval.training.config import TrainConfig

Names: TypeAlias = str | Sequence[str]
Folders: TypeAlias = str | Path | Sequence[str | Path]
Task: TypeAlias = str | TaskSpec | SuiteSpec
NAMES = ("by", "prompts", "metrics", "evaluate", "lora_targets", "trackers")  # `a,b` means the same as ("a", "b")


class RunOptions(TypedDict, total=False):
    """The flags of `figeval run` beside tasks and model; `figeval run --help` describes each."""

    model_args: Mapping[str, Any]
    limit: int | None
    num_fewshot: int
    batch_size: int | Literal["auto"]
    device: str | None
    processes: int
    seed: int
    routes: Mapping[str, str]
    threshold: float | None
    system_instruction: str
    apply_chat_template: bool | None
    max_new_tokens: int | None
    shots: Literal["per_example", "shared"]
    orders: str
    prompts: Names
    probes: bool
    protocol: str
    split: str
    metrics: Names
    temperature: float
    by: Names
    baselines: bool
    log_samples: bool
    output_path: str | Path | None
    include_path: Folders
    fresh: bool
    max_cost: float | None
    max_tokens: int | None


class TrainOptions(TypedDict, total=False):
    """The flags of `figeval train` beside task, model and output; `figeval train --help` describes each."""

    head: str | None
    head_args: Mapping[str, Any]
    preset: str | None
    seed: int
    include_path: Folders
    holdout: float
    holdout_by: Literal["auto", "cluster", "within", "row"]
    limit: int | None
    max_length: int | None
    shuffle: Literal["epochs", "once"]
    epochs: int
    max_steps: int | None
    batch_size: int
    lr: float | None
    optimizer: Literal["adamw", "adafactor"]
    betas: tuple[float, float]
    eps: float
    bias_correction: bool
    weight_decay: float
    schedule: Literal["linear", "cosine", "constant"]
    warmup: float
    clip: float | None
    dropout: float | None
    select_on: Literal["dev", "test", "none"]
    select_by: str | None
    evaluate_every: float
    patience: int | None
    evaluate: Names | None
    device: str | None
    mixed_precision: Literal["no", "bf16", "fp16"]
    compile: bool
    gradient_checkpointing: bool
    tokens_per_batch: int | None
    lora: int | None
    lora_alpha: float | None
    lora_targets: Names
    allow_pickle: bool
    processes: int
    deepspeed: str | None
    fsdp: bool
    nodes: int
    node_rank: int
    master: str | None
    checkpoint_every: int | None
    trackers: Names


def run_config(tasks: tuple[str, ...], model: str, options: RunOptions) -> RunConfig:
    """Return the options as a checked value; what is not given is as on the command line.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has a value that makes no sense.
    """
    given = _given("figeval.run", options, RunOptions.__annotations__)
    values = {"batch_size": "auto", **given, "tasks": tasks, "model": model}
    try:
        return TypeAdapter(RunConfig).validate_python(values)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        message = problem["msg"].removeprefix("Value error, ")
        raise OptionError(f"{name}={values[name]!r:.80}: {message[0].lower()}{message[1:]}") from error


def train_config(
    task: str, model: str | Path, output: str | Path, config: str | Path | None, options: TrainOptions
) -> TrainConfig:
    """Return preset, configuration file and options as a checked value; what comes later wins.

    Raises:
        TypeError: there is no such option.
        OptionError: the task or the model is an object, which only `figeval.run` takes.
        TrainError: an option has a value that makes no sense.
    """
    for what, value in (("task", task), ("model", model)):
        if not isinstance(value, str | Path):
            raise OptionError(f"{what} is {a_type(value)}; figeval.train takes the name of a {what}")
    given = _given("figeval.train", options, TrainOptions.__annotations__)
    file = None if config is None else Path(config)
    return configured(file, {**given, "task": task, "model": str(model), "output": Path(output)})


def _given(function: str, options: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The options with lone names and folders as tuples. Raises `TypeError` for one that there is not."""
    for name in options:
        if name not in known:
            raise TypeError(f"{function}() has no option {name!r}{near(name, known)}")
    found = dict(options)
    for name in NAMES:
        if isinstance(value := found.get(name), str):
            found[name] = names_in(value)
    if isinstance(folder := found.get("include_path"), str | Path):
        found["include_path"] = (folder,)
    return found


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in `a,b c`."""
    return tuple(text.replace(",", " ").split())


def task_names(tasks: Task | Sequence[Task]) -> tuple[tuple[str, ...], tuple[TaskSpec | SuiteSpec, ...]]:
    """Return the names of tasks and suites in order, and those that are given as objects, each once.

    Raises:
        OptionError: there is none, or something is neither a name nor a task.
    """
    names: list[str] = []
    objects: list[TaskSpec | SuiteSpec] = []
    for one in (tasks,) if isinstance(tasks, Task) else tasks:
        if isinstance(one, str):
            names += names_in(one)
        elif isinstance(one, TaskSpec | SuiteSpec):
            names.append(one.name)
            if not any(one is known for known in objects):
                objects.append(one)
        else:
            raise OptionError(f"tasks has {a_type(one)}; give names, or tasks made with @figeval.task")
    if not names:
        raise OptionError("tasks names no task; see `figeval ls tasks`")
    return tuple(names), tuple(objects)


def model_name(model: object, name: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of a model, and the model under it if it is an object.

    Raises:
        OptionError: it is a class, or has no capability; or the name is none.
    """
    if isinstance(model, str | Path):
        if name is not None:
            raise OptionError(f"name={name!r:.80} is for models given as objects; leave it out for {str(model)!r:.80}")
        return str(model), {}
    if isinstance(model, type):
        raise OptionError(f"model is the class {model.__name__}; make an object of it: {model.__name__}(…)")
    if not capabilities(model):
        raise OptionError(f"model is {a_type(model)} without a capability; give it a method such as {', '.join(KNOWN)}")
    found = type(model).__name__ if name is None else name
    if not isinstance(found, str) or not found.strip():
        raise OptionError(f"name={found!r:.80}: the name of a model is a text that is not empty")
    return found, {found: model}


def refuse_to_share(config: RunConfig, guests: Guests) -> None:
    """Raise `OptionError` where several processes would need tasks or a model that only this one has."""
    if config.processes > 1 and (guests.tasks or guests.models):
        raise OptionError(
            f"processes={config.processes}: other processes cannot find tasks and models that are objects; leave out "
            "processes, or register them in a plugin"
        )
