"""ePiC's alignment: rows of a small corpus of our own, counts on the real one, and the numbers that papers quote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import DataError, Harness, Span, SpanExample
from tests.cli.conftest import Cli
from tests.sources import read_rows

ROOT = Path(__file__).parents[2]
TASKS = ("epic_alignment", "epic_alignment_published")
BATCH_ROWS = 32  # the released code scores every batch against the gold spans of the first 32 rows


def record(key: str, *pairs: tuple[str, str]) -> dict[str, Any]:
    fields = {"quote": "Still WATERS run deep", "narrative": " The lake was calm. It was a calm lake. "}
    for slot in range(1, 6):
        sides = pairs[slot - 1] if slot <= len(pairs) else ("", "")
        fields |= {f"span_quote_{slot}": sides[0], f"span_narrative_{slot}": sides[1]}
    return {"pk": key, "fields": fields}


@pytest.fixture
def small(tmp_path: Path) -> Any:
    """A function of records that makes a corpus of them; the test split has them in reversed order."""

    def make(*records: dict[str, Any]) -> Path:
        ids = [record["pk"] for record in reversed(records)]
        (tmp_path / "full_dataset.json").write_text(json.dumps(records))
        (tmp_path / "task_1_proverb_only_seen_test_data_indices.json").write_text(json.dumps(ids))
        return tmp_path

    return make


FIRST_RECORD = record("Q2N1", ("Still WATERS", "The lake"), ("run deep", "calm"))
SECOND_RECORD = record("Q2N3", ("Still", "CALM"), ("run deep", "It was"), ("still", "a calm lake"))


def examples(folder: Path) -> list[Any]:
    harness = Harness(fetch=lambda _benchmark, path: folder / path)
    return list(harness.examples(harness.catalogue.tasks.get(TASKS[0])))


def test_every_pair_is_a_row_with_a_share_of_its_narrative(small: Any) -> None:
    rows = read_rows("epic:alignment_seen_test", small(FIRST_RECORD, SECOND_RECORD))
    assert [row["id"] for row in rows] == ["Q2N3S1", "Q2N3S2", "Q2N3S3", "Q2N1S1", "Q2N1S2"]
    assert [row["weight"] for row in rows] == [1 / 3, 1 / 3, 1 / 3, 0.5, 0.5]
    assert (rows[0]["span"], rows[0]["span_lower"], rows[0]["given_lower"]) == ("CALM", "calm", "still")


def test_gold_is_the_first_place_whatever_its_case(small: Any) -> None:
    first, *_ = examples(small(SECOND_RECORD))
    assert isinstance(first, SpanExample)
    assert (first.gold, first.answer, first.text[:8]) == (Span(13, 17), "calm", "the lake")
    assert (first.cluster, first.meta) == ("Q2", {"proverb": "Q2", "narrative": "Q2N3"})


def test_the_published_rows_go_by_file_lose_pairs_and_are_scored_against_the_first_batch(small: Any) -> None:
    many = [record(f"Q2N{n}", ("Still", "The lake" if n % 2 else "calm")) for n in range(4, 36)]
    rows = read_rows("epic:alignment_published", small(FIRST_RECORD, SECOND_RECORD, *many))
    assert [row["id"] for row in rows[:5]] == ["Q2N1S1", "Q2N1S2", "Q2N3S3", "Q2N3S2", "Q2N4S1"]  # S3 in S1's place
    assert [row["weight"] for row in rows[2:4]] == [0.5, 0.5]
    assert [row["reference_lower"] for row in rows[:3]] == ["the lake", "calm", "a calm lake"]
    assert [row["reference_lower"] for row in rows[32:]] == ["the lake", "calm", "a calm lake", "it was"]
    assert rows[32]["span_lower"] != rows[32]["reference_lower"]


def test_a_span_that_is_not_in_its_text(small: Any) -> None:
    with pytest.raises(
        DataError, match=r"epic_alignment: row 1 of .*, field 'gold': 'the sea' does not occur in the text"
    ):
        examples(small(record("Q2N1", ("Still", "The sea"))))


def test_a_narrative_without_spans(small: Any) -> None:
    with pytest.raises(DataError, match="epic: the narrative Q2N1 has no spans; leave it out of the split"):
        examples(small(record("Q2N1"), SECOND_RECORD))


@pytest.mark.parametrize("pair", [("Still", " "), ("", "calm")])
def test_half_a_pair(small: Any, pair: tuple[str, str]) -> None:
    with pytest.raises(DataError, match=r"epic: Q2N1, pair 1: the (narrative|proverb) has no span"):
        examples(small(record("Q2N1", pair)))


# ---- the real data ---------------------------------------------------------------------------------------------------


def real(task: str, split: str = "test") -> list[SpanExample]:
    harness = Harness()
    return list(harness.examples(harness.catalogue.tasks.get(task), split))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "split", "n", "narratives"),
    [("epic_alignment", "test", 2164, 1000), ("epic_alignment", "train", 3274, 1500), (TASKS[1], "test", 2100, 1000)],
)
def test_counts(task: str, split: str, n: int, narratives: int, real_data: str) -> None:
    examples = real(task, split)
    assert len({example.id for example in examples}) == len(examples) == n
    assert len({example.meta["narrative"] for example in examples}) == narratives
    assert sum(example.weight for example in examples) == pytest.approx(narratives)
    assert len({example.cluster for example in examples}) == 250
    assert all(example.gold and example.text == example.text.lower().strip() for example in examples)


@pytest.mark.slow
def test_the_rows_that_the_released_code_loses(real_data: str) -> None:
    kept_pairs = {(example.text, example.given) for example in real(TASKS[0])}
    assert len(kept_pairs) == 2100 == len(real(TASKS[1]))
    assert (
        len({example.answer for example in real(TASKS[1])})
        <= BATCH_ROWS
        < len({example.answer for example in real(TASKS[0])})
    )


@pytest.mark.parametrize(
    ("task", "folder"), [(TASKS[0], "tfidf"), pytest.param(TASKS[1], "tfidf-published", marks=pytest.mark.slow)]
)
def test_measured_runs_have_the_examples_of_today(task: str, folder: str, real_data: str, tmp_path: Path) -> None:
    stored = figeval.load(ROOT / "results" / "measured" / folder).record
    (measured,) = [task_record.examples_sha256 for task_record in stored.tasks if task_record.task == task]
    today = figeval.run(task, "whole_text", baselines=False, output_path=tmp_path / "run").record
    assert today.tasks[0].examples_sha256 == measured


# protocols of the released code on 2100 rows: with its gold index, and with the right one
PUBLISHED_SCORES = {"oracle": (0.084, 0.077, 0.080), "whole_text": (0.056, 0.198, 0.088)}
CORRECTED_SCORES = {"whole_text": (0.240, 0.954, 0.383), "last_sentence": (0.349, 0.518, 0.417)}
TRIALS = {"published": (0.0752, 0.0981, 0.0851), "right": (0.2739, 0.4132, 0.3294)}  # 30 seeds of a uniform span


def published_scores(folder: Path, model: str, *, is_corrected: bool = False) -> list[float]:
    """Precision, recall and F1 of the published scoring; corrected, it compares answers with their own gold spans."""
    published = Harness().catalogue.tasks.get(TASKS[1])
    fields = {name: expression for name, expression in published.fields.items() if name != "reference"}
    corrected = published.model_copy(update={"name": "corrected", "fields": fields})
    run = figeval.run(corrected if is_corrected else TASKS[1], model, baselines=False, output_path=folder / model)
    scores = {score.metric: score.value for score in run.record.tasks[0].scores}
    return [scores[f"published_{name}"] for name in ("precision", "recall", "f1")]


@pytest.mark.slow
def test_a_perfect_model_gets_next_to_nothing_from_the_published_scoring(real_data: str, tmp_path: Path) -> None:
    for model, expected in PUBLISHED_SCORES.items():
        assert published_scores(tmp_path, model) == pytest.approx(expected, abs=0.0006), model
    assert published_scores(tmp_path, "random") == pytest.approx(TRIALS["published"], abs=0.008)


@pytest.mark.slow
def test_the_right_gold_spans_give_trivial_answers_far_more_than_what_was_printed(
    real_data: str, tmp_path: Path
) -> None:
    def scores(model: str) -> list[float]:
        return published_scores(tmp_path, model, is_corrected=True)

    assert scores("whole_text") == pytest.approx(CORRECTED_SCORES["whole_text"], abs=0.0006)
    # Where a sentence ends is a matter of definition: ours keeps a closing quotation mark, and "mr." ends none.
    assert scores("last_sentence") == pytest.approx(CORRECTED_SCORES["last_sentence"], abs=0.004)
    assert scores("random") == pytest.approx(TRIALS["right"], abs=0.02)
    assert scores("oracle") == [1.0, 1.0, 1.0]


@pytest.mark.slow
def test_a_run_prints_the_three_floors_and_takes_the_published_task_in_its_place(
    real_data: str, tmp_path: Path
) -> None:
    (task,) = figeval.run(TASKS[0], "random", output_path=tmp_path / "run", limit=60).record.tasks
    assert [score.metric for score in task.scores] == [
        "span_f1",
        "span_precision",
        "span_recall",
        "squad_f1",
        "exact_match",
    ]
    assert [baseline.baseline for baseline in task.baselines] == ["random", "last_sentence", "whole_text"]
    assert [score.value for score in task.baselines[0].scores] == [score.value for score in task.scores]
    instead = figeval.run(TASKS[0], "random", output_path=tmp_path / "p", limit=60, protocol="published")
    (task,) = instead.record.tasks
    assert (task.task, task.baselines[-1].baseline) == (TASKS[1], "oracle")


@pytest.mark.slow
def test_show_says_that_the_printed_numbers_are_artefacts(real_data: str, cli: Cli) -> None:
    shown = cli("show", TASKS[0]).out
    assert "artefacts" in shown
    assert "--protocol published" in shown
    assert "ACL 2022, Table 8" in shown
