"""The task type `labelling`: what it refuses, how tags are read, metrics, replies, floors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import (
    DataError,
    FigevalError,
    Harness,
    ModelError,
    Prediction,
    PromptContext,
    Reply,
    TaskSpec,
)
from figeval.builtin.plugins.labelling import chunk_metrics, expressions
from figeval.builtin.plugins.labelling.tags import (
    DEFAULT_SCHEME,
    OUTSIDE,
    Scheme,
    chunks,
    scheme_of,
    strays,
    write_tags,
)
from figeval.testing import CapabilityCheck, check_metric, check_model, check_task_type, predict

LABELLING = Harness().task_types.get("labelling")
LabellingExample = LABELLING.Example
BY_TAGGER, BY_QUOTES = LABELLING.routes
(LabelWords,) = BY_TAGGER.requests
GOLDEN = Path(__file__).parents[2] / "golden" / "plugins"
METRIC_CASES = json.loads((GOLDEN / "labelling_metrics.json").read_text("utf-8"))
REPLY_CASES = json.loads((GOLDEN / "labelling_replies.json").read_text("utf-8"))
MARKS = json.loads((GOLDEN.parent / "task_types" / "answers_marks.json").read_text("utf-8"))
LABELS = ("B-FIG", "I-FIG", OUTSIDE)
ROWS: list[dict[str, Any]] = [
    {"id": "1", "tokens": ["He", "got", "cold", "feet"], "tags": ["O", "O", "B-FIG", "I-FIG"], "seen": [[2, 4]]},
    {"id": "2", "tokens": ["His", "feet", "hurt"], "tags": ["O", "O", "O"], "seen": []},
    {"id": "3", "tokens": ["She", "saw", "red"], "tags": ["O", "I-FIG", "I-FIG"], "seen": None},
]
EXAMPLES = [
    LabellingExample(id=row["id"], tokens=tuple(row["tokens"]), tags=tuple(row["tags"]), seen=None) for row in ROWS
]
TAGS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=9)


def example(tags: str | list[str], **extra: Any) -> Any:
    read = tuple(tags.split() if isinstance(tags, str) else tags)
    return LabellingExample(id="1", tokens=tuple(f"w{n}" for n in range(len(read))), tags=read, **extra)


def answer(text: str) -> tuple[Any, ...]:
    return tuple(tag if "|" not in tag else tuple(tag.split("|")) for tag in text.split())


def prediction(value: Any, **extra: Any) -> Prediction:
    return Prediction(example_id="1", value=value, **({"status": "unparseable"} if value is None else {}), **extra)


def value_of(name: str, *cases: tuple[Any, Prediction]) -> float | None:
    """The value of a metric over some cases; None where it has none."""
    target = getattr(chunk_metrics, name)
    if callable(target):
        return target(*cases[0])
    features = [case_features for case in cases if (case_features := target.features(*case)) is not None]
    value = float(target.combine(np.array(features).sum(axis=0))) if features else np.nan
    return None if np.isnan(value) else value


# ---- the type --------------------------------------------------------------------------------------------------------


def test_the_task_type_keeps_to_the_contract() -> None:
    replies = [case["reply"] for case in REPLY_CASES["cases"]]
    check_task_type(type(LABELLING), ROWS, labels=LABELS, replies=replies)
    check_task_type(type(LABELLING), [{**row, "tags": None} for row in ROWS], labels=LABELS)


def test_plain_labels_are_a_scheme_of_their_own() -> None:
    rows = [{"id": str(n), "tokens": ["a", "b"], "tags": tags} for n, tags in enumerate((["MET", "MET"], ["O", "MET"]))]
    check_task_type(type(LABELLING), rows, labels=["MET", "O"], replies=["a b"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": ["He", "got cold", "feet"]}, "word 2 ('got cold') contains a space; split it, or strip it"),
        ({"tokens": ["He ", "feet"]}, "word 1 ('He ') contains a space"),
        ({"tokens": ["He", ""]}, "word 2 is empty; leave it out together with its tag"),
        ({"tokens": ["He", "\t"]}, "word 2 is blank"),
        ({"tokens": []}, "field 'tokens': there are no words"),
        ({"tags": ["O"]}, "field 'tags': 1 tags for 4 words; give one for each"),
        ({"tags": ["O", "O", "B-PUN", "O"]}, "tag 3 is 'B-PUN', which is not among the labels B-FIG, I-FIG, O"),
        ({"tags": ["O", "O", ["O"], "O"]}, "tag 3 is ['O'], which is not among the labels"),
        ({"tags": "O O O O"}, "expected a list of tags, found 'O O O O'"),
        ({"seen": [[2, 5]]}, "field 'seen': [2, 5] is not a span of 4 words"),
        ({"seen": [3]}, "field 'seen': 3 is not a span of 4 words"),
    ],
)
def test_what_has_no_reading_is_refused_in_a_line(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0] | changes), encoding="utf-8")
    fields = {name: f"row.{name}" for name in ROWS[0]}
    about = {"name": "t", "type": "labelling", "labels": LABELS, "data": {"test": "jsonl:rows.jsonl"}, "fields": fields}
    (tmp_path / "t.task.yaml").write_text(json.dumps(about), encoding="utf-8")
    harness = Harness(include=(tmp_path,))
    with pytest.raises(DataError) as caught:
        list(harness.examples(harness.catalogue.tasks.get("t")))
    assert words in str(caught.value)
    assert "row 1" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("labels", [["B-FIG", "I-FIG"], ["O"], [], ["B-FIG", "PUN", "O"]])
def test_labels_that_are_of_no_scheme(labels: list[str]) -> None:
    with pytest.raises(ValueError, match="labels"):
        scheme_of(tuple(labels))
    spec = {"name": "t", "type": "labelling", "labels": labels, "data": {"test": "jsonl:x"}, "fields": {"id": "1"}}
    with pytest.raises((FigevalError, ValueError)):
        TaskSpec.model_validate(spec).bound(Harness().task_types)


@pytest.mark.parametrize(
    ("labels", "declared", "expected"),
    [
        ("O B-A I-A", "", ""),
        ("O B-A", "", ""),
        ("O A C", "", ""),
        ("O TYPE-A TYPE-B", "", ""),
        ("O B-A I-A E-A S-A", "", "IOBES prefix -"),
        ("O B-A I-A L-A U-A B-C I-C L-C U-C", "", "BILOU prefix -"),
        ("O A-B A-I", "", "BIO suffix -"),
        ("O B_A I_A", "", "BIO prefix _"),
        ("O b-a i-a", "", "BIO prefix -"),
        ("O B I E S", "", "IOBES prefix -"),
        ("O A_B A_M A_E A_S", "", "BMES suffix _"),
        ("O B-A I-A E-A", "IOBES", "IOBES prefix -"),
        ("O VITAMIN-B HEPATITIS-B", "plain", ""),
        ("O VITAMIN-B HEPATITIS-B", "BIO", "BIO suffix -"),
        ("O B-A I-A", "plain", "plain prefix -"),
        ("O B-A I-A E-A", "", ValueError),  # which: a chunk of one word may be B or E
        ("O VITAMIN-B HEPATITIS-B", "", ValueError),  # which: one kind that begins, or two kinds
        ("O B_FLAT I_BEAM", "", ValueError),
        ("O U-X", "", ValueError),  # neighbours of one word each, or plain
        ("O U-X", "BILOU", "BILOU prefix -"),
        ("O B-A C", "", ValueError),
        ("O A C", "BIO", ValueError),
    ],
)
def test_the_scheme_is_shown_by_the_labels_or_asked_for(labels: str, declared: str, expected: Any) -> None:
    if expected is ValueError:
        with pytest.raises(ValueError, match="labels"):
            scheme_of(tuple(labels.split()), declared)
    else:
        assert scheme_of(tuple(labels.split()), declared) == (Scheme(*expected.split()) if expected else DEFAULT_SCHEME)


@pytest.mark.parametrize(
    ("labels", "gold", "predicted", "f1"),
    [
        (["O", "IDIOM-B", "IDIOM-I"], "IDIOM-B IDIOM-I IDIOM-I O IDIOM-B", "IDIOM-B IDIOM-I O O IDIOM-B", 0.5),
        (["O", "B_X", "I_X"], "B_X I_X I_X O B_X", "B_X I_X O O B_X", 0.5),
        (["O", "B-X", "I-X", "E-X", "S-X"], "B-X I-X E-X O S-X", "B-X E-X O O S-X", 0.5),
        (["O", "B-X", "I-X", "L-X", "U-X"], "U-X U-X O B-X L-X", "B-X L-X O B-X L-X", 0.4),
    ],
)
def test_chunks_are_those_of_the_scheme(
    labels: list[str], gold: str, predicted: str, f1: float, tmp_path: Path
) -> None:
    row = {"id": "1", "tokens": list("abcde"), "tags": gold.split()}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    fields = {name: f"row.{name}" for name in row}
    about = {"name": "t", "type": "labelling", "labels": labels, "data": {"test": "jsonl:rows.jsonl"}, "fields": fields}
    (tmp_path / "t.task.yaml").write_text(json.dumps(about | {"description": "x"}), encoding="utf-8")
    done = figeval.score("t", [{"id": "1", "prediction": predicted.split()}], include_path=tmp_path, name="s")
    (score,) = (score for score in done.record.tasks[0].scores if score.metric == "span_f1")
    assert score.value == pytest.approx(f1)


def test_several_kinds_cannot_be_quoted() -> None:
    context = PromptContext(block=lambda *_: "", labels=("B-A", "I-A", "B-B", "I-B", "O"))
    with pytest.raises(FigevalError, match=r"distinguishes kinds of spans \(A, B\)"):
        next(BY_QUOTES.begin(EXAMPLES[0], context))


# ---- tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected", "stray"),
    [
        ("O O", [], []),
        ("B-A I-A O B-A", [(0, 2, "A"), (3, 4, "A")], []),
        ("B-A B-A", [(0, 1, "A"), (1, 2, "A")], []),
        ("B-A I-B", [(0, 1, "A"), (1, 2, "B")], [1]),
        ("O I-A I-A", [(1, 3, "A")], [1]),
        ("I-A", [(0, 1, "A")], [0]),
        ("MET MET O PUN MET", [(0, 2, "MET"), (3, 4, "PUN"), (4, 5, "MET")], []),
        ("B I O I", [(0, 2, ""), (3, 4, "")], [3]),
    ],
)
def test_chunks(tags: str, expected: list[Any], stray: list[int]) -> None:
    assert chunks(tags.split()) == expected
    assert list(strays(tags.split())) == stray
    odd = "continues no span of its kind, so it is read as B-"
    assert list(LABELLING.oddities(example(tags))) == [(odd, f"tag {index + 1}") for index in stray]


@given(TAGS)
def test_chunks_written_and_read_again_are_the_same(tags: list[str]) -> None:
    spans = chunks(tags)
    written = write_tags(spans, len(tags), ("B-A", "I-A", "B-B", "I-B", "O"))
    assert chunks(written) == spans
    assert not list(strays(written))


@given(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=4))
def test_scores_are_those_of_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    """Its default reading, which is conlleval's, `I-` after `O` and after another kind included."""
    seqeval = pytest.importorskip("seqeval.metrics")
    cut = [(gold[: len(predicted)], predicted[: len(gold)]) for gold, predicted in pairs]
    golds, saids = [gold for gold, _ in cut], [predicted for _, predicted in cut]
    cases = [(example(gold), prediction(tuple(predicted))) for gold, predicted in cut]
    for name, metric in (("span_f1", "f1"), ("span_precision", "precision"), ("span_recall", "recall")):
        expected = getattr(seqeval, f"{metric}_score")(golds, saids, zero_division=0)
        assert (value_of(name, *cases) or 0.0) == pytest.approx(expected)


