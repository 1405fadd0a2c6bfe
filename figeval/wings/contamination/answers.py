"""Numbers that a model gave, kept on disk as they come, so that an interrupted measurement asks for none twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from figeval.errors import RecordError, TaskError
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.storage import cure
from figeval.io.text import cleaned, counted
from figeval.models.capabilities import ask
from figeval.models.model import Model
from figeval.plugins import foreign_code
from figeval.types import Continuation, Message, Prompt, Reply
from figeval.wings.contamination.statistics import least_likely, standardized

Value: TypeAlias = "float | list[float | None] | None"
AT_ONCE = 256  # requests of a call; an interrupt loses those of one
ASKED = "Complete this saying with its last word. Answer with that word alone.\n\n{} …"
NEW_TOKENS = 32
LOGLIKELIHOOD = "loglikelihood of a whole text"  # in the digests; other numbers than those of earlier versions
UNUSED = ("error", "refusal")  # finishes of replies that say nothing about what the model knows


@dataclass
class Answers:
    """A model, and the numbers that it has given.

    Attributes:
        file: a line for each number, with a digest of what was asked and never its text.
        done: number of requests that are answered, those of earlier sessions included.
        told: function that is told this number whenever it grows.
    """

    model: Model
    fingerprint: str
    file: Path
    done: int = 0
    told: Callable[[int], None] = lambda _done: None
    _known: dict[str, Value] = field(default_factory=dict)

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the model, with the optional method `token_scores` if it has one."""
        has = callable(getattr(self.model.backend, "token_scores", None))
        return self.model.offers | ({"token_scores"} if has else set())

    @classmethod
    def of(cls, model: Model, file: Path) -> Answers:
        """Return the answers with those of earlier sessions; a last line that a kill cut short is dropped.

        Raises:
            RecordError: the file cannot be read.
        """
        found = cls(model, model.fingerprint(), file)
        with cure(file):
            lines = file.read_bytes().split(b"\n") if file.is_file() else []
            if lines and lines[-1]:
                file.write_bytes(b"\n".join([*lines[:-1], b""]))
        for number, line in enumerate(lines[:-1], start=1):
            try:
                stored = parse_json(line)
                found._known[stored["key"]] = stored["value"]
            except (InvalidJSON, KeyError, TypeError) as error:
                raise RecordError(f"{file}:{number}: not a stored answer; delete the file to ask again") from error
        return found

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return log P(continuation | context) of each pair, in nats. Raises `TaskError` if it has none."""

        def compute(chosen: Sequence[tuple[str, ...]]) -> list[Value]:
            values = [
                float(value) for value in ask(self.model.backend, [Continuation(*pair) for pair in chosen]).values
            ]
            if unscored := sum(map(math.isnan, values)):
                raise TaskError(
                    f"{self.model.name} gave no log-likelihood (NaN) for {counted(unscored, 'text')} of {len(values)}; "
                    "a text without a token, or one that is longer than the model takes, cannot be measured"
                )
            return list(values)

        values: Any = self._of(LOGLIKELIHOOD, pairs, compute)
        return list(values)

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        """Return Min-K% and Min-K%++ of each text."""

        def compute(chosen: Sequence[tuple[str, ...]]) -> list[Value]:
            with foreign_code():
                scores = self.model.backend.token_scores([text for (text,) in chosen]).values
            return [[least_likely(one[:, 0]), least_likely(standardized(one))] for one in scores]

        found: Any = self._of("token_scores", [(text,) for text in texts], compute)
        return list(found)

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return for each beginning and last word 1 if the model writes that word, else 0; None without a reply."""

        def compute(chosen: Sequence[tuple[str, ...]]) -> list[Value]:
            prompts = [
                Prompt((Message("user", ASKED.format(beginning)),), stop=("\n\n",), max_new_tokens=NEW_TOKENS)
                for beginning, _ in chosen
            ]
            replies = ask(self.model.backend, prompts).values
            return [completed(reply, word) for reply, (_, word) in zip(replies, chosen, strict=True)]

        found: Any = self._of("generate", texts, compute)
        return list(found)

    def _of(
        self,
        method: str,
        requests: Sequence[tuple[str, ...]],
        compute: Callable[[Sequence[tuple[str, ...]]], Sequence[Value]],
    ) -> list[Value]:
        """Return the numbers of all requests, in order; those that are not known are computed and stored."""
        keys = [sha256(json.dumps([self.fingerprint, method, *one]).encode()).hexdigest() for one in requests]
        missing = {key: one for key, one in zip(keys, requests, strict=True) if key not in self._known}
        waiting = list(missing)
        self._advance(len(requests) - len(waiting))
        for start in range(0, len(waiting), AT_ONCE):
            part = waiting[start : start + AT_ONCE]
            values = compute([missing[key] for key in part])
            with cure(self.file), self.file.open("a", encoding="utf-8") as stream:
                for key, value in zip(part, values, strict=True):
                    self._known[key] = value
                    stream.write(json.dumps({"key": key, "value": value}) + "\n")
            self._advance(len(part))
        return [self._known[key] for key in keys]

    def _advance(self, requests: int) -> None:
        self.done += requests
        self.told(self.done)


def completed(reply: Reply | str, word: str) -> float | None:
    """Return whether a reply begins or ends with a word, as 1 or 0; None if the model did not answer."""
    from figeval.answers.reply_text import strip_reasoning
    from figeval.wings.contamination.rewrites import words_of

    if isinstance(reply, Reply) and reply.finish in UNUSED:
        return None
    said = words_of(strip_reasoning(cleaned(reply.text if isinstance(reply, Reply) else reply)))
    if not said:
        return None
    return float(word.casefold() in (said[0].casefold(), said[-1].casefold()))
