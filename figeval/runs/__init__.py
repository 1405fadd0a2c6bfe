"""The evaluation pipeline, and the only package that knows the order of its stages:

data → spec → prompts → task_types → models → answers → metrics → records.

`plan` checks everything that can be wrong before a model's weights are loaded, `run` then puts one task after the other
to the model, and `score` computes scores from the stored rows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from figeval.runs.harness import Harness
    from figeval.runs.plan import Plan, prepare

__all__ = ["Harness", "Plan", "prepare"]
_MODULES = {"Harness": "harness", "Plan": "plan", "prepare": "plan"}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that listings, which need only the harness, do not import numpy."""
    if name not in _MODULES:
        raise AttributeError(f"module 'figeval.runs' has no attribute {name!r}")
    return getattr(importlib.import_module(f"figeval.runs.{_MODULES[name]}"), name)
