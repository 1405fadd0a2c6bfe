"""The configuration of a run: the flags of `figeval run` as one value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from figeval.io.text import cleaned, whole_number
from figeval.io.validation import first_problem
from figeval.reasoning import Reasoning

ANSWERED = ("tasks", "model", "model_args", "limit", "num_fewshot", "seed", "routes", "threshold")
# Flags that were added later count only if they are given, so that the same command still finds earlier runs.
SINCE = (
    *("system_instruction", "apply_chat_template", "max_new_tokens", "shots", "orders", "prompts", "probes"),
    *("protocol", "split", "metrics", "temperature", "augment", "fewshot_sampler", "calibrate"),
    *("sample", "stratify", "reasoning", "constrain"),
)
# Options of models behind an API that change how an answer is obtained, but not the answer.
UNSEEN = ("max_concurrent", "timeout", "max_retries", "input_price", "output_price", "memo", "api_key_env")


def _in_orders(value: str) -> str:
    if not value or value in {"cyclic", "all"} or (whole_number(value) or 0) > 1:
        return value
    raise ValueError("cyclic, all, or a number of at least 2 as a string")


def _named_none(value: Any) -> Any:
    return "none" if value is None else value  # flags and YAML parse the word "none" as None


Addition: TypeAlias = Literal["concepts", "neighbours", "outline", "none"]


class Augmentation(BaseModel):
    """The text that is added to every example, and its source (`augment` of a task file, `--augment`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    add: Annotated[Addition, BeforeValidator(_named_none, json_schema_input_type=Addition | None)] = Field(
        description="`concepts`, the content words of the nearest answers; `neighbours`, the answers themselves; "
        "`outline`, the outlines of the nearest examples; or `none`, which switches off that of a task file."
    )
    retriever: str = Field("minilm", min_length=1, description="A model that embeds texts.")
    split: str = Field(
        "train", alias="from", min_length=1, description="Split in which the nearest examples are searched."
    )
    k: PositiveInt = Field(10, description="Number of examples that are used.")


def _with_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    add = value if value in get_args(Addition) else "concepts"
    raise ValueError(f'write {{"add": "{add}"}}')


def _augmented(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if not value:
        return {}
    try:
        return Augmentation.model_validate(dict(value)).model_dump(by_alias=True)
    except ValidationError as error:
        if "add" not in value:
            raise ValueError("it does not say what to add; write add=concepts, neighbours or outline") from error
        raise ValueError(first_problem(error, Augmentation)) from error


# Empty, or a mapping with all keys of `Augmentation`.
Augment = Annotated[
    Mapping[str, Any],
    BeforeValidator(_with_keys, json_schema_input_type=Augmentation),
    AfterValidator(_augmented),
]
Orders = Annotated[str, AfterValidator(_in_orders)]
Thinking = Annotated[
    str,
    BeforeValidator(
        lambda value: str(Reasoning.parse(value)) if value != "" else "", json_schema_input_type=str | bool
    ),
]
SHARE = re.compile(r"0?\.[0-9]{1,18}")


def _size(value: Any) -> int | float:
    """Return the number of examples, or a share of them between 0 and 1; flags of `figeval train` are texts."""
    number: Any = value
    if isinstance(value, str):
        number = whole_number(value) or (float(value) if SHARE.fullmatch(value) else None)
    if isinstance(number, Integral) and number is not True and number >= 1:  # type: ignore[operator]
        return int(number)
    if isinstance(number, Real) and 0 < float(number) < 1:
        return float(number)
    raise ValueError("a number of examples from 1, or a share between 0 and 1 such as 0.1")


Size = Annotated[int | float, BeforeValidator(_size)]  # a number of examples, or a share of them
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The flags of `figeval run`, named as in lm-eval if it has the same flag.

    The values are checked at their source: by the command line's parser, or by `figeval.run` with these types.
    """

    tasks: tuple[str, ...]
    model: str
    model_args: Mapping[str, Any] = field(default_factory=dict)
    limit: Size | None = None  # the first examples of each task
    sample: Size | None = None  # random examples of each task, instead of the first
    stratify: str = ""  # cluster, language or a column of the examples: each value has its share of the sample
    num_fewshot: NonNegativeInt = 0
    batch_size: PositiveInt | Literal["auto"] | None = None
    device: str | None = None
    processes: PositiveInt = 1  # number of processes that share the examples
    ray: str = ""  # auto or the address of a Ray cluster, whose workers share the examples
    workers: PositiveInt | None = None  # number of workers on the cluster; None: one per GPU, or per machine
    gpus_per_worker: Share | None = None  # None: 1 if the cluster has GPUs
    seed: int = 0
    routes: Mapping[str, str] = field(default_factory=dict)  # task type → route
    threshold: Finite | None = None  # replaces the threshold of pairs tasks
    system_instruction: str = ""
    apply_chat_template: bool | None = None  # None: the model's default
    max_new_tokens: PositiveInt | None = None  # of an answer in words; None: the route's default
    shots: Literal["per_example", "shared"] = (
        "per_example"  # "shared": one order of the solved examples for all questions
    )
    orders: Orders = ""  # orders of the options: cyclic, all, or their number
    calibrate: bool = False  # divide the probabilities of answers by those for content-free inputs
    reasoning: Thinking = ""  # on, off or budget=N: how long the model thinks before it answers
    constrain: bool = False  # hold the model to acceptable answers
    prompts: tuple[str, ...] = ()  # names of further prompts of the tasks, or "all"
    probes: bool = False  # also ask without the query, and with that of another example
    protocol: str = ""  # for the tasks that have a protocol of this name, e.g. published
    split: str = ""  # for the tasks that have a split of this name
    metrics: tuple[str, ...] = ()  # in addition to those of the tasks
    temperature: Positive = 1.0  # of the distributions that are compared (similarity)
    augment: Augment = field(default_factory=dict)  # replaces the setting of the tasks
    fewshot_sampler: Literal["random", "nearest"] = "random"  # choice of the solved examples of a question
    by: tuple[str, ...] = ()
    baselines: bool = True
    log_samples: bool = False
    output_path: Path | None = None
    include_path: tuple[Path, ...] = ()
    fresh: bool = False
    max_cost: Positive | None = None  # of a model behind an API, in the currency of its prices
    max_tokens: PositiveInt | None = None
    batch: bool = False  # ask through the batch API of such a model
    resubmit_lost: bool = False  # submit requests again whose batch has no results, although they may have been billed
    trackers: tuple[str, ...] = ()  # names of accelerate's trackers that receive the scores

    def identity(self) -> str:
        """Return a hash, in eight hex digits, of the flags that can change a prediction.

        It excludes flags that affect only speed (batch size, device, processes, workers), the number of answers
        (budgets) or the location of files.
        """
        values = {key: getattr(self, key) for key in ANSWERED}
        values["model_args"] = {key: value for key, value in self.model_args.items() if key not in UNSEEN}
        given = {key: getattr(self, key) for key in SINCE if getattr(self, key) != DEFAULTS[key]}
        texts = cleaned({**values, "log_samples": self.log_samples, **given})  # as the record has them
        text = json.dumps(texts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def thinking(self) -> Reasoning | None:
        """The parsed `reasoning`; None for the model's default."""
        return Reasoning.parse(self.reasoning) if self.reasoning else None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of routes that flags set, by name."""
        given = {"threshold": self.threshold, "temperature": self.temperature}
        return {name: value for name, value in given.items() if value != DEFAULTS[name]}

    def changed(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the flags that make a stored `record()` another run, with (value before, value now).

        Flags that the record does not have yet count as having their default there.
        """
        known = asdict(RunConfig(tasks=(), model="")) | dict(before)
        found = {}
        for name in (*ANSWERED, *SINCE, "log_samples"):
            stored = (json.dumps(one, default=dict) for one in (known[name], getattr(self, name)))
            old, new = (cleaned(json.loads(one)) for one in stored)
            if name == "model_args" and isinstance(old, dict):
                old, new = ({key: one[key] for key in one if key not in UNSEEN} for one in (old, new))
            if old != new:
                found[name] = old, new
        return found

    def record(self) -> dict[str, Any]:
        """Return the config as stored in `run.json`, without folders of this machine and flags of this session."""
        hidden = {"output_path", "include_path", "fresh", "resubmit_lost", "trackers"}
        hidden |= {"ray", "workers", "gpus_per_worker"}
        return {key: value for key, value in asdict(self).items() if key not in hidden}


DEFAULTS = {
    flag.name: flag.default if flag.default_factory is MISSING else flag.default_factory() for flag in fields(RunConfig)
}
