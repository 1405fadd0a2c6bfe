"""The cost of requests: estimated before they are sent, and bounded by a budget."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from figeval.errors import BudgetExhausted
from figeval.io.text import pluralize
from figeval.types import Prompt, Reply

from .api_settings import ApiSettings
from .archive import Usage

BYTES_PER_TOKEN = 4  # roughly: in English and, because of UTF-8, in most other languages
BATCH_SHARE = 0.5  # of the price, at OpenAI and Anthropic alike
TOKENS_PER_TURN = 4  # tokens around each turn
MAX_TOKENS_PER_TURN = 16  # tokens around each turn before an answer has shown how many there are
MAX_UNCOUNTED_ALONE = 4  # answers without a count of tokens after which requests no longer wait for one
EXCESS_REASON = "the server counts more tokens than the texts have bytes, and these requests were already on their way"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request ready to be sent.

    Attributes:
        key: its key in the archive.
        body: what is sent.
        expected: its likely usage.
        size: bytes of its texts and of the schema of its answer in UTF-8, which have at most as many tokens; 0 if
            `expected` is exact.
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


def estimate_usage(prompt: Prompt, max_tokens_out: int) -> Usage:
    """Return the estimated tokens that a request reads, and `max_tokens_out`, those that it may write."""
    texts = [message.content for message in prompt.messages]
    tokens_in = sum(TOKENS_PER_TURN + byte_count(text) // BYTES_PER_TOKEN for text in texts)
    return Usage(tokens_in, max_tokens_out)


def size_of(prompt: Prompt) -> int:
    """Return the number of bytes, in UTF-8, of a conversation's texts and of the schema of its answer.

    Some servers show the schema to the model, and one with the options of a question is another for each.
    """
    schema = "" if prompt.answer is None else json.dumps(prompt.answer.json_schema, ensure_ascii=False)
    return byte_count(schema) + sum(byte_count(message.content) for message in prompt.messages)


def reply_bytes(reply: Reply) -> int:
    """Return the number of bytes of a reply's texts in UTF-8."""
    return byte_count(reply.reasoning) + byte_count(reply.text)


