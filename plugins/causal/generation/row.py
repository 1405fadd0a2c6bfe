"""A row of a batch: a prompt, and the text that continues it token by token up to its end.

A row may think before it answers. Stop texts and formats hold for the answer only, and thinking has tokens of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from figeval.types import Finish, Reply

from .thinking import BLANKS, Marks

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from .sampling import Draws

LOOK_BACK = 2  # tokens more, because decoding drops a blank before the first one


class Format(Protocol):
    """Format that an answer is held to (`grammar.GrammarFormat`)."""

    def mask_scores(self, scores: Tensor) -> Tensor:
        """Return the scores of the next token, (1, vocabulary), with −∞ for tokens that may not follow."""

    def take(self, token: int) -> None:
        """Continue the answer by a token."""

    def restart(self) -> None:
        """Begin the answer anew."""


@dataclass(frozen=True)
class End:
    """Ends of a text: tokens, and stop texts.

    Attributes:
        tokenizer: the model's tokenizer; None if there are no stop texts and nobody asks for the text.
        tokens: ids of the tokens that end a text.
        stop: texts that end a text.
    """

    tokenizer: PreTrainedTokenizerBase | None
    tokens: frozenset[int]
    stop: tuple[str, ...] = ()

    def decode(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of some tokens, with or without special ones."""
        assert self.tokenizer is not None
        return str(self.tokenizer.decode(ids, skip_special_tokens=not special))

    def tokens_of(self, text: str) -> int:
        """Return the number of the last tokens in which a text is looked for: no token is shorter than a byte."""
        return len(text.encode()) + LOOK_BACK

    @cached_property
    def look_back(self) -> int:
        """Number of the last tokens in which stop texts are looked for."""
        return max(map(self.tokens_of, self.stop), default=0)

    def is_at(self, ids: Sequence[int]) -> bool:
        """Return whether a text, of which these are the tokens, ends with its last token."""
        if not ids:
            return False
        if ids[-1] in self.tokens:
            return True
        if not self.stop:
            return False
        ending = self.decode(ids[-self.look_back :])
        return any(text in ending for text in self.stop)

    def before_stop(self, text: str) -> str:
        return text[: min((text.find(stop) for stop in self.stop if stop in text), default=len(text))]


@dataclass(slots=True)
class Thinking:
    """The thinking of a row.

    Attributes:
        marks: the texts around it.
        max_tokens: most tokens of it; None if it shares those of the answer.
        opened: whether the prompt opens it; otherwise the model may.
        begun: whether it has begun; None as long as that is unknown.
        tokens: number of its tokens, with those of its marks; None as long as it has not ended.
    """

    marks: Marks
    max_tokens: int | None
    opened: bool
    begun: bool | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self.begun = True if self.opened else None
        self.tokens = None

    def read(self, ids: Sequence[int], end: End) -> None:
        """Take note of the last one of the tokens written so far."""
        if self.begun is None:
            text = end.decode(ids).lstrip(BLANKS)
            if text.startswith(self.marks.opening):
                self.begun = True
            elif not self.marks.opening.startswith(text):
                self.begun = False
        if self.begun is False:
            self.tokens = 0
        elif self.begun and self.marks.closing in end.decode(ids[-end.tokens_of(self.marks.closing) :]):
            self.tokens = len(ids)


@dataclass(slots=True, eq=False)
class Row:
    """A prompt and the tokens that continue it.

    Attributes:
        prompt: ids of the prompt's tokens, at least one.
        room: most tokens of the answer.
        end: what ends the answer.
        thinking: the thinking before the answer; None if there is none.
        format: what the answer must look like; None for anything.
        draws: by which tokens are drawn; None for the likeliest ones.
        written: ids of the text's tokens so far.
        finish: why the text ended, or None as long as it has not.
    """

    prompt: Sequence[int]
    room: int
    end: End
    thinking: Thinking | None = None
    format: Format | None = None
    draws: Draws | None = None
    written: list[int] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def ids(self) -> list[int]:
        """The tokens of the prompt and of the text so far."""
        return [*self.prompt, *self.written]

    @property
    def thoughts(self) -> int:
        """Number of tokens of the thinking so far."""
        if self.thinking is None:
            return 0
        if self.thinking.tokens is not None:
            return self.thinking.tokens
        return len(self.written) if self.thinking.begun else 0

    @property
    def max_tokens(self) -> int:
        """Number of tokens that the text may have at most."""
        if self.thinking is None or self.thinking.max_tokens is None:
            return self.room
        return self.room + (self.thinking.max_tokens if self.thinking.tokens is None else self.thinking.tokens)

    @property
    def remaining(self) -> int:
        """Number of further tokens that the text may have."""
        return self.max_tokens - len(self.written)

    @property
    def thinks(self) -> bool:
        """True if the next token may belong to the thinking."""
        return self.thinking is not None and self.thinking.tokens is None

    @property
    def answer_ids(self) -> list[int]:
        """The tokens of the answer so far, without blank ones that only part it from the thinking."""
        if self.thinking is None:
            return self.written
        ids = self.written[self.thoughts :]
        blanks = takewhile(self._is_blank, ids if self.thoughts else ())
        return ids[len(list(blanks)) :]

    def _is_blank(self, token: int) -> bool:
        return token not in self.end.tokens and not self.end.decode([token]).strip(BLANKS)

    def mask_scores(self, scores: Tensor) -> Tensor:
        """Return the scores of the next token, (1, vocabulary), with −∞ for tokens that may not follow."""
        return scores if self.format is None or self.thinks else self.format.mask_scores(scores)

    def take(self, token: int) -> None:
        """Continue the text by a token."""
        self.written.append(token)
        thinking = self.thinking
        if thinking is not None and thinking.tokens is None:
            thinking.read(self.written, self.end)
        elif self.format is not None:
            self.format.take(token)
        has_stopped = token in self.end.tokens if self.thinks else self.end.is_at(self.answer_ids)
        if has_stopped:
            self.finish = "stop"
        elif self.remaining <= 0 or (thinking is not None and self.thinks and self.thoughts == thinking.max_tokens):
            self.finish = "length"

    def restart(self) -> None:
        """Forget what has been written."""
        self.written.clear()
        self.finish = None
        for part in (self.thinking, self.format):
            if part is not None:
                part.restart()

    @property
    def text(self) -> str:
        """The answer so far, up to the first stop text."""
        answer = self.end.decode(self.written[self.thoughts :], special=False)
        if self.thoughts and self.thinking is not None:  # a token may end the thinking and begin the answer
            marked_text = self.end.decode(self.written[: self.thoughts])
            answer = (marked_text.partition(self.thinking.marks.closing)[2] + answer).lstrip(BLANKS)
        return self.end.before_stop(answer)

    @property
    def reasoning(self) -> str:
        """The thinking so far, without its marks."""
        if not self.thoughts or self.thinking is None:
            return ""
        marks = self.thinking.marks
        text = self.end.decode(self.written[: self.thoughts]).lstrip(BLANKS).removeprefix(marks.opening)
        return text.partition(marks.closing)[0].strip(BLANKS)

    @property
    def reply(self) -> Reply:
        """The answer so far, with its thinking and the tokens of both."""
        return Reply(
            text=self.text,
            finish=self.finish or "stop",
            reasoning=self.reasoning,
            answer_tokens=len(self.written) - self.thoughts,
            reasoning_tokens=self.thoughts,
        )