IOBES = st.lists(st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "I-B", "E-B"]), max_size=7)


@given(IOBES, IOBES)
def test_scores_of_other_schemes_are_those_of_seqeval(gold: list[str], predicted: list[str]) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    gold, predicted = gold[: len(predicted)], predicted[: len(gold)]
    for scheme, suffix in ((Scheme("IOBES"), False), (Scheme("IOBES", "suffix"), True)):
        turned = [
            [tag if tag == "O" or not suffix else f"{tag[2:]}-{tag[0]}" for tag in tags] for tags in (gold, predicted)
        ]
        f1 = value_of("span_f1", (example(turned[0], scheme=scheme), prediction(tuple(turned[1]))))
        expected = seqeval.f1_score([turned[0]], [turned[1]], zero_division=0, suffix=suffix)
        assert (f1 or 0.0) == pytest.approx(expected)
        labels = (
            "O",
            *(
                f"{kind}-{position_tag}" if suffix else f"{position_tag}-{kind}"
                for kind in "AB"
                for position_tag in "BIES"
            ),
        )
        written = write_tags(chunks(turned[0], scheme), len(gold), labels, scheme)
        assert chunks(written, scheme) == chunks(turned[0], scheme)
        assert not list(strays(written, scheme))


# ---- metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", METRIC_CASES["cases"], ids=lambda case: case["why"])
def test_metrics(case: dict[str, Any]) -> None:
    value = None if case["answer"] is None else answer(case["answer"])
    sentence = example(case["gold"], seen=case.get("seen") and tuple(map(tuple, case["seen"])))
    for name, expected in case["expect"].items():
        metric_value = value_of(name, (sentence, prediction(value)))
        assert metric_value == (None if expected is None else pytest.approx(expected)), name
    if value is not None and "span_f1" in case["expect"] and case["expect"]["span_f1"] is not None:
        check_metric(chunk_metrics.span_f1, [(sentence, prediction(value), case["expect"]["span_f1"])])


