"""The values that flow through figeval, and nothing else: frozen, slotted, standard library only.

rows → **examples** → **requests** → outputs → **predictions** → **scores**.
One example class per protocol, one request class per capability of a model.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from figeval.types.examples import (
    NO_SPAN,
    ChoiceExample,
    Example,
    GenerationExample,
    Input,
    JointExample,
    Meta,
    PairExample,
    RankingExample,
    SimilarityExample,
    Span,
    SpanExample,
    letters,
)
from figeval.types.predictions import UNRELIABLE, Finish, Prediction, Reply, Score, ScoredSpan, Status, Value
from figeval.types.requests import (
    Cloze,
    Continuation,
    Inputs,
    Message,
    PairLabel,
    Prompt,
    Request,
    SpanQuery,
    Text,
    TextPair,
    plain_text,
)

JSON: TypeAlias = dict[str, Any]

__all__ = [
    "JSON",
    "NO_SPAN",
    "UNRELIABLE",
    "ChoiceExample",
    "Cloze",
    "Continuation",
    "Example",
    "Finish",
    "GenerationExample",
    "Input",
    "Inputs",
    "JointExample",
    "Message",
    "Meta",
    "PairExample",
    "PairLabel",
    "Prediction",
    "Prompt",
    "RankingExample",
    "Reply",
    "Request",
    "Score",
    "ScoredSpan",
    "SimilarityExample",
    "Span",
    "SpanExample",
    "SpanQuery",
    "Status",
    "Text",
    "TextPair",
    "Value",
    "letters",
    "plain_text",
]
