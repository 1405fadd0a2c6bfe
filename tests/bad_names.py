"""Count names that say what happened to a value, not what it is: `python -m tests.bad_names [--limit N] [FILE …]`.

Variables, parameters and attributes whose whole name is a participle, a pronoun or a quantity word; functions whose
whole name is a participle or an adverb; constants whose whole name is an adjective or a quantity word. With a limit,
more names are a failure: `make lint` uses it, so that the number can only fall.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("figeval", "plugins", "tasks", "bench", "tests")
VALUES = frozenset(
    [
        "one",
        "ones",
        "found",
        "own",
        "known",
        "given",
        "asked",
        "wanted",
        "made",
        "told",
        "said",
        "named",
        "kept",
        "whole",
        "apart",
        "others",
        "several",
        "some",
        "few",
        "more",
        "most",
        "such",
        "what",
        "which",
        "where",
        "how",
        "why",
        "here",
        "there",
        "now",
        "then",
        "place",
        "places",
        "mine",
        "theirs",
        "yours",
        "beside",
        "told_apart",
    ]
)
FUNCTIONS = frozenset(
    [
        "asked",
        "given",
        "listed",
        "opened",
        "described",
        "measured",
        "prompted",
        "replaced",
        "named",
        "answered",
        "parsed",
        "reordered",
        "known",
        "augmented",
        "counted",
        "declared",
        "found",
        "folded",
        "joined",
        "checked",
        "told",
        "marked",
        "gathered",
        "made",
        "judged",
        "stored",
        "bounded",
        "installed",
        "loaded",
        "printed",
        "packed",
        "recovered",
        "shared",
        "some",
        "several",
        "also",
        "both",
        "again",
        "apart",
        "alone",
        "moment",
        "number",
        "whole",
        "one",
        "own",
        "kept",
    ]
)
CONSTANTS = frozenset(
    [
        "LONGEST",
        "SHORTEST",
        "LARGEST",
        "SMALLEST",
        "MOST",
        "LEAST",
        "FEW",
        "FEWEST",
        "MANY",
        "NOTHING",
        "NONE",
        "EXACT",
        "OWN",
        "OURS",
        "WHOLE",
        "LATEST",
        "FAR",
        "NEAR",
        "ENOUGH",
        "SEVERAL",
        "ALIKE",
        "WORTH",
        "BARREN",
        "TIGHT",
        "SLACK",
        "LAST",
        "FIRST",
        "ALL",
        "LONG",
        "SEEN",
        "WRITTEN",
        "DECLARED",
        "MISSING",
        "ANSWERED",
        "SINCE",
        "UNSEEN",
        "PLAIN",
        "GIVEN",
        "BOTH",
        "RIGHT",
        "EMPTY",
        "FULL",
        "CHOSEN",
        "JUDGED",
        "NAMED",
        "INCLUDED",
        "REMOVED",
        "OPERATIONAL",
        "OPTIONAL",
        "SPARSE",
        "READABLE",
        "NEEDED",
        "USUAL",
        "KNOWN",
        "UNKNOWN",
        "COMMON",
        "RARE",
        "TINIEST",
        "REST",
        "SAME",
        "OPEN",
        "CLOSED",
        "SPOKEN",
        "SMALL",
        "STRICT",
        "DRAWS",
    ]
)


def bad_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of every such name in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id.lstrip("_") in VALUES:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg.lstrip("_") in VALUES:
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in FUNCTIONS and not is_property(node):
            yield node.lineno, node.name
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name) and target.id.lstrip("_") in CONSTANTS:
                yield target.lineno, target.id


def is_property(function: ast.FunctionDef) -> bool:
    """Return whether a function reads like an attribute: `row.tied` reads well after a noun."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def python_files(folder: str) -> list[Path]:
    """Return the tracked Python files of a folder."""
    command = ["git", "ls-files", "-z", f"{folder}/*.py"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name]


def main() -> None:
    """Print the number of bad names per folder, or each one with its line where files are given."""
    parser = argparse.ArgumentParser(prog="python -m tests.bad_names", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="print the names in these files")
    parser.add_argument("--limit", type=int, help="fail if all folders together have more")
    arguments = parser.parse_args()
    for file in arguments.files:
        for line, name in bad_names(ast.parse(file.read_text(encoding="utf-8"))):
            print(f"{file}:{line}: {name}")
    if arguments.files:
        return
    counts = Counter[str]()
    for folder in FOLDERS:
        counts[folder] = sum(len(list(bad_names(ast.parse(file.read_text("utf-8"))))) for file in python_files(folder))
    print("bad names:", ", ".join(f"{folder} {count}" for folder, count in counts.items()))
    if arguments.limit is not None and counts.total() > arguments.limit:
        sys.exit(f"{counts.total()} names say what happened to a value, more than the limit of {arguments.limit}")


if __name__ == "__main__":
    main()
