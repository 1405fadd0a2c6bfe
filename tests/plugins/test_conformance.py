"""Models with weights keep to what `figeval.testing` wants of any model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import plugins
from figeval.models.model import Backends, open_model
from figeval.testing import check_model
from tests.plugins.tiny import Workshop


def model_factory(model: str, **options: Any) -> Callable[[], Any]:
    """A factory of the model that `--model` names, as `check_model` takes it."""
    backends = Backends(plugins.plugin_manager())
    return lambda: open_model(backends, model, options, {"device": "cpu"}).backend


def test_an_encoder(sentence_folder: Path) -> None:
    check_model(model_factory(str(sentence_folder)), tolerance=1e-4)


@pytest.mark.parametrize(
    ("backend", "kind", "head"),
    [
        ("masked", "bert", "ForMaskedLM"),
        ("causal", "gpt2", "LMHeadModel"),
    ],
)
def test_a_model_of_transformers(backend: str, kind: str, head: str, workshop: Workshop) -> None:
    check_model(model_factory(f"{backend}:{workshop(kind, head)}"), tolerance=1e-3)
