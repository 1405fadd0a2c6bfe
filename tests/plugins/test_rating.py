"""Ratings: the contract of a task type, correlations beside scipy's, numbers in replies, and what cannot be scored."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import figeval
from figeval import Harness, PromptContext, Reply, load
from figeval.testing import check_task_type, predict
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.cli.conftest import Cli, Outcome

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "plugins" / "rating_replies.json").read_text("utf-8"))
RATING = Harness().task_types.get("rating")
SCALE = ("1", "2", "3", "4")
ORACLES = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}
TASK = """\
name: rated
description: How close are two sentences?
type: rating
labels: {labels}
data: {{test: "jsonl:rated.jsonl"}}
fields: {{id: row.id, left: row.left, right: row.right, grade: row.grade}}
"""


def task_file(folder: Path, rows: Sequence[dict[str, Any]], labels: str = '["1", "2", "3", "4"]') -> str:
    """A task of these rows; the path of its file."""
    (folder / "rated.task.yaml").write_text(TASK.format(labels=labels), encoding="utf-8")
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def run(cli: Cli, folder: str, model: str) -> Outcome:
    """`figeval run` of the task in this folder; the records go into `out` beside it."""
    return cli("run", "--tasks", "rated", "--include_path", folder, "--model", model, "--output_path", f"{folder}/out")


def rating_row(number: int, grade: Any, right: str | None = "a crow") -> dict[str, Any]:
    return {"id": f"r{number}", "left": "the crow sang", "right": right, "grade": grade}


def rating_task(examples: Sequence[Any]) -> Any:
    return figeval.task(name="rated", type="rating", labels=SCALE)(lambda: iter(examples))


def correlations(
    ratings: Sequence[float], grades: Sequence[float | None], clusters: Sequence[Any] = ()
) -> dict[str, Any]:
    """The scores of a model that rates in this way, by name."""
    examples = [
        RATING.Example(
            id=str(n), left=str(n), right="a", grade=grade, cluster=str(clusters[n]) if len(clusters) else None
        )
        for n, grade in enumerate(grades)
    ]
    model = FakePairScorer(function=lambda left, _right: float(ratings[int(left)]))
    with TemporaryDirectory() as folder:
        run = figeval.run(rating_task(examples), model, output_path=folder, baselines=False)
        return {score.metric: score for score in run.record.tasks[0].scores}


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_the_task_type_keeps_to_the_contract() -> None:
    rows = [
        {"id": "1", "left": "The crow sang.", "right": "A bird made music.", "grade": 4},
        {"id": "2", "left": "The crow sang.", "right": "It rained.", "grade": 1},
        {"id": "3", "left": "The crow sang.", "right": "A crow!", "grade": 2.5},
    ]
    check_task_type(type(RATING), rows, labels=SCALE, replies=["3", "3/4", "7", "Rating: 2", "-1", "1e5"])


@pytest.mark.parametrize(
    ("labels", "grade", "words"),
    [
        ('["1", "2", "3", "4"]', 5, "field 'grade': 5 is outside the scale, which ranges from 1 to 4"),
        ('["1", "2", "3", "4"]', 0.5, "field 'grade': 0.5 is outside the scale, which ranges from 1 to 4"),
        ('["1", "2", "3", "4"]', "3", "field 'grade': '3' is not a number; write `… | float`"),
        ('["1", "2", "3", "4"]', True, "field 'grade': True is not a number"),
        ('["4", "1"]', 1, "must list the points of its scale, lowest first"),
        ('["low", "high"]', 1, "must list the points of its scale, lowest first"),
        ('["1"]', 1, "must list the points of its scale, lowest first"),
        ('["1", "nan"]', 1, "must list the points of its scale, lowest first"),
    ],
)
def test_a_grade_or_scale_that_is_none_is_one_line(
    cli: Cli, tmp_path: Path, labels: str, grade: Any, words: str
) -> None:
    folder = task_file(tmp_path, [rating_row(1, grade), rating_row(2, 2)], labels)
    done = run(cli, folder, "overlap")
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if words in line]
    assert len(lines) == 1, done.err


def test_one_text_is_close_to_nothing(cli: Cli, tmp_path: Path) -> None:
    folder = task_file(tmp_path, [rating_row(1, 1, None), rating_row(2, 2, None)])
    done = run(cli, folder, "overlap")
    assert done.code != 0
    assert "has one text, so there is nothing that it could be close to" in done.err


def test_constant_ratings_have_no_correlation_and_say_why(cli: Cli, tmp_path: Path) -> None:
    folder = task_file(tmp_path, [rating_row(number, 1 + number % 4) for number in range(48)])
    assert run(cli, folder, "chance").code == 0
    (task,) = load(tmp_path / "out").record.tasks
    scores = {score.metric: score for score in task.scores}
    for name in ORACLES:
        assert scores[name].value is None
        assert scores[name].interval.reason == UNDEFINED
    assert scores["mae"].value == pytest.approx(1.25)  # a fair draw from 1 to 4, whatever the grade
    assert scores["within_one"].value == pytest.approx(10 / 16)


def test_equal_grades_have_no_correlation_and_the_table_says_why(cli: Cli, tmp_path: Path) -> None:
    """Closeness has no other score than correlations."""
    done = run(cli, task_file(tmp_path, [rating_row(1, 2), rating_row(2, 2, "it rained")]), "overlap")
    assert done.code == 0
    output = " ".join(done.out.split())
    assert "no spearman, pearson, kendall: fewer than two different ratings or grades" in output


def test_an_empty_second_text_is_told_by_validate(cli: Cli, tmp_path: Path) -> None:
    task_file(tmp_path, [rating_row(1, 1, ""), rating_row(2, 2)])
    assert "right is empty" in " ".join(cli("validate", str(tmp_path / "rated.task.yaml")).out.split())


@pytest.mark.parametrize("right", ["A bird made music.", None])
def test_a_bias_towards_one_of_the_numbers_can_be_taken_away(right: str | None, tmp_path: Path) -> None:
    bias = {" 1": -0.5, " 2": -3.0, " 3": -3.0, " 4": -3.0}
    model = FakeLanguageModel(
        function=lambda context, number: bias[number] + (number == " 3" and "The crow sang." in context)
    )
    task = rating_task([RATING.Example(id="1", left="The crow sang.", right=right, grade=3.0)])
    options: Any = {"baselines": False, "routes": {"rating": "by_expected_value"}}
    for calibrate, answer in ((True, 3.0), (False, 1.0)):
        model.batches.clear()
        run = figeval.run(task, model, output_path=tmp_path / str(calibrate), calibrate=calibrate, **options)
        (line,) = (run.path / "predictions" / "rated.jsonl").read_text("utf-8").splitlines()
        assert json.loads(line)["pred"] == answer
        contexts = {request.context for request in model.asked}  # with the prompts of three texts without content
        assert len(contexts) == (4 if calibrate else 1)
        assert {"\nSecond: " in context for context in contexts} == {right is not None}


# ---- correlations ----------------------------------------------------------------------------------------------------

UNDEFINED = "fewer than two different ratings or grades"
numbers = st.integers(-3, 3).map(float) | st.floats(-1e3, 1e3, width=32)


@settings(max_examples=40)
@given(st.lists(st.tuples(numbers, st.integers(1, 4)), min_size=2, max_size=40))
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, int]]) -> None:
    ratings, grades = ([pair[side] for pair in pairs] for side in (0, 1))
    scores = correlations(ratings, grades)
    for name, oracle in ORACLES.items():
        if len(set(ratings)) == 1 or len(set(grades)) == 1:
            assert (scores[name].value, scores[name].interval.reason) == (None, UNDEFINED)
        else:
            assert scores[name].value == pytest.approx(oracle(ratings, grades).statistic, abs=1e-6)


def draw_clusters(seed: int, clusters: int, size: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratings, grades from 1 to 4, and clusters that shift both; the correlation is about .5."""
    random = np.random.default_rng(seed)
    shared = np.repeat(random.normal(size=clusters), size)
    latent = 0.7 * shared + random.normal(size=clusters * size)
    rating = latent + 0.5 * np.repeat(random.normal(size=clusters), size) + random.normal(size=clusters * size)
    grade = 1.0 + np.digitize(latent, [-0.9, 0.0, 0.9])
    return rating, grade, np.repeat(np.arange(clusters), size)


