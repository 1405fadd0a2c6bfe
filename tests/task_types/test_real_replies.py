"""Replies of a real model, as bench/replies.json has them: the labels and digests of all, the texts of some."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from bench.extractor import SAMPLES, read_again

ROOT = Path(__file__).resolve().parents[2]
STORED_REPLIES: dict[str, Any] = json.loads((ROOT / "bench" / "replies.json").read_text(encoding="utf-8"))
TEXTS = [row for row in STORED_REPLIES["replies"] if "reply" in row]


def test_every_reply_at_hand_is_read_as_it_was_when_all_of_them_were_measured() -> None:
    assert len(TEXTS) >= 200
    changed = [(row["reply"], row["read"], read_again(row)) for row in TEXTS if read_again(row) != row["read"]]
    assert not changed


def test_digests_are_those_of_the_texts() -> None:
    for row in TEXTS:
        assert hashlib.sha256(row["reply"].encode()).hexdigest() == row["reply_sha256"]


def test_samples_share_no_example() -> None:
    by_sample = {
        sample: {
            (row["task"].partition("@")[0], row["id"]) for row in STORED_REPLIES["replies"] if row["sample"] == sample
        }
        for sample in SAMPLES
    }
    assert not by_sample[3] & (by_sample[1] | by_sample[2])
