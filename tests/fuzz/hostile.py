"""Hypothesis strategies for malformed values, and for damaging valid ones."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import strategies as st

TEXTS = (
    *("", " ", "\0", "²", "٣", "nan", "1e999", "\ud800", "\u202e", "\x1b]0;title\x07", "\ufeff", "=1+1", "null"),
    *("/etc/passwd", "../../x", "/dev/zero", "n" * 300, "a" * 5_000, "1" * 5_000, "[" * 3_000, "A, " * 500, "é" * 300),
    *("{{ 1/0 }}", "row", "row.x", "row.q + 1", "range(99999)|list", "'a' * 8 * 10**8", "lipsum()", "-", "*x"),
    *("jsonl:/etc/passwd", "jsonl:../x", "jsonl:", ":", "nobody:x", "yes", "2024-01-02", "__class__", "!!int abc"),
    *("<think>", "</think>", "~nouser/x"),
)
LIMITS = (float("inf"), float("-inf"), float("nan"), 1e308)
NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 10**400, 0.5, -0.5, *LIMITS)
PUT_IN = (b"", b"\xff", b"\0", b"[" * 200, b"{", b"}", b'"', b"\n", b"&a *a", b"\xed\xa0\x80")
DEEP_TREE: Any = None
for _ in range(90):
    DEEP_TREE = [DEEP_TREE]

scalars = st.sampled_from((*TEXTS, *NUMBERS, None, True, False)) | st.text(max_size=8) | st.integers() | st.floats()
values: st.SearchStrategy[Any] = st.recursive(
    scalars | st.just(DEEP_TREE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a value, its own first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(path_inside for key, inner in inner for path_inside in places(inner, (*path, key)))]


def replace_at(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy of a value with another one at a place."""
    if not path:
        return other
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, key: replace_at(value[key], rest, other)}
    return [replace_at(inner, rest, other) if index == key else inner for index, inner in enumerate(value)]


@st.composite
def damaged_values(draw: st.DrawFn, sound: Any) -> Any:
    """A sound value, at one to three places of which something else stands, or a key is missing or too many."""
    value = sound
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(value)))
        if path and isinstance(path[-1], str) and draw(st.integers(0, 3)) == 0:
            other = draw(st.sampled_from(TEXTS))
            parent = value
            for key in path[:-1]:
                parent = parent[key]
            renamed = {(other if key == path[-1] else key): inner for key, inner in parent.items()}
            value = replace_at(value, path[:-1], renamed)
        else:
            value = replace_at(value, path, draw(values))
    return value


@st.composite
def torn(draw: st.DrawFn, text: bytes) -> bytes:
    """A text with some bytes cut out, doubled or put in."""
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        put = draw(st.sampled_from(PUT_IN))
        text = text[:start] + put + text[end:]
    return text


def as_json(value: Any) -> bytes:
    """JSON as Python's careless writers make it: NaN, Infinity and halves of surrogate pairs included."""
    return json.dumps(value).encode()


def as_yaml(value: Any) -> bytes:
    """YAML as PyYAML makes it, halves of surrogate pairs included."""
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
