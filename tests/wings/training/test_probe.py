"""What a pass costs is measured at the start, kept, and used: on a CPU with a gauge that makes its times up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from figeval import TrainError
from figeval.wings.training.batch_plans import TOKENS_ON_ACCELERATOR
from figeval.wings.training.loop import train
from figeval.wings.training.pass_cost import (
    DeviceGauge,
    StepMeasurement,
    StepWork,
    fit_costs,
    gauge_of,
    tokens_in_memory,
)
from figeval.wings.training.train_folder import Progress, TrainFolder
from tests import trainings
from tests.plugins.tiny import Workshop
from tests.wings.training.gauges import MadeUp
from tests.wings.training.linear import Heard, Linear, LinearNetwork, Vectors, config, job, processes


def train_with_gauge(
    output: Path, gauge: MadeUp | None, heard: Heard | None = None, learner: Linear | None = None, **changes: Any
) -> Progress:
    train_config = config(output, **{"tokens_per_batch": None, "patience": None, **changes})
    distributed = processes(train_config)
    distributed.gauge = gauge
    return train(job(train_config, heard or Heard(), learner), distributed)


def weights(folder: Path) -> dict[str, Any]:
    return dict(load_file(folder / "model.safetensors"))


def work(passes: int, tokens: int) -> StepWork:
    return StepWork(passes, tokens, peak_tokens=tokens)


def test_a_cpu_is_not_measured(tmp_path: Path) -> None:
    assert gauge_of("cpu") is None
    assert train_with_gauge(tmp_path / "out", None).cost is None


def test_a_device_without_known_memory_has_times_alone() -> None:
    gauge = DeviceGauge("a CPU", "cpu")
    probe = gauge.measure(lambda: work(2, 80))
    assert (probe.work, probe.activations, gauge.free_memory()) == (work(2, 80), None, None)
    assert probe.seconds > 0


def test_on_cuda_the_peak_above_what_was_held_is_measured_while_the_device_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    memory = {"memory_allocated": 1_000, "max_memory_allocated": 5_000, "memory_reserved": 7_000}
    for name, value in memory.items():
        monkeypatch.setattr(torch.cuda, name, lambda _device, value=value: value)
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: calls.append(name))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (10_000, 20_000))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a card")
    gauge = gauge_of("cuda:0")
    assert gauge is not None
    assert gauge.name == "a card"

    def run() -> StepWork:
        calls.append("run")
        return work(1, 8)

    assert gauge.measure(run).activations == 4_000
    assert calls == ["synchronize", "reset_peak_memory_stats", "run", "synchronize"]
    assert gauge.free_memory() == 16_000


def test_both_costs_are_recovered_and_neither_is_negative() -> None:
    works = [work(1, 800), work(4, 760), work(1, 300)]
    exact = [StepMeasurement(work, 0.04 * work.passes + 1e-5 * work.tokens) for work in works]
    assert fit_costs(exact) == pytest.approx((0.04, 1e-5))
    assert fit_costs([StepMeasurement(work(1, 800), 0.8), StepMeasurement(work(4, 800), 0.7)])[0] == 0
    assert fit_costs([StepMeasurement(work(1, 800), 0.1), StepMeasurement(work(4, 200), 0.5)])[1] == 0
    assert fit_costs([StepMeasurement(work(2, 80), 0.4), StepMeasurement(work(2, 80), 0.6)]) == pytest.approx(
        (0.25, 0.0)
    )


def test_the_memory_of_a_token_limits_a_pass() -> None:
    measured = [
        StepMeasurement(StepWork(2, 100, peak_tokens=50), 1.0, 5_000),
        StepMeasurement(StepWork(4, 100, peak_tokens=25), 1.0, 1_000),
    ]
    assert tokens_in_memory(measured, 1_000_000, 5, default=7) == 5_000, "half of the memory, 100 bytes per token"
    assert tokens_in_memory(measured, None, 5, default=7) == 7
    assert tokens_in_memory([StepMeasurement(work(1, 100), 1.0)], 1_000_000, 5, default=7) == 7


def test_memory_that_every_pass_needs_is_not_that_of_its_tokens() -> None:
    """As the time is, and whichever of the two passes is measured first."""
    large, small = (StepMeasurement(StepWork(1, 800, tokens), 1.0, 6_000 + 10 * tokens) for tokens in (800, 200))
    assert tokens_in_memory([large, small, large], 40_000, 5, default=7) == 1_400
    assert tokens_in_memory([small, large], 40_000, 5, default=7) == 1_400
    assert tokens_in_memory([large, small], 10_000, 50, default=7) == 50, "a pass has a row at least"


def test_passes_of_nearly_the_same_size_tell_nothing_about_a_fixed_part() -> None:
    alike = [StepMeasurement(StepWork(2, 800, 100), 1.0, 1_000), StepMeasurement(StepWork(4, 800, 99), 1.0, 500)]
    assert tokens_in_memory(alike, 40_000, 5, default=7) == 2_000


def test_losses_are_those_of_the_plan_for_a_cpu(tmp_path: Path) -> None:
    plain, planned = Heard(), Heard()
    before = train_with_gauge(tmp_path / "plain", None, plain, tokens_per_batch=16)
    gauge = MadeUp()
    after = train_with_gauge(tmp_path / "planned", gauge, planned)
    assert planned.losses == pytest.approx(plain.losses, abs=1e-5)
    last_losses = [progress.evaluations[-1].scores["loss"] for progress in (after, before)]
    assert last_losses[0] == pytest.approx(last_losses[1], abs=1e-5)
    assert after.cost is not None
    assert (after.cost.seconds_per_pass, after.cost.seconds_per_token) == pytest.approx((1.0, 0.01))
    assert after.cost.tokens == TOKENS_ON_ACCELERATOR
    assert after.passes == after.step < before.passes, "a pass costs a hundred tokens, and a step has fewer"
    longest = gauge.works[0]
    assert longest == work(1, 8 * 7), "eight of the longest rows"


class Unpadded(Linear):
    """Its network reads rows without padding, as it says once it has read a batch."""

    def network(self) -> Any:
        network = LinearNetwork(self.dropout)
        network.layer.register_forward_hook(lambda layer, *_: setattr(layer, "reads_without_padding", True))
        return network


def test_where_padding_takes_no_time_a_step_has_the_fewest_passes(tmp_path: Path) -> None:
    free = MadeUp(per_pass=1e-9, per_token=1.0)
    padded = train_with_gauge(tmp_path / "padded", free)
    unpadded = train_with_gauge(tmp_path / "unpadded", free, learner=Unpadded())
    assert padded.cost is not None
    assert unpadded.cost is not None
    assert (padded.cost.padding, unpadded.cost.padding) == (True, False)
    assert unpadded.passes == unpadded.step < padded.passes
    assert weights(tmp_path / "padded").keys() == weights(tmp_path / "unpadded").keys()


class Counting(LinearNetwork):
    """Its forward passes in training mode are counted in a buffer, as statistics of batches would be."""

    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, batches: Sequence[dict[str, Any]], shared_inputs: Sequence[dict[str, Any]]) -> Any:
        if self.training:
            self.count += 1
        return super().forward(batches, shared_inputs)


class Counted(Linear):
    def network(self) -> Any:
        return Counting(self.dropout)


@pytest.mark.slow
def test_measuring_changes_no_weight_and_no_buffer(tmp_path: Path) -> None:
    """One row is a pass of its own in both trainings, so they differ in the measurement alone."""
    learner = Counted(dropout=0.3)
    train_with_gauge(tmp_path / "plain", None, learner=learner, tokens_per_batch=1)
    train_with_gauge(tmp_path / "measured", MadeUp(), learner=learner, tokens_per_batch=1)
    left, right = weights(tmp_path / "plain"), weights(tmp_path / "measured")
    assert all(left[name].equal(right[name]) for name in left)
    assert left["count"] == 4 * 42


@pytest.mark.slow
def test_a_resumed_training_keeps_its_plan(tmp_path: Path) -> None:
    """A second measurement would differ, and so would the passes; on another device it is made."""
    learner = Linear(dropout=0.3)
    costs = {"per_pass": 1.0, "per_token": 0.1}
    train_with_gauge(tmp_path / "whole", MadeUp(**costs), uninterrupted := Heard(), learner)
    with pytest.raises(KeyboardInterrupt):
        train_with_gauge(tmp_path / "cut", MadeUp(**costs), Heard(cut=9), learner)
    again = MadeUp(per_pass=0.0, per_token=1.0)
    progress = train_with_gauge(tmp_path / "cut", again, rest := Heard(), learner)
    assert again.works == []
    assert rest.losses == uninterrupted.losses[rest.began_at[0] :]
    left, right = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(left[name].equal(right[name]) for name in left)
    assert progress == TrainFolder(tmp_path / "whole").read_progress().model_copy(update={"seconds": progress.seconds})
    with pytest.raises(KeyboardInterrupt):
        train_with_gauge(tmp_path / "moved", MadeUp(**costs), Heard(cut=9), learner)
    elsewhere = MadeUp(per_pass=0.0, per_token=1.0, name="another device")
    train_with_gauge(tmp_path / "moved", elsewhere, Heard(), learner)
    assert elsewhere.works


def test_tokens_that_were_asked_for_are_no_limit_of_the_memory(tmp_path: Path) -> None:
    """The command without the option reads as much as if it had never been given."""
    with pytest.raises(KeyboardInterrupt):
        train_with_gauge(tmp_path / "out", MadeUp(), Heard(cut=9), tokens_per_batch=10)
    progress = train_with_gauge(tmp_path / "out", MadeUp())
    assert progress.cost is not None
    assert progress.cost.tokens == TOKENS_ON_ACCELERATOR


class Warned(Heard):
    """An observer that remembers warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.mark.parametrize(("free", "warnings"), [(7 * 8, 1), (10_000, 0)])
