"""ePiC's joint tasks: rows of a small corpus, counts on the real one, and whole runs on the embedded sample."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import CapabilityError, DataError, Harness, JointExample
from tests.finished_runs import finished
from tests.sources import Row, Source, read_rows

PAIRS = {
    "Q1N1": [("Before you", "The Ice broke")],
    "Q2N1": [("Still", "calm"), ("DEEP", "lake"), ("Still", "calm lake")],
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two proverbs with a narrative each."""
    quotes = {"Q1N1": "Look before you leap", "Q2N1": "Still waters run deep"}
    tales = {"Q1N1": "The Ice broke. ", "Q2N1": "A calm lake."}
    slots = [f"span_{side}_{slot}" for side in ("quote", "narrative") for slot in range(1, 6)]
    records: list[dict[str, Any]] = []
    for key, quote in quotes.items():
        spans = {f"span_quote_{n}": quotation for n, (quotation, _) in enumerate(PAIRS[key], 1)}
        spans |= {f"span_narrative_{n}": gold for n, (_, gold) in enumerate(PAIRS[key], 1)}
        records.append(
            {"pk": key, "fields": {**dict.fromkeys(slots, ""), **spans, "quote": quote, "narrative": tales[key]}}
        )
    (tmp_path / "full_dataset.json").write_text(json.dumps(records))
    for part, ids in (("test", ["Q2N1", "Q1N1"]), ("train", ["Q1N1"])):
        (tmp_path / f"task_1_proverb_only_seen_{part}_data_indices.json").write_text(json.dumps(ids))
    return tmp_path


def test_a_row_is_that_of_the_retrieval_task_with_all_its_spans(small: Path) -> None:
    rows = read_rows("epic:joint_seen_test", small)
    assert [(row["id"], row["relevant"]) for row in rows] == [("Q2N1", 1), ("Q1N1", 0)]
    assert [part["id"] for part in rows[0]["parts"]] == ["Q2N1S1", "Q2N1S2", "Q2N1S3"], "none is lost"
    assert rows[1]["parts"] == [
        {"id": "Q1N1S1", "given": "Before you", "known": "Look before you leap", "gold": "The Ice broke"}
    ]
    assert rows[1]["parts_lower"] == [
        {"id": "Q1N1S1", "given": "before you", "known": "look before you leap", "gold": "the ice broke"}
    ]
    assert len({id(row["candidates_lower"]) for row in rows}) == 1


def test_a_narrative_without_spans_is_an_error_in_one_line(small: Path, tmp_path: Path) -> None:
    records = json.loads((tmp_path / "full_dataset.json").read_text())
    records[0]["fields"].update(span_quote_1="", span_narrative_1="")
    (tmp_path / "full_dataset.json").write_text(json.dumps(records))
    with pytest.raises(DataError, match="epic: the narrative Q1N1 has no spans"):
        read_rows("epic:joint_seen_test", small)


@pytest.mark.slow
def test_the_real_splits(real_data: str) -> None:
    harness = Harness()
    for task in harness.catalogue.expand(["epic_joint", "epic_pipelined"]):
        examples = list(harness.examples(task))
        assert all(isinstance(example, JointExample) for example in examples)
        parts = [part for example in examples for part in example.parts]  # type: ignore[attr-defined]
        assert (len(examples), len(parts)) == (1000, 2164)
        assert sum(part.weight for part in parts) == pytest.approx(1000)
        assert {len(example.candidates) for example in examples} == {250}  # type: ignore[attr-defined]
        assert len({example.cluster for example in examples}) == 250
        train = list(harness.examples(task, "train"))
        assert (len(train), sum(len(example.parts) for example in train)) == (1500, 3274)  # type: ignore[attr-defined]
    (alignment,) = harness.catalogue.expand(["epic_alignment"])
    singles = {example.id: example for example in harness.examples(alignment)}
    assert [part.id for part in parts] == list(singles)
    for part in parts:
        single = singles[part.id]
        assert (part.text, part.given, part.known, part.gold, part.weight) == (
            (single.text, single.given, single.known, single.gold, single.weight)  # type: ignore[attr-defined]
        )


def test_the_rows_come_one_at_a_time(real_data: str) -> None:
    first: list[Row] = list(islice(Source("epic:joint_seen_test"), 2))
    assert [len(row["parts"]) > 0 for row in first] == [True, True]


# ---- whole runs on the sample that figeval brings ------------------------------------------------------------------


@pytest.mark.parametrize("model", ["random", "overlap", "tfidf"])
def test_models_without_heads_answer_at_once_and_in_turn_alike(model: str, tmp_path: Path) -> None:
    predictions = {}
    for way in ("at_once", "in_turn"):
        folder = finished(tmp_path / way, "mini_joint", model=model, routes={"joint": way}, baselines=False)
        (task,) = figeval.load(folder).record.tasks
        assert (task.route, task.n) == (way, 30)
        predictions[way] = {score.metric: score.value for score in task.scores}
    assert predictions["at_once"] == predictions["in_turn"]


def test_a_model_that_only_finds_spans_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        CapabilityError, match=r"whole_text cannot answer mini_joint: .*needs a ranking route and a spans"
    ):
        finished(tmp_path / "run", "mini_joint", model="whole_text")
