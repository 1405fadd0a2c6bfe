"""Templates that ask for a text, with and without keywords, against the exact text that a model reads."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from jinja2 import UndefinedError

from figeval import TaskError
from figeval.testing import load_template

NARRATIVES = [f"epic/narrative{wording}.en.jinja" for wording in ("", ".question", ".prose", ".paper")]
NAMES = [*NARRATIVES, "_default/generation.jinja"]
EXPECTED_TEXTS = {
    "epic/narrative.en.jinja": (
        "Proverb: Be kind\nKeywords: ran, New York\nWrite a short realistic story of about five sentences that "
        "illustrates the proverb without quoting it, and use all the keywords. Reply with the story and nothing else."
        "\nStory:"
    ),
    "epic/narrative.question.en.jinja": (
        'Question: What could happen to somebody that would show what people mean by "Be kind"? These words have to '
        "occur: ran, New York. Tell it in one paragraph and do not name the saying.\nAnswer:"
    ),
    "epic/narrative.prose.en.jinja": (
        "People say: Be kind. What follows is a little story in which nobody says so, but it comes true.\n"
        "In the words of the story, in their order: ran; New York.\nThe story, in one paragraph:"
    ),
    "epic/narrative.paper.en.jinja": "Be kind </s> ran </s> New York",
    "_default/generation.jinja": (
        "Proverb: Be kind\nKeywords: ran, New York\n"
        "Write the text that these are about. Reply with it and nothing else.\nText:"
    ),
}


def render(name: str, keywords: tuple[str, ...] = ("ran", "New York"), proverb: str = "Be kind") -> str:
    return load_template(name).render("write", {"inputs": {"proverb": proverb, "keywords": keywords}})


@pytest.mark.parametrize("name", NAMES)
def test_exactly(name: str) -> None:
    assert render(name) == EXPECTED_TEXTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_without_keywords_it_reads_well(name: str) -> None:
    text = render(name, keywords=())
    assert "Be kind" in text
    assert not any(odd in text for odd in ("keyword", "Keyword", "words", "  ", "\n\n", ": .", "</s>"))
    assert text == text.strip()


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_may_follow_at_once(name: str) -> None:
    text = render(name)
    assert text == text.strip()
    assert "\n\n" not in text, "which parts solved examples"
    assert text.endswith(":") or "paper" in name, "the paper's form has no words of its own"


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_the_data_is_not_run(name: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    assert hostile in render(name, proverb=hostile)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_input_is_an_error(name: str) -> None:
    with pytest.raises((TaskError, UndefinedError)):
        load_template(name).render("write", {})


def test_every_such_template_is_looked_at() -> None:
    template_files: list[Any] = [*files("figeval.builtin.templates").joinpath("epic").iterdir()]
    assert sorted(f"epic/{file.name}" for file in template_files if file.name.startswith("narrative")) == sorted(
        NARRATIVES
    )
