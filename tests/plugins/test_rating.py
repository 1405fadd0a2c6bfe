"""Ratings: the contract of a task type, correlations beside scipy's, numbers in replies, and what cannot be scored."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from figeval import Prediction, PromptContext, Reply, load
from figeval.builtin.plugins.rating import rating_metrics
from figeval.builtin.plugins.rating.rating import Rating, RatingExample, read_number
from figeval.metrics.aggregation import MetricAggregator
from figeval.task_types.debiasing import calibrated
from figeval.testing import check_metric, check_task_type
from tests.cli import conftest
from tests.cli.conftest import Cli, Outcome

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "plugins" / "rating_replies.json").read_text("utf-8"))
cli = conftest.cli  # the fixture
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


def correlation_score(
    name: str, ratings: Sequence[float], grades: Sequence[float], clusters: Sequence[Any] = ()
) -> Any:
    """The score of a correlation over rows as a run stores them."""
    pairs = zip(ratings, grades, strict=True)
    rows = [{"status": "ok", "gold": grade, "details": {"rating": rating}} for rating, grade in pairs]
    total = MetricAggregator(name, rating_metrics.CORRELATION)
    for index, features in enumerate(rating_metrics.correlations(rows, [name], {})[name]):
        if features is not None:
            total.add(str(clusters[index]) if len(clusters) else None, features)
    return total.score()


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_the_task_type_keeps_to_the_contract() -> None:
    rows = [
        {"id": "1", "left": "The crow sang.", "right": "A bird made music.", "grade": 4},
        {"id": "2", "left": "The crow sang.", "right": "It rained.", "grade": 1},
        {"id": "3", "left": "The crow sang.", "right": "A crow!", "grade": 2.5},
    ]
    check_task_type(Rating, rows, labels=SCALE, replies=["3", "3/4", "7", "Rating: 2", "-1", "1e5"])


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
        assert scores[name].interval.reason == "fewer than two different ratings or grades"
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
def test_a_bias_towards_one_of_the_numbers_can_be_taken_away(right: str | None) -> None:
    route = next(route for route in Rating.routes if route.name == "by_expected_value")
    example = RatingExample(id="1", left="The crow sang.", right=right, grade=3.0)

    def block(_name: str, example: RatingExample) -> str:
        return f"{example.left}|{example.right}"

    dialogue = calibrated(route).begin(example, PromptContext(block=block, labels=SCALE))
    requests = next(dialogue)
    contexts = list(dict.fromkeys(request.context for request in requests))
    assert len(contexts) == 4  # its own, and three without content
    assert [context.endswith("|None") for context in contexts] == [right is None] * 4
    bias = {" 1": -0.5, " 2": -3.0, " 3": -3.0, " 4": -3.0}
    with pytest.raises(StopIteration) as ended:
        dialogue.send(
            [
                bias[request.continuation] + (request.continuation == " 3") * (request in requests[:4])
                for request in requests
            ]
        )
    assert (ended.value.value.value, ended.value.value.tied) == (3.0, 1)


# ---- correlations ----------------------------------------------------------------------------------------------------

numbers = st.integers(-3, 3).map(float) | st.floats(-1e3, 1e3, width=32)


@given(st.lists(st.tuples(numbers, st.integers(1, 4)), min_size=2, max_size=40), st.sampled_from(sorted(ORACLES)))
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, int]], name: str) -> None:
    ratings, grades = ([pair[side] for pair in pairs] for side in (0, 1))
    score = correlation_score(name, ratings, grades)
    if len(set(ratings)) == 1 or len(set(grades)) == 1:
        assert (score.value, score.interval.reason) == (None, rating_metrics.UNDEFINED)
    else:
        assert score.value == pytest.approx(ORACLES[name](ratings, grades).statistic, abs=1e-6)


def draw_clusters(seed: int, clusters: int, size: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratings, grades from 1 to 4, and clusters that shift both; the correlation is about .5."""
    random = np.random.default_rng(seed)
    shared = np.repeat(random.normal(size=clusters), size)
    latent = 0.7 * shared + random.normal(size=clusters * size)
    rating = latent + 0.5 * np.repeat(random.normal(size=clusters), size) + random.normal(size=clusters * size)
    grade = 1.0 + np.digitize(latent, [-0.9, 0.0, 0.9])
    return rating, grade, np.repeat(np.arange(clusters), size)


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_the_interval_is_that_of_resampled_clusters_ranked_anew(name: str) -> None:
    rating, grade, cluster = draw_clusters(1, 120)
    score = correlation_score(name, rating, grade, cluster)
    random = np.random.default_rng(2)
    members = [np.flatnonzero(cluster == number) for number in range(120)]
    draws = (np.concatenate([members[number] for number in random.integers(120, size=120)]) for _ in range(600))
    values = [ORACLES[name](rating[rows], grade[rows]).statistic for rows in draws]
    assert score.interval.method == "cluster bootstrap"
    assert score.stderr == pytest.approx(np.std(values), rel=0.1)
    assert (score.low, score.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ORACLES))
