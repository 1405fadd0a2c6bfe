"""Sources of the numbers of measures: a model, whose numbers are kept, or an estimate of its work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from figeval import Continuation, Message, Prompt, Reply, TaskError, strip_reasoning
from figeval.io.text import cleaned, counted
from figeval.models.capabilities import ask
from figeval.models.model import Model
from figeval.plugins import foreign_code
from figeval.wings.contamination.rewrites import words_of
from figeval.wings.contamination.statistics import least_likely, standardized
from figeval.wings.contamination.value_store import Compute, Request, Value, ValueStore

COMPLETION_PROMPT = "Complete this saying with its last word. Answer with that word alone.\n\n{} …"
MAX_COMPLETION_TOKENS = 32
LOGLIKELIHOOD = "loglikelihood of a whole text"  # in the digests; other numbers than those of earlier versions
SILENT_FINISHES = ("error", "refusal")  # of replies that say nothing about what the model knows


class ValueSource(Protocol):
    """Gives the numbers that measures need."""

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the model, with the optional method `token_scores` if it has one."""

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return log P(continuation | context) of each pair, in nats. Raises `TaskError` if it has none."""

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        """Return Min-K% and Min-K%++ of each text."""

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return for each beginning and last word 1 if the model writes that word, else 0; None without a reply."""


class ModelSource:
    """A model, and the numbers that it has given.

    Args:
        model: the model.
        store: its numbers, those of earlier sessions included.
        observe: function that receives how many requests have a number, whenever these are more.
    """

    def __init__(self, model: Model, store: ValueStore, observe: Callable[[int], None] = lambda _: None) -> None:
        self._model = model
        self._store = store
        self._observe = observe
        self._n_values = 0

    def with_observer(self, observe: Callable[[int], None]) -> ModelSource:
        """Return the same source with another observer, which counts from 0."""
        return ModelSource(self._model, self._store, observe)

    @property
    def offers(self) -> frozenset[str]:
        has_token_scores = callable(getattr(self._model.backend, "token_scores", None))
        return self._model.offers | ({"token_scores"} if has_token_scores else set())

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        def compute(requests: Sequence[Request]) -> list[Value]:
            continuations = [Continuation(*pair) for pair in requests]
            values = [float(value) for value in ask(self._model.backend, continuations).values]
            if unscored := sum(map(math.isnan, values)):
                raise TaskError(
                    f"{self._model.name} gave no log-likelihood (NaN) for {counted(unscored, 'text')} of "
                    f"{len(values)}; a text without a token, or one that is longer than the model takes, cannot be "
                    "measured"
                )
            return list(values)

        values: list[float] = self._values(LOGLIKELIHOOD, pairs, compute)
        return values

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        def compute(requests: Sequence[Request]) -> list[Value]:
            with foreign_code():
                scores = self._model.backend.token_scores([text for (text,) in requests]).values
            return [[least_likely(tokens[:, 0]), least_likely(standardized(tokens))] for tokens in scores]

        values: list[list[float | None]] = self._values("token_scores", [(text,) for text in texts], compute)
        return values

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        def compute(requests: Sequence[Request]) -> list[Value]:
            prompts = [
                Prompt(
                    (Message("user", COMPLETION_PROMPT.format(beginning)),),
                    stop=("\n\n",),
                    max_new_tokens=MAX_COMPLETION_TOKENS,
                )
                for beginning, _ in requests
            ]
            replies = ask(self._model.backend, prompts).values
            return [completes(reply, word) for reply, (_, word) in zip(replies, requests, strict=True)]

        values: list[float | None] = self._values("generate", texts, compute)
        return values

    def _values(self, method: str, requests: Sequence[Request], compute: Compute) -> Any:
        return self._store.values(method, requests, compute, self._advance)

    def _advance(self, requests: int) -> None:
        self._n_values += requests
        self._observe(self._n_values)


@dataclass
class Estimate:
    """A source that counts requests instead of answering them."""

    offers: frozenset[str]
    requests: int = 0
    letters: int = 0

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Count log-likelihoods; what pairs share may be read once."""
        self._count(len(pairs), sum(len(before) + len(after) for before, after in set(pairs)))
        return [0.0] * len(pairs)

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        self._count(len(texts), sum(map(len, texts)))
        return [[0.0, 0.0] for _ in texts]

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        """Count prompts."""
        self._count(len(texts), sum(len(beginning) for beginning, _ in texts))
        return [0.0] * len(texts)

    def _count(self, requests: int, letters: int) -> None:
        self.requests, self.letters = self.requests + requests, self.letters + letters


def completes(reply: Reply | str, word: str) -> float | None:
    """Return whether a reply begins or ends with a word, as 1 or 0; None if the model did not answer."""
    if isinstance(reply, Reply) and reply.finish in SILENT_FINISHES:
        return None
    words = words_of(strip_reasoning(cleaned(reply.text if isinstance(reply, Reply) else reply)))
    if not words:
        return None
    return float(word.casefold() in (words[0].casefold(), words[-1].casefold()))
