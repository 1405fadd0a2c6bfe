"""What a route may know of its task beside the example: prompts, labels, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from figeval.task_types.shown import ANSWERS, OPENING
from figeval.types import Message, Prompt, plain_text

Chat: TypeAlias = Callable[[Sequence[Message]], str]


def _no_shots(_example: Any) -> Sequence[Any]:
    return ()


def _no_pool() -> Sequence[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Briefing:
    """Prompts of one task as one model reads them, and what the task says of its answers.

    `block(name, example, **extra)` renders a block of the task's template and nothing around it; `shots(example)` are
    the solved examples to show before it. `chat` turns a conversation into text as the model's chat template does;
    None where there is no template, or none on this side of an API. `metrics` are the names of those asked for.
    `pool()` are the examples of the training split, for routes that answer with one of them.
    """

    block: Callable[..., str]
    labels: tuple[str, ...] = ()
    threshold: float = 0.5
    verbalizer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: frozenset[str] = frozenset()
    shots: Callable[[Any], Sequence[Any]] = _no_shots
    system: str = ""
    chat: Chat | None = None
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 16
    pool: Callable[[], Sequence[Any]] = _no_pool

    def turns(self, block: str, example: Any, **extra: Any) -> tuple[Message, ...]:
        """The conversation that ends with this block as a question: system message, solved examples, question.

        A solved example is a user's turn and an assistant's, which begins as it would continue the user's text.
        """
        told = [Message("system", self.system)] if self.system else []
        answer = ANSWERS.get((block, type(example)))
        if answer is not None:
            for shot in self.shots(example):
                told += [Message("user", self.block(block, shot)), Message("assistant", answer(shot, self))]
        return (*told, Message("user", self.block(block, example, **extra)))

    def render(self, block: str, example: Any, **extra: Any) -> str:
        """One block as a model reads it: a question as the whole conversation before its answer, any other as it is."""
        if block not in OPENING:
            return self.block(block, example, **extra)
        turns = self.turns(block, example, **extra)
        return plain_text(turns) if self.chat is None else self.chat(turns)

    def prompt(self, block: str, example: Any) -> Prompt:
        """The conversation as a request for an answer in words.

        A model that merely goes on with a text is stopped where it asks itself the next question, too: at a line that
        begins as the last one of ours does ("Answer:").
        """
        turns = self.turns(block, example)
        cue = turns[-1].content.rpartition("\n")[2].strip()
        return Prompt(turns, (*self.stop, f"\n{cue}") if self.stop and cue else self.stop, self.max_new_tokens)

    def begun(self, answer: str) -> str:
        """An answer as the model would begin it: no blank parts it from a chat template's header."""
        return answer if self.chat is None else answer.lstrip(" ")

    def words(self, label: str) -> tuple[str, ...]:
        """The words that express a label: those of the task's verbalizer, else the label itself."""
        return self.verbalizer.get(label, (label,))
