"""The answer of a solved example, as a few-shot prompt shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from figeval.types import ChoiceExample, GenerationExample, JointExample, PairExample, RankingExample, SpanExample

if TYPE_CHECKING:
    from figeval.task_types.briefing import Briefing

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # the names of options, in the order in which they are shown


def _choice(example: ChoiceExample, briefing: Briefing) -> str:
    assert example.gold is not None
    return briefing.block("continuation", example, option=example.options[example.gold])


def _letter(example: ChoiceExample, _briefing: Briefing) -> str:
    assert example.gold is not None
    return f" {LETTERS[example.gold]}"


def _ranking(example: RankingExample, briefing: Briefing) -> str:
    return briefing.block("continuation", example, option=example.candidates[min(example.relevant)])


def _pair(example: PairExample, briefing: Briefing) -> str:
    assert example.label is not None
    return f" {briefing.words(example.label)[0]}"


def _span(example: SpanExample, _briefing: Briefing) -> str:
    assert example.gold is not None
    quote = example.text[example.gold.start : example.gold.end]
    return f" {json.dumps({'quote': quote}, ensure_ascii=False)}"


def _text(example: GenerationExample, _briefing: Briefing) -> str:
    return f" {example.references[0]}"


# Blocks that ask a question, with what would answer it; before these, solved examples can stand.
ANSWERS: dict[tuple[str, type], Callable[[Any, Briefing], str]] = {
    ("context", ChoiceExample): _choice,
    ("context", RankingExample): _ranking,
    ("context", JointExample): _ranking,
    ("context", PairExample): _pair,
    ("letter", ChoiceExample): _letter,
    ("word", PairExample): _pair,
    ("json", SpanExample): _span,
    ("write", GenerationExample): _text,
}
# Blocks behind which the model goes on.
OPENING = frozenset({"context", "letter", "word", "json", "write", "unconditional"})
