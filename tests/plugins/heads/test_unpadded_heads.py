"""Networks of heads whose encoders read rows without padding: losses and gradients are those of padded rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from figeval import PairExample, RankingExample, Setup
from figeval.builtin.plugins.torch_models import rows
from figeval.builtin.plugins.torch_models.unpadded import describe_padding
from tests.learners import head
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

LABELS = ("entailment", "neutral", "contradiction")
TEXTS = [*LINES, "Yes.", LONG_TEXT[:200]]
PAIRS = [PairExample(id=f"p{n}", left=text, right=TEXTS[n // 2], label=LABELS[n % 3]) for n, text in enumerate(TEXTS)]
CANDIDATES = (*(line[:20] for line in LINES), "yes", "no, it is not")
RANKINGS = [
    RankingExample(id=f"r{n}", query=text, candidates=CANDIDATES, relevant=frozenset({n}))
    for n, text in enumerate(TEXTS)
]
VECTORS = {"pooling": "mean"}
HEADS: dict[str, tuple[Callable[[Setup], Any], str, list[Any], dict[str, Any]]] = {
    "pairs": (head("pairs", "cross"), "ForSequenceClassification", PAIRS, {}),
    "ranking": (head("ranking", "biencoder"), "Model", RANKINGS, VECTORS),
    "ranking, cached": (head("ranking", "biencoder"), "Model", RANKINGS, {**VECTORS, "caching": "on"}),
    "mlm": (head("ranking", "mlm"), "ForMaskedLM", RANKINGS, {}),
}


def losses_and_gradients(name: str, folder: str, device: str, **changes: Any) -> tuple[Any, dict[str, Any], Any]:
    """What a step computes on a CPU with the network that is made for a device."""
    factory, _, examples, options = HEADS[name]
    torch.manual_seed(0)
    setup = Setup(model=folder, labels=LABELS, options=options, dropout=0.0, device=device, max_length=90, **changes)
    learner = factory(setup)
    features = learner.features(examples)
    network = learner.network().train()
    chosen = range(len(features.lengths))
    losses = network([features.batch(chosen, 0)], features.beside(chosen))
    losses.sum().backward()
    return (
        losses,
        {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None},
        network,
    )


@pytest.mark.parametrize(("kind", "checkpointing"), [("bert", False), ("roberta", True)])
@pytest.mark.parametrize("name", HEADS)
def test_losses_and_gradients_are_those_of_padded_rows(
    name: str, kind: str, checkpointing: bool, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rows.KERNELS, "cpu", (rows.by_row,))
    folder = str(workshop(kind, HEADS[name][1], **({"num_labels": 3} if name == "pairs" else {})))
    expected, of_padded, padded = losses_and_gradients(name, folder, "cpu", gradient_checkpointing=checkpointing)
    row_losses, of_rows, network = losses_and_gradients(name, folder, "cuda", gradient_checkpointing=checkpointing)
    assert (describe_padding(padded), describe_padding(network)) == ({}, {"padding": "none"})
    torch.testing.assert_close(row_losses, expected, atol=1e-5, rtol=1e-5)
    assert of_rows.keys() == of_padded.keys()
    for weight, gradient in of_padded.items():
        torch.testing.assert_close(of_rows[weight], gradient, atol=1e-5, rtol=1e-3)
