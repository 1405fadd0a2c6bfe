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
NAMES = {  # stem → its templates
    stem: [f"{stem}.jinja"] if "_default" in stem else [f"{stem}.{wording}en.jinja" for wording in WORDINGS]
    for stem in STEMS
}


def render(name: str, block: str, **extra: Any) -> str:
    return load_template(name).render(block, {**FIELDS, **extra})


def test_four_wordings_of_each_question() -> None:
    names = {name for stem in NAMES if "_default" not in stem for name in NAMES[stem]}
    template_files = {
        f"{room}/{file.name}" for room in ("clue", "isarcasm", "mmfld") for file in (TEMPLATES / room).iterdir()
    }
    assert {name for name in template_files if name.endswith(".en.jinja")} == names


@pytest.mark.parametrize("stem", STEMS)
def test_blocks_ask_and_end_before_the_answer(stem: str) -> None:
    blocks, options = STEMS[stem]
    for name in NAMES[stem]:
        assert load_template(name).blocks == blocks, name
        for block in blocks - {"cloze", "description", "continuation"}:
            text = render(name, block, option=options[0])
            assert text == text.strip(), (name, block)
            assert text.endswith(":"), (name, block)
            assert "\n\n" not in text, f"which parts solved examples: {name} {block}"
            assert "GOLD" not in text, (name, block)
            assert (TEXT in text) == (stem != "isarcasm/which"), (name, block)


@pytest.mark.parametrize("stem", [stem for stem in STEMS if STEMS[stem][0] == LABEL_BLOCKS])
def test_a_cloze_has_one_gap_behind_or_before_the_text(stem: str) -> None:
    for name in NAMES[stem]:
        text = render(name, "cloze")
        assert text.count("[gap]") == 1, name
        assert TEXT in text, name
        assert "GOLD" not in text, name


@pytest.mark.parametrize("stem", [stem for stem in STEMS if "description" in STEMS[stem][0]])
def test_descriptions_differ_by_label_alone(stem: str) -> None:
    """They are compared with the text, so they must not contain it, nor the name of a label as a program spells it."""
    _, options = STEMS[stem]
    for name in NAMES[stem]:
        questions = [render(name, "description", option=option) for option in options]
        assert len(set(questions)) == len(options), name
        for text in questions:
            assert text == text.strip() != "", name
            assert not {"_", "\n"} & set(text), (name, text)
            assert TEXT not in text, (name, text)
            assert "GOLD" not in text, (name, text)


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


@pytest.mark.parametrize("stem", STEMS)
def test_a_missing_text_is_an_error(stem: str) -> None:
    block = min(STEMS[stem][0] & {"word", "list", "letter"})
    for name in NAMES[stem]:
        with pytest.raises(TaskError):
            load_template(name).render(block, {})


@pytest.mark.parametrize("stem", [stem for stem in STEMS if stem != "isarcasm/which"])
def test_markup_in_the_data_is_not_run(stem: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    block = min(STEMS[stem][0] & {"word", "list"})
    for name in NAMES[stem]:
        assert hostile in render(name, block, text=hostile), name
