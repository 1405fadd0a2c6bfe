"""Replies of a real model, as bench/replies.json has them: the labels and digests of all, the texts of some."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from bench.extractor import answer_of, read_again

ROOT = Path(__file__).resolve().parents[2]
STORED: dict[str, Any] = json.loads((ROOT / "bench" / "replies.json").read_text(encoding="utf-8"))
TEXTS = [row for row in STORED["replies"] if "reply" in row]


def test_every_reply_at_hand_is_read_as_it_was_when_all_of_them_were_measured() -> None:
    assert len(TEXTS) >= 200
    changed = [(row["reply"], row["read"], read_again(row)) for row in TEXTS if read_again(row) != row["read"]]
    assert not changed


def test_digests_are_those_of_the_texts() -> None:
    for row in TEXTS:
        assert hashlib.sha256(row["reply"].encode()).hexdigest() == row["reply_sha256"]


def test_the_accuracy_in_the_documentation_is_that_of_the_second_half() -> None:
    half = [row for row in STORED["replies"] if row["half"] == 2]
    right = sum(answer_of(row["read"]) == answer_of(row["label"]) for row in half)
    page = " ".join((ROOT / "docs" / "llm.md").read_text(encoding="utf-8").split())
    found = re.search(r"of (\d+) replies that were labelled after the rules, (\d+) \((\d+) %\)", page)
    assert found is not None
    assert [int(number) for number in found.groups()] == [len(half), right, round(100 * right / len(half))]


def test_the_documentation_tells_apart_what_was_said_in_both_halves() -> None:
    first = {row["reply_sha256"] for row in STORED["replies"] if row["half"] == 1}
    second = [row for row in STORED["replies"] if row["half"] == 2]
    new = {row["reply_sha256"]: row for row in second if row["reply_sha256"] not in first}
    repeated = sum(row["reply_sha256"] in first for row in second)
    right = sum(answer_of(row["read"]) == answer_of(row["label"]) for row in new.values())
    page = " ".join((ROOT / "docs" / "llm.md").read_text(encoding="utf-8").split())
    assert f"{repeated} of the {len(second)} say word for word what" in page
    assert f"of the {len(new)} different replies that remain {right} ({right / len(new):.0%}".replace("%", " %") in page
