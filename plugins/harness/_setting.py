"""How lm-eval wants prompts put, and who is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from figeval.types import Message, Prompt, plain_text


@dataclass(frozen=True, slots=True)
class Setting:
    """How lm-eval wants prompts, by its flags. `template` is that of the model, None without --apply_chat_template."""

    num_fewshot: int = 0
    system_instruction: str = ""
    template: Callable[..., Any] | None = None
    as_multiturn: bool = True

    def chat(self, messages: Sequence[Message]) -> Any:
        """A conversation as the model's template writes it; for a chat API, whatever lm-eval keeps it as."""
        assert self.template is not None
        turns = messages if self.as_multiturn else folded(messages)
        return self.template([asdict(turn) for turn in turns])

    def shown(self, prompt: Prompt) -> Any:
        """A prompt as the model's method wants it."""
        return prompt.plain if self.template is None else self.chat(prompt.messages)


def folded(messages: Sequence[Message]) -> list[Message]:
    """Solved examples and question as one turn of the user, behind the system message."""
    system = [message for message in messages if message.role == "system"]
    return [*system, Message("user", plain_text(messages[len(system) :]))]


@dataclass(frozen=True, slots=True)
class Reader:
    """What stands for the model where the prompt is put together."""

    converses: bool
    chat: Callable[[Sequence[Message]], str] | None


def asking_model() -> Any:
    """The LM that lm-eval is about to ask. It tells a task nothing about it, so its caller's variables are looked at;
    None where they hold none, which costs no more than to know of an answer that it was cut off.
    """
    from lm_eval.api.model import LM

    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("lm")
        if isinstance(found, LM):
            return found
        frame = frame.f_back
    return None