TIED_TAGS = st.lists(
    st.lists(st.sampled_from(["O", "B-A", "I-A", "I-B"]), min_size=1, max_size=3, unique=True), max_size=5
)


TIED_IOBES = st.lists(
    st.lists(st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "I-B"]), min_size=1, max_size=3, unique=True), max_size=4
)


@given(
    st.one_of(st.tuples(TIED_TAGS, st.just(DEFAULT_SCHEME)), st.tuples(TIED_IOBES, st.just(Scheme("IOBES")))), st.data()
)
def test_ties_are_scored_by_expectation(answered: tuple[list[list[str]], Scheme], data: st.DataObject) -> None:
    """Counts are means over all ways to draw a tag for each word."""
    ties, scheme = answered
    size = len(ties)
    tags = ["O", "B-A", "I-A", "B-B", *(["E-A", "S-A"] if scheme.name else [])]
    gold = data.draw(st.lists(st.sampled_from(tags), min_size=size, max_size=size))
    stretches = [(a, b) for a in range(size) for b in range(a + 1, size + 1)]
    seen = tuple(data.draw(st.lists(st.sampled_from(stretches), unique=True))) if stretches else ()
    sentence = example(gold, seen=seen, scheme=scheme)
    value = tuple(tied[0] if len(tied) == 1 else tuple(tied) for tied in ties)
    draws = [*product(*ties)]
    for name in ("span_f1", "f1_seen", "f1_unseen", "token_f1", "token_acc"):
        count = getattr(chunk_metrics, name).features
        each = np.array([count(sentence, prediction(drawn)) for drawn in draws])
        assert count(sentence, prediction(value)) == pytest.approx(each.mean(axis=0), abs=1e-9), name
    right = np.mean([chunks(drawn, scheme) == chunks(gold, scheme) for drawn in draws])
    assert chunk_metrics.sentence_acc(sentence, prediction(value)) == pytest.approx(right, abs=1e-9)


