"""Rows → examples of spans, joint, generation and similarity, and every mistake named by row and field."""

from __future__ import annotations

import pytest

from figeval import (
    DataError,
    GenerationExample,
    JointExample,
    RankingExample,
    SimilarityExample,
    Span,
    SpanExample,
    TaskError,
)
from tests.typed import examples_of, fingerprint

FIELDS = {
    "spans": {"id": "row.id", "text": "row.text", "given": "row.part", "known": "row.saying", "gold": "row.words"},
    "joint": {
        "id": "row.id",
        "query": "row.text",
        "candidates": "row.sayings",
        "relevant": "row.right",
        "parts": "row.parts",
    },
    "generation": {
        "id": "row.id",
        "inputs": {"saying": "row.saying", "keywords": "row.words"},
        "references": "row.refs",
    },
    "similarity": {"id": "row.id", "text": "row.text", "category": "row.saying", "anchors": "row.sayings"},
}
SPANS = {"id": "1", "text": "the tea, the tea", "part": "a cup", "saying": "a cup of it", "words": "the tea"}
PART = {"id": "1a", "given": "first", "known": "the first", "gold": "sea"}
JOINT = {"id": "1", "text": "by the sea", "sayings": ["x", "y"], "right": 1, "parts": [PART, {**PART, "id": "1b"}]}
ROW = {"id": "1", "saying": "less is more", "words": ["go", "stay"], "refs": ["We stay."]}


def build(task_type, row, **fields):
    (example,) = examples_of([row], name="t", type=task_type, fields={**FIELDS[task_type], **fields})
    return example


# ---- spans -----------------------------------------------------------------------------------------------------------


def test_words_that_occur_twice_mean_their_first_place():
    example = build("spans", SPANS)
    assert example == SpanExample(
        id="1", text="the tea, the tea", given="a cup", known="a cup of it", gold=Span(0, 7), weight=1.0
    )
    assert example.answer == "the tea"


def test_a_span_by_its_characters():
    example = build("spans", {**SPANS, "words": [9, 16]})
    assert (example.gold, example.answer) == (Span(9, 16), "the tea")


def test_a_hidden_span_has_no_answer():
    example = build("spans", {**SPANS, "words": None})
    assert (example.gold, example.answer) == (None, None)


@pytest.mark.parametrize("words", ["", []])
def test_that_no_span_is_right_is_not_hidden(words):
    example = build("spans", {**SPANS, "words": words})
    assert (example.gold, example.answer, example.hidden) == (Span(0, 0), "", False)


def test_rows_may_share_a_weight():
    assert build("spans", SPANS, weight="1 / 4").weight == 0.25


def test_spans_have_no_reference():
    with pytest.raises(TaskError, match="a spans task has no field 'reference'"):
        build("spans", SPANS, reference="row.text")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("coffee", "field 'gold': 'coffee' does not occur in the text"),
        (" ", "field 'gold': ' ' is blank; write [] if no span is right"),
        ([9, 17], "is not a span [start, end] of a text of 16 characters"),
        ([3, 3], "is not a span [start, end] of a text of 16 characters"),
        ([-1, 3], "is not a span [start, end] of a text of 16 characters"),
        (7, "is not a span [start, end] of a text of 16 characters"),
    ],
)
def test_a_wrong_span_is_named(words, complaint):
    with pytest.raises(DataError, match=r"t: row 1 of 'rows:test', ") as caught:
        build("spans", {**SPANS, "words": words})
    assert complaint in str(caught.value)


@pytest.mark.parametrize("weight", ["0", "-1", "'much'", "true"])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(DataError, match="is not a positive number"):
        build("spans", SPANS, weight=weight)


# ---- joint -----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_joint_example_share_its_weight():
    example = build("joint", JOINT)
    assert isinstance(example, JointExample)
    assert (example.relevant, example.candidates) == (frozenset({1}), ("x", "y"))
    assert [(part.id, part.text, part.answer, part.weight) for part in example.parts] == [
        ("1a", "by the sea", "sea", 0.5),
        ("1b", "by the sea", "sea", 0.5),
    ]


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ([], "there are no spans; leave the row out"),
        (["words"], "expected a list of mappings"),
        ([{"id": "1a"}], "no given, gold, known in"),
        ([{**PART, "gold": "land"}], "'land' does not occur in the text"),
    ],
)
def test_wrong_parts_are_named(parts, complaint):
    with pytest.raises(DataError, match="row 1") as caught:
        build("joint", {**JOINT, "parts": parts})
    assert complaint in str(caught.value)


