"""ePiC: the reader on a small corpus of our own, and counts on the real one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from figeval import DataContext, DataError, Harness
from figeval.builtin.tasks.epic import epic_rows
from figeval.data import Row
from figeval.data.cache import fetch
from figeval.records.digests import SeenTexts
from figeval.records.seen import Lineage

PROVERBS = {"Q2": "Still WATERS run deep", "Q1": "Look before you leap", "Q55": "Mind your hatLink to proverb"}


def records() -> list[dict[str, Any]]:
    return [
        {"pk": f"{key}N{number}", "fields": {"quote": quote, "narrative": f"  Tale {number}\r\nof {key}. \n"}}
        for key, quote in PROVERBS.items()
        for number in (1, 10)
    ]


@pytest.fixture
def small(tmp_path: Path) -> DataContext:
    """Three proverbs, two narratives each; Q1 and Q55 are the unseen test."""
    files = {
        "full_dataset": records(),
        "task_1_proverb_only_seen_train_data_indices": ["Q2N1", "Q1N1", "Q55N1"],
        "task_1_proverb_only_seen_test_data_indices": ["Q55N10", "Q2N10", "Q1N10"],
        "task_1_proverb_only_unseen_train_data_indices": ["Q2N10", "Q2N1"],
        "task_1_proverb_only_unseen_test_data_indices": ["Q55N1", "Q1N1", "Q1N10", "Q55N10"],
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return DataContext(folder=tmp_path, fetch=lambda benchmark, path: tmp_path / path)


def test_texts_are_stripped_and_lower_cased_once(small: DataContext) -> None:
    first = next(epic_rows.open("retrieval_all", small))
    assert first["narrative"] == "Tale 1\r\nof Q2."
    assert first["narrative_lower"] == "tale 1\r\nof q2."
    assert first["proverb"] == "Still WATERS run deep"
    assert first["candidates_lower"] == ("still waters run deep", "look before you leap", "mind your hat")


def test_candidates_stand_in_order_of_first_appearance_and_are_shared(small: DataContext) -> None:
    rows = list(epic_rows.open("retrieval_seen_test", small))
    assert [row["id"] for row in rows] == ["Q55N10", "Q2N10", "Q1N10"]
    assert rows[0]["candidates"] == ("Still WATERS run deep", "Look before you leap", "Mind your hat")
    assert [row["relevant"] for row in rows] == [2, 0, 1]
    for key in ("candidates", "candidates_lower", "background", "background_lower"):
        assert len({id(row[key]) for row in rows}) == 1


def test_unseen_test_has_its_own_candidates_and_the_others_behind(small: DataContext) -> None:
    rows = list(epic_rows.open("retrieval_unseen_test", small))
    assert rows[0]["candidates"] == ("Look before you leap", "Mind your hat")
    assert rows[0]["background"] == ("Still WATERS run deep",)
    assert [row["relevant"] for row in rows] == [1, 0, 0, 1]


def test_training_rows_do_not_see_the_test_proverbs(small: DataContext) -> None:
    rows = list(epic_rows.open("retrieval_unseen_train", small))
    assert {row["background"] for row in rows} == {()}
    assert {row["candidates"] for row in rows} == {("Still WATERS run deep",)}


def test_items_get_their_texts(small: DataContext) -> None:
    corpus = epic_rows.read_corpus(small)
    row = epic_rows.item_row({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": 1}, corpus, "item 1")
    assert row["options"] == ("Still WATERS run deep", "Look before you leap")
    assert row["options_lower"] == ("still waters run deep", "look before you leap")
    assert (row["gold"], row["proverb_id"], row["option_ids"]) == (1, "Q1", ("Q2", "Q1"))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": "Q1N10", "gold": 1}, "item 1: no options"),
        ({"id": "Q1N11", "options": ["Q2", "Q1"], "gold": 1}, "item 1: the dataset has no 'Q1N11'"),
        ({"id": "Q1N10", "options": ["Q3", "Q1"], "gold": 1}, "item 1: the dataset has no 'Q3'"),
        ({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": 0}, "gold 0 does not point to Q1"),
        ({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": 2}, "gold 2 does not point to Q1"),
        ({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": -1}, "gold -1 does not point to Q1"),
        ({"id": "Q1N10", "options": ["Q2", "Q1"], "gold": "1"}, "gold '1' does not point to Q1"),
        ({"id": "Q1N10", "options": [], "gold": 0}, "gold 0 does not point to Q1"),
    ],
)
def test_a_wrong_item_is_one_line(small: DataContext, item: Row, message: str) -> None:
    with pytest.raises(DataError, match=message):
        epic_rows.item_row(item, epic_rows.read_corpus(small), "item 1")


def test_an_unknown_narrative_in_a_split_is_named(small: DataContext, tmp_path: Path) -> None:
    (tmp_path / "task_1_proverb_only_seen_test_data_indices.json").write_text('["Q55N10", "Q9N1"]')
    with pytest.raises(DataError, match="no 'Q9N1'"):
        list(epic_rows.open("retrieval_seen_test", small))


def test_unknown_rows_get_near_names(small: DataContext) -> None:
    with pytest.raises(DataError, match="did you mean 'retrieval_all'"):
        epic_rows.open("retrieval_al", small)


def test_missing_items_say_how_to_make_them(small: DataContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(epic_rows.ITEMS, "mcq", "no_such_items.jsonl")
    with pytest.raises(DataError, match="figeval build epic-mcq"):
        list(epic_rows.open("mcq", small))


# ---- the real corpus ------------------------------------------------------------------------------------------------


@pytest.fixture
def real(real_data: str, tmp_path: Path) -> DataContext:
    return DataContext(folder=tmp_path, fetch=fetch)


def read_rows(path: str, context: DataContext) -> list[Row]:
    return list(epic_rows.open(path, context))


def test_real_counts(real: DataContext) -> None:
    expected = {
        "retrieval_all": (2500, 250, 0),
        "retrieval_seen_train": (1500, 250, 0),
        "retrieval_seen_test": (1000, 250, 0),
        "retrieval_unseen_train": (1500, 150, 0),
        "retrieval_unseen_test": (1000, 100, 150),
    }
    for path, (count, candidates, background) in expected.items():
        rows = read_rows(path, real)
        assert len({row["id"] for row in rows}) == count == len(rows)
        assert (len(rows[0]["candidates"]), len(rows[0]["background"])) == (candidates, background)
        assert all(row["candidates"][row["relevant"]] == row["proverb"] for row in rows)


def test_real_splits_are_disjoint_and_complete(real: DataContext) -> None:
    ids = {path: {row["id"] for row in read_rows(path, real)} for path in ("retrieval_all", *epic_rows.SPLITS)}
    for kind in ("seen", "unseen"):
        train, test = ids[f"retrieval_{kind}_train"], ids[f"retrieval_{kind}_test"]
        assert not train & test
        assert train | test == ids["retrieval_all"]
    assert set(Counter(epic_rows.proverb_of(key) for key in ids["retrieval_seen_test"]).values()) == {4}
    assert len(ids["retrieval_seen_test"] & ids["retrieval_unseen_test"]) == 400
    unseen = read_rows("retrieval_unseen_test", real)[0]
    assert not set(unseen["candidates"]) & set(unseen["background"])


def test_real_label_order_is_the_released_one(real: DataContext) -> None:
    for kind, path in (("seen", "retrieval_seen_test"), ("unseen", "retrieval_unseen_train")):
        released = json.loads(fetch("epic", f"task_1_proverb_only_{kind}_label_map.json").read_text())
        labels = {name.removesuffix(epic_rows.SCRAPED_TAIL.lower()): number for name, number in released.items()}
        candidates = read_rows(path, real)[0]["candidates_lower"]
        assert {text: number for number, text in enumerate(candidates)} == labels


def test_real_q55_is_clean_and_nothing_else_is_changed(real: DataContext) -> None:
    published = {row["quote_id"]: row["quote"] for row in json.loads(fetch("epic", "all_proverbs.json").read_text())}
    cleaned = epic_rows.read_corpus(real).proverbs
    assert {key for key in cleaned if cleaned[key] != published[key]} == {"Q55"}
    assert published["Q55"] == cleaned["Q55"] + epic_rows.SCRAPED_TAIL
    assert len(cleaned["Q55"]) == 68


def test_solved_items_are_drawn_from_the_training_split(small: DataContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epic_rows, "DISTRACTORS", 2)
    rows = list(epic_rows.open("mcq_train", small))
    assert [row["id"] for row in rows] == ["Q2N1", "Q1N1", "Q55N1"]
    for row in rows:
        assert row["option_ids"][row["gold"]] == row["proverb_id"]
        assert len(set(row["options"])) == 3
    assert rows == list(epic_rows.open("mcq_train", small))


def test_solved_items_of_the_real_data_are_no_test_items(real_data: None) -> None:
    context = DataContext(folder=Path(), fetch=fetch)
    solved, question_rows = list(epic_rows.open("mcq_train", context)), list(epic_rows.open("mcq", context))
    assert len(solved) == 1500
    assert not {row["id"] for row in solved} & {row["id"] for row in question_rows}
    assert 200 < Counter(row["gold"] for row in solved)[0] < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "seen", "n"),
    [
        ("epic_retrieval_all", 1500, 2500),
        ("epic_retrieval_unseen", 600, 1000),
        ("epic_retrieval_seen", 0, 1000),
        ("epic_mcq", 0, 1000),
        ("epic_motif", 0, 1000),
    ],
)
def test_which_tasks_hold_narratives_of_the_seen_training_split(task: str, seen: int, n: int, real_data: str) -> None:
    """README says on which ones a model that was trained on it may be scored."""
    harness = Harness()
    tasks = harness.catalogue.tasks
    line = Lineage(trained=SeenTexts.of_questions(harness.examples(tasks.get("epic_retrieval_seen"), "train")))
    roles = [line.role(example) for example in harness.examples(tasks.get(task))]
    assert (sum(role is not None for role in roles), len(roles)) == (seen, n)
