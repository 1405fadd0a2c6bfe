"""What a finished run can still be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from figeval import Harness, RecordError, UnknownName
from figeval.records.run_folder import RunFolder, read_record
from figeval.runs.score import MetricSet, TaskScorer
from figeval.runs.stored import stored_metrics, stored_values, with_breakdown
from figeval.types import JSON
from tests.finished_runs import finished, row

METRICS = Harness().metrics
SET = MetricSet([METRICS.get("acc", "pairs"), METRICS.get("macro_f1", "pairs")], ("entailment", "non-entailment"))
ROW_FIELDS = {"status": "ok", "cluster": None, "group": None, "tied": 1, "truncated": False}
TASKS = ("mini_pairs", "mini_retrieval")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("runs") / "run", *TASKS, baselines=False)


def test_metrics_are_told_apart(folder: Path) -> None:
    assert stored_metrics(RunFolder(folder), "mini_pairs") == {"acc": True, "macro_f1": False}
    assert stored_metrics(RunFolder(folder), "nothing") == {}


def test_values_of_means_only(folder: Path) -> None:
    values = stored_values(RunFolder(folder), "mini_pairs", "acc")
    assert len(values) == 60
    assert values["I01E"][1] == "spill the beans"
    assert stored_values(RunFolder(folder), "mini_pairs", "macro_f1") == {}
    assert stored_values(RunFolder(folder), "mini_pairs", "mrr") == {}


def test_a_breakdown_afterwards_is_that_of_the_run(folder: Path, tmp_path: Path) -> None:
    metrics = Harness().metrics
    during = read_record(finished(tmp_path / "run", *TASKS, by=("figure",), baselines=False) / "run.json")
    before = (folder / "run.json").read_bytes()
    afterwards = with_breakdown(folder, "figure", metrics)
    assert [task.breakdowns for task in afterwards.tasks] == [task.breakdowns for task in during.tasks]
    assert (folder / "run.json").read_bytes() == before, "looking changes nothing"


def test_a_breakdown_has_every_metric_of_the_run(folder: Path) -> None:
    """Macro-F1 is bootstrapped, which takes forty clusters; a minimal pair counts where both members have the value."""
    pairs = next(task for task in with_breakdown(folder, "figure", METRICS).tasks if task.task == "mini_pairs")
    run_scores = {score.metric: score for score in pairs.scores}
    for group in pairs.breakdowns[0].groups:
        group_scores = {score.metric: score for score in group.scores}
        assert list(group_scores) == list(run_scores) == ["acc", "macro_f1", "acc_strict"]
        assert group_scores["macro_f1"].value is not None
        assert group_scores["macro_f1"].interval.reason == "fewer than 40 clusters"
        assert group_scores["acc"].low is not None
        assert group_scores["acc_strict"].n == group_scores["acc"].n / 2
    rows = [json.loads(line) for line in (folder / "predictions/mini_pairs.jsonl").read_text().splitlines()]
    by_side = scorer(SET).breakdown("side", lambda: rows_with_sides(rows))
    assert [{score.metric: score.n for score in group.scores} for group in by_side.groups] == [
        {"acc": 30, "macro_f1": 30, "acc_strict": 0},
        {"acc": 30, "macro_f1": 30, "acc_strict": 0},
    ]


def scorer(metrics: MetricSet) -> TaskScorer:
    return TaskScorer(metrics=metrics, strict=False, seed=0, settings={})


def rows_with_sides(rows: list[JSON]) -> list[JSON]:
    """The rows with a column in which the members of every pair differ."""
    return [{**row, "meta": {"side": row["id"][-1]}} for row in rows]


def test_a_breakdown_counts_different_words_within_its_part() -> None:
    """distinct_1 of "a b" is 1 and of "a b", "a b" is 1/2: what another part says takes nothing away."""
    metrics = MetricSet([METRICS.get("distinct_1", "generation")], ())
    rows = [
        {**ROW_FIELDS, "id": str(number), "pred": text, "meta": {"side": side}, "metrics": {"distinct_1": [0.0, 2.0]}}
        for number, (text, side) in enumerate([("a b", "x"), ("a b", "x"), ("a b", "y")])
    ]
    breakdown = scorer(metrics).breakdown("side", lambda: rows)
    values = {group.value: group.scores[0] for group in breakdown.groups}
    assert (values["x"].value, values["y"].value) == (0.5, 1.0)
    assert values["x"].interval.reason == "depends on the number of texts"


def test_an_unknown_column_has_near_names(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"--by figur: .*did you mean 'figure'.*they have figure, idiom, proverb"):
        with_breakdown(folder, "figur", Harness().metrics)


def test_a_metric_that_is_not_installed_is_named(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    (other / "predictions").mkdir(parents=True)
    record = read_record(folder / "run.json")
    for task in record.tasks:
        task.predictions_sha256 = None  # as before 1.4
    RunFolder(other).write(record)
    line = row("1", metrics={"acme_margin": 0.5}, meta={"figure": "idiom"})
    (other / "predictions/mini_pairs.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UnknownName, match="unknown metric 'acme_margin'"):
        with_breakdown(other, "figure", Harness().metrics)
