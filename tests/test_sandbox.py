"""Expressions and templates of third parties: they end soon, always the same way, and fail in one line."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from figeval import DataError, Example, Field, TaskError, TaskType, hookimpl
from figeval.testing import load_template
from tests.typed import examples_of

ROW = {"q": "hello world", "n": 3, "o": ["a", "b", "c"], "d": {"x": 1}}
STEP_MESSAGE = "it takes more than 1,000,000 steps"
LENGTH_MESSAGE = "a text of more than 10,000,000 characters"


class AnyField(Field):
    def read(self, value: Any, row: Any) -> Any:
        return value


@dataclass(frozen=True, kw_only=True)
class AnyExample(Example):
    value: Annotated[Any, AnyField("Any value.")]
    hidden = False


class Anything(TaskType[AnyExample]):
    name = "anything"
    Example = AnyExample
    routes = ()


class Plugin:
    @hookimpl
    def register_task_types(self, register: Any) -> None:
        register(Anything)


def values(source: str, rows: int = 1) -> list[Any]:
    """The values of a field that is this expression, one for each row."""
    fields = {"id": "row_number", "value": source}
    examples: Iterator[Any] = examples_of([ROW] * rows, (), Plugin(), name="t", type="anything", fields=fields)
    return [example.value for example in examples]


def value(source: str) -> Any:
    return values(source)[0]


def render_template(folder: Path, source: str | bytes) -> str:
    block = source if isinstance(source, bytes) else f"{{% block context %}}{source}{{% endblock %}}".encode()
    (folder / "t.jinja").write_bytes(block)
    return load_template("t.jinja", folder).render("context", {"q": "hello", "o": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("row.n + 1", 4),
        ("row.q | upper | replace('L', 'l', count=1)", "HElLO WORLD"),
        ("row.o | map('upper') | join(d=', ')", "A, B, C"),
        ("row.o[::-1] if 'a' in row.o and row.n * 2 == 6 else []", ["c", "b", "a"]),
        ("'%s-%03d' % (row.q, row.n) ~ row.n", "hello world-0033"),
        ("row.q.split(' ') | length", 2),
        ("'a' | center(5)", "  a  "),
        ("'%s' | format(row.q)", "hello world"),
        ("2.567 | round(2)", 2.57),
        ("row.o | batch(2, 'x') | list", [["a", "b"], ["c", "x"]]),
        ("range(99999) | list | length", 99999),
        ("('a word ' * 9999) | wordwrap | trim(' .') | length", 69992),
        ("('a b ' * 99999).strip().rsplit(' ', 1) | last", "b"),
        ("([1851234567890123456] * 3000) | unique | list", [1851234567890123456]),
        ("{row.q: 1} | items | list", [("hello world", 1)]),
    ],
)
def test_what_task_files_need_is_there(source: str, expected: Any) -> None:
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("'a' * 8 * 10**8", STEP_MESSAGE),
        ("(0,) * 10**9", STEP_MESSAGE),
        ("('a' * 9000) | wordwrap(1, wrapstring='x' * 100000)", STEP_MESSAGE),
        ("('a' * 9000) | wordwrap(1, true, 'x' * 100000)", STEP_MESSAGE),
        ("[[[[[1] * 9999]]]] | tojson(indent=9999)", STEP_MESSAGE),
        ("cycler(*('a' * 60000000)).next()", LENGTH_MESSAGE),
        ("('a' * 99999) | replace('', 'b' * 99999)", STEP_MESSAGE),
        ("('a' * 99999).replace('', 'b' * 99999)", STEP_MESSAGE),
        ("(['a'] * 99999) | join('b' * 99999)", STEP_MESSAGE),
        ("('b' * 99999).join(['a'] * 99999)", STEP_MESSAGE),
        ("([range(99999)] * 9999) | map('sum') | list", STEP_MESSAGE),
        ("([range(99999)] * 9999) | map('select') | map('list') | list", STEP_MESSAGE),
        pytest.param(
            "range(99999) | groupby('real.real.real.real.real.real.real.real') | length",
            STEP_MESSAGE,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "range(99999) | map('abs') | sort(attribute='real,real,real,real,real') | length",
            STEP_MESSAGE,
            marks=pytest.mark.slow,
        ),
        ("'%(x)s' * 9999 % {'x': 'a' * 99999}", STEP_MESSAGE),
        ("('a' * 999999).rfind('ab' + 'a' * 499999)", STEP_MESSAGE),
        ("('a' * 999999).rindex('ab' + 'a' * 499999)", STEP_MESSAGE),
        ("('a' * 999999).rsplit('ab' + 'a' * 499999)", STEP_MESSAGE),
        ("('a' * 999999).rpartition('ab' + 'a' * 499999)", STEP_MESSAGE),
        ("('a' * 999999).lstrip('b' * 499999 + 'a')", STEP_MESSAGE),
        ("('a' * 999999) | trim('b' * 499999 + 'a')", STEP_MESSAGE),
        ("('a' * 899999) | wordwrap(1) | length", STEP_MESSAGE),
        ("(' ' * 899999) | wordwrap | length", STEP_MESSAGE),
        ("dict.fromkeys(range(0, 99999 * (2**61 - 1), 2**61 - 1))", "a range of integers of more than 60 bits"),
        ("dict.fromkeys([2**61 - 1] * 99999)", STEP_MESSAGE),
        ("'%999999999d' % 1", "a width of more than 10,000"),
        ("'%*d' % (999999999, 1)", "a width of more than 10,000"),
        ("'%999999999d' | format(1)", "a width of more than 10,000"),
        ("'%0999999999d' % 1", "a width of more than 10,000"),
        ("'a'.ljust(10**9)", "a width of more than 10,000"),
        ("'a' | center(10**9)", "a width of more than 10,000"),
        ("'a' | center(99999999999)", "a width of more than 10,000"),
        ("'a' | indent(width=10**9)", "a width of more than 10,000"),
        ("row.o | batch(10**9, 'x') | list", "a width of more than 10,000"),
        ("row.o | slice(10**9) | list", "a width of more than 10,000"),
        ("row.o | tojson(indent=10**9)", "a width of more than 10,000"),
        ("2.5 | round(10**9)", "a width of more than 10,000"),
        ("[[1]] * 9999 | sum(start=[])", "only numbers can be added up"),
        ("10 ** 5000", "an integer of more than 4,096 bits"),
        ("('f' * 9999) | int(base=16)", "an integer of more than 4,096 bits"),
        ("'{:>999999999}'.format(1)", "access to attribute 'format' of 'str' object is unsafe"),
        ("row.q | attr('format')", "access to attribute 'format' of 'str' object is unsafe"),
        ("row.q.translate({})", "access to attribute 'translate' of 'str' object is unsafe"),
    ],
)
def test_what_takes_too_much_is_refused_before_it_is_made(source: str, words: str) -> None:
    with pytest.raises(TaskError) as error:
        value(source)
    assert words in str(error.value)
    assert "is not allowed in the sandbox" in str(error.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("row.q + 1", 'TypeError: can only concatenate str (not "int") to str'),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("1.5 ** 99999", "OverflowError"),
        ("range(10**9)", "OverflowError: Range too big"),
        ("row.q is divisibleby 2", "TypeError"),
        ("-'a'", "TypeError"),
    ],
)
def test_what_fails_on_its_values(source: str, words: str) -> None:
    with pytest.raises(DataError) as error:
        value(source)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("1e999", "a number is too large"),
        ("1" * 5_000, "Exceeds the limit"),
        ("(" * 50_000, "nested too deeply"),
        ("not " * 20_000 + "1", "nested too deeply"),
        ("1" + "|string" * 5_000, "nested too deeply"),
        ("+".join(["1"] * 3_000), "nested too deeply"),
        ("1 +" * 50_000, "more than 100,000 characters"),
        ("row.o | random", "No filter named 'random'"),
        ("row.o | pprint", "No filter named 'pprint'"),
    ],
)
def test_what_is_no_expression(source: str, words: str) -> None:
    with pytest.raises(TaskError) as error:
        value(source)
    assert words in str(error.value)
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", ["row.o | map(attribute='x') | list", "[row.x]", "{'a': [row.x]}"])
def test_a_missing_name_inside_of_a_value_is_an_error(source: str) -> None:
    """It was the text "Undefined" in `meta`."""
    with pytest.raises(DataError, match=r"(has no attribute|there is no key) 'x'"):
        value(source)


@pytest.mark.parametrize("source", ["[range]", "[row.q.upper]", "{'a': cycler('a')}"])
def test_no_address_of_an_object_is_part_of_a_value(source: str) -> None:
    with pytest.raises(DataError, match="is not a value"):
        value(source)


def test_nothing_random_is_there() -> None:
    with pytest.raises(DataError, match="'lipsum' is undefined"):
        value("lipsum()")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", STEP_MESSAGE),
        ("{% for i in range(99999) %}" + "x" * 50_000 + "{% endfor %}", STEP_MESSAGE),
        pytest.param(
            "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}",
            STEP_MESSAGE,
            marks=pytest.mark.slow,  # 1,000,000 steps of Python
        ),
        ("{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", STEP_MESSAGE),
        (
            "{% set n = namespace(x='a') %}{% for i in range(60) %}"
            "{% set z %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = z %}{% endfor %}",
            STEP_MESSAGE,
        ),
        (
            "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
            STEP_MESSAGE,
        ),
        (
            "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x==1 }}",
            STEP_MESSAGE,
        ),
        (
            "{% set n = namespace(x=1) %}{% for i in range(60) %}"
            "{% set n.x = [namespace(a=n.x), namespace(a=n.x)] %}{% endfor %}{{ n.x }}",
            STEP_MESSAGE,
        ),
        (
            "{% set n = namespace(x=1) %}{% for i in range(60) %}{% set n.x = {1: n.x, 2: n.x}.values() %}{% endfor %}"
            "{{ n.x }}",
            STEP_MESSAGE,
        ),
        (
            "{% set n = namespace(x=(1,)) %}{% for i in range(9999) %}{% set n.x = (n.x,) %}{% endfor %}{{ {n.x: 1} }}",
            "lists are nested more than 100 levels deep",
        ),
        ("{% include 't.jinja' %}", "nested too deeply, or calls itself"),
        ("{{ self.context() }}", "nested too deeply, or calls itself"),
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "nested too deeply, or calls itself"),
        ("{% if 1 %}" * 500 + "{% endif %}" * 500, "template t.jinja: nested too deeply"),
        ("{% for i in o %}" * 30 + "{% endfor %}" * 30, "template t.jinja: too many statically nested blocks"),
        ("{% for x in o recursive %}{{ loop(o) }}{% endfor %}", "recursive loops are not available"),
        ("{{ q + 1 }}", "template t.jinja, block 'context': TypeError: can only concatenate"),
        ("{{ 1 / 0 }}", "template t.jinja, block 'context': ZeroDivisionError"),
        ("{{ 1e999 }}", "template t.jinja: a number is too large"),
        ("{{ lipsum() }}", "'lipsum' is undefined"),
        ("{{ o | random }}", "No filter named 'random'"),
        ("{{ o | map('upper') }}", "a generator cannot be printed; make a list of it"),
        ("{% include q %}", "there is no template 'hello'"),
        (b"{% block context %}caf\xe9{% endblock %}", "t.jinja:1: byte 0xe9 at offset 22 is not utf-8"),
        (b"x" * 100_001, "t.jinja: larger than 100,000 bytes"),
    ],
)
def test_a_template_that_fails_or_takes_too_much(tmp_path: Path, source: str | bytes, words: str) -> None:
    with pytest.raises(TaskError) as error:
        render_template(tmp_path, source)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_template_may_be_long_and_have_long_loops(tmp_path: Path) -> None:
    assert (
        render_template(tmp_path, "{% for a in o -%} {{ a }} {%- if not loop.last %}, {% endif %}{% endfor %}")
        == "a, b, c"
    )
    assert len(render_template(tmp_path, "{% for i in range(99999) %}{{ i }}{% endfor %}")) == 488_885
    assert (
        render_template(tmp_path, "{% filter upper %}{{ q[:3] ~ o[-1] }}{% endfilter %}{{ o }}")
        == "HELC['a', 'b', 'c']"
    )


def test_every_evaluation_has_a_budget_of_its_own() -> None:
    assert values("range(99999) | list | length", rows=20) == [99999] * 20


def test_what_makes_nothing_ends_after_some_seconds_in_every_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("figeval.io.steps.MAX_SECONDS", 0.3)
    endless = "{% for i in o * 9999 %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}"
    with ThreadPoolExecutor() as pool, pytest.raises(TaskError, match=r"it takes more than 0\.3 seconds"):
        pool.submit(render_template, tmp_path, endless).result()
