"""A model's passes in a higher precision than that of its weights, which is the truth that rounding is measured by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.hooks import RemovableHandle


@contextmanager
def computing_in(model: Module, dtype: torch.dtype) -> Iterator[None]:
    """Within this context, let a model compute in `dtype`, whatever the precision of its weights.

    Every module casts its own weights when it is called and drops the copies when it returns, so that there is memory
    for large models, too. Modules that use the weights of others without calling them raise a `RuntimeError` for the
    two precisions that meet.
    """
    stored: dict[Module, list[tuple[dict[str, Tensor | None], str, Tensor]]] = {}

    def cast(module: Module, _inputs: object) -> None:
        tables: tuple[dict[str, Tensor | None], ...] = (module._parameters, module._buffers)
        stored[module] = [(table, name, tensor) for table in tables for name, tensor in table.items() if lower(tensor)]
        for table, name, tensor in stored[module]:
            table[name] = tensor.to(dtype)

    def lower(tensor: Tensor | None) -> bool:
        return tensor is not None and tensor.is_floating_point() and tensor.dtype != dtype

    def restore(module: Module, _inputs: object, _output: object) -> None:
        for table, name, tensor in stored.pop(module, ()):
            table[name] = tensor

    hooks: list[RemovableHandle] = []
    for module in model.modules():
        if module._parameters or module._buffers:
            hooks += [
                module.register_forward_pre_hook(cast),
                module.register_forward_hook(restore, always_call=True),
            ]
    try:
        with exact_products():
            yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in list(stored):  # an interrupted pass
            restore(module, (), ())


@contextmanager
def exact_products() -> Iterator[None]:
    """Within this context, multiply matrices of single precision exactly, also on GPUs that may round them (TF32)."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
