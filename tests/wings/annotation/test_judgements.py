"""Judgements of people: read from the files of several tools, checked against a key, and what follows from them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import figeval
from figeval import AnnotationResults, DataError, OptionError
from tests.finished_runs import row, run, store, task

SCALES = {"fluency": list("12345"), "on topic": ["no", "yes"]}
Rows = Sequence[Sequence[str]]


def write_key(folder: Path, n: int = 4, scales: Mapping[str, list[str]] = SCALES, **changes: Any) -> Path:
    """Write a key of texts by anna and ben for n examples; item 2k is anna's, item 2k + 1 ben's."""
    items = {
        str(2 * k + index): {"author": author, "example": f"e{k}", "cluster": None}
        for k in range(n)
        for index, author in enumerate(("anna", "ben"))
    }
    fields = {"task": "t", "error_types": (), "authors": ("anna", "ben"), "not_written": {}, "seed": 0, "sheets": ()}
    criteria = [{"name": name, "labels": labels} for name, labels in scales.items()]
    folder.mkdir()
    (folder / "key.json").write_text(json.dumps({**fields, "items": items, "criteria": criteria, **changes}), "utf-8")
    return folder


def import_file(file: Path, content: str | Any, to: Path | None = None, **options: Any) -> AnnotationResults:
    """Import the judgements in a file with this content, by default into the folder `items` next to it."""
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return figeval.import_judgements(file, to=to or file.parent / "items", **options)


def triples(results: AnnotationResults) -> list[tuple[str, str, str, str]]:
    """Return the judgements as they were read: item, annotator, criterion and label."""
    return [
        (judgement.item, judgement.annotator, judgement.criterion, judgement.label)
        for judgement in results.batch.judgements
    ]


def stored_labels(folder: Path) -> list[str]:
    """Return the labels that are stored next to the key."""
    with (folder / "judgements.csv").open(encoding="utf-8-sig", newline="") as stream:
        return [line["label"] for line in csv.DictReader(stream)]


def import_rows(folder: Path, rows: Rows, **options: Any) -> AnnotationResults:
    """Import rows of item, annotator, criterion and label into the folder `items`."""
    stream = io.StringIO()
    csv.writer(stream).writerows([("item", "annotator", "criterion", "label"), *rows])
    return import_file(folder / "file.csv", stream.getvalue(), **options)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """The folder of a key for four examples."""
    return write_key(tmp_path / "items")


# ---- files -----------------------------------------------------------------------------------------------------------


def test_sheets_have_a_column_for_each_criterion(items: Path, tmp_path: Path) -> None:
    batch = import_file(tmp_path / "kim.csv", "item;text;fluency;on topic;comment\n1;a;4;yes;\n2;b;;no;?\n")
    assert triples(batch) == [
        ("1", "kim", "fluency", "4"),
        ("1", "kim", "on topic", "yes"),
        ("2", "kim", "comment", "?"),
        ("2", "kim", "on topic", "no"),
    ]
    assert batch.batch.skipped == 1


def test_long_csv(items: Path, tmp_path: Path) -> None:
    batch = import_file(
        tmp_path / "x.csv", "item,annotator,label,criterion,time\n1,kim,4,fluency,9\n1,lou,,fluency,10\n"
    )
    assert triples(batch) == [("1", "kim", "fluency", "4")]
    assert (batch.batch.judgements[0].time, batch.batch.skipped) == ("9", 1)
    write_key(tmp_path / "fluency", scales={"fluency": SCALES["fluency"]})
    table = "annotator\titem\tlabel\nkim\t1\t4\n"
    assert triples(import_file(tmp_path / "y.tsv", table, tmp_path / "fluency")) == [("1", "kim", "", "4")]


def test_cells_of_the_long_form_are_read_as_they_were_stored(tmp_path: Path) -> None:
    write_key(tmp_path / "items", scales={"fluency": ["-1", "1"], "=x": list("123")})
    rows = (("1", "@anna", "fluency", "-1"), ("2", "'kim'", "=x", "3"))
    assert triples(import_rows(tmp_path, rows)) == list(rows)
    stored = (tmp_path / "items" / "judgements.csv").read_text("utf-8-sig")
    assert "'=x" in stored and "'@anna" in stored, "no cell is a formula"
    assert triples(import_file(tmp_path / "again.csv", stored)) == list(rows)


def annotation(person: Any, *results: Any, **changes: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "completed_by": person,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
    } | changes


def test_label_studio(items: Path, tmp_path: Path) -> None:
    fluent = {"from_name": "fluency", "to_name": "t", "type": "rating", "value": {"rating": 4}}
    topic = {"from_name": "on_topic", "to_name": "t", "type": "choices", "value": {"choices": ["yes"]}}
    comment = {"from_name": "comment", "to_name": "t", "type": "textarea", "value": {"text": ["odd", "long"]}}
    region = {"from_name": "x", "to_name": "t", "value": {"start": 0, "end": 1, "text": "a", "labels": ["odd"]}}
    content = [
        {
            "id": 77,
            "data": {"item": "1", "text": "a"},
            "annotations": [
                annotation(3, fluent, topic, comment, region),
                annotation({"id": 4, "email": "lou@example.org"}, fluent, updated_at="2026-01-01T00:00:00Z"),
                annotation(5, fluent, was_cancelled=True),
                annotation(6, fluent, ground_truth=True),
            ],
        },
        {"id": 2, "data": {"text": "b"}, "annotations": []},
    ]
    batch = import_file(tmp_path / "export.json", content)
    assert triples(batch) == [
        ("1", "3", "fluency", "4"),
        ("1", "3", "on_topic", "yes"),
        ("1", "3", "comment", "odd; long"),
        ("1", "lou@example.org", "fluency", "4"),
    ]
    assert (batch.batch.skipped, batch.batch.ground_truth) == (1, 1)
    assert [coefficients.criterion for coefficients in batch.people.agreement] == ["fluency", "on topic"]


def test_potato(items: Path, tmp_path: Path) -> None:
    expected = [("1", "kim", "fluency", "4"), ("1", "kim", "on topic", "yes")]
    pairs = [[{"schema": "fluency", "name": "scale_4"}, "4"], [{"schema": "on topic", "name": "yes"}, True]]
    by_schema = {"fluency": {"scale_4": "4"}, "on topic": {"yes": "true", "no": False}}
    for labels in (pairs, by_schema):
        state = {"user_id": "kim", "instance_id_to_label_to_value": {"1": labels}}
        assert triples(import_file(tmp_path / "kim" / "user_state.json", state, items)) == expected
    line = json.dumps(
        {"id": "1", "displayed_text": "a\u2028b", "label_annotations": by_schema, "span_annotations": {}},
        ensure_ascii=False,
    )
    assert triples(import_file(tmp_path / "kim" / "annotated_instances.jsonl", line + "\n\n", items)) == expected
    table = "user,instance_id,displayed_text,fluency:::scale_4,on topic:::yes,on topic:::no\nkim,1,a,4,yes,\n"
    assert triples(import_file(tmp_path / "annotated_instances.csv", table)) == expected
    commented = json.dumps({"id": "1", "label_annotations": {"why": {"text_box": "odd"}, "fluency": {"4": "4"}}})
    with_comment = [("1", "kim", "comment", "odd"), *expected[:1]]
    assert triples(import_file(tmp_path / "kim" / "x.jsonl", commented, items)) == with_comment
    mixed = "user,instance_id,fluency:::1\nkim,1,\nkim,2,1\n"
    assert import_file(tmp_path / "x.csv", mixed).batch.skipped == 1


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
def test_bad_files_are_told_in_one_line(name: str, content: Any, message: str, items: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as raised:
        import_file(tmp_path / name, content)
    assert "\n" not in str(raised.value)


def test_a_file_is_given_once(items: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,annotator,label\n1,kim,4\n")
    with pytest.raises(DataError, match="is given twice"):
        figeval.import_judgements([tmp_path / "x.csv", tmp_path / ".." / tmp_path.name / "x.csv"], to=items)


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
def test_what_does_not_fit_the_key_is_refused(row: Sequence[str], message: str, items: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as raised:
        import_rows(tmp_path, [row])
    assert "\n" not in str(raised.value)


def test_a_second_answer_is_refused_unless_the_last_one_is_to_count(items: Path, tmp_path: Path) -> None:
    twice = [("1", "kim", "fluency", "4"), ("1", "kim", "Fluency", "2.0")]
    with pytest.raises(
        DataError, match=r"row 3: kim judged item '1' twice for 'fluency' \(first at .*file.csv, row 2\)"
    ):
        import_rows(tmp_path, twice)
    import_rows(tmp_path, twice, last=True)
    assert stored_labels(items) == ["2"]
    times = "4,2026-01-02\n1,kim,fluency,5,2026-01-03\n1,kim,fluency,1,2026-01-01"
    import_file(tmp_path / "x.csv", f"item,annotator,criterion,label,time\n1,kim,fluency,{times}\n", last=True)
    assert stored_labels(items) == ["5"]


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A run whose examples have been judged without a key."""
    return store(tmp_path / "run", run(task("t")), {"t": map(row, "abcde")})


