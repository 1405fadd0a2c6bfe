"""JudgementBatch of people: read from the files of several tools, checked against a key, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError
from figeval.spec.criteria import Criterion, DescribedScale, criteria_of, criterion
from figeval.wings.annotation.human_results import HumanResults, human_results, numbers_of_systems
from figeval.wings.annotation.items import Item, Key, csv_bytes
from figeval.wings.annotation.judgements import check_judgements
from figeval.wings.annotation.tool_files import Judgement, JudgementBatch, read_judgements

SCALES = {"fluency": "1-5", "on topic": "yes/no"}


def key(n: int = 4, **changes: Any) -> Key:
    """A key of texts by anna and ben for n examples; item 2k is anna's, item 2k + 1 ben's."""
    items = {
        str(2 * k + index): Item(author=author, example=f"e{k}", cluster=None)
        for k in range(n)
        for index, author in enumerate(("anna", "ben"))
    }
    fields = {"task": "t", "error_types": (), "authors": ("anna", "ben"), "not_written": {}, "seed": 0, "sheets": ()}
    return Key(**{**fields, "items": items, "criteria": criteria_of(SCALES), **changes})


def read_judgement_file(file: Path, content: str | Any) -> JudgementBatch:
    """The judgements in a file with this content."""
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_judgements([file], list(SCALES))


def triples(batch: JudgementBatch) -> list[tuple[str, str, str, str]]:
    return [
        (judgement.item, judgement.annotator, judgement.criterion, judgement.label) for judgement in batch.judgements
    ]


def of(*rows: Sequence[str]) -> JudgementBatch:
    """JudgementBatch from (item, annotator, criterion, label)."""
    return JudgementBatch(
        tuple(Judgement(*row, "", f"file, row {n}") for n, row in enumerate(rows, 2)),
        0,
        0,
    )


def results(*rows: Sequence[str], **changes: Any) -> HumanResults:
    answer_key = key(**changes)
    return human_results(answer_key, check_judgements(answer_key, of(*rows)), {})


# ---- files -----------------------------------------------------------------------------------------------------------


def test_sheets_have_a_column_for_each_criterion(tmp_path: Path) -> None:
    batch = read_judgement_file(tmp_path / "kim.csv", "item;text;fluency;on topic;comment\n1;a;4;yes;\n2;b;;no;?\n")
    assert triples(batch) == [
        ("1", "kim", "fluency", "4"),
        ("1", "kim", "on topic", "yes"),
        ("2", "kim", "on topic", "no"),
    ]
    assert batch.skipped == 1


def test_long_csv(tmp_path: Path) -> None:
    batch = read_judgement_file(
        tmp_path / "x.csv", "item,annotator,label,criterion,time\n1,kim,4,fluency,9\n1,lou,,fluency,10\n"
    )
    assert triples(batch) == [("1", "kim", "fluency", "4")]
    assert (batch.judgements[0].time, batch.skipped) == ("9", 1)
    assert triples(read_judgement_file(tmp_path / "y.tsv", "annotator\titem\tlabel\nkim\t1\t4\n")) == [
        ("1", "kim", "", "4")
    ]


def test_cells_of_the_long_form_are_read_as_they_were_stored(tmp_path: Path) -> None:
    rows = (("1", "@anna", "fluency", "-1"), ("2", "'kim'", "=x", "3"))
    (tmp_path / "x.csv").write_bytes(csv_bytes([("item", "annotator", "criterion", "label"), *rows]))
    assert triples(read_judgements([tmp_path / "x.csv"], [])) == list(rows)


def annotation(person: Any, *results: Any, **changes: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "completed_by": person,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
    } | changes


def test_label_studio(tmp_path: Path) -> None:
    fluent = {"from_name": "fluency", "to_name": "t", "type": "rating", "value": {"rating": 4}}
    topic = {"from_name": "on_topic", "to_name": "t", "type": "choices", "value": {"choices": ["yes"]}}
    content = [
        {
            "id": 77,
            "data": {"item": "1", "text": "a"},
            "annotations": [
                annotation(3, fluent, topic),
                annotation({"id": 4, "email": "lou@example.org"}, fluent, updated_at="2026-01-01T00:00:00Z"),
                annotation(5, fluent, was_cancelled=True),
                annotation(6, fluent, ground_truth=True),
            ],
        },
        {"id": 2, "data": {"text": "b"}, "annotations": []},
    ]
    batch = read_judgement_file(tmp_path / "export.json", content)
    assert triples(batch) == [
        ("1", "3", "fluency", "4"),
        ("1", "3", "on_topic", "yes"),
        ("1", "lou@example.org", "fluency", "4"),
    ]
    assert (batch.skipped, batch.ground_truth) == (1, 1)
    assert [judgement.criterion for judgement in check_judgements(key(), batch)] == ["fluency", "on topic", "fluency"]


def test_potato(tmp_path: Path) -> None:
    expected = [("1", "kim", "fluency", "4"), ("1", "kim", "on topic", "yes")]
    pairs = [[{"schema": "fluency", "name": "scale_4"}, "4"], [{"schema": "on topic", "name": "yes"}, True]]
    by_schema = {"fluency": {"scale_4": "4"}, "on topic": {"yes": "true", "no": False}}
    for labels in (pairs, by_schema):
        state = {"user_id": "kim", "instance_id_to_label_to_value": {"1": labels}}
        assert triples(read_judgement_file(tmp_path / "kim" / "user_state.json", state)) == expected
    line = json.dumps(
        {"id": "1", "displayed_text": "a\u2028b", "label_annotations": by_schema, "span_annotations": {}},
        ensure_ascii=False,
    )
    assert triples(read_judgement_file(tmp_path / "kim" / "annotated_instances.jsonl", line + "\n\n")) == expected
    table = "user,instance_id,displayed_text,fluency:::scale_4,on topic:::yes,on topic:::no\nkim,1,a,4,yes,\n"
    assert triples(read_judgement_file(tmp_path / "annotated_instances.csv", table)) == expected
    commented = json.dumps({"id": "1", "label_annotations": {"why": {"text_box": "odd"}, "fluency": {"4": "4"}}})
    assert triples(read_judgement_file(tmp_path / "kim" / "x.jsonl", commented)) == expected[:1]
    assert read_judgement_file(tmp_path / "x.csv", "user,instance_id,fluency:::1\nkim,1,\n").skipped == 1


BAD_FILES = [
    ("x.csv", "item,annotator,label\n1,,4", r"row 2: the cell in column 'annotator' is empty"),
    ("x.csv", "item,annotator,label\n1,kim,4,5", r"row 2: it has 4 cells, but the first row has 3"),
    ("x.csv", "item,text\n1,a", r"the first row has 'item', but lacks a column for a criterion \(fluency, on topic\)"),
    ("x.csv", "who,what\n1,a", r"the first row is none that can be read; give sheets, a CSV"),
    ("x.csv", "", r"the first row is none that can be read"),
    ("x.json", "{", r"x.json:1: not valid JSON"),
    ("x.json", [{"id": 1, "fluency": 4}], r"x.json, task 0: .*annotations.*; export as JSON, not as JSON-MIN"),
    ("x.json", [{"annotations": [annotation("", {"value": {"rating": 1}})]}], r"`completed_by` is missing"),
    (
        "x.json",
        [{"annotations": [annotation(1, {"from_name": "fluency", "value": {"choices": ["1", "2"]}})]}],
        r"'fluency' has several choices; make it a single choice",
    ),
    ("x.json", 5, r"x.json, task 0: .*; export as JSON, not as JSON-MIN"),
    ("x.json", [{"annotations": ["kim"]}], r"x.json, task 0: .*annotations.*; export as JSON, not as JSON-MIN"),
    ("x.json", [{"annotations": [{"result": [5]}]}], r"x.json, task 0: .*; export as JSON, not as JSON-MIN"),
    ("x.jsonl", "5", r"x.jsonl:1: there is no 'label_annotations'"),
    ("x.jsonl", '{"id": 1}', r"x.jsonl:1: there is no 'label_annotations'"),
    ("x.jsonl", "x", r"x.jsonl:1: not valid JSON"),
    (
        "x.jsonl",
        '{"id": 1, "label_annotations": {"fluency": {"1": 1, "2": 1}}}',
        r"several labels of 'fluency' \(1, 2\)",
    ),
    ("user_state.json", {"instance_id_to_label_to_value": {"1": ["x"]}}, r"a label is not a pair of schema and value"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[message for _, _, message in BAD_FILES])
def test_bad_files_are_told_in_one_line(name: str, content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as raised:
        read_judgement_file(tmp_path / name, content)
    assert "\n" not in str(raised.value)


def test_a_file_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,annotator,label\n1,kim,4\n")
    with pytest.raises(DataError, match="is given twice"):
        read_judgements([tmp_path / "x.csv", tmp_path / ".." / tmp_path.name / "x.csv"], [])


# ---- against the key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("99", "kim", "fluency", "4"), r"row 2: item '99' is unknown; give the key that belongs to these judgements"),
        (("1", "kim", "fluency", "6"), r"row 2: kim gave '6' for 'fluency', which is not on the scale 1, 2, 3, 4, 5"),
        (("1", "kim", "on topic", "maybe"), r"'maybe' for 'on topic', which is not on the scale no, yes"),
        (("1", "kim", "fluenzy", "4"), r"criterion 'fluenzy' is unknown; did you mean 'fluency'\?; the criteria are"),
        (("1", "kim", "", "4"), r"there is no criterion, but several are known; the criteria are fluency, on topic"),
    ],
)
def test_what_does_not_fit_the_key_is_refused(row: Sequence[str], message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        check_judgements(key(), of(row))
    assert "\n" not in str(raised.value)


def test_a_second_answer_is_refused_unless_the_last_one_is_to_count() -> None:
    twice = of(("1", "kim", "fluency", "4"), ("1", "kim", "Fluency", "2.0"))
    with pytest.raises(DataError, match=r"row 3: kim judged item '1' twice for 'fluency' \(first at file, row 2\)"):
        check_judgements(key(), twice)
    assert [judgement.label for judgement in check_judgements(key(), twice, last=True)] == ["2"]
    times = [("9", "2026-01-02"), ("5", "2026-01-03"), ("1", "2026-01-01")]
    timed = [Judgement("1", "kim", "fluency", label.replace("9", "4"), time, "") for label, time in times]
    assert [
        judgement.label for judgement in check_judgements(key(), JudgementBatch(tuple(timed), 0, 0), last=True)
    ] == ["5"]


def test_scales() -> None:
    assert criterion("a", "1-5").labels == ("1", "2", "3", "4", "5")
    assert criterion("a", "Yes/no".lower()).labels == ("no", "yes")
    assert [criterion("a", "yes/no").read(cell) for cell in ("Y", "0", "x", "TRUE", "5")] == [
        "yes",
        "no",
        "yes",
        "yes",
        None,
    ]
    fair = criterion("a", "bad / fair / good")
    assert (fair.labels, fair.is_ordinal, fair.read("Good"), fair.value("good")) == (
        ("bad", "fair", "good"),
        False,
        "good",
        None,
    )
    assert criterion("a", DescribedScale(scale="1-5", description=" 1: bad.\x1b[31m ")) == Criterion(
        name="a", labels=("1", "2", "3", "4", "5"), description="1: bad."
    )
    for wrong in ("", "5-1", "1-1", "yes", "a/a", "a//b", "0-500"):
        with pytest.raises(ValueError, match="is not a scale; write 1-5, yes/no"):
            criterion("a", wrong)


# ---- results ---------------------------------------------------------------------------------------------------------


def test_a_text_is_one_observation_and_has_a_majority() -> None:
    judged = results(
        *(("0", who, "fluency", label) for who, label in zip("abc", "445", strict=True)),
        *(("2", who, "fluency", label) for who, label in zip("ab", "12", strict=True)),
    )
    anna, ben = judged.systems
    assert (anna.score.n, anna.score.value) == (2, pytest.approx((13 / 3 + 1.5) / 2))
    assert (dict(anna.majority), anna.undecided) == ({"4": 1}, 1)
    assert (ben.score.value, ben.score.interval.reason) == (None, "no judgements")
    assert (judged.annotators, judged.judgements, judged.tests) == (("a", "b", "c"), 5, ())


def test_systems_are_compared_by_example_and_corrected_for_all_tests() -> None:
    rows = [(str(item), "a", "fluency", "5" if item % 2 else "3") for item in range(20)]
    rows += [(str(item), "a", "on topic", "yes") for item in range(20)]
    fluency, topic = results(*rows, n=10).tests
    assert (fluency.a, fluency.b, fluency.test.difference, fluency.test.n) == ("anna", "ben", -2.0, 10)
    assert fluency.test.p == pytest.approx(2 / 2**10)
    assert fluency.p_holm == pytest.approx(4 / 2**10)
    assert (topic.test.difference, topic.test.p, topic.p_holm) == (0.0, 1.0, 1.0)


def test_systems_are_compared_within_annotators() -> None:
    """The severe `a` judges only anna's texts and the lenient `b` only ben's; `c` judges both texts of two examples."""
    rows_of_both = [(str(item), "b" if item % 2 else "a", "fluency", "4" if item % 2 else "2") for item in range(20)]
    (test,) = results(*rows_of_both, n=10).tests
    assert (test.test.p, test.p_holm, test.test.difference, test.test.n) == (None, None, None, 0)
    assert test.test.note.startswith("no annotator judged both texts of an example, so a difference")
    (test,) = results(*rows_of_both, *((str(item), "c", "fluency", "3") for item in range(4)), n=10).tests
    assert (test.test.difference, test.test.n) == (0.0, 2), "the judgements of a and b do not count"
    assert "8 of 10 examples left out, because no annotator judged both of their texts" in test.test.note


def test_agreement_has_reasons_for_what_is_undefined() -> None:
    (alone,) = results(("0", "a", "fluency", "4")).agreement
    assert {score.interval.reason for score in alone.scores} == {"only one rater"}
    (coefficients,) = results(("0", "a", "fluency", "4"), ("1", "b", "fluency", "4")).agreement
    assert coefficients.scores[1].interval.reason == "a and b rated no item in common"
    (same,) = results(*((str(n), who, "on topic", "yes") for n in range(4) for who in "ab")).agreement
    values = {score.metric: score.value for score in same.scores}
    assert values == {
        "percent_agreement": 1.0,
        "cohen_kappa": None,
        "fleiss_kappa": None,
        "krippendorff_alpha": None,
        "gwet_ac1": 1.0,
    }


def test_people_who_answer_questions_are_right_or_wrong() -> None:
    answers = Criterion(name="answer", labels=("A", "B", "C"))
    items = {str(n): Item(author="people", example=f"e{n}", cluster=None) for n in range(2)}
    answer_key = key(
        items=items, authors=("people",), criteria=(answers,), gold={"0": "B", "1": "C"}, checks={"9": {"answer": "A"}}
    )
    batch = of(
        ("0", "kim", "", "b"),
        ("1", "kim", "", "A"),
        ("0", "lou", "", "B"),
        ("9", "lou", "", "B"),
        ("9", "kim", "", "A"),
    )
    judged = human_results(answer_key, check_judgements(answer_key, batch), {})
    assert judged.systems[0].score.value == 0.5
    assert judged.checks == {"kim": (1, 1, 1), "lou": (0, 1, 1)}
    assert judged.agreement[0].scale == "nominal"


def test_metrics_are_correlated_with_the_mean_judgement() -> None:
    answer_key = key(n=5)
    rows = [(str(2 * k), who, "fluency", str(k + 1)) for k in range(5) for who in "ab"]
    values = {f"e{k}": (float(k**2), None) for k in range(5)}
    judged = human_results(
        answer_key,
        check_judgements(answer_key, of(*rows)),
        {"anna": {"bleu": values, "flat": dict.fromkeys(values, (1.0, None))}},
    )
    bleu, flat = judged.correlations
    assert [round(score.value or 0, 3) for score in bleu.scores] == [1.0, 1.0, 0.959]
    assert bleu.scores[0].interval.reason == "fewer than 40 rows"
    assert flat.scores[0].interval.reason == "all values of the metric are the same"


def test_a_system_with_a_long_name_has_numbers_of_systems() -> None:
    """Systems may be called by the path of a model, which has any length."""
    name = "models/" + "x" * 500
    answer_key = key(1, authors=(name,), items={"0": Item(author=name, example="e0", cluster=None)})
    table_numbers = numbers_of_systems(answer_key, of(("0", "kim", "fluency", "4")).judgements)
    assert {number.model for number in table_numbers.numbers} == {name}


def test_tables_get_the_number_of_their_rule() -> None:
    """Two of three people say yes to every text: the mean is 2/3, and the majority says yes always."""
    answer_key = key(n=3, criteria=criteria_of({"fluent": "yes/no"}), authors=("anna",))
    answers = {"kim": "yes", "lou": "yes", "max": "no"}
    numbers = [str(item) for item, about in answer_key.items.items() if about.author == "anna"]
    table_numbers = numbers_of_systems(
        answer_key, of(*((item, who, "fluent", label) for item in numbers for who, label in answers.items())).judgements
    )
    values = {(number.metric, number.rule): number.value for number in table_numbers.numbers}
    assert values == {
        ("fluent", "mean"): pytest.approx(2 / 3),
        ("fluent", "majority"): 1.0,
        ("fluent_kappa", None): pytest.approx(-0.5),
    }


def test_what_tables_do_not_get_is_said() -> None:
    answer_key = key(n=2, criteria=criteria_of({"fluent": "yes/no"}), authors=("anna",))
    first, second = (item for item, about in answer_key.items.items() if about.author == "anna")
    rows = [(first, "kim", "yes"), (first, "lou", "no"), (second, "kim", "yes")]
    table_numbers = numbers_of_systems(
        answer_key, of(*((item, who, "fluent", label) for item, who, label in rows)).judgements
    )
    assert "1 text of anna without a majority left out where it counts" in table_numbers.source
