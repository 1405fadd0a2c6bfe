"""Joint: which candidate is it, and where in the query do the parts stand? A ranking route and a span route as one."""

from __future__ import annotations

from dataclasses import replace

from figeval.task_types.briefing import Briefing
from figeval.task_types.orders import together
from figeval.task_types.routes import Dialogue, Route
from figeval.types import JointExample, Prediction


def at_once(example: JointExample, briefing: Briefing, ranking: Route, spans: Route) -> Dialogue:
    """Candidates and spans in the same rounds, whatever the candidate (Ghosh and Srivastava 2022, Table 9, joint)."""
    about = of_parts(briefing)
    first, *parts = yield from together(
        [ranking.start(example, briefing), *(spans.start(part, about) for part in example.parts)]
    )
    return combined(first, tuple(parts))


def in_turn(example: JointExample, briefing: Briefing, ranking: Route, spans: Route) -> Dialogue:
    """First the candidate; the spans only if it may be right, since else they count nothing (the same, pipelined)."""
    first = yield from ranking.start(example, briefing)
    if not may_be_right(example, first):
        return first
    about = of_parts(briefing)
    parts = yield from together([spans.start(part, about) for part in example.parts])
    return combined(first, tuple(parts))


def may_be_right(example: JointExample, prediction: Prediction) -> bool:
    """Whether a right candidate is the best one, or one of several that share the best score."""
    if prediction.status != "ok":
        return False
    scores = prediction.scores[: len(example.candidates)]
    return any(scores[index] == max(scores) for index in example.relevant)


def of_parts(briefing: Briefing) -> Briefing:
    """The briefing for spans: of every solved example its first part is shown."""
    return replace(briefing, shots=lambda example: [shot.parts[0] for shot in briefing.shots(example)])


def combined(first: Prediction, parts: tuple[Prediction, ...]) -> Prediction:
    """One prediction of all; an error in one part is an error of the whole, which is asked again."""
    broken = next((part for part in parts if part.status == "error"), None)
    if broken is not None:
        return replace(first, value=None, status="error", finish="error", error=broken.error, parts=parts)
    return replace(first, parts=parts)
