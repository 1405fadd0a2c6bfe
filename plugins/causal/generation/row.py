"""A row of a batch: a prompt, and the text that continues it token by token up to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from figeval.types import Finish

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LOOK_BACK = 2  # tokens more than the stop text has, since it may have been written with other tokens (as in lm-eval)


@dataclass(frozen=True)
class End:
    """What ends a text: a token, or a stop text.

    Attributes:
        tokenizer: the model's tokenizer; None if there are no stop texts and nobody asks for the text.
        tokens: ids of the tokens that end a text.
        stop: texts that end a text.
    """

    tokenizer: PreTrainedTokenizerBase | None
    tokens: frozenset[int]
    stop: tuple[str, ...] = ()

    @cached_property
    def look_back(self) -> int:
        """Number of the last tokens in which a stop text is looked for."""
        lengths = (len(self.tokenizer.encode(text, add_special_tokens=False)) for text in self.stop)
        return max(lengths, default=0) + LOOK_BACK

    def is_at(self, ids: Sequence[int]) -> bool:
        """Return whether a text that begins with `ids[0]` ends with its last token."""
        if ids[-1] in self.tokens:
            return True
        if not self.stop:
            return False
        last = self.tokenizer.decode(ids[-self.look_back :])
        return any(text in last for text in self.stop)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of some tokens, up to the first stop text."""
        text = str(self.tokenizer.decode(ids, skip_special_tokens=True))
        return text[: min((text.find(stop) for stop in self.stop if stop in text), default=len(text))]


@dataclass(slots=True, eq=False)
class Row:
    """A prompt and the tokens that continue it.

    Attributes:
        prompt: ids of the prompt's tokens, at least one.
        room: most tokens of the text.
        end: what ends the text.
        written: ids of the text's tokens so far.
        finish: why the text ended, or None as long as it has not.
    """

    prompt: Sequence[int]
    room: int
    end: End
    written: list[int] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def ids(self) -> list[int]:
        """The tokens of the prompt and of the text so far."""
        return [*self.prompt, *self.written]

    @property
    def left(self) -> int:
        """Number of further tokens that the text may have."""
        return self.room - len(self.written)

    def take(self, token: int) -> None:
        """Continue the text by a token."""
        self.written.append(token)
        if self.end.is_at(self.written):
            self.finish = "stop"
        elif self.left <= 0:
            self.finish = "length"

    @property
    def text(self) -> str:
        """The text so far, up to the first stop text."""
        return self.end.text(self.written)


def final_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of all tokens that end a text according to the model's generation config and the tokenizer."""
    known = model.generation_config.eos_token_id
    given = known if isinstance(known, list) else [known]
    return frozenset(token for token in (*given, tokenizer.eos_token_id) if token is not None)
