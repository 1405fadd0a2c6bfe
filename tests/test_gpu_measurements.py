"""`python -m bench.gpu` in tiny shapes on a CPU: every part measures, none loses what others measured."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from bench.gpu import training
from bench.gpu.machine import Machine
from bench.gpu.shapes import ROBERTA, write_roberta

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("log_likelihoods_1b", "encoding", "training", "training_ddp", "generation")
TINY_FLAGS = ("--device", "cpu", "--tiny", "--quick")


def measure(*options: str, code: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.gpu", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def figures_in(folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((folder / "gpu.json").read_text(encoding="utf-8"))["figures"]
    return figures


def numbers(value: Any) -> Iterator[float]:
    """Yield all numbers in nested dicts."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, int | float):
        yield float(value)


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_one_line_and_no_record(tmp_path: Path) -> None:
    done = measure("--output", str(tmp_path), code=2)
    assert done.stderr.startswith("no GPU is available here; ")
    assert (done.stderr.count("\n"), done.stdout, list(tmp_path.iterdir())) == (1, "", [])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_parts_measure_and_one_that_takes_too_long_loses_only_itself(tmp_path: Path) -> None:
    options = ("--only", "encoding", "--only", "log_likelihoods_1b", "--output", str(tmp_path))
    measure(*TINY_FLAGS, *options, "--seconds", "0", code=1)
    late = {"failed": "took more than 1 s"}
    assert figures_in(tmp_path) == {"device": "CPU", "log_likelihoods_1b": late, "encoding": late}
    measure(*TINY_FLAGS, *options[2:], code=0)
    first = figures_in(tmp_path)
    assert first["encoding"] == late
    assert first["log_likelihoods_1b"]["seconds_of_self_test"] > 0
    done = measure(*TINY_FLAGS, "--output", str(tmp_path), code=0)
    assert "log_likelihoods_1b: measured already" in done.stderr
    assert "encoding: about " in done.stderr
    figures = figures_in(tmp_path)
    assert figures["log_likelihoods_1b"] == first["log_likelihoods_1b"]
    assert (figures.pop("device"), tuple(figures)) == ("CPU", PARTS)
    assert all(math.isfinite(number) for number in numbers(figures))
    packed = figures["log_likelihoods_1b"]
    for name in ("5-way", "250-way", "5-way, 4-shot", "250-way, 4-shot"):
        assert packed[name]["ratio"] > 0
        assert packed[name]["apart_per_token"] < 1e-4
        assert packed[name]["tokens"]["read"] < packed[name]["tokens"]["one_row_per_continuation"]
    assert 0 < figures["encoding"]["throughput"]["share_of_rate"] < 1
    assert 0 < figures["encoding"]["ways"]["forward_passes"]["share_of_rate"] < 1
    assert figures["encoding"]["sentence_transformers"]["apart"] < 1e-4
    assert list(figures["encoding"]["memory"]["mib_by_tokens"]) == ["1024", "512", "256", "128"]
    assert 0 < figures["training"]["float32"]["share_of_rate"] < 1
    assert figures["training"]["plain"]["seconds_per_step"] > 0
    assert figures["training"]["plain"]["tokens_per_step"] > 0
    assert figures["encoding"]["sentence_transformers"]["texts_per_second"] > 0
    assert 0 < figures["training_ddp"]["float32"]["share_of_rate"] < 1
    assert figures["generation"]["figeval"]["tokens_per_second"] > 0
    assert figures["generation"]["transformers"]["tokens_per_second"] > 0


def test_the_plain_loop_tokenizes_nothing_while_the_clock_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it wait for the device but by reading the loss: as figeval's loop."""
    events: list[str] = []
    seconds = iter(range(100))
    tokenize = PreTrainedTokenizerBase.__call__

    def tick() -> float:
        events.append("end of a step")
        return float(next(seconds) ** 2)

    def noted(*arguments: Any, **options: Any) -> Any:
        events.append("tokenize")
        return tokenize(*arguments, **options)

    class Untimed(Machine):
        def seconds(self, call: Callable[[], Any]) -> float:
            raise AssertionError("waits for the device")

        def multiplications(self) -> float:
            return 1e9

    write_roberta(tmp_path / "model", "tiny")
    training.write_task(tmp_path, 8, ROBERTA["tiny"]["vocab_size"])
    monkeypatch.setattr(PreTrainedTokenizerBase, "__call__", noted)
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=tick))
    figures = training.measure_plain_loop(Untimed("cpu"), tmp_path, "float32", 2)
    assert events == ["tokenize", *["end of a step"] * 4]
    assert figures["seconds_per_step"] == 4, "the median of 3 and 5; the first step warms up"
    assert figures["tokens_per_step"] > 2 * training.WORDS
