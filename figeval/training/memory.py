"""What to do if a pass of a training does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from figeval.errors import TrainError

T = TypeVar("T")


def attempt(call: Callable[[], T]) -> T | None:
    """Return the result of a call, or None if memory ran out; any other error propagates.

    The traceback keeps the tensors of the failed call alive, so memory is released only once the exception is gone.
    """
    from accelerate.utils import release_memory
    from accelerate.utils.memory import should_reduce_batch_size

    try:
        return call()
    except RuntimeError as error:
        if not should_reduce_batch_size(error):
            raise
    release_memory()
    return None


def half_of(tokens: int, longest: int, *, repeatable: bool) -> int:
    """Return half of the tokens of a pass that did not fit.

    Args:
        tokens: tokens of the pass, padding included.
        longest: tokens of its longest row.
        repeatable: whether the step can be taken again with smaller passes.

    Raises:
        TrainError: the step cannot be taken again, or a single row does not fit.
    """
    half = tokens // 2
    if half < longest:
        cure = "use --gradient_checkpointing, or a smaller --max_length or --batch_size"
    elif repeatable:
        return half
    else:
        cure = f"use --tokens_per_batch {half}"
    raise TrainError(f"memory ran out in a pass of {tokens} tokens; {cure}")
