"""A line of `predictions/<task>.jsonl`, field by field: what is written, read back and published has this schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from figeval.records.schema import Role, Stored
from figeval.types import Finish, Status

StoredScore = float | Literal["inf", "-inf"] | None  # NaN is null, JSON knows no infinity


class AnswerRow(Stored):
    """The answer to one order of the options, in terms of the options as they are."""

    order: list[int] = Field(description="the option at each place")
    status: Status
    pred: int | str | None
    scores: list[StoredScore] = Field(default=[])
    tied: int = 1
    raw: str | None = None
    finish: Finish | None = None
    error: str = ""


class PartRow(Stored):
    """The span that was found for one part of a joint example."""

    id: str
    status: Status
    pred: list[int] | None = Field(description="start and end in characters, half-open; [] says that there is no span")
    scores: list[StoredScore] = Field(default=[])
    raw: str | None = None
    finish: Finish | None = None
    error: str = ""


class ChoiceRow(Stored):
    """Which option was chosen, and of what kind the options are."""

    kinds: dict[str, list[str | None]] = Field(description="key of option_meta → its value for each option, null: none")
    chosen: list[float] = Field(description="per option the probability that it was chosen; empty without an answer")
    right: list[int] | None = Field(description="the right options; null where they are hidden")


def _shares(metrics: dict[str, float | list[float]]) -> dict[str, float | list[float]]:
    accuracy = metrics.get("acc", 0.0)
    if isinstance(accuracy, list) or not 0 <= accuracy <= 1:
        raise ValueError(f"acc is {accuracy}, and not between 0 and 1")
    return metrics


class PredictionRow(Stored):
    """One line of `predictions/<task>.jsonl`: what the model answered to one example. Each id has one line."""

    model_config = ConfigDict(allow_inf_nan=False)

    id: str
    status: Status
    pred: int | str | list[JsonValue] | dict[str, JsonValue] | None = Field(
        description="index of an option or candidate, a label, [start, end] of a span in characters ([]: there is "
        "none), a written text or the id of the training example that stands in for one, or what a plugin's task type "
        "has for an answer; null without an answer"
    )
    gold: JsonValue = Field(
        description="the right answer, null where it is hidden; ranking: all right candidates; spans: [] where no span "
        "is right; generation: null, the references are not ours"
    )
    scores: list[StoredScore] = Field(
        default=[],
        description="choice: per option; pairs: per label; spans: of the span; similarity: per anchor or dimension",
    )
    top: list[tuple[int, StoredScore]] = Field(default=[], description="ranking: the best ten candidates, best first")
    relevant_scores: list[StoredScore] = Field(default=[], description="ranking: scores of the right candidates")
    tied: int = Field(description="answers that share the best score")
    truncated: bool = Field(description="the model did not see the whole input")
    metrics: Annotated[dict[str, float | list[float]], AfterValidator(_shares)] = Field(
        description="per metric its value, or the counts it is made of"
    )
    seen: Role | None = Field(default=None, description="the model was trained on this example, or chosen on it")
    cluster: str | None = Field(description="examples that share it are not independent")
    group: str | None = Field(description="examples that share it are a minimal pair")
    meta: dict[str, str]
    language: str = Field(default="", description="of a task with rows in several languages")
    choice: ChoiceRow | None = Field(default=None, description="of a task that says of what kind its options are")
    priors: list[StoredScore] = Field(default=[], description="scores of the options without the query")
    raw: str | None = Field(default=None, description="the text that a model wrote")
    finish: Finish | None = Field(default=None, description="how that text ended")
    error: str = Field(default="", description="why there is no answer")
    answers: list[AnswerRow] = Field(default=[], description="only with --orders; scores are then shares of answers")
    parts: list[PartRow] = Field(default=[], description="joint: the spans, in the order of the example's parts")
    details: dict[str, JsonValue] = Field(default={}, description="what a plugin's task type keeps beside these")
    texts: list[str] = Field(default=[], description="only with --log_samples")
    all_scores: list[StoredScore] = Field(default=[], description="only with --log_samples")
