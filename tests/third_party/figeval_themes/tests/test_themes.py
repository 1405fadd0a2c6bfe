"""Tests of the plugin itself, with what a plugin author can import."""

import pytest
from figeval_themes.labelling import Themes, ThemesExample
from figeval_themes.metrics import MACRO_F1, MICRO_F1, exact
from figeval_themes.sayings import LABELS, themes_sayings

from figeval import Prediction
from figeval.testing import check_metric, check_task_type

TWO_THEMES = ThemesExample(id="1", text="t", themes=frozenset({"greed", "pride"}))


def said(*labels, open=()):
    return Prediction(example_id="1", value=frozenset(labels), tied_labels=open, tied=2 ** len(open))


def test_the_task_type_keeps_to_the_contract():
    rows = [
        {"id": "1", "text": "A full purse has many cousins.", "themes": ["greed", "friendship"]},
        {"id": "2", "text": "It rains on every roof.", "themes": []},
    ]
    check_task_type(Themes, rows, labels=LABELS, replies=["Greed, pride.", "none", "greed\n- pride", "greed, rain"])


@pytest.mark.parametrize("metric", [exact, MICRO_F1, MACRO_F1])
def test_the_metrics_keep_to_the_contract(metric):
    cases = [
        (TWO_THEMES, said("greed", "pride"), 1.0),
        (TWO_THEMES, said("patience"), 0.0),
        (TWO_THEMES, said(open=LABELS)),
    ]
    check_metric(metric, cases, labels=LABELS)


def test_no_preference_is_scored_by_expectation():
    assert exact(TWO_THEMES, said(open=LABELS)) == 1 / 16
    assert exact(TWO_THEMES, said("greed", open=("pride",))) == 0.5
    assert exact(TWO_THEMES, said("patience", open=("pride",))) == 0.0


def test_some_sayings_have_several_themes_and_one_has_none():
    counts = [len(example.themes) for example in themes_sayings.examples()]
    assert sorted(set(counts)) == [0, 1, 2]
