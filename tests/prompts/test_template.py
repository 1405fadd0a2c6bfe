"""Templates: rendered block by block, sandboxed, strict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from figeval import ChoiceExample, GenerationExample, PairExample, SpanExample, TaskError
from figeval.language.questions import question_keys
from figeval.prompts import Shots, load_template

TEMPLATE = """{% block context %}
{{ query }}
So:
{%- endblock %}
{% block continuation %} {{ option }}{% endblock %}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "t.jinja").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path


def test_blocks_are_rendered_exactly_as_written(folder):
    template = load_template("t.jinja", folder)
    assert template.blocks == {"context", "continuation"}
    assert template.render("context", {"query": "A cat sat."}) == "A cat sat.\nSo:"
    assert template.render("continuation", {"option": "look"}) == " look"


def test_the_task_s_own_template_comes_before_a_built_in_one(folder):
    (folder / "templates" / "_default").mkdir()
    (folder / "templates" / "_default" / "choice.jinja").write_text("{% block context %}own{% endblock %}")
    assert load_template("_default/choice.jinja", folder).render("context", {}) == "own"
    assert "query" not in load_template("_default/choice.jinja").blocks


def test_included_files_count_into_the_checksum(folder):
    file = folder / "templates" / "part.jinja"
    (folder / "templates" / "u.jinja").write_text("{% block context %}{% include 'part.jinja' %}{% endblock %}")
    file.write_text("one {{ query }}")
    before = load_template("u.jinja", folder)
    assert before.render("context", {"query": "?"}) == "one ?"
    file.write_text("two {{ query }}")
    assert before.sha256 != load_template("u.jinja", folder).sha256


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ ''.__class__ }}", "sandbox|unsafe"),
        ("{{ query.__init__.__globals__ }}", "sandbox|unsafe"),
        ("{{ nowhere }}", "'nowhere' is undefined"),
        ("{% for x in range(10**9) %}x{% endfor %}", "."),
    ],
)
def test_what_a_template_may_not_do(folder, source, message):
    (folder / "templates" / "bad.jinja").write_text("{% block context %}" + source + "{% endblock %}")
    with pytest.raises((TaskError, OverflowError), match=message):
        load_template("bad.jinja", folder).render("context", {"query": "x"})


def test_a_template_that_is_not_there_or_leaves_its_folder(folder):
    with pytest.raises(TaskError, match="neither next to its task nor built in"):
        load_template("nowhere.jinja", folder)
    with pytest.raises(TaskError, match="neither next to"):
        load_template("../../secret.jinja", folder)


def test_an_unknown_block_names_near_ones(folder):
    with pytest.raises(TaskError, match="no block 'contxt'; did you mean 'context'"):
        load_template("t.jinja", folder).render("contxt", {})


def pool(clusters):
    return [ChoiceExample(id=str(n), query=f"q{n}", options=("a",), gold=0, cluster=c) for n, c in enumerate(clusters)]


def test_shots_never_share_the_question_s_cluster_and_are_the_same_each_time():
    question = ChoiceExample(id="q", query="?", options=("a",), gold=0, cluster="x")
    shots = Shots(pool("xxyzyz"), 3, seed=1)
    chosen = shots.before(question)
    assert len(chosen) == 3
    assert all(shot.cluster != "x" for shot in chosen)
    assert chosen == Shots(pool("xxyzyz"), 3, seed=1).before(question)
    assert any(chosen != Shots(pool("xxyzyz"), 3, seed=seed).before(question) for seed in range(2, 9))


@pytest.mark.parametrize("shared", [False, True])
def test_shots_are_in_the_question_s_language_as_far_as_there_are_any(shared):
    mixed = [replace(shot, language="zh" if n % 3 == 0 else "en") for n, shot in enumerate(pool("vwxyzvwxyz"))]
    question = ChoiceExample(id="q", query="?", options=("a",), gold=0, language="zh")
    assert [shot.language for shot in Shots(mixed, 4, seed=1, shared=shared).before(question)] == ["zh"] * 4
    filled = [shot.language for shot in Shots(mixed, 6, seed=1, shared=shared).before(question)]
    assert filled == ["zh"] * 4 + ["en"] * 2
    plain = Shots(pool("vwxyz"), 3, seed=1, shared=shared)
    assert len(plain.before(replace(question, language="de"))) == 3


