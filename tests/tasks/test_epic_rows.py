"""ePiC: the reader on a small corpus of our own, and counts on the real one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError, Harness
from tests.sources import Source, read_rows

KINDS = ("seen", "unseen")
SCRAPED_TAIL = "Link to proverb"
PROVERBS = {"Q2": "Still WATERS run deep", "Q1": "Look before you leap", "Q55": "Mind your hatLink to proverb"}


def records() -> list[dict[str, Any]]:
    return [
        {"pk": f"{key}N{number}", "fields": {"quote": quote, "narrative": f"  Tale {number}\r\nof {key}. \n"}}
        for key, quote in PROVERBS.items()
        for number in (1, 10)
    ]


@pytest.fixture
def small(tmp_path: Path) -> Path:
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
    return tmp_path


def test_texts_are_stripped_and_lower_cased_once(small: Path) -> None:
    first = next(iter(Source("epic:retrieval_all", small)))
    assert first["narrative"] == "Tale 1\r\nof Q2."
    assert first["narrative_lower"] == "tale 1\r\nof q2."
    assert first["proverb"] == "Still WATERS run deep"
    assert first["candidates_lower"] == ("still waters run deep", "look before you leap", "mind your hat")


def test_candidates_stand_in_order_of_first_appearance_and_are_shared(small: Path) -> None:
    rows = read_rows("epic:retrieval_seen_test", small)
    assert [row["id"] for row in rows] == ["Q55N10", "Q2N10", "Q1N10"]
    assert rows[0]["candidates"] == ("Still WATERS run deep", "Look before you leap", "Mind your hat")
    assert [row["relevant"] for row in rows] == [2, 0, 1]
    for key in ("candidates", "candidates_lower", "background", "background_lower"):
        assert len({id(row[key]) for row in rows}) == 1


def test_unseen_test_has_its_own_candidates_and_the_others_behind(small: Path) -> None:
    rows = read_rows("epic:retrieval_unseen_test", small)
    assert rows[0]["candidates"] == ("Look before you leap", "Mind your hat")
    assert rows[0]["background"] == ("Still WATERS run deep",)
    assert [row["relevant"] for row in rows] == [1, 0, 0, 1]


def test_training_rows_do_not_see_the_test_proverbs(small: Path) -> None:
    rows = read_rows("epic:retrieval_unseen_train", small)
    assert {row["background"] for row in rows} == {()}
    assert {row["candidates"] for row in rows} == {("Still WATERS run deep",)}


def test_an_unknown_narrative_in_a_split_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "task_1_proverb_only_seen_test_data_indices.json").write_text('["Q55N10", "Q9N1"]')
    with pytest.raises(DataError, match="no 'Q9N1'"):
        read_rows("epic:retrieval_seen_test", small)


def test_unknown_rows_get_near_names(small: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'retrieval_all'"):
        read_rows("epic:retrieval_al", small)


# ---- the real corpus ------------------------------------------------------------------------------------------------


def test_real_counts(real_data: str) -> None:
    expected = {
        "retrieval_all": (2500, 250, 0),
        "retrieval_seen_train": (1500, 250, 0),
        "retrieval_seen_test": (1000, 250, 0),
        "retrieval_unseen_train": (1500, 150, 0),
        "retrieval_unseen_test": (1000, 100, 150),
    }
    for path, (count, candidates, background) in expected.items():
        rows = read_rows(f"epic:{path}")
        assert len({row["id"] for row in rows}) == count == len(rows)
        assert (len(rows[0]["candidates"]), len(rows[0]["background"])) == (candidates, background)
        assert all(row["candidates"][row["relevant"]] == row["proverb"] for row in rows)


def test_real_splits_are_disjoint_and_complete(real_data: str) -> None:
    paths = ("retrieval_all", *(f"retrieval_{kind}_{part}" for kind in KINDS for part in ("train", "test")))
    ids = {path: {row["id"] for row in read_rows(f"epic:{path}")} for path in paths}
    for kind in KINDS:
        train, test = ids[f"retrieval_{kind}_train"], ids[f"retrieval_{kind}_test"]
        assert not train & test
        assert train | test == ids["retrieval_all"]
    assert set(Counter(key.partition("N")[0] for key in ids["retrieval_seen_test"]).values()) == {4}
    assert len(ids["retrieval_seen_test"] & ids["retrieval_unseen_test"]) == 400
    unseen = read_rows("epic:retrieval_unseen_test")[0]
    assert not set(unseen["candidates"]) & set(unseen["background"])


def test_real_label_order_is_the_released_one(real_data: str) -> None:
    for kind, path in (("seen", "retrieval_seen_test"), ("unseen", "retrieval_unseen_train")):
        file = Path(real_data, "epic", f"task_1_proverb_only_{kind}_label_map.json")
        released = json.loads(file.read_text())
        labels = {name.removesuffix(SCRAPED_TAIL.lower()): number for name, number in released.items()}
        candidates = read_rows(f"epic:{path}")[0]["candidates_lower"]
        assert {text: number for number, text in enumerate(candidates)} == labels


def test_real_q55_is_clean_and_nothing_else_is_changed(real_data: str) -> None:
    published = {
        row["quote_id"]: row["quote"] for row in json.loads(Path(real_data, "epic", "all_proverbs.json").read_text())
    }
    cleaned = {row["proverb_id"]: row["proverb"] for row in read_rows("epic:retrieval_all")}
    assert {key for key in cleaned if cleaned[key] != published[key]} == {"Q55"}
    assert published["Q55"] == cleaned["Q55"] + SCRAPED_TAIL
    assert len(cleaned["Q55"]) == 68


def test_solved_items_are_drawn_from_the_training_split(real_data: str) -> None:
    solved = read_rows("epic:mcq_train")
    assert len(solved) == 1500
    assert not {row["id"] for row in solved} & {row["id"] for row in read_rows("epic:mcq")}
    assert all(row["option_ids"][row["gold"]] == row["proverb_id"] for row in solved)
    assert {len(set(row["options"])) for row in solved} == {5}
    assert 200 < Counter(row["gold"] for row in solved)[0] < 400
    assert solved == read_rows("epic:mcq_train")


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
    trained = {example.subject for example in harness.examples(tasks.get("epic_retrieval_seen"), "train")}
    subjects = [example.subject for example in harness.examples(tasks.get(task))]
    assert (sum(subject in trained for subject in subjects), len(subjects)) == (seen, n)
