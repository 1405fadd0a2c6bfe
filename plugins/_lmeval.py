"""What every part of figeval that talks to lm-eval shares: its registry in the right order, its noise turned off."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Any

from figeval.types import JSON, Prompt, Reply

from ._loading import hushed

GROUP = "lm_eval.models"  # entry points; lm-eval itself reads them from the release after 0.4.13 on
OURS = {"figeval-hf": "figeval.builtin.plugins._figeval_hf:FigevalHF"}


def lm_eval_version() -> str:
    """The installed release."""
    return version("lm_eval")


def model_registry() -> Any:
    """lm-eval's models by name: its own first, then `figeval-hf`, then those of installed distributions.

    The order matters: lm-eval fills its registry when `lm_eval.models` is imported, and otherwise only while it is
    empty. Whoever registers anything before that makes `hf` unknown. A name that is taken is left to its owner.
    """
    import_module("lm_eval.models")
    registry = import_module("lm_eval.api.registry").MODEL_REGISTRY
    further: dict[str, Any] = {**OURS, **{point.name: point for point in entry_points(group=GROUP)}}
    for name, target in further.items():
        if name not in registry:
            registry.register(name, target=target)
    return registry


@contextmanager
def silent() -> Iterator[None]:
    """Neither reports nor progress bars of lm-eval meanwhile, whatever its model does: errors still raise.

    Some of its models draw a bar although they are asked not to, and log what they raise afterwards.
    """
    from tqdm.std import tqdm

    logger, begin = logging.getLogger("lm_eval"), tqdm.__init__
    with hushed():
        logger.setLevel(logging.CRITICAL)
        tqdm.__init__ = partialmethod(begin, disable=True)
        try:
            yield
        finally:
            tqdm.__init__ = begin


def instances(method: str, arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Requests as a method of an LM wants them."""
    from lm_eval.api.instance import Instance

    numbered = enumerate(arguments)
    return [Instance(method, {}, given, index, metadata=("figeval", index, 1)) for index, given in numbered]


def decoding(request: Prompt) -> JSON:
    """Greedy, up to a stop text. A new list each time: some of lm-eval's models add to it."""
    return {"until": list(request.stop), "max_gen_toks": request.max_new_tokens, "do_sample": False}


def written_tokens(lm: Any, text: str) -> int | None:
    """How many tokens an answer has; None where only a server knows, or the tokenizer cannot be had."""
    try:
        known = getattr(lm, "tokenizer", None) is not None and hasattr(lm, "tok_encode")
    except OSError:  # some fetch it when they are first asked for it
        return None
    return len(lm.tok_encode(text, add_special_tokens=False)) if known else None


def reply(lm: Any, text: str | None, allowed: int) -> Reply:
    """An answer and how it ended. lm-eval does not say why it stopped: all the tokens it may have mean cut off."""
    tokens = written_tokens(lm, text or "")
    return Reply(text=text or "", finish="length" if tokens is not None and tokens >= allowed else "stop")