@pytest.mark.slow
def test_the_interval_is_that_of_resampled_clusters_ranked_anew() -> None:
    rating, grade, cluster = draw_clusters(1, 120)
    scores = correlations(rating, grade, cluster)
    random = np.random.default_rng(2)
    members = [np.flatnonzero(cluster == number) for number in range(120)]
    draws = [np.concatenate([members[number] for number in random.integers(120, size=120)]) for _ in range(600)]
    for name, oracle in ORACLES.items():
        score, values = scores[name], [oracle(rating[rows], grade[rows]).statistic for rows in draws]
        assert score.interval.method == "cluster bootstrap"
        assert score.stderr == pytest.approx(np.std(values), rel=0.1)
        assert (score.low, score.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.015)


@pytest.mark.slow
def test_intervals_hold_the_truth_in_about_95_of_100_samples() -> None:
    samples = [correlations(*draw_clusters(seed, 60)) for seed in range(1, 61)]
    rating, grade, _ = draw_clusters(0, 4000)
    for name, oracle in ORACLES.items():
        truth = oracle(rating, grade).statistic
        held = sum(scores[name].low <= truth <= scores[name].high for scores in samples)
        assert held >= 52  # fewer has a probability below .003 at .95


def test_fewer_than_forty_clusters_have_no_interval() -> None:
    score = correlations(*draw_clusters(1, 39))["spearman"]
    assert (score.low, score.interval.reason) == (None, "fewer than 40 clusters")


