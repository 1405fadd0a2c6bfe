"""What a model answered, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from figeval.types.examples import Span

Finish: TypeAlias = Literal["stop", "length", "refusal", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model wrote. `finish` says why it ended: by itself, at `max_new_tokens`, refused by a filter, or not at
    all (`error` holds why; such an example is asked again by the next run).

    `reasoning` is a trace that the server kept apart; a trace within `text` is the extractor's to strip.
    """

    text: str
    finish: Finish = "stop"
    reasoning: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span that a model found; a higher score is better, a log-probability where the model has one."""

    span: Span
    score: float


# absent: an answer was given, but it is none of the possible ones (a quotation that does not stand in the text)
Status = Literal["ok", "ambiguous", "unparseable", "refusal", "empty", "truncated", "nan", "error", "absent"]
Value: TypeAlias = Any  # int, str, Span, or what a plugin's task type has for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model answered to one example.

    `value` is an option index, a candidate index, a label, a span or a written text, None when there is no answer.
    `scores` run parallel to the options, to candidates + background, to `labels` (pairs), to the anchors or to the
    dimensions of a vector (similarity), and are float64; log-likelihoods, cosines or probabilities, as the route says.
    The score of a label is the probability of its best class: P(entailment) itself where one class stands for that.
    `status` tells "could not be parsed" and "was NaN" from "wrong"; `tied` counts the options that share the
    best score; `truncated` says that the model did not see the whole input. Where classes of several labels tie for
    the best (pairs), `among` has the label of each of these classes, so a label may be in it more than once.
    `priors` are scores without the query; `raw`, `finish` and `error` tell of an answer in words. Of options shown in
    several orders `answers` has a prediction each, with its `order`: `order[p]` is the option at place p. `parts` are
    the spans of a joint example; those that were not asked for are missing at the end. Where spans tie for the best,
    `alike` holds all of them and the first is the value. `source` is the id of the example that a text was taken
    from: records keep it in the text's place.
    """

    example_id: str
    value: Value | None
    scores: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    status: Status = "ok"
    raw: str | None = None
    tied: int = 1
    among: tuple[str, ...] = ()
    truncated: bool = False
    priors: tuple[float, ...] = ()
    finish: Finish | None = None
    error: str = ""
    order: tuple[int, ...] = ()
    answers: tuple[Prediction, ...] = ()
    parts: tuple[Prediction, ...] = ()
    alike: tuple[Span, ...] = ()
    source: str = ""


def written(prediction: Prediction) -> dict[str, str]:
    """Return what a model wrote and how it ended as JSON, as far as there is anything."""
    said = {"raw": prediction.raw, "finish": prediction.finish, "error": prediction.error or None}
    return {key: value for key, value in said.items() if value is not None}


UNRELIABLE = ", unreliable: fewer than 10 effective clusters"  # ends the name of an interval's method


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number with its uncertainty.

    `low` and `high` bound the 95 % interval, None where no honest one exists (`interval` then says why); `stderr` is
    the standard error it rests on; `n` counts examples and `clusters` the independent groups they form.
    `effective_clusters` is as many groups of equal size as would be as good, None where the groups are of equal size.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    n: int = 0
    clusters: int = 0
    effective_clusters: float | None = None
    interval: str = ""
    higher_is_better: bool = True
