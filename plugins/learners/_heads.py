"""A head of transformers on the model that a training begins with: its own, or a fresh one on its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError

from .._loading import load_errors, one_line, quiet

if TYPE_CHECKING:
    from ._base import Base

POOLER = "pooler"  # what a head reads through: fresh where the checkpoint has none, left out where the head has none


def fresh_head(base: Base, auto: Any, **changes: Any) -> Any:
    """A model of a transformers Auto class with the checkpoint's body; its head is random.

    `changes` are entries of the configuration: `id2label`, and so how many outputs the head has.

    Raises:
        ModelError: there is no such head for this architecture, or the body does not go under it.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    body = base.load(AutoModel, spare=POOLER)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(base.checkpoint.folder_here(), **base.dropouts(), **changes)
            model = auto.from_config(config, dtype=torch.float32)
            found = model.base_model.load_state_dict(body.state_dict(), strict=False)
    except load_errors() as error:
        raise ModelError(f"{base.setup.model!r} gets no head of {auto.__name__}: {one_line(error)}") from error
    left = [name for name in (*found.missing_keys, *found.unexpected_keys) if POOLER not in name]
    if left:
        kind = type(model).__name__
        raise ModelError(f"{base.setup.model!r} does not go under a {kind}, which has another {left[0]}; take another")
    return base.ready(model)