def test_moments_that_leave_no_memory_are_warned_about(tmp_path: Path, free: int, warnings: int) -> None:
    """The passes are then those of a device whose memory is not known, and not one for every row."""
    progress = train_with_gauge(tmp_path / "out", MadeUp(bytes_per_token=1, free=free), heard := Warned())
    assert len(heard.warnings) == warnings
    assert progress.passes == progress.step


def test_moments_of_adafactor_are_small(tmp_path: Path) -> None:
    gauge = MadeUp(bytes_per_token=1, free=7 * 8)
    train_with_gauge(tmp_path / "out", gauge, heard := Warned(), optimizer="adafactor")
    assert not heard.warnings


@pytest.mark.slow
def test_passes_are_counted_from_the_first_step_or_not_at_all(tmp_path: Path) -> None:
    """An older figeval counted none, so a mean over all steps would be too small."""
    model, progress_file = Workshop(tmp_path)("bert", "Model"), tmp_path / "older/training/progress.json"

    def train(output: str) -> Any:
        settings = trainings.settings(model, tmp_path / "tasks", tmp_path / output, checkpoint_every=1, evaluate=())
        return trainings.train(**settings).record.passes

    with pytest.raises(KeyboardInterrupt), trainings.optimizer_steps(1):
        train("older")
    progress = json.loads(progress_file.read_text(encoding="utf-8"))
    assert progress["step"] == 1
    progress_file.write_text(json.dumps({**progress, "passes": 0}), encoding="utf-8")
    assert train("older") is None
    assert train("whole").per_step >= 1


