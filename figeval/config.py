"""The configuration of a run: the flags of `figeval run` as one value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
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

from figeval.text import whole_number
from figeval.validation import first_problem

ANSWERED = ("tasks", "model", "model_args", "limit", "num_fewshot", "seed", "routes", "threshold")
# Flags that came later count only where they are given, so that earlier runs are still found by the same command.
SINCE = (
    *("system_instruction", "apply_chat_template", "max_new_tokens", "shots", "orders", "prompts", "probes"),
    *("protocol", "split", "metrics", "temperature", "augment", "fewshot_sampler", "calibrate"),
)
# Options of models behind an API that change how an answer is got, not which.
UNSEEN = ("max_concurrent", "timeout", "max_retries", "input_price", "output_price", "memo", "api_key_env")


def _in_orders(value: str) -> str:
    if not value or value in {"cyclic", "all"} or (whole_number(value) or 0) > 1:
        return value
    raise ValueError("cyclic, all, or a number from 2 as a text")


def _named_none(value: Any) -> Any:
    return "none" if value is None else value  # flags and YAML read the word as no value


Addition: TypeAlias = Literal["concepts", "neighbours", "outline", "none"]


class Augmentation(BaseModel):
    """Setting of what is added to every example (`augment` of a task file, `--augment`), and where that is sought.

    Attributes:
        add: `concepts`, the content words of the nearest answers; `neighbours`, the answers themselves; `outline`, the
            outlines of the nearest examples; or `none`, which leaves out the augmentation of a task file.
        retriever: a model that embeds texts.
        split: where the nearest examples are sought; `from` in files and flags.
        k: how many are taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    add: Annotated[Addition, BeforeValidator(_named_none)]
    retriever: str = Field("minilm", min_length=1)
    split: str = Field("train", alias="from", min_length=1)
    k: PositiveInt = 10


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


# Empty, or with all keys of `Augmentation`.
Augment = Annotated[Mapping[str, Any], BeforeValidator(_with_keys), AfterValidator(_augmented)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Orders = Annotated[str, AfterValidator(_in_orders)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The flags of `figeval run`. The names are lm-eval's where lm-eval has the flag.

    It is checked where it comes from: by the command line's parser, or with these types by `figeval.run`.
    """

    tasks: tuple[str, ...]
    model: str
    model_args: Mapping[str, Any] = field(default_factory=dict)
    limit: PositiveInt | None = None
    num_fewshot: NonNegativeInt = 0
    batch_size: PositiveInt | Literal["auto"] | None = None
    device: str | None = None
    processes: PositiveInt = 1  # that answer the examples together
    seed: int = 0
    routes: Mapping[str, str] = field(default_factory=dict)  # task type → route
    threshold: Finite | None = None  # replaces that of the pairs tasks
    system_instruction: str = ""
    apply_chat_template: bool | None = None  # None: as the model itself would have it
    max_new_tokens: PositiveInt | None = None  # of an answer in words; None: enough for the route
    shots: Literal["per_example", "shared"] = (
        "per_example"  # or "shared": one order of the solved examples for all questions
    )
    orders: Orders = ""  # of the options: cyclic, all, or how many
    calibrate: bool = False  # divide the probabilities of answers by those for content-free inputs
    prompts: tuple[str, ...] = ()  # names of further prompts of the tasks, or "all"
    probes: bool = False  # also ask without the query, and with somebody else's
    protocol: str = ""  # of the tasks that have one of this name: as published, say
    split: str = ""  # of the tasks that have one of this name
    metrics: tuple[str, ...] = ()  # beside those of the tasks
    temperature: Positive = 1.0  # of the distributions that are compared (similarity)
    augment: Augment = field(default_factory=dict)  # replaces that of the tasks
    fewshot_sampler: Literal["random", "nearest"] = "random"  # which solved examples a question gets
    by: tuple[str, ...] = ()
    baselines: bool = True
    log_samples: bool = False
    output_path: Path | None = None
    include_path: tuple[Path, ...] = ()
    fresh: bool = False
    max_cost: Positive | None = None  # of a model behind an API, in the currency of its prices
    max_tokens: PositiveInt | None = None

    def identity(self) -> str:
        """Eight hex digits over all that can change a prediction, and nothing that cannot.

        Batch size, device and processes change how fast an answer comes, budgets how many; folders where it goes.
        """
        values = {key: getattr(self, key) for key in ANSWERED}
        values["model_args"] = {key: value for key, value in self.model_args.items() if key not in UNSEEN}
        given = {key: getattr(self, key) for key in SINCE if getattr(self, key) != DEFAULTS[key]}
        text = json.dumps({**values, "log_samples": self.log_samples, **given}, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of routes that flags give, by name."""
        given = {"threshold": self.threshold, "temperature": self.temperature}
        return {name: value for name, value in given.items() if value != DEFAULTS[name]}

    def changed(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Flag → (value before, value now) where a stored `record()` makes it another run; flags that came later have
        their default there.
        """
        known = asdict(RunConfig(tasks=(), model="")) | dict(before)
        found = {}
        for name in (*ANSWERED, *SINCE, "log_samples"):
            old, new = (json.loads(json.dumps(one, default=dict)) for one in (known[name], getattr(self, name)))
            if name == "model_args" and isinstance(old, dict):
                old, new = ({key: one[key] for key in one if key not in UNSEEN} for one in (old, new))
            if old != new:
                found[name] = old, new
        return found

    def record(self) -> dict[str, Any]:
        """As stored in `run.json`, without folders of this machine."""
        hidden = {"output_path", "include_path", "fresh"}
        return {key: value for key, value in asdict(self).items() if key not in hidden}


DEFAULTS = {
    flag.name: flag.default if flag.default_factory is MISSING else flag.default_factory() for flag in fields(RunConfig)
}
