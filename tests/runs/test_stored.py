"""What a finished run can still be asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import figeval
from figeval import GenerationExample, RecordError, UnknownName
from tests.finished_runs import finished

TASKS = ("mini_pairs", "mini_retrieval")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("runs") / "run", *TASKS, baselines=False)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy of the run whose rows may be changed, as those of figeval before 1.4."""
    shutil.copytree(folder, tmp_path / "copy")
    record = json.loads((tmp_path / "copy/run.json").read_text(encoding="utf-8"))
    for task in record["tasks"]:
        task["predictions_sha256"] = None
    (tmp_path / "copy/run.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path / "copy"


def test_a_breakdown_afterwards_is_that_of_the_run(folder: Path, tmp_path: Path) -> None:
    during = figeval.load(finished(tmp_path / "run", *TASKS, by=("figure",), baselines=False)).record
    before = (folder / "run.json").read_bytes()
    afterwards = figeval.load(folder).by("figure").record
    assert [task.breakdowns for task in afterwards.tasks] == [task.breakdowns for task in during.tasks]
    assert (folder / "run.json").read_bytes() == before, "looking changes nothing"


def test_a_breakdown_has_every_metric_of_the_run(folder: Path, copy: Path) -> None:
    """Macro-F1 is bootstrapped, which takes forty clusters; a minimal pair counts where both members have the value."""
    pairs = figeval.load(folder).by("figure").record.tasks[0]
    run_scores = {score.metric: score for score in pairs.scores}
    for group in pairs.breakdowns[0].groups:
        group_scores = {score.metric: score for score in group.scores}
        assert list(group_scores) == list(run_scores) == ["acc", "macro_f1", "acc_strict"]
        assert group_scores["macro_f1"].value is not None
        assert group_scores["macro_f1"].interval.reason == "fewer than 40 clusters"
        assert group_scores["acc"].low is not None
        assert group_scores["acc_strict"].n == group_scores["acc"].n / 2
    file = copy / "predictions/mini_pairs.jsonl"
    rows = list(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    sides = ({**row, "meta": {"side": row["id"][-1]}} for row in rows)  # the members of every pair differ
    file.write_text("".join(json.dumps(row) + "\n" for row in sides), encoding="utf-8")
    (by_side,) = figeval.load(copy).by("side").record.tasks[0].breakdowns
    assert [{score.metric: score.n for score in group.scores} for group in by_side.groups] == [
        {"acc": 30, "macro_f1": 30, "acc_strict": 0},
        {"acc": 30, "macro_f1": 30, "acc_strict": 0},
    ]


def test_a_breakdown_counts_different_words_within_its_part(tmp_path: Path) -> None:
    """distinct_1 of "a b" is 1 and of "a b", "a b" is 1/2: what another part says takes nothing away."""

    @figeval.task(name="sides", type="generation", metrics=("distinct_1",), baselines=())
    def sides():  # type: ignore[no-untyped-def]
        for number, side in enumerate("xxy"):
            yield GenerationExample(id=str(number), inputs={"keywords": "a"}, references=("a b",), meta={"side": side})

    rows = [{"id": str(number), "prediction": "a b"} for number in range(3)]
    run = figeval.score(sides, rows, name="x", by=("side",), output_path=tmp_path / "run")
    scores = {group.value: group.scores[0] for group in run.record.tasks[0].breakdowns[0].groups}
    assert (scores["x"].value, scores["y"].value) == (0.5, 1.0)
    assert scores["x"].interval.reason == "depends on the number of texts"


def test_an_unknown_column_has_near_names(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"--by figur: .*did you mean 'figure'.*they have figure, idiom, proverb"):
        figeval.load(folder).by("figur")


def test_a_metric_that_is_not_installed_is_named(copy: Path) -> None:
    file = copy / "predictions/mini_pairs.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"acc"', '"acme_margin"'), encoding="utf-8")
    with pytest.raises(UnknownName, match="unknown metric 'acme_margin'"):
        figeval.load(copy).by("figure")
