"""Rows → examples, and every mistake named by file, row and field."""

from __future__ import annotations

import pytest

from figeval.errors import DataError, TaskError
from figeval.spec.examples import build_examples
from figeval.spec.survey import first, survey
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.task_types.ranking import RankingExample
from tests.typed import bound

CHOICE = {
    "name": "t",
    "type": "choice",
    "data": {"test": "jsonl:rows.jsonl"},
    "fields": {
        "id": "row.n | string",
        "query": "row.sentence",
        "options": "[row.literal, row.figurative]",
        "gold": 1,
        "meta": {"idiom": "row.idiom"},
    },
    "cluster": "idiom",
    "group": "row.pair",
}
ROW = {
    "n": 7,
    "sentence": "He spilled the beans.",
    "literal": "legumes",
    "figurative": "a secret",
    "idiom": "beans",
    "pair": 3,
}


def spec(**changes):
    return bound(**{**CHOICE, **changes})


def build(rows, **changes):
    return list(build_examples(spec(**changes), rows))


def with_field(field, source):
    return {"fields": {**CHOICE["fields"], field: source}}


def test_a_choice_example():
    assert build([ROW]) == [
        ChoiceExample(
            id="7",
            query="He spilled the beans.",
            options=("legumes", "a secret"),
            gold=1,
            meta={"idiom": "beans"},
            cluster="beans",
            group="3",
        )
    ]


def test_a_pair_example_with_a_hidden_label():
    (example,) = build(
        [{"a": "x", "b": "y", "l": None}],
        type="pairs",
        labels=["yes", "no"],
        fields={"id": "'1'", "left": "row.a", "right": "row.b", "label": "row.l"},
        cluster=None,
        group=None,
    )
    assert example == PairExample(id="1", left="x", right="y", label=None)


def test_candidates_are_stored_once():
    candidates = ("one", "two")
    rows = [{"q": str(n), "c": candidates, "r": n} for n in range(2)]
    fields = {"id": "row.q", "query": "row.q", "candidates": "row.c", "relevant": "row.r"}
    examples = build(rows, type="ranking", fields=fields, cluster=None, group=None)
    assert [e.relevant for e in examples] == [frozenset({0}), frozenset({1})]
    assert all(isinstance(e, RankingExample) and e.candidates is candidates for e in examples)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ({"n": 1}, {}, r"t: row 1 of 'jsonl:rows.jsonl', field 'query': .*sentence.*; the row has n"),
        ({**ROW, "sentense": "x", "sentence": 3}, {}, "field 'query': 3 is not a string; write"),
        (ROW, with_field("query", "row.sentance"), "did you mean 'sentence'"),
        (ROW, with_field("gold", 2), "field 'gold': 2 is out of range for 2 options"),
        (ROW, with_field("gold", -1), "field 'gold': -1 is out of range"),
        (ROW, with_field("gold", "row.idiom"), "'beans' is not an index"),
        (ROW, with_field("gold", "true"), "True is not an index"),
        (ROW, with_field("options", "[]"), "field 'options': there are no options"),
        (ROW, with_field("options", "['a', ' ']"), "field 'options': an option is empty"),
        (ROW, with_field("options", "row.literal"), "expected a list of texts"),
        (ROW, with_field("id", "row.idiom.x"), "field 'id'"),
        (ROW, with_field("id", "''"), "'' is not a valid id"),
        (ROW, with_field("query", "row.sentence + 1"), "TypeError"),
        (ROW, {"cluster": "proverb"}, r"cluster 'proverb' is not among meta \(idiom\)"),
        (ROW, {"group": "row.twin"}, "group: .*twin"),
    ],
)
def test_mistakes_in_the_data(row, changes, message):
    with pytest.raises(DataError, match=message):
        build([row], **changes)


def test_an_unknown_label():
    fields = {"id": "'1'", "left": "'x'", "right": "'y'", "label": "'maybe'"}
    with pytest.raises(DataError, match="'maybe' is not among the labels yes, no"):
        build([{}], type="pairs", labels=["yes", "no"], fields=fields, cluster=None, group=None)


@pytest.mark.parametrize(
    "source", ["''.__class__", "row.sentence.__class__.__mro__", "().__class__.__base__.__subclasses__()"]
)
def test_fields_stay_in_the_sandbox(source):
    with pytest.raises(TaskError, match="sandbox"):
        build([ROW], **with_field("query", source))


def test_a_field_that_is_no_expression():
    with pytest.raises(TaskError, match="is not a Jinja expression"):
        build([ROW], **with_field("query", "row."))


def examples(*ids):
    return lambda: iter([ChoiceExample(id=i, query="q", options=("a",), gold=0, meta={"k": "v"}) for i in ids])


def test_survey_counts_and_fingerprints():
    found = survey("t", examples("1", "2"))
    assert (found.n, found.meta_keys) == (2, ("k",))
    assert found.sha256 == survey("t", examples("1", "2")).sha256
    assert found.sha256 != survey("t", examples("2", "1")).sha256


def test_survey_sees_every_change_of_a_long_candidate_list():
    def ranking(last):
        candidates = (*map(str, range(40)), last)
        return lambda: iter([RankingExample(id="1", query="q", candidates=candidates, relevant=frozenset({0}))])

    assert survey("t", ranking("a")).sha256 != survey("t", ranking("b")).sha256


def test_duplicate_ids_name_both_rows():
    with pytest.raises(DataError, match="t: rows 2 and 4 have the same id 'b'"):
        survey("t", examples("a", "b", "c", "b"))


def test_no_examples_at_all():
    with pytest.raises(DataError, match="there are no examples"):
        survey("t", examples())


def test_the_first_examples():
    assert [e.id for e in first(examples("a", "b", "c")(), 2)] == ["a", "b"]
    assert len(list(first(examples("a", "b")(), None))) == 2
