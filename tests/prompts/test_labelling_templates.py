"""Prompts that ask for expressions of a sentence: all show its words, say the form of the answer, and run no data."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from figeval import Harness, PromptContext, Reply
from figeval.testing import load_template

PACKS = ("id10m", "meta4xnli", "epie")
FOLDER = files("figeval.builtin.templates")
NAMES = sorted(f"{pack}/{file.name}" for pack in PACKS for file in (FOLDER / pack).iterdir())
TOKENS = ("the", "lake", "had", "cold", "feet", ".")


def render_quotes(name: str, *tokens: str) -> str:
    return load_template(name).render("quotes", {"tokens": tokens or TOKENS})


def test_every_pack_has_four_wordings() -> None:
    assert len(NAMES) == 4 * len(PACKS)


@pytest.mark.parametrize("name", NAMES)
def test_the_words_are_shown_once_and_the_form_of_the_answer(name: str) -> None:
    text = render_quotes(name)
    assert text.count(" ".join(TOKENS)) == 1
    assert text.count('"none"') == 1
    assert re.search(r"line", text)


@pytest.mark.parametrize("name", NAMES)
def test_white_space_is_as_it_should_be(name: str) -> None:
    text = render_quotes(name)
    assert text == text.strip()
    assert "  " not in text
    assert "\n\n" not in text  # which ends an answer
    assert text.endswith(":")


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_the_data_is_not_run(name: str) -> None:
    hostile = ("{{7*7}}", "{%raw%}", "<b>&")
    assert " ".join(hostile) in render_quotes(name, *hostile)


def test_a_solved_example_is_read_as_its_own_answer() -> None:
    tags = ("O", "O", "O", "B-FIG", "I-FIG", "O")
    context = PromptContext(block=lambda *_: "", labels=("B-FIG", "I-FIG", "O"))
    labelling = Harness().task_types.get("labelling")
    reader = next(route.reader for route in labelling.routes if route.reader)
    for example_tags in (tags, ("O",) * 6):
        example = labelling.Example(id="1", tokens=TOKENS, tags=example_tags)
        answer = labelling.few_shot_answer("quotes", example, context)
        assert answer is not None
        assert reader.read(example, context, Reply(text=answer)).value == example_tags