def test_rows_without_an_answer_or_a_grade_count_nowhere() -> None:
    ratings, grades = [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]
    scores = correlations([*ratings, 9.0, math.nan], [*grades, None, 4.0])
    assert {name: (score.value, score.n) for name, score in scores.items()} == {
        name: (score.value, 3) for name, score in correlations(ratings, grades).items()
    }


# ---- answers on the scale --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "distance", "is_near"),
    [({"prediction": 1}, 2.0, 0.0), ({"scores": [0.4, 0.1, 0.1, 0.4]}, 1.5, 0.5), ({"prediction": 4}, 1.0, 1.0)],
)
def test_distances_of_tied_answers_are_averaged(
    row: dict[str, Any], distance: float, is_near: float, tmp_path: Path
) -> None:
    task = rating_task([RATING.Example(id="1", left="a", right="b", grade=3.0)])
    run = figeval.score(task, [{"id": "1", **row}], name="system", output_path=tmp_path, baselines=False)
    scores = {score.metric: score.value for score in run.record.tasks[0].scores}
    assert (scores["mae"], scores["within_one"]) == (distance, is_near)


def read_reply(reply: Reply) -> Any:
    """What is made of a reply on a scale from 1 to 4."""
    (route,) = (route for route in Harness().routes.of("rating") if route.name == "by_number")
    context = PromptContext(block=lambda *_names, **_options: "", labels=SCALE)
    example = RATING.Example(id="1", left="a", right="b", grade=3.0)
    (prediction,) = predict(route, FakeGenerator(function=lambda _question: reply), [example], context)
    return prediction


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
def test_numbers_in_replies(case: dict[str, Any]) -> None:
    prediction = read_reply(Reply(text=case["reply"], finish=case.get("finish", "stop")))
    assert (prediction.status, prediction.value) == (case["status"], case["value"])


@given(st.text())
def test_any_reply_is_read(text: str) -> None:
    prediction = read_reply(Reply(text=text))
    assert (prediction.status == "ok") == (prediction.value is not None)
    assert prediction.value is None or math.isfinite(prediction.value)
