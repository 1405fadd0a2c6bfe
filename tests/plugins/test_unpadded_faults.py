"""Encoders that read rows without padding when something fails after the trial or in it, or threads share a model."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from figeval.builtin.plugins.torch_models import rows
from figeval.builtin.plugins.torch_models.rows import Layout, by_row
from figeval.builtin.plugins.torch_models.unpadded import describe_padding, read_without_padding
from figeval.models.learner import WITHOUT_PADDING
from tests.plugins.test_unpadded import LENGTHS, ON_CPU, SIZES, WORDS, batch, broken, build, close, gradients, states


class Failing:
    """A kernel that raises an error in some of its calls; three calls, one for each layer, are a pass."""

    def __init__(self, error: type[Exception], first: int, last: int = 10**9) -> None:
        self.error, self.first, self.last = error, first, last
        self.calls = 0

    def __call__(self, *states: Any) -> Any:
        self.calls += 1
        if self.first <= self.calls <= self.last:
            raise self.error("too many rows")
        return by_row(*states)


TRIAL = 3  # calls of a kernel in a trial without gradients


def test_a_kernel_that_fails_in_a_later_batch_is_not_used_any_more() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    kernel = Failing(RuntimeError, TRIAL + 5)
    read_without_padding(model, {"cpu": (kernel,)})
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}
    for _ in range(3):
        close(states(model, batch()), expected, atol=0)
    assert kernel.calls == TRIAL + 5
    assert "too many rows" in describe_padding(model)["padding"]


def test_an_input_that_no_reading_accepts_says_nothing_about_the_kernel() -> None:
    model = build("Bert", SIZES)
    read_without_padding(model, ON_CPU)
    states(model, batch())
    with pytest.raises(IndexError):
        states(model, {**batch(), "input_ids": batch()["input_ids"] + WORDS})
    assert describe_padding(model) == {"padding": "none"}


def test_memory_that_runs_out_in_a_later_batch_is_a_matter_of_its_size() -> None:
    model = build("Bert", SIZES)
    read_without_padding(model, {"cpu": (Failing(torch.OutOfMemoryError, TRIAL + 5, TRIAL + 5),)})
    states(model, batch())
    with pytest.raises(torch.OutOfMemoryError):
        states(model, batch())
    states(model, batch())
    assert describe_padding(model) == {"padding": "none"}


def test_memory_that_runs_out_in_a_trial_decides_nothing() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, {"cpu": (Failing(torch.OutOfMemoryError, 1, 1), broken)})
    close(states(model, batch()), expected, atol=0)
    assert "memory" in describe_padding(model)["padding"]
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}


def test_trials_that_never_fit_become_rare() -> None:
    model = build("Bert", SIZES)
    kernel = Failing(torch.OutOfMemoryError, 1)
    read_without_padding(model, {"cpu": (kernel,)})
    for _ in range(20):
        states(model, batch())
    assert kernel.calls == len([0, 1, 2, 4, 8, 16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32])
def test_masks_of_any_type(dtype: torch.dtype) -> None:
    model = build("Bert", SIZES)
    inputs = {**batch(), "attention_mask": (3 * batch()["attention_mask"]).to(dtype)}
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    for _ in range(2):
        close(states(model, inputs), expected)
    assert describe_padding(model) == {"padding": "none"}


def test_lengths_of_a_mask_that_was_modified_are_forgotten() -> None:
    mask = rows.with_lengths(batch()["attention_mask"], [0])
    assert rows.lengths_of(mask) == [0]
    mask[:, 5:] = 0
    assert rows.lengths_of(mask) == [5, 5, 1, 5, 4]
    with torch.inference_mode():  # torch does not count modifications
        assert rows.lengths_of(rows.with_lengths(batch()["attention_mask"].clone(), [0])) == LENGTHS


def test_threads_do_not_disturb_one_another() -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.0005)  # another thread's turn
        return by_row(*arguments)

    model = build("Bert", SIZES)
    batches = [batch(chosen) for chosen in (LENGTHS, [15] * 4, [9, 3], [20, 19, 18])]
    expected = [states(model, inputs) for inputs in batches]
    read_without_padding(model, {"cpu": (slow,)})
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            for states_of_batch, right in zip(
                threads.map(lambda inputs: states(model, inputs), batches), expected, strict=True
            ):
                close(states_of_batch, right)


def test_a_copied_model_is_read_without_padding() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    twin = copy.deepcopy(model)
    close(states(twin, batch()), expected)
    assert (describe_padding(model), describe_padding(twin)) == ({}, {"padding": "none"})


# ---- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_kernel_without_dropout_is_used_without_it(is_frozen: bool) -> None:
    def without_dropout(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        return broken() if dropout else by_row(query, key, value, layout, dropout, scale)

    model = build("Bert", SIZES).requires_grad_(not is_frozen)
    read_without_padding(model, {"cpu": (without_dropout,)})
    for _ in range(2):
        states(model, batch())
        states(model.train(), batch())
        model.eval()
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("kernel", [by_row, broken])
def test_trainings_are_told_whether_rows_are_padded(is_frozen: bool, kernel: rows.Kernel) -> None:
    model = build("Bert", SIZES, "AutoModelForSequenceClassification").train()
    model.bert.requires_grad_(not is_frozen)
    read_without_padding(model, {"cpu": (kernel,)})
    model(**batch())
    assert getattr(model.bert, WITHOUT_PADDING) == (kernel is by_row)


def test_a_kernel_that_fails_in_a_later_step_is_told_to_trainings() -> None:
    model = build("Bert", SIZES, "AutoModelForSequenceClassification")
    labels = torch.tensor([0, 1, 1, 0, 1])
    expected = gradients(model, labels)
    kernel = Failing(RuntimeError, TRIAL + 5)
    read_without_padding(model, {"cpu": (kernel,)})
    for without_padding in (True, False):
        unpadded = gradients(model, labels)
        close([unpadded[key] for key in expected], list(expected.values()), atol=1e-4)
        assert getattr(model.bert, WITHOUT_PADDING) == without_padding


def test_a_kernel_that_fails_between_checkpoints() -> None:
    """As with gradient caching: a batch is computed again as it was at first, though the verdict has changed."""
    model = build("Bert", SIZES)
    batches = [batch(), batch([9, 3, 12]), batch([4, 11])]

    def gradient() -> Any:
        model.zero_grad()
        inputs = [dict(each, attention_mask=each["attention_mask"].clone()) for each in batches]
        outputs = [checkpoint(lambda x: model(**x).last_hidden_state, each, use_reentrant=False) for each in inputs]
        masks = [each["attention_mask"].bool() for each in batches]
        sum(output[mask].square().mean() for output, mask in zip(outputs, masks, strict=True)).backward()
        return model.encoder.layer[0].attention.self.value.weight.grad.clone()

    def many_rows(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        if layout.lengths == [9, 3, 12]:
            calls.append(layout)
            if len(calls) % 3 == 2:  # in the second layer
                calls.append(layout)
                broken()
        return by_row(query, key, value, layout, dropout, scale)

    calls: list[Layout] = []
    expected = gradient()
    read_without_padding(model, {"cpu": (many_rows,)})
    close([gradient(), gradient()], [expected, expected])
    assert "no kernel image" in describe_padding(model)["padding"]
