"""A task and a suite as values. The same models read YAML files and carry tasks written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from figeval.types import Example

FieldSource = str | int | float | list[Any] | dict[str, str]
ProtocolName = Literal["choice", "ranking", "pairs", "spans", "joint", "generation", "similarity"]
NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,99}")  # becomes part of file names, of which 255 bytes are allowed
RESERVED = ("all", "default", "no_query", "shuffled_query")  # what else stands behind the @ of a record, or means it

# What one row is made into, per protocol: (required fields, optional fields).
PROTOCOL_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "choice": (frozenset({"id", "query", "options", "gold"}), frozenset({"meta"})),
    "ranking": (frozenset({"id", "query", "candidates", "relevant"}), frozenset({"background", "near", "meta"})),
    "pairs": (frozenset({"id", "left", "right", "label"}), frozenset({"meta"})),
    "spans": (frozenset({"id", "text", "given", "known", "gold"}), frozenset({"reference", "weight", "meta"})),
    "joint": (frozenset({"id", "query", "candidates", "relevant", "parts"}), frozenset({"background", "near", "meta"})),
    "generation": (frozenset({"id", "inputs", "references"}), frozenset({"meta"})),
    "similarity": (frozenset({"id", "text", "motif"}), frozenset({"anchors", "meta"})),
}


def _words(value: Any) -> Any:
    words = value if isinstance(value, list | tuple) else (value,)
    for word in words:
        if not isinstance(word, str):
            raise ValueError(
                f"{word!r} is not a string: YAML reads Yes, No and numbers as values, so put them in quotes"
            )
    return words


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]

# Fields that a prompt may show in other words than those that other models read.
PROMPT_FIELDS = frozenset(
    {"query", "options", "candidates", "background", "left", "right", "text", "given", "known", "parts", "inputs"}
    | {"anchors"}
)


class Wording(BaseModel):
    """One of a task's further prompts. A plain string in a task file is its template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str | None = None  # the task's own unless given
    prompt_fields: bool = True  # False: show the same texts that models without prompts read

    @model_validator(mode="before")
    @classmethod
    def _template_alone(cls, value: Any) -> Any:
        return {"template": value} if isinstance(value, str) else value


class Named(BaseModel):
    """What tasks and suites share. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str
    description: str = ""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("a name is at most 100 lower-case letters, digits and underscores")
        return name


class TaskSpec(Named):
    """One task: data, how a row becomes an example, how it is asked and how it is scored."""

    protocol: ProtocolName
    version: int = 1
    language: str = "en"
    data: Mapping[str, str] = Field(default_factory=dict)  # split → "scheme:path"; `test` is what is scored
    fields: Mapping[str, FieldSource] = Field(default_factory=dict)
    prompt_fields: Mapping[str, FieldSource] = Field(default_factory=dict)  # what prompts show in a field's place
    template: str | None = None
    prompts: Mapping[str, Wording] = Field(default_factory=dict)  # name → another way to ask, for --prompts
    labels: Words = ()  # pairs: in order; the first is the positive one
    only_label: str | None = None  # pairs: the gold label of all test examples, where that is meant
    verbalizer: Mapping[str, Words] = Field(default_factory=dict)  # label → words that express it
    threshold: FiniteFloat = 0.5  # pairs by similarity: at or above is the first label
    route: str | None = None  # where the task itself is to be put in one way; --route may still choose another
    protocols: Mapping[str, str] = Field(default_factory=dict)  # --protocol NAME → the task to run in this one's place
    splits: Mapping[str, str] = Field(default_factory=dict)  # --split NAME → the same
    max_new_tokens: PositiveInt | None = None  # of an answer in words
    metrics: tuple[str, ...] = ("acc",)
    cluster: str | None = None  # meta key: examples that share it are not independent; null is a cluster of its own
    group: str | None = None  # Jinja expression: minimal pairs
    baselines: tuple[str, ...] = ("chance",)
    built_with: tuple[str, ...] = ()  # models that picked the wrong options: they are punished, and warned about
    citation: str = ""

    # Filled in by whoever loads the task, never written in YAML.
    folder: Traversable | None = Field(default=None, exclude=True, repr=False)
    examples: Callable[[], Iterator[Example]] | None = Field(default=None, exclude=True, repr=False)
    owner: str = Field(default="", exclude=True)
    origin: str = Field(default="", exclude=True)  # file name, for messages

    @model_validator(mode="before")
    @classmethod
    def _without_chance(cls, values: Any) -> Any:
        """Nobody writes a text by chance: the floor is what was given."""
        written = isinstance(values, dict) and values.get("protocol") == "generation"
        return {"baselines": ("echo",), **values} if written else values

    @model_validator(mode="after")
    def _consistent(self) -> TaskSpec:
        if self.examples is None:
            self._check_fields()
        if self.protocol == "pairs" and len(self.labels) < 2:
            raise ValueError("a pairs task lists its labels, e.g. labels: [entailment, non-entailment]")
        if self.only_label is not None and self.only_label not in self.labels:
            raise ValueError(f"only_label {self.only_label!r} is not among labels {self.labels}")
        strange = set(self.verbalizer) - set(self.labels)
        if strange:
            raise ValueError(f"verbalizer has words for {sorted(strange)}, which are not among labels {self.labels}")
        return self

    @field_validator("labels")
    @classmethod
    def _different_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ValueError(f"{twice[0]!r} is listed twice; every label needs a name of its own")
        return labels

    @field_validator("prompts")
    @classmethod
    def _named_prompts(cls, prompts: Mapping[str, Wording]) -> Mapping[str, Wording]:
        for name in prompts:
            if not NAME.fullmatch(name) or name in RESERVED:
                raise ValueError(f"{name!r} cannot name a prompt: a name is letters, digits, _ and not {RESERVED}")
        return prompts

    def _check_fields(self) -> None:
        required, optional = PROTOCOL_FIELDS[self.protocol]
        given = set(self.fields)
        if "test" not in self.data:
            raise ValueError('data has no test split; write data: {test: "jsonl:FILE"}')
        if missing := required - given:
            raise ValueError(f"a {self.protocol} task needs the fields {', '.join(sorted(missing))}")
        if unknown := given - required - optional:
            raise ValueError(f"a {self.protocol} task has no fields {sorted(unknown)}")
        if unknown := set(self.prompt_fields) - (PROMPT_FIELDS & given):
            raise ValueError(f"prompt_fields: {sorted(unknown)} are not among the texts of fields {sorted(given)}")

    def worded(self, name: str) -> TaskSpec:
        """Return the task as its further prompt `name` asks it."""
        wording = self.prompts[name]
        changes: dict[str, Any] = {"template": wording.template or self.template}
        return self.model_copy(update=changes if wording.prompt_fields else {**changes, "prompt_fields": {}})

    def split(self, *names: str) -> str | None:
        """The first of these splits that the task has."""
        return next((name for name in names if name in self.data), None)


class SuiteSpec(Named):
    """A name for several tasks (or suites). It prints one row per task, and at most a macro mean beside them.

    `macro_mean: false` leaves the mean out where it would mean nothing, as over tasks with opposite gold labels.
    """

    tasks: tuple[str, ...]
    macro_mean: bool = True
    owner: str = Field(default="", exclude=True)
    origin: str = Field(default="", exclude=True)
