"""Templates: rendered block by block, sandboxed, strict."""

from __future__ import annotations

import pytest

from figeval import PairExample, TaskError
from figeval.testing import load_template

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


def test_an_unknown_variable_names_what_there_is(folder):
    """A template that suits one of the tasks of a run may not suit the next."""
    example = PairExample(id="1", left="He spilled the beans.", right="He told it.", label="entailment")
    values = {name: getattr(example, name) for name in ("left", "right", "label")}
    (folder / "templates" / "other.jinja").write_text("{% block context %}{{ lefts }} {{ query }}{% endblock %}")
    with pytest.raises(TaskError, match=r"'lefts' is undefined; there are label, left, right; did you mean 'left'"):
        load_template("other.jinja", folder).render("context", values)
