"""Requests by the rules of lm-eval: their token ids, the decoding options, and how an answer ended.

The rules for token ids are `TemplateLM._encode_pair`'s: blanks at the end of the context go to the continuation; a
causal model's continuation is what the tokens of the whole text have beyond the context's, an encoder-decoder's two
texts are encoded apart; an empty context is the token that begins a text. What does not fit loses its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import TaskError
from figeval.types import JSON, Prompt, Reply

from .engine.prefix_tree import TokenRequest

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.models.huggingface import HFLM

Texts: TypeAlias = tuple[str, str]  # context, continuation
Ids: TypeAlias = list[int]


def split(context: str, continuation: str) -> Texts:
    """Context and continuation; blanks between the two go to the continuation."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def encode_pairs(lm: HFLM, texts: Sequence[Texts]) -> list[tuple[Ids, Ids]]:
    """Token ids of context and continuation for each pair, as `lm`, an `HFLM` of lm-eval, would encode them.

    Raises:
        TaskError: a continuation has no token.
    """
    pairs = [split(*pair) for pair in texts]
    causal = lm.backend == "causal"
    wholes = [context + after for context, after in pairs] if causal else []
    known = encode_all(lm, [*(context for context, _ in pairs), *wholes])
    ids = [_token_ids(lm, known, *pair) for pair in pairs]
    for (_, after), (_, scored) in zip(pairs, ids, strict=True):
        if not scored or not after.strip():
            raise TaskError(f"no token to score in {after!r}; is an option or a label word empty?")
    return ids


def _token_ids(lm: HFLM, known: dict[str, Ids], context: str, continuation: str) -> tuple[Ids, Ids]:
    """Token ids of one context and its continuation; `known` has those of contexts and of whole texts."""
    if lm.backend == "causal" and context:
        return known[context], known[context + continuation][len(known[context]) :]
    ids = lm.tok_encode(continuation, add_special_tokens=False)
    if lm.backend == "causal" and ids[:1] == [lm.prefix_token_id]:
        return ids[:1], ids[1:]
    return known[context] if context else [lm.prefix_token_id], ids


def encode_all(lm: HFLM, texts: Sequence[str]) -> dict[str, Ids]:
    """What `lm.tok_encode` says of each text; those that need no special care in one call of the tokenizer."""
    opening = lm.tokenizer.decode(lm.prefix_token_id)
    known = {text: lm.tok_encode(text) for text in texts if text and text.startswith(opening)}
    plain = [text for text in dict.fromkeys(texts) if text and text not in known]
    if plain:
        adding = {} if lm.add_bos_token is None else {"add_special_tokens": lm.add_bos_token}
        known |= dict(zip(plain, lm.tokenizer(plain, verbose=False, **adding)["input_ids"], strict=True))
    return known


def fitted(kind: str, context: Ids, continuation: Ids, limit: int) -> TokenRequest:
    """What a model reads. A causal one takes `limit` tokens, and never reads the last one; an encoder-decoder takes
    as many on either side.

    Raises:
        TaskError: the continuation alone is too long.
    """
    if len(continuation) > limit:
        raise TaskError(f"an option of {len(continuation)} tokens is longer than the model takes ({limit})")
    room = limit if kind == "seq2seq" else limit + 1 - len(continuation)
    return TokenRequest((*context[max(0, len(context) - room) :], *continuation), len(continuation))


def is_cut(kind: str, context: Ids, continuation: Ids, limit: int) -> bool:
    """Whether a context loses its beginning."""
    return len(context) > (limit if kind == "seq2seq" else limit + 1 - len(continuation))


def instances(method: str, arguments: Iterable[tuple[object, ...]]) -> list[Instance]:
    """Requests as a method of an LM wants them."""
    from lm_eval.api.instance import Instance

    numbered = enumerate(arguments)
    return [Instance(method, {}, given, index, metadata=("figeval", index, 1)) for index, given in numbered]


def decoding(request: Prompt) -> JSON:
    """Greedy, up to a stop text. A new list each time: some of lm-eval's models add to it."""
    return {"until": list(request.stop), "max_gen_toks": request.max_new_tokens, "do_sample": False}


def written_tokens(lm: LM | None, text: str) -> int | None:
    """How many tokens an answer has; None where only a server knows, or the tokenizer cannot be had."""
    if lm is None:
        return None
    try:
        known = getattr(lm, "tokenizer", None) is not None and hasattr(lm, "tok_encode")
    except OSError:  # some fetch it when they are first asked for it
        return None
    return len(lm.tok_encode(text, add_special_tokens=False)) if known else None


def reply(lm: LM | None, text: str | None, allowed: int) -> Reply:
    """An answer and how it ended. lm-eval does not say why it stopped: all the tokens it may have mean cut off."""
    tokens = written_tokens(lm, text or "")
    return Reply(text=text or "", finish="length" if tokens is not None and tokens >= allowed else "stop")
