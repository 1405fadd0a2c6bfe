"""The parts of a model that can be run apart from the rest: its body, and the last feed-forward part of that.

Nothing is assumed about an architecture. Whether a part can be run alone is tried on a few tokens, in single precision,
so that rounding does not decide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...torch_models.precision import computing_in
from .bodies import REFUSALS, head, last_feed_forward, only_at

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel


def separable_parts(model: PreTrainedModel, device: torch.device) -> tuple[Module | None, Module | None]:
    """Return the body and the last feed-forward part, each None if it cannot be run apart."""
    import torch

    def tried() -> tuple[Module | None, Module | None]:
        body = separable_body(model, device)
        return body, separable_last(body, device)

    with torch.inference_mode():
        try:
            with computing_in(model, torch.promote_types(model.dtype, torch.float32)):
                return tried()
        except REFUSALS:  # weights that cannot be cast
            return tried()


def separable_body(model: PreTrainedModel, device: torch.device) -> Module | None:
    """Return the module whose states give the head the same scores, tested on a few tokens; None if there is none."""
    import torch

    ids = torch.tensor([[5, 6, 7, 8]], device=device)
    expected = model(input_ids=ids).logits[0, 1:3]
    for body in (model.base_model, model.get_decoder()):
        try:
            output = body(input_ids=ids)
            part = head(model, body, output, output.last_hidden_state[0, 1:3])
        except REFUSALS:
            continue
        if is_close(part, expected):
            return body
    return None


def separable_last(body: Module | None, device: torch.device) -> Module | None:
    """Return the feed-forward part of a body's last layer if it can be run at chosen tokens only, else None.

    That is so if the states at those tokens stay the same.
    """
    import torch

    if body is None or (last := last_feed_forward(body)) is None:
        return None
    ids = torch.tensor([[5, 6, 7, 8], [8, 7, 6, 5]], device=device)
    at = (torch.tensor([0, 1, 1]), torch.tensor([3, 0, 2]))
    expected = body(input_ids=ids).last_hidden_state[at]
    try:
        with only_at(last, *at):
            part = body(input_ids=ids).last_hidden_state[at]
    except REFUSALS:
        return None
    return last if is_close(part, expected) else None


def is_close(part: Tensor, expected: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding."""
    import torch

    tolerance = 1e-4 if expected.dtype in (torch.float32, torch.float64) else 2e-2
    equal = part.shape == expected.shape and torch.allclose(
        part.float(), expected.float(), rtol=tolerance, atol=tolerance
    )
    return bool(equal)
