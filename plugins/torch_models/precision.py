"""A model's passes in a higher precision than that of its weights, which is the truth that rounding is measured by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module

Table: TypeAlias = "dict[str, Tensor | None]"

HALF_BYTES = 2


def is_single(dtype: torch.dtype) -> bool:
    """Return whether a precision is single or better."""
    import torch

    return dtype in (torch.float32, torch.float64)


def truth_of(dtype: torch.dtype) -> torch.dtype:
    """Return the precision by whose scores those of another one are judged."""
    import torch

    return torch.float64 if is_single(dtype) else torch.float32


@contextmanager
def computing_in(model: Module, dtype: torch.dtype) -> Iterator[None]:
    """Within this context, let a model compute in `dtype`, although its weights have a lower precision.

    Every module casts its own weights when it is called and drops the copies when it returns, so that there is memory
    for large models, too. Modules that use the weights of others without calling them raise a `RuntimeError` for the
    two precisions that meet, and so do weights of less than 16 bits, which have scales of their own.
    """
    casts = Casts(dtype)
    modules = [module for module in model.modules() if module._parameters or module._buffers]
    hooks = [module.register_forward_pre_hook(casts.make) for module in modules]
    hooks += [module.register_forward_hook(casts.drop, always_call=True) for module in modules]
    try:
        with exact_products():
            yield
    finally:
        for hook in hooks:
            hook.remove()
        casts.drop_all()


@dataclass
class Casts:
    """Weights of modules that are being called, in another precision; a module may call itself."""

    dtype: torch.dtype
    stored: dict[Module, list[tuple[Table, str, Tensor]]] = field(default_factory=dict)
    depth: Counter[Module] = field(default_factory=Counter)

    def make(self, module: Module, _inputs: object) -> None:
        """Exchange the weights of a module for copies; those of a higher precision stay."""
        self.depth[module] += 1
        if self.depth[module] > 1:
            return
        tables: tuple[Table, ...] = (module._parameters, module._buffers)
        weights = [(table, name, tensor) for table in tables for name, tensor in table.items() if tensor is not None]
        lower = [
            weight for weight in weights if weight[2].is_floating_point() and weight[2].itemsize < self.dtype.itemsize
        ]
        if any(tensor.itemsize < HALF_BYTES for _, _, tensor in lower):
            raise RuntimeError("weights of less than 16 bits have scales of their own")
        self.stored[module] = lower
        for table, name, tensor in lower:
            table[name] = tensor.to(self.dtype)

    def drop(self, module: Module, _inputs: object, _output: object) -> None:
        """Put the weights of a module back."""
        self.depth[module] -= 1
        if self.depth[module] <= 0:
            for table, name, tensor in self.stored.pop(module, ()):
                table[name] = tensor

    def drop_all(self) -> None:
        """Put all weights back, as after a pass that was interrupted."""
        self.depth.clear()
        for module in list(self.stored):
            self.drop(module, (), ())


@contextmanager
def exact_products() -> Iterator[None]:
    """Within this context, multiply matrices of single precision exactly, also on GPUs that may round them (TF32)."""
    import torch

    original = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(original)
