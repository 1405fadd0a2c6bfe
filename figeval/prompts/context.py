"""What a route may know of its task beside the example: prompts, labels, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from figeval.types import Example, Message, Prompt, plain_text

Chat: TypeAlias = Callable[[Sequence[Message]], str]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # the names of options, in the order in which they are shown


def no_shots(_example: Any) -> Sequence[Any]:
    """Show no solved examples."""
    return ()


def _empty() -> Sequence[Any]:
    return ()


def _no_answer(_block: str, _example: Any, _context: PromptContext) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Prompts of one task as one model reads them, and what the task says of its answers.

    Attributes:
        block: `block(name, example, **extra)` renders a block of the task's template and nothing around it.
        labels: the labels of the task, in order; the first is the positive one.
        settings: values of the settings that the route declares (`threshold`, `temperature`, …).
        verbalizer: label → words that express it.
        vocabulary: role → words of the task: what it calls an `option` and the `answer` (see `extract_choice`).
        metrics: names of the metrics that were asked for.
        shots: `shots(example)` are the solved examples to show before it.
        few_shot_answer: `few_shot_answer(block, example, context)` is the answer to a solved example as the task type
            writes it, None where the block takes no solved examples.
        system: the system message, empty without one.
        chat: turns a conversation into text as the model's chat template does; None where there is no template, or
            none on this side of an API.
        stop: texts at which an answer in words ends.
        max_new_tokens: the longest answer in words.
        pool: `pool()` are the examples of the training split, for routes that answer with one of them.
    """

    block: Callable[..., str]
    labels: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbalizer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vocabulary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: frozenset[str] = frozenset()
    shots: Callable[[Any], Sequence[Any]] = no_shots
    few_shot_answer: Callable[[str, Any, PromptContext], str | None] = _no_answer
    system: str = ""
    chat: Chat | None = None
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 16
    pool: Callable[[], Sequence[Any]] = _empty

    def turns(self, block: str, example: Example, **extra: Any) -> tuple[Message, ...]:
        """Return the conversation that ends with this block as a question: system message, solved examples, question.

        A solved example is a user's turn and an assistant's, which begins as it would continue the user's text.
        """
        turns = [Message("system", self.system)] if self.system else []
        for shot in self.shots(example):
            answer = self.few_shot_answer(block, shot, self)
            if answer is not None:
                turns += [Message("user", self.block(block, shot)), Message("assistant", answer)]
        return (*turns, Message("user", self.block(block, example, **extra)))

    def question(self, block: str, example: Example, **extra: Any) -> str:
        """Return the whole conversation before the answer as one text, for a model that goes on with it."""
        turns = self.turns(block, example, **extra)
        return plain_text(turns) if self.chat is None else self.chat(turns)

    def prompt(self, block: str, example: Example) -> Prompt:
        """Return the conversation as a request for an answer in words.

        A model that merely goes on with a text is stopped where it asks itself the next question, too: at a line that
        begins as the last one of ours does ("Answer:").
        """
        turns = self.turns(block, example)
        cue = turns[-1].content.rpartition("\n")[2].strip()
        return Prompt(turns, (*self.stop, f"\n{cue}") if self.stop and cue else self.stop, self.max_new_tokens)

    def begun(self, answer: str) -> str:
        """Return an answer as the model would begin it: no blank parts it from a chat template's header."""
        return answer if self.chat is None else answer.lstrip(" ")

    def words(self, label: str) -> tuple[str, ...]:
        """Return the words that express a label: those of the task's verbalizer, else the label itself."""
        return self.verbalizer.get(label, (label,))
