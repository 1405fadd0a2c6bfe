"""What can be said with --head_args, as the fields of a dataclass per head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, TypeVar

from figeval.errors import TrainError, near

T = TypeVar("T")


def options_of(kind: Callable[..., T], given: Mapping[str, Any]) -> T:
    """The options of a head. Raises `TrainError` for one that it does not have."""
    known = list(signature(kind).parameters)
    for name in given:
        if name not in known:
            raise TrainError(f"--head_args {name}: no such option{near(name, known)}; there are {', '.join(known)}")
    return kind(**given)


def frozen_modules(model: Any, names: str) -> None:
    """Take modules, named a+b, out of the training. Raises `TrainError` for one that the model does not have."""
    modules = dict(model.named_modules())
    for name in filter(None, names.split("+")):
        if name not in modules:
            raise TrainError(f"--head_args freeze={name}: the model has no such module{near(name, modules)}")
        modules[name].requires_grad_(False)
