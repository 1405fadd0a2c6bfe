"""Reasoning traces within a reply: what a model thinks is not what it answers."""

from __future__ import annotations

import re

_TAG = r"(?:think|thinking|thought|reasoning|reason|analysis|scratchpad|reflection|seed:think)"
TRACES = tuple(
    (re.compile(opening, re.IGNORECASE), re.compile(closing, re.IGNORECASE))
    for opening, closing in (
        (rf"<{_TAG}>", rf"</{_TAG}>"),
        (r"◁think▷", r"◁/think▷"),
        (r"\[think\]", r"\[/think\]"),
        (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)", r"<\|channel\|>final[^<]*<\|message\|>"),
        (r"\A\s*(?-i:analysis(?=[A-Z]))", r"(?-i:assistantfinal)"),  # the same, its marks lost in decoding
    )
)
"""Opening and closing marks, of the model families that have them."""


def strip_reasoning(text: str) -> str:
    """The text without reasoning traces.

    A trace whose opening mark was part of the prompt begins with the text; one that is never closed takes the rest.
    """
    for opening, closing in TRACES:
        text = _without(text, opening, closing)
    return text


def _without(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    kept, position = [], 0
    while start := opening.search(text, position):
        end = closing.search(text, start.end())
        kept.append(text[position : start.start()])
        position = end.end() if end else len(text)
    rest = "".join(kept) + text[position:]
    closed = list(closing.finditer(rest))
    return rest[closed[-1].end() :] if closed else rest
