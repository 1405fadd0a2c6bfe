"""The frozen questions of ePiC: the files, their records, and what their page says of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from figeval import Harness
from tests.sources import read_rows

EPIC_FOLDER = Path(__file__).parents[2] / "tasks" / "epic"

KINDS = ("mcq", "mcq_random")


def check(line):
    """Five different proverbs, the narrative's own exactly once and where `gold` says."""
    assert len(set(line["options"])) == 5
    assert line["options"].index(line["id"].partition("N")[0]) == line["gold"]


# ---- the frozen files ----------------------------------------------------------------------------------------------


def frozen(kind):
    lines = (EPIC_FOLDER / f"{kind}_items.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((EPIC_FOLDER / f"{kind}_items.json").read_text())


def near_duplicates():
    return [set(group) for group in json.loads((EPIC_FOLDER / "near_duplicates.json").read_text("utf-8"))["groups"]]


def proverbs():
    """Proverbs of the seen test split by id."""
    return {row["proverb_id"]: row["proverb_lower"] for row in read_rows("epic:retrieval_seen_test")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_have_the_version_of_their_items(kind):
    task = Harness().catalogue.tasks.get(f"epic_{kind}")
    assert task.version == frozen(kind)[1]["version"]


# ---- the page ------------------------------------------------------------------------------------------------------


PAGE = (EPIC_FOLDER / "MCQ.md").read_text(encoding="utf-8").splitlines()


def rows_of(heading):
    """The cells of each row of the table on MCQ.md that begins with these cells."""
    start = next(number for number, line in enumerate(PAGE) if line.startswith(f"| {heading}"))
    for line in PAGE[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_strength_on_the_page_is_that_of_the_record():
    averaged = frozen("mcq")[1]["audit"]["averaged"]
    text = " ".join(PAGE)
    assert f"{averaged['best_two_among_ten']:.0%}".replace("%", " %") + " are among the ten most probable" in text
    assert f"have a median rank of {averaged['median_rank']:g};" in text
    assert f"pick the right proverb for {averaged['gold_picked']:.3f}".replace("0.", ".") in text


def test_the_models_on_the_page_are_those_of_the_records():
    cells_of_model = {name.partition(" ")[0]: cells for name, *cells in rows_of("model | version 1")}
    for kind, column in zip(KINDS, (1, 3), strict=True):
        for name, share in frozen(kind)[1]["audit"]["scorers"].items():
            assert cells_of_model[name][column] == f"{share['gold_picked']:.3f}".removeprefix("0"), (kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_are_what_their_record_says(kind):
    lines, record = frozen(kind)
    assert hashlib.sha256((EPIC_FOLDER / f"{kind}_items.jsonl").read_bytes()).hexdigest() == record["sha256"]
    assert len(lines) == record["items"] == 1000
    assert len({line["id"] for line in lines}) == 1000
    assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", "glove", "minilm"]
    for line in lines:
        check(line)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_hold_no_two_near_duplicates(kind):
    groups = near_duplicates()
    for line in frozen(kind)[0]:
        assert all(len(group & set(line["options"])) <= 1 for group in groups), line


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_of_the_file_is_balanced(kind):
    """Each proverb is right once and wrong four times in each quarter, and gold stands at each place equally often."""
    lines = frozen(kind)[0]
    for start in range(0, 1000, 250):
        block = lines[start : start + 250]
        assert set(Counter(line["options"][line["gold"]] for line in block).values()) == {1}
        assert set(Counter(name for line in block for name in line["options"]).values()) == {5}
        assert Counter(line["gold"] for line in block) == dict.fromkeys(range(5), 50)


def test_both_kinds_ask_about_the_same_narratives():
    assert [line["id"] for line in frozen("mcq")[0]] == [line["id"] for line in frozen("mcq_random")[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_ids_are_those_of_the_seen_test_split(kind, real_data):
    lines, texts = frozen(kind)[0], proverbs()
    assert sorted(line["id"] for line in lines) == sorted(row["id"] for row in read_rows("epic:retrieval_seen_test"))
    assert {name for line in lines for name in line["options"]} <= set(texts)
    assert len(texts) == 250 and not any("link to proverb" in text for text in texts.values())


def test_proverbs_that_share_their_words_are_listed_as_near_duplicates(real_data):
    """The list is made by reading; this finds what an eye may miss: the content of one is within that of the other."""
    texts, groups = proverbs(), near_duplicates()
    stems = {key: {word[:5] for word in re.findall(r"\w+", text) if len(word) > 3} for key, text in texts.items()}
    for left, right in combinations(stems, 2):
        first, second = stems[left], stems[right]
        within = min(len(first), len(second)) >= 2 and (first <= second or second <= first)
        assert not within or any({left, right} <= group for group in groups), (left, right)


def test_near_duplicates_name_proverbs_that_exist(real_data):
    groups = near_duplicates()
    assert set().union(*groups) <= set(proverbs())
    assert all(len(group) >= 2 for group in groups)
    assert any({"Q24", "Q125"} <= group for group in groups)
