"""Folds of idioms: no idiom and no premise in two of them, and what is learned and asked at a point of a curve."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.builtin.tasks.impli import folds, impli_rows
from figeval.data import DataContext
from figeval.data.cache import fetch
from figeval.errors import DataError
from figeval.runs import Harness


def row(number: int, idiom: int | None, premise: int, label: str = "entailment") -> dict[str, Any]:
    name = None if idiom is None else f"idiom {idiom}"
    return {"id": str(number), "idiom": name, "premise_key": f"p{premise}", "label": label}


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 12), st.integers(0, 30), st.booleans()), min_size=1, max_size=60
).map(lambda drawn: [row(n, i, p, "entailment" if e else "non-entailment") for n, (i, p, e) in enumerate(drawn)])


def places(found: list[list[Any]], key: str) -> dict[str, set[int]]:
    known: dict[str, set[int]] = {}
    for place, fold in enumerate(found):
        for one in fold:
            if one[key] is not None:
                known.setdefault(one[key], set()).add(place)
    return known


@given(ROWS, st.integers(0, 3))
def test_no_idiom_and_no_premise_is_in_two_folds(given_rows: list[Any], seed: int) -> None:
    found = folds.folds(given_rows, seed)
    assert len(found) == folds.FOLDS
    assert sorted((one["id"] for fold in found for one in fold), key=int) == [one["id"] for one in given_rows]
    for key in ("idiom", "premise_key"):
        assert all(len(where) == 1 for where in places(found, key).values())
    assert all([int(one["id"]) for one in fold] == sorted(int(one["id"]) for one in fold) for fold in found)
    assert found == folds.folds(given_rows, seed)


@given(ROWS)
def test_the_parts_share_no_premise_and_the_unseen_ones_no_idiom(given_rows: list[Any]) -> None:
    parts = {name: folds.part(given_rows, name) for name in impli_rows.PARTS}
    assert sum(map(len, parts.values())) == len(given_rows)
    premises = {name: {one["premise_key"] for one in part} for name, part in parts.items()}
    idioms = {name: {one["idiom"] for one in part if one["idiom"]} for name, part in parts.items()}
    assert not premises["train"] & (premises["seen"] | premises["dev"] | premises["unseen"])
    assert not (idioms["train"] | idioms["seen"]) & (idioms["dev"] | idioms["unseen"])
    assert idioms["seen"] <= idioms["train"], "each of them was learned from in another sentence"


@given(ROWS, st.integers(0, 9), st.integers(0, 8), st.none() | st.integers(1, 40))
def test_fewer_folds_are_among_more(given_rows: list[Any], fold: int, train: int, pairs: int | None) -> None:
    fewer, more = (folds.Point(fold=fold, train=n, pairs=pairs) for n in (train, train + 1))
    ids = [[one["id"] for one in point.learned(given_rows)] for point in (fewer, more)]
    assert set(ids[0]) <= set(ids[1])
    held = {one["idiom"] for one in more.held_out(given_rows)} - {None}
    assert not held & {one["idiom"] for one in more.learned(given_rows)}


@given(ROWS, st.sampled_from(list(folds.REGIMES)))
def test_a_regime_learns_from_its_label_alone(given_rows: list[Any], regime: str) -> None:
    point = folds.Point(fold=0, train=9, regime=regime)
    learned, held = point.learned(given_rows), point.held_out(given_rows)
    wanted = [one for one in given_rows if one not in held and folds.REGIMES[regime] in (None, one["label"])]
    assert sorted(one["id"] for one in learned) == sorted(one["id"] for one in wanted)


def test_regimes_learn_from_as_many_pairs() -> None:
    many = [row(n, n % 100, n, ("entailment", "non-entailment")[n // 100 % 2]) for n in range(2000)]
    sizes = [
        [len(folds.Point(fold=2, train=train, regime=regime, pairs=100).learned(many)) for train in (0, 1, 3, 9)]
        for regime in folds.REGIMES
    ]
    assert sizes == [[0, 11, 33, 100]] * 3


def test_nothing_is_learned_from_no_fold() -> None:
    assert folds.Point(fold=0, train=0).learned([row(0, 1, 1)]) == []


def test_unknown_parts_get_near_names(real_data: str) -> None:
    context = DataContext(folder=None, fetch=fetch)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no part 'unsen' of its idioms; did you mean 'unseen'"):
        next(impli_rows.open("idioms/unsen", context))


@pytest.mark.slow
def test_real_parts(real_data: str) -> None:
    harness = Harness()
    seen, unseen = harness.catalogue.expand(["impli_seen_unseen"])
    found = {
        "train": list(harness.examples(seen, "train")),
        "dev": list(harness.examples(seen, "dev")),
        "seen": list(harness.examples(seen)),
        "unseen": list(harness.examples(unseen)),
    }
    assert {name: len(part) for name, part in found.items()} == {
        "train": 17_013,
        "dev": 2_365,
        "seen": 1_928,
        "unseen": 2_344,
    }
    idioms = {name: {one.meta["idiom"] for one in part if "idiom" in one.meta} for name, part in found.items()}
    assert {name: len(own) for name, own in idioms.items()} == {"train": 755, "dev": 84, "seen": 410, "unseen": 92}
    assert not idioms["train"] & (idioms["dev"] | idioms["unseen"])
