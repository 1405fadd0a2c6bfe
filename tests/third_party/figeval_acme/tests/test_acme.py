"""Tests of the plugin itself, with what a plugin author can import."""

from collections import Counter

import pytest
from figeval_acme.margin import margin
from figeval_acme.similes import acme_similes
from figeval_acme.trigrams import Trigrams

from figeval import ChoiceExample, Prediction, TextPair
from figeval.testing import check_metric, check_model

EXAMPLE = ChoiceExample(id="1", query="?", options=("a", "b", "c"), gold=1)


def test_similes_are_balanced():
    labels = Counter(example.label for example in acme_similes.examples())
    assert labels == {"follows": 8, "does not follow": 8}


@pytest.mark.parametrize("size", [2, 3])
def test_the_model_keeps_to_the_contract(size):
    check_model(lambda: Trigrams("", size=size))


def test_another_size_is_another_model():
    assert Trigrams("", size=2).fingerprint() != Trigrams("", size=3).fingerprint()


def test_equal_texts_are_closest():
    same, near, far = Trigrams("").score_pairs(
        [TextPair("a bell", "a bell"), TextPair("a bell", "bells"), TextPair("a bell", "mud")]
    )
    assert same == 1.0
    assert same > near > far


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((0.1, 0.5, 0.3), 0.2), ((0.6, 0.5, 0.3), -0.1), ((0.5, 0.5, 0.5), 0.0)],
)
def test_margin(scores, expected):
    prediction = Prediction(example_id="1", value=0, scores=scores)
    assert margin(EXAMPLE, prediction) == pytest.approx(expected)


def test_the_metric_keeps_to_the_contract():
    certain = Prediction(example_id="1", value=1, scores=(0.1, 0.5, 0.3))
    tied = Prediction(example_id="1", value=0, scores=(0.5, 0.5, 0.3), tied=2)
    check_metric(margin, [(EXAMPLE, certain, 0.2), (EXAMPLE, tied, 0.0)])


def test_margin_of_no_answer_is_unknown():
    assert margin(EXAMPLE, Prediction(example_id="1", value=None, status="nan")) is None
