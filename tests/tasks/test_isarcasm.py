"""iSarcasmEval's rows, and what other people thought of them: counts and scores of the real files, and no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import CapabilityError, ChoiceExample, DataError, Harness, ModelError, PromptContext
from figeval.testing import predict
from tests.sources import read_rows
from tests.typed import find_route

SIZES = {
    "a_en": 1400,
    "a_ar": 1400,
    "b_en": 1400,
    "c_en": 200,
    "c_ar": 200,
    "a_en_train": 3467,
    "a_ar_train": 3102,
    "b_en_train": 3467,
    "c_en_train": 867,
    "c_ar_train": 745,
}
TYPES = ("sarcasm", "irony", "satire", "understatement", "overstatement", "rhetorical_question")


@pytest.mark.parametrize("part", list(SIZES))
def test_every_part_has_its_rows(part: str, real_data: str) -> None:
    rows = read_rows(f"isarcasm:{part}")
    assert len(rows) == SIZES[part]
    assert len({row["id"] for row in rows}) == len(rows)
    texts = [text for row in rows for text in row.get("options", [row.get("text")])]
    assert all(text.strip() for text in texts)


def test_labels_are_those_of_the_authors(real_data: str) -> None:
    assert Counter(row["label"] for row in read_rows("isarcasm:a_en")) == {"sarcastic": 200, "not_sarcastic": 1200}
    counts = Counter(label for row in read_rows("isarcasm:b_en") for label in row["labels"])
    assert counts == dict(zip(TYPES, (180, 20, 49, 1, 10, 11), strict=True))
    assert Counter(len(row["labels"]) for row in read_rows("isarcasm:b_en")) == {0: 1200, 1: 130, 2: 69, 3: 1}
    assert Counter(row["gold"] for row in read_rows("isarcasm:c_en")) == {0: 107, 1: 93}


def test_the_right_text_of_c_is_no_more_often_the_first_in_train(real_data: str) -> None:
    golds = [row["gold"] for row in read_rows("isarcasm:c_en_train")]
    assert 0.45 < sum(golds) / len(golds) < 0.55


def test_what_is_not_there_is_named() -> None:
    for path, message in (
        ("a_xx", "unknown language 'xx'; it has en, ar"),
        ("b_ar", "isarcasm has no part 'b_ar'; did you mean"),
        ("d_en", "isarcasm has no part 'd_en'"),
    ):
        with pytest.raises(DataError) as raised:
            read_rows(f"isarcasm:{path}")
        assert message in str(raised.value)


def test_a_cell_that_is_no_label_names_file_row_and_column(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("tweet,sarcastic\nLovely weather,1\nIt rains,maybe\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.csv, row 2, column 'sarcastic': 'maybe' is not one of '1', '0'"):
        read_rows("isarcasm:a_en_train", file)


@pytest.mark.parametrize(("part", "sarcastic"), [("a_en", 1941), ("a_ar", 1500)])
def test_test_texts_have_the_votes_of_five_people(part: str, sarcastic: int, real_data: str) -> None:
    """Those of repeated texts are added up. The votes for sarcastic are counted in the annotation file alone."""
    votes = [row["votes"] for row in read_rows(f"isarcasm:{part}")]
    assert {sum(counts.values()) % 5 for counts in votes} == {0}
    assert sum(counts["sarcastic"] * 5 / sum(counts.values()) for counts in votes) == pytest.approx(sarcastic)
    assert {row["votes"] for row in read_rows(f"isarcasm:{part}_train")} == {None}


def test_types_of_a_text_that_is_not_sarcastic_are_none_and_an_unlabelled_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    head = "tweet,sarcastic,rephrase,sarcasm,irony,satire,understatement,overstatement,rhetorical_question\n"
    file.write_text(f"{head}It rains,0,,,,,,,\nLovely,1,Bad,1,0,0,0,0,1\n", encoding="utf-8")
    assert [row["labels"] for row in read_rows("isarcasm:b_en_train", file)] == [
        [],
        ["sarcasm", "rhetorical_question"],
    ]
    file.write_text(f"{head}Lovely,1,Bad,1,,0,0,0,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="column 'irony'"):
        read_rows("isarcasm:b_en_train", file)


# ---- the human ceiling -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "metric", "value"),
    [("isarcasm_a_en", "f1", 0.6133), ("isarcasm_a_ar", "f1", 0.6652), ("isarcasm_c_ar", "acc", 187 / 200)],
)
def test_third_parties_score_as_the_annotation_files_say(
    task: str, metric: str, value: float, real_data: str, tmp_path: Path
) -> None:
    """F1 of the published majority votes against the published labels, counted from the annotation files alone."""
    run = figeval.run(task, "isarcasm_third_party", baselines=False, output_path=tmp_path / "run")
    scores = {score.metric: score.value for score in run.record.tasks[0].scores}
    assert scores[metric] == pytest.approx(value, abs=5e-5)


def test_a_pair_that_nobody_voted_on_has_no_answer(real_data: str, tmp_path: Path) -> None:
    """One English pair of C reads otherwise in the annotation file: 199 are scored, and one is NaN, not wrong."""
    run = figeval.run("isarcasm_c_en", "isarcasm_third_party", baselines=False, output_path=tmp_path / "run")
    (score,) = (score for score in run.record.tasks[0].scores if score.metric == "acc")
    assert score.n == 199
    assert score.value == pytest.approx(193 / 199)


def test_unknown_texts_and_labels(real_data: str, open_model: Callable[..., Any]) -> None:
    model = open_model("isarcasm_third_party")
    text = Harness().task_types.get("classification").Example(id="1", text="Nobody has ever posted this.", label=None)
    pair = ChoiceExample(id="1", query="q", options=("Nobody has posted this.", "Nor that."), gold=0)
    by_head = find_route("classification", "by_head")
    (unknown_text,) = predict(by_head, model, [text], PromptContext(str, labels=("sarcastic", "not_sarcastic")))
    (unknown_pair,) = predict(find_route("choice", "by_markers"), model, [pair])
    assert unknown_text.status == unknown_pair.status == "nan"
    with pytest.raises(CapabilityError, match="not for satire, irony"):
        predict(by_head, model, [text], PromptContext(str, labels=("satire", "irony")))
    with pytest.raises(ModelError, match="takes nothing after the colon"):
        open_model("isarcasm_third_party:large")
