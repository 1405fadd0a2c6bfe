"""Models of tasks and suites, used both for YAML files and for tasks written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from typing import Annotated, Any, TypeVar

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

from figeval.citations import Citation
from figeval.errors import TaskError, UnknownName
from figeval.io.flag_types import Augment
from figeval.io.validation import validate
from figeval.language.words import SEGMENTERS, Reading, check_segmenter, knows
from figeval.spec.criteria import Scale, criteria_of
from figeval.task_types.base import TaskType
from figeval.task_types.registry import TaskTypes
from figeval.types import Example

E = TypeVar("E", bound=Example)
FieldSource = str | int | float | list[Any] | dict[str, str]
NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,99}")  # part of file names, which have at most 255 bytes
ENGLISH = "en"  # the language of a task that names none
RESERVED = ("all", "default", "no_query", "shuffled_query")  # have a meaning after the @ of a record, or for --prompts


def _words(value: Any) -> Any:
    words = value if isinstance(value, list | tuple) else (value,)
    for word in words:
        if not isinstance(word, str):
            raise ValueError(
                f"{word!r} is not a string: YAML reads Yes, No and numbers as values, so put them in quotes"
            )
    return words


Words = Annotated[tuple[str, ...], BeforeValidator(_words, json_schema_input_type=str | tuple[str, ...])]


def _language(value: Any) -> Any:
    """Check the tags of one or several languages (BCP 47: en, zh-Hant, pt-BR)."""
    if value is None:
        raise ValueError("it has no value; write a code such as en, or leave the key out")
    languages = _words(value)
    if twice := sorted({language for language in languages if languages.count(language) > 1}):
        raise ValueError(f"{twice[0]!r} is listed twice; every language is listed once")
    if not languages:
        raise ValueError("no language is listed; write a code such as en")
    if not all(languages):
        raise ValueError("one of the languages is empty; write a code such as en")
    import langcodes

    for language in languages:
        if not langcodes.tag_is_valid(language):
            raise ValueError(f"{language!r:.80} is not a language tag (BCP 47); write a code such as en, yo or zh-Hant")
        # One name per language: properties of English must be found even if a task calls it "eng".
        if (usual := langcodes.standardize_tag(language)) != language:
            raise ValueError(f"write {usual!r} instead of {language!r}")
    return languages[0] if len(languages) == 1 else tuple(languages)


Language = Annotated[str | tuple[str, ...], BeforeValidator(_language, json_schema_input_type=str | tuple[str, ...])]


class Wording(BaseModel):
    """Additional prompt of a task. A plain string in a task file is its template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str | None = Field(default=None, description="File with the prompt. By default, the task's own.")
    prompt_fields: bool = Field(
        default=True, description="Whether to show `prompt_fields`. If not, prompts show what other models read."
    )


def _wording(value: Any) -> Any:
    return {"template": value} if isinstance(value, str) else value


class OptionShuffle(BaseModel):
    """Another order of the options of each example, drawn from the seed and the id of the example."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: Annotated[int, Field(ge=0, strict=True)] = Field(default=0, description="Another seed gives another order.")


def _shuffle(value: Any) -> Any:
    if isinstance(value, bool):
        return OptionShuffle() if value else None
    if isinstance(value, Mapping | OptionShuffle | None):
        return value
    raise ValueError("write `shuffle_options: true`, or `{seed: 1}` for another order")


class CorpusSpec(BaseModel):
    """Documents that all rows of a task rank."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field(description="File with the documents, as `SCHEME:PATH`.")
    id: str = Field(default="row.id", description="Jinja expression: the id by which rows name a document.")
    text: str = Field(default="row.text", description="Jinja expression: the text of a document.")


