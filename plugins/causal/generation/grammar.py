"""Formats of answers for local models (`--constrain`), by xgrammar: tokens that may not follow get no probability.

Texts of choices may begin with a blank, because an answer without a chat template continues the question.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from figeval.extras import require
from figeval.types import AnswerFormat

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase
    from xgrammar import CompiledGrammar, GrammarCompiler, GrammarMatcher

    from .row import Format


def check_installed() -> None:
    """Raise `MissingPackage` if xgrammar is not installed."""
    require("xgrammar", "--constrain with a model on this machine")


@lru_cache
def grammar_of(answer: AnswerFormat) -> str:
    """Return the grammar of an answer in xgrammar's EBNF; objects in JSON are written on one line."""
    from xgrammar import Grammar

    if answer.choices:
        words = " | ".join(json.dumps(word, ensure_ascii=False) for word in answer.choices)
        return f'root ::= " "? ({words})'
    return str(Grammar.from_json_schema(answer.schema, any_whitespace=False))


class Grammars:
    """The formats of a tokenizer's answers; each is compiled once.

    Args:
        tokenizer: tokenizer of the model.
        vocabulary: number of scores that the model gives.
        final: ids of the tokens that end a text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocabulary: int, final: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.final = frozenset(token for token in final if token < vocabulary)
        self._compiler: GrammarCompiler | None = None
        self._known: dict[AnswerFormat, CompiledGrammar] = {}

    def of(self, answer: AnswerFormat) -> Format:
        if answer not in self._known:
            self._known[answer] = self._compile(answer)
        return GrammarFormat.of(self._known[answer], self.vocabulary, self.final)

    def _compile(self, answer: AnswerFormat) -> CompiledGrammar:
        from xgrammar import GrammarCompiler, TokenizerInfo

        if self._compiler is None:
            tokenizer_info = TokenizerInfo.from_huggingface(
                self.tokenizer, vocab_size=self.vocabulary, stop_token_ids=sorted(self.final)
            )
            self._compiler = GrammarCompiler(tokenizer_info, max_threads=1)
        return self._compiler.compile_grammar(grammar_of(answer))


@dataclass(slots=True)
class GrammarFormat:
    """The format of one answer.

    Attributes:
        matcher: xgrammar's state.
        mask: bits of the tokens that may follow.
        final: ids of the tokens that end a text.
        stuck: whether no token may follow, because the tokenizer cannot write what the format asks for; the answer then
            ends.
    """

    matcher: GrammarMatcher
    mask: Tensor
    final: frozenset[int]
    stuck: bool = False

    @classmethod
    def of(cls, grammar: CompiledGrammar, vocabulary: int, final: frozenset[int]) -> GrammarFormat:
        """Return a format at the beginning of an answer."""
        from xgrammar import GrammarMatcher, allocate_token_bitmask

        return cls(GrammarMatcher(grammar), allocate_token_bitmask(1, vocabulary), final)

    def mask_scores(self, scores: Tensor) -> Tensor:
        """Return the scores of the next token, (1, vocabulary), with −∞ for tokens that may not follow."""
        import torch
        from xgrammar import apply_token_bitmask_inplace

        self.matcher.fill_next_token_bitmask(self.mask)
        self.stuck = not bool(self.mask.any())
        if self.stuck:
            final = sorted(self.final)
            allowed_scores = torch.full_like(scores, -torch.inf)
            allowed_scores[:, final] = scores[:, final]
            return allowed_scores
        allowed_scores = scores.clone()
        apply_token_bitmask_inplace(allowed_scores, self.mask.to(scores.device))
        return allowed_scores

    def take(self, token: int) -> None:
        """Continue the answer by a token. Raises `RuntimeError` if it may not follow."""
        if not self.stuck and not self.matcher.accept_token(token):
            raise RuntimeError(f"token {token} does not fit the format of the answer")

    def restart(self) -> None:
        """Begin the answer anew."""
        self.matcher.reset()
        self.stuck = False
