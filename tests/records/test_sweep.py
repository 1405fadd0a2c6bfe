"""Several seeds read as one run: means where there were scores, and nothing that is one training's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import figeval
from figeval import RecordError, RunRecord
from tests.finished_runs import run, score, store, task

ACC = {
    "task": "proverbs",
    "metric": "acc",
    "n": 40,
    "values": {"0": 0.25, "1": 0.5},
    "mean": 0.375,
    "sd": 0.1768,
    "low": 0.1,
    "high": 0.65,
    "interval": "t over seeds and examples",
}
RUNS = {"0": "seed-0/runs/t", "1": "seed-1/runs/t"}
TWO_SEEDS = {"task": "t", "model": "m", "seeds": [0, 1], "wanted": [0, 1], "runs": RUNS, "scores": [ACC]}


def two_seeds(folder: Path, *macros: float | None) -> Path:
    """Store two seeds with these macro means, as `figeval train --seeds` leaves them, and return their folder."""
    for seed, value, macro in zip(RUNS, (0.25, 0.5), macros, strict=True):
        mean = task(
            scores=[score(value=value), score("f1")],
            warnings=["beware"],
            seconds=2.0,
            breakdowns=[{"by": "x", "groups": []}],
        )
        macro_mean = {"suite": "s", "metric": "acc", "value": macro, "tasks": 2}
        store(folder / RUNS[seed], run(mean, identity=seed * 8, macro=[macro_mean]))
    (folder / "seeds.json").write_text(json.dumps(TWO_SEEDS))
    return folder


def mean_of(folder: Path) -> RunRecord:
    return figeval.load(folder).record


def test_means_take_the_place_of_scores(tmp_path: Path) -> None:
    mean = mean_of(two_seeds(tmp_path, 0.2, 0.4))
    (task_mean,) = mean.tasks
    (acc,) = task_mean.scores
    assert (acc.value, acc.sd, acc.low, acc.high, acc.n) == (0.375, 0.1768, 0.1, 0.65, 40)
    assert acc.interval.method == "t over seeds and examples"
    assert acc.stderr is None, "that of the first seed is none of the mean's"
    assert (task_mean.breakdowns, task_mean.counts, task_mean.predictions) == ([], {}, "")
    assert (task_mean.warnings, task_mean.seconds) == (["beware"], 4.0)
    assert task_mean.baselines[0].scores[0].value == 0.2
    assert mean.model.name == "m on t, 2 seeds"
    assert mean.identity not in ("00000000", "11111111")
    assert mean.macro[0].value == pytest.approx(0.3)


def test_a_mean_that_a_seed_is_missing_from_is_none(tmp_path: Path) -> None:
    assert mean_of(two_seeds(tmp_path, 0.2, None)).macro[0].value is None


def test_a_folder_of_seeds_and_one_of_a_run(tmp_path: Path) -> None:
    two_seeds(tmp_path, None, None)
    assert mean_of(tmp_path / "seeds.json").model.name == "m on t, 2 seeds"
    assert mean_of(tmp_path / "seed-1" / "runs" / "t").tasks[0].scores[0].value == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"task": 1}', "was not written by this version of figeval"),
        (json.dumps({**TWO_SEEDS, "runs": {}}), "has no runs; train with --evaluate"),
        (json.dumps(TWO_SEEDS), r"seed-0/runs/t: cannot be read"),
    ],
    ids=["no record", "not evaluated", "a run is gone"],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "seeds.json").write_text(text)
    with pytest.raises(RecordError, match=message):
        figeval.load(tmp_path)
