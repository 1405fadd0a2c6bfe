"""The room that a model has for prompts and their answers, known before its weights are loaded.

Solved examples that do not fit are left out by it (`figeval.HasRoom`). A text is only tokenized if it has so many
characters that it might be too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figeval.types import Continuation, Prompt

from ..torch_models.loading import MAX_LIMIT
from .lm_eval_requests import CausalTokenizer
from .option_tokens import OptionEncoder
from .prompting import Prompting, context_length

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DEFAULT_TOKENS = 2048  # lm-eval's limit of a model that declares none
MAX_ADDED_TOKENS = 8  # tokens that a tokenizer puts around a text
MAX_TOKENS_OF_CHARACTER = 36  # of one that is not ASCII: NFKC makes 18 characters of U+FDFA, of two bytes each


@dataclass(frozen=True, slots=True)
class Room:
    """The longest prompts of a model.

    Attributes:
        prompting: maker of the prompts.
        texts: tokenizer with lm-eval's rules.
        limit: most tokens of a prompt with its answer; of an encoder-decoder, of the prompt.
        scoring_limit: most tokens of a text to score, in the sense of `OptionEncoder.batch`.
        answer_tokens: function that returns how many tokens the answer to a prompt may take.
    """

    prompting: Prompting
    texts: CausalTokenizer
    limit: int
    scoring_limit: int
    answer_tokens: Callable[[Prompt], int]

    def fits(self, requests: Sequence[Continuation | Prompt]) -> bool:
        """Return whether no request would lose the beginning of its text.

        Raises:
            TaskError: the chat template rejects a conversation.
        """
        scored = [request for request in requests if isinstance(request, Continuation)]
        prompts = (request for request in requests if isinstance(request, Prompt))
        return self._fit_scored(scored) and all(map(self._fits_with_answer, prompts))

    def _fit_scored(self, requests: Sequence[Continuation]) -> bool:
        """Return whether all options fit after their prompts."""
        if all(max_tokens(request.context + request.continuation) <= self.scoring_limit for request in requests):
            return True
        return not OptionEncoder().batch(self.texts, requests, self.scoring_limit).truncated

    def _fits_with_answer(self, request: Prompt) -> bool:
        """Return whether a prompt fits with its answer."""
        text = self.prompting.text(request)
        room = self.limit - self.answer_tokens(request)
        return max_tokens(text) <= room or len(self.texts.tok_encode(text)) <= room


def max_tokens(text: str) -> int:
    """Return a number of tokens that a text does not exceed, whatever the tokenizer."""
    n_ascii = len(text.encode("ascii", "ignore"))
    return MAX_ADDED_TOKENS + n_ascii + MAX_TOKENS_OF_CHARACTER * (len(text) - n_ascii)


def longest_text(config: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the most tokens of a model as lm-eval finds them: in its config, or else its tokenizer, or a default."""
    declared = context_length(config.get("text_config") or config)
    if declared is not None:
        return declared
    return tokenizer.model_max_length if tokenizer.model_max_length < MAX_LIMIT else DEFAULT_TOKENS
