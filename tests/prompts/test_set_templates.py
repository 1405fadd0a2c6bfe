"""Templates of sets in four wordings: ratings, choices, rankings, pairs and explanations."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from figeval.testing import load_template

ROOM = files("figeval.builtin.templates")
STEMS = {  # what is asked → the blocks of its templates
    "figurative/explanation": {"write"},
    "metaphor_paraphrase/rating": {"context", "number"},
    "metaphor_paraphrase/ranking": {"context", "continuation", "unconditional"},
    "analobench/analogy": {"context", "continuation", "unconditional", "letter"},
    "mabl/meaning": {"context", "continuation", "unconditional", "letter"},
    "masalbench/intent": {"context", "continuation", "unconditional", "letter"},
    "masalbench/equivalent": {"context", "continuation", "unconditional", "letter"},
    "g_idiomalign/equivalent": {"context", "continuation", "unconditional", "letter"},
    "clue/concept": {"context", "continuation", "unconditional", "letter"},
    "clue/unit": {"context", "continuation", "unconditional"},
    "danish_metaphors/explanation": {"write"},
    "euroeval/meaning": {"context", "continuation", "unconditional", "letter"},
    "euroeval/ending": {"context", "continuation", "unconditional", "letter"},
    "euroeval/proverb": {"context", "continuation", "unconditional", "letter"},
}
WORDINGS = ("", ".short", ".question", ".instruction")
OTHER_WORDINGS = (
    "masalbench/intent.persian.jinja",
    "masalbench/equivalent.persian.jinja",
    "danish_metaphors/explanation.english.jinja",
    "danish_metaphors/explanation.english_reply.jinja",
)
NAMES = [*(f"{stem}{wording}.jinja" for stem in STEMS for wording in WORDINGS), *OTHER_WORDINGS]
HOSTILE_TEXT = "{{ 7 * 7 }} {% raw %} <b>&"
FIELDS: dict[str, Any] = {
    "query": "A crow sang.",
    "option": "A bird made music.",
    "options": ("A bird made music.", "It rained."),
    "left": "A crow sang.",
    "right": "A bird made music.",
    "gap": "[gap]",
    "words": ("1", "4"),
    "letters": "ABCD",
    "meta": {"source_language": "German", "target_language": "English"},
    "inputs": {
        "premise": "A crow sang.",
        "hypothesis": "A bird made music.",
        "expression": "A crow sang.",
        "example": "",
    },
}


def stem_of(name: str) -> str:
    return name.split(".")[0]


def questions(stem: str) -> list[tuple[str, str]]:
    """Return each template of this stem with each of its blocks that asks."""
    return [(name, block) for name in NAMES if stem_of(name) == stem for block in STEMS[stem] - {"continuation"}]


def render(name: str, block: str, **changes: Any) -> str:
    return load_template(name).render(block, FIELDS | changes)


def test_four_wordings_of_every_question() -> None:
    rooms = {stem.split("/")[0] for stem in STEMS}
    template_files = [
        f"{room}/{file.name}"
        for room in rooms
        for file in (ROOM / room).iterdir()
        if file.name.endswith("jinja") and not file.name.endswith(".en.jinja")
    ]
    assert sorted(template_files) == sorted(NAMES)


def test_a_template_has_the_blocks_of_its_routes() -> None:
    assert {name: load_template(name).blocks for name in NAMES} == {name: STEMS[stem_of(name)] for name in NAMES}


@pytest.mark.parametrize("stem", STEMS)
def test_a_question_shows_the_texts_and_ends_where_the_answer_begins(stem: str) -> None:
    for name, block in questions(stem):
        text = render(name, block)
        assert text == text.strip(), (name, block)
        assert text.endswith(":"), (name, block)
        if block != "unconditional":
            assert "A crow sang." in text, (name, block)
        if block == "letter":
            assert "\nA. A bird made music.\nB. It rained.\n" in text, name
        if {"context", "unconditional"} <= STEMS[stem]:
            assert render(name, "context").endswith("\n" + render(name, "unconditional")), name


def test_the_continuation_owns_its_blank() -> None:
    continued = [name for name in NAMES if "continuation" in STEMS[stem_of(name)]]
    assert {name: render(name, "continuation") for name in continued} == dict.fromkeys(continued, " A bird made music.")


@pytest.mark.parametrize("stem", STEMS)
def test_markup_in_the_data_is_not_run(stem: str) -> None:
    inputs = {"premise": HOSTILE_TEXT, "hypothesis": "h", "expression": HOSTILE_TEXT, "example": HOSTILE_TEXT}
    for name, block in questions(stem):
        if block != "unconditional":
            text = render(name, block, query=HOSTILE_TEXT, left=HOSTILE_TEXT, inputs=inputs)
            assert HOSTILE_TEXT in text, (name, block)


@pytest.mark.parametrize("stem", STEMS)
def test_wordings_differ(stem: str) -> None:
    texts = {render(f"{stem}{wording}.jinja", "context") for wording in WORDINGS if "context" in STEMS[stem]}
    assert len(texts) in (0, len(WORDINGS))