class Named(BaseModel):
    """Base of tasks and suites. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = Field(
        description="Name for `--tasks` and in tables: lower-case letters, digits and underscores.",
        json_schema_extra={"pattern": f"^{NAME.pattern}$"},
    )
    description: str = Field(default="", description="One sentence for lists.")

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("a name is at most 100 lower-case letters, digits and underscores")
        return name


class TaskSpec(Named):
    """Definition of one task: its data, the fields of an example, the prompts and the metrics."""

    type: str = Field(description="Task type, which determines the fields of an example (`figeval ls types`).")
    version: int = Field(default=1, description="Version of the task. Increase it when a change affects scores.")
    language: Language = Field(
        default=ENGLISH,
        description="Language of the rows as a BCP 47 tag such as `en` or `zh-Hant`, or a list of tags. With several, "
        "the field `language` gives that of a row.",
    )
    segmenter: str | Mapping[str, str] = Field(
        default="",
        description="Library that divides texts without blanks into words, for metrics and lexical models: "
        f"{', '.join(SEGMENTERS)}; a mapping from languages if the task has several. By default, every grapheme "
        "cluster, such as a Chinese character, is a word.",
    )
    data: Mapping[str, str] = Field(
        default_factory=dict,
        description="Files with the rows by split, as `SCHEME:PATH` such as `jsonl:rows.jsonl`. The split `test` is "
        "scored; `train` is for few-shot examples and training, `prior` for models that learn word weights.",
        json_schema_extra={"required": ["test"]},
    )
    fields: Mapping[str, FieldSource] = Field(
        default_factory=dict,
        description="Fields of an example: Jinja expressions over one `row`, or lists or mappings of expressions.",
    )
    prompt_fields: Mapping[str, FieldSource] = Field(
        default_factory=dict, description="Expressions that prompts show instead of a field."
    )
    template: str | None = Field(
        default=None, description="File with the prompt, in a folder `templates`. By default, that of the task type."
    )
    prompts: Mapping[str, Annotated[Wording, BeforeValidator(_wording, json_schema_input_type=str | Wording)]] = Field(
        default_factory=dict, description="Other ways to ask, by name, for `--prompts`: each a template or a mapping."
    )
    labels: Words = Field(default=(), description="Labels in order. The first one is the positive one.")
    only_label: str | None = Field(
        default=None, description="Gold label of all test examples, if it is intended that they share one."
    )
    verbalizer: Mapping[str, Words] = Field(
        default_factory=dict, description="Words that express a label, by label. The most probable word decides."
    )
    vocabulary: Mapping[str, Words] = Field(
        default_factory=dict,
        description="Nouns that replies may use: for an option (`option`) and for the right one (`answer`).",
        json_schema_extra={"propertyNames": {"enum": ["option", "answer"]}},
    )
    shuffle_options: Annotated[
        OptionShuffle | None, BeforeValidator(_shuffle, json_schema_input_type=bool | OptionShuffle | None)
    ] = Field(
        default=None,
        description="Whether to put the options of each example in another order. `true` is `{seed: 0}`.",
    )
    settings: Mapping[str, FiniteFloat | int | bool | str] = Field(
        default_factory=dict, description="Settings of routes, such as `threshold` or `temperature`."
    )
    corpus: CorpusSpec | None = Field(
        default=None, description="Documents that all rows of a ranking task rank, instead of the field `candidates`."
    )
    route: str | None = Field(default=None, description="Preferred route. `--route` overrides it.")
    protocols: Mapping[str, str] = Field(
        default_factory=dict, description="Tasks that `--protocol NAME` runs instead of this one, by name."
    )
    splits: Mapping[str, str] = Field(
        default_factory=dict, description="Tasks that `--split NAME` runs instead of this one, by name."
    )
    max_new_tokens: PositiveInt | None = Field(
        default=None, description="Maximum number of tokens in a written answer."
    )
    metrics: tuple[str, ...] = Field(default=(), description="Metrics. By default, those of the task type.")
    cluster: str | None = Field(
        default=None,
        description="Key of `meta`. Examples that share its value are not independent, and intervals account for it.",
    )
    annotations: tuple[str, ...] = Field(
        default=(),
        description="Keys of `meta` that say something about examples, but change no score. Runs stay comparable when "
        "such a key is added or its values are corrected.",
    )
    group: str | None = Field(
        default=None,
        description="Jinja expression. Examples that share its value are minimal pairs: `acc_strict` requires all of "
        "them to be right.",
    )
    baselines: tuple[str, ...] = Field(
        default=(), description="Trivial models for comparison. By default, those of the task type."
    )
    floor: str | None = Field(
        default=None, description="Probe that every run also asks. Its scores are among the baselines of the task."
    )
    augment: Augment = Field(
        default_factory=dict, description="Text that is added to every example. `--augment` overrides it."
    )
    error_types: Words = Field(
        default=(), description="Errors that annotators look for in written texts (`figeval annotate`)."
    )
    criteria: Mapping[str, Scale] = Field(
        default_factory=dict,
        description="Criteria by which people judge written texts (`figeval annotate export`), each with its scale: "
        "`1-5`, `yes/no` or other labels with a slash; or with a mapping of `scale` and `description`.",
    )
    memorized: str | None = Field(
        default=None,
        description="Jinja expression: the well-known text behind a row, such as its proverb or idiom, whose recall "
        "`figeval contamination` measures.",
    )
    built_with: tuple[str, ...] = Field(
        default=(),
        description="Models that selected the wrong options. This puts them at a disadvantage, so a warning appears.",
    )
    citation: Citation | str = Field(
        default="", description="Publication to cite: its facts, or a text. That of the data stands in `sources.yaml`."
    )

    # Filled in by the loader, never written in YAML.
    folder: Traversable | None = Field(default=None, exclude=True, repr=False)
    examples: Callable[[], Iterator[Example]] | None = Field(default=None, exclude=True, repr=False)
    owner: str = Field(default="", exclude=True)
    origin: str = Field(default="", exclude=True)  # file name, for messages

    replaced_template: Any = Field(default=None, exclude=True, repr=False)  # that of --template, loaded
    bound_to: TaskType[Any] | None = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _consistent(self) -> TaskSpec:
        if self.examples is None and "test" not in self.data:
            raise ValueError('data has no test split; write data: {test: "jsonl:FILE"}')
        if self.examples is not None and self.memorized is not None:
            raise ValueError("memorized is an expression over rows, and a task written in Python has none; remove it")
        for language, name in self.segmenters.items():
            check_segmenter(name, language)
        if strange := set(self.segmenters) - set(self.languages):
            raise ValueError(f"segmenter names {', '.join(sorted(strange))}, but not as a language of the task")
        if self.only_label is not None and self.only_label not in self.labels:
            raise ValueError(f"only_label {self.only_label!r} is not among the labels {', '.join(self.labels)}")
        strange = set(self.verbalizer) - set(self.labels)
        if strange:
            words, labels = ", ".join(sorted(strange)), ", ".join(self.labels) or "none"
            raise ValueError(f"verbalizer has words for {words}, but the labels are {labels}")
        if strange := set(self.vocabulary) - {"option", "answer"}:
            words = ", ".join(sorted(strange))
            raise ValueError(f"vocabulary has words for {words}; it takes words for `option` and `answer`")
        if not all(word.strip() for words in self.vocabulary.values() for word in words):
            raise ValueError("vocabulary has an empty word; every word needs at least one letter")
        return self

    @field_validator("labels", "error_types")
    @classmethod
    def _different_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} is listed twice; remove or rename one of them")
        return names

    @field_validator("criteria")
    @classmethod
    def _known_scales(cls, criteria: Mapping[str, Scale]) -> Mapping[str, Scale]:
        criteria_of(criteria)
        return criteria

    @field_validator("prompts")
    @classmethod
    def _named_prompts(cls, prompts: Mapping[str, Wording]) -> Mapping[str, Wording]:
        for name in prompts:
            if not NAME.fullmatch(name) or name in RESERVED:
                raise ValueError(f"{name!r} cannot name a prompt: a name is letters, digits, _ and not {RESERVED}")
        return prompts

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the rows, one or several."""
        return (self.language,) if isinstance(self.language, str) else self.language

    @property
    def language_of_rows(self) -> str:
        """Language of rows without one, if the task has a single language; empty for English, the default."""
        return self.language if isinstance(self.language, str) and self.language != ENGLISH else ""

    @property
    def segmenters(self) -> dict[str, str]:
        """Segmenters by language; one that is named alone is for all languages that it knows."""
        if not isinstance(self.segmenter, str):
            return dict(self.segmenter)
        if not self.segmenter:
            return {}
        fitting = [
            language for language in self.languages if self.segmenter in SEGMENTERS and knows(self.segmenter, language)
        ]
        return dict.fromkeys(fitting or self.languages, self.segmenter)

    def reading_of(self, language: str) -> Reading:
        """Return how texts in a language of the task are divided into words; an empty one is its single language."""
        code = language or self.language_of_rows
        return Reading(code, self.segmenters.get(code, ""))

    def with_language(self, example: E) -> E:
        """Return an example as metrics and models see it: with its language (English is empty) and its segmenter."""
        reading = self.reading_of(example.language)
        if (reading.language, reading.segmenter) == (example.language, example.segmenter):
            return example
        return replace(example, language=reading.language, segmenter=reading.segmenter)

    @property
    def task_type(self) -> TaskType[Any]:
        """Task type of the task. Raises `RuntimeError` if the task was not taken from a catalogue (see `bound`)."""
        if self.bound_to is None:
            raise RuntimeError(f"{self.name} is not bound to its task type {self.type!r}")
        return self.bound_to

    def bound(self, task_types: TaskTypes) -> TaskSpec:
        """Return the task with its task type, whose metrics and baselines are used if the task lists none.

        Raises:
            TaskError: there is no such task type, or it does not accept the fields or keys.
        """
        try:
            kind = task_types.get(self.type)
        except UnknownName as error:
            raise TaskError(f"{self.origin or self.name}: {error}") from error
        defaults = {"metrics": kind.default_metrics, "baselines": kind.default_baselines}
        changes = {key: value for key, value in defaults.items() if key not in self.model_fields_set}
        copy = self.model_copy(update={**changes, "bound_to": kind})
        problem = kind.field_problem(copy) if self.examples is None else None
        if copy.floor is not None and copy.floor not in kind.probes:
            has = f"available: {', '.join(kind.probes) or 'none'}"
            raise TaskError(
                f"{self.origin or self.name}: floor {copy.floor!r} is not a probe of {kind.name} tasks ({has})"
            )
        if copy.shuffle_options is not None and not kind.options:
            problem = f"the options of {kind.name} tasks cannot be shuffled; remove the key shuffle_options"
        try:
            kind.check(copy)
        except ValueError as error:
            problem = problem or str(error)
        if problem:
            raise TaskError(f"{self.origin or self.name}: {problem}")
        return copy

    def with_prompt(self, name: str) -> TaskSpec:
        """Return the task with its additional prompt `name`."""
        wording = self.prompts[name]
        changes: dict[str, Any] = {}
        if wording.template:
            changes = {"template": wording.template, "replaced_template": None}
        return self.model_copy(update=changes if wording.prompt_fields else {**changes, "prompt_fields": {}})

    def split(self, *names: str) -> str | None:
        """Return the first of these splits that the task has, or None."""
        return next((name for name in names if name in self.data), None)


