"""`figeval curve impli`: which trainings there are, what they learn from, and the numbers of their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import roc_auc_score

import figeval
from figeval import DataError, RecordError, TrainError
from figeval.builtin.tasks.impli import impli_rows
from figeval.builtin.tasks.impli.curve import curve_impli, figure, points, results
from figeval.builtin.tasks.impli.curve.points import Curve, CurveTraining
from figeval.builtin.tasks.impli.folds import Point
from figeval.builtin.tasks.nli import union
from figeval.cli.main import main
from tests.finished_runs import row
from tests.plugins.tiny import Workshop


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
    names = [training.name.removeprefix("impli_curve_") for training in curve().trainings()]
    assert names == ["fold0_train0_none_seed0", "fold0_train3_both_seed0", "fold0_train3_entailment_seed0"]
    large_curve = curve(
        points=range(10), regimes=("both", "entailment", "non-entailment"), held_out=range(10), seeds=range(5)
    )
    assert len(list(large_curve.trainings())) == (1 + 9 * 3) * 10 * 5


def test_a_task_says_what_is_learned_and_asked() -> None:
    task = training(regime="non-entailment").task({"type": "pairs", "floor": "no_query", "metrics": ["acc"]})
    assert task["name"] == "impli_curve_fold0_train3_non_entailment_seed0"
    assert task["data"] == {
        "test": "impli_curve:held_out?fold=0",
        "train": "impli_curve:train?fold=0&train=3&regime=non-entailment&nli=30&pairs=20",
    }
    assert "floor" not in task
    assert points.parse_query(task["data"]["train"].partition("?")[2]) == (
        Point(fold=0, train=3, regime="non-entailment", pairs=20),
        30,
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("fold=10", "there are folds 0 to 9"),
        ("fold=x", "fold=x is not a number"),
        ("fould=1", "has no 'fould'"),
        ("regime=neither", "has no regime 'neither'; it has both, entailment, non-entailment"),
    ],
)
def test_a_point_that_is_none_is_one_line(query: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        points.parse_query(query)


def answered_training(accuracy: float, seed: int = 0, fold: int = 0, **changes: Any) -> results.AnsweredTraining:
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
    return results.AnsweredTraining(training(seed=seed, fold=fold, **changes), 50, rows)  # type: ignore[arg-type]


def test_accuracies_are_those_of_all_folds_together_and_areas_means_over_them() -> None:
    numbers_of_part = {
        number.part: number
        for number in results.numbers([answered_training(0.5, fold=0), answered_training(1.0, fold=1)])
    }
    assert {part: (number.n, number.value) for part, number in numbers_of_part.items()} == {
        "all": (80, 0.75),
        "entailment": (40, 0.75),
        "non-entailment": (40, 0.75),
        "auc": (80, numbers_of_part["auc"].value),
    }
    assert numbers_of_part["all"].low is not None and numbers_of_part["all"].low < 0.75
    areas = [
        roc_auc_score(*zip(*gold_and_score(training), strict=True))
        for training in (answered_training(0.5), answered_training(1.0))
    ]
    assert numbers_of_part["auc"].value == pytest.approx(sum(areas) / 2)


def gold_and_score(training: results.AnsweredTraining) -> list[tuple[bool, float]]:
    return [(row["gold"] == "entailment", row["scores"][0]) for row in training.rows]


def test_scores_of_two_models_are_never_compared() -> None:
    """A model that gives all of its scores higher than another one loses nothing by it."""
    low, high = answered_training(1.0, fold=0), answered_training(1.0, fold=1)
    raised = [{**row, "scores": [row["scores"][0] + 5]} for row in high.rows]
    numbers = results.numbers([low, results.AnsweredTraining(high.training, 50, raised)])  # type: ignore[arg-type]
    assert {number.part: number.value for number in numbers}["auc"] == 1.0


@pytest.mark.parametrize(("seeds", "words"), [(1, "between trainings"), (2, "no bands"), (3, "idioms and seeds")])
def test_the_figure_says_what_its_bands_are(seeds: int, words: str) -> None:
    behind, bands = figure.subtitle_lines(results.numbers([answered_training(0.5, seed) for seed in range(seeds)]), "m")
    assert behind == f"m; 1 held-out fold, {seeds} seed{'s' * (seeds > 1)}"
    assert words in bands


def test_seeds_have_a_mean_a_deviation_and_from_three_on_an_interval() -> None:
    two, three = (results.numbers([answered_training(0.5 + seed / 10, seed) for seed in range(n)])[0] for n in (2, 3))
    assert (two.n, two.trainings, two.low) == (40, 2, None)
    assert two.value == pytest.approx(0.55)
    assert two.sd == pytest.approx(0.1 / 2**0.5)
    assert three.low is not None and three.high is not None
    assert three.low < 0.6 < three.high
    area = results.numbers([answered_training(0.5 + seed / 10, seed) for seed in range(3)])[-1]
    assert area.part == "auc" and area.value is not None and area.low is not None and area.high is not None
    assert area.low < area.value < area.high


def test_a_pair_that_one_seed_left_unanswered_is_left_out_for_all() -> None:
    first, other = answered_training(1.0, 0), answered_training(1.0, 1)
    silent = [{**row, "metrics": {}} if row["id"] == "e0" else row for row in other.rows]
    numbers = results.numbers([first, results.AnsweredTraining(other.training, 50, silent)])  # type: ignore[arg-type]
    assert [number.n for number in numbers] == [39, 19, 20, 39]


def test_the_figure_has_the_regimes_that_there_are_and_begins_each_with_the_shared_point() -> None:
    numbers = results.numbers(
        [
            answered_training(0.5, train=0, regime="none"),
            answered_training(0.6),
            answered_training(0.7, regime="entailment"),
        ]
    )
    assert [
        list(numbers_of_regime) and [number.folds for number in numbers_of_regime if number.part == "all"]
        for numbers_of_regime in results.regimes_of(numbers).values()
    ] == [
        [0, 3],
        [0, 3],
    ]
    chart = figure.curves(numbers, "m").to_dict()
    assert json.dumps(chart).count('"domain": ["both", "entailment"]') >= 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--points", "0,10"), "--points: '10' is not a number from 0 to 9"),
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


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Made-up pairs of forty idioms, six of each, and thirty literal ones."""
    none = dict.fromkeys(("surface", "idiom_start", "idiom_end", "idiom_confidence", "flaw"))
    rows = [
        {
            "id": str(n),
            "premise": f"day {n} of idiom {n % 40}",
            "hypothesis": ("they spoke of it", "the cat sat down")[n // 40 % 2],
            "premise_key": str(n),
            "label": ("entailment", "non-entailment")[n // 40 % 2],
            "idiom": f"idiom {n % 40}",
            **none,
            "corpus": "manual",
            "figure": "idiom",
        }
        for n in range(240)
    ]
    labels = ("entailment", "neutral", "contradiction")
    literal = [
        {"id": n, "premise": f"{n} is even", "hypothesis": "so it is", "label": labels[n % 3]} for n in range(30)
    ]
    monkeypatch.setattr(impli_rows, "idiom_rows", lambda context: iter(rows))
    monkeypatch.setattr(union, "rows", lambda split, context: iter(literal))
    return rows


def test_a_folder_with_another_curve_is_refused(tmp_path: Path, pairs: list[dict[str, Any]]) -> None:
    curve_impli.CurveFolder(tmp_path, "b", {"lr": 1e-4}, curve(), keep_models=False).begin()
    before = curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(), keep_models=False)
    before.begin()  # nothing was trained for the other one yet
    before.save({"learned": 1}, ())
    curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(points=(0, 9)), keep_models=False).begin()
    with pytest.raises(TrainError, match="has a curve with a different model; choose another --output"):
        curve_impli.CurveFolder(tmp_path, "b", {"lr": 1e-4}, curve(), keep_models=False).begin()
    pairs[0]["label"] = "non-entailment"
    with pytest.raises(TrainError, match="has a curve of different pairs than IMPLI has now"):
        curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(), keep_models=False).begin()
    (tmp_path / "curve.json").write_text("[]")
    with pytest.raises(RecordError, match="is not a learning curve"):
        before.begin()


