"""What requests cost: estimated before they are sent, and bounded by a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from figeval.errors import BudgetExhausted
from figeval.models.archive import Usage
from figeval.types import Prompt

from .settings import ApiSettings

BYTES = 4  # of a text make about a token, in English and, by UTF-8, roughly elsewhere too
PER_TURN = 4  # tokens around each turn


def expected(prompt: Prompt, settings: ApiSettings) -> Usage:
    """The tokens that a request will read, about, and that it may write at most."""
    texts = [message.content for message in prompt.messages]
    read = sum(PER_TURN + len(text.encode("utf-8", "replace")) // BYTES for text in texts)
    return Usage(read, prompt.max_new_tokens + settings.reasoning_tokens)


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES)


@dataclass(slots=True)
class Budget:
    """What the run has spent over all its sessions, and what the requests under way may still cost.

    What a request may cost is reserved before it is sent, so that the budget holds with many under way at once.
    """

    settings: ApiSettings
    spent: Usage = field(default_factory=Usage)
    reserved: Usage = field(default_factory=Usage)
    scale: float = 1.0  # by how much the estimate of what is read was too low at worst

    @property
    def bounded(self) -> bool:
        """Whether there is a budget."""
        return self.settings.max_tokens is not None or self.settings.max_cost is not None

    def likely(self, guess: Usage) -> Usage:
        """An estimate, put right by what answers have cost so far."""
        return Usage(math.ceil(guess.tokens_in * self.scale), guess.tokens_out)

    def learn(self, guess: Usage, used: Usage) -> None:
        """Compare an estimate with what it came to."""
        self.scale = max(self.scale, used.tokens_in / max(1, guess.tokens_in))

    def cost(self, usage: Usage) -> float | None:
        """What tokens cost at the prices given, None without prices."""
        read, wrote = self.settings.input_price, self.settings.output_price
        if read is None or wrote is None:
            return None
        return (usage.tokens_in * read + usage.tokens_out * wrote) / 1_000_000

    def allows(self, more: Usage) -> bool:
        """Whether the budget has room for so much more."""
        whole = self.spent + self.reserved + more
        cost = self.cost(whole)
        within_tokens = self.settings.max_tokens is None or whole.total <= self.settings.max_tokens
        return within_tokens and (self.settings.max_cost is None or cost is None or cost <= self.settings.max_cost)

    def exhausted(self) -> BudgetExhausted:
        """The error to end the run with."""
        limits = [f"--{name} {value:g}" for name in ("max_cost", "max_tokens")
                  if (value := getattr(self.settings, name)) is not None]  # fmt: skip
        return BudgetExhausted(
            f"the budget ({' and '.join(limits)}) has no room for another request: {self.say(self.spent)} spent; what "
            f"was answered is kept, and the same command with more goes on"
        )

    def say(self, usage: Usage) -> str:
        """`1,234 tokens, 0.56`, the cost where there are prices."""
        cost = self.cost(usage)
        return f"{usage.total:,} tokens" + ("" if cost is None else f" at a cost of {cost:,.4f}")