def test_scales(examples: Path, tmp_path: Path) -> None:
    def judge_cells(scale: Any, *cells: str) -> dict[str, float | None]:
        lines = (f"{item},kim,{cell}" for item, cell in zip("abcde", cells, strict=False))
        (tmp_path / "x.csv").write_text("\n".join(["item,annotator,label", *lines]))
        scales = {"label": scale}
        (system,) = figeval.import_judgements(tmp_path / "x.csv", runs=examples, criteria=scales).people.systems
        return {**dict(system.majority), "mean": system.score.value}

    assert judge_cells("1-5", "1", "5", "5.0", " 2") == {"1": 1, "2": 1, "5": 2, "mean": 3.25}
    assert judge_cells("yes/no", "Y", "0", "x", "TRUE") == {"yes": 3, "no": 1, "mean": 0.75}
    assert judge_cells("bad / fair / good", "Good", "fair", "good") == {"fair": 1, "good": 2, "mean": None}
    with pytest.raises(DataError, match="'5' for 'label', which is not on the scale no, yes"):
        judge_cells("yes/no", "5")
    for wrong in ("", "5-1", "1-1", "yes", "a/a", "a//b", "0-500"):
        with pytest.raises(OptionError, match="is not a scale; write 1-5, yes/no"):
            judge_cells(wrong, "1")


