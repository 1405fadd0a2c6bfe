"""The fields of `run.json`, and the published JSON Schemas.

A file of another major version is refused with a message and never guessed at. The JSON Schemas in `results/schema`
are generated from these models and from `PredictionRow`: `make schema` updates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from figeval.records.predictions import PredictionRow
from figeval.records.stored_types import CHOSEN_ON_TEST as CHOSEN_ON_TEST
from figeval.records.stored_types import UNEQUAL_ANSWERS as UNEQUAL_ANSWERS
from figeval.records.stored_types import Settings, StoredDescription, StoredInterval, StoredOrigin, readable_description
from figeval.records.variance import VarianceRecord
from figeval.types import Interval, Score
from figeval.types import Role as Role

SCHEMA_VERSION = "2.5"  # see `figeval.records.earlier_versions`
READABLE_VERSIONS = ("1", "2")  # major versions

# Part of a file name, so no separator, control character or leading dot, and no longer than file systems allow.
TASK_NAME = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,199}")

SEEN_NOTES: dict[Role, str] = {  # explanation of the mark behind such a score, for all tables
    "trained": "the model was trained on some of these examples, so the score does not predict performance on new ones",
    "chosen": "the model was chosen on some of these examples, so the score is a maximum without a valid interval",
}
SEEN_DESCRIPTION = (
    "how the model has seen examples behind this number: it was trained on some of them, or chosen on some; null: none"
)


class Stored(BaseModel):
    """A part of what is stored. Unknown keys are refused, so that a typo never passes for a fact."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


def _task_name(name: str) -> str:
    if TASK_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a valid task name")
    return name


class ScoreRecord(Stored):
    """One number with its uncertainty."""

    metric: str
    value: float | None = Field(description="null where nothing could be scored")
    low: float | None = Field(
        frozen=True, description="lower end of the 95 % interval, null where no honest one exists"
    )
    high: float | None = Field(frozen=True, description="upper end of the 95 % interval")
    stderr: float | None = Field(frozen=True, description="standard error, clustered where examples are")
    n: int = Field(description="examples that were scored")
    clusters: int = Field(description="independent groups among them")
    effective_clusters: float | None = Field(
        default=None, description="n² / Σ n_c² of groups with n_c examples; null where groups are of equal size"
    )
    interval: StoredInterval = Field(frozen=True, description="the method behind the interval, or why there is none")
    higher_is_better: bool = True
    sd: float | None = Field(default=None, description="of a mean over trainings: their standard deviation")
    seen: Role | None = Field(default=None, description=SEEN_DESCRIPTION)

    @classmethod
    def of(cls, score: Score) -> ScoreRecord:
        return cls.model_validate(score, from_attributes=True)

    def set_interval(self, interval: Interval) -> None:
        """Replace the interval, and its limits with it."""
        limits = {"low": interval.low, "high": interval.high, "stderr": interval.stderr}
        self.__dict__.update(limits, interval=interval)

    def with_interval(self, interval: Interval, **changes: Any) -> ScoreRecord:
        """Return a copy with another interval and other values of further fields."""
        record = self.model_copy(update=changes)
        record.set_interval(interval)
        return record

    @model_validator(mode="after")
    def _set_seen(self) -> ScoreRecord:
        """Refuse half an interval, and set the mark that records before 1.4 only have in `interval`."""
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high are two numbers, or both are null")
        if self.interval.reason == CHOSEN_ON_TEST and self.seen is None:
            self.seen = "chosen"
        return self


def _without_weights(schema: dict[str, Any]) -> None:
    """Make `weights` optional in the published schema: a trivial model has none."""
    schema["required"].remove("weights")


