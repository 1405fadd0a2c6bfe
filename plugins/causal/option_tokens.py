"""The tokens of options: lm-eval's where prompt and option meet at a border of tokens, and otherwise encoded apart.

A tokenizer may join the end of a prompt and the beginning of an option in one token, mostly in scripts without blanks.
lm-eval's rules then leave that token out, and the characters of the option that are in it. Here the option is encoded
without the prompt, so that its tokens cover exactly its characters. A token that the tokenizer puts after every text
belongs to neither.

An option without a token of its own, or one that is longer than the model takes, has no log-likelihood: it gets NaN,
and the other requests are scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from figeval.io.text import pluralize
from figeval.models.capabilities import Outputs, Part
from figeval.types import Continuation

from ..torch_models.alone import encode_alone
from .engine.prefix_tree import TokenRequest
from .lm_eval_requests import CausalTokenizer, Ids, Texts, encode_all, encode_apart, fit_request, is_cut, split_pair

if TYPE_CHECKING:
    from lm_eval.models.huggingface import HFLM

SAMPLE = "a"  # a text that shows which tokens the tokenizer puts around it


@dataclass(frozen=True, slots=True)
class OptionTokens:
    """An option after its prompt, in tokens.

    Attributes:
        context: ids of the prompt; of an encoder-decoder, those that the encoder reads.
        option: ids of the option; empty if it has no token of its own.
        straddling: whether the tokenizer would join the end of the prompt and the beginning of the option.
    """

    context: Ids
    option: Ids
    straddling: bool = False


@dataclass(frozen=True, slots=True)
class ScoringBatch:
    """The requests of a call that can be scored.

    Attributes:
        size: number of all requests of the call.
        rows: indexes of the requests that can be scored.
        requests: their tokens, parallel to `rows`.
        first: ids of the prompt of the first request of the call.
        truncated: indexes of the requests whose prompt loses its beginning.
        straddling: indexes of the requests in which a token would straddle the border of prompt and option.
    """

    size: int
    rows: Sequence[int]
    requests: Sequence[TokenRequest]
    first: Ids
    truncated: frozenset[int]
    straddling: frozenset[int]

    @property
    def unscored(self) -> list[int]:
        """Indexes of the requests that cannot be scored."""
        return sorted(set(range(self.size)).difference(self.rows))

    def part(self, rows: Sequence[int], values: Sequence[float]) -> Part[float]:
        """Return a part of the outputs of the call: the values of some of its requests."""
        return Part(rows, values, self.truncated.intersection(rows), self.straddling.intersection(rows))

    def outputs(self, values: Sequence[float]) -> Outputs[float]:
        """Return the outputs of the call from the values of `requests`; NaN where there is none."""
        outputs = [math.nan] * self.size
        for row, value in zip(self.rows, values, strict=True):
            outputs[row] = value
        return Outputs(outputs, self.truncated, self.straddling)


@dataclass(slots=True)
class OptionEncoder:
    """Encodes options after their prompts, and counts those that cannot be scored.

    Attributes:
        by_text: whether the model is given texts, so that no border can be kept (a server that encodes them itself).
        closing: whether the tokenizer puts tokens after every text, as known from the last call.
        without_token: number of options without a token of their own.
        too_long: number of options that are longer than the model takes.
        joined: number of options that a model `by_text` would read joined to their prompt.
    """

    by_text: bool = False
    closing: bool = False
    without_token: int = 0
    too_long: int = 0
    joined: int = 0

    def batch(self, lm: HFLM | CausalTokenizer, requests: Sequence[Continuation], limit: int) -> ScoringBatch:
        """Return the requests in tokens, as far as they can be scored.

        Args:
            lm: tokenizer with lm-eval's rules.
            requests: prompts and options.
            limit: most tokens that the model takes: an encoder-decoder on either side, others as `fit_request` says.
        """
        pairs = [split_pair(request.context, request.continuation) for request in requests]
        encoding = _Encoding.of(lm, pairs)
        self.closing = bool(encoding.closing)
        options = [encoding.tokens(*pair) for pair in pairs]
        rows = [row for row, tokens in enumerate(options) if self._is_scored(tokens, limit)]
        return ScoringBatch(
            size=len(options),
            rows=rows,
            requests=[fit_request(lm.backend, options[row].context, options[row].option, limit) for row in rows],
            first=options[0].context,
            truncated=frozenset(
                row for row in rows if is_cut(lm.backend, options[row].context, options[row].option, limit)
            ),
            straddling=frozenset(row for row, tokens in enumerate(options) if tokens.straddling),
        )

    def _is_scored(self, tokens: OptionTokens, limit: int) -> bool:
        """Return whether an option can be scored; if not, count it."""
        is_empty, is_long = not tokens.option, len(tokens.option) > limit
        is_joined = self.by_text and tokens.straddling and not is_empty
        self.without_token += is_empty
        self.too_long += is_long
        self.joined += is_joined and not is_long
        return not (is_empty or is_long or is_joined)

    def warnings(self) -> list[str]:
        """Return warnings about the tokenizer and about options that had no score, for the record."""
        reasons = (
            (self.without_token, "without a token in this tokenizer (is it empty?)"),
            (self.too_long, "longer than the model takes"),
            (self.joined, "joined to the prompt by the tokenizer, which this server, being given texts, cannot undo"),
        )
        warnings = [f"{pluralize(count, 'option')} {reason}: NaN, not a score" for count, reason in reasons if count]
        if self.closing:
            warnings.append(
                "the tokenizer puts a token after every text, which is left out between prompt and option; lm-eval "
                "leaves out the option's first token instead"
            )
        return warnings


@dataclass(frozen=True, slots=True)
class _Encoding:
    """The encoding of some pairs of texts.

    Attributes:
        lm: tokenizer with lm-eval's rules.
        ids: ids of the contexts, and for causal models of the whole texts.
        closing: number of tokens that the tokenizer puts after a text.
        opening: text of the token that begins a text; texts that begin with it are encoded as they are.
        option_ids: ids of options that were encoded without their prompt.
    """

    lm: HFLM | CausalTokenizer
    ids: Mapping[str, Ids]
    closing: int
    opening: str
    option_ids: dict[str, Ids] = field(default_factory=dict)

    @classmethod
    def of(cls, lm: HFLM | CausalTokenizer, pairs: Sequence[Texts]) -> _Encoding:
        """Encode the contexts and the whole texts of some pairs."""
        causal = lm.backend == "causal"
        wholes = [context + option for context, option in pairs if context] if causal else []
        ids = encode_all(lm, [*(context for context, _ in pairs), *wholes])
        return cls(lm, ids, _closing(lm) if causal else 0, lm.tokenizer.decode(lm.prefix_token_id))

    def tokens(self, context: str, option: str) -> OptionTokens:
        """Return a pair in tokens; the option has none if it is blank."""
        if not option.strip():
            return OptionTokens(self.ids.get(context, []), [])
        if self.lm.backend != "causal" or not context:
            return OptionTokens(*encode_apart(self.lm, self.ids, context, option))
        context_ids, whole_ids = self._without_closing(context), self._without_closing(context + option)
        if whole_ids[: len(context_ids)] == context_ids and not self._hides(context_ids, context, option):
            return OptionTokens(context_ids, whole_ids[len(context_ids) :])
        return OptionTokens(context_ids, self._encode_option(option), straddling=True)

    def _without_closing(self, text: str) -> Ids:
        ids = self.ids[text]
        return ids[: len(ids) - self.closing] if self.closing and not text.startswith(self.opening) else ids

    def _hides(self, context_ids: Ids, context: str, option: str) -> bool:
        """Return whether the last token of a context stands for characters of the option, too.

        Only the token of unknown texts can: whatever it stands for, it is the same.
        """
        tokenizer = self.lm.tokenizer
        if not context_ids or context_ids[-1] != tokenizer.unk_token_id:
            return False
        adding = {} if self.lm.add_bos_token is None else {"add_special_tokens": self.lm.add_bos_token}
        if context.startswith(self.opening):
            adding = {"add_special_tokens": False}
        offsets = tokenizer(context + option, return_offsets_mapping=True, verbose=False, **adding)["offset_mapping"]
        return bool(offsets[len(context_ids) - 1][1] > len(context))

    def _encode_option(self, option: str) -> Ids:
        """Return the ids of an option that is encoded without its prompt."""
        if option not in self.option_ids:
            self.option_ids[option] = encode_alone(self.lm.tokenizer, option).ids
        return self.option_ids[option]


def _closing(lm: HFLM | CausalTokenizer) -> int:
    """Return the number of tokens that the tokenizer puts after a text."""
    plain, complete = lm.tok_encode(SAMPLE, add_special_tokens=False), lm.tok_encode(SAMPLE)
    ends = range(len(plain), len(complete) + 1) if plain else ()
    return next((len(complete) - end for end in ends if complete[end - len(plain) : end] == plain), 0)
