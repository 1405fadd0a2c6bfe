"""Count the test files that import internal modules of figeval: `python -m tests.internal_imports [-v]`.

Public are the names of `figeval` and of `figeval.testing`; other imports are internal, also through another test module
that passes such a name on.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

import figeval
from tests.bad_names import python_files

PUBLIC_NAMES = {*figeval.__all__, "testing"}


def internal_modules(file: Path) -> set[str]:
    """Return the internal modules that a file imports."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if is_internal(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module == "figeval":
            modules |= {f"figeval.{alias.name}" for alias in node.names if alias.name not in PUBLIC_NAMES}
        elif isinstance(node, ast.ImportFrom) and node.module and is_internal(node.module):
            modules.add(node.module)
    return modules


def is_internal(module: str) -> bool:
    """Return whether a module is one of figeval's that nothing outside should import."""
    return module.startswith("figeval.") and not f"{module}.".startswith("figeval.testing.")


def reexported(file: Path) -> set[str]:
    """Return the internal modules whose names a file imports by way of other test modules."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")):
            continue
        helper = Path(f"{node.module.replace('.', '/')}.py")
        if not helper.is_file():
            continue
        origins = {
            alias.asname or alias.name: imported.module or ""
            for imported in ast.walk(ast.parse(helper.read_text(encoding="utf-8")))
            if isinstance(imported, ast.ImportFrom)
            for alias in imported.names
        }
        modules |= {origins[alias.name] for alias in node.names if is_internal(origins.get(alias.name, ""))}
    return modules


def main() -> None:
    """Print the numbers, and with `-v` the files."""
    modules = defaultdict[str, set[Path]](set)
    files = set()
    for file in python_files("tests"):
        for module in internal_modules(file) | reexported(file):
            modules[module].add(file)
            files.add(file)
    tests = sorted(file for file in files if file.name.startswith("test_"))
    print(f"test files that import internal modules: {len(tests)}; other files: {len(files) - len(tests)}")
    print(f"internal modules that tests import: {len(modules)}")
    if "-v" in sys.argv:
        print(*tests, sep="\n")


if __name__ == "__main__":
    main()