@pytest.mark.slow
@pytest.mark.usefixtures("pairs")
def test_an_interrupted_curve_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Workshop(tmp_path / "models")("bert", "Model")
    flags = ["--model", str(model), "--points", "0,2", "--regimes", "both,entailment", "--folds", "2", "--nli", "12"]
    flags += [
        "--pairs",
        "36",
        "--batch_size",
        "8",
        "--max_length",
        "32",
        "--lr",
        "0.01",
        "--epochs",
        "4",
        "--device",
        "cpu",
        "--no_plots",
    ]
    original_train, original_run = figeval.train, figeval.run
    calls: list[str] = []
    stopped: list[str] = []

    def train(task: str, *arguments: Any, **options: Any) -> Any:
        calls.append("try" if "max_steps" in options else task.removeprefix("impli_curve_"))
        return original_train(task, *arguments, **options)

    def run(task: str, *arguments: Any, **options: Any) -> Any:
        if task == "impli_curve_fold1_train0_none_seed0" and not stopped:
            stopped.append(task)
            raise KeyboardInterrupt
        return original_run(task, *arguments, **options)

    def curve_in(folder: str) -> list[Any]:
        with pytest.raises(SystemExit) as ended:
            main(["curve", "impli", "--output", str(tmp_path / folder), *flags])
        assert ended.value.code == 0
        return json.loads((tmp_path / folder / "curve.json").read_text())["numbers"]

    monkeypatch.setattr(figeval, "train", train)
    monkeypatch.setattr(figeval, "run", run)
    with pytest.raises(SystemExit, match="130"):
        main(["curve", "impli", "--output", str(tmp_path / "stopped"), *flags])
    assert calls == ["try", "fold0_train0_none_seed0", "fold1_train0_none_seed0"]
    stored = json.loads((tmp_path / "stopped" / "curve.json").read_text())
    assert stored["learned"] == {"impli_curve_fold0_train0_none_seed0": 12}
    capsys.readouterr()

    del calls[:]
    gone_on = curve_in("stopped")
    other_trainings = [f"fold{fold}_train2_{regime}_seed0" for regime in ("both", "entailment") for fold in (0, 1)]
    assert calls == ["try", "fold1_train0_none_seed0", *other_trainings]
    assert "5 trainings on up to 20 pairs, each asked about" in capsys.readouterr().out
    assert [
        (number["regime"], number["folds"], number["learned"]) for number in gone_on if number["part"] == "all"
    ] == [
        ("none", 0, 12),
        ("both", 2, 20),
        ("entailment", 2, 20),
    ]

    del calls[:]
    assert curve_in("stopped") == gone_on
    assert not calls, "all is done"
    assert "all 6 trainings are done" in capsys.readouterr().out
    assert curve_in("undisturbed") == gone_on
