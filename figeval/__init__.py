"""figeval: the evaluation harness for figurative language.

What a plugin author imports is here. Everything is loaded on first use, so that `import figeval` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "hookimpl": "figeval.hooks",
    "task": "figeval.spec",
    "TaskSpec": "figeval.spec",
    "SuiteSpec": "figeval.spec",
    "ChoiceExample": "figeval.types",
    "RankingExample": "figeval.types",
    "PairExample": "figeval.types",
    "SpanExample": "figeval.types",
    "JointExample": "figeval.types",
    "GenerationExample": "figeval.types",
    "SimilarityExample": "figeval.types",
    "Span": "figeval.types",
    "ScoredSpan": "figeval.types",
    "Prediction": "figeval.types",
    "Score": "figeval.types",
    "Continuation": "figeval.types",
    "Cloze": "figeval.types",
    "Message": "figeval.types",
    "Prompt": "figeval.types",
    "Reply": "figeval.types",
    "Text": "figeval.types",
    "TextPair": "figeval.types",
    "PairLabel": "figeval.types",
    "Outputs": "figeval.models.capabilities",
    "Statistic": "figeval.metrics",
    "DataContext": "figeval.data",
    "FigevalError": "figeval.errors",
    "RunConfig": "figeval.config",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'figeval' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return __all__