def test_progress_of_an_older_figeval_has_no_cost() -> None:
    assert Progress.model_validate({"identity": "01234567", "step": 3}).cost is None


# ---- too little memory ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cramped(Linear):
    """A learner whose network has memory for so many rows at once."""

    rows: int = 4
    begins: list[tuple[torch.Tensor, bool]] = field(
        default_factory=list
    )  # random state of each pass; whether it failed

    def network(self) -> Any:
        return CrampedNetwork(self.dropout, self.rows, self.begins)


class CrampedNetwork(LinearNetwork):
    def __init__(self, dropout: float, rows: int, begins: list[tuple[torch.Tensor, bool]]) -> None:
        super().__init__(dropout)
        self.rows, self.begins = rows, begins

    def forward(self, batches: Sequence[dict[str, Any]], shared_inputs: Sequence[dict[str, Any]]) -> Any:
        state = torch.get_rng_state()
        losses = super().forward(batches, shared_inputs)
        fails = len(losses) > self.rows and self.training
        self.begins.append((state, fails))
        if fails:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return losses


def test_a_probe_that_does_not_fit_is_halved(tmp_path: Path) -> None:
    plain, cramped = Heard(), Heard()
    train_with_gauge(tmp_path / "plain", None, plain, tokens_per_batch=16)
    progress = train_with_gauge(tmp_path / "cramped", gauge := MadeUp(), cramped, Cramped())
    assert progress.cost is not None
    assert progress.cost.tokens <= 8 * 7 // 2
    assert {work.passes for work in gauge.works} == {2, 8}
    assert cramped.losses == pytest.approx(plain.losses, abs=1e-5)


