"""The cost of requests: estimated before they are sent, and bounded by a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from figeval.errors import BudgetExhausted
from figeval.models.archive import Usage
from figeval.types import Prompt

from .settings import ApiSettings

BYTES = 4  # bytes of text per token, roughly: in English and, because of UTF-8, in most other languages
BATCH_SHARE = 0.5  # of the price, at OpenAI and Anthropic alike
PER_TURN = 4  # tokens around each turn


def expected(prompt: Prompt, most: int) -> Usage:
    """Return the estimated tokens that a request reads, and `most`, those that it may write."""
    texts = [message.content for message in prompt.messages]
    read = sum(PER_TURN + len(text.encode("utf-8", "replace")) // BYTES for text in texts)
    return Usage(read, most)


def estimated_tokens(text: str) -> int:
    """Return an estimate of the number of tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES)


@dataclass(slots=True)
class Budget:
    """Tokens spent by the run over all its sessions, and tokens reserved for pending requests.

    The maximum cost of a request is reserved before it is sent, so that the budget holds with many requests pending.
    Tokens of batches count in full, and cost half.
    """

    settings: ApiSettings
    spent: Usage = field(default_factory=Usage)
    batched: Usage = field(default_factory=Usage)  # of these, by batches
    reserved: Usage = field(default_factory=Usage)
    waiting: Usage = field(default_factory=Usage)  # reserved for batches
    scale: float = 1.0  # the largest factor so far by which an estimate of the input was too low

    @property
    def bounded(self) -> bool:
        """True if a limit is set."""
        return self.settings.max_tokens is not None or self.settings.max_cost is not None

    def likely(self, guess: Usage) -> Usage:
        """Return an estimate, corrected by the usage of earlier answers.

        No answer shows the price of a batch before it is submitted, so a limit is kept by a token for every byte.
        """
        scale = BYTES if self.settings.batch and self.bounded else self.scale
        return Usage(math.ceil(guess.tokens_in * scale), guess.tokens_out)

    def learn(self, guess: Usage, used: Usage) -> None:
        """Update the correction with the actual usage of an answer."""
        self.scale = max(self.scale, used.tokens_in / max(1, guess.tokens_in))

    def cost(self, usage: Usage, batched: Usage | None = None) -> float | None:
        """Return the cost of tokens, of which those of batches cost half, or None if no prices are given."""
        read, wrote = self.settings.input_price, self.settings.output_price
        if read is None or wrote is None:
            return None
        cheap = Usage() if batched is None else batched
        full = usage - cheap
        whole = full.tokens_in * read + full.tokens_out * wrote
        return (whole + BATCH_SHARE * (cheap.tokens_in * read + cheap.tokens_out * wrote)) / 1_000_000

    def allows(self, more: Usage) -> bool:
        """Return whether the budget has room for this additional usage."""
        whole = self.spent + self.reserved + self.waiting + more
        cost = self.cost(whole, self.batched + self.waiting + (more if self.settings.batch else Usage()))
        within_tokens = self.settings.max_tokens is None or whole.total <= self.settings.max_tokens
        return within_tokens and (self.settings.max_cost is None or cost is None or cost <= self.settings.max_cost)

    def exhausted(self) -> BudgetExhausted:
        """Return the error that ends the run."""
        limits = [f"--{name} {value:g}" for name in ("max_cost", "max_tokens")
                  if (value := getattr(self.settings, name)) is not None]  # fmt: skip
        return BudgetExhausted(
            f"the budget ({' and '.join(limits)}) does not allow another request: {self.told} spent; "
            "answers so far are kept; run the same command with a larger budget to continue"
        )

    @property
    def told(self) -> str:
        """The tokens spent, and their cost if prices are given, as in `1,234 tokens at a cost of 0.5600`."""
        cost = self.cost(self.spent, self.batched)
        return f"{self.spent.total:,} tokens" + ("" if cost is None else f" at a cost of {cost:,.4f}")