# ---- results ---------------------------------------------------------------------------------------------------------


def people(folder: Path, *rows: Sequence[str], n: int = 4, **changes: Any) -> Any:
    """Return the results of judgements with a key for n examples."""
    while (folder / "items").exists():
        folder = folder / "next"
    folder.mkdir(exist_ok=True)
    write_key(folder / "items", n, **changes)
    return import_rows(folder, rows).people


def test_a_text_is_one_observation_and_has_a_majority(tmp_path: Path) -> None:
    judge_cells = people(
        tmp_path,
        *(("0", who, "fluency", label) for who, label in zip("abc", "445", strict=True)),
        *(("2", who, "fluency", label) for who, label in zip("ab", "12", strict=True)),
    )
    anna, ben = judge_cells.systems
    assert (anna.score.n, anna.score.value) == (2, pytest.approx((13 / 3 + 1.5) / 2))
    assert (dict(anna.majority), anna.undecided) == ({"4": 1}, 1)
    assert (ben.score.value, ben.score.interval.reason) == (None, "no judgements")
    assert (judge_cells.annotators, judge_cells.judgements, judge_cells.tests) == (("a", "b", "c"), 5, ())


def test_systems_are_compared_by_example_and_corrected_for_all_tests(tmp_path: Path) -> None:
    rows = [(str(item), "a", "fluency", "5" if item % 2 else "3") for item in range(20)]
    rows += [(str(item), "a", "on topic", "yes") for item in range(20)]
    fluency, topic = people(tmp_path, *rows, n=10).tests
    assert (fluency.a, fluency.b, fluency.test.difference, fluency.test.n) == ("anna", "ben", -2.0, 10)
    assert fluency.test.p == pytest.approx(2 / 2**10)
    assert fluency.p_holm == pytest.approx(4 / 2**10)
    assert (topic.test.difference, topic.test.p, topic.p_holm) == (0.0, 1.0, 1.0)


