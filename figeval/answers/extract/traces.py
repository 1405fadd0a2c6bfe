"""The part of a reply that is read: reasoning traces go, since what a model thinks is not what it answers, and of what
is very long the middle does.
"""

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


BEGINNING, END = 4_000, 12_000
"""Characters of a long reply that are read: an answer is given at once, or after everything else has been said."""


def answering_part(text: str) -> str:
    """The text without reasoning traces, and without its middle if it is longer than `BEGINNING + END` characters.

    It is cut between words where there are any, and a blank line stands for what was left out.
    """
    rest = strip_reasoning(text)
    if len(rest) <= BEGINNING + END:
        return rest
    first, last = rest[:BEGINNING], rest[-END:]
    return f"{_SPLIT_END.sub('', first)}\n\n{_SPLIT_START.sub('', last)}"


_SPLIT_END = re.compile(r"(?<=\s)\S{1,40}\Z")
_SPLIT_START = re.compile(r"\A\S{1,40}(?=\s)")


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
