"""How idioms are found in pairs, and their folds: no idiom and no premise in two of them, what a curve learns from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataError, Harness
from figeval.builtin.tasks.impli import folds, idioms
from tests.sources import read_rows

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/data/idioms.json").read_text(encoding="utf-8"))


def row(number: int, idiom: int | None, premise: int, label: str = "entailment") -> dict[str, Any]:
    name = None if idiom is None else f"idiom {idiom}"
    return {"id": str(number), "idiom": name, "premise_key": f"p{premise}", "label": label}


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 12), st.integers(0, 30), st.booleans()), min_size=1, max_size=60
).map(lambda drawn: [row(n, i, p, "entailment" if e else "non-entailment") for n, (i, p, e) in enumerate(drawn)])


def places(folds_of_rows: list[list[Any]], key: str) -> dict[str, set[int]]:
    folds_of_key: dict[str, set[int]] = {}
    for index, fold in enumerate(folds_of_rows):
        for row in fold:
            if row[key] is not None:
                folds_of_key.setdefault(row[key], set()).add(index)
    return folds_of_key


@given(ROWS, st.integers(0, 3))
def test_no_idiom_and_no_premise_is_in_two_folds(given_rows: list[Any], seed: int) -> None:
    fold_list = folds.folds(given_rows, seed)
    assert len(fold_list) == folds.FOLDS
    assert sorted((row["id"] for fold in fold_list for row in fold), key=int) == [row["id"] for row in given_rows]
    for key in ("idiom", "premise_key"):
        assert all(len(fold_indices) == 1 for fold_indices in places(fold_list, key).values())
    assert all([int(row["id"]) for row in fold] == sorted(int(row["id"]) for row in fold) for fold in fold_list)
    assert fold_list == folds.folds(given_rows, seed)


@given(ROWS)
def test_the_parts_share_no_premise_and_the_unseen_ones_no_idiom(given_rows: list[Any]) -> None:
    parts = {name: folds.part(given_rows, name) for name in ("train", "dev", "seen", "unseen")}
    assert sum(map(len, parts.values())) == len(given_rows)
    premises = {name: {row["premise_key"] for row in part} for name, part in parts.items()}
    idioms = {name: {row["idiom"] for row in part if row["idiom"]} for name, part in parts.items()}
    assert not premises["train"] & (premises["seen"] | premises["dev"] | premises["unseen"])
    assert not (idioms["train"] | idioms["seen"]) & (idioms["dev"] | idioms["unseen"])
    assert idioms["seen"] <= idioms["train"], "each of them was learned from in another sentence"


@given(ROWS, st.integers(0, 9), st.integers(0, 8), st.none() | st.integers(1, 40))
def test_fewer_folds_are_among_more(given_rows: list[Any], fold: int, train: int, pairs: int | None) -> None:
    fewer, point_after = (folds.Point(fold=fold, train=n, pairs=pairs) for n in (train, train + 1))
    ids = [[row["id"] for row in point.learned(given_rows)] for point in (fewer, point_after)]
    assert set(ids[0]) <= set(ids[1])
    held = {row["idiom"] for row in point_after.held_out(given_rows)} - {None}
    assert not held & {row["idiom"] for row in point_after.learned(given_rows)}


@given(ROWS, st.sampled_from(list(folds.REGIMES)))
def test_a_regime_learns_from_its_label_alone(given_rows: list[Any], regime: str) -> None:
    point = folds.Point(fold=0, train=9, regime=regime)
    learned, held = point.learned(given_rows), point.held_out(given_rows)
    expected = [row for row in given_rows if row not in held and folds.REGIMES[regime] in (None, row["label"])]
    assert sorted(row["id"] for row in learned) == sorted(row["id"] for row in expected)


def test_regimes_learn_from_as_many_pairs() -> None:
    many = [row(n, n % 100, n, ("entailment", "non-entailment")[n // 100 % 2]) for n in range(2000)]
    sizes = [
        [len(folds.Point(fold=2, train=train, regime=regime, pairs=100).learned(many)) for train in (0, 1, 3, 9)]
        for regime in folds.REGIMES
    ]
    assert sizes == [[0, 11, 33, 100]] * 3


def test_nothing_is_learned_from_no_fold() -> None:
    assert folds.Point(fold=0, train=0).learned([row(0, 1, 1)]) == []


def test_unknown_parts_get_near_names() -> None:
    with pytest.raises(DataError, match="no part 'unsen' of its idioms; did you mean 'unseen'"):
        read_rows("impli:idioms/unsen")


@pytest.mark.slow
def test_real_parts(real_data: str) -> None:
    harness = Harness()
    seen, unseen = harness.catalogue.expand(["impli_seen_unseen"])
    parts = {
        "train": list(harness.examples(seen, "train")),
        "dev": list(harness.examples(seen, "dev")),
        "seen": list(harness.examples(seen)),
        "unseen": list(harness.examples(unseen)),
    }
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 17_013,
        "dev": 2_365,
        "seen": 1_928,
        "unseen": 2_344,
    }
    idioms = {
        name: {example.meta["idiom"] for example in part if "idiom" in example.meta} for name, part in parts.items()
    }
    assert {name: len(idioms_of_part) for name, idioms_of_part in idioms.items()} == {
        "train": 755,
        "dev": 84,
        "seen": 410,
        "unseen": 92,
    }
    assert not idioms["train"] & (idioms["dev"] | idioms["unseen"])


# ---- how idioms are found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN, ids=[case["why"][:60] for case in GOLDEN])
def test_golden_idioms(case: dict[str, Any]) -> None:
    idiom = idioms.Lexicon(case["lexicon"]).idiom(case["premise"], case["hypothesis"])
    if case["idiom"] is None:
        assert idiom is None
        return
    assert idiom is not None
    assert (idiom.name, idiom.surface, idiom.confidence) == (case["idiom"], case["surface"], case["confidence"])
    assert case["premise"][idiom.start : idiom.end] == idiom.surface


def test_the_lexicon_is_sorted_and_has_every_form_once() -> None:
    lines = (ROOT / "tasks/impli/idioms.txt").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: (line.casefold(), line))
    forms = [form.strip() for line in lines for form in line.split("|")]
    assert len(forms) == len(set(forms))
    assert all(2 <= len(form) <= 60 for form in forms)


words = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "and", "hit", "roof", ",", "."]), max_size=8)


@given(before=words, left=words, right=words, after=words)
def test_the_changed_span_is_what_changed(
    before: list[str], left: list[str], right: list[str], after: list[str]
) -> None:
    premise, hypothesis = before + left + after, before + right + after
    start, end = idioms.changed_span(premise, hypothesis)
    assert 0 <= start <= end <= len(premise)
    tail = len(premise) - end
    assert premise[:start] == hypothesis[:start]
    assert premise[end:] == hypothesis[len(hypothesis) - tail :]
    assert start >= len(before) or premise == hypothesis[: len(premise)]
    assert start + tail <= min(len(premise), len(hypothesis))


@given(premise=st.text(max_size=60) | words.map(" ".join), hypothesis=st.text(max_size=60) | words.map(" ".join))
def test_offsets_are_those_of_the_surface_form_whatever_the_text(premise: str, hypothesis: str) -> None:
    idiom = idioms.Lexicon(["hit the roof", "on the mat", "sit"]).idiom(premise, hypothesis)
    if idiom is not None:
        assert premise[idiom.start : idiom.end] == idiom.surface != ""
        assert 0 <= idiom.confidence <= 1
