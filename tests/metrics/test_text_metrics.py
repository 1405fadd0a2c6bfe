"""Metrics of written texts: golden cases, sacrebleu as the judge of our sums, and what holds for any text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import GenerationExample, MetricAggregator, Prediction
from figeval.metrics import texts
from figeval.metrics.statistic import as_statistic
from figeval.metrics.texts import FUNCTION_WORDS, ngrams, parts, words
from tests.aggregated import count_in

CASES = json.loads((Path(__file__).parents[1] / "golden" / "texts" / "metrics.json").read_text("utf-8"))
FUNCTIONS = {"bleu4": texts.bleu4, "length": texts.word_count} | {
    name: getattr(texts, name) for name in ("rouge_l", "leakage", "repetition_4", "cut_off")
}
TEXTS = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "a", "mat,", "and", "then", "went", "home.", "Again!"]),
    min_size=1,
    max_size=30,
)


def example(references: Any = ("none",), keywords: Any = (), proverb: str = "", name: str = "1") -> GenerationExample:
    inputs = {"proverb": proverb, "keywords": tuple(keywords)}
    return GenerationExample(id=name, inputs=inputs, references=tuple(references))


def answer(text: str | None, status: Any = "ok", **extra: Any) -> Prediction:
    return Prediction(example_id="1", value=text, status=status, **extra)


@pytest.mark.parametrize("case", CASES, ids=[case["why"][:50] for case in CASES])
def test_golden(case: dict[str, Any]) -> None:
    given_ = example(**{key: case[key] for key in ("references", "keywords", "proverb") if key in case})
    for name in FUNCTIONS.keys() & case["expected"].keys():  # those of keywords are ePiC's
        expected = case["expected"][name]
        value = FUNCTIONS[name](given_, answer(case["text"]))
        assert value == (None if expected is None else pytest.approx(expected, abs=1e-12)), (name, case["why"])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("status", ["refusal", "empty", "truncated", "error", "nan"])
def test_what_was_not_answered_counts_nowhere(name: str, status: str) -> None:
    given_ = example(keywords=["a"], proverb="a stitch in time")
    assert FUNCTIONS[name](given_, answer(None, status, finish="length")) is None
    assert texts.corpus_bleu.features(given_, answer(None, status)) is None


def test_a_text_that_ran_into_the_limit_is_known() -> None:
    assert texts.cut_off(example(), answer("and so", finish="length")) == 1.0
    assert texts.cut_off(example(), answer("The end.", finish="stop")) == 0.0


# ---- BLEU of all texts -----------------------------------------------------------------------------------------------


def score(pairs: list[tuple[str, list[str]]]) -> float | None:
    tally = MetricAggregator("corpus_bleu", as_statistic(texts.corpus_bleu))
    for number, (text, references) in enumerate(pairs):
        count_in(tally, example(references, name=str(number)), answer(text))
    return tally.score().value


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_corpus_bleu_is_sacrebleus(pairs: list[tuple[list[str], list[str]]]) -> None:
    from sacrebleu.metrics.bleu import BLEU

    written = [(" ".join(text), [" ".join(reference)]) for text, reference in pairs]
    of_sacrebleu = BLEU(lowercase=True).corpus_score([t for t, _ in written], [[r[0] for _, r in written]])
    assert score(written) == pytest.approx(of_sacrebleu.score / 100, abs=1e-9)


def test_corpus_bleu_with_two_references_is_sacrebleus() -> None:
    from sacrebleu.metrics.bleu import BLEU

    generator, vocabulary = random.Random(3), ["the", "cat", "sat", "on", "a", "mat", "while", "it", "rained"]
    draw = lambda: " ".join(generator.choices(vocabulary, k=generator.randint(1, 25)))  # noqa: E731
    written = [(draw(), [draw(), draw()]) for _ in range(20)]
    of_sacrebleu = BLEU(lowercase=True).corpus_score(
        [t for t, _ in written], [[r[i] for _, r in written] for i in (0, 1)]
    )
    assert score(written) == pytest.approx(of_sacrebleu.score / 100, abs=1e-9)


def test_corpus_bleu_of_many_sums_at_once_is_that_of_each() -> None:
    sums = np.random.default_rng(0).integers(0, 5, size=(3, 50, 10)).astype(float)
    sums[..., 4:8] += sums[..., :4]
    combined = texts.corpus_bleu.combine(sums)
    assert combined.shape == (3, 50)
    assert np.array_equal(combined[1, 7], texts.corpus_bleu.combine(sums[1, 7]))
    assert not np.isnan(combined).any()


def test_corpus_bleu_says_how_it_counts() -> None:
    assert texts.corpus_bleu.signature is not None
    signature = texts.corpus_bleu.signature()
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:")


# ---- any text --------------------------------------------------------------------------------------------------------


@given(TEXTS, TEXTS, st.lists(st.sampled_from(["cat", "mat", "went home", "dog"]), max_size=4))
def test_shares_are_shares(text: list[str], reference: list[str], keywords: list[str]) -> None:
    given_ = example([" ".join(reference)], keywords, "the cat sat")
    for name in set(FUNCTIONS) - {"length"}:
        value = FUNCTIONS[name](given_, answer(" ".join(text), finish="stop"))
        assert value is None or 0.0 <= value <= 1.0 + 1e-12, name


@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=8))
def test_distinct_adds_up_to_different_over_all(written: list[list[str] | None]) -> None:
    rows = [
        {"status": "empty", "pred": None} if tokens is None else {"status": "ok", "pred": " ".join(tokens)}
        for tokens in written
    ]
    assert texts.distinct_2.family is not None
    distinct = texts.distinct_2.family(rows, ["distinct_1", "distinct_2"], {})
    for n in (1, 2):
        grams = [gram for row in rows if row["pred"] for gram in ngrams(words(row["pred"]), n)]
        features = [pair for pair in distinct[f"distinct_{n}"] if pair is not None]
        assert len(features) == sum(row["status"] == "ok" for row in rows)
        assert sum(pair[0] for pair in features) == len(set(grams))
        assert sum(pair[1] for pair in features) == len(grams)


def test_words() -> None:
    assert words("“Don’t,” said O'Hara's aunt — twice!") == ["don't", "said", "o'hara's", "aunt", "twice"]
    assert parts("He didn’t, it's o'clock in-law") == ["he", "did", "n't", "it", "'s", "o", "'clock", "in", "law"]
    assert list(ngrams(["a", "b", "c"], 2)) == [("a", "b"), ("b", "c")]
    assert not list(ngrams(["a"], 2))
    assert all(words(word) == [word] for word in FUNCTION_WORDS)
