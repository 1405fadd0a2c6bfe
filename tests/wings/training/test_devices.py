"""What crosses to a device: in mixed precision each weight is cast once per step, gradients are what they were, and no
cast outlives an update; batches come from pinned memory, or are copied all the same where none can be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.utils._python_dispatch import TorchDispatchMode

from figeval.wings.training.distributed import Distributed
from figeval.wings.training.loop import TrainingSession
from figeval.wings.training.train_folder import Progress
from tests.wings.training.linear import Heard, config, job


class Casts(TorchDispatchMode):
    """Counts the casts of one weight to bfloat16."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.address, self.count = weight.data_ptr(), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get("dtype") == torch.bfloat16:
            self.count += args[0].data_ptr() == self.address
        return func(*args, **kwargs)


@contextmanager
def bf16() -> Iterator[Accelerator]:
    """Mixed precision on the CPU, which the command refuses; the state of other tests' accelerators is untouched."""
    AcceleratorState._reset_state(True)
    try:
        yield Accelerator(cpu=True, mixed_precision="bf16")
    finally:
        AcceleratorState._reset_state(True)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[TrainingSession]:
    train_config = config(tmp_path / "out", tokens_per_batch=8)
    (tmp_path / "out/training").mkdir(parents=True)
    with bf16() as accelerator:
        session = TrainingSession(job(train_config, Heard()), Distributed(accelerator), Progress(identity=""))
        session._prepare_network()
        yield session


def gradients(session: TrainingSession) -> list[torch.Tensor]:
    copies = [weight.grad.clone() for weight in session.network.parameters()]
    session.network.zero_grad(set_to_none=True)
    return copies


def test_a_weight_is_cast_once_per_step_and_its_gradient_is_the_same(
    session: TrainingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = session.epochs.rows(0)
    weight = session.distributed.unwrapped(session.network).layer.weight
    parts, _ = session._divide(session.job.train, rows, session.plan)
    assert len(parts) > 2
    with Casts(weight) as casts:
        session._gradient(rows, 0)
    assert casts.count == 1
    once = gradients(session)
    monkeypatch.setattr(session.distributed, "shared_casts", nullcontext)
    with Casts(weight) as casts:
        session._gradient(rows, 0)
    assert casts.count == len(parts)
    assert all(weight.dtype == torch.float32 for weight in once)
    assert all(left.equal(right) for left, right in zip(once, gradients(session), strict=True))


def test_the_next_step_reads_the_updated_weights(session: TrainingSession) -> None:
    rows = session.epochs.rows(0)
    before = session._descend(rows, 0)
    again = session._gradient(rows, 0)
    assert again != before
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        layer = session.distributed.unwrapped(session.network).layer
        batch = session.job.train.batch(rows, 0)
        fresh = ((layer(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
    assert again == pytest.approx(float(fresh), rel=1e-3)


class HostTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor whose copies to a device are noted; it can be pinned or not."""

    can_be_pinned = True

    def pin_memory(self, *_: Any) -> Any:
        if not self.can_be_pinned:
            raise RuntimeError("CUDA error: out of memory")
        return self

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        copy = self.as_subclass(torch.Tensor).clone()
        copy.sent = (device.type, non_blocking)
        return copy


@pytest.mark.parametrize("can_be_pinned", [True, False])
def test_a_batch_is_copied_with_its_attributes(can_be_pinned: bool) -> None:
    accelerator: Any = SimpleNamespace(device=torch.device("cuda"))
    tensor = torch.arange(3.0).as_subclass(HostTensor)
    tensor.can_be_pinned = can_be_pinned
    tensor.lengths = [3]
    moved: Any = Distributed(accelerator).move_batch({"x": tensor})["x"]
    assert moved.tolist() == [0, 1, 2]
    assert moved.lengths == [3]
    assert moved.sent == ("cuda", can_be_pinned)
