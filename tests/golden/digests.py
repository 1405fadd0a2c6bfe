"""Digests of texts and files that quote benchmark data, which may not be committed: counts, numbers and checksums.

A checksum leaves fractions out, which differ from one make of processors to another by their last digits. These are
in the digest as numbers, and are compared as such.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.golden.cases import NUMBER, Tree, steady
from tests.golden.stage import Stage

MAX_NUMBERS = 120  # more of them are summarized
VERSIONS = ("packages", "libraries")  # keys of records
PLAIN_KEY = re.compile(r"[\w@-]+")  # of a record; all others may be texts of a benchmark
ELEMENT = re.compile(r"<(\w+)")
CHART = re.compile(r"^\s*const spec = (\{.*\});$", re.MULTILINE)


def digest(file: Path, stage: Stage) -> Tree:
    """The digest of a file, by its ending; of one that is neither text nor a figure, only its ending."""
    reader = READERS.get(file.suffix)
    return reader(file.read_text("utf-8"), stage) if reader else file.suffix


def digest_text(text: str, stage: Stage) -> Tree:
    """The number of lines of a text, its fractions, and the checksum of everything else but blanks."""
    lines = [" ".join(line.split()) for line in steady(text.rstrip().splitlines(), stage)]
    fractions = [float(number) for line in lines for number in NUMBER.findall(line)]
    return {"lines": len(lines), "sha256": checksum(lines), **numbers([f"{value:.6f}" for value in fractions])}


def digest_record(text: str, stage: Stage) -> Tree:
    """The numbers of a JSON file with the keys above them, and the checksum of everything else that does not vary."""
    record = steady(unversioned(json.loads(text)), stage)
    return {"sha256": checksum([canonical(record)]), **numbers(list(leaves(record)))}


def digest_rows(text: str, stage: Stage) -> Tree:
    """As of text, of JSON Lines without what varies."""
    rows = [steady(unversioned(json.loads(line)), stage) for line in text.splitlines()]
    return digest_text("\n".join(map(canonical, rows)), stage)


def digest_page(text: str, stage: Stage) -> Tree:
    """The chart that an HTML page draws, or its text if there is none."""
    chart = CHART.search(text)
    return digest_record(chart[1], stage) if chart else digest_text(text, stage)


def digest_drawing(text: str, stage: Stage) -> Tree:
    """How many elements of each kind an SVG file has; its texts are cut off where a path of a machine is long."""
    return dict(sorted(Counter(ELEMENT.findall(text)).items()))


READERS: Mapping[str, Callable[[str, Stage], Tree]] = {
    ".json": digest_record,
    ".jsonl": digest_rows,
    ".html": digest_page,
    ".svg": digest_drawing,
    **dict.fromkeys((".csv", ".tsv", ".txt", ".md", ".yaml", ".jinja"), digest_text),
}


def checksum(lines: Sequence[str]) -> str:
    """The SHA-256 of lines without their fractions."""
    return hashlib.sha256("\n".join(NUMBER.sub("#", line) for line in lines).encode()).hexdigest()


def canonical(tree: Tree) -> str:
    """A record on one line, with sorted keys."""
    return json.dumps(tree, ensure_ascii=False, sort_keys=True)


def unversioned(tree: Tree) -> Tree:
    """A record without the versions of libraries."""
    if isinstance(tree, Mapping):
        return {key: unversioned(value) for key, value in tree.items() if key not in VERSIONS}
    return [unversioned(value) for value in tree] if isinstance(tree, list) else tree


def leaves(tree: Tree, path: str = "") -> Iterator[str]:
    """The numbers of a record, each behind its keys: `flexibility[0].correlation 0.045000`."""
    if isinstance(tree, Mapping):
        for key in sorted(tree):
            yield from leaves(tree[key], f"{path}.{key if PLAIN_KEY.fullmatch(key) else '…'}".removeprefix("."))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{path}[{index}]")
    elif isinstance(tree, float):
        yield f"{path} {tree:.6f}"
    elif isinstance(tree, int) and not isinstance(tree, bool):
        yield f"{path} {tree}"


def numbers(number_texts: list[str]) -> Tree:
    """Numbers as they are, or how many there are, and their mean and deviation, if there are many."""
    if len(number_texts) <= MAX_NUMBERS:
        return {"numbers": number_texts} if number_texts else {}
    values = [float(line.rsplit(maxsplit=1)[-1]) for line in number_texts]
    values = [value for value in values if math.isfinite(value)]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return {"numbers": {"n": len(number_texts), "mean": float(f"{mean:.9g}"), "deviation": float(f"{deviation:.9g}")}}
