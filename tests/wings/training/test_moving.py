"""Batches reach a device from pinned memory; where none can be had, they are copied all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from figeval.wings.training.distributed import Distributed


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
