"""The values that flow through figeval, and nothing else: frozen, slotted, standard library only.

rows → **examples** → **requests** → outputs → **predictions** → **scores**.
One request class per capability of a model; the example classes are beside their task types.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from figeval.types.examples import (
    LATER,
    NO_SPAN,
    Example,
    Input,
    Meta,
    Span,
    letters,
)
from figeval.types.predictions import UNRELIABLE, Finish, Prediction, Reply, Score, ScoredSpan, Status, Value, written
from figeval.types.requests import (
    REQUESTS,
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
    "LATER",
    "NO_SPAN",
    "REQUESTS",
    "UNRELIABLE",
    "Cloze",
    "Continuation",
    "Example",
    "Finish",
    "Input",
    "Inputs",
    "Message",
    "Meta",
    "PairLabel",
    "Prediction",
    "Prompt",
    "Reply",
    "Request",
    "Score",
    "ScoredSpan",
    "Span",
    "SpanQuery",
    "Status",
    "Text",
    "TextPair",
    "Value",
    "letters",
    "plain_text",
    "written",
]
