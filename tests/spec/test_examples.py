"""Rows → examples, and every mistake named by file, row and field."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest
import yaml

import figeval
from figeval import ChoiceExample, DataError, PairExample, RankingExample, TaskError
from figeval.testing import harness
from tests.typed import bound, examples_of, fingerprint

CHOICE = {
    "name": "t",
    "type": "choice",
    "data": {"test": "rows:test"},
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


def build(rows, **changes):
    return list(examples_of(rows, **{**CHOICE, **changes}))


def with_field(field, source):
    return {"fields": {**CHOICE["fields"], field: source}}


def test_an_index_is_made_of_what_rows_have_as_the_message_says():
    """The advice is followed to the letter; a letter that is no number does not become one."""
    for gold, source, expected in [
        ("b", "{'A': 0, 'B': 1}[(row.gold) | trim | upper]", 1),
        ("1", "(row.gold) | int", 1),
        ("1", "((row.gold) | int) - 1", 0),
        (1.0, "(row.gold) | int", 1),
        ("a secret", "([row.literal, row.figurative]).index(row.gold)", 1),
        ("", "(row.gold) or none", None),
        ("B", "row.gold | int(0)", 0),  # a default that is written out stays
    ]:
        assert build([{**ROW, "gold": gold}], **with_field("gold", source))[0].gold == expected


def refusal(row, **changes):
    with pytest.raises(DataError) as refused:
        build([row], **changes)
    return str(refused.value)


@pytest.mark.parametrize(
    ("gold", "options", "right"),
    [
        (" a secret", ("legumes", "a secret"), 1),
        ("a secret", ("legumes", "a secret\u00a0"), 1),
        ("A SECRET ", ("legumes", "a secret"), 1),
        ("Legumes", (" legumes", "a secret"), 0),
        ("a secret", ("legumes", "a secret"), 1),
        ("B", ("b", "a"), 0),  # a letter may be meant, or the text of an option: both are named
        ("B", ("b", "a"), 1),
        ("1", ("1", "2"), 0),
        ("1", ("2", "1"), 0),
    ],
)
def test_advice_for_a_text_is_followed_to_the_letter_and_gives_the_right_index(gold, options, right):
    row = {**ROW, "literal": options[0], "figurative": options[1], "gold": gold}
    advised = re.findall(r"`([^`]+)`", refusal(row, **with_field("gold", "row.gold")))
    sources = [
        yaml.safe_load(f"fields: {{gold: {source}}}")["fields"]["gold"] for source in advised
    ]  # as in a task file
    assert right in [build([row], **with_field("gold", source))[0].gold for source in sources]


def test_a_letter_of_many_options_gets_a_whole_expression():
    row = {**ROW, "gold": "d"}
    changes = {"fields": {**CHOICE["fields"], "options": "['p', 'q', 'r', 's']", "gold": "row.gold"}}
    (source,) = re.findall(r"`([^`]+)`", refusal(row, **changes))
    changes["fields"]["gold"] = yaml.safe_load(f"gold: {source}")["gold"]
    assert build([row], **changes)[0].gold == 3


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ row.sentence }}", "written without {{ and }}"),
        ("row.the sentence", r"written row\['the sentence'\]"),
        ("What does it mean?", "written in single quotes"),
    ],
)
def test_what_is_no_expression_gets_its_cure(source, says):
    with pytest.raises(TaskError, match=says):
        build([ROW], **with_field("query", source))


@pytest.mark.parametrize(
    ("gold", "options", "says"),
    [
        ("a secret.", ("legumes", "a secret"), r"option 1 .*only in a full stop: write both the same way"),
        ("a  secret", ("legumes", "a secret"), r"option 1 .*only in blanks:"),
        ("Stra\u00dfe", ("STRASSE", "a"), r"option 0 .*only in case:"),
        ("cafe\u0301", ("tea", "caf\u00e9"), r"option 1 .*only in Unicode form:"),
        ("polish", ("Polish", "POLISH"), r"nearly the text of options 0 .* and 1 .*give the index"),
        ("a secret", ("a secret", "a secret"), r"the text of options 0 .* and 1 .*give the index"),
        ("something else", ("legumes", "a secret"), r"give the place of an option"),
    ],
)
def test_a_text_that_no_expression_finds_for_certain_gets_no_expression(gold, options, says):
    row = {**ROW, "literal": options[0], "figurative": options[1], "gold": gold}
    message = refusal(row, **with_field("gold", "row.gold"))
    assert re.search(says, message) and "`" not in message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "{'A': 0, 'B': 1}[row.g]",
            r"the mapping has no entry for 'C' \(from row\.g\), only for 'A', 'B'; add an entry",
        ),
        ("{'c': 0}[row.g | trim]", r"no entry for 'C' \(from row\.g\).*did you mean 'c'"),
        ("{'A': {'x': 0}}[row.g].x", r"no entry for 'C' \(from row\.g\)"),
        ("{1: 0}[row.n]", r"no entry for 7 \(from row\.n\), only for 1"),
        ("row.keys_of[row.g]", r"row\.keys_of has no entry for 'C' \(from row\.g\), only for 'A'"),
        ("[0, 1][row.n]", r"the list has no item 7 \(from row\.n\); its items are 0 to 1"),
        ("{'A': 0}[row.h]", r"there is no key 'h'; the row has"),  # the row lacks it, not the mapping
    ],
)
def test_an_entry_that_a_mapping_lacks_is_no_column_that_the_row_lacks(source, says):
    message = refusal({**ROW, "g": "C", "keys_of": {"A": 0}}, **with_field("gold", source))
    assert re.search(rf"^t: row 1 of 'rows:test', field 'gold': .*{says}", message)
    assert ("the row has" in message) == ("row.h" in source) and "\n" not in message


def test_ids_are_stripped_and_columns_without_a_value_are_no_text():
    row = {**ROW, "n": "\ufeff\u00a0a b ", "idiom": float("nan"), "pair": float("nan")}
    (example,) = build([row], **with_field("id", "row.n"), cluster=None)
    assert (example.id, example.meta, example.group) == ("a b", {}, None)


@pytest.mark.parametrize("other", [1, " 1", "1\u00a0", "\uff11"])
def test_ids_that_differ_in_type_blanks_or_width_alone_are_the_same(other, tmp_path):
    rows = [{**ROW, "n": "1"}, {**ROW, "n": "2"}, {**ROW, "n": other}]
    with pytest.raises(DataError, match="rows 1 and 3 have the"):
        fingerprint("choice", build(rows, **with_field("id", "row.n")), tmp_path)


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
        ({"n": 1}, {}, r"t: row 1 of 'rows:test', field 'query': .*sentence.*; the row has n"),
        ({**ROW, "sentense": "x", "sentence": 3}, {}, "field 'query': 3 is not a string; write"),
        (ROW, with_field("query", "row.sentance"), "did you mean 'sentence'"),
        (ROW, with_field("gold", 2), r"field 'gold': 2 is out of range for 2 options \(0 to 1\); if it counts from 1"),
        (ROW, with_field("gold", -1), "field 'gold': -1 is out of range"),
        (ROW, with_field("gold", "row.idiom"), "'beans' is not an index"),
        (ROW, with_field("gold", "true"), "True is not an index"),
        (ROW, with_field("gold", "row.idiom | int"), "'beans' is not an integer"),
        (ROW, with_field("gold", "'B' | int"), "'B' is not an integer; to number letters"),
        (ROW, with_field("gold", "'1.7' | int"), "'1.7' is not an integer; round it first"),
        (ROW, with_field("gold", "0.99 | int"), "0.99 is not an integer; round it first"),
        (ROW, with_field("gold", "'1_0' | int"), "'1_0' is not an integer"),
        ({**ROW, "pair": None}, with_field("query", "'say %s' % row.pair"), "null is no text"),
        ({**ROW, "pair": None}, with_field("query", "'say %s' | format(row.pair)"), "null is no text"),
        (ROW, with_field("gold", "'b'"), r"write `\"{'A': 0, 'B': 1}\[\('b'\) . trim . upper\]\"`"),
        (ROW, with_field("gold", "'1'"), r"write `\('1'\) . int` if it counts from 0, or `\(\('1'\) . int\) - 1`"),
        (
            ROW,
            with_field("gold", "row.figurative"),
            r"write `\"\(\[row.literal, row.figurative\]\).index\(row.figurative\)\"`",
        ),
        (ROW, with_field("gold", "''"), "write `\\(''\\) or none` if an empty cell means that it is hidden"),
        ({**ROW, "sentence": None}, {}, "null is not a string; fill it in"),
        ({**ROW, "sentence": float("nan")}, {}, "NaN, which stands for an empty cell, is not a string"),
        ({**ROW, "sentence": float("nan")}, with_field("query", "row.sentence | string"), "NaN is no text"),
        ({**ROW, "sentence": None}, with_field("query", "row.sentence | trim"), "null is no text"),
        ({**ROW, "sentence": None}, with_field("query", "'x' ~ row.sentence"), "null is no text"),
        ({**ROW, "sentence": None}, with_field("query", "['x', row.sentence] | join"), "null is no text"),
        ({**ROW, "n": True}, with_field("id", "row.n"), "True is not a valid id"),
        ({**ROW, "n": " \ufeff"}, with_field("id", "row.n"), "is not a valid id"),
        (ROW, with_field("options", "[]"), "field 'options': there are no options"),
        (ROW, with_field("options", "['a', ' ']"), "field 'options': an option is empty"),
        (ROW, with_field("options", "row.literal"), "expected a list of texts"),
        (ROW, with_field("id", "row.idiom.x"), "field 'id'"),
        (ROW, with_field("id", "''"), "'' is not a valid id"),
        (ROW, with_field("query", "row.sentence + 1"), "TypeError"),
        (ROW, with_field("id", "row_numbr"), "'row_numbr' is undefined.*did you mean 'row_number'"),
        (ROW, with_field("id", "sentence"), "'sentence' is undefined.*; write row.sentence"),
        (ROW, with_field("gold", "null"), "'null' is undefined.*; in an expression, null is written none"),
        (ROW, with_field("id", "row.sentence | hash(3)"), "a hash has 4 to 64 digits, not 3"),
        (ROW, with_field("id", "row.sentence | hash(true)"), "a hash has 4 to 64 digits, not True"),
        (ROW, with_field("id", "none | hash"), "null has no hash"),
        (ROW, with_field("id", "[row.nope] | hash"), "there is no key 'nope'"),
        (ROW, with_field("id", "range(3) | hash"), "a range has no hash; write a text, a number"),
        (ROW, with_field("id", "row.sentence | map('upper') | hash"), "an object of type generator is not a value"),
        (ROW, {"cluster": "proverb"}, r"cluster 'proverb' is not among meta \(idiom\)"),
        (ROW, {"group": "row.twin"}, "group: .*twin"),
    ],
)
def test_mistakes_in_the_data(row, changes, message):
    with pytest.raises(DataError, match=message):
        build([row], **changes)


def test_rows_without_ids_get_their_number_or_a_hash_as_an_id():
    numbered = build([ROW, ROW], **with_field("id", "'beans-' ~ row_number"))
    assert [example.id for example in numbered] == ["beans-1", "beans-2"]
    (hashed,) = build([ROW], **with_field("id", "row.sentence | hash"))
    assert hashed.id == hashlib.sha256(ROW["sentence"].encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    ("source", "hashed"),
    [
        ("row.n | hash(8)", "7"),
        ("'7' | hash(8)", "7"),
        ("[row.n, row.idiom] | hash(8)", '[7,"beans"]'),
        ("{'b': 1.5, 'a': none} | hash(8)", '{"a":null,"b":1.5}'),
        ("'é' | hash(8)", "é"),
    ],
)
def test_a_hash_is_that_of_the_text_or_of_the_json(source, hashed):
    (example,) = build([ROW], **with_field("id", source))
    assert example.id == hashlib.sha256(hashed.encode()).hexdigest()[:8]


def test_a_filter_that_does_not_exist():
    with pytest.raises(TaskError, match=r"No filter named 'hsah'; did you mean 'hash'"):
        build([ROW], **with_field("id", "row.idiom | hsah"))


OPTIONS = ("first", "second", "third", "fourth")
SHUFFLED_TASK = {
    "name": "t",
    "type": "choice",
    "data": {"test": "rows:test"},
    "fields": {
        "id": "row.id",
        "query": "'which?'",
        "options": "row.options",
        "gold": "row.gold",
        "option_meta": "row.about",
    },
    "prompt_fields": {"options": "row.options | map('upper') | list"},
}


def shuffled_examples(ids, gold=0, **changes):
    rows = [{"id": id, "options": OPTIONS, "gold": gold, "about": [{"kind": o} for o in OPTIONS]} for id in ids]
    return examples_of(rows, **{**SHUFFLED_TASK, "shuffle_options": True, **changes})


def test_the_gold_answer_and_the_properties_of_options_follow_them_when_shuffled():
    for example in shuffled_examples(map(str, range(20)), gold=1):
        assert sorted(example.options) == sorted(OPTIONS)
        assert example.options[example.gold] == "second"
        assert example.prompted.options == tuple(map(str.upper, example.options))
        assert example.prompted.gold == example.gold
        assert tuple(properties["kind"] for properties in example.option_meta) == example.options


def test_the_order_depends_on_seed_and_id_alone():
    alone = {example.id: example.options for id in "abc" for example in shuffled_examples([id])}
    assert {example.id: example.options for example in shuffled_examples("xcba")}.items() > alone.items()
    assert [example.options for example in shuffled_examples("abc", shuffle_options={"seed": 1})] != list(
        alone.values()
    )
    # By definition: the places sorted by the SHA-256 of seed, id and place.
    order = sorted(range(4), key=lambda index: hashlib.sha256(f"0 a {index}".encode()).hexdigest())
    assert alone["a"] == tuple(OPTIONS[index] for index in order)


def test_shuffled_right_answers_are_at_all_places_and_hidden_ones_stay_hidden():
    gold_counts = Counter(example.gold for example in shuffled_examples(map(str, range(400))))
    assert sorted(gold_counts) == [0, 1, 2, 3] and min(gold_counts.values()) > 75
    assert all(example.gold is None for example in shuffled_examples("ab", gold=None))


@pytest.mark.parametrize("setting", [False, None])
def test_options_stay_in_their_order_unless_asked(setting):
    (example,) = shuffled_examples("a", shuffle_options=setting)
    assert example.options == OPTIONS


def test_examples_of_a_python_task_are_shuffled_too():
    @figeval.task(name="made", type="choice", shuffle_options={"seed": 3})
    def questions():
        yield ChoiceExample(id="a", query="q", options=OPTIONS, gold=2)

    trial = harness()
    (example,) = trial.examples(questions.bound(trial.task_types))
    (row,) = shuffled_examples("a", gold=2, shuffle_options={"seed": 3})
    assert (example.options, example.gold) == (row.options, row.gold)


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
    return [ChoiceExample(id=i, query="q", options=("a",), gold=0, meta={"k": "v"}) for i in ids]


def test_every_change_of_the_examples_changes_their_fingerprint(tmp_path):
    def ranking(last):
        candidates = (*map(str, range(40)), last)
        return [RankingExample(id="1", query="q", candidates=candidates, relevant=frozenset({0}))]

    def digest(task_type, examples):
        return fingerprint(task_type, examples, tmp_path)

    assert digest("choice", examples("1", "2")) == digest("choice", examples("1", "2"))
    assert digest("choice", examples("1", "2")) != digest("choice", examples("2", "1"))
    assert digest("ranking", ranking("a")) != digest("ranking", ranking("b"))


def test_duplicate_ids_name_both_rows_and_no_examples_are_an_error(tmp_path):
    with pytest.raises(DataError, match="t: rows 2 and 4 have the same id 'b'"):
        fingerprint("choice", examples("a", "b", "c", "b"), tmp_path)
    with pytest.raises(DataError, match="there are no examples"):
        fingerprint("choice", examples(), tmp_path)


# ---- what is known of each option ------------------------------------------------------------------------------------


def test_each_option_has_a_mapping_of_its_own():
    row = {**ROW, "kinds": [{"kind": "literal", "n": 2}, {"kind": None}]}
    (example,) = build([row], **with_field("option_meta", "row.kinds"))
    assert example.option_meta == ({"kind": "literal", "n": "2"}, {}), "values are texts, and null is left out"
    assert build([ROW])[0].option_meta == ()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("[{'kind': 'literal'}]", "field 'option_meta': 1 mappings for 2 options"),
        ("[]", "field 'option_meta': 0 mappings for 2 options"),
        ("['literal', 'right']", "field 'option_meta': expected a list of mappings"),
        ("{'kind': 'literal'}", "field 'option_meta': expected a list of mappings"),
    ],
)
def test_what_is_known_of_the_options_is_as_long_as_they_are(source, message):
    with pytest.raises(DataError, match=f"t: row 1 of 'rows:test', {message}"):
        build([ROW], **with_field("option_meta", source))


def test_what_is_known_of_the_options_came_later_and_leaves_fingerprints_as_they_were(tmp_path):
    def digest(**fields):
        example = ChoiceExample(id="1", query="q", options=("a", "b"), gold=0, **fields)
        return fingerprint("choice", [example], tmp_path)

    assert digest() == digest(option_meta=()) != digest(option_meta=({"kind": "literal"}, {}))


# ---- ranking by grades, and documents that all rows rank -------------------------------------------------------------

RANKING = {
    "name": "t",
    "type": "ranking",
    "data": {"test": "rows:test"},
    "fields": {"id": "row.n", "query": "row.q", "candidates": "row.c", "relevant": "row.r"},
}
CORPUS = {
    **RANKING,
    "corpus": {"data": "rows:corpus", "id": "row.name", "text": "row.body"},
    "fields": {"id": "row.n", "query": "row.q", "relevant": "row.r"},
}
DOCUMENTS = [{"name": "sea", "body": "The sea."}, {"name": 7, "body": "The ship."}, {"name": "sky", "body": "The sky."}]


def relevant_and_grades(relevant, **fields):
    row = {"n": 1, "q": "q", "c": ["a", "b", "c"], "r": relevant, **fields}
    (example,) = examples_of([row], **RANKING)
    return example.relevant, example.grades


def of_corpus(*relevant, documents=DOCUMENTS, **changes):
    rows = [{"n": n, "q": "q", "r": targets} for n, targets in enumerate(relevant)]
    return list(examples_of(rows, documents, **{**CORPUS, **changes}))


@pytest.mark.parametrize(
    ("relevant_field", "relevant", "grades"),
    [
        (1, {1}, {}),
        ([0, 2], {0, 2}, {}),
        ({0: 3, 2: 0.5}, {0, 2}, {0: 3.0, 2: 0.5}),
        ({0: 2, 1: 0, 2: 1}, {0, 2}, {0: 2.0, 2: 1.0}),
        ({0: 1, 2: 1}, {0, 2}, {}),
        (None, set(), {}),
    ],
    ids=["an index", "indexes", "grades", "a grade of 0 is not relevant", "grades that are all 1 are none", "hidden"],
)
def test_what_is_relevant_and_to_which_degree(relevant_field, relevant, grades):
    assert relevant_and_grades(relevant_field) == (frozenset(relevant), grades)


def test_a_row_of_json_grades_by_indexes_that_are_texts():
    assert relevant_and_grades({"0": 3, "2": 1}) == (frozenset({0, 2}), {0: 3.0, 2: 1.0}), "JSON has no other keys"


@pytest.mark.parametrize(
    ("relevant_field", "message"),
    [
        ({0: -1}, "-1 is not a grade of relevance; give a number of at least 0"),
        ({0: "much"}, "'much' is not a grade of relevance"),
        ({0: True}, "True is not a grade of relevance"),
        ({0: float("nan")}, "nan is not a grade of relevance"),
        ({0: float("inf")}, "inf is not a grade of relevance"),
        ({0: 0}, "no candidate is relevant"),
        ({}, "no candidate is relevant"),
        ([], "no candidate is relevant; leave the row out, or write null if the right ones are hidden"),
        ({3: 1}, r"3 is out of range for 3 options \(0 to 2\)"),
        ({"first": 1}, "'first' is not an index"),
    ],
)
def test_grades_that_are_none(relevant_field, message):
    with pytest.raises(DataError, match=f"t: row 1 of 'rows:test', field 'relevant': {message}"):
        relevant_and_grades(relevant_field)


def test_documents_are_named_by_their_ids_and_stored_once():
    first, second, third = of_corpus("sky", [7, "sea"], {"sea": 2, "7": 1, "sky": 0})
    assert first.candidates == ("The sea.", "The ship.", "The sky.")
    assert first.candidates is second.candidates is third.candidates
    assert [example.relevant for example in (first, second, third)] == [
        frozenset({2}),
        frozenset({0, 1}),
        frozenset({0, 1}),
    ]
    assert [example.grades for example in (first, second, third)] == [{}, {}, {0: 2.0, 1: 1.0}]


def test_near_documents_are_named_by_their_ids_as_well():
    (example,) = of_corpus("sky", fields={**CORPUS["fields"], "near": "['sea']"})
    assert example.near == frozenset({0})


@pytest.mark.parametrize("relevant", ["see", ["sea", "see"], {"see": 2}])
def test_an_id_that_no_document_has(relevant):
    message = r"t: row 1 of 'rows:test', field 'relevant': 'see' is not an id of the corpus \(3 documents\)"
    with pytest.raises(DataError, match=message):
        of_corpus(relevant)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([*DOCUMENTS, {"name": "7", "body": "x"}], "document 4 of .*: another document also has the id '7'"),
        ([{"name": "sea", "body": 3}], "document 1 of 'rows:corpus': id 'sea' and text 3 must be strings"),
        ([{"name": None, "body": "x"}], "document 1 of .*: id None and text 'x' must be strings"),
        ([{"nmae": "sea", "body": "x"}], "document 1 of .*name.*; the row has body, nmae; did you mean 'nmae'"),
        ([], "the corpus 'rows:corpus' has no documents"),
    ],
)
def test_a_corpus_that_is_none(documents, message):
    with pytest.raises(DataError, match=f"^t: {message}"):
        of_corpus("sea", documents=documents)


def test_a_corpus_and_candidates_exclude_each_other():
    with pytest.raises(TaskError, match="t: the candidates are the texts of `corpus`; leave out the field candidates"):
        bound(**{**CORPUS, "fields": RANKING["fields"]})
    with pytest.raises(TaskError, match="a ranking task needs the field candidates"):
        bound(**{**RANKING, "fields": CORPUS["fields"]})


@pytest.mark.parametrize("kind", ["choice", "similarity"])
def test_only_a_ranking_has_a_corpus(kind):
    fields = {
        "choice": {"id": "row.n", "query": "row.q", "options": "row.o", "gold": "row.g"},
        "similarity": {"id": "row.n", "text": "row.q", "category": "row.m"},
    }
    with pytest.raises(TaskError, match=r"t: .*corpus"):
        bound(**{**CORPUS, "type": kind, "fields": fields[kind]})
