"""figeval: the evaluation harness for figurative language.

What a plugin author imports is here and in `figeval.testing`; nothing else is public. Everything is loaded on first
use, so that `import figeval` costs nothing; `__init__.pyi` has the same names for type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "figeval.hooks": "hookimpl",
    "figeval.spec": "SuiteSpec TaskSpec task",
    "figeval.types": (
        "ChoiceExample Cloze Continuation Example Finish GenerationExample Inputs JointExample Message "
        "PairExample PairLabel Prediction Prompt RankingExample Reply Request Score ScoredSpan "
        "SimilarityExample Span SpanExample SpanQuery Status Text TextPair"
    ),
    "figeval.task_types.routes": "decide",
    "figeval.models.capabilities": (
        "Chats Closes ComputesLoglikelihood Describes DeterministicByName Embeds EstimatesCost Fills "
        "FindsSpans Fingerprints Fits Generates LabelsPairs Outputs ScoresPairs Writes"
    ),
    "figeval.metrics": "Collective PerLabel Statistic collective mean_of",
    "figeval.training.contract": "Features Learner Setup",
    "figeval.data": "DataContext",
    "figeval.records.schema": "RunRecord TaskRecord",
    "figeval.config": "RunConfig",
    "figeval.errors": (
        "CapabilityError DataError FigevalError ModelError PluginError RecordError TaskError TrainError"
    ),
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'figeval' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