def byte_count(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


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
    counted: int = 0  # answers of this session with the server's count of tokens
    uncounted: int = 0  # and without

    earlier: Usage | None = None  # spent by earlier sessions

    def open(self, spent: Usage, batched: Usage, waiting: Usage) -> None:
        """Take over what the archive says about the run."""
        self.earlier = spent if self.earlier is None else self.earlier
        self.spent, self.batched, self.waiting = spent, batched, waiting

    @property
    def bounded(self) -> bool:
        """True if a limit is set."""
        return self.settings.max_tokens is not None or self.settings.max_cost is not None

    def max_usage(self, call: ApiCall) -> Usage:
        """Return the most tokens that a request can use, as far as the server counts at most a token per byte."""
        if not call.size:
            return call.expected
        measured_tokens = self._around(call.turns)
        around = measured_tokens or MAX_TOKENS_PER_TURN * call.turns + self._around_other_turns(call.turns)
        return Usage(call.size + around, math.ceil(call.expected.tokens_out * self.scale))

    def _around(self, turns: int) -> int:
        """Return the most tokens around the texts of so many turns, or 0 if none has been answered."""
        return max(self.templates.get(turns, 0), self.surplus.get(turns, 0))

    def _around_other_turns(self, turns: int) -> int:
        """Return the most tokens around so many turns by answers to other numbers of turns, or 0 without answers.

        There are at most as many around each turn as around each of fewer turns.
        """
        return min((self._around(count) * math.ceil(max(1, turns / count)) for count in self.templates), default=0)

    @property
    def needs_count(self) -> bool:
        """True if the next request shall go alone, because no answer has shown yet how the server counts."""
        return self.bounded and not self.counted and self.uncounted < MAX_UNCOUNTED_ALONE

    def count_lost(self, call: ApiCall) -> Usage:
        """Return the tokens to charge for a request whose answer was lost on the way: the most under a limit."""
        return self.max_usage(call) if self.bounded else call.expected

    def count_unreported(self, call: ApiCall, reply: Reply) -> Usage:
        """Return the tokens to charge for a request whose answer came without a count.

        They are an estimate without a limit, and with one the most that there can be: a budget is about the tokens that
        the server counts, whether it reports them or not.
        """
        self.uncounted += 1
        if not self.bounded:
            return Usage(call.expected.tokens_in, math.ceil(reply_bytes(reply) / BYTES_PER_TOKEN))
        limit = self.max_usage(call)
        return Usage(limit.tokens_in, self.max_written_tokens(reply, limit.tokens_out))

    def max_written_tokens(self, reply: Reply, limit: int) -> int:
        """Return the most tokens of a reply without a count, given the most by its limit; thoughts may be hidden."""
        thinking = self.settings.thinking
        hidden = thinking is not None and thinking.on and not reply.reasoning
        return limit if hidden else min(limit, reply_bytes(reply) + 1)  # and one for the end

    def learn(self, call: ApiCall, usage: Usage) -> None:
        """Learn from the usage of an answer how many tokens there are around texts, and whether the bound holds.

        A text has at least one token, and may have no more however long it is (blanks, repeated characters). So what a
        request reads without it is the most that can be around it, and what it reads beyond a token per byte the least.
        """
        self.counted += 1
        if not call.size:
            return
        around = max(0, usage.tokens_in - 1)
        self.templates[call.turns] = min(around, self.templates.get(call.turns, around))
        self.surplus[call.turns] = max(usage.tokens_in - call.size, self.surplus.get(call.turns, 0))
        self.scale = max(self.scale, usage.tokens_out / max(1, call.expected.tokens_out))

    @property
    def excess(self) -> str:
        """By how much the limit was exceeded, as a sentence, or "" if it holds."""
        if not self._within(self.earlier or Usage(), Usage()) or self._within(self.spent, self.batched):
            return ""
        limits = " and ".join(self.limits)
        return f"{self.summary} were spent, more than {limits}; {EXCESS_REASON}"

    @property
    def gaps(self) -> str:
        """Which answers came without a count of tokens, and how they are charged, as a sentence, or "" if none did."""
        if not self.uncounted:
            return ""
        answers = (
            f"{self.uncounted} of {pluralize(self.counted + self.uncounted, 'answer')} came without a count of tokens"
        )
        if not self.bounded:
            return f"{answers}, so the tokens of the run are an estimate"
        rule = "each is charged with the most tokens that its texts can have, one per byte"
        if self.counted:
            return f"{answers}; {rule}, and with those that the server adds by its other answers"
        each = MAX_TOKENS_PER_TURN
        return f"{answers}; {rule}, and {each} for each turn; the budget cannot hold if the server adds more"

    @property
    def limits(self) -> list[str]:
        """The flags that set a limit."""
        values = {name: getattr(self.settings, name) for name in ("max_cost", "max_tokens")}
        return [f"--{name} {value:g}" for name, value in values.items() if value is not None]

    def cost(self, usage: Usage, batched: Usage | None = None) -> float | None:
        """Return the cost of tokens, of which those of batches cost half, or None if no prices are given."""
        input_price, output_price = self.settings.input_price, self.settings.output_price
        if input_price is None or output_price is None:
            return None
        batch = Usage() if batched is None else batched
        regular = usage - batch
        total = regular.tokens_in * input_price + regular.tokens_out * output_price
        return (total + BATCH_SHARE * (batch.tokens_in * input_price + batch.tokens_out * output_price)) / 1_000_000

    def allows(self, usage: Usage) -> bool:
        """Return whether the budget has room for this additional usage."""
        total = self.spent + self.reserved + self.waiting + usage
        return self._within(total, self.batched + self.waiting + (usage if self.settings.batch else Usage()))

    def _within(self, total: Usage, batched: Usage) -> bool:
        cost = self.cost(total, batched)
        within_tokens = self.settings.max_tokens is None or total.total <= self.settings.max_tokens
        return within_tokens and (self.settings.max_cost is None or cost is None or cost <= self.settings.max_cost)

    def exhaustion_error(self) -> BudgetExhausted:
        """Return the error that ends the run."""
        return BudgetExhausted(
            f"the budget ({' and '.join(self.limits)}) does not allow another request: {self.summary} spent; "
            f"{''.join(f'{note}; ' for note in (self.excess, self.gaps) if note)}answers so far are kept; run the same "
            "command with a larger budget to continue"
        )

    @property
    def summary(self) -> str:
        """The tokens spent, and their cost if prices are given, as in `1,234 tokens at a cost of 0.5600`."""
        cost = self.cost(self.spent, self.batched)
        return f"{self.spent.total:,} tokens" + ("" if cost is None else f" at a cost of {cost:,.4f}")