def test_systems_are_compared_within_annotators(tmp_path: Path) -> None:
    """The severe `a` judges only anna's texts and the lenient `b` only ben's; `c` judges both texts of two examples."""
    rows_of_both = [(str(item), "b" if item % 2 else "a", "fluency", "4" if item % 2 else "2") for item in range(20)]
    (test,) = people(tmp_path, *rows_of_both, n=10).tests
    assert (test.test.p, test.p_holm, test.test.difference, test.test.n) == (None, None, None, 0)
    assert test.test.note.startswith("no annotator judged both texts of an example, so a difference")
    (test,) = people(tmp_path, *rows_of_both, *((str(item), "c", "fluency", "3") for item in range(4)), n=10).tests
    assert (test.test.difference, test.test.n) == (0.0, 2), "the judgements of a and b do not count"
    assert "8 of 10 examples left out, because no annotator judged both of their texts" in test.test.note


def test_agreement_has_reasons_for_what_is_undefined(tmp_path: Path) -> None:
    (alone,) = people(tmp_path, ("0", "a", "fluency", "4")).agreement
    assert {score.interval.reason for score in alone.scores} == {"only one rater"}
    (coefficients,) = people(tmp_path, ("0", "a", "fluency", "4"), ("1", "b", "fluency", "4")).agreement
    assert coefficients.scores[1].interval.reason == "a and b rated no item in common"
    (same,) = people(tmp_path, *((str(n), who, "on topic", "yes") for n in range(4) for who in "ab")).agreement
    values = {score.metric: score.value for score in same.scores}
    assert values == {
        "percent_agreement": 1.0,
        "cohen_kappa": None,
        "fleiss_kappa": None,
        "krippendorff_alpha": None,
        "gwet_ac1": 1.0,
    }


def test_people_who_answer_questions_are_right_or_wrong(tmp_path: Path) -> None:
    questions = {str(n): {"author": "people", "example": f"e{n}", "cluster": None} for n in range(2)}
    options = {"items": questions, "authors": ("people",), "scales": {"answer": list("ABC")}}
    options |= {"gold": {"0": "B", "1": "C"}, "checks": {"9": {"answer": "A"}}}
    of_kim = [("0", "kim", "", "b"), ("1", "kim", "", "A"), ("9", "kim", "", "A")]
    judge_cells = people(tmp_path, *of_kim, ("0", "lou", "", "B"), ("9", "lou", "", "B"), **options)
    assert judge_cells.systems[0].score.value == 0.5
    assert judge_cells.checks == {"kim": (1, 1, 1), "lou": (0, 1, 1)}
    assert judge_cells.agreement[0].scale == "nominal"


def test_metrics_are_correlated_with_the_mean_judgement(tmp_path: Path) -> None:
    write_key(tmp_path / "items", 5)
    rows = [(str(2 * k), who, "fluency", str(k + 1)) for k in range(5) for who in "ab"]
    answers = [row(f"e{k}", metrics={"bleu": float(k**2), "flat": 1.0}) for k in range(5)]
    anna = store(tmp_path / "run", run(task("t"), model={"name": "anna", "backend": "x"}), {"t": answers})
    bleu, flat = import_rows(tmp_path, rows, runs=anna).people.correlations
    assert [round(score.value or 0, 3) for score in bleu.scores] == [1.0, 1.0, 0.959]
    assert bleu.scores[0].interval.reason == "fewer than 40 rows"
    assert flat.scores[0].interval.reason == "all values of the metric are the same"


def measure_rows(folder: Path, rows: Rows, **changes: Any) -> Any:
    """Return the numbers that tables get from judgements."""
    write_key(folder / "items", **changes)
    import_rows(folder, rows)
    return json.loads((folder / "items" / "measured.json").read_text("utf-8"))


