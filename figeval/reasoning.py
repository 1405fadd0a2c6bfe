"""The option `--reasoning`: whether and how long a model thinks before it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from figeval.errors import ModelError

DEFAULT_BUDGET_TOKENS = 4096  # tokens for thinking if no budget is given
MAX_BUDGET_TOKENS = 10**6  # tokens; no model thinks longer
FORMS = f"on, off, or budget=N with N from 1 to {MAX_BUDGET_TOKENS:,} tokens, such as budget=2000"
BUDGET = re.compile(r"budget=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Setting of a model that can think before it answers: whether it does, and for how many tokens.

    Attributes:
        on: whether it thinks.
        budget: number of tokens that it may think, in addition to those of its answer; None if the user gave none.
    """

    on: bool
    budget: int | None = None

    @classmethod
    def parse(cls, value: Any) -> Reasoning:
        """Return the value of a flag: `on`, `off` or `budget=N`; True and False are what YAML makes of the first two.

        Raises:
            ValueError: anything else, or a budget of 0.
        """
        if value in ("on", "off") or isinstance(value, bool):
            return cls(on=value in ("on", True))
        match = BUDGET.fullmatch(value) if isinstance(value, str) else None
        if match is None or not 1 <= (budget := int(match[1])) <= MAX_BUDGET_TOKENS:
            raise ValueError(FORMS)
        return cls(on=True, budget=budget)

    def __str__(self) -> str:
        if self.budget is not None:
            return f"budget={self.budget}"
        return "on" if self.on else "off"

    @property
    def tokens(self) -> int:
        """Number of tokens for thinking, in addition to those of the answer; 0 if it is off."""
        return (self.budget or DEFAULT_BUDGET_TOKENS) if self.on else 0

    @property
    def extended(self) -> Reasoning:
        """The same with twice the budget, for a second attempt after one that ended while the model still thought."""
        return Reasoning(self.on, 2 * self.tokens) if self.on else self

    def check_room(self, answer: int, context_length: int) -> None:
        """Check that the budget leaves room for a question and an answer.

        Args:
            answer: maximum number of tokens of an answer.
            context_length: maximum number of tokens that the model reads and writes together.

        Raises:
            ModelError: it does not.
        """
        if self.on and self.tokens + answer >= context_length:
            raise ModelError(
                f"--reasoning {self} leaves no room for an answer: {self.tokens:,} tokens of thinking and {answer:,} "
                f"of the answer do not fit into the {context_length:,} of the model, with the question; "
                "give a smaller --reasoning budget=N or --max_new_tokens"
            )
