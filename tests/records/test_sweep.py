"""Several seeds read as one run: means where there were scores, and nothing that is one training's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from figeval import RecordError, RunRecord
from figeval.records.schema import BreakdownRecord, MacroRecord
from figeval.records.sweep import SEEDS, SeedScore, SeedsRecord, mean_of, run_or_mean, write
from tests.finished_runs import run, score, task

ACC = SeedScore(
    task="proverbs",
    metric="acc",
    n=40,
    values={"0": 0.25, "1": 0.5},
    mean=0.375,
    sd=0.1768,
    low=0.1,
    high=0.65,
    interval="t over seeds and examples",
)
TWO_SEEDS = SeedsRecord(
    task="t", model="m", seeds=[0, 1], wanted=[0, 1], runs={"0": "seed-0/runs/t", "1": "seed-1/runs/t"}, scores=[ACC]
)


def record_of_seed(value: float, identity: str, macro: float | None, warning: str = "beware") -> RunRecord:
    mean = task(
        scores=[score(value=value), score("f1")],
        warnings=[warning],
        seconds=2.0,
        breakdowns=[BreakdownRecord(by="x", groups=[])],
    )
    return run(mean, identity=identity, macro=[MacroRecord(suite="s", metric="acc", value=macro, tasks=2)])


def test_means_take_the_place_of_scores() -> None:
    mean = mean_of(TWO_SEEDS, [record_of_seed(0.25, "00000000", 0.2), record_of_seed(0.5, "11111111", 0.4)])
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


def test_a_mean_that_a_seed_is_missing_from_is_none() -> None:
    assert (
        mean_of(TWO_SEEDS, [record_of_seed(0.25, "00000000", 0.2), record_of_seed(0.5, "11111111", None)])
        .macro[0]
        .value
        is None
    )


def test_a_folder_of_seeds_and_one_of_a_run(tmp_path: Path) -> None:
    for seed, value in (("0", 0.25), ("1", 0.5)):
        folder = tmp_path / TWO_SEEDS.runs[seed]
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(record_of_seed(value, seed * 8, None).model_dump_json())
    write(TWO_SEEDS, tmp_path / SEEDS)
    assert run_or_mean(tmp_path).tasks[0].scores[0].value == 0.375
    assert run_or_mean(tmp_path / SEEDS).model.name == "m on t, 2 seeds"
    assert run_or_mean(tmp_path / "seed-1" / "runs" / "t").tasks[0].scores[0].value == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"task": 1}', "was not written by this version of figeval"),
        (TWO_SEEDS.model_copy(update={"runs": {}}).model_dump_json(), "has no runs; train with --evaluate"),
        (TWO_SEEDS.model_dump_json(), r"seed-0/runs/t: cannot be read"),
    ],
    ids=["no record", "not evaluated", "a run is gone"],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / SEEDS).write_text(text)
    with pytest.raises(RecordError, match=message):
        run_or_mean(tmp_path)