# ---- replies ---------------------------------------------------------------------------------------------------------


class Says:
    """A model that always gives this reply."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def generate(self, prompts: Sequence[Any]) -> list[Reply]:
        return [self.reply for _ in prompts]


def read(sentence: Any, text: str, finish: Any = "stop") -> Prediction:
    """Read a reply as a run does."""
    context = PromptContext(block=lambda *_, **__: "", labels=LABELS)
    (reading,) = predict(BY_QUOTES, Says(Reply(text=text, finish=finish)), [sentence], context)
    return reading


@pytest.mark.parametrize("case", REPLY_CASES["cases"], ids=lambda case: case["why"])
def test_replies(case: dict[str, Any]) -> None:
    tokens = tuple(REPLY_CASES["tokens"])
    sentence = LabellingExample(id="1", tokens=tokens, tags=None)
    reading = read(sentence, case["reply"], case.get("finish", "stop"))
    words = None if reading.value is None else [[start, end] for start, end, _ in chunks(reading.value)]
    assert (reading.status, words) == (case["status"], case["words"])
    if "found" in case:
        assert chunk_metrics.quotes_found(sentence, reading) == case["found"]


@pytest.mark.parametrize("case", MARKS["words"], ids=lambda case: case["why"])
def test_replies_in_other_scripts(case: dict[str, Any]) -> None:
    example = LabellingExample(id="1", tokens=tuple(case["tokens"]), tags=None, language=case["language"])
    prediction = read(example, case["reply"])
    words = None if prediction.value is None else [[start, end] for start, end, _ in chunks(prediction.value)]
    assert (prediction.status, words) == (case["status"], case["words"])


@given(st.lists(st.sampled_from(REPLY_CASES["tokens"]), min_size=1, max_size=12), st.data())
def test_what_is_quoted_word_by_word_is_found(tokens: list[str], data: st.DataObject) -> None:
    sentence = LabellingExample(id="1", tokens=tuple(tokens), tags=None)
    start = data.draw(st.integers(0, len(tokens) - 1))
    end = data.draw(st.integers(start + 1, len(tokens)))
    quote = " ".join(tokens[start:end])
    reading = read(sentence, json.dumps([quote]))
    if any(sign.isalnum() for sign in quote):
        assert reading.status == "ok"
        quoted_words = " ".join(tokens[start:end]).lower()
        for a, b, _ in chunks(reading.value):
            assert " ".join(tokens[a:b]).lower() == quoted_words or quoted_words in " ".join(tokens[a:b]).lower()


@given(st.text(max_size=80), st.sampled_from(["stop", "length"]))
def test_any_reply_is_read(text: str, finish: Any) -> None:
    reading = read(EXAMPLES[0], text, finish)
    assert (reading.value is None) == (reading.status != "ok")


# ---- expressions and floors ------------------------------------------------------------------------------------------


def test_expressions_are_found_up_to_inflection() -> None:
    english = expressions.Expressions("en")
    english.add(["He", "kicks", "the", "bucket"], ["O", "B-FIG", "I-FIG", "I-FIG"])
    english.add(["the", "bucket"], ["B-FIG", "I-FIG"])
    words = ["She", "Kicked", "the", "buckets", "."]
    assert english.stretches(words) == [(1, 4), (2, 4)]
    assert list(english.longest(words)) == [(1, 4, "FIG")]
    assert english.stretches(["kicked", "her", "bucket"]) == []
    assert expressions.digest(words[1:4], "en") == expressions.digest(["kick", "the", "bucket"], "en")
    assert expressions.lemma("Fässer", "xx") == "fässer"  # a language that the lemmatiser does not have


def wrong(request: Any, words: Any) -> str:
    if len(words) != len(request.words):
        return "not a mapping for each word"
    strange = [word for word in words if set(word) - set(request.labels) or abs(sum(word.values()) - 1) > 1e-4]
    return f"{strange[0]} is no distribution over the labels" if strange else ""


LABELS_WORDS = CapabilityCheck("label_words", [LabelWords(example.tokens, LABELS) for example in EXAMPLES], wrong)


@pytest.mark.parametrize("name", ["chance_label", "no_label", "frequent_label", "seen_expressions"])
def test_floors_keep_to_the_contract(name: str, open_model: Callable[..., Any]) -> None:
    check_model(lambda: open_model(name), examples=EXAMPLES, checks=[LABELS_WORDS])


def test_what_floors_say(open_model: Callable[..., Any]) -> None:
    frequent, seen = open_model("frequent_label"), open_model("seen_expressions")
    for model in (frequent, seen):
        with pytest.raises(ModelError, match="which has none"):
            model.label_words([LabelWords(("feet",), LABELS)])
        model.fit(EXAMPLES)
    ((word, new),) = frequent.label_words([LabelWords(("Feet", "toes"), LABELS)])
    assert word == {"I-FIG": 0.5, "O": 0.5}
    assert max(new, key=new.__getitem__) == OUTSIDE
    (words,) = seen.label_words([LabelWords(("Cold", "feet", "see", "red", "feet"), LABELS)])
    assert [max(word, key=word.__getitem__) for word in words] == ["B-FIG", "I-FIG", "B-FIG", "I-FIG", "O"]