def test_a_system_with_a_long_name_has_numbers_of_systems(tmp_path: Path) -> None:
    """Systems may be called by the path of a model, which has any length."""
    name = "models/" + "x" * 500
    text = {"0": {"author": name, "example": "e0", "cluster": None}}
    numbers = measure_rows(tmp_path, [("0", "kim", "fluency", "4")], authors=(name,), items=text)["numbers"]
    assert {number["model"] for number in numbers} == {name}


def test_tables_get_the_number_of_their_rule(tmp_path: Path) -> None:
    """Two of three people say yes to every text: the mean is 2/3, and the majority says yes always."""
    answers = {"kim": "yes", "lou": "yes", "max": "no"}
    rows = [(str(2 * k), who, "fluent", label) for k in range(3) for who, label in answers.items()]
    numbers = measure_rows(tmp_path, rows, n=3, scales={"fluent": ["no", "yes"]})["numbers"]
    assert {(number["metric"], number.get("rule")): number["value"] for number in numbers} == {
        ("fluent", "mean"): pytest.approx(2 / 3),
        ("fluent", "majority"): 1.0,
        ("fluent_kappa", None): pytest.approx(-0.5),
    }


def test_what_tables_do_not_get_is_said(tmp_path: Path) -> None:
    rows = [("0", "kim", "fluent", "yes"), ("0", "lou", "fluent", "no"), ("2", "kim", "fluent", "yes")]
    source = measure_rows(tmp_path, rows, n=2, scales={"fluent": ["no", "yes"]})["source"]
    assert "no majority for 1 text of anna" in source


# ---- statistics of papers --------------------------------------------------------------------------------------------

VOTES = {"yes": ("yes", "yes", "no"), "no": ("no", "yes", "no")}  # of three people


def votes(wins: int, losses: int, n: int) -> Rows:
    """Majorities of three for n texts of anna and of ben: anna alone has `wins`, ben alone `losses`."""
    of_anna, of_ben = ["yes"] * wins + ["no"] * losses, ["no"] * wins + ["yes"] * losses
    labels = [(str(2 * k + index), label) for k in range(n) for index, label in enumerate(_pair(of_anna, of_ben, k))]
    return [
        (item, who, "fluent", vote) for item, label in labels for who, vote in zip("abc", VOTES[label], strict=True)
    ]


def _pair(of_anna: Sequence[str], of_ben: Sequence[str], k: int) -> tuple[str, str]:
    return (of_anna[k], of_ben[k]) if k < len(of_anna) else ("yes", "yes")


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(15, 0, 6.1e-5), (36, 0, 2.91e-11), (53, 2, 8.55e-14), (14, 4, 0.03)]
)
def test_sign_tests_of_majorities_are_those_of_a_printed_table(
    wins: int, losses: int, p: float, tmp_path: Path
) -> None:
    """Table 17 of STORAL: p-values of 100 texts with the differences of the shares in Table 8."""
    scales = {"fluent": ["no", "yes"]}
    (test,) = people(tmp_path, *votes(wins, losses, 100), n=100, scales=scales).tests
    assert (test.sign.wins, test.sign.ties, test.sign.losses) == (wins, 100 - wins - losses, losses)
    assert test.sign.p == pytest.approx(p, rel=0.05)
    numbers = json.loads((tmp_path / "items" / "measured.json").read_text("utf-8"))["numbers"]
    (number,) = [number for number in numbers if number["metric"] == "fluent_sign_p"]
    assert (number["model"], number["value"]) == ("anna vs. ben", test.sign.p)


def test_the_mean_and_the_majority_are_both_there(tmp_path: Path) -> None:
    anna, _ = people(tmp_path, *votes(0, 0, 4), scales={"fluent": ["no", "yes"]}).systems
    assert (anna.score.value, anna.by_majority.value, anna.by_majority.n) == (pytest.approx(2 / 3), 1.0, 4)


