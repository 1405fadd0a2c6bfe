"""Parts of the row of a prediction: answers to several orders, samples, spans of a joint example, chosen options."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from figeval.io.json_files import JSONScore
from figeval.types import Finish, Status

Tokens: TypeAlias = Annotated[int, Field(ge=0)]
StoredAnswer: TypeAlias = int | str | list[JsonValue] | dict[str, JsonValue] | None
StoredMetrics: TypeAlias = dict[str, float | list[float]]


@with_config(ConfigDict(extra="forbid"))
class AnswerRow(TypedDict):
    """The answer to one order of the options, in terms of the options as they are."""

    order: Annotated[list[int], Field(description="the option at each place")]
    status: Status
    pred: int | str | None
    scores: NotRequired[list[JSONScore]]
    tied: NotRequired[int]
    raw: NotRequired[str | None]
    finish: NotRequired[Finish | None]
    error: NotRequired[str]
    answer_tokens: NotRequired[Tokens]
    reasoning_tokens: NotRequired[Tokens]


@with_config(ConfigDict(extra="forbid"))
class PartRow(TypedDict):
    """The span that was found for one part of a joint example."""

    id: str
    status: Status
    pred: Annotated[
        list[int] | None, Field(description="start and end in characters, half-open; [] means that there is no span")
    ]
    scores: NotRequired[list[JSONScore]]
    raw: NotRequired[str | None]
    finish: NotRequired[Finish | None]
    error: NotRequired[str]
    answer_tokens: NotRequired[Tokens]
    reasoning_tokens: NotRequired[Tokens]


@with_config(ConfigDict(extra="forbid"))
class ChoiceRow(TypedDict):
    """Which option was chosen, and the kinds of the options."""

    kinds: Annotated[
        dict[str, list[str | None]], Field(description="key of option_meta → its value for each option, null: none")
    ]
    chosen: Annotated[
        list[float], Field(description="per option the probability that it was chosen; empty without an answer")
    ]
    right: Annotated[list[int] | None, Field(description="the right options; null where they are hidden")]


@with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
class SampleRow(TypedDict):
    """One of several samples of an answer: the fields of a `PredictionRow` in which samples differ."""

    status: Status
    pred: StoredAnswer
    tied: int
    metrics: StoredMetrics
    scores: NotRequired[list[JSONScore]]
    top: NotRequired[list[tuple[int, JSONScore]]]
    relevant_scores: NotRequired[list[JSONScore]]
    priors: NotRequired[list[JSONScore]]
    raw: NotRequired[str | None]
    finish: NotRequired[Finish | None]
    error: NotRequired[str]
    answer_tokens: NotRequired[Tokens]
    reasoning_tokens: NotRequired[Tokens]
    answers: NotRequired[list[AnswerRow]]
    parts: NotRequired[list[PartRow]]
    details: NotRequired[dict[str, JsonValue]]