def test_intervals_hold_the_truth_in_about_95_of_100_samples(name: str) -> None:
    truth = ORACLES[name](*draw_clusters(0, 4000)[:2]).statistic
    scores = [correlation_score(name, *draw_clusters(seed, 60)) for seed in range(1, 121)]
    held = sum(score.low <= truth <= score.high for score in scores)
    assert held >= 106  # fewer has a probability below .004 at .95


def test_fewer_than_forty_clusters_have_no_interval() -> None:
    score = correlation_score("spearman", *draw_clusters(1, 39))
    assert (score.low, score.interval.reason) == (None, "fewer than 40 clusters")


def test_rows_without_an_answer_or_a_grade_count_nowhere() -> None:
    rows: list[dict[str, Any]] = [
        {"status": "ok", "gold": grade, "details": {"rating": rating}} for grade, rating in ((1, 1), (2, 3), (3, 2))
    ]
    unusable_rows = [
        {"status": "ok", "gold": None, "details": {"rating": 9.0}},
        {"status": "nan", "gold": 4.0, "details": {}},
    ]
    correlation = rating_metrics.correlations([*rows, *unusable_rows], ["kendall"], {})["kendall"]
    assert correlation[3:] == [None, None]
    assert correlation[:3] == rating_metrics.correlations(rows, ["kendall"], {})["kendall"]


# ---- answers on the scale --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [rating_metrics.absolute_error, rating_metrics.within_one])
def test_distances_keep_to_the_contract(metric: Any) -> None:
    example = RatingExample(id="1", left="a", right="b", grade=3.0)
    sure = Prediction(example_id="1", value=1.0, labels=SCALE)
    tied = Prediction(example_id="1", value=1.0, labels=SCALE, tied=2, tied_labels=("1", "4"))
    expected = {rating_metrics.absolute_error: (2.0, 1.5), rating_metrics.within_one: (0.0, 0.5)}[metric]
    check_metric(metric, [(example, sure, expected[0]), (example, tied, expected[1])])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
def test_numbers_in_replies(case: dict[str, Any]) -> None:
    example = RatingExample(id="1", left="a", right="b", grade=3.0)
    context = PromptContext(block=lambda *_names, **_options: "", labels=SCALE)
    reading = read_number(example, context, Reply(text=case["reply"], finish=case.get("finish", "stop")))
    assert (reading.status, reading.value) == (case["status"], case["value"])


@given(st.text())
def test_any_reply_is_read(text: str) -> None:
    example = RatingExample(id="1", left="a", right="b", grade=3.0)
    reading = read_number(example, PromptContext(block=lambda *_names, **_options: "", labels=SCALE), Reply(text=text))
    assert (reading.status == "ok") == (reading.value is not None)
    assert reading.value is None or math.isfinite(reading.value)
