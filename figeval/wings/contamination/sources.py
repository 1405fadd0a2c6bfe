"""Sources of the numbers of measures: a model, whose numbers are kept, or an estimate of its work."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar, Protocol, TypeAlias

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from figeval import (
    AnswerFile,
    Continuation,
    Dialogue,
    Example,
    Inquiry,
    Message,
    Model,
    Prediction,
    Prompt,
    Reply,
    TaskError,
    strip_reasoning,
)
from figeval.io.frontend import warn
from figeval.io.text import clean_json, pluralize
from figeval.wings.contamination.rewrites import words_of
from figeval.wings.contamination.statistics import least_likely, standardize

COMPLETION_PROMPT = "Complete this saying with its last word. Answer with that word alone.\n\n{} …"
MAX_COMPLETION_TOKENS = 32
LOGLIKELIHOOD = "loglikelihood of a whole text"  # in the digests; other numbers than those of earlier versions
Value: TypeAlias = "float | list[float | None] | None"
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
        """Return for each beginning and last word 1 if the model writes that word, else 0; None without a reply.

        A failed reply is not kept, so the next call asks again.
        """


class TokenText(str):
    """Request for the probability of each token of a text, which models answer that are `figeval.ScoresTokens`."""

    __slots__ = ()
    capability: ClassVar[str] = "token_scores"


@dataclass(frozen=True, slots=True)
class TextsExample(Example):
    """A text, or a text and its continuation, that one number is about."""

    content: tuple[str, ...]


class StoredValue(TypedDict):
    """A number that a model gave, under a digest of what was asked, never its text."""

    key: str
    value: Value


@dataclass
class ModelSource:
    """A model, and the numbers that it has given, in a file that no other process writes.

    Attributes:
        model: the model.
        file: its numbers; those of earlier sessions are not computed again.
        values: the numbers by key, those of earlier sessions included.
        fingerprint: fingerprint of the model, a part of each key; a model may read its weights to compute it.
        observe: function that receives how many requests have a number, whenever these are more.
    """

    model: Model
    file: AnswerFile[StoredValue]
    values: dict[str, Value]
    fingerprint: str
    observe: Callable[[int], None] = lambda _: None
    n_values: int = field(default=0, init=False)

    @classmethod
    def of(cls, model: Model, file: AnswerFile[StoredValue]) -> ModelSource:
        """Return a model with the numbers in a file, which is locked. Raises `RecordError` if it is damaged."""
        return cls(model, file, {row["key"]: row["value"] for row in file.rows()}, model.fingerprint())

    def with_observer(self, observe: Callable[[int], None]) -> ModelSource:
        """Return the same source with another observer, which counts from 0."""
        return replace(self, observe=observe)

    @property
    def offers(self) -> frozenset[str]:
        has_token_scores = callable(getattr(self.model.backend, "token_scores", None))
        return self.model.offers | ({"token_scores"} if has_token_scores else set())

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        def begin(example: TextsExample) -> Dialogue:
            context, continuation = example.content
            (output,) = yield [Continuation(context, continuation)]
            if math.isnan(value := float(output)):
                raise TaskError(
                    f"{self.model.name} gave no log-likelihood (NaN) for a text of {len(context + continuation):,} "
                    "characters; a text without a token, or one that is longer than the model takes, cannot be measured"
                )
            return Prediction(example_id=example.id, value=value)

        values: list[float] = self._ask(LOGLIKELIHOOD, pairs, begin)
        return values

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        def begin(example: TextsExample) -> Dialogue:
            (tokens,) = yield [TokenText(*example.content)]
            values = [least_likely(tokens[:, 0]), least_likely(standardize(tokens))]
            return Prediction(example_id=example.id, value=values)

        values: list[list[float | None]] = self._ask("token_scores", [(text,) for text in texts], begin)
        return values

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        def begin(example: TextsExample) -> Dialogue:
            beginning, word = example.content
            question = Message("user", COMPLETION_PROMPT.format(beginning))
            (reply,) = yield [Prompt((question,), stop=("\n\n",), max_new_tokens=MAX_COMPLETION_TOKENS)]
            is_failure = isinstance(reply, Reply) and reply.finish == "error"
            value = completes(reply, word)
            return Prediction(example_id=example.id, value=value, status="error" if is_failure else "ok")

        values: list[float | None] = self._ask("generate", texts, begin)
        return values

    def _ask(self, method: str, contents: Sequence[tuple[str, ...]], begin: Callable[[TextsExample], Dialogue]) -> Any:
        """Return the values about all contents, in order; a repeated content is asked about once."""
        keys = [self._key(method, content) for content in contents]
        examples = {key: TextsExample(id=key, content=content) for key, content in zip(keys, contents, strict=True)}
        inquiry = Inquiry(examples.values, begin, self.values.keys)
        self._advance(len(contents) - sum(1 for _ in inquiry.missing()))
        with self.file.appending() as append:

            def store(example: TextsExample, prediction: Prediction) -> None:
                append({"key": example.id, "value": prediction.value})
                self.values[example.id] = prediction.value

            for count in inquiry.answer(self.model, store):
                self._advance(count)
        if failures := sum(1 for _ in inquiry.missing()):
            warn(f"{self.model.name}: {pluralize(failures, 'request')} failed; repeat the same call to ask again")
        return [self.values.get(key) for key in keys]

    def _key(self, method: str, content: tuple[str, ...]) -> str:
        return sha256(json.dumps([self.fingerprint, method, *content]).encode()).hexdigest()

    def _advance(self, requests: int) -> None:
        self.n_values += requests
        self.observe(self.n_values)


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
    words = words_of(strip_reasoning(clean_json(reply.text if isinstance(reply, Reply) else reply)))
    if not words:
        return None
    return float(word.casefold() in (words[0].casefold(), words[-1].casefold()))