# ---- generation and similarity ---------------------------------------------------------------------------------------


def test_inputs_are_texts_or_lists_of_texts():
    example = build("generation", ROW)
    assert example == GenerationExample(
        id="1", inputs={"saying": "less is more", "keywords": ("go", "stay")}, references=("We stay.",)
    )
    assert example.texts == ("less is more", "go", "stay", "We stay.")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"refs": []}, "there are none"),
        ({"refs": [" "]}, "a text is empty"),
        ({"words": [1]}, "field 'inputs.keywords': 1 is not a string"),
        ({"saying": 7}, "field 'inputs.saying': expected a list of texts"),
    ],
)
def test_wrong_inputs_are_named(change, complaint):
    with pytest.raises(DataError, match="row 1") as caught:
        build("generation", {**ROW, **change})
    assert complaint in str(caught.value)


def test_a_similarity_example():
    row = {"id": "1", "text": "by the sea", "saying": "s", "sayings": ["s", "t"]}
    assert build("similarity", row) == SimilarityExample(id="1", text="by the sea", category="s", anchors=("s", "t"))


CHANGES = {"spans": {"words": [9, 16]}, "joint": {"parts": [{**PART, "gold": "the"}]}, "generation": {"words": ["go"]}}


@pytest.mark.parametrize(("task_type", "row"), [("spans", SPANS), ("joint", JOINT), ("generation", ROW)])
def test_every_value_of_an_example_counts_in_its_fingerprint(task_type, row, tmp_path):
    def digest(**changes):
        return fingerprint(task_type, [build(task_type, {**row, **changes})], tmp_path)

    assert digest() == digest() != digest(**CHANGES[task_type])


RANKED = {"id": "1", "text": "t", "sayings": ["x", "y"], "right": 0, "alike": [], "flaw": "repeated", "idiom": "a hot"}
RANKING_FIELDS = {"id": "row.id", "query": "row.text", "candidates": "row.sayings", "relevant": "row.right"}


def ranking_digest(folder, annotations=(), **fields):
    examples = examples_of([RANKED], name="t", type="ranking", fields={**RANKING_FIELDS, **fields})
    return fingerprint("ranking", examples, folder, annotations=annotations)


def test_a_field_that_came_later_leaves_fingerprints_as_they_were(tmp_path):
    assert (
        ranking_digest(tmp_path) == ranking_digest(tmp_path, near="row.alike") != ranking_digest(tmp_path, near="[1]")
    )


def test_a_remark_about_rows_leaves_fingerprints_as_they_were(tmp_path):
    """Runs stay comparable when a flaw of a row is found later; what counts in a breakdown still counts here."""
    plain, flawed = {"idiom": "row.idiom"}, {"idiom": "row.idiom", "flaw": "row.flaw"}

    def digest(meta, annotations=()):
        return ranking_digest(tmp_path, annotations, meta=meta)

    assert digest(flawed, ["flaw"]) == digest(plain, ["flaw"]) == digest(plain)
    assert digest(flawed) != digest(plain)
    assert digest(flawed, ["flaw"]) != digest({}, ["flaw"])


@pytest.mark.parametrize(
    ("task_type", "row", "digest"),
    [
        ("spans", SPANS, "4d39598478b6ca5b7c36b51474df5b0c7c5a3e50793cb86bb4a164e68c64bef1"),
        ("joint", JOINT, "8409efa675c83c08a1c272333d0684f8debede0046f8797d98da024c41b3bc9a"),
    ],
)
def test_a_field_that_is_gone_leaves_fingerprints_as_they_were(task_type, row, digest, tmp_path):
    assert fingerprint(task_type, [build(task_type, row)], tmp_path) == digest


def test_grades_change_the_fingerprint_only_where_there_are_some(tmp_path):
    def digest(**fields):
        example = RankingExample(id="1", query="q", candidates=("x", "y"), relevant=frozenset({0, 1}), **fields)
        return fingerprint("ranking", [example], tmp_path)

    assert digest() == digest(grades={}) != digest(grades={0: 2.0}) != digest(grades={0: 3.0})


@pytest.mark.parametrize(
    "source", ["none", "true", "row.q", "self", "row.o | map('upper')", "namespace(x=1)", "row.q.upper"]
)
def test_near_candidates_that_are_no_list(source: str) -> None:
    fields = {"id": "1", "query": "row.q", "candidates": "row.o", "relevant": "0", "near": source}
    with pytest.raises(DataError, match="field 'near': "):
        list(examples_of([{"q": "a", "o": ["b", "c"]}], name="t", type="ranking", fields=fields))
