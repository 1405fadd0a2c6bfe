"""Models with weights keep to what `figeval.testing` wants of any model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval.testing import check_model
from tests.plugins.tiny import Workshop


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
    check_model(lambda: open_model(backend, workshop(kind, head), device="cpu"), tolerance=1e-3)
