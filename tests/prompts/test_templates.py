"""Every built-in template, block by block, against the exact text that a model reads."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from figeval import TaskError
from figeval.testing import load_template

TEMPLATES = files("figeval.builtin.templates")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CHOICE = {"query": "A tale.\nIt ends.", "option": "Be kind.", "options": ("Be kind.", "Run."), "letters": LETTERS}
PAIR = {"left": "He was in hot water.", "right": "He was in trouble.", "gap": "[gap]", "words": ["Yes", "No"]}
MCQ_TEXT = "A tale.\nIt ends.\nA. Be kind.\nB. Run.\n"

EXPECTED_TEXTS = {
    ("_default/choice.jinja", "context"): "Question: A tale.\nIt ends.\nAnswer:",
    ("_default/choice.jinja", "continuation"): " Be kind.",
    ("_default/choice.jinja", "unconditional"): "Answer:",
    ("_default/choice.jinja", "letter"): (
        f"Question: {MCQ_TEXT}Reply with the letter of the best answer and nothing else.\nAnswer:"
    ),
    ("_default/ranking.jinja", "context"): "Text: A tale.\nIt ends.\nBest match:",
    ("_default/ranking.jinja", "continuation"): " Be kind.",
    ("_default/ranking.jinja", "unconditional"): "Best match:",
    ("_default/pairs.jinja", "context"): "First: He was in hot water.\nSecond: He was in trouble.\nRelation:",
    ("_default/pairs.jinja", "cloze"): "First: He was in hot water.\nRelation: [gap]\nSecond: He was in trouble.",
    ("_default/pairs.jinja", "word"): (
        "First: He was in hot water.\nSecond: He was in trouble.\n"
        "How do the two relate? Reply with one of these and nothing else: Yes, No.\nRelation:"
    ),
    ("epic/proverb.en.jinja", "context"): "Story: A tale.\nIt ends.\nA fitting proverb:",
    ("epic/proverb.en.jinja", "continuation"): " Be kind.",
    ("epic/proverb.en.jinja", "unconditional"): "A fitting proverb:",
    ("epic/proverb.en.jinja", "letter"): (
        f"Story: {MCQ_TEXT}Which of these proverbs does the story illustrate? Reply with its letter and nothing else."
        "\nA fitting proverb:"
    ),
    ("impli/nli.en.jinja", "context"): (
        "Sentence: He was in hot water.\nClaim: He was in trouble.\n"
        "If the sentence is true, is the claim true as well? Yes, No or Maybe?\nAnswer:"
    ),
    ("impli/nli.en.jinja", "cloze"): "He was in hot water? [gap], He was in trouble.",
    ("impli/nli.en.jinja", "word"): (
        "Sentence: He was in hot water.\nClaim: He was in trouble.\n"
        "If the sentence is true, is the claim true as well? Reply with one word, Yes, No or Maybe, and nothing else."
        "\nAnswer:"
    ),
    ("mini/moral.en.jinja", "context"): "Fable: A tale.\nIt ends.\nMoral:",
    ("mini/moral.en.jinja", "continuation"): " Be kind.",
    ("mini/moral.en.jinja", "unconditional"): "Moral:",
    ("mini/moral.en.jinja", "letter"): (
        f"Fable: {MCQ_TEXT}Which of these is the moral of the fable? Reply with its letter and nothing else.\nMoral:"
    ),
}
NAMES = sorted({name for name, _ in EXPECTED_TEXTS})
# What each block is given: a block that asks for more would fail at run time.
FIELDS_OF_BLOCK = {
    "context": ("query", "left", "right"),
    "continuation": ("option",),
    "unconditional": (),
    "cloze": ("left", "right", "gap"),
    "letter": ("query", "options", "letters"),
    "word": ("left", "right", "words"),
}


# Templates of task types that are put together of others: as what, in which blocks.
RANKING_BLOCKS = [("_default/ranking.jinja", "context"), ("_default/ranking.jinja", "continuation")]
BLOCKS_OF_OTHERS = {
    "_default/joint.jinja": [*RANKING_BLOCKS, ("_default/spans.jinja", "json")],
    "_default/similarity.jinja": RANKING_BLOCKS,
}


def render(name: str, block: str, variables: dict[str, Any]) -> str:
    return load_template(name).render(block, variables)


@pytest.mark.parametrize("name", NAMES)
def test_a_block_renders_exactly(name: str) -> None:
    for block in load_template(name).blocks:
        fields = {key: value for key, value in (CHOICE | PAIR).items() if key in FIELDS_OF_BLOCK[block]}
        assert render(name, block, fields) == EXPECTED_TEXTS[name, block]


def test_every_expected_block_is_there() -> None:
    assert {(name, block) for name in NAMES for block in load_template(name).blocks} == set(EXPECTED_TEXTS)


def test_blanks_belong_to_the_continuation() -> None:
    """A context that ended in a blank would be tokenised differently from what a label word or option follows."""
    for (name, block), text in EXPECTED_TEXTS.items():
        if block in {"context", "unconditional", "letter", "word"}:
            assert text == text.strip(), (name, block)
            assert text.endswith(":"), (name, block)


def test_the_unconditional_block_is_the_end_of_the_context() -> None:
    for (name, block), text in EXPECTED_TEXTS.items():
        if block == "unconditional":
            assert EXPECTED_TEXTS[name, "context"].endswith("\n" + text), name


@pytest.mark.parametrize("name", [name for name, block in sorted(EXPECTED_TEXTS) if block == "cloze"])
def test_a_cloze_has_one_gap_with_words_on_both_sides(name: str) -> None:
    before, gap, after = render(name, "cloze", PAIR | {"gap": "\ue000"}).partition("\ue000")
    assert gap
    assert "\ue000" not in after
    assert before.split()
    assert after.strip(" ,.:")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_variable_is_an_error(name: str) -> None:
    with pytest.raises(TaskError, match="undefined"):
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
    assert hostile in render(name, "context", dict.fromkeys(FIELDS_OF_BLOCK["context"], hostile))


# ---- further prompts ------------------------------------------------------------------------------------------------

PROMPTS = {
    "epic/proverb": ("context", "continuation", "unconditional", "letter"),
    "mini/moral": ("context", "continuation", "unconditional", "letter"),
    "impli/nli": ("context", "cloze", "word"),
}
WORDINGS = ("short", "question", "instruction", "prose")
WORDING_NAMES = [f"{stem}.{wording}.en.jinja" for stem in PROMPTS for wording in WORDINGS]
WRITTEN_ROOMS = ("_default/generation", "epic/narrative")  # looked at in test_written_templates.py
STORIES = ("storal/",)  # looked at in test_storal_templates.py
SETS = (  # looked at in test_set_templates.py
    *("metaphor_paraphrase/", "mabl/", "analobench/", "figurative/", "masalbench/", "g_idiomalign/"),
    *("clue/", "danish_metaphors/", "euroeval/"),
)
QUOTED_ROOMS = ("_default/spans", "epic/alignment")  # looked at in test_quoted_templates.py
LABEL_ROOMS = ("_default/classification", "_default/multilabel", "isarcasm/", "mmfld/")  # in test_label_templates.py
WORDS = ("epie/", "id10m/", "meta4xnli/")  # looked at in test_labelling_templates.py
JUDGE_ROOMS = ("_default/judge",)  # in tests/wings/annotation/test_annotate_judge.py
TESTED_ELSEWHERE = WRITTEN_ROOMS + STORIES + SETS + QUOTED_ROOMS + LABEL_ROOMS + WORDS + JUDGE_ROOMS


def test_every_template_is_looked_at() -> None:
    template_files = [
        f"{room.name}/{file.name}" for room in TEMPLATES.iterdir() if room.is_dir() for file in room.iterdir()
    ]
    template_names = [
        name for name in template_files if name.endswith(".jinja") and not name.startswith(TESTED_ELSEWHERE)
    ]
    assert sorted(template_names) == sorted([*NAMES, *WORDING_NAMES, *BLOCKS_OF_OTHERS])


@pytest.mark.parametrize(
    ("name", "like", "block"), [(name, *pair) for name, pairs in BLOCKS_OF_OTHERS.items() for pair in pairs]
)
def test_a_task_type_that_is_made_of_others_asks_as_they_do(name: str, like: str, block: str) -> None:
    variables = CHOICE | {"option": "o", "text": "t", "given": "g", "known": "k"}
    assert render(name, block, variables) == render(like, block, variables)


BLOCKS = [(name, block) for name in WORDING_NAMES for block in PROMPTS[name.split(".")[0]]]


def render_block(name: str, block: str) -> str:
    stem = name.split(".")[0]
    return render(name, block, PAIR if stem == "impli/nli" else CHOICE)


@pytest.mark.parametrize("stem", PROMPTS)
def test_another_wording_has_the_same_blocks(stem: str) -> None:
    for name in (f"{stem}.en.jinja", *(f"{stem}.{wording}.en.jinja" for wording in WORDINGS)):
        assert load_template(name).blocks == set(PROMPTS[stem]), name


@pytest.mark.parametrize("name", WORDING_NAMES)
def test_another_wording_asks_the_same_question(name: str) -> None:
    stem = name.split(".")[0]
    for block in set(PROMPTS[stem]) - {"continuation", "cloze"}:
        text = render_block(name, block)
        assert text != render_block(f"{stem}.en.jinja", block)
        assert text == text.strip()
        assert text.endswith(":")
        assert "\n\n" not in text, "which parts solved examples"
        fields = PAIR if "impli" in name else CHOICE
        for part in ("query", "left", "right") if block != "unconditional" else ():
            assert fields.get(part, "") in text
        if block == "letter":
            assert "\nA. Be kind.\nB. Run.\n" in text


def test_what_goes_on_is_the_same_in_another_wording() -> None:
    for name, block in BLOCKS:
        if block == "unconditional":
            assert render_block(name, "continuation") == " Be kind.", name
            assert render_block(name, "context").endswith("\n" + render_block(name, "unconditional")), name


def test_another_cloze_has_one_gap_with_words_on_both_sides() -> None:
    for name in [name for name, block in BLOCKS if block == "cloze"]:
        before, gap, after = render_block(name, "cloze").partition("[gap]")
        assert gap, name
        assert "[gap]" not in after, name
        assert before.split(), name
        assert after.strip(" ,.:"), name


@pytest.mark.parametrize("stem", PROMPTS)
def test_wordings_differ_from_each_other(stem: str) -> None:
    for block in set(PROMPTS[stem]) - {"continuation"}:
        assert len({render_block(f"{stem}.{wording}.en.jinja", block) for wording in WORDINGS}) == len(WORDINGS)
