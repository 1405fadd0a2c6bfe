"""JSON of outside origin: limits before parsing, and one line that says what is wrong and where."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from figeval import RecordError
from figeval.io.json_files import MAX_DEPTH, InvalidJSON, parse_json, read_json, read_model

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


class Point(BaseModel):
    x: int


@given(values)
def test_what_json_writes_is_read_back(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(values, st.integers(1, 6))
def test_the_depth_is_counted_exactly(value: Any, limit: int) -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    if depth(value) <= limit:
        assert parse_json(json.dumps(value), max_depth=limit) == value
    else:
        with pytest.raises(InvalidJSON, match="nested too deeply"):
            parse_json(json.dumps(value), max_depth=limit)


@given(st.text(st.sampled_from('[]{}":,1\\ é')))
def test_any_text_is_read_as_python_reads_it_or_refused_in_one_line(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(InvalidJSON) as error:
            parse_json(text)
        assert "\n" not in str(error.value)
    else:
        assert parse_json(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested too deeply (more than {MAX_DEPTH} levels)"),
        ("[[],[[" * 5_000, "nested too deeply"),
        ("1" * 5_000, "an integer has too many digits"),
        ("", "Expecting value (column 1)"),
        (b'{"a": "\xe9"}', "byte 0xe9 at offset 7 is not utf-8"),
    ],
)
def test_a_text_beyond_the_limits(text: str | bytes, words: str) -> None:
    with pytest.raises(InvalidJSON) as error:
        parse_json(text)
    assert words in str(error.value)


def test_brackets_in_strings_and_side_by_side_are_not_depth() -> None:
    assert parse_json(json.dumps("[" * 100_000)) == "[" * 100_000
    assert parse_json('["\\"[", ' + "[], " * 1_000 + "{}]")[-1] == {}
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(InvalidJSON, match="Expecting value"):
        parse_json("]" * 1_000 + "[" * 1_000)


def test_a_text_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(InvalidJSON, match="larger than 10 bytes"):
        parse_json("[" * 11, max_bytes=10)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ":1: not valid JSON: Expecting value (column 1); run again"),
        (b'{\n"x": }', ":2: not valid JSON: Expecting value (column 6); run again"),
        (b'{"x": 1}\n\xff', ":2: byte 0xff at offset 9 is not utf-8"),
        (b"[" * 100_000, ": not valid JSON: nested too deeply (more than 100 levels); run again"),
        (b'{"x": "a"}', ": x must be an integer"),
        (b"[]", ": it must be a mapping; run again"),
    ],
)
def test_a_damaged_file_is_named_with_the_place_and_the_cure(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "point.json"
    file.write_bytes(content)
    with pytest.raises(RecordError) as error:
        read_model(file, Point, RecordError, cure="run again")
    assert str(error.value).startswith(f"{file}{words}")
    assert "\n" not in str(error.value)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "point.json").write_text("\ufeff" + '{"x": 1}', encoding="utf-8")
    assert read_model(tmp_path / "point.json", Point, RecordError) == Point(x=1)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(RecordError, match="not a regular file"):
            read_json(path, RecordError)
    for path in (tmp_path / "missing", tmp_path / ("x" * 300), Path("a\0b")):
        with pytest.raises(RecordError, match="cannot be read"):
            read_json(path, RecordError)


def test_a_file_that_is_too_large_is_not_read_to_the_end(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(1 << 40)  # a sparse file
    with pytest.raises(RecordError, match="larger than 100 bytes"):
        read_json(tmp_path / "large.json", RecordError, max_bytes=100)
