"""What a finished run can still be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from figeval import plugins
from figeval.errors import RecordError, UnknownName
from figeval.metrics.catalogue import load_metrics
from figeval.pipeline.stored import stored_metrics, stored_values, with_breakdown
from figeval.records.folder import RunFolder, read_record
from tests.runs import finished, row

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
    metrics = load_metrics(plugins.host())
    during = read_record(finished(tmp_path / "run", *TASKS, by=("figure",), baselines=False) / "run.json")
    before = (folder / "run.json").read_bytes()
    afterwards = with_breakdown(folder, "figure", metrics)
    assert [task.breakdowns for task in afterwards.tasks] == [task.breakdowns for task in during.tasks]
    assert (folder / "run.json").read_bytes() == before, "looking changes nothing"


def test_an_unknown_column_has_near_names(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"--by figur: .*did you mean 'figure'.*they have figure, idiom, proverb"):
        with_breakdown(folder, "figur", load_metrics(plugins.host()))


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
        with_breakdown(other, "figure", load_metrics(plugins.host()))
