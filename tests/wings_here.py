"""The wings of this checkout: a wing is a folder that may be deleted, and what needs it is skipped then.

A test elsewhere than in `tests/wings/` that uses the Python function of a wing is marked `@pytest.mark.wing("NAME")`.
Its commands need no mark: a test that calls one is skipped by the helper that calls it, because the table of
`docs/wings.md` says which wing has which command. A module of tests that imports a wing at its top is skipped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import figeval

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def is_here(wing: str) -> bool:
    return (ROOT / "figeval/wings" / wing).is_dir()


@cache
def commands() -> dict[str, str]:
    """Command → wing, for all built-in wings, whether they are here or not."""
    rows = ROW.findall((ROOT / "docs/wings.md").read_text(encoding="utf-8"))
    return {command: wing for wing, names in rows for command in re.findall(r"\w+", names)}


def absent(wings: Iterable[str]) -> str:
    """Those of the wings that are not here, as a reason to skip a test; empty if all are."""
    missing = sorted({wing for wing in wings if not is_here(wing)})
    return f"needs {', '.join(f'figeval/wings/{wing}' for wing in missing)}" if missing else ""


def absent_command(words: Sequence[object]) -> str:
    """The reason why the command `figeval WORDS` cannot be run; empty if it can."""
    return absent([commands()[str(words[0])]] if words and str(words[0]) in commands() else [])


def require_command(words: Sequence[object]) -> None:
    """Skip the test if the command belongs to a wing that is not here."""
    if reason := absent_command(words):
        pytest.skip(reason)


def wings_in(text: str) -> Iterator[str]:
    """Yield the wings whose commands or public names a text of documentation uses."""
    for command in re.findall(r"\bfigeval (\w+)", text):
        if command in commands():
            yield commands()[command]
    for names in re.findall(r"\bfigeval\.(\w+)|\bfrom figeval import (.+)", text):
        yield from filter(None, map(wing_of_name, re.findall(r"\w+", " ".join(names))))


def wing_of_name(name: str) -> str:
    """The wing that a public name belongs to, or an empty text."""
    parts = figeval._MODULES.get(name, "").split(".")
    return parts[2] if parts[1:2] == ["wings"] else ""


def imported_by(file: Path) -> set[str]:
    """The wings that a module of tests imports at its top, itself or through other modules of `tests/`."""
    found, seen, waiting = set(), set(), [file]
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for name in _imports(module):
            parts = name.split(".")
            if parts[:2] == ["figeval", "wings"] and len(parts) > 2:
                found.add(parts[2])
            elif parts[0] == "tests":
                candidates = (ROOT.joinpath(*parts[:end]).with_suffix(".py") for end in (len(parts), len(parts) - 1))
                waiting += [path for path in candidates if path.is_file() and path not in seen]
    return found


@cache
def _imports(file: Path) -> tuple[str, ...]:
    names = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)
