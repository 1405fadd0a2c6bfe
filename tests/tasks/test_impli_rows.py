"""IMPLI: the reader on files of our own, the recovery of idioms, and counts on the real files."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.builtin.tasks.impli import idioms, rows
from figeval.data import DataContext, Row
from figeval.data.cache import fetch
from figeval.errors import DataError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "data" / "idioms.json").read_text(encoding="utf-8"))


@pytest.fixture
def small(tmp_path: Path) -> DataContext:
    """Every file holds one row of its own; the interesting ones hold more."""
    for file in rows.FILES:
        path = tmp_path / f"{file}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"Row of {file}\tOther of {file}\n", encoding="utf-8")
    silver = '"""Fine,"" she  hit the roof"\t"""Fine,"" she  got angry"\t0.9\nWe hit the roof\tWe got angry\t\n'
    (tmp_path / "idioms/fig_context_magpie_e.tsv").write_text(silver, encoding="utf-8")
    (tmp_path / "metaphors/replacement_tsvetkov_e.tsv").write_bytes("It’s icy\tIt’s cold\n".encode("cp1252"))
    return DataContext(folder=tmp_path, fetch=lambda benchmark, path: tmp_path / path)


def test_quotes_scores_and_ids(small: DataContext) -> None:
    first, second, third, fourth = rows.open("idioms_silver_ent", small)
    assert first == {
        "id": "idioms/fig_context_magpie_e:1",
        "premise": '"Fine," she  hit the roof',
        "hypothesis": '"Fine," she  got angry',
        "premise_key": '"Fine," she hit the roof',
        "label": "entailment",
        "corpus": "magpie",
        "figure": "idiom",
        "idiom": "hit the roof",
    }
    assert second["id"] == "idioms/fig_context_magpie_e:2"
    assert [third["corpus"], fourth["corpus"]] == ["pie", "semeval"]


def test_windows_1252_is_read_as_such(small: DataContext) -> None:
    first = next(rows.open("metaphors_silver_ent", small))
    assert (first["premise"], first["corpus"], first["figure"]) == ("It’s icy", "tsvetkov", "metaphor")


def test_labels_follow_the_column(small: DataContext) -> None:
    labels = {column: {row["label"] for row in rows.open(column, small)} for column in rows.COLUMNS}
    expected = {name: {"entailment" if name.endswith("_ent") else "non-entailment"} for name in rows.COLUMNS}
    assert labels == expected


def test_all_is_every_column_once(small: DataContext) -> None:
    assert len(list(rows.open("all", small))) == 17


def test_a_row_of_another_width_is_named(small: DataContext, tmp_path: Path) -> None:
    (tmp_path / "idioms/manual_e.tsv").write_text("premise\thypothesis\nonly one\n")
    with pytest.raises(DataError, match=r"manual_e\.tsv:2: 1 values"):
        list(rows.open("idioms_gold_ent", small))


def test_unknown_columns_get_near_names(small: DataContext) -> None:
    with pytest.raises(DataError, match=r"no column 'idioms_gold_antonym'; did you mean .*'idioms_gold_ant'"):
        next(rows.open("idioms_gold_antonym", small))


def test_the_recovery_is_done_once_per_process(small: DataContext) -> None:
    rows.recovered.cache_clear()
    for _ in range(3):
        list(rows.open("idioms_gold_ent", small))
    assert rows.recovered.cache_info().misses == 1


@pytest.mark.parametrize("case", GOLDEN, ids=[case["why"][:60] for case in GOLDEN])
def test_golden_names(case: dict[str, Any]) -> None:
    names = idioms.recover(map(tuple, case["pairs"]))
    assert {premise: names[premise] for premise in case["names"]} == case["names"]


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


@given(pairs=st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=8))
def test_every_premise_gets_one_name_whatever_the_text(pairs: list[tuple[str, str]]) -> None:
    names = idioms.recover(pairs)
    assert set(names) == {idioms.premise_key(premise) for premise, _ in pairs}
    assert all(names.values())


# ---- the real files -------------------------------------------------------------------------------------------------

COUNTS = {
    "idioms_silver_ent": 16652,
    "idioms_silver_lit": 886,
    "idioms_silver_adv": 6116,
    "idioms_gold_ent": 528,
    "idioms_gold_ant": 375,
    "idioms_gold_non": 254,
    "metaphors_silver_ent": 645,
    "metaphors_gold_ent": 387,
    "metaphors_gold_non": 281,
}


@pytest.fixture
def real(real_data: str, tmp_path: Path) -> DataContext:
    return DataContext(folder=tmp_path, fetch=fetch)


@pytest.fixture
def everything(real: DataContext) -> list[Row]:
    return list(rows.open("all", real))


def test_real_counts(real: DataContext, everything: list[Row]) -> None:
    assert {column: sum(1 for _ in rows.open(column, real)) for column in rows.COLUMNS} == COUNTS
    assert len({row["id"] for row in everything}) == 26124 == len(everything)


def test_real_quoting_and_encodings(real: DataContext, everything: list[Row]) -> None:
    assert sum('"' in row["premise"] or '"' in row["hypothesis"] for row in everything) == 344
    assert not any('""' in row["premise"] for row in everything)
    tsvetkov = [row["premise"] + row["hypothesis"] for row in everything if row["corpus"] == "tsvetkov"]
    assert sum(any(mark in text for mark in "’“”") for text in tsvetkov) == 7
    assert all(row["premise"].strip() and row["hypothesis"].strip() for row in everything)


def test_real_damage_is_left_as_published(everything: list[Row]) -> None:
    def repairable(text: str) -> bool:
        try:
            return text.encode("latin-1").decode("utf-8") != text
        except UnicodeError:
            return False

    assert sum(repairable(row["premise"]) for row in everything if row["corpus"] == "cc") == 45


def test_real_idioms(everything: list[Row]) -> None:
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in everything:
        names[row["figure"], row["premise_key"]].add(row["idiom"])
    assert all(len(found) == 1 for found in names.values()), "no premise under two names"
    counts = Counter(next(iter(found)) for (figure, _), found in names.items() if figure == "idiom")
    frequent = {name: count for name, count in counts.items() if count >= 5}
    assert (sum(counts.values()), len(counts), len(frequent)) == (18002, 1175, 570)
    assert round(sum(frequent.values()) / sum(counts.values()), 3) == 0.948
    assert counts[idioms.UNKNOWN] == 4


def test_all_columns_together_have_all_rows(real: DataContext) -> None:
    assert sum(1 for _ in rows.open("all", real)) == 26124