class BaselineRecord(Stored):
    """A trivial model on the same examples, the model itself on a probe, or one that was trained on that probe."""

    model_config = ConfigDict(json_schema_extra=_without_weights)

    baseline: str = Field(description="chance, overlap …; no_query: the model itself; no_query_trained: its floor")
    weights: str = Field(default="", description="sha256 of those of a model that was trained on a probe")
    scores: list[ScoreRecord]

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Omit the weights of models that have none."""
        return {key: value for key, value in handler(self).items() if value or key != "weights"}


def baseline_scores(baselines: Iterable[BaselineRecord], metric: str) -> dict[str, ScoreRecord]:
    """Return the scores of trivial models by one metric, by the name of the model."""
    return {baseline.baseline: score for baseline in baselines for score in baseline.scores if score.metric == metric}


class GroupRecord(Stored):
    """The examples that share one value of a breakdown."""

    value: str
    scores: list[ScoreRecord]


class BreakdownRecord(Stored):
    """Scores per value of a meta column (`--by idiom`)."""

    by: str
    groups: list[GroupRecord]


class LanguageRecord(Stored):
    """The rows in one language of a task that has several."""

    language: str
    scores: list[ScoreRecord]
    baselines: list[BaselineRecord] = Field(default=[], description="trivial models on the rows in this language")


class KindRecord(Stored):
    """The options that share one value of a key of `option_meta`, such as the antonyms among the options."""

    value: str
    offered: int = Field(description="options of this kind in the examples that were answered")
    examples: int = Field(description="answered examples that offered at least one")
    chosen: ScoreRecord = Field(description="share of the answered examples in which one of them was chosen")
    chosen_wrong: ScoreRecord = Field(description="share of them among the wrong answers")
    expected_wrong: float | None = Field(
        description="that share if every wrong answer were drawn from the wrong options; null without wrong answers"
    )


class ChoicesRecord(Stored):
    """Kinds of the chosen options, by one key of `option_meta`. Ties count by expectation."""

    key: str
    answered: int = Field(description="examples with an answer")
    wrong: float = Field(description="wrong answers, expected where options tie")
    kinds: list[KindRecord]


class OverlapRecord(Stored):
    """Number of examples of a task that the model or one of its ancestors has seen.

    An example is recognised by the text that is asked about, whatever its case and punctuation.
    """

    trained: int = Field(description="examples that it was trained on")
    chosen: int = Field(description="further examples that it was chosen on")
    rest: int = Field(description="examples that it has not seen")
    rest_sha256: str = Field(default="", description="over their ids in order")
    scores: list[ScoreRecord] = Field(
        default=[], description="on the remaining examples alone; empty where all or none were seen"
    )
    baselines: list[BaselineRecord] = Field(default=[], description="trivial models on the remaining examples")


# Fields of a task that are omitted if they are empty.
SPARSE_FIELDS = ("choices", "is_floor", "languages", "legend", "sample_sha256", "tokens", "words")


def _sparse(schema: dict[str, Any]) -> None:
    """Make the fields in `SPARSE` optional in the published schema."""
    schema["required"] = [name for name in schema["required"] if name not in SPARSE_FIELDS]


class TaskPart(NamedTuple):
    """Scores on examples of a task, and those of trivial models: on all (no name), in a language, or `remaining`."""

    name: str
    scores: list[ScoreRecord]
    baselines: list[BaselineRecord]


class TaskRecord(Stored):
    """One task: how the model was asked, and the results.

    Of a task with rows in several languages `scores`, those of `baselines` and of `overlap` are unweighted means over
    the languages.
    """

    model_config = ConfigDict(json_schema_extra=_sparse)

    task: Annotated[str, AfterValidator(_task_name)] = Field(
        description="its name; a further prompt or a probe of it is called task@variant"
    )
    kind: Literal["task", "prompt", "probe"] = Field(default="task", description="only a task enters macro means")
    of: str | None = Field(default=None, description="the task that this is a prompt or a probe of")
    variant: str | None = Field(default=None, description="the name of that prompt or probe")
    is_floor: bool = Field(default=False, description="a probe whose scores stand among the baselines of its task")
    version: int
    task_type: str = Field(
        validation_alias=AliasChoices("task_type", "protocol"), description="choice, ranking, pairs …"
    )
    route: str = Field(description="how the model was asked: by_cosine, by_loglikelihood, by_head …")
    status: Literal["running", "done", "failed"]
    n: int = Field(description="examples that were used; fewer than available with --limit or --sample")
    available: int = Field(description="examples of the task")
    scores: list[ScoreRecord] = []
    baselines: list[BaselineRecord] = []
    breakdowns: list[BreakdownRecord] = []
    languages: list[LanguageRecord] = Field(default=[], description="for tasks with rows in several languages")
    choices: list[ChoicesRecord] = Field(default=[], description="for tasks that declare the kinds of their options")
    overlap: OverlapRecord | None = Field(
        default=None, description="overlap with what the model was trained and chosen on; null if unknown"
    )
    counts: dict[str, int] = Field(
        default={},
        description="number of answers by status, of ties, of truncated inputs and of straddling tokens; of prompts "
        "without some of their solved examples, and of the examples that they lack",
    )
    tokens: dict[str, int] = Field(default={}, description="of `answers` and `reasoning`, and of how many replies")
    warnings: list[str] = []
    error: str | None = Field(default=None, description="traceback of a failed task")
    only_label: str | None = Field(default=None, description="the right answer to every example, if all share one")
    hidden: int = Field(default=0, description="examples among n with a hidden gold answer, which is not scored")
    examples_sha256: str = Field(description="over ids, texts and labels of all examples")
    sample_sha256: str | None = Field(default=None, description="over the ids of a random sample (--sample)")
    template: str | None = None
    template_sha256: str | None = None
    extractor: str | None = Field(default=None, description="version of the extractor that read the answers in words")
    settings: Settings = Field(default={}, description="labels, threshold, verbalizer, few-shot examples")
    words: str = Field(
        default="",
        description="what a word is, to metrics and lexical models: `uax29` (Unicode Standard Annex 29), and the "
        "segmenters of scripts without blanks; missing in earlier records",
    )
    legend: str = Field(default="", description="what the settings of the route mean, as stated below tables")
    predictions: str = Field(description="file with one line per example, relative to run.json")
    predictions_sha256: str | None = Field(
        default=None,
        description="sha256 of that file when the task was finished; null before, and in schema versions before 1.4",
    )
    seconds: float = Field(default=0.0, description="wall time of the model and its scoring, over all sessions")
    baseline_seconds: float = 0.0
    peak_memory_mb: float = Field(default=0.0, description="peak resident memory of the process, in MiB")

    def parts(self) -> list[TaskPart]:
        """Return the scores on the examples in each language if there are several, on all, and on the unseen ones."""
        parts = [TaskPart(part.language, part.scores, part.baselines) for part in self.languages]
        parts.append(TaskPart("", self.scores, self.baselines))
        if self.overlap is not None:
            parts.append(TaskPart("remaining", self.overlap.scores, self.overlap.baselines))
        return parts

    def parts_after_all(self) -> list[TaskPart]:
        """Return the same, those on all examples first."""
        return sorted(self.parts(), key=lambda part: part.name != "")

    def shown_scores(self) -> Iterator[ScoreRecord]:
        """Yield the scores that tables show: the task's own, those by language, and those of chosen option kinds."""
        yield from self.scores
        yield from (score for language in self.languages for score in language.scores)
        yield from (
            score for table in self.choices for kind in table.kinds for score in (kind.chosen, kind.chosen_wrong)
        )

    # No return type: pydantic would use it as the published schema of a task.
    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Omit the fields that most tasks do not have."""
        return {key: value for key, value in handler(self).items() if value or key not in SPARSE_FIELDS}


class AncestorRecord(Stored):
    """The model itself, or one that it was trained from."""

    model: str
    about: dict[str, Any] = Field(default={}, description="`about` in its figeval.json, which describes its training")


class LineageRecord(Stored):
    """A model that figeval trained, and what it was trained from; of a pipeline, of all its parts."""

    ancestors: list[AncestorRecord] = Field(description="the model itself first, then nearest first")
    trained: int = Field(description="number of distinct questions and texts that they were trained on")
    chosen: int = Field(description="number of distinct questions and texts that they were chosen on")
    unknown: list[str] = Field(default=[], description="those of them whose examples are not known")


class ModelRecord(Stored):
    """The model and how it was loaded."""

    name: str
    backend: str
    options: dict[str, Any] = {}
    capabilities: list[str] = []
    fingerprint: str = Field(default="", description="changes with the weights")
    description: StoredDescription = Field(
        default={}, description="device, dtype, maximum length …, as reported by the backend"
    )
    lineage: LineageRecord | None = Field(default=None, description="null for a model that figeval did not train")

    def describe(self, description: dict[str, Any]) -> None:
        """Keep what the model says about itself, or a warning if no reader could take it back."""
        self.description = readable_description(description)

    @property
    def parameters(self) -> int | None:
        """Number of weights, tied ones counted once; None if unknown, as for models behind an API."""
        number = self.description.get("parameters")
        return number if isinstance(number, int) and not isinstance(number, bool) else None


class MacroRecord(Stored):
    """The unweighted mean over the tasks of a suite. Never a pool of rows with opposite labels."""

    suite: str
    metric: str
    value: float | None
    tasks: int
    seen: Role | None = Field(default=None, description=SEEN_DESCRIPTION)


class SpreadRecord(Stored):
    """One metric of one task over the prompts that it was asked with, or of a contrast over those of its tasks."""

    task: str = Field(description="its name; suite:contrast for a contrast")
    metric: str
    prompts: int
    mean: float
    lowest: float
    lowest_prompt: str
    highest: float
    highest_prompt: str
    range: float = Field(description="highest minus lowest")
    seen: Role | None = Field(default=None, description=SEEN_DESCRIPTION)


class ContrastRecord(Stored):
    """Discrimination of the model between the examples of several tasks, as a suite declares.

    Examples whose right answer is `label` are positive, all others negative. Examples without an answer are left out,
    and so are those that `within` leaves without an example of the other kind.
    """

    suite: str
    contrast: str = Field(description="its name in the suite")
    variant: str | None = Field(default=None, description="the prompt or probe with which the tasks were asked")
    tasks: list[str]
    label: str
    within: str | None = Field(default=None, description="only examples that share this meta key are compared")
    positive: int = Field(description="compared examples whose right answer is the label")
    negative: int = Field(description="compared examples with another right answer")
    unanswered: int = Field(default=0, description="examples without an answer, which are left out")
    scores: list[ScoreRecord] = Field(description="auc and balanced_acc (figeval.metrics.discrimination)")
    baselines: list[BaselineRecord] = []

    @property
    def name(self) -> str:
        """Name in tables and exports: `suite:contrast`, or `suite:contrast@variant` for a prompt or probe."""
        return f"{self.suite}:{self.contrast}" + (f"@{self.variant}" if self.variant else "")

    @property
    def remarks(self) -> list[str]:
        """Sentences without a full stop that explain the two metrics below a table."""
        means = (
            f"auc: how often an example whose right answer is {self.label} has a higher score for it than an example "
            "with another right answer; balanced_acc: the mean of the accuracies on both kinds; .5 is chance"
        )
        if not self.within:
            return [means]
        key = self.within
        only = f"only examples of the same {key} are compared, and each {key} with both kinds counts the same"
        return [means, f"× {key}: {only}"]


class OmissionRecord(Stored):
    """Tasks that a run was asked for and left out, all for the same reason."""

    tasks: list[str]
    reason: str = Field(description="a clause, e.g. `the model cannot answer them`")
    cure: str = Field(description="what to do about it")


OPTIONAL_FIELDS = (
    "contrasts",
    "digests",
    "left_out",
    "variances",
)  # fields of a run that are omitted if they are empty


def _with_optional(schema: dict[str, Any]) -> None:
    """Make the fields in `OPTIONAL` optional in the published schema."""
    schema["required"] = [name for name in schema["required"] if name not in OPTIONAL_FIELDS]


class RunRecord(Stored):
    """One run of one model over some tasks."""

    model_config = ConfigDict(json_schema_extra=_with_optional)

    schema_version: str = SCHEMA_VERSION
    identity: str = Field(description="eight hex digits; runs with equal settings have the same identity")
    status: Literal["running", "complete", "incomplete"]
    started: str
    finished: str | None = None
    command: list[str]
    config: Settings
    model: ModelRecord
    tasks: list[TaskRecord] = []
    macro: list[MacroRecord] = []
    contrasts: list[ContrastRecord] = Field(default=[], description="of the requested suites")
    spreads: list[SpreadRecord] = []
    variances: list[VarianceRecord] = Field(default=[], description="of answers that were sampled (--samples)")
    provenance: StoredOrigin
    warnings: list[str] = Field(default=[], description="about the run as a whole")
    left_out: list[OmissionRecord] = Field(default=[], description="tasks that were asked for")
    digests: dict[str, str] = Field(
        default={},
        description="sha256 of run.json (`file`) and of its parts, with which `figeval verify` finds changes "
        "(figeval/records/run_folder.py)",
    )

    def tasks_with_rows(self) -> list[TaskRecord]:
        """Return the tasks with rows in a table: all but floors whose scores are among the baselines of their task.

        A floor in whose place another one stands has no row, either. With --probes, all probes have rows.
        """
        baselines = {(task.task, record.baseline) for task in self.tasks for record in task.baselines}
        floored = set() if self.config.get("probes") else {task.of for task in self.tasks if task.is_floor}

        def is_hidden(task: TaskRecord) -> bool:
            is_known = not task.is_floor or (task.of, task.variant) in baselines
            return task.kind == "probe" and task.status == "done" and task.of in floored and is_known

        return [task for task in self.tasks if not is_hidden(task)]

    def shown_scores(self) -> Iterator[ScoreRecord]:
        """Yield the scores that tables show: those of the tasks and those of the contrasts."""
        for task in self.tasks:
            yield from task.shown_scores()
        for contrast in self.contrasts:
            yield from contrast.scores

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Omit the fields that many runs do not have."""
        return {key: value for key, value in handler(self).items() if value or key not in OPTIONAL_FIELDS}


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas (draft 2020-12) of the files that a run writes: `run` and `predictions`.

    `run.json` has all its fields, a line of predictions only those of its task type.
    """
    schemas = {
        "run": RunRecord.model_json_schema(mode="serialization"),
        "predictions": TypeAdapter(PredictionRow).json_schema(mode="validation"),
    }
    return {
        name: {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema} for name, schema in schemas.items()
    }


def to_json(value: Any) -> Any:
    """Return dataclasses as mappings, as `asdict` does, with the interval of a score as files have it."""
    if isinstance(value, Score):
        return ScoreRecord.of(value).model_dump(exclude={"sd", "seen"})
    if to_dict := getattr(value, "to_dict", None):
        return to_dict()
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return type(value)(map(to_json, value))
    return {key: to_json(item) for key, item in value.items()} if isinstance(value, Mapping) else value
