"""YAML of outside origin: limits before values are made, and one line that says what is wrong and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from figeval import TaskError
from figeval.io.yaml_files import MAX_DEPTH, InvalidYAML, parse_yaml, read_mapping, yaml_text

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)
NINEFOLD_ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


hidden = st.text(st.sampled_from("a 語\n\t\r\x1b\x85\u200b\u202e\u2028\ufeff\U000e0041'\"\\:#-"))


@given(st.lists(hidden) | st.dictionaries(hidden, hidden), st.booleans(), st.sampled_from([80, 10**9]))
def test_what_is_written_can_be_seen_and_is_read_back(value: Any, is_inline: bool, width: int) -> None:
    text = yaml_text(value, is_inline=is_inline, width=width)
    assert parse_yaml(text) == yaml.safe_load(text) == value
    assert all(letter.isprintable() for line in text.split("\n") for letter in line)


@pytest.mark.slow
@given(values)
def test_what_pyyaml_writes_is_read_back(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value)) == value


@pytest.mark.parametrize(
    "line", ["{'A': 0}[row.gold]", "'AB'.index(row.gold)", "{{ row.gold }}", "[row.a, row.b][0]", "Idioms: a test"]
)
def test_a_value_that_yaml_divides_is_to_be_quoted(line: str) -> None:
    with pytest.raises(InvalidYAML, match="in double quotes"):
        parse_yaml(f"fields:\n  gold: {line}\n")
    assert parse_yaml(f'gold: "{line}"') == {"gold": line}


@given(st.text(st.sampled_from("[]{}:-?&*!|>%@`'\"#, \nab1.~<=\t")))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_yaml(text)
    except InvalidYAML as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 51 + "]" * 51, "nested too deeply (more than 50 levels)"),
        ("[" * 100_000, "nest"),  # newer versions of libyaml refuse it in words of their own
        ("- " * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("? " * 100_000, "nested too deeply"),
        ("a: &x [*x]", "the alias *x refers to a value that contains it"),
        ("a: &x {<<: *x}", "the alias *x refers to a value that contains it"),
        (NINEFOLD_ALIASES, "more than 100,000 values, aliases expanded"),
        ("a: " + "1" * 5_000, "is not of type int, or has too many digits (column 4)"),
        ("a: 0x" + "f" * 5_000, "is not of type int, or has too many digits"),
        ("!!int abc", "'abc' is not of type int"),
        ("!!float abc", "'abc' is not of type float"),
        ("!!bool abc", "'abc' is not of type bool"),
        ("!!timestamp 2024-01-02", "could not determine a constructor"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: b: c", "mapping values are not allowed"),
        ("a: \0", "the character U+0000 is not allowed"),
        ("a: \u00e9\u00e9\0", "the character U+0000 is not allowed"),
        ("a: 1\nb: {c: 1, c: 2}", "the key 'c' is given twice (column 11)"),
        ("a: 1\n'a': 2", "the key 'a' is given twice"),
        ("x: [1, {<<: {a: 1}, <<: {a: 2}}]", "the key '<<' is given twice"),
        ("[a, b", "did not find expected ',' or ']'"),
    ],
)
def test_a_text_beyond_the_limits(text: str, words: str) -> None:
    with pytest.raises(InvalidYAML) as error:
        parse_yaml(text)
    assert words in str(error.value)


def test_dates_stay_texts_and_aliases_are_followed() -> None:
    assert parse_yaml("a: 2024-13-45\nb: 2024-01-02") == {"a": "2024-13-45", "b": "2024-01-02"}
    assert parse_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: *x}}") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}
    assert parse_yaml("a: {<<: {x: 1, y: 1}, x: 2}") == {"a": {"x": 2, "y": 1}}  # a merged key may be overridden
    assert parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: 1\nb: [1", ":3: not valid YAML: "),
        (b"a: 1\nb: \xe9", ":2: byte 0xe9 at offset 8 is not utf-8; convert the file to utf-8"),
        (b"[a]", ": must be a mapping of keys to values"),
        (b"1: a", ": the key 1 is not a text; put it in quotes"),
        (b"a: |\n" + b" x\n" * 400_000, ": larger than 1,048,576 bytes"),
    ],
)
def test_a_damaged_file_is_named_with_the_place(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.yaml").write_bytes(content)
    with pytest.raises(TaskError) as error:
        read_mapping(tmp_path / "t.yaml", TaskError)
    assert str(error.value).startswith(f"{tmp_path / 't.yaml'}{words}")


def test_a_device_is_not_read() -> None:
    with pytest.raises(TaskError, match="/dev/zero: not a regular file"):
        read_mapping(Path("/dev/zero"), TaskError)
