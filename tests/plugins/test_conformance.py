"""Models with weights keep to what `figeval.testing` wants of any model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import Harness
from figeval.testing import CapabilityCheck, check_model
from tests.plugins.tiny import LINES, Workshop

(WordScores,) = Harness().task_types.get("surprisal").routes[0].requests
SCORES_WORDS = CapabilityCheck(
    "score_words",
    [WordScores(context, (line[:5], line[5:])) for line in LINES[:3] for context in ("", "He said so. ")],
    lambda _request, answer: "" if len(answer) == 2 and max(answer) <= 0 else f"{answer} for two pieces",
)


def test_an_encoder(sentence_folder: Path, open_model: Callable[..., Any]) -> None:
    check_model(lambda: open_model(sentence_folder, device="cpu"), tolerance=1e-4)


@pytest.mark.parametrize(
    ("backend", "kind", "head"),
    [
        ("masked", "bert", "ForMaskedLM"),
        ("causal", "gpt2", "LMHeadModel"),
    ],
)
def test_a_model_of_transformers(
    backend: str, kind: str, head: str, workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    check_model(lambda: open_model(backend, workshop(kind, head), device="cpu"), tolerance=1e-3, checks=[SCORES_WORDS])
