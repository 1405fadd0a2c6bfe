"""TF-IDF against scikit-learn itself, and that no pair depends on its neighbours."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

import figeval
from figeval import DataError, Harness, ModelError, PairExample, RankingExample, TextPair, pair_scores

PROVERBS = ("rome was not built in a day", "haste makes waste", "time is money", "money is the root of all evil")
NARRATIVES = ("He rushed and wasted the money.", "It took years to build the house.", "Zzz qqq", "")
sentences = st.lists(st.sampled_from(" ".join(NARRATIVES + PROVERBS).split()), max_size=8).map(" ".join)
WORDS = ("rome", "time", "money", "haste", "makes", "waste", "is", "the", "zzz", "built", "zyx")
MAX_SEPARATE_OPTIONS = 4096  # more are sent in one request
GRID = [TextPair(narrative, proverb) for narrative in NARRATIVES for proverb in PROVERBS]


def tfidf(model: str = "", **options: Any) -> Any:
    with Harness().open_model(f"tfidf:{model}" if model else "tfidf", options) as opened:
        return opened.backend


def fit_model(narratives=NARRATIVES, proverbs=PROVERBS) -> Any:
    model = tfidf()
    model.fit(
        RankingExample(id=str(i), query=text, candidates=proverbs, relevant=frozenset({0}))
        for i, text in enumerate(narratives)
    )
    return model


def many_pairs(left: str, rights: tuple[str, ...]) -> Any:
    """The request of an example with so many candidates that they are scored together."""
    (request,) = next(pair_scores(left, rights * (MAX_SEPARATE_OPTIONS // len(rights) + 1)))
    return request


def cosines_of_library(texts, pairs) -> list[float]:
    vectorizer = TfidfVectorizer().fit(dict.fromkeys(texts))
    return [float((vectorizer.transform([p.left]) @ vectorizer.transform([p.right]).T)[0, 0]) for p in pairs]


def test_equals_a_direct_computation():
    vectorizer = TfidfVectorizer().fit([NARRATIVES[0], *PROVERBS, *NARRATIVES[1:]])  # every text once
    expected = (vectorizer.transform(NARRATIVES) @ vectorizer.transform(PROVERBS).T).toarray().ravel()
    assert fit_model().score_pairs(GRID) == pytest.approx(expected, abs=1e-15)


def test_a_text_without_a_known_word_scores_exactly_zero_with_everything():
    assert fit_model(("rome", "haste")).score_pairs([TextPair("zzz", p) for p in PROVERBS]) == [0.0] * 4
    assert fit_model().score_pairs([TextPair("", p) for p in PROVERBS]) == [0.0] * 4


def test_scores_do_not_depend_on_the_batch():
    """Pairs are multiplied in blocks of some thousands."""
    model, texts = fit_model(), [f"{a} {b} {b}" for a in WORDS for b in WORDS]
    requests = [TextPair(left, right) for left in texts for right in texts]
    assert len(requests) > 10_000
    together = model.score_pairs(requests)
    parts = [requests[start : start + 1_201] for start in range(0, len(requests), 1_201)]
    assert [score for part in parts for score in model.score_pairs(part)] == together
    assert [model.score_pairs([request])[0] for request in requests[::97]] == together[::97]


def test_fit_counts_each_text_once_and_streams():
    seen = []

    def examples():
        for i in range(3):
            seen.append(i)
            yield PairExample(id=str(i), left="money money", right=f"waste {i}", label=None)

    model = tfidf()
    model.fit(examples())
    assert seen == [0, 1, 2]
    pairs = [TextPair("money waste", "money"), TextPair("money waste", "waste")]
    expected = cosines_of_library(["money money", "waste 0", "waste 1", "waste 2"], pairs)
    assert model.score_pairs(pairs) == pytest.approx(expected, abs=1e-15)


@pytest.mark.slow
def test_word_weights_are_those_of_the_library_however_texts_repeat():
    """Repeated texts are recognized among tens of thousands of others."""
    repeated = [*NARRATIVES, *PROVERBS, "Über Äpfel: don't 12 x"]
    texts = [*repeated, *(f"time{number % 301} money{number // 301}" for number in range(140_000)), *repeated]
    model = tfidf()
    model.fit(PairExample(id="1", left=left, right=right, label=None) for left, right in pairwise(texts))
    pairs = [*GRID, TextPair("money is time7", "time7 money7"), TextPair("über äpfel", "don't waste äpfel")]
    assert model.score_pairs(pairs) == pytest.approx(cosines_of_library(texts, pairs), abs=1e-15)


def test_before_fit_and_without_words_the_error_says_so():
    with pytest.raises(ModelError, match="before fit"):
        tfidf().score_pairs(GRID)
    with pytest.raises(DataError, match="cannot be fitted to the texts of this task: empty vocabulary"):
        fit_model(("a",), ("b", "c"))
    with pytest.raises(ModelError, match="use --model tfidf"):
        tfidf("large")


@given(st.lists(sentences, min_size=1, max_size=12), sentences)
@pytest.mark.slow
def test_a_text_and_many_others_score_as_pairs_do(texts, left):
    model = fit_model((*NARRATIVES, *PROVERBS))
    for rights in (tuple(texts), PROVERBS, tuple(texts)):
        request = many_pairs(left, rights)
        expected = model.score_pairs([TextPair(left, right) for right in request.rights])
        assert model.score_many(request).tolist() == expected


def test_many_others_are_vectorized_anew_after_a_fit():
    model = fit_model()
    before = model.score_many(many_pairs(NARRATIVES[0], PROVERBS)).tolist()
    model.fit([PairExample(id="1", left="wasted rushed", right="rushed money", label=None)])
    again = model.score_many(many_pairs(NARRATIVES[0], PROVERBS)).tolist()
    assert again != before
    assert again[: len(PROVERBS)] == model.score_pairs([TextPair(NARRATIVES[0], right) for right in PROVERBS])


def test_no_requests_no_scores():
    assert fit_model().score_pairs([]) == []


def test_fingerprint_changes_with_the_texts():
    unfitted = tfidf().fingerprint()
    assert "fitted=no" in unfitted
    assert len({unfitted, fit_model().fingerprint(), fit_model(("other",)).fingerprint()}) == 3
    assert fit_model().fingerprint() == fit_model().fingerprint()


def test_describe_tells_the_size_of_the_vocabulary_and_where_the_weights_are_from():
    vocabulary = set(re.findall(r"\w\w+", " ".join(NARRATIVES + PROVERBS).lower()))
    about = fit_model().describe()
    assert (about["vocabulary"], about["word_weights"]) == (len(vocabulary), "test")
    assert "fit=train" in about["warnings"][0]
    assert tfidf(fit="train").describe() == {"word_weights": "train", "warnings": []}


def test_word_weights_from_the_training_split(tmp_path):
    """To these weights the words that only the test has are unknown, so the second option is the nearer one."""
    rows = {
        "train": [{"id": "1", "q": "the cat sat", "o": ["the cat", "the mat"], "g": 0}],
        "test": [{"id": "1", "q": "the cat", "o": ["the cat", "the cat zyzzyva"], "g": 0}],
    }
    for split, rows_of_split in rows.items():
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of_split))
    task = "name: {}\ntype: choice\nfields: {{id: row.id, query: row.q, options: row.o, gold: row.g}}\ndata: {}\n"
    test, train = '{test: "jsonl:test.jsonl"}', '{test: "jsonl:test.jsonl", train: "jsonl:train.jsonl"}'
    (tmp_path / "both.task.yaml").write_text(task.format("both", train))
    (tmp_path / "bare.task.yaml").write_text(task.format("bare", test))
    about = {"include_path": (tmp_path,), "baselines": False}
    values = {}
    for fit in ("test", "train"):
        run = figeval.run("both", "tfidf", model_args={"fit": fit}, output_path=tmp_path / fit, **about)
        values[fit] = run.record.tasks[0].scores[0].value
    assert values == {"test": 1.0, "train": 0.5}
    with pytest.warns(figeval.FigevalWarning, match="bare failed"):
        failed = figeval.run("both,bare", "tfidf", model_args={"fit": "train"}, output_path=tmp_path / "none", **about)
    assert [task.status for task in failed.record.tasks] == ["done", "failed"]
    assert "is to learn from the split train, which bare lacks" in failed.record.tasks[1].error
    with pytest.raises(ModelError, match="write fit=test or fit=train"):
        tfidf(fit="dev")


@pytest.mark.slow
def test_all_of_epic_in_seconds():
    narratives = tuple(" ".join(f"w{(i * 37 + j * j) % 5000}" for j in range(60)) for i in range(2500))
    proverbs = tuple(" ".join(f"w{(i * 11 + j) % 5000}" for j in range(8)) for i in range(250))
    model = fit_model(narratives, proverbs)
    began = time.perf_counter()
    assert len(model.score_pairs([TextPair(n, p) for n in narratives for p in proverbs])) == 625_000
    assert time.perf_counter() - began < 10
