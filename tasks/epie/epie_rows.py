"""Reader of EPIE's files: the rows of `epie:formal_test`, `epie:static_train` and so on.

EPIE has no splits. Ours separate the idioms, so that no idiom of the test split occurs in training: a digest of an
idiom's number, its corpus and a seed assigns it, with all its sentences, to test, dev or train. The rule needs no file.

The files tag the words of an expression that is meant literally like those of an idiom. Here they have no label,
because the tasks ask for figurative use.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.text_files import text_lines
from figeval.errors import DataError
from figeval.io.text import near

CORPORA = {"formal": "Formal", "static": "Static"}
SPLITS = {"test": range(20), "dev": range(20, 30), "train": range(30, 100)}  # of a hundred
SEED = 0
OUTSIDE = "O"
LITERAL = "0"
NAMES = tuple(f"{corpus}_{split}" for corpus in CORPORA for split in SPLITS)


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the sentences of a split: id (`formal:1`, the line), tokens, tags, idiom, use.

    `idiom` numbers the idioms of the corpus in order of first appearance (`formal:17`); `use` is figurative or literal,
    or None in the static corpus, which does not record it.

    Raises:
        DataError: there is no such split, or the files do not match line by line.
    """
    if path not in NAMES:
        raise DataError(f"epie has no split {path!r}{near(path, NAMES)}; it has {', '.join(NAMES)}")
    corpus, _, split = path.partition("_")
    for row in sentences(corpus, context):
        if split_of(row["idiom"]) == split:
            yield row


def split_of(idiom: str, seed: int = SEED) -> str:
    """Return the split of an idiom, by its digest modulo 100, which is as good as a random draw."""
    digest = blake2b(f"{seed}:{idiom}".encode(), digest_size=8).digest()
    part = int.from_bytes(digest, "big") % 100
    return next(split for split, parts in SPLITS.items() if part in parts)


def sentences(corpus: str, context: DataContext) -> Iterator[Row]:
    """Yield all sentences of a corpus, in file order."""
    kinds = ("Words", "Tags", "Candidates", *(["Labels"] if corpus == "formal" else []))
    paths = [fetch(corpus, kind, context) for kind in kinds]
    columns = [[line.strip() for line in text_lines(path)] for path in paths]
    if len({*map(len, columns)}) > 1:
        counts = ", ".join(f"{path.name} {len(lines)}" for path, lines in zip(paths, columns, strict=True))
        raise DataError(f"the files of epie {corpus} do not have the same number of lines: {counts}; fetch them again")
    numbers: dict[str, int] = {}
    for line, (words, tags, candidate, *label) in enumerate(zip(*columns, strict=True), start=1):
        tokens = words.split()
        if len(tokens) != len(tags.split()):
            raise DataError(f"{paths[1]}:{line}: {len(tags.split())} tags for {len(tokens)} words; fetch it again")
        literal = label == [LITERAL]
        yield {
            "id": f"{corpus}:{line}",
            "tokens": tokens,
            "tags": [OUTSIDE] * len(tokens) if literal else tags.split(),
            "idiom": f"{corpus}:{numbers.setdefault(candidate, len(numbers) + 1)}",
            "use": ("literal" if literal else "figurative") if label else None,
        }


def fetch(corpus: str, kind: str, context: DataContext) -> Path:
    """Return the local copy of a file."""
    name = CORPORA[corpus]
    return context.fetch("epie", f"{name}_Idioms_Corpus/{name}_Idioms_{kind}.txt")
