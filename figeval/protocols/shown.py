"""A solved example as text, for few-shot prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from figeval.protocols.routes import Briefing
from figeval.types import ChoiceExample, PairExample, RankingExample


def _choice(example: ChoiceExample, briefing: Briefing) -> str:
    assert example.gold is not None
    return briefing.render("continuation", example, option=example.options[example.gold])


def _ranking(example: RankingExample, briefing: Briefing) -> str:
    return briefing.render("continuation", example, option=example.candidates[min(example.relevant)])


def _pair(example: PairExample, briefing: Briefing) -> str:
    assert example.label is not None
    return f" {briefing.words(example.label)[0]}"


ANSWERS: dict[type, Callable[[Any, Briefing], str]] = {
    ChoiceExample: _choice,
    RankingExample: _ranking,
    PairExample: _pair,
}


def solved(example: Any, briefing: Briefing) -> str:
    """The question and its right answer, as the model would have to continue it."""
    return briefing.render("context", example) + ANSWERS[type(example)](example, briefing)
