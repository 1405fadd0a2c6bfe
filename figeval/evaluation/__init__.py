"""The order of things, and the only package that knows it:

data → spec → prompts → task_types → models → answers → metrics → records.

`plan` settles everything that can be wrong before a model's weights are touched; `run` then puts one task after the
other to the model; `scoring` sums up what was written down.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from figeval.evaluation.harness import Harness
    from figeval.evaluation.plan import Plan, prepare
    from figeval.evaluation.run import Observer

__all__ = ["Harness", "Observer", "Plan", "prepare"]
_MODULES = {"Harness": "harness", "Observer": "run", "Plan": "plan", "prepare": "plan"}


def __getattr__(name: str) -> Any:
    """Import on first use: lists need the harness and none of what runs need (numpy)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'figeval.evaluation' has no attribute {name!r}")
    return getattr(importlib.import_module(f"figeval.evaluation.{_MODULES[name]}"), name)