def test_signs_of_scales_are_those_of_means_and_t_is_that_of_independent_examples(tmp_path: Path) -> None:
    differences = [1, 2, -1, 0, 3, 1, 2, 2]
    rows = [
        (str(2 * k), "a", "fluency", str(3 + max(0, d) // 2 + max(0, d) % 2 - (d < 0)))
        for k, d in enumerate(differences)
    ]
    rows += [(str(2 * k + 1), "a", "fluency", str(3 - max(0, d) // 2)) for k, d in enumerate(differences)]
    (test,) = people(tmp_path, *rows, n=8).tests
    assert (test.sign.wins, test.sign.ties, test.sign.losses) == (6, 1, 1)
    assert test.p_t == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)


def test_agreement_at_a_threshold_stands_beside_the_others(tmp_path: Path) -> None:
    write_key(tmp_path / "items")
    pairs = ["34", "45", "21", "23"]  # of two people: good, good, not good, no agreement on it
    rows = [
        (str(2 * k), who, "fluency", label)
        for k, pair in enumerate(pairs)
        for who, label in zip("ab", pair, strict=True)
    ]
    results = import_rows(tmp_path, rows, threshold={"fluency": 3})
    agreements = {row.criterion: row.scores[0].value for row in results.people.agreement}
    assert agreements == {"fluency": 0.0, "fluency ≥ 3": 0.75}
    assert [system.score.value for system in results.people.systems if system.system == "anna"] == [
        pytest.approx(3.0),
        pytest.approx(0.625),
    ]
    measured = json.loads((tmp_path / "items" / "measured.json").read_text("utf-8"))
    agreements = [row["value"] for row in measured["numbers"] if row["metric"] == "fluency_agreement"]
    assert agreements == [0.75] and "fluency ≥ 3" in measured["source"]
    for threshold, message in (
        ({"fluenc": 3}, "did you mean"),
        ({"fluency": 1}, "2, 3, 4, 5"),
        ({"on topic": 1}, "no scale"),
    ):
        with pytest.raises(OptionError, match=message):
            import_rows(tmp_path, rows, threshold=threshold)


def test_systems_of_other_items_are_independent_samples(tmp_path: Path) -> None:
    def compare() -> AnnotationResults:
        file, folder = tmp_path / "items.csv", tmp_path / "items"
        return figeval.import_judgements(file, to=folder, other_items=tmp_path / "others")

    values = {"items": [5, 4, 4, 5, 3], "others": [2, 3, 1, 3, 4, 2]}
    for folder, labels in values.items():
        write_key(tmp_path / folder, len(labels), task=f"task_{folder}")
        rows = [(str(2 * k), "a", "fluency", str(label)) for k, label in enumerate(labels)]
        file = tmp_path / f"{folder}.csv"
        file.write_text("\n".join(map(",".join, [("item", "annotator", "criterion", "label"), *rows])), "utf-8")
        if folder == "others":
            with pytest.raises(DataError, match="import them first"):
                figeval.import_judgements(
                    tmp_path / "items.csv", to=tmp_path / "items", other_items=tmp_path / "others"
                )
        figeval.import_judgements(file, to=tmp_path / folder)
    results = compare()
    (difference,) = results.people.samples
    expected = stats.ttest_ind(values["items"], values["others"], equal_var=False)
    assert (difference.a, difference.b) == ("anna of task_items", "anna of task_others")
    assert (difference.p, difference.n_a, difference.n_b) == (pytest.approx(expected.pvalue), 5, 6)
    assert results.samples["difference"].tolist() == [pytest.approx(4.2 - 2.5)]
    key = write_key(tmp_path / "topics", scales={"on topic": ["no", "yes"], "taste": ["no", "yes"]})
    import_file(tmp_path / "topics.csv", "item,annotator,criterion,label\n0,a,taste,yes\n", to=key)
    with pytest.raises(OptionError, match="its criteria"):
        figeval.import_judgements(tmp_path / "items.csv", to=tmp_path / "items", other_items=key)


# ---- remarks ---------------------------------------------------------------------------------------------------------


def questions(folder: Path, n: int = 4, **fields: Any) -> Path:
    """The folder of a key of questions, of which B is always right."""
    items = {str(k): {"author": "people", "example": f"e{k}", "cluster": None} for k in range(n)}
    return write_key(
        folder,
        items=items,
        authors=("people",),
        scales={"answer": list("ABC")},
        gold=dict.fromkeys(items, "B"),
        **fields,
    )


def test_wrong_answers_are_coded_and_counted_by_category(tmp_path: Path) -> None:
    questions(tmp_path / "items")
    answers = [("kim", k, "A" if k < 3 else "B") for k in range(4)] + [("lou", k, "B") for k in range(4)]
    rows = [(str(k), who, "answer", label) for who, k, label in answers]
    rows.append(("0", "kim", "comment", "A seems as good."))
    results = import_rows(tmp_path, rows)
    assert (len(results.people.comments), results.people.categories) == (1, ())
    errors = tmp_path / "items" / "errors.csv"
    with errors.open(encoding="utf-8-sig", newline="") as stream:
        coded = list(csv.DictReader(stream))
    columns = ("item", "annotator", "answer", "right")
    assert [tuple(map(wrong.get, columns)) for wrong in coded] == [(str(k), "kim", "A", "B") for k in range(3)]
    assert coded[0]["comment"] == "A seems as good."
    for wrong, category in zip(coded, ("close", "Close", ""), strict=True):
        wrong["label"] = category
    with errors.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(coded[0]))
        writer.writeheader()
        writer.writerows(coded)
    for judged in (rows, rows[:4]):
        results = import_rows(tmp_path, judged)
        counts = [(count.category, count.count, count.total) for count in results.people.categories]
        assert counts == [("close", 2, 3), ("(none)", 1, 3)], "codes survive each import"
        assert "Wrong answers by category" in str(results)


def test_categories_of_a_sheet_are_those_of_its_key(tmp_path: Path) -> None:
    write_key(tmp_path / "items", categories=("unrelated", "too short"))
    sheet = 'item,fluency,category,comment\n0,4,Too short,"=1+1\x1b[31m\nodd"\n1,2,,\n2,3,unrelated,\n'
    results = import_file(tmp_path / "kim.csv", sheet)
    counts = {(row.category, row.system): (row.count, row.total) for row in results.people.categories}
    assert counts == {("too short", "anna"): (1, 2), ("unrelated", "anna"): (1, 2)}
    (comment,) = results.people.comments
    assert (comment.annotator, comment.system, comment.text) == ("kim", "anna", "=1+1\nodd")
    assert (results.people.judgements, results.batch.skipped) == (3, 0), "an empty remark is no empty answer"
    with pytest.raises(DataError, match="'to short' is no category; did you mean 'too short'"):
        import_file(tmp_path / "lou.csv", "item,fluency,category\n0,4,to short\n")


def test_categories_of_sheets_and_of_wrong_answers_agree_at_the_next_import(tmp_path: Path) -> None:
    folder = questions(tmp_path / "items", sheets=("sheet_1.csv",), categories=("close", "far"))
    (folder / "sheet_1.csv").write_text("item,answer,category\n0,A,Close\n1,C,\n2,B,\n3,B,\n", "utf-8")
    for _ in range(2):  # the second one also reads errors.csv
        results = figeval.import_judgements(to=folder)
        assert {row.category: row.count for row in results.people.categories} == {"close": 1, "(none)": 1}
    errors = folder / "errors.csv"
    errors.write_text(errors.read_text("utf-8-sig").replace("category,close", "category,far"), "utf-8")
    with pytest.raises(DataError, match="--last"):
        figeval.import_judgements(to=folder)
    results = figeval.import_judgements(to=folder, last=True)
    assert {row.category: row.count for row in results.people.categories} == {"far": 1, "(none)": 1}


def test_an_input_that_is_called_category_is_no_remark(items: Path, tmp_path: Path) -> None:
    assert import_file(tmp_path / "kim.csv", "item,category,fluency\n0,animals,4\n").people.categories == ()
