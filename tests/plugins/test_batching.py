"""Batches of a local model: order, budget, memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from figeval import ModelError, Text
from tests.plugins.tiny import LINES, Workshop

TEXTS = [" ".join(random.Random(number).choices(" ".join(LINES).split(), k=1 + number % 17)) for number in range(50)]
REQUESTS = [Text(text) for text in TEXTS]
Shapes = list[tuple[int, ...]]


@pytest.fixture
def encoder(workshop: Workshop, open_model: Callable[..., Any]) -> Callable[..., Any]:
    folder = workshop("bert", "Model")
    return lambda **options: open_model("encoder", folder, pooling="mean", **options)


def watch(backend: Any, before: Callable[[int, int], None] = lambda _rows, _length: None) -> Shapes:
    """Return the shapes of the batches that the network is given; `before` is called with each."""
    shapes: Shapes = []

    def note(_module: Any, _arguments: Any, inputs: dict[str, Any]) -> None:
        shapes.append(tuple(inputs["input_ids"].shape))
        before(*shapes[-1])

    backend.network.model.register_forward_pre_hook(note, with_kwargs=True)
    return shapes


@pytest.mark.parametrize("rows", [1, 7, 50, 64])
def test_a_batch_size_fixes_the_rows_of_all_batches_but_the_last(rows: int, encoder: Callable[..., Any]) -> None:
    backend = encoder(batch_size=rows)
    shapes = watch(backend)
    backend.embed(REQUESTS)
    sizes = [shape[0] for shape in shapes]
    assert all(size == rows for size in sizes[:-1])
    assert sizes[-1] <= rows
    assert sum(sizes) == len(TEXTS)


@pytest.mark.parametrize("fits", [1, 40, 111, 300])
def test_the_budget_halves_until_it_fits_and_stays_there(fits: int, encoder: Callable[..., Any]) -> None:
    def run_out(rows: int, length: int) -> None:
        if rows > 1 and rows * length > fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    expected = encoder(batch_size=1).embed(REQUESTS).values
    backend = encoder()
    shapes = watch(backend, run_out)
    np.testing.assert_allclose(backend.embed(REQUESTS).values, expected, atol=1e-5)
    described = backend.describe()
    assert described["batch_size"] == "auto"
    assert described["halved"] > 0
    shapes.clear()
    np.testing.assert_allclose(backend.embed(REQUESTS).values, expected, atol=1e-5)
    assert backend.describe()["halved"] == described["halved"], "what held the first time holds the second time"
    assert all(rows == 1 or rows * length <= described["tokens_per_batch"] for rows, length in shapes)
    assert sum(rows for rows, _ in shapes) == len(TEXTS)


def test_an_error_that_is_no_lack_of_memory_is_not_retried(encoder: Callable[..., Any]) -> None:
    def fail(_rows: int, _length: int) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    backend = encoder()
    shapes = watch(backend, fail)
    with pytest.raises(RuntimeError, match="shapes"):
        backend.embed(REQUESTS)
    assert len(shapes) == 1


@pytest.mark.parametrize(("batch_size", "cure"), [(64, "auto or a smaller one"), ("auto", "max_length")])
def test_what_cannot_be_halved_is_an_error_with_a_cure(batch_size: Any, cure: str, encoder: Callable[..., Any]) -> None:
    def fail(_rows: int, _length: int) -> None:
        raise MemoryError

    backend = encoder(batch_size=batch_size)
    watch(backend, fail)
    with pytest.raises(ModelError, match=cure):
        backend.embed(REQUESTS)
