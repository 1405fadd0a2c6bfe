"""Aggregators: streaming is batch, order does not matter, memory is flat, and nothing is silently counted as zero."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import ChoiceExample, DataError, Example, MetricAggregator, Prediction
from figeval.metrics.aggregation import GroupAggregator
from figeval.metrics.classification import choice_accuracy, macro_f1
from figeval.metrics.intervals import by_cluster, interval_of_mean, spread_of
from figeval.metrics.statistic import Statistic, as_statistic, mean_of, ratio
from tests.aggregated import count_in

MEAN = mean_of(lambda example, _prediction: example.meta.get("value"))
TOTALS = Statistic(MEAN.features, ratio)  # the same numbers, but not known to be a mean: bootstrapped
ROWS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.floats(0, 1)), min_size=1, max_size=25)
PREDICTION = Prediction(example_id="e", value=0)
Rows = Iterable[tuple[str | None, float]]


def tally(rows: Rows, statistic: Statistic = MEAN) -> MetricAggregator:
    total = MetricAggregator("accuracy", statistic)
    for cluster, value in rows:
        total.add(cluster, (value, 1.0))
    return total


@given(ROWS)
def test_streaming_is_batch(rows: list[tuple[str | None, float]]) -> None:
    score = tally(rows).score()
    names, values = zip(*rows, strict=True)
    binary = set(values) <= {0.0, 1.0}
    spread = spread_of(*by_cluster(values, names), binary=binary)
    assert (score.n, score.clusters) == (len(rows), spread.clusters)
    assert score.value == pytest.approx(np.mean(values), abs=1e-12)
    equal = (
        len({sum(name == name_set for name_set in names) for name in names if name} | ({1} if None in names else set()))
        == 1
    )
    effective = None if equal else pytest.approx(spread.effective_clusters)
    assert score.effective_clusters == effective
    expected = interval_of_mean(spread, (0.0, 1.0))
    assert str(score.interval) == str(expected)
    if expected.low is not None:
        assert (score.low, score.high) == pytest.approx((expected.low, expected.high), abs=1e-7)


@given(ROWS, st.randoms())
def test_order_of_rows_does_not_matter(rows: list[tuple[str | None, float]], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    before, after = tally(rows).score(), tally(shuffled).score()
    assert (before.n, before.clusters, str(before.interval)) == (after.n, after.clusters, str(after.interval))
    for field in ("value", "low", "high"):
        assert getattr(after, field) == pytest.approx(getattr(before, field), abs=1e-9)


@given(ROWS)
def test_the_interval_holds_the_value(rows: list[tuple[str | None, float]]) -> None:
    score = tally(rows).score()
    assert score.value is not None
    if score.low is None or score.high is None:
        assert score.interval.reason == "one cluster" if score.n > 1 else score.interval.reason == "one row"
    else:
        assert 0 <= score.low <= score.value + 1e-9
        assert score.value - 1e-9 <= score.high <= 1
        assert score.high - score.low > 1e-9


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_a_bootstrapped_mean_is_near_the_closed_form(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = [(f"c{c}", float(v)) for c in range(60) for v in generator.random(5) < generator.random()]
    closed, drawn = tally(rows).score(), tally(rows, TOTALS).score(seed)
    assert drawn.interval.method == "cluster bootstrap"
    assert drawn.value == pytest.approx(closed.value)
    assert (drawn.low, drawn.high) == pytest.approx((closed.low, closed.high), abs=0.02)
    assert drawn.stderr == pytest.approx(closed.stderr, rel=0.1)


def test_bootstrap_of_rows_without_clusters_keeps_only_distinct_vectors() -> None:
    rows = [(None, float(i % 3 == 0)) for i in range(999)]
    alone = tally(rows, TOTALS)
    named_tally = tally(((str(i), value) for i, (_, value) in enumerate(rows)), TOTALS)
    assert alone.score(7) == named_tally.score(7)
    assert alone.score(7).interval.method == "bootstrap"


def test_too_few_clusters_for_a_bootstrap() -> None:
    score = tally(((f"c{i % 39}", float(i % 2)) for i in range(390)), TOTALS).score()
    assert score.value == 0.5
    assert (score.low, score.stderr, score.interval.reason) == (None, None, "fewer than 40 clusters")


def test_unequal_clusters_are_too_few_for_a_bootstrap() -> None:
    """A hundred clusters, one of them with half of the rows, are worth four."""
    rows = [("big" if i % 2 else f"c{i}", float(i % 3 == 0)) for i in range(200)]
    assert tally(rows, TOTALS).score().interval.reason == "fewer than 40 effective clusters"


def test_a_perfect_macro_f1_claims_no_certainty() -> None:
    total = MetricAggregator("macro_f1", as_statistic(macro_f1, ("a", "b")))
    for i in range(100):
        total.add(f"c{i}", (1.0, 0.0, 1.0, 0.0, 1.0, 0.0) if i % 2 else (0.0, 1.0, 0.0, 1.0, 0.0, 1.0))
    score = total.score()
    assert (score.value, score.low, score.interval.reason) == (1.0, None, "every resample gives the same value")


@pytest.mark.parametrize("cluster", [None, "c"])
def test_a_share_that_rounding_moves_past_its_bounds_keeps_them(cluster: str | None) -> None:
    shares = [1.0 + 2e-16, 1.0, 0.5, -1e-17] * 5
    rounded = tally([(cluster and f"{cluster}{index}", value) for index, value in enumerate(shares)]).score()
    exact = [min(1.0, max(0.0, value)) for value in shares]
    assert rounded == tally([(cluster and f"{cluster}{index}", value) for index, value in enumerate(exact)]).score()
    assert rounded.interval.method == tally([(None, value) for value in exact]).score().interval.method


def test_a_number_that_is_no_share_has_no_bounds() -> None:
    score = tally([(None, value) for value in [1.001, *[1.0] * 10, 0.9]]).score()
    assert score.high is not None
    assert score.high > 1


def test_an_undefined_statistic_has_no_value() -> None:
    total = MetricAggregator("x", TOTALS)
    total.add(None, (0.0, 0.0))
    assert (total.score().value, total.score().interval.reason) == (None, "undefined")


def test_update_passes_over_what_does_not_apply() -> None:
    total = MetricAggregator("accuracy", mean_of(choice_accuracy))
    example = ChoiceExample(id="e", query="q", options=("a", "b"), gold=0, cluster="c")
    count_in(total, example, Prediction(example_id="e", value=0))
    count_in(total, example, Prediction(example_id="e", value=None, status="nan"))
    assert (total.score().value, total.score().n, total.score().clusters) == (1.0, 1, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_gives_no_number_is_a_bug(value: float) -> None:
    with pytest.raises(ValueError, match="return None where it does not apply"):
        tally([(None, value)])


def test_a_changing_number_of_features_is_a_bug() -> None:
    total = tally([("a", 1.0)])
    with pytest.raises(ValueError, match="gave 3 features after 2"):
        total.add("b", (1.0, 2.0, 3.0))


def test_memory_is_flat_in_rows() -> None:
    def peak(rows: int) -> int:
        tracemalloc.start()
        total = MetricAggregator("accuracy", MEAN)
        for i in range(rows):
            total.add(f"c{i % 50}" if i % 2 else None, (i / rows, 1.0))
        total.score()
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    peak(2_000)
    assert peak(20_000) < 1.15 * peak(2_000) + 2_000


def test_mean_is_exact_for_counts() -> None:
    """A third is the nearest float to a third, however many rows were added."""
    assert tally([(None, float(i % 3 == 0)) for i in range(30_000)]).score().value == 1 / 3


# ---- minimal pairs -------------------------------------------------------------------------------------------------


def strict(rows: Iterable[tuple[str | None, str | None, float | None]]) -> GroupAggregator:
    total = GroupAggregator("accuracy", MEAN)
    for group, cluster, value in rows:
        meta = {} if value is None else {"value": value}
        count_in(total, Example(id="e", group=group, cluster=cluster, meta=meta), PREDICTION)
    return total


def test_groups_inherit_the_cluster_of_their_members() -> None:
    rows = [(f"g{i // 2}", f"c{i // 6}", float(i % 5 != 0)) for i in range(30)]
    score = strict(rows).score()
    assert (score.metric, score.n, score.clusters) == ("accuracy_strict", 15, 5)
    assert (score.interval.method, score.interval.reliable) == ("wilson on effective n", False)
    assert score.value == pytest.approx(9 / 15)


def test_examples_without_group_are_passed_over() -> None:
    assert strict([(None, None, 1.0)]).score().value is None


def test_a_group_across_clusters_is_refused() -> None:
    with pytest.raises(DataError, match="group 'g' has members in clusters 'a' and 'b'"):
        strict([("g", "a", 1.0), ("g", "b", 1.0)])
