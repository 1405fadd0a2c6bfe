"""The cost of requests: estimated before they are sent, and bounded by a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from figeval.errors import BudgetExhausted
from figeval.models.archive import Usage
from figeval.types import Prompt, Reply

from .settings import ApiSettings

BYTES = 4  # bytes of text per token, roughly: in English and, because of UTF-8, in most other languages
BATCH_SHARE = 0.5  # of the price, at OpenAI and Anthropic alike
PER_TURN = 4  # tokens around each turn
MOST_PER_TURN = 16  # tokens around each turn before an answer has shown how many there are
WHY = "the server counts more tokens than the texts have bytes, and these requests were already on their way"


@dataclass(frozen=True, slots=True)
class Call:
    """A request ready to be sent.

    Attributes:
        key: its key in the archive.
        body: what is sent.
        expected: its likely usage.
        size: bytes of its texts in UTF-8, which has at most as many tokens; 0 if `expected` is exact.
        turns: number of its turns.
        may_keep: function that returns whether a reply to it may be stored; it raises `ModelError` for a reply that no
            run could use.
    """

    key: str
    body: bytes
    expected: Usage
    size: int = 0
    turns: int = 0
    may_keep: Callable[[Reply], bool] = field(default=lambda _reply: True, compare=False)


def expected(prompt: Prompt, most: int) -> Usage:
    """Return the estimated tokens that a request reads, and `most`, those that it may write."""
    texts = [message.content for message in prompt.messages]
    read = sum(PER_TURN + len(text.encode("utf-8", "replace")) // BYTES for text in texts)
    return Usage(read, most)


def size_of(prompt: Prompt) -> int:
    """Return the number of bytes of a conversation's texts in UTF-8."""
    return sum(len(message.content.encode("utf-8", "replace")) for message in prompt.messages)


def estimated_tokens(text: str) -> int:
    """Return an estimate of the number of tokens of a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES)


@dataclass(slots=True)
class Budget:
    """Tokens spent by the run over all its sessions, and tokens reserved for pending requests.

    The most that a request can use is reserved before it is sent: a token for every byte of its texts, the tokens
    around them (the chat template, a system message of the server), and all that it may write. So the budget holds
    with many requests pending, however many tokens the next text has. Tokens of batches count in full, and cost half.
    """

    settings: ApiSettings
    spent: Usage = field(default_factory=Usage)
    batched: Usage = field(default_factory=Usage)  # of these, by batches
    reserved: Usage = field(default_factory=Usage)
    waiting: Usage = field(default_factory=Usage)  # reserved for batches
    scale: float = 1.0  # the largest factor so far by which an answer had more tokens than it may have
    templates: dict[int, int] = field(default_factory=dict)  # number of turns → the most tokens around their texts
    surplus: dict[int, int] = field(default_factory=dict)  # number of turns → the most tokens beyond a token per byte

    earlier: Usage | None = None  # spent by earlier sessions

    def open(self, spent: Usage, batched: Usage, waiting: Usage) -> None:
        """Take over what the archive says about the run."""
        self.earlier = spent if self.earlier is None else self.earlier
        self.spent, self.batched, self.waiting = spent, batched, waiting

    @property
    def bounded(self) -> bool:
        """True if a limit is set."""
        return self.settings.max_tokens is not None or self.settings.max_cost is not None

    def most(self, call: Call) -> Usage:
        """Return the most tokens that a request can use, as far as the server counts at most a token per byte."""
        if not call.size:
            return call.expected
        known = self._around(call.turns)
        around = known or MOST_PER_TURN * call.turns + max(map(self._around, self.templates), default=0)
        return Usage(call.size + around, math.ceil(call.expected.tokens_out * self.scale))

    def _around(self, turns: int) -> int:
        """Return the most tokens around the texts of so many turns, or 0 if none has been answered."""
        return max(self.templates.get(turns, 0), self.surplus.get(turns, 0))

    def learn(self, call: Call, used: Usage) -> None:
        """Learn from the usage of an answer how many tokens there are around texts, and whether the bound holds.

        A text has at least one token, and may have no more however long it is (blanks, repeated characters). So what a
        request reads without it is the most that can be around it, and what it reads beyond a token per byte the least.
        """
        if not call.size:
            return
        around = max(0, used.tokens_in - 1)
        self.templates[call.turns] = min(around, self.templates.get(call.turns, around))
        self.surplus[call.turns] = max(used.tokens_in - call.size, self.surplus.get(call.turns, 0))
        self.scale = max(self.scale, used.tokens_out / max(1, call.expected.tokens_out))

    @property
    def excess(self) -> str:
        """By how much the limit was exceeded, as a sentence, or "" if it holds."""
        if not self._within(self.earlier or Usage(), Usage()) or self._within(self.spent, self.batched):
            return ""
        limits = " and ".join(self.limits)
        return f"{self.told} were spent, more than {limits}; {WHY}"

    @property
    def limits(self) -> list[str]:
        """The flags that set a limit."""
        values = {name: getattr(self.settings, name) for name in ("max_cost", "max_tokens")}
        return [f"--{name} {value:g}" for name, value in values.items() if value is not None]

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
        return self._within(whole, self.batched + self.waiting + (more if self.settings.batch else Usage()))

    def _within(self, whole: Usage, batched: Usage) -> bool:
        cost = self.cost(whole, batched)
        within_tokens = self.settings.max_tokens is None or whole.total <= self.settings.max_tokens
        return within_tokens and (self.settings.max_cost is None or cost is None or cost <= self.settings.max_cost)

    def exhausted(self) -> BudgetExhausted:
        """Return the error that ends the run."""
        return BudgetExhausted(
            f"the budget ({' and '.join(self.limits)}) does not allow another request: {self.told} spent; "
            f"{self.excess and self.excess + '; '}answers so far are kept; run the same command with a larger budget "
            "to continue"
        )

    @property
    def told(self) -> str:
        """The tokens spent, and their cost if prices are given, as in `1,234 tokens at a cost of 0.5600`."""
        cost = self.cost(self.spent, self.batched)
        return f"{self.spent.total:,} tokens" + ("" if cost is None else f" at a cost of {cost:,.4f}")
