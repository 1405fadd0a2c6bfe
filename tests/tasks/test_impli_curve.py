"""`figeval curve impli`: which trainings there are, what they learn from, and the numbers of their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import roc_auc_score

from figeval.builtin.tasks.impli.curve import command, figure, points, results
from figeval.builtin.tasks.impli.curve.points import Curve, CurveTraining
from figeval.builtin.tasks.impli.folds import Point
from figeval.cli.main import main
from figeval.errors import DataError
from tests.runs import finished, row


def curve(**changes: Any) -> Curve:
    about: dict[str, Any] = {
        "points": (3, 0),
        "regimes": ("both", "entailment"),
        "held_out": range(1),
        "seeds": range(1),
        "nli": 30,
        "pairs": 20,
    }
    return Curve(**{**about, **changes})


def training(**changes: Any) -> CurveTraining:
    return CurveTraining(**{"fold": 0, "train": 3, "regime": "both", "seed": 0, "nli": 30, "pairs": 20, **changes})


def test_regimes_share_the_training_without_figurative_pairs() -> None:
    names = [one.name.removeprefix("impli_curve_") for one in curve().trainings()]
    assert names == ["fold0_train0_none_seed0", "fold0_train3_both_seed0", "fold0_train3_entailment_seed0"]
    whole = curve(
        points=range(10), regimes=("both", "entailment", "non-entailment"), held_out=range(10), seeds=range(5)
    )
    assert len(list(whole.trainings())) == (1 + 9 * 3) * 10 * 5


def test_a_task_says_what_is_learned_and_asked() -> None:
    task = training(regime="non-entailment").task({"type": "pairs", "floor": "no_query", "metrics": ["acc"]})
    assert task["name"] == "impli_curve_fold0_train3_non_entailment_seed0"
    assert task["data"] == {
        "test": "impli_curve:held_out?fold=0",
        "train": "impli_curve:train?fold=0&train=3&regime=non-entailment&nli=30&pairs=20",
    }
    assert "floor" not in task
    assert points.asked(task["data"]["train"].partition("?")[2]) == (
        Point(fold=0, train=3, regime="non-entailment", pairs=20),
        30,
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("fold=10", "there are folds 0 to 9"),
        ("fold=x", "fold=x is no number"),
        ("fould=1", "has no 'fould'"),
        ("regime=neither", "has no regime 'neither'; it has both, entailment, non-entailment"),
    ],
)
def test_a_point_that_is_none_is_one_line(query: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        points.asked(query)


def answered(accuracy: float, seed: int = 0, fold: int = 0, **changes: Any) -> results.Answered:
    """Forty pairs of a fold, ten idioms; the first `accuracy` of each label are right."""
    rows = []
    for label, gold in (("e", "entailment"), ("n", "non-entailment")):
        for number in range(20):
            right = number < 20 * accuracy
            score = 0.9 if right == (label == "e") else 0.1
            about = {
                "gold": gold,
                "metrics": {"acc": float(right)},
                "cluster": f"{fold} {number % 10}",
                "scores": [score],
            }
            rows.append(row(f"{label}{number}", **about))
    return results.Answered(training(seed=seed, fold=fold, **changes), 50, rows)  # type: ignore[arg-type]


def test_answers_to_all_folds_are_pooled() -> None:
    found = {one.part: one for one in results.numbers([answered(0.5, fold=0), answered(1.0, fold=1)])}
    assert {part: (one.n, one.value) for part, one in found.items()} == {
        "all": (80, 0.75),
        "entailment": (40, 0.75),
        "non-entailment": (40, 0.75),
        "auc": (80, found["auc"].value),
    }
    assert found["all"].low is not None and found["all"].low < 0.75
    golds = [one["gold"] == "entailment" for a in (0.5, 1.0) for one in answered(a).rows]
    scores = [one["scores"][0] for a in (0.5, 1.0) for one in answered(a).rows]
    assert found["auc"].value == pytest.approx(roc_auc_score(golds, scores))


def test_seeds_have_a_mean_a_deviation_and_from_three_on_an_interval() -> None:
    two, three = (results.numbers([answered(0.5 + seed / 10, seed) for seed in range(n)])[0] for n in (2, 3))
    assert (two.n, two.trainings, two.low) == (40, 2, None)
    assert two.value == pytest.approx(0.55)
    assert two.sd == pytest.approx(0.1 / 2**0.5)
    assert three.low is not None and three.high is not None
    assert three.low < 0.6 < three.high


def test_a_pair_that_one_seed_left_unanswered_is_left_out_for_all() -> None:
    one, other = answered(1.0, 0), answered(1.0, 1)
    silent = [{**found, "metrics": {}} if found["id"] == "e0" else found for found in other.rows]
    made = results.numbers([one, results.Answered(other.training, 50, silent)])  # type: ignore[arg-type]
    assert [found.n for found in made] == [39, 19, 20, 39]


def test_the_figure_has_the_regimes_that_there_are_and_begins_each_with_the_shared_point() -> None:
    found = results.numbers([answered(0.5, train=0, regime="none"), answered(0.6), answered(0.7, regime="entailment")])
    assert [
        list(own) and [one.folds for one in own if one.part == "all"] for own in results.regimes_of(found).values()
    ] == [
        [0, 3],
        [0, 3],
    ]
    chart = figure.curves(found, "m").to_dict()
    assert json.dumps(chart).count('"domain": ["both", "entailment"]') >= 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--points", "0,10"), "--points: '10' is no number from 0 to 9"),
        (("--regimes", "both,entailmnt"), "--regimes: there is no 'entailmnt'; did you mean 'entailment'"),
    ],
)
def test_what_is_no_curve_is_one_line(
    flags: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["curve", "impli", "--model", "minilm", "--output", str(tmp_path / "c"), "--no_plots", *flags])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_folder_with_another_curve_is_refused(tmp_path: Path) -> None:
    before = command.Work(tmp_path, "a", {"lr": 1e-4}, curve(), keep_models=False)
    before.begin()
    before.keep(training(), 50)
    before.begin()
    with pytest.raises(Exception, match="has a curve with another model; choose another --output"):
        command.Work(tmp_path, "b", {"lr": 1e-4}, curve(), keep_models=False).begin()
    (tmp_path / "curve.json").write_text("[]")
    with pytest.raises(Exception, match="is no learning curve"):
        before.begin()


def test_a_training_is_done_once_its_run_is_complete(tmp_path: Path) -> None:
    work = command.Work(tmp_path, "m", {}, curve(), keep_models=False)
    assert [one.train for one in work.missing()] == [0, 3, 3]
    first = next(curve().trainings())
    finished(tmp_path / "runs" / first.name, "mini_pairs", limit=3, baselines=False)
    assert [one.train for one in work.missing()] == [3, 3]
    assert work.is_done(first)
