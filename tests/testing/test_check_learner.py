"""The check of learners finds what the training loop would stumble over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import PairExample, Setup
from figeval.testing import check_learner
from figeval.testing.fakes import FakePairScorer

EXAMPLES = [PairExample(id=str(n), left="a" * n, right="b", label="same") for n in range(1, 6)]


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, batches: Sequence[dict[str, Any]], shared_inputs: Sequence[dict[str, Any]]) -> Any:
        return torch.cat([self.layer(batch["x"])[:, 0] ** 2 for batch in batches])


class Features:
    truncated = 0

    def __init__(self, n: int) -> None:
        self.lengths, self.weights = [1 + row for row in range(n)], [1.0] * n

    def batch(self, rows: Sequence[int], draw: int) -> dict[str, Any]:
        return {"x": torch.tensor([[float(self.lengths[row])] for row in rows])}

    def beside(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return []


@dataclass
class Plain:
    setup: Setup
    select_by: str | None = None

    def network(self) -> Any:
        return Network()

    def features(self, examples: Sequence[Any]) -> Any:
        return Features(len(examples))

    def backend(self, network: Any) -> Any:
        return FakePairScorer()

    def save(self, network: Any, weights: Mapping[str, Any], folder: Path) -> Any:
        from safetensors.torch import save_file

        save_file(dict(weights), folder / "model.safetensors")
        return {"kind": "plain"}

    def describe(self) -> Any:
        return {}


class Halved(Network):
    def forward(self, batches: Any, shared_inputs: Any) -> Any:
        return super().forward(batches, shared_inputs).half()


class Averaging(Network):
    def forward(self, batches: Any, shared_inputs: Any) -> Any:
        losses = super().forward(batches, shared_inputs)
        return losses + losses.mean()


class Detached(Network):
    def forward(self, batches: Any, shared_inputs: Any) -> Any:
        return super().forward(batches, shared_inputs).detach() + 0 * self.layer.bias


class Summed(Network):
    def forward(self, batches: Any, shared_inputs: Any) -> Any:
        return super().forward(batches, shared_inputs).sum()


class Drawn(Features):
    def batch(self, rows: Sequence[int], draw: int) -> dict[str, Any]:
        return {"x": torch.rand(len(rows), 1)}


def features(**changes: Any) -> Any:
    toy_features = Features(5)
    for name, value in changes.items():
        setattr(toy_features, name, value)
    return toy_features


BROKEN_LEARNERS: dict[str, tuple[str, Any, str]] = {
    "half": ("network", Halved, "the losses are torch.float16, not float32"),
    "doubles": ("network", lambda: Network().double(), "start in float32 on the CPU"),
    "evaluating": ("network", lambda: Network().eval(), "not in training mode"),
    "averaging": ("network", Averaging, "a row's loss depends on its batch"),
    "detached": ("network", Detached, "no weight has a gradient"),
    "summed": ("network", Summed, r"the losses have the shape \(\), not \(4,\)"),
    "drawn": ("features", lambda examples: Drawn(5), "differs when it is called again"),
    "weights": ("features", lambda examples: features(weights=[1.0]), "there are 5 lengths, but 1 weights"),
    "nothing": ("features", lambda examples: Features(0), "gave 0 rows"),
    "light": ("features", lambda examples: features(weights=[0.0] * 5), "every weight must be positive"),
    "backend": ("backend", lambda network: object(), "offers no capability"),
    "saved": ("save", lambda network, weights, folder: {}, "wrote no"),
    "declared": ("save", lambda network, weights, folder: None, "returned NoneType"),
}


def test_a_sound_learner_passes() -> None:
    check_learner(Plain, Setup(model=""), EXAMPLES)


@pytest.mark.parametrize(("method", "wrong", "message"), BROKEN_LEARNERS.values(), ids=BROKEN_LEARNERS)
def test_a_broken_learner_is_told_what_is_wrong(method: str, wrong: Any, message: str) -> None:
    def factory(setup: Setup) -> Any:
        learner = Plain(setup)
        setattr(learner, method, wrong)
        return learner

    with pytest.raises(AssertionError, match=message):
        check_learner(factory, Setup(model=""), EXAMPLES)
