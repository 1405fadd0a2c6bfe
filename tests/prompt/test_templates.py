"""Every built-in template, block by block, against the exact text that a model reads."""

from __future__ import annotations

from importlib.resources import files

import pytest
from jinja2 import Template, UndefinedError

from figeval.sandbox import environment

TEMPLATES = files("figeval.builtin.templates")
CHOICE = {"query": "A tale.\nIt ends.", "option": "Be kind."}
PAIR = {"left": "He was in hot water.", "right": "He was in trouble.", "gap": "[gap]"}

EXPECTED = {
    ("_default/choice.jinja", "context"): "Question: A tale.\nIt ends.\nAnswer:",
    ("_default/choice.jinja", "continuation"): " Be kind.",
    ("_default/choice.jinja", "unconditional"): "Answer:",
    ("_default/ranking.jinja", "context"): "Text: A tale.\nIt ends.\nBest match:",
    ("_default/ranking.jinja", "continuation"): " Be kind.",
    ("_default/ranking.jinja", "unconditional"): "Best match:",
    ("_default/pairs.jinja", "context"): "First: He was in hot water.\nSecond: He was in trouble.\nRelation:",
    ("_default/pairs.jinja", "cloze"): "First: He was in hot water.\nRelation: [gap]\nSecond: He was in trouble.",
    ("epic/proverb.en.jinja", "context"): "Story: A tale.\nIt ends.\nA fitting proverb:",
    ("epic/proverb.en.jinja", "continuation"): " Be kind.",
    ("epic/proverb.en.jinja", "unconditional"): "A fitting proverb:",
    ("impli/nli.en.jinja", "context"): (
        "Sentence: He was in hot water.\nClaim: He was in trouble.\n"
        "If the sentence is true, is the claim true as well? Yes, No or Maybe?\nAnswer:"
    ),
    ("impli/nli.en.jinja", "cloze"): "He was in hot water? [gap], He was in trouble.",
    ("mini/moral.en.jinja", "context"): "Fable: A tale.\nIt ends.\nMoral:",
    ("mini/moral.en.jinja", "continuation"): " Be kind.",
    ("mini/moral.en.jinja", "unconditional"): "Moral:",
}
NAMES = sorted({name for name, _ in EXPECTED})
# What each block is given: a block that asks for more would fail at run time.
GIVEN = {
    "context": ("query", "left", "right"),
    "continuation": ("option",),
    "unconditional": (),
    "cloze": ("left", "right", "gap"),
}


def compiled(name: str) -> Template:
    return environment().from_string(TEMPLATES.joinpath(*name.split("/")).read_text(encoding="utf-8"))


def render(name: str, block: str, variables: dict[str, str]) -> str:
    template = compiled(name)
    return "".join(template.blocks[block](template.new_context(variables)))


@pytest.mark.parametrize(("name", "block"), sorted(EXPECTED))
def test_a_block_renders_exactly(name: str, block: str) -> None:
    given = {key: value for key, value in (CHOICE | PAIR).items() if key in GIVEN[block]}
    assert render(name, block, given) == EXPECTED[name, block]


@pytest.mark.parametrize("name", NAMES)
def test_no_block_goes_unchecked(name: str) -> None:
    assert set(compiled(name).blocks) == {block for file, block in EXPECTED if file == name}


@pytest.mark.parametrize("name", NAMES)
def test_blanks_belong_to_the_continuation(name: str) -> None:
    """A context that ended in a blank would be tokenised differently from what a label word or option follows."""
    for (file, block), text in EXPECTED.items():
        if file == name and block in {"context", "unconditional"}:
            assert text == text.strip()
            assert text.endswith(":")


@pytest.mark.parametrize("name", [name for name, block in sorted(EXPECTED) if block == "unconditional"])
def test_the_unconditional_block_is_the_end_of_the_context(name: str) -> None:
    assert EXPECTED[name, "context"].endswith("\n" + EXPECTED[name, "unconditional"])


@pytest.mark.parametrize("name", [name for name, block in sorted(EXPECTED) if block == "cloze"])
def test_a_cloze_has_one_gap_with_words_on_both_sides(name: str) -> None:
    before, gap, after = render(name, "cloze", PAIR | {"gap": "\ue000"}).partition("\ue000")
    assert gap
    assert "\ue000" not in after
    assert before.split()
    assert after.strip(" ,.:")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_variable_is_an_error(name: str) -> None:
    with pytest.raises(UndefinedError):
        render(name, "context", {})


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        ("It rained.", "It rained?"),
        ("Did it rain?", "Did it rain?"),
        ("Rain!. ", "Rain?"),
        ("He said “no.”", "He said “no.”?"),
    ],
    ids=["full stop", "question", "several marks", "a quotation keeps its mark"],
)
def test_the_premise_becomes_a_question(left: str, shown: str) -> None:
    assert render("impli/nli.en.jinja", "cloze", PAIR | {"left": left}).startswith(f"{shown} [gap], ")


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_the_data_is_not_run(name: str) -> None:
    hostile = "{{ 7 * 7 }} {% raw %} <b>&"
    assert hostile in render(name, "context", dict.fromkeys(GIVEN["context"], hostile))
