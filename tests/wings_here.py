"""The wings of this checkout: a wing is a folder that may be deleted, and what needs it is skipped then.

A test that itself imports a wing, names its public function or calls its command needs no mark. The error of an import
is a reason to skip only if the import is in a test: one in the product is a failure. The helpers that call commands
know from the table of `docs/wings.md` which wing has which. A test that needs a wing in another way, for example since
it lists the wing's layouts, is marked `@pytest.mark.wing("NAME")`.
"""

from __future__ import annotations

import ast
import re
import traceback
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


@cache
def all_are_here() -> bool:
    """Whether every built-in wing, each of which has a command or a public name, is here."""
    return not absent([*commands().values(), *filter(None, map(wing_of_name, figeval._MODULES))])


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


def absent_import(error: ImportError) -> str:
    """The reason to skip a test that has imported a wing which is not here; empty if anything else has done it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    if frames[-1].name == "__getattr__" and Path(frames[-1].filename) == Path(figeval.__file__):
        frames.pop()
    missing = re.findall(r"figeval[./]wings[./](\w+)", str(error))
    return absent(missing) if Path(frames[-1].filename).is_relative_to(ROOT / "tests") else ""


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
    """The wings that a module of tests imports at its top, itself or through others of `tests/` and `bench/`."""
    wings, seen, waiting = set(), set(), [file]
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for name in _imports(module):
            parts = name.split(".")
            if parts[:2] == ["figeval", "wings"] and len(parts) > 2:
                wings.add(parts[2])
            elif len(parts) == 2 and parts[0] == "figeval" and wing_of_name(parts[1]):
                wings.add(wing_of_name(parts[1]))
            elif parts[0] in {"tests", "bench"}:
                candidates = (ROOT.joinpath(*parts[:end]).with_suffix(".py") for end in (len(parts), len(parts) - 1))
                waiting += [path for path in candidates if path.is_file() and path not in seen]
    return wings


@cache
def _imports(file: Path) -> tuple[str, ...]:
    names = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)
