"""STORAL's templates: four wordings in two languages of which moral, whether this one, what moral, and what story."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from figeval import TaskError
from figeval.testing import load_template

ROOM = files("figeval.builtin.templates") / "storal"
NAMES = sorted(f"storal/{file.name}" for file in ROOM.iterdir() if file.name.endswith(".jinja"))
CHOICES = [name for name in NAMES if "moral." in name]
PAIRS = [name for name in NAMES if "faithfulness." in name]
TEXTS = [name for name in NAMES if name not in (*CHOICES, *PAIRS)]
LETTERS = "ABCDE"
STORY = "A crow sang.\nIts cheese fell."
PAIR = {"left": STORY, "right": "Pride falls.", "gap": "[gap]"}
CHOICE = {"query": STORY, "option": "Be kind.", "options": ("Be kind.", "Run."), "letters": LETTERS}
OUTLINE = ("cheese fell", "crow sang")


def inputs(name: str, outline: tuple[str, ...] = OUTLINE) -> dict[str, Any]:
    fields = (
        {"story": STORY} if "st2mo" in name else {"moral": "Pride falls.", "beginning": "A crow", "outline": outline}
    )
    return {"inputs": fields}


def render(name: str, block: str, variables: dict[str, Any]) -> str:
    return load_template(name).render(block, variables)


def test_four_wordings_of_four_questions_in_two_languages() -> None:
    wordings = ("", "short.", "question.", "instruction.")
    stems, languages = ("moral", "faithfulness", "st2mo", "mo2st"), ("en", "zh")
    names = [f"storal/{s}.{w}{language}.jinja" for s in stems for w in wordings for language in languages]
    assert sorted(names) == NAMES


@pytest.mark.parametrize("name", CHOICES)
def test_the_blocks_of_a_choice(name: str) -> None:
    blocks = {"context", "continuation", "unconditional", "letter"}
    assert load_template(name).blocks == blocks
    texts = {block: render(name, block, CHOICE) for block in blocks}
    assert texts["continuation"] == ("Be kind." if ".zh." in name else " Be kind.")
    assert texts["context"].endswith("\n" + texts["unconditional"])
    assert STORY in texts["context"]
    assert f"{STORY}\n" in texts["letter"]
    assert "\nA. Be kind.\nB. Run.\n" in texts["letter"]
    for block in blocks - {"continuation"}:
        ends(texts[block])


@pytest.mark.parametrize("name", PAIRS)
def test_the_blocks_of_a_pair(name: str) -> None:
    blocks = {"context", "cloze", "word"}
    assert load_template(name).blocks == blocks
    texts = {block: render(name, block, PAIR) for block in blocks}
    assert all(STORY in text and "Pride falls." in text for text in texts.values())
    assert texts["cloze"].count("[gap]") == 1
    yes, no = ("是", "否") if ".zh." in name else ("Yes", "No")
    for block in ("context", "word"):
        ends(texts[block])
        assert yes in texts[block]
        assert no in texts[block]


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_given_is_shown(name: str) -> None:
    text = render(name, "write", inputs(name))
    ends(text)
    for part in (STORY,) if "st2mo" in name else ("Pride falls.", "A crow", *OUTLINE):
        assert part in text


@pytest.mark.parametrize("name", [name for name in TEXTS if "mo2st" in name])
def test_without_an_outline_it_reads_well(name: str) -> None:
    text = render(name, "write", inputs(name, ()))
    ends(text)
    assert not any(odd in text for odd in ("hrase", "短语", "  ", "：。", ": ."))


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_a_story_is_not_run_and_what_is_missing_is_an_error(name: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    block, fields = "context", CHOICE | PAIR | {"query": hostile, "left": hostile}
    if name in TEXTS:
        block, fields = "write", inputs(name)
        fields["inputs"]["story" if "st2mo" in name else "beginning"] = hostile
    assert hostile in render(name, block, fields)
    with pytest.raises(Exception, match="undefined"):
        render(name, block, {})


def test_a_block_that_is_not_there_is_named() -> None:
    with pytest.raises(TaskError, match="has no block 'cloze'"):
        render("storal/moral.en.jinja", "cloze", CHOICE)


def ends(text: str) -> None:
    """An answer may follow at once, and nothing parts solved examples within one."""
    assert text == text.strip()
    assert "\n\n" not in text
    assert text.endswith((":", "："))
