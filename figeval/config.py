"""The configuration of a run: the flags of `figeval run` as one value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_type_hints

from figeval.io.flag_types import Augment as Augment  # of `figeval train`, too
from figeval.io.flag_types import (
    BatchSize,
    NonNegativeInt,
    Orders,
    Positive,
    PositiveInt,
    Share,
    TaskSettings,
    TemplateName,
    Thinking,
    template_parts,
)
from figeval.io.flag_types import Flag as Flag
from figeval.io.flag_types import Size as Size
from figeval.io.text import clean_json
from figeval.reasoning import Reasoning

# Options of models behind an API that change how an answer is obtained, but not the answer.
IGNORED_MODEL_ARGS = ("max_concurrent", "timeout", "max_retries", "input_price", "output_price", "memo", "api_key_env")


FORMER_FLAGS = {"threshold": None, "temperature": 1.0}  # settings that were flags up to 0.2, with their defaults

Names: TypeAlias = str | Sequence[str]
Folders: TypeAlias = str | Path | Sequence[str | Path]
Settings: TypeAlias = str | Mapping[str, Any]  # `a=1,b=x`, a JSON object as text, or a mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The flags of `figeval run`, named as in lm-eval if it has the same flag.

    This is their only declaration: the options of the command line, the arguments of `figeval.run` and the record are
    made from it. The values are checked at their source, by the command line's parser or by these types.
    """

    tasks: Annotated[
        tuple[str, ...],
        Flag("Tasks and suites, separated by commas.", "--tasks -t", identity="always", is_common=True),
    ]
    model: Annotated[
        str,
        Flag(
            "Model: a name from `figeval ls models`, a folder or a hub id.",
            "--model -m -M",
            identity="always",
            heading="Models",
            is_common=True,
        ),
    ]
    model_args: Annotated[
        Mapping[str, Any],
        Flag(
            "Options of the model, as key=value,… or a JSON object.",
            "--model_args -a",
            identity="always",
            heading="Models",
            is_common=True,
        ),
    ] = field(default_factory=dict)
    limit: Annotated[
        Size | None,
        Flag(
            "Use only the first N examples of each task, or a share of them, e.g. 0.1.",
            "--limit -L",
            "N|SHARE",
            identity="always",
            is_common=True,
        ),
    ] = None
    sample: Annotated[
        Size | None,
        Flag("Use N random examples of each task, or a share of them.", metavar="N|SHARE", identity="if given"),
    ] = None
    stratify: Annotated[
        str,
        Flag(
            "Sample the same share of every cluster (proverb, idiom …), or of every value of a column.",
            metavar="cluster|COLUMN",
            identity="if given",
        ),
    ] = ""
    num_fewshot: Annotated[
        NonNegativeInt,
        Flag(
            "Number of solved examples in each prompt.",
            "--num_fewshot -f",
            identity="always",
            heading="Prompts",
            is_common=True,
        ),
    ] = 0
    batch_size: Annotated[
        BatchSize | None,
        Flag(
            "Batch size; auto: as large as memory allows.",
            "--batch_size -b",
            default="auto",
            heading="Speed and machines",
            is_common=True,
        ),
    ] = None
    device: Annotated[
        str | None,
        Flag(
            "cpu, cuda, cuda:1 or mps; the fastest available by default.", heading="Speed and machines", is_common=True
        ),
    ] = None
    processes: Annotated[
        PositiveInt,
        Flag(
            "Number of processes that share the examples; each loads the model, on its own GPU if there are several.",
            heading="Speed and machines",
        ),
    ] = 1
    ray: Annotated[
        str,
        Flag(
            "Share the examples among workers on a Ray cluster; auto: that of this machine.",
            metavar="auto|HOST:PORT",
            stored=False,
            heading="Speed and machines",
        ),
    ] = ""
    workers: Annotated[
        PositiveInt | None,
        Flag(
            "Number of workers on the cluster; one per GPU or machine by default.",
            stored=False,
            heading="Speed and machines",
        ),
    ] = None
    gpus_per_worker: Annotated[
        Share | None,
        Flag("GPUs of each worker; 1 if the cluster has GPUs.", stored=False, heading="Speed and machines"),
    ] = None
    seed: Annotated[int, Flag("Random seed.", identity="always")] = 0
    routes: Annotated[
        Mapping[str, str],
        Flag(
            "Route for a task type, e.g. choice=by_letter.",
            "--route",
            "TYPE=ROUTE,…",
            identity="always",
            heading="Models",
        ),
    ] = field(default_factory=dict)
    settings: Annotated[
        TaskSettings,
        Flag(
            "Settings of tasks, as `figeval show TASK` lists them: of one task or suite, or of all tasks that have it.",
            "--set",
            "[TASK.]SETTING=VALUE,…",
            identity="if given",
        ),
    ] = field(default_factory=dict)
    system_instruction: Annotated[
        str, Flag("System message.", metavar="TEXT", identity="if given", heading="Prompts")
    ] = ""
    system_as_user: Annotated[
        bool,
        Flag(
            "Put the system message into the first turn of the user, for chat templates without a system role.",
            identity="if given",
            heading="Prompts",
        ),
    ] = False
    apply_chat_template: Annotated[
        bool | None,
        Flag(
            "Format prompts with the model's chat template, or as plain text.",
            "--apply_chat_template/--no_chat_template",
            identity="if given",
            heading="Prompts",
        ),
    ] = None
    max_new_tokens: Annotated[
        PositiveInt | None,
        Flag("Maximum length of a written answer, in tokens.", identity="if given", heading="Models"),
    ] = None
    shots: Annotated[
        Literal["per_example", "shared"],
        Flag(
            "Different solved examples for each question, or the same for all (faster).",
            identity="if given",
            heading="Prompts",
        ),
    ] = "per_example"
    orders: Annotated[
        Orders,
        Flag(
            "Ask with the options in several orders (by_letter).",
            metavar="cyclic|all|N",
            identity="if given",
            heading="Models",
        ),
    ] = ""
    calibrate: Annotated[
        bool,
        Flag(
            "Contextual calibration: divide the probabilities of label words and letters by those for content-free "
            "inputs.",
            identity="if given",
            heading="Models",
        ),
    ] = False
    samples: Annotated[
        PositiveInt,
        Flag(
            "Ask for N samples of each answer in words, from a model that samples.",
            identity="if given",
            heading="Models",
        ),
    ] = 1
    reasoning: Annotated[
        Thinking,
        Flag(
            "Let a reasoning model think before it answers, or not; budget=N: with N more tokens for it.",
            metavar="on|off|budget=N",
            identity="if given",
            heading="Models",
        ),
    ] = ""
    constrain: Annotated[
        bool,
        Flag(
            "Constrained decoding (structured outputs): a letter or label of the question, or JSON for quotations.",
            identity="if given",
            heading="Models",
        ),
    ] = False
    prompts: Annotated[
        tuple[str, ...],
        Flag(
            "Also use other prompts of the task: all, or names separated by commas.",
            identity="if given",
            heading="Prompts",
        ),
    ] = ()
    template: Annotated[
        TemplateName,
        Flag(
            "Template of the prompts, instead of the task's own: a name from `figeval ls templates`, or your own file.",
            metavar="NAME|FILE",
            identity="if given",
            heading="Prompts",
            is_common=True,
        ),
    ] = ""
    probes: Annotated[
        bool,
        Flag("Also ask without the query, and with the query of another example.", identity="if given"),
    ] = False
    protocol: Annotated[
        str,
        Flag("Use another protocol of tasks that have it, e.g. published.", identity="if given"),
    ] = ""
    split: Annotated[
        str,
        Flag("Use another split of tasks that have it, as `figeval ls tasks` lists them.", identity="if given"),
    ] = ""
    metrics: Annotated[
        tuple[str, ...],
        Flag("Additional metrics for the tasks that they apply to: a,b=MODEL.", identity="if given"),
    ] = ()
    augment: Annotated[
        Augment,
        Flag(
            "Add content of the nearest training examples to every example; also takes retriever=, from=, k= and "
            "options of the retriever, such as pooling=mean.",
            metavar="add=concepts|neighbours|outline|none,…",
            identity="if given",
            heading="Prompts",
        ),
    ] = field(default_factory=dict)
    fewshot_sampler: Annotated[
        Literal["random", "nearest"],
        Flag(
            "Choose solved examples at random, or those nearest to the question.",
            identity="if given",
            heading="Prompts",
        ),
    ] = "random"
    fewshot_from: Annotated[
        str,
        Flag(
            "Take solved examples from the train split of another task, e.g. for tasks without one.",
            metavar="TASK",
            identity="if given",
            heading="Prompts",
        ),
    ] = ""
    by: Annotated[
        tuple[str, ...], Flag("Also print scores for each value of a key: idiom, proverb, corpus …", heading="Output")
    ] = ()
    baselines: Annotated[bool, Flag("Leave out the trivial baselines.", "!--no_baselines")] = True
    log_samples: Annotated[
        bool,
        Flag(
            "Store texts and all scores with the predictions.",
            "--log_samples -s",
            identity="always",
            heading="Output",
            is_common=True,
        ),
    ] = False
    output_path: Annotated[
        Path | None,
        Flag(
            "Folder for the run; by default a new one in results/runs.",
            "--output_path -o",
            stored=False,
            heading="Output",
            is_common=True,
        ),
    ] = None
    include_path: Annotated[tuple[Path, ...], Flag("Folder with additional task files.", stored=False)] = ()
    fresh: Annotated[
        bool,
        Flag(
            "Start over; an earlier run in --output_path is moved to its subfolder earlier/.",
            stored=False,
            heading="Output",
        ),
    ] = False
    max_cost: Annotated[
        Positive | None,
        Flag(
            "Stop before an API model costs more than this, in US dollars or the currency of your own prices.",
            heading="Models",
        ),
    ] = None
    max_tokens: Annotated[
        PositiveInt | None, Flag("Stop before an API model uses more than this number of tokens.", heading="Models")
    ] = None
    batch: Annotated[
        bool,
        Flag(
            "Ask an API model through its batch API, at half the price; the same command collects the answers later.",
            heading="Models",
        ),
    ] = False
    resubmit_lost: Annotated[
        bool,
        Flag(
            "With --batch: submit requests again whose batch is unknown to the server or has no results for them. "
            "They may have been billed, and count against the budget.",
            stored=False,
            heading="Models",
        ),
    ] = False
    trackers: Annotated[
        tuple[str, ...],
        Flag("Also send scores to trackers: mlflow, wandb, tensorboard …", stored=False, heading="Output"),
    ] = ()

    def identity(self) -> str:
        """Return a hash, in eight hex digits, of the flags that can change a prediction.

        It excludes flags that affect only speed (batch size, device, processes, workers), the number of answers
        (budgets) or the location of files.
        """
        values = {
            name: getattr(self, name)
            for name, flag in FLAGS.items()
            if flag.identity == "always" or (flag.identity == "if given" and getattr(self, name) != DEFAULTS[name])
        }
        values |= _as_flags(values.pop("settings", {}))
        if "template" in values:
            values["template"] = self.template_name
        values["model_args"] = {key: value for key, value in self.model_args.items() if key not in IGNORED_MODEL_ARGS}
        texts = clean_json(values)  # as the record has them
        text = json.dumps(texts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def template_name(self) -> str:
        """The template as records have it: its name, or that of its file with the digest of its text."""
        return template_parts(self.template)[1]

    @property
    def thinking(self) -> Reasoning | None:
        """The parsed `reasoning`; None for the model's default."""
        return Reasoning.parse(self.reasoning) if self.reasoning else None

    def changed(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the flags that make a stored `record()` another run, with (value before, value now).

        Flags that the record does not have yet count as having their default there.
        """
        stored_config, config = complete(before), self.record()
        changes = {}
        for name in IDENTITY:
            stored = (json.dumps(part, default=dict) for part in (stored_config[name], config[name]))
            old, new = (clean_json(json.loads(part)) for part in stored)
            if name == "model_args" and isinstance(old, dict):
                old, new = ({key: part[key] for key in part if key not in IGNORED_MODEL_ARGS} for part in (old, new))
            if old != new:
                changes[name] = old, new
        return changes

    def record(self) -> dict[str, Any]:
        """Return the config as stored in `run.json`, without folders of this machine and flags of this session."""
        config = {**asdict(self), "template": self.template_name}
        return {name: value for name, value in config.items() if FLAGS[name].stored}


DEFAULTS = {
    flag.name: flag.default if flag.default_factory is MISSING else flag.default_factory() for flag in fields(RunConfig)
}
TYPES = get_type_hints(RunConfig, include_extras=True)
FLAGS: dict[str, Flag] = {name: kind.__metadata__[-1] for name, kind in TYPES.items()}
IDENTITY = [name for name, flag in FLAGS.items() if flag.identity != "never"]  # flags that can make another run


def _as_flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of tasks for the identity, two of them as the flags that they were up to 0.2."""
    values = {key: part if isinstance(part, bool | str) else float(part) for key, part in settings.items()}
    former = {name: values.pop(name) for name, default in FORMER_FLAGS.items() if values.get(name, default) != default}
    return {"threshold": None, **former, **({"settings": values} if values else {})}


def complete(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a record with all flags of today; those that it lacks have their default."""
    former = {name: stored[name] for name, default in FORMER_FLAGS.items() if stored.get(name, default) != default}
    config = asdict(RunConfig(tasks=(), model=""))
    config |= {name: value for name, value in stored.items() if name in config}
    config["settings"] = {**former, **config["settings"]}
    return config


class ScoreOptions(TypedDict, total=False):
    """The fields of `RunConfig` that `figeval score` also takes, for type checkers."""

    limit: int | float | None
    sample: int | float | None
    stratify: str
    seed: int
    protocol: str
    split: str
    metrics: Names
    settings: Settings
    by: Names
    baselines: bool
    log_samples: bool
    output_path: str | Path | None
    include_path: Folders
    fresh: bool


class RunOptions(ScoreOptions, total=False):
    """The fields of `RunConfig` except tasks and model as keyword arguments, for type checkers."""

    model_args: Settings
    num_fewshot: int
    batch_size: int | Literal["auto"]
    device: str | None
    processes: int
    ray: str
    workers: int | None
    gpus_per_worker: float | None
    routes: Mapping[str, str]
    system_instruction: str
    system_as_user: bool
    apply_chat_template: bool | None
    max_new_tokens: int | None
    shots: Literal["per_example", "shared"]
    fewshot_sampler: Literal["random", "nearest"]
    fewshot_from: str
    augment: Settings
    orders: str
    calibrate: bool
    samples: int
    reasoning: str | bool
    constrain: bool
    prompts: Names
    template: str | Path
    probes: bool
    max_cost: float | None
    max_tokens: int | None
    batch: bool
    resubmit_lost: bool
    trackers: Names