class ContrastSpec(BaseModel):
    """Tasks of a suite over which discrimination is measured, between the first gold label and all others.

    If the right answer of a task is always the same, its accuracy reflects the bias towards that answer. The area under
    the ROC curve over several such tasks does not, nor does balanced accuracy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: Words = Field(min_length=1, description="Names of tasks or suites of this suite.")
    within: str | None = Field(
        default=None, description="Key of `meta`. Only examples that share its value are compared."
    )


class SuiteSpec(Named):
    """Name for several tasks or suites. Tables have one row per task, and at most a macro mean in addition.

    `macro_mean: false` omits the mean if it is meaningless, e.g. over tasks with opposite gold labels.
    """

    tasks: tuple[str, ...] = Field(description="Names of tasks or suites.")
    macro_mean: bool = Field(default=True, description="Whether to report the unweighted mean over the tasks.")
    contrasts: Mapping[str, ContrastSpec] = Field(
        default_factory=dict,
        description="Tasks between which the discrimination of the model is measured, by the name of the contrast.",
    )
    owner: str = Field(default="", exclude=True)
    origin: str = Field(default="", exclude=True)

    @field_validator("contrasts", mode="before")
    @classmethod
    def _well_formed_contrasts(cls, contrasts: Any) -> Any:
        if not isinstance(contrasts, Mapping):
            raise ValueError("write a name for each contrast, and its tasks: `NAME: {tasks: [FIRST, SECOND]}`")
        for name, contrast in contrasts.items():
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                raise ValueError(f"{name!r} cannot name a contrast: a name is lower-case letters, digits and _")
            if not isinstance(contrast, Mapping | ContrastSpec):
                raise ValueError(f"{name!r} is not a mapping; write `{name}: {{tasks: [FIRST, SECOND]}}`")
            if isinstance(contrast, Mapping) and not contrast.get("tasks"):
                raise ValueError(f"{name!r} lists no tasks; write `{name}: {{tasks: [FIRST, SECOND]}}`")
        return contrasts


Source = Callable[[], Iterator[Example]]


def task(*, name: str, type: str = "", **settings: Any) -> Callable[[Source], TaskSpec]:
    """Make a task from a generator of examples; `settings` are the keys of a task file except `data` and `fields`.

    ```python
    @task(name="acme_pairs", type="pairs", labels=("idiom", "literal"), metrics=("acc",))
    def acme_pairs():
        yield PairExample(id="1", left="…", right="…", label="idiom")
    ```
    Register the result with `register(acme_pairs)` in `register_tasks`.

    Raises:
        TaskError: `type` is missing, or there is an unknown key, or a value of the wrong type.
    """
    if not type:
        raise TaskError(f'@task(name={name!r}) has no `type`; write, for example, type="choice"')

    def make(source: Source) -> TaskSpec:
        description = settings.pop("description", None) or (source.__doc__ or "").strip().split("\n")[0]
        keys = {"name": name, "type": type, "description": description, "examples": source, **settings}
        return validate(keys, f"@task(name={name!r})", TaskSpec, TaskError)

    return make
