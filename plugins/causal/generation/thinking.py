"""Thinking before the answer: by which marks a model sets it apart, and how its chat template switches it.

| family | thinking | switch of the template |
|---|---|---|
| Qwen3, SmolLM3, DeepSeek, Granite | `<think>` … `</think>` | `enable_thinking`, `thinking`, or none |
| Command A | `<|START_THINKING|>` … `<|END_THINKING|>` | `reasoning` |
| Magistral | `[THINK]` … `[/THINK]` | none |
| gpt-oss | the channel `analysis`, before the channel `final` | none |

Some templates open the thinking in the header of the answer, and some models open it themselves. A chat template is a
text from outside: it is searched for names and marks, and only transformers' sandbox executes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figeval.types import JSON

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SWITCHES = ("enable_thinking", "thinking", "reasoning")  # variables of templates
BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Marks:
    """The texts around a model's thinking.

    Attributes:
        opening: text before it.
        closing: text after it, before the answer.
        skipped: text with which an answer without thinking begins.
        blank: what follows the opening.
    """

    opening: str
    closing: str
    skipped: str
    blank: str = ""

    def opened_in(self, prompt: str) -> bool:
        """Return whether a prompt ends where thinking has begun."""
        return prompt.rstrip(BLANKS).endswith(self.opening)

    def switch(self, prompt: str, *, on: bool, by_template: bool) -> str:
        """Return a prompt after which the model thinks, or answers at once.

        Args:
            prompt: prompt up to the beginning of the answer.
            on: whether the model is to think.
            by_template: whether the chat template has been told so.
        """
        is_open = self.opened_in(prompt)
        if on:
            return prompt if is_open else prompt + self.opening + self.blank
        if is_open:
            return prompt.rstrip(BLANKS).removesuffix(self.opening) + self.skipped
        return prompt if by_template else prompt + self.skipped


FAMILIES = (
    Marks("<think>", "</think>", "<think>\n\n</think>\n\n", "\n"),
    Marks("<|START_THINKING|>", "<|END_THINKING|>", "<|START_THINKING|><|END_THINKING|>"),
    Marks("[THINK]", "[/THINK]", "[THINK][/THINK]"),
    Marks(
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
    ),
)


def marks_of(tokenizer: PreTrainedTokenizerBase, template: str) -> Marks | None:
    """Return the marks of a model's thinking: those in its chat template, or else among its added tokens."""
    added_tokens = tokenizer.get_added_vocab()
    for marks in FAMILIES:
        first = re.match(r"<\|\w+\|>|.+", marks.opening)
        assert first is not None
        if marks.opening in template or marks.closing in template or first[0] in added_tokens:
            return marks
    return None


def template_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the chat template of a tokenizer, or "" if it has none."""
    try:
        return str(tokenizer.get_chat_template())
    except ValueError:  # none, or several of which none is the default
        return ""


def switch_of(template: str, *, on: bool) -> JSON:
    """Return the variables by which a chat template switches thinking on or off; empty if it has none."""
    return {name: on for name in SWITCHES if re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", template)}
