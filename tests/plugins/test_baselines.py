"""Chance, random, majority and overlap: closed forms, exact values, independence of batches."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import (
    ChoiceExample,
    Example,
    GenerationExample,
    IndexField,
    ModelError,
    PairExample,
    PairLabel,
    RankingExample,
    SimilarityExample,
    TaskType,
    TextField,
    TextPair,
    TextsField,
)
from figeval.testing import ask, capabilities, harness, predict
from tests.typed import find_route

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/plugins/overlap.json").read_text(encoding="utf-8"))
BASELINES = harness("figeval.builtin.plugins.baselines")
LABELS = ("entailment", "non-entailment")
texts = st.text(max_size=30)
words = st.sampled_from(["rome", "was", "built", "in", "a", "day", "don't", "Rome", "DAY"])
sentences = st.lists(words, max_size=8).map(" ".join)


def pairs(*items: tuple[str, str]) -> list[TextPair]:
    return [TextPair(left, right) for left, right in items]


def baseline(name: str, **options: Any) -> Any:
    with BASELINES.open_model(name, options) as model:
        return model.backend


def test_all_are_registered_with_a_summary():
    guesses, extractors = ("chance", "random", "majority"), ("last_sentence", "whole_text", "oracle")
    assert [entry.name for entry in BASELINES.backends.registry] == [
        *guesses,
        "longest",
        "overlap",
        "echo",
        *extractors,
    ]
    assert all(entry.summary for entry in BASELINES.backends.registry)


@pytest.mark.parametrize("name", ["chance", "random", "majority", "longest", "overlap"])
def test_a_model_name_behind_the_colon_is_refused(name):
    with pytest.raises(ModelError, match=rf"takes nothing after the colon, got 'large'; use --model {name}$"):
        baseline(f"{name}:large")


def test_capabilities_belong_to_the_object():
    assert (
        capabilities(baseline("chance"))
        == capabilities(baseline("majority"))
        == {"score_pairs", "label_pairs", "label_texts", "compare_texts"}
    )
    assert {"score_pairs", "label_pairs", "find_spans"} <= capabilities(baseline("random"))
    assert capabilities(baseline("overlap")) == capabilities(baseline("longest")) == {"score_pairs"}


# ---- chance ----


def test_chance_has_no_preference():
    assert baseline("chance").score_pairs(pairs(("a", "b"), ("c", "d"))) == [0.0, 0.0]
    assert baseline("chance").label_pairs([PairLabel("a", "b", ("x", "y", "z"))]) == [
        {"x": 1 / 3, "y": 1 / 3, "z": 1 / 3}
    ]


# ---- random ----


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=20), st.integers(0, 5))
def test_random_scores_do_not_depend_on_batch_or_order(items, seed):
    model = baseline("random", seed=seed)
    together = model.score_pairs(pairs(*items))
    assert together == [model.score_pairs(pairs(item))[0] for item in items]
    assert together[::-1] == model.score_pairs(pairs(*items[::-1]))
    assert all(0 < score < 1 for score in together)


@given(texts, texts, st.lists(st.sampled_from("abcdef"), min_size=1, unique=True), st.integers(0, 5))
def test_random_probabilities_sum_to_one_whatever_the_order_of_labels(left, right, labels, seed):
    (drawn,) = baseline("random", seed=seed).label_pairs([PairLabel(left, right, tuple(labels))])
    (again,) = baseline("random", seed=seed).label_pairs([PairLabel(left, right, tuple(reversed(labels)))])
    assert math.isclose(sum(drawn.values()), 1) and all(value > 0 for value in drawn.values())
    assert drawn == pytest.approx(again)


def test_random_tells_the_borders_of_texts_apart_and_obeys_the_seed():
    scores = baseline("random").score_pairs(pairs(("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")))
    assert len(set(scores)) == 4
    assert scores != baseline("random", seed=1).score_pairs(pairs(("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")))


def test_random_is_uniform():
    scores = baseline("random").score_pairs(pairs(*((str(i), "x") for i in range(20_000))))
    assert abs(sum(scores) / 20_000 - 0.5) < 4 / math.sqrt(12 * 20_000)  # four standard errors
    tenths = [sum(int(score * 10) == tenth for score in scores) for tenth in range(10)]
    assert sum((count - 2000) ** 2 / 2000 for count in tenths) < 27.9  # chi-squared, 9 degrees, p = .001


def test_random_takes_a_lone_surrogate():
    assert len(baseline("random").score_pairs(pairs(("\ud800", "a")))) == 1


def test_random_is_the_same_on_every_machine():
    """Frozen: a change here changes every published random row."""
    (score,) = baseline("random", seed=7).score_pairs(pairs(("Rome wasn't built in a day", "Haste makes waste")))
    assert score == pytest.approx(0.7310562831175832, abs=1e-15)


# ---- majority ----


def test_majority_gives_label_frequencies():
    model = baseline("majority")
    model.fit(PairExample(id=str(i), left="a", right="b", label=LABELS[i % 4 == 0]) for i in range(8))
    assert model.label_pairs([PairLabel("x", "y", LABELS)]) == [{"entailment": 0.75, "non-entailment": 0.25}]
    assert model.describe() == {"gold_answers": 8, "distinct_answers": 2}


def test_majority_scores_the_texts_of_gold_answers():
    model = baseline("majority")
    model.fit(
        [
            ChoiceExample(id="1", query="q", options=("a", "b"), gold=1),
            ChoiceExample(id="2", query="q", options=("b", "c"), gold=0),
            ChoiceExample(id="3", query="q", options=("b", "c"), gold=None),
            RankingExample(id="4", query="q", candidates=("a", "b", "c"), relevant=frozenset({0, 2})),
            SimilarityExample(id="5", text="a", category="m"),
            GenerationExample(id="6", inputs={"proverb": "p"}, references=("a",)),
        ]
    )
    assert model.score_pairs(pairs(("q", "a"), ("q", "b"), ("q", "c"), ("q", "z"))) == [0.25, 0.5, 0.25, 0.0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingExample(Example):
    """A type that no plugin of figeval knows."""

    text: Annotated[str, TextField("A text.")]
    readings: Annotated[tuple[str, ...], TextsField("Its readings.")]
    right: Annotated[int | None, IndexField("Index of the right one.", of="readings")]

    @property
    def hidden(self) -> bool:
        return self.right is None


class Readings(TaskType[ReadingExample]):
    """Whether a text is meant literally."""

    name = "readings"
    Example = ReadingExample
    gold_fields = ("right",)


def test_majority_counts_the_answers_that_a_task_type_declares():
    """The first reading is right in 18 of 30 examples; one more is hidden."""
    golds = [*[0] * 18, *[1] * 12, None]
    model = baseline("majority")
    model.use_task_type(Readings())
    model.fit(
        ReadingExample(id=str(n), text="t", readings=("plain", "meant"), right=gold) for n, gold in enumerate(golds)
    )
    assert model.score_pairs(pairs(("t", "plain"), ("t", "meant"))) == [0.6, 0.4]
    assert model.label_pairs([PairLabel("t", "", ("plain", "meant"))]) == [{"plain": 0.6, "meant": 0.4}]


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        ("irony", (), ("irony",)),
        (1, ("a", "b"), ("b",)),
        (frozenset({2, 0}), ("a", "b", "c"), ("a", "c")),
        (["b", "a"], (), ("b", "a")),
        (3.0, (), ("3",)),
        (None, ("a",), ()),
        ({"a": 1}, (), ()),
        (True, ("a", "b"), ()),
    ],
)
def test_right_answers_as_texts(value, options, expected):
    model = baseline("majority")
    model.use_task_type(Readings())
    model.fit([ReadingExample(id="1", text="t", readings=options, right=value)])
    assert model.describe() == {"gold_answers": len(expected), "distinct_answers": len(expected)}
    assert all(model.score_pairs(pairs(*(("t", text) for text in expected))))


def test_chance_ties_behind_a_threshold(tmp_path):
    """A score of 0 would always be below it, and the second label right in 3 of 4."""
    rows = [{"id": str(n), "a": "x", "b": "y", "l": "yes" if n == 0 else "no"} for n in range(4)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.task.yaml").write_text(
        'name: t\ntype: pairs\ndata: {test: "jsonl:t.jsonl"}\nlabels: ["yes", "no"]\n'
        "fields: {id: row.id, left: row.a, right: row.b, label: row.l}\nmetrics: [acc, balanced_acc]\n"
    )
    about = {"include_path": (tmp_path,), "routes": {"pairs": "by_threshold"}, "baselines": False}
    (task,) = figeval.run("t", "chance", output_path=tmp_path / "run", **about).record.tasks
    assert (task.route, [score.value for score in task.scores]) == ("by_threshold", [0.5, 0.5])
    assert task.counts["ties"] == 4


def test_majority_without_a_gold_answer_is_chance_and_without_fit_an_error():
    model = baseline("majority")
    with pytest.raises(ModelError, match="before fit"):
        model.score_pairs(pairs(("a", "b")))
    model.fit([PairExample(id="1", left="a", right="b", label=None)])
    assert model.label_pairs([PairLabel("x", "y", LABELS)]) == [{"entailment": 0.5, "non-entailment": 0.5}]
    assert model.score_pairs(pairs(("x", "y"))) == [0.0]


def test_majority_forgets_the_task_before():
    model = baseline("majority")
    model.fit([PairExample(id="1", left="a", right="b", label="entailment")])
    before = model.fingerprint()
    model.fit([PairExample(id="1", left="a", right="b", label="non-entailment")])
    assert model.label_pairs([PairLabel("x", "y", LABELS)]) == [{"entailment": 0.0, "non-entailment": 1.0}]
    assert model.fingerprint() != before


@given(st.lists(st.sampled_from(LABELS), min_size=1))
def test_majority_accuracy_is_that_of_the_most_frequent_label(labels):
    model = baseline("majority")
    model.fit(PairExample(id=str(i), left="a", right="b", label=label) for i, label in enumerate(labels))
    (probabilities,) = model.label_pairs([PairLabel("x", "y", LABELS)])
    best = max(probabilities.values())
    answers = [label for label, p in probabilities.items() if p == best]
    expected = sum(label in answers for label in labels) / len(answers) / len(labels)
    assert math.isclose(expected, max(map(labels.count, LABELS)) / len(labels))


# ---- overlap ----


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
def test_overlap_golden(case):
    assert baseline("overlap").score_pairs(pairs((case["left"], case["right"]))) == [
        case["numerator"] / case["denominator"]
    ]


@given(st.one_of(texts, sentences), st.one_of(texts, sentences))
def test_jaccard_is_symmetric_and_bounded(left, right):
    forth, back = baseline("overlap").score_pairs(pairs((left, right), (right, left)))
    assert forth == back and 0 <= forth <= 1


@given(sentences, sentences)
def test_jaccard_is_one_for_equal_sets_of_words_only(left, right):
    (score,) = baseline("overlap").score_pairs(pairs((left, right)))
    assert (score == 1) == (set(left.lower().split()) == set(right.lower().split()) != set())


def test_equal_ratios_are_exact_ties():
    """1/3 and 2/6 must be one float, or a tie would be broken by rounding."""
    third, sixths = baseline("overlap").score_pairs(pairs(("a b", "b c"), ("a b c d", "c d e f")))
    assert third == sixths


@pytest.mark.slow
def test_overlap_takes_all_of_epic_in_seconds():
    narratives = [" ".join(f"w{(i * 37 + j * j) % 5000}" for j in range(60)) for i in range(2500)]
    proverbs = [" ".join(f"w{(i * 11 + j) % 5000}" for j in range(8)) for i in range(250)]
    began = time.perf_counter()
    scores = baseline("overlap").score_pairs([TextPair(n, p) for n in narratives for p in proverbs])
    assert len(scores) == 625_000
    assert time.perf_counter() - began < 10


@pytest.mark.slow
def test_overlap_remembers_few_texts_of_a_long_stream():
    tracemalloc.start()
    try:
        model = baseline("overlap")
        for number in range(30):
            model.score_pairs(pairs(*((f"text {number}", f"text {number} {other}") for other in range(1000))))
        assert tracemalloc.get_traced_memory()[0] < 10 << 20
    finally:
        tracemalloc.stop()


def test_fingerprints_tell_models_and_seeds_apart():
    prints = [
        baseline("chance").fingerprint(),
        baseline("random").fingerprint(),
        baseline("random", seed=1).fingerprint(),
        baseline("overlap").fingerprint(),
    ]
    assert len(set(prints)) == 4


def test_outputs_pass_through_ask():
    requests = pairs(("a", "b"), ("c", "c"))
    assert ask(baseline("overlap"), requests).values == [0.0, 1.0]


@given(st.lists(sentences, min_size=1, max_size=12), sentences)
def test_overlap_of_a_text_with_many_others_is_that_of_the_pairs(texts: list[str], left: str) -> None:
    model = baseline("overlap")
    example = ChoiceExample(id="1", query=left, options=tuple(texts), gold=None)
    (prediction,) = predict(find_route("choice", "by_pair_score"), model, [example])
    assert list(prediction.scores) == model.score_pairs(pairs(*((left, right) for right in texts)))
