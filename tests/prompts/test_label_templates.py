"""Templates for single texts: four wordings of each question, in which no right answer shows."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from figeval import TaskError
from figeval.testing import load_template

TEMPLATES = files("figeval.builtin.templates")
WORDINGS = ("", "short.", "question.", "instruction.")
TEXT = "Lovely,\nthe bus left a minute early again."
FIELDS = {
    "text": TEXT,
    "label": "GOLD",
    "labels": frozenset({"GOLD"}),
    "gold": 1,
    "meta": {"form": "idiom", "label": "GOLD"},
    "words": ["Yes", "No"],
    "gap": "[gap]",
    "options": ("Be kind.", "Run."),
    "letters": "ABCD",
}
LABEL_BLOCKS = frozenset({"context", "cloze", "description", "word"})
SET_BLOCKS = frozenset({"decision", "description", "list"})
CHOICE = frozenset({"context", "continuation", "unconditional", "letter"})
STEMS = {  # template → its blocks, and the labels that `option` is
    "_default/classification": (LABEL_BLOCKS, ("sarcastic", "earnest")),
    "_default/multilabel": (SET_BLOCKS, ("irony", "satire", "")),
    "isarcasm/sarcastic": (LABEL_BLOCKS, ("sarcastic", "not_sarcastic")),
    "isarcasm/types": (SET_BLOCKS, ("irony", "rhetorical_question", "")),
    "isarcasm/which": (CHOICE, ("Be kind.", "Run.")),
    "clue/type": (LABEL_BLOCKS, ("simplex", "idiom", "simile", "proverb")),
    "mmfld/figurative": (LABEL_BLOCKS, ("figurative", "literal")),
}
NAMES = [(f"{stem}.{wording}en.jinja", stem) for stem in STEMS if "_default" not in stem for wording in WORDINGS] + [
    (f"{stem}.jinja", stem) for stem in STEMS if "_default" in stem
]


def render(name: str, block: str, **extra: Any) -> str:
    return load_template(name).render(block, {**FIELDS, **extra})


def test_four_wordings_of_each_question() -> None:
    names = {name for name, _ in NAMES if "_default" not in name}
    template_files = {
        f"{room}/{file.name}" for room in ("clue", "isarcasm", "mmfld") for file in (TEMPLATES / room).iterdir()
    }
    assert {name for name in template_files if name.endswith(".en.jinja")} == names


@pytest.mark.parametrize(("name", "stem"), NAMES)
def test_blocks_ask_and_end_before_the_answer(name: str, stem: str) -> None:
    blocks, options = STEMS[stem]
    assert load_template(name).blocks == blocks
    for block in blocks - {"cloze", "description", "continuation"}:
        text = render(name, block, option=options[0])
        assert text == text.strip()
        assert text.endswith(":")
        assert "\n\n" not in text, "which parts solved examples"
        assert "GOLD" not in text
        assert (TEXT in text) == (stem != "isarcasm/which")


@pytest.mark.parametrize(("name", "stem"), [pair for pair in NAMES if STEMS[pair[1]][0] == LABEL_BLOCKS])
def test_a_cloze_has_one_gap_behind_or_before_the_text(name: str, stem: str) -> None:
    text = render(name, "cloze")
    assert text.count("[gap]") == 1
    assert TEXT in text
    assert "GOLD" not in text


@pytest.mark.parametrize(("name", "stem"), [pair for pair in NAMES if "description" in STEMS[pair[1]][0]])
def test_descriptions_differ_by_label_alone(name: str, stem: str) -> None:
    """They are compared with the text, so they must not contain it, nor the name of a label as a program spells it."""
    _, options = STEMS[stem]
    questions = [render(name, "description", option=option) for option in options]
    assert len(set(questions)) == len(options)
    for text in questions:
        assert text == text.strip() != ""
        assert "_" not in text
        assert "\n" not in text
        assert TEXT not in text
        assert "GOLD" not in text


@pytest.mark.parametrize("stem", [stem for stem in STEMS if "_default" not in stem])
def test_wordings_differ(stem: str) -> None:
    blocks, options = STEMS[stem]
    for block in blocks - {"continuation"}:
        questions = {render(f"{stem}.{wording}en.jinja", block, option=options[0]) for wording in WORDINGS}
        assert len(questions) == len(WORDINGS)


@pytest.mark.parametrize("form", ["hyperbole", "idiom", "metaphor", "simile"])
def test_the_form_has_its_article(form: str) -> None:
    article = "an" if form == "idiom" else "a"
    for wording in ("", "question.", "instruction."):
        text = render(f"mmfld/figurative.{wording}en.jinja", "context", meta={"form": form})
        assert f" {article} {form}" in text


@pytest.mark.parametrize(("name", "stem"), NAMES)
def test_a_missing_text_is_an_error(name: str, stem: str) -> None:
    block = min(STEMS[stem][0] & {"word", "list", "letter"})
    with pytest.raises(TaskError):
        load_template(name).render(block, {})


@pytest.mark.parametrize(("name", "stem"), [pair for pair in NAMES if pair[1] != "isarcasm/which"])
def test_markup_in_the_data_is_not_run(name: str, stem: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    block = min(STEMS[stem][0] & {"word", "list"})
    assert hostile in render(name, block, text=hostile)
