"""Read and write tags of words and the chunks that they form, like conlleval (Tjong Kim Sang and De Meulder 2003).

A tag is `O`, or the kind of a chunk with a letter for the word's position in it. A chunk begins at a word that is the
first of one (`B`) or its only one (`S`, `U`, `W`), and at any other word of a kind that follows another kind, `O`, or
the last word of a chunk (`E`, `L`). Plain tags (`METAPHOR`) have no letter: neighbours with the same tag are one chunk.
This is also the default reading of seqeval (Nakayama 2018), which does not support plain tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

OUTSIDE = "O"
BEGIN, INSIDE, END, SINGLE = "B", "I", "E", "S"  # positions in a chunk
# Schemes by name → their letters; all of them have a letter for the first word of a chunk and one for the others.
SCHEMES: dict[str, dict[str, str]] = {
    "BIO": {"B": BEGIN, "I": INSIDE},
    "IOBES": {"B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE},
    "BILOU": {"B": BEGIN, "I": INSIDE, "L": END, "U": SINGLE},
    "BMES": {"B": BEGIN, "M": INSIDE, "E": END, "S": SINGLE},
    "BMEW": {"B": BEGIN, "M": INSIDE, "E": END, "W": SINGLE},
}
PLAIN_SCHEME = "plain"
ALIASES = {"IOB": "BIO", "IOB2": "BIO", "BIOES": "IOBES", "BILUO": "BILOU", "BMESO": "BMES", "BMEWO": "BMEW"}
PREFIX, SUFFIX = "prefix", "suffix"
LAYOUTS = {  # where the letter is: B-KIND, B_KIND …, KIND-B …
    PREFIX: re.compile(r"(?P<letter>[A-Za-z])(?:(?P<sign>[-_:./])(?P<kind>.*))?", re.DOTALL),
    SUFFIX: re.compile(r"(?:(?P<kind>.*)(?P<sign>[-_:./]))?(?P<letter>[A-Za-z])", re.DOTALL),
}
NO_LABELS = "a labelling task must list its labels, O among them, e.g. labels: [B-IDIOM, I-IDIOM, O]"


class Chunk(NamedTuple):
    """A chunk of the words `start` (included) to `end` (excluded); the kind of a bare `B` or `I` is ""."""

    start: int
    end: int
    kind: str


class Tag(NamedTuple):
    """A tag in its parts: `position` is B, I, E, S, or "" for a plain tag; `kind` is None for `O`."""

    position: str
    kind: str | None


class Scheme(NamedTuple):
    """A way to write tags: the name of the scheme, the layout of its tags, and the sign between letter and kind.

    Without a name, a tag such as `B-KIND` is read by BIO and any other as plain.
    """

    name: str = ""
    layout: str = PREFIX
    sign: str = "-"


DEFAULT_SCHEME = Scheme()


@lru_cache(maxsize=4096)
def parse_tag(tag: str, scheme: Scheme = DEFAULT_SCHEME) -> Tag:
    """Split a tag into the position in a chunk and the kind."""
    if tag == OUTSIDE:
        return Tag("", None)
    if scheme.name:
        name, layout, sign = scheme
        parts = LAYOUTS[layout].fullmatch(tag)
        letters = SCHEMES.get(name, {})
        if parts is None or parts["letter"].upper() not in letters or parts["sign"] not in (None, sign):
            return Tag("", tag)
        return Tag(letters[parts["letter"].upper()], parts["kind"] or "")
    prefix, dash, kind = tag.partition("-")
    return Tag(prefix, kind) if prefix in ("B", "I") and (dash or not kind) else Tag("", tag)


@lru_cache(maxsize=64)
def scheme_of(labels: tuple[str, ...], declared: str = "") -> Scheme:
    """Return the scheme of a task's labels.

    Args:
        labels: labels of the task.
        declared: name of the scheme, or `plain`; empty if the labels are to show it.

    Raises:
        ValueError: the labels have no such scheme, or may have several; the message asks which it is.
    """
    inside = [label for label in labels if label != OUTSIDE]
    if OUTSIDE not in labels or not inside:
        raise ValueError(NO_LABELS)
    usual = [bool(parse_tag(label).position) for label in inside]
    if declared == PLAIN_SCHEME:
        return Scheme(PLAIN_SCHEME) if any(usual) else Scheme()
    if all(usual) and declared in ("", "BIO"):
        return Scheme()  # a task may well have no I-, as that of metaphors of one word
    candidates = list(_candidates(inside))
    if declared:
        if fitting := [scheme for scheme in candidates if set(scheme.name) <= set(SCHEMES[declared])]:
            return fitting[0]._replace(name=declared)
        raise ValueError(f"the labels have not the scheme {declared}: {', '.join(labels)}")
    if scheme := next((scheme for scheme in candidates if scheme.name in SCHEMES), None):
        return scheme
    if candidates:
        raise ValueError(
            f"which scheme do the labels {', '.join(labels)} have? Add it to the fields, as in scheme: \"'IOBES'\" "
            f"({', '.join(SCHEMES)}; or {PLAIN_SCHEME} if the single letters belong to the names)"
        )
    if any(usual):
        raise ValueError(f"labels must all have B- and I-, or all be plain; these are mixed: {', '.join(labels)}")
    return Scheme()


def _candidates(labels: Sequence[str]) -> Iterator[Scheme]:
    """Yield the schemes that labels may have because each of them has a letter.

    The name is that of a scheme if the labels have all of its letters and some kind has each of them. Otherwise, it
    consists of the letters, e.g. `BE`.
    """
    for layout, pattern in LAYOUTS.items():
        parts = [part for label in labels if (part := pattern.fullmatch(label))]
        signs = {part["sign"] for part in parts} - {None}
        kinds_of: dict[str, set[str]] = {}
        for part in parts:
            kinds_of.setdefault(part["letter"].upper(), set()).add(part["kind"] or "")
        letters = set(kinds_of)
        if len(parts) < len(labels) or len(signs) > 1:
            continue
        if any(letters <= set(positions) for positions in SCHEMES.values()):
            complete = next((name for name, positions in SCHEMES.items() if set(positions) == letters), "")
            is_shared = bool(set.intersection(*kinds_of.values()))
            yield Scheme(complete if is_shared and complete else "".join(sorted(letters)), layout, *(signs or {"-"}))


def chunks(tags: Iterable[str], scheme: Scheme = DEFAULT_SCHEME) -> list[Chunk]:
    """Return the chunks of a text, in order."""
    found_chunks: list[Chunk] = []
    start, inside, last_position = 0, None, ""
    for index, tag in enumerate((*tags, OUTSIDE)):
        position, kind = parse_tag(tag, scheme)
        if inside is not None and (position in (BEGIN, SINGLE) or kind != inside or last_position in (END, SINGLE)):
            found_chunks.append(Chunk(start, index, inside))
            inside = None
        if inside is None:
            start, inside = index, kind
        last_position = position
    return found_chunks


def strays(tags: Sequence[str], scheme: Scheme = DEFAULT_SCHEME) -> Iterator[int]:
    """Yield the indexes of tags for later words of a chunk that continue none, and so are read as its first word."""
    previous = Tag("", None)
    for index, tag in enumerate(tags):
        current = parse_tag(tag, scheme)
        if current.position in (INSIDE, END) and (current.kind != previous.kind or previous.position in (END, SINGLE)):
            yield index
        previous = current


def kinds(labels: Iterable[str], scheme: Scheme = DEFAULT_SCHEME) -> tuple[str, ...]:
    """Return the kinds of chunks that labels can form, in their order."""
    kinds_of_labels = (parse_tag(label, scheme).kind for label in labels)
    return tuple(dict.fromkeys(kind for kind in kinds_of_labels if kind is not None))


def write_tags(
    spans: Iterable[Chunk], words: int, labels: Sequence[str], scheme: Scheme = DEFAULT_SCHEME
) -> tuple[str, ...]:
    """Return the tags of a text of `words` words with these chunks, in the labels of a task.

    If the task has no tag for a position in a chunk, that of a similar one is used; if chunks overlap, words belong to
    the first.
    """
    tags = [OUTSIDE] * words
    for start, end, kind in spans:
        single, begin, inside, ending = (_label(order, kind, labels, scheme) for order in ("SBEI", "BI", "IB", "EIB"))
        for index in range(start, end):
            if tags[index] == OUTSIDE:
                middle = inside if index < end - 1 else ending
                tags[index] = single if end - start == 1 else begin if index == start else middle
    return tuple(tags)


def _label(positions: str, kind: str, labels: Sequence[str], scheme: Scheme) -> str:
    """Return the label of a kind with the first of some positions that the task has, or else any label of the kind."""
    label_at = {parse_tag(label, scheme).position: label for label in labels if parse_tag(label, scheme).kind == kind}
    return next((label_at[position] for position in positions if position in label_at), next(iter(label_at.values())))
