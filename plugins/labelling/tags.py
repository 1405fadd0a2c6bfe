"""Tags of words and the chunks that they form, as conlleval reads them (Tjong Kim Sang and De Meulder 2003).

A tag is `O`, `B-KIND` or `I-KIND`: a chunk of a kind begins at `B-`, and at an `I-` that follows another kind or `O`.
Plain tags (`METAPHOR`) are read as `I-`: neighbours with the same tag are one chunk. This is also the default reading
of seqeval (Nakayama 2018), which does not support plain tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

OUTSIDE = "O"


class Chunk(NamedTuple):
    """Words `start` to `end`, half-open, of one kind; the kind of a bare `B` or `I` is ""."""

    start: int
    end: int
    kind: str


class Tag(NamedTuple):
    """The parts of a tag: `prefix` is B, I, or "" for a plain tag; `kind` is None for `O`."""

    prefix: str
    kind: str | None


@lru_cache(maxsize=1024)
def parsed(tag: str) -> Tag:
    """Return the parts of a tag."""
    if tag == OUTSIDE:
        return Tag("", None)
    prefix, dash, kind = tag.partition("-")
    return Tag(prefix, kind) if prefix in ("B", "I") and (dash or not kind) else Tag("", tag)


def chunks(tags: Iterable[str]) -> list[Chunk]:
    """Return the chunks of a text, in order."""
    found: list[Chunk] = []
    start, inside = 0, None
    for place, tag in enumerate((*tags, OUTSIDE)):
        prefix, kind = parsed(tag)
        if inside is not None and (prefix == "B" or kind != inside):
            found.append(Chunk(start, place, inside))
            inside = None
        if inside is None:
            start, inside = place, kind
    return found


def strays(tags: Sequence[str]) -> Iterator[int]:
    """Yield the places of `I-` tags that do not continue a chunk, and so are read as `B-`."""
    before = None
    for place, tag in enumerate(tags):
        prefix, kind = parsed(tag)
        if prefix == "I" and kind != before:
            yield place
        before = kind


def kinds(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of chunks that labels can form, in their order."""
    found = (parsed(label).kind for label in labels)
    return tuple(dict.fromkeys(kind for kind in found if kind is not None))


def tagged(found: Iterable[Chunk], words: int, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a text of `words` words with these chunks, in the labels of a task.

    If the task has no tag for the beginning of a chunk, or none for its continuation, the other one is used; if chunks
    overlap, words belong to the first.
    """
    tags = [OUTSIDE] * words
    for start, end, kind in found:
        begin, inside = (_label(prefix, kind, labels) for prefix in "BI")
        for place in range(start, end):
            if tags[place] == OUTSIDE:
                tags[place] = begin if place == start else inside
    return tuple(tags)


def _label(prefix: str, kind: str, labels: Sequence[str]) -> str:
    """Return the label of a kind with a prefix, or else any label of the kind."""
    mine = [label for label in labels if parsed(label).kind == kind]
    return next((label for label in mine if parsed(label).prefix == prefix), mine[0])


def scheme_problem(labels: Sequence[str]) -> str:
    """Return the problem with the labels of a task, or "" if there is none."""
    prefixes = {bool(parsed(label).prefix) for label in labels if label != OUTSIDE}
    if OUTSIDE not in labels or not prefixes:
        return "a labelling task must list its labels, O among them, e.g. labels: [B-IDIOM, I-IDIOM, O]"
    if len(prefixes) > 1:
        return f"labels must all have B- and I-, or all be plain; these are mixed: {', '.join(labels)}"
    return ""