def test_a_step_that_does_not_fit_is_taken_again_in_smaller_passes(tmp_path: Path) -> None:
    """The measurement promises more memory than there is for the shorter rows of a step."""
    plain, cramped = Heard(), Heard()
    train_with_gauge(tmp_path / "plain", None, plain, tokens_per_batch=16)
    gauge = MadeUp(bytes_per_token=1, free=1_000_000)
    progress = train_with_gauge(tmp_path / "cramped", gauge, cramped, Cramped())
    assert progress.cost is not None
    assert progress.cost.tokens < 8 * 7
    assert cramped.losses == pytest.approx(plain.losses, abs=1e-5)
    assert Counter(cramped.steps) == Counter(range(1, progress.step + 1))


def test_a_step_that_is_taken_again_draws_the_same_random_numbers(tmp_path: Path) -> None:
    learner = Cramped(dropout=0.3)
    train_with_gauge(tmp_path / "out", MadeUp(bytes_per_token=1, free=1_000_000), learner=learner)
    states = [state for state, _ in learner.begins]
    again = [index + 1 for index, (_, fails) in enumerate(learner.begins) if fails]
    assert len(again) > 1
    for index in again:
        assert any(state.equal(states[index]) for state in states[:index]), "as when the step began first"


@pytest.mark.parametrize(
    ("rows", "gauge", "tokens", "cure"),
    [
        (4, None, 1000, r"--tokens_per_batch \d+$"),
        (4, MadeUp(), 1000, r"--tokens_per_batch \d+$"),
        (0, MadeUp(), None, "--gradient_checkpointing"),
        (0, None, 1, "--gradient_checkpointing"),
    ],
)
def test_what_does_not_fit_at_all_is_an_error_with_a_cure(
    tmp_path: Path, rows: int, gauge: MadeUp | None, tokens: int | None, cure: str
) -> None:
    with pytest.raises(TrainError, match=cure):
        train_with_gauge(tmp_path / "out", gauge, learner=Cramped(rows=rows), tokens_per_batch=tokens)


@dataclass(frozen=True)
class CrampedOnDev(Linear):
    """A learner whose network has memory for so many rows at once when it is evaluated."""

    rows: int = 4

    def network(self) -> Any:
        network = LinearNetwork(self.dropout)
        network.register_forward_hook(self.check)
        return network

    def check(self, network: LinearNetwork, inputs: object, losses: torch.Tensor) -> None:
        if not network.training and len(losses) > self.rows:
            raise RuntimeError("CUDA error: out of memory")


def test_a_loss_on_dev_that_does_not_fit_is_computed_in_smaller_passes(tmp_path: Path) -> None:
    plain = train_with_gauge(tmp_path / "plain", None, tokens_per_batch=16)
    cramped = train_with_gauge(tmp_path / "cramped", MadeUp(), None, CrampedOnDev())
    assert cramped.cost is not None
    assert cramped.cost.tokens < 8 * 7
    losses = [[evaluation.scores["loss"] for evaluation in progress.evaluations] for progress in (cramped, plain)]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize(
    ("rows", "gauge", "tokens", "cure"),
    [
        (4, MadeUp(), 1000, r"--tokens_per_batch \d+$"),
        (4, None, 1000, r"--tokens_per_batch \d+$"),
        (0, MadeUp(), None, "use a smaller --max_length or --batch_size$"),
    ],
)
def test_a_loss_on_dev_that_cannot_be_computed_is_an_error_with_a_cure(
    tmp_path: Path, rows: int, gauge: MadeUp | None, tokens: int | None, cure: str
) -> None:
    with pytest.raises(TrainError, match=cure):
        train_with_gauge(tmp_path / "out", gauge, learner=CrampedOnDev(rows=rows), tokens_per_batch=tokens)


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), TrainError, "step 1 .*--fsdp"),
        (RuntimeError("bug"), RuntimeError, "bug"),
    ],
)
def test_memory_that_runs_out_in_an_update_is_an_error_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], words: str
) -> None:
    def step(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(raised, match=words):
        train_with_gauge(tmp_path / "out", MadeUp())


def test_any_other_error_is_a_bug(tmp_path: Path) -> None:
    class Faulty(Vectors):
        def batch(self, rows: Sequence[int], draw: int) -> dict[str, Any]:
            raise RuntimeError("shapes do not match")

    train_config = config(tmp_path / "out")
    with pytest.raises(RuntimeError, match="shapes"):
        train(replace(job(train_config, Heard(), train=Faulty(42, 1)), dev=None), processes(train_config))
