"""Requests by the rules of lm-eval: token ids, decoding options, and the way an answer ended.

The rules for token ids are those of `TemplateLM._encode_pair`. Blanks at the end of the context move to the
continuation. A causal model's continuation is what the tokens of the whole text have beyond the context's; an
encoder-decoder's two texts are encoded separately. An empty context is the token that begins a text. A context that
does not fit loses its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import ModelError, TaskError
from figeval.types import JSON, Prompt, Reply

from .engine.prefix_tree import TokenRequest

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerBase

Texts: TypeAlias = tuple[str, str]  # context, continuation
Ids: TypeAlias = list[int]


@dataclass(frozen=True, slots=True)
class CausalTokenizer:
    """The tokenizer of a causal model with the methods of lm-eval's `HFLM`, for engines that load the weights.

    Attributes:
        tokenizer: tokenizer of transformers.
        add_bos_token: whether texts begin with the token that begins a text; None leaves it to the tokenizer.
        custom_prefix_token_id: token that stands for an empty context; None for the one that begins a text, or ends it.
        backend: lm-eval's word for the kind of model, "causal" or "seq2seq".
    """

    tokenizer: PreTrainedTokenizerBase
    add_bos_token: bool | None = None
    custom_prefix_token_id: int | None = None
    backend: str = "causal"

    @property
    def prefix_token_id(self) -> int:
        """The token that stands for an empty context. Raises `ModelError` if the tokenizer knows none."""
        candidates = (self.custom_prefix_token_id, self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        token = next((candidate for candidate in candidates if candidate is not None), None)
        if token is None:
            raise ModelError("the tokenizer has no token that begins a text; set --model_args prefix_token_id=…")
        return int(token)

    def tok_encode(self, text: str, add_special_tokens: bool | None = None) -> Ids:
        """Return the token ids of a text; one that begins like a prefix gets no second one, as in lm-eval."""
        adding = self.add_bos_token if add_special_tokens is None else add_special_tokens
        if add_special_tokens is None and text.startswith(self.tokenizer.decode(self.prefix_token_id)):
            adding = False
        options = {} if adding is None else {"add_special_tokens": adding}
        return list(self.tokenizer.encode(text, **options))


def split_pair(context: str, continuation: str) -> Texts:
    """Return context and continuation; blanks between them belong to the continuation."""
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def encode_pairs(lm: HFLM | CausalTokenizer, texts: Sequence[Texts]) -> list[tuple[Ids, Ids]]:
    """Return the token ids of context and continuation of each pair, as an `HFLM` of lm-eval would encode them.

    Characters of a continuation that share a token with the context are left out (`option_tokens` keeps them).

    Raises:
        TaskError: a continuation has no token.
    """
    pairs = [split_pair(*pair) for pair in texts]
    causal = lm.backend == "causal"
    wholes = [context + continuation for context, continuation in pairs] if causal else []
    encoded = encode_all(lm, [*(context for context, _ in pairs), *wholes])
    ids = [_token_ids(lm, encoded, *pair) for pair in pairs]
    for (_, continuation), (_, continuation_ids) in zip(pairs, ids, strict=True):
        if not continuation_ids or not continuation.strip():
            reason = "lm-eval's encoding joins it to the context" if continuation.strip() else "is it empty?"
            raise TaskError(f"no token to score in {continuation!r}; {reason}")
    return ids


def _token_ids(
    lm: HFLM | CausalTokenizer, encoded: Mapping[str, Ids], context: str, continuation: str
) -> tuple[Ids, Ids]:
    """Return the token ids of a context and its continuation; `known` holds those of contexts and of whole texts."""
    if lm.backend == "causal" and context:
        return encoded[context], encoded[context + continuation][len(encoded[context]) :]
    return encode_apart(lm, encoded, context, continuation)


def encode_apart(
    lm: HFLM | CausalTokenizer, encoded: Mapping[str, Ids], context: str, continuation: str
) -> tuple[Ids, Ids]:
    """Return the token ids of a context and its continuation, which is encoded without it.

    lm-eval does this for encoder-decoders, and after an empty context, for which a token stands.
    """
    ids = lm.tok_encode(continuation, add_special_tokens=False)
    if lm.backend == "causal" and ids[:1] == [lm.prefix_token_id]:
        return ids[:1], ids[1:]
    return encoded[context] if context else [lm.prefix_token_id], ids


def encode_all(lm: HFLM | CausalTokenizer, texts: Sequence[str]) -> dict[str, Ids]:
    """Return `lm.tok_encode` of each text, with one call of the tokenizer for those without special cases."""
    opening = lm.tokenizer.decode(lm.prefix_token_id)
    ids_by_text = {text: lm.tok_encode(text) for text in texts if text and text.startswith(opening)}
    plain = [text for text in dict.fromkeys(texts) if text and text not in ids_by_text]
    if plain:
        adding = {} if lm.add_bos_token is None else {"add_special_tokens": lm.add_bos_token}
        ids_by_text |= dict(zip(plain, lm.tokenizer(plain, verbose=False, **adding)["input_ids"], strict=True))
    return ids_by_text


def fit_request(kind: str, context: Ids, continuation: Ids, limit: int) -> TokenRequest:
    """Return the request as the model reads it, with the beginning of the context cut off if necessary.

    A causal model takes `limit` tokens and never reads the last one; an encoder-decoder takes `limit` tokens on either
    side.

    Raises:
        TaskError: the continuation alone is too long.
    """
    if len(continuation) > limit:
        raise TaskError(f"an option of {len(continuation)} tokens is longer than the model takes ({limit})")
    room = limit if kind == "seq2seq" else limit + 1 - len(continuation)
    return TokenRequest((*context[max(0, len(context) - room) :], *continuation), len(continuation))


def is_cut(kind: str, context: Ids, continuation: Ids, limit: int) -> bool:
    """Return whether a context loses its beginning."""
    return len(context) > (limit if kind == "seq2seq" else limit + 1 - len(continuation))


def decoding(request: Prompt) -> JSON:
    """Return options for greedy decoding up to a stop text.

    The list of stop texts is new each time, because some of lm-eval's models append to it.
    """
    return {"until": list(request.stop), "max_gen_toks": request.max_new_tokens, "do_sample": False}


def count_tokens(lm: LM | None, text: str) -> int | None:
    """Return the number of tokens of an answer; None if only a server knows it, or if the tokenizer is unavailable."""
    if lm is None:
        return None
    try:
        has_tokenizer = getattr(lm, "tokenizer", None) is not None and hasattr(lm, "tok_encode")
    except OSError:  # some load it on first use
        return None
    return len(lm.tok_encode(text, add_special_tokens=False)) if has_tokenizer else None


def reply(lm: LM | None, text: str | None, max_tokens: int) -> Reply:
    """Return an answer with its finish: lm-eval does not give one, so as many tokens as allowed mean "cut off"."""
    tokens = count_tokens(lm, text or "")
    return Reply(text=text or "", finish="length" if tokens is not None and tokens >= max_tokens else "stop")
