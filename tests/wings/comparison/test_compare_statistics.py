"""Comparisons of two runs by correlations and areas, which are computed anew from the rows that both runs answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from figeval import RecordError
from tests.finished_runs import compare_runs, row, run, store, task

Row = Mapping[str, Any]


def write_run(folder: Path, rows: Mapping[str, Row], metric: str, task_type: str, **changes: Any) -> Path:
    """A run folder with one task, whose rows store numbers of the metric that the comparison must not use."""
    settings = {"labels": ["1", "2", "3", "4", "5"] if task_type == "rating" else ["yes", "no"]}
    record = run(task("t", **{"task_type": task_type, "settings": settings, "n": len(rows), **changes}))
    numbers = {metric: [9.0] * 6}
    lines = [
        row(identity, metrics={} if fields.get("status") == "unparseable" else numbers, **fields)
        for identity, fields in rows.items()
    ]
    return store(folder, record, {"t": lines})


def rating_rows(ratings: Any, grades: Any) -> dict[str, Row]:
    rows = {}
    for number, (rating, grade) in enumerate(zip(ratings, grades, strict=True)):
        is_answered = rating is not None
        details = {"details": {"rating": float(rating)}} if is_answered else {"status": "unparseable"}
        rows[f"e{number}"] = {"gold": float(grade), "pred": None, "cluster": f"c{number // 2}", **details}
    return rows


def test_a_correlation_is_that_of_the_examples_that_both_runs_answered(tmp_path: Path) -> None:
    """A unit of the ratings has no meaning, so run B may have another scale."""
    generator = np.random.default_rng(0)
    grades = generator.integers(1, 6, size=120)
    of_a, of_b = (grades + generator.normal(0, spread, size=120) for spread in (1, 4))
    a = write_run(tmp_path / "a", rating_rows([None, None, *of_a[2:]], grades), "spearman", "rating")
    b = write_run(tmp_path / "b", rating_rows([*(100 * of_b[:-1]), None], grades), "spearman", "rating")
    (task,) = compare_runs(a, b, metric="spearman").tasks
    comparison = task.comparison
    assert (comparison.n, comparison.clusters, task.unanswered, comparison.test) == (117, 59, 3, "permutation and t")
    for value, ratings in ((comparison.value_a, of_a), (comparison.value_b, of_b)):
        assert value == pytest.approx(stats.spearmanr(ratings[2:-1], grades[2:-1]).statistic)
    assert comparison.p is not None
    assert comparison.p < 0.001
    assert 0 < (comparison.low or 0) < (comparison.difference or 0) < (comparison.high or 0)
    assert comparison.interval.method == "cluster bootstrap"
    assert task.detectable == pytest.approx(2.802 * (comparison.stderr or 0), rel=1e-3)


def test_ratings_without_a_correlation_are_left_out_with_the_reason(tmp_path: Path) -> None:
    """The one different rating of A belongs to an example that B did not answer."""
    grades = [1, 2, 3, 4, 5]
    a = write_run(tmp_path / "a", rating_rows([3, 3, 3, 3, 4], grades), "pearson", "rating")
    b = write_run(tmp_path / "b", rating_rows([1, 2, 3, 4, None], grades), "pearson", "rating")
    with pytest.raises(RecordError, match=r"t: pearson has no value on .* both runs answered: fewer than"):
        compare_runs(a, b, metric="pearson")


def label_rows(scores: Any, gold: Any, cluster: int = 1) -> dict[str, Row]:
    return {
        f"e{number}": {
            "gold": "yes" if kind else "no",
            "pred": "yes",
            "scores": [float(score), 0.0],
            "cluster": f"c{number // cluster}",
        }
        for number, (score, kind) in enumerate(zip(scores, gold, strict=True))
    }


def test_an_area_has_an_interval_if_there_are_enough_examples_of_both_kinds(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    for positive in (50, 20):
        gold = np.arange(100) < positive
        of_a, of_b = (gold * lead + generator.normal(size=100) for lead in (2, 0.5))
        a, b = (
            write_run(tmp_path / f"{name}{positive}", label_rows(scores, gold), "roc_auc", "classification")
            for name, scores in (("a", of_a), ("b", of_b))
        )
        (task,) = compare_runs(a, b, metric="roc_auc").tasks
        area = stats.mannwhitneyu(of_a[gold], of_a[~gold]).statistic / (positive * (100 - positive))
        assert task.comparison.value_a == pytest.approx(area)
        assert (task.comparison.p or 1) < 0.05
        assert (task.comparison.low is None) == (positive == 20)
    assert task.comparison.note == "no interval: fewer than 40 effective examples of the positive kind"


def test_predictions_that_were_stored_without_scores_cannot_be_compared_by_an_area(tmp_path: Path) -> None:
    rows = {name: {**row, "scores": []} for name, row in label_rows([1, 2, 3, 4], [0, 1, 0, 1]).items()}
    a, b = (write_run(tmp_path / name, rows, "roc_auc", "classification") for name in "ab")
    with pytest.raises(RecordError, match=r"t: roc_auc has no value on .* both runs answered: no scores"):
        compare_runs(a, b, metric="roc_auc")


def test_a_count_of_what_no_other_text_has_cannot_be_exchanged(tmp_path: Path) -> None:
    rows = {f"e{number}": {"pred": f"text {number}", "gold": ["text"]} for number in range(4)}
    a, b = (write_run(tmp_path / name, rows, "distinct_2", "generation") for name in "ab")
    with pytest.raises(RecordError, match=r"t: distinct_2 depends on the other texts of a run"):
        compare_runs(a, b, metric="distinct_2")


# ---- contrasts of suites ---------------------------------------------------------------------------------------------


def write_contrast(
    folder: Path, positive: Any, negative: Any, within: str | None = None, size: int = 1, **changes: Any
) -> Path:
    """A run of two tasks with these scores for the label `yes`, and the contrast of a suite between them."""
    contrast: dict[str, Any] = {
        "suite": "s",
        "contrast": "all",
        "scores": [],
        "tasks": ["ent", "ant"],
        "label": "yes",
        "within": within,
        "positive": 0,
        "negative": 0,
    }
    tasks = (task("ent", n=len(positive)), task("ant", n=len(negative)))

    def line(number: int, score: float | None, gold: str) -> dict[str, Any]:
        if score is None:
            return row(f"e{number}", gold=gold, status="unparseable", metrics={})
        right, meta = {"acc": float((score > 0) == (gold == "yes"))}, {"idiom": f"i{number // size}"}
        return row(f"e{number}", gold=gold, scores=[float(score), 0.0], metrics=right, meta=meta)

    rows = {
        name: [line(number, score, gold) for number, score in enumerate(scores)]
        for name, scores, gold in (("ent", positive, "yes"), ("ant", negative, "no"))
    }
    return store(folder, run(*tasks, contrasts=[{**contrast, **changes}]), rows)


def test_contrasts_are_compared_on_what_both_runs_answered(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    of_a, of_b = ((lead + generator.normal(size=60), generator.normal(size=60)) for lead in (2, 0.3))
    a = write_contrast(tmp_path / "a", of_a[0], [None, *of_a[1][1:]])
    b = write_contrast(tmp_path / "b", 100 * of_b[0], 100 * of_b[1])
    comparison = compare_runs(a, b, metric="auc")
    (task,) = comparison.tasks
    area = stats.mannwhitneyu(of_b[0], of_b[1][1:]).statistic / (60 * 59)
    assert (task.task, task.comparison.n, task.unanswered) == ("s:all", 119, 1)
    assert task.comparison.value_b == pytest.approx(area)
    assert (task.comparison.p or 1) < 0.001
    assert (task.comparison.low or 0) > 0
    assert comparison.left_out == {}, "its tasks have no area, which nobody needs to be told"


def test_tasks_and_contrasts_are_compared_by_balanced_accuracy(tmp_path: Path) -> None:
    """Five of six against three of four: the mean of both accuracies, whatever the numbers of examples."""
    a = write_contrast(tmp_path / "a", [1, 1, 1, 1, 1, -1], [1, -1, -1, -1])
    b = write_contrast(tmp_path / "b", [1] * 6, [1] * 4)
    (task,) = compare_runs(a, b, metric="balanced_acc").tasks
    assert (task.comparison.value_a, task.comparison.value_b) == (pytest.approx((5 / 6 + 3 / 4) / 2), 0.5)
    assert task.comparison.note == "no interval: fewer than 40 effective examples of the positive kind"


def test_within_idioms_the_idioms_are_compared(tmp_path: Path) -> None:
    """A orders the pairs of 12 idioms, B those of 6; the other idiom has no example of the other kind."""
    a = write_contrast(tmp_path / "a", [1.0] * 24, [0.0] * 22, "idiom", size=2)
    b = write_contrast(tmp_path / "b", [1.0, 0.5] * 12, [0.0] * 12 + [2.0] * 10, "idiom", size=2)
    (task,) = compare_runs(a, b, metric="auc").tasks
    assert (task.comparison.n, task.comparison.value_a, task.comparison.value_b) == (11, 1.0, pytest.approx(6 / 11))
    assert task.comparison.p == 2 / 2**5
    assert task.comparison.note.startswith("n counts values of idiom that have both kinds")


def test_contrasts_that_cannot_be_compared_have_a_reason(tmp_path: Path) -> None:
    a = write_contrast(tmp_path / "a", [1, 2], [0, 1])
    with pytest.raises(RecordError, match="s:all: the runs contrast other tasks under this name"):
        compare_runs(a, write_contrast(tmp_path / "b", [1, 2], [0, 1], within="idiom"), metric="auc")
    with pytest.raises(RecordError, match="s:all: the answers of B have no scores to rank by"):
        compare_runs(a, write_contrast(tmp_path / "c", [None] * 2, [None] * 2), metric="auc")
    alone = [write_run(tmp_path / name, {}, "acc", "pairs") for name in "de"]
    with pytest.raises(RecordError, match="no task has 'auc' per example in both runs, and they have no contrast"):
        compare_runs(*alone, metric="auc")
