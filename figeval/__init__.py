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
    "ChoiceExample": "figeval.task_types.choice",
    "RankingExample": "figeval.task_types.ranking",
    "PairExample": "figeval.task_types.pairs",
    "SpanExample": "figeval.task_types.spans",
    "JointExample": "figeval.task_types.joint",
    "GenerationExample": "figeval.task_types.generation",
    "SimilarityExample": "figeval.task_types.similarity",
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
    "TaskType": "figeval.task_types.base",
    "Route": "figeval.task_types.routes",
    "ReplyReader": "figeval.task_types.routes",
    "PromptContext": "figeval.prompts.context",
    "decide": "figeval.task_types.routes",
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
