"""Prompts that ask for a quotation: every one shows the three texts, says the form of the answer, and runs no data."""

from __future__ import annotations

import json
import re

import pytest

from figeval import PromptContext, Reply, SpanExample
from figeval.testing import harness, load_template

NAMES = (
    "_default/spans.jinja",
    "epic/alignment.en.jinja",
    *(f"epic/alignment.{wording}.en.jinja" for wording in ("short", "question", "instruction")),
)
TEXTS = {"text": "the lake was calm.", "given": "still waters", "known": "still waters run deep"}


def render_json(name: str, **texts: str) -> str:
    return load_template(name).render("json", TEXTS | texts)


@pytest.mark.parametrize("name", NAMES)
def test_all_texts_are_shown_once_and_the_form_of_the_answer(name: str) -> None:
    text = render_json(name)
    assert text.count(TEXTS["text"]) == 1
    assert len(re.findall(r"still waters(?! run deep)", text)) == 1
    assert text.count(TEXTS["known"]) == 1
    assert text.count('{"quote": "..."}') == 1


@pytest.mark.parametrize("name", NAMES)
def test_white_space_is_as_it_should_be(name: str) -> None:
    text = render_json(name)
    assert text == text.strip()
    assert "  " not in text
    assert "\n\n" not in text  # which ends an answer


@pytest.mark.parametrize("name", NAMES)
def test_the_last_line_is_a_cue_for_the_answer(name: str) -> None:
    example = SpanExample(id="1", gold=None, **TEXTS)
    brief = PromptContext(lambda block, _example, **_: load_template(name).render(block, TEXTS), stop=("\n\n",))
    (_, cue) = brief.prompt("json", example).stop
    assert re.fullmatch(r"\n\w+:", cue)


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_the_data_is_not_run(name: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    assert hostile in render_json(name, text=hostile)


@pytest.mark.parametrize("name", NAMES)
def test_the_form_said_back_is_no_answer(name: str) -> None:
    (form,) = re.findall(r"\{.*?\}", render_json(name))
    assert json.loads(form) == {"quote": "..."}
    spans = harness().task_types.get("spans")
    reader = next(route.reader for route in spans.routes if route.reader)
    context = PromptContext(lambda *_: "")
    example = SpanExample(id="1", gold=None, **TEXTS)
    assert reader.read(example, context, Reply(text=form)).status == "unparseable"


def test_they_are_different_questions() -> None:
    assert len({render_json(name) for name in NAMES}) == len(NAMES)
