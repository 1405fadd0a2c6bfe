"""Check of learners against the contract of the training loop (`check_learner`)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.models.capabilities import capabilities
from figeval.models.learner import Features, Learner, Setup
from figeval.types import Example

if TYPE_CHECKING:
    from torch.nn import Module

SAVED = "*.safetensors"


def check_learner(
    factory: Callable[[Setup], Learner], setup: Setup, examples: Sequence[Example], *, tolerance: float = 1e-5
) -> None:
    """Check that a learner keeps the contract of the training loop.

    Features have a length and a weight for each row, and the same rows with the same draw give the same batch. The
    network starts in float32 on the CPU in training mode, and returns one finite float32 loss per row, from which
    gradients reach its weights. In evaluation mode, a row's loss does not depend on its batch. The backend of the
    network offers capabilities, and the weights are saved as safetensors.

    Args:
        factory: The registered function, which makes a learner from a `Setup`.
        setup: The initial model and the options.
        examples: At least two examples that the learner can learn from.
        tolerance: Maximum difference of a row's loss between batches.

    Raises:
        AssertionError: The check failed; the message names the method and what is wrong with it.
    """
    import torch

    learner = factory(setup)
    features = learner.features(examples)
    rows = _check_features(features)
    torch.manual_seed(setup.seed)
    network = learner.network()
    _check_start(network)
    _check_losses(network, features, rows)
    _check_alone(network, features, rows, tolerance)
    backend = learner.backend(network)
    assert capabilities(backend), f"the backend of {type(learner).__name__} offers no capability; dev cannot be scored"
    offers = getattr(learner, "offers", None)
    assert offers in (None, capabilities(backend)), f"offers is {offers}, but backend() has {capabilities(backend)}"
    assert isinstance(json.dumps(learner.describe()), str)
    _check_saved(learner, network)


def _check_features(features: Features) -> list[int]:
    """Check that features are the same when they are drawn again, and return the rows of a small step."""
    n = len(features.lengths)
    assert n >= 2, f"features() gave {n} rows; check_learner needs at least two examples"
    assert len(features.weights) == n, f"there are {n} lengths, but {len(features.weights)} weights"
    assert all(int(length) == length > 0 for length in features.lengths), "every length must be a positive integer"
    assert all(weight > 0 for weight in features.weights), (
        "every weight must be positive, because losses are divided by their sum"
    )
    assert features.truncated >= 0, f"truncated is {features.truncated}"
    rows = list(range(min(n, 4)))
    first, again = features.batch(rows, 0), features.batch(rows, 0)
    assert list(first) == list(again), "batch(rows, draw) has other tensors when it is called again"
    for name, tensor in first.items():
        assert tensor.equal(again[name]), f"batch(rows, draw)[{name!r}] differs when it is called again"
        assert tensor.device.type == "cpu", f"batch(rows, draw)[{name!r}] lies on {tensor.device}, not on the CPU"
    return rows


def _check_start(network: Module) -> None:
    """Check the initial state of the network."""
    weights = dict(network.named_parameters())
    assert weights, "the network has no weights"
    assert network.training, "the network is not in training mode"
    for name, weight in weights.items():
        assert (weight.device.type, str(weight.dtype)) == ("cpu", "torch.float32"), (
            f"{name} is {weight.dtype} on {weight.device}; start in float32 on the CPU"
        )


def _check_losses(network: Module, features: Features, rows: Sequence[int]) -> None:
    """Check that there is a finite loss for each row, and a gradient."""
    import torch

    losses = network([features.batch(rows, 0)], features.beside(rows))
    assert tuple(losses.shape) == (len(rows),), f"the losses have the shape {tuple(losses.shape)}, not ({len(rows)},)"
    assert losses.dtype == torch.float32, f"the losses are {losses.dtype}, not float32"
    assert bool(losses.isfinite().all()), f"the losses are {losses.tolist()}"
    losses.sum().backward()
    reached = [weight.grad is not None and bool(weight.grad.any()) for weight in network.parameters()]
    assert any(reached), "no weight has a gradient: the losses do not depend on the network"
    network.zero_grad()


def _check_alone(network: Module, features: Features, rows: Sequence[int], tolerance: float) -> None:
    """Check that, without dropout, a row's loss is the same alone and in a batch."""
    import torch

    network.eval()
    with torch.no_grad():
        beside = features.beside(rows)
        together = network([features.batch(rows, 0)], beside)
        losses_alone = torch.cat([network([features.batch([row], 0)], beside) for row in rows])
    network.train()
    assert torch.allclose(together, losses_alone, rtol=tolerance, atol=tolerance), (
        f"a row's loss depends on its batch: {together.tolist()} together, {losses_alone.tolist()} alone"
    )


def _check_saved(learner: Learner, network: Module) -> None:
    """Check that `save` writes safetensors and returns a declaration that JSON can represent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        declared = learner.save(network, network.state_dict(), folder)
        assert isinstance(declared, dict), f"save() returned {type(declared).__name__}, not what figeval.json declares"
        assert isinstance(json.dumps(declared), str)
        assert list(folder.rglob(SAVED)), f"save() wrote no {SAVED}; other formats can run code when they are read"
