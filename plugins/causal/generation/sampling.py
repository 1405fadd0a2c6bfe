"""Sampling: tokens are drawn with random numbers that belong to the request, so that no other request changes a text.

A token is drawn as the winner of a race: the scores of all tokens, divided by the temperature, each plus a number with
Gumbel's distribution. The winner has the probability of the softmax. Its number is a function of the seed, the prompt,
the place in the text and the token, and of nothing else, so batches and their order do not matter.

Scores differ a little between batches of different shapes, by ε, say. Another token then wins only where two are ahead
by less than ε, with a probability below ε. A draw from cumulated probabilities would add up the errors of all tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figeval.types import JSON

if TYPE_CHECKING:
    from torch import Tensor

# SplitMix64 (Steele, Lea and Flood 2014), whose state is here the key of a row plus a multiple for each token.
STEP = 0x9E3779B97F4A7C15
MULTIPLIERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31
BITS = 52  # of a random number; with half a unit more, a double still holds it exactly
WITHOUT_DOUBLES = ("mps",)  # devices
HEAD = 2_048  # likeliest tokens that are sorted first
CELLS = 1 << 23  # scores at a time, since the numbers of a large batch would take gigabytes


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options of a draw, which are applied in this order, as in transformers.

    Attributes:
        temperature: divisor of the scores, above 0.
        top_k: number of the likeliest tokens that are left; None for all.
        top_p: share of the probability of those that the likeliest of them must reach, which are left; None for all.
        seed: number that distinguishes samples.
    """

    temperature: float
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def draws(self, prompt: Sequence[int], sample: int = 0) -> Draws:
        """Return the draws of a text after a prompt; `sample` numbers several texts after the same prompt."""
        text = " ".join(map(str, (self.seed, sample, *prompt)))
        return Draws(self, hashlib.sha256(text.encode()).digest())

    def draw(self, scores: Tensor, keys: Sequence[int]) -> Tensor:
        """Return the token that each row draws, (rows,), from its scores, (rows, vocabulary), with its key."""
        import torch

        size = max(1, CELLS // scores.shape[-1])
        starts = range(0, len(scores), size)
        return torch.cat([self._draw(scores[start : start + size], keys[start : start + size]) for start in starts])

    def _draw(self, scores: Tensor, keys: Sequence[int]) -> Tensor:
        tokens, numbers = self._race(scores, keys)
        return tokens.gather(-1, numbers.argmax(-1, keepdim=True))[:, 0].to(scores.device)

    def _race(self, scores: Tensor, keys: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the tokens that may be drawn and the numbers of which the highest wins, both (rows, tokens)."""
        import torch

        if scores.device.type in WITHOUT_DOUBLES:
            scores = scores.cpu()
        tokens = torch.arange(scores.shape[-1], device=scores.device).expand_as(scores)
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            scores, tokens = scores.topk(self.top_k)
        logits = (scores.double() - scores.amax(-1, keepdim=True)) / self.temperature
        if self.top_p is not None:
            logits, tokens = self._nucleus(logits, tokens, self.top_p)
        return tokens, logits + gumbel(torch.tensor(keys, device=scores.device)[:, None], tokens)

    @staticmethod
    def _nucleus(logits: Tensor, tokens: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
        """Return the likeliest tokens, in falling order, whose logits are -∞ beyond a share of the probability."""
        import torch

        total = logits.logsumexp(-1, keepdim=True)
        for size in (min(HEAD, logits.shape[-1]), logits.shape[-1]):  # a few tokens mostly suffice, and all take long
            likeliest, indices = logits.topk(size)
            shares = (likeliest - total).exp()
            before = shares.cumsum(-1) - shares
            if bool((before[:, -1] + shares[:, -1] >= top_p).all()):
                break
        return likeliest.masked_fill(before >= top_p, -torch.inf), tokens.gather(-1, indices)

    def describe(self) -> JSON:
        """Return the options that are set, under the names of --model_args."""
        options = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        return {name: value for name, value in options.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', '-')} {value:g}" for name, value in self.describe().items())


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of one text; `digest` is that of the seed, the prompt and the number of the sample."""

    sampling: Sampling
    digest: bytes

    def key(self, step: int) -> int:
        """Return 64 random bits, as a signed number, for the token after so many others."""
        return int.from_bytes(hashlib.sha256(self.digest + step.to_bytes(8)).digest()[:8], signed=True)

    def lag(self, scores: Tensor, written: Sequence[int]) -> Tensor:
        """Return how far each token of a text is behind the one that the model would draw there, in nats, 0 or more.

        Args:
            scores: those of the tokens at each place of the text, (places, vocabulary).
            written: the tokens of the text.
        """
        import torch

        lags = []
        for step, (row, token) in enumerate(zip(scores.split(1), written, strict=True)):
            drawn = int(self.sampling.draw(row, [self.key(step)]))
            pair = torch.tensor([[drawn, token]], device=row.device)
            _, numbers = Sampling(self.sampling.temperature)._race(row, [self.key(step)])
            first, second = numbers.to(row.device).gather(-1, pair)[0]
            lags.append((first - second).clamp_min(0) * self.sampling.temperature)
        return torch.stack(lags)


def gumbel(keys: Tensor, tokens: Tensor) -> Tensor:
    """Return a number with Gumbel's distribution for each key and token: -log(-log(u)) with u between 0 and 1."""
    import torch

    state = keys + (tokens + 1) * signed(STEP)
    for shift, multiplier in MULTIPLIERS:
        state = (state ^ shifted(state, shift)) * signed(multiplier)
    bits = shifted(state ^ shifted(state, LAST_SHIFT), 64 - BITS)
    return -torch.log(-torch.log((bits.double() + 0.5) / (1 << BITS)))


def signed(number: int) -> int:
    """Return the signed number with the same 64 bits as an unsigned one: torch multiplies no others."""
    return number - (1 << 64) if number >> 63 else number


def shifted(numbers: Tensor, bits: int) -> Tensor:
    """Return 64-bit numbers shifted to the right, with zeros on the left even of negative ones."""
    return (numbers >> bits) & ((1 << 64 - bits) - 1)


def choose_tokens(scores: Tensor, draws: Sequence[Draws | None], steps: Sequence[int]) -> Tensor:
    """Return the next token of each row, (rows,): the one that is drawn, or the likeliest for rows without draws.

    Args:
        scores: scores of the next tokens, (rows, vocabulary).
        draws: those of each row.
        steps: number of tokens of each text so far.
    """
    tokens = scores.argmax(-1)
    for sampling in dict.fromkeys(row.sampling for row in draws if row is not None):
        keys = {
            index: row.key(step)
            for index, (row, step) in enumerate(zip(draws, steps, strict=True))
            if row is not None and row.sampling == sampling
        }
        tokens[list(keys)] = sampling.draw(scores[list(keys)], list(keys.values()))
    return tokens


@dataclass(frozen=True, slots=True)
class DrawProcessor:
    """A logits processor of transformers that leaves each row the one token that it draws.

    Attributes:
        draws: those of each row.
        columns: number of tokens before the texts.
    """

    draws: Sequence[Draws | None]
    columns: int

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores of which the drawn token has the highest."""
        step = input_ids.shape[1] - self.columns
        tokens = choose_tokens(scores, self.draws, [step] * len(self.draws))
        return scores.new_full(scores.shape, float("-inf")).scatter(-1, tokens[:, None], 0)
