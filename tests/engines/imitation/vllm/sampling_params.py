"""What an answer is held to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StructuredOutputsParams:
    grammar: str