def test_too_few_training_examples():
    question = ChoiceExample(id="q", query="?", options=("a",), gold=0, cluster="x")
    with pytest.raises(TaskError, match="only 1 training example may be shown before it"):
        Shots(pool("xxy"), 2, seed=1).before(question)
    assert Shots((), 0, seed=1).before(question) == []


def test_shared_shots_are_one_order_without_the_question_s_cluster():
    shots = Shots(pool("xxyzyzxyz"), 3, seed=1, shared=True)
    questions = [ChoiceExample(id=f"q{n}", query="?", options=("a",), gold=0, cluster=c) for n, c in enumerate("xyzxw")]
    chosen = [shots.before(question) for question in questions]
    assert all(
        shot.cluster != question.cluster for question, shots in zip(questions, chosen, strict=True) for shot in shots
    )
    assert chosen[0][0].id == chosen[3][0].id
    assert chosen[4] == Shots(shots.pool, 3, seed=1, shared=True).before(questions[4])
    order = [shot.id for shot in Shots(shots.pool, 9, seed=1, shared=True).before(questions[4])]
    for question_shots in chosen:
        indices = [order.index(shot.id) for shot in question_shots]
        assert indices == sorted(indices), "what is left of the one order"
    assert any(chosen[4] != Shots(shots.pool, 3, seed=seed, shared=True).before(questions[4]) for seed in range(2, 9))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("twin", "is_same"),
    [
        (ChoiceExample(id="b", query="he SPILLED the beans ,", options=("He told.", "He ate"), gold=0), True),
        (ChoiceExample(id="b", query="He spilled the beans.", options=("he ate.", "he told."), gold=1), True),
        (ChoiceExample(id="b", query="He spilled the beans.", options=("He hid.", "He told."), gold=1), True),
        (ChoiceExample(id="b", query="He spilled the beans.", options=("He hid.", "He rose."), gold=1), False),
        (ChoiceExample(id="b", query="He spilled the milk.", options=("He ate.", "He told."), gold=1), False),
        (ChoiceExample(id="a", query="Something else.", options=("x", "y"), gold=1), True),
    ],
)
def test_an_example_that_asks_the_same_is_never_shown(shared, twin, is_same):
    question = ChoiceExample(id="a", query="He spilled the beans.", options=("He ate.", "He told."), gold=1)
    other_examples = pool("vwxyz")
    shown = [twin in Shots([twin, *other_examples], 5, seed, shared=shared).before(question) for seed in range(20)]
    assert any(shown) is not is_same
    if is_same:
        with pytest.raises(TaskError, match="only 5 training examples may be shown before it"):
            Shots([twin, *other_examples], 6, 1, shared=shared).before(question)


def test_a_shared_premise_is_no_duplicate_and_marks_of_letters_count():
    def pair(name, left, right):
        return PairExample(id=name, left=left, right=right, label="a")

    question = pair("q", "He kicked the bucket.", "He died.")
    assert Shots([pair("1", question.left, "He kicked a pail.")], 1, 1).before(question)
    with pytest.raises(TaskError, match="may be shown before"):
        Shots([pair("1", "he kicked the bucket", "HE DIED!")], 1, 1).before(question)
    assert Shots([pair("1", "काम", "x")], 1, 1).before(pair("q", "कम", "x")), "a vowel sign makes another word"
    assert Shots([pair("1", "🙂", "🙂")], 1, 1).before(pair("q", "🙃", "🙃")), "texts without letters as they are"


def test_a_probe_does_not_hide_that_an_example_asks_the_same():
    question = ChoiceExample(id="a", query="He spilled the beans.", options=("He ate.", "He told."), gold=1)
    twin, probed = replace(question, id="b"), replace(question, query="")
    shots = Shots([twin, *pool("v")], 1, 1, originals=lambda: iter([question]))
    assert all(twin not in replace(shots, seed=seed).before(probed) for seed in range(9))


def test_inputs_of_a_text_and_parts_of_a_span_are_compared_together():
    def written(name, keyword):
        return GenerationExample(id=name, inputs={"proverb": "Haste makes waste", "k": (keyword,)}, references=("r",))

    def span(name, quotation):
        return SpanExample(id=name, text="He ran.", given=quotation, known="Run!", gold=None)

    for make in (written, span):
        assert question_keys(make("1", "a")) == question_keys(make("2", "A!"))
        assert not question_keys(make("1", "a")) & question_keys(make("2", "b"))
