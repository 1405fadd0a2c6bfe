"""Delete wings in a copy of this checkout and run the quick tests there: `python -m tests.without_wing audit verify`.

Further arguments are passed on to pytest: `python -m tests.without_wing verify tests/cli -x`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from tests.wings_here import imported_by

ROOT = Path(__file__).resolve().parent.parent
PARTS = {"training": ("plugins/heads", "tests/plugins/heads")}  # what else belongs to a wing


def copy(target: Path) -> None:
    """Copy the files of the repository, with those that are about to be added to it."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def with_dependants(wing: str) -> list[str]:
    """A wing, and the wings that cannot be loaded without it: `comparison` is one that others may import."""
    wings = {file.parent.name: file.parent for file in sorted((ROOT / "figeval/wings").glob("*/__init__.py"))}
    needs = {name: set().union(*map(imported_by, folder.rglob("*.py"))) - {name} for name, folder in wings.items()}
    dependants = [wing]
    for name in dependants:
        dependants += [other for other in needs if name in needs[other] and other not in dependants]
    return dependants


def delete(wing: str, checkout: Path) -> None:
    """Delete a wing and its tests."""
    for part in (f"figeval/wings/{wing}", f"tests/wings/{wing}", *PARTS.get(wing, ())):
        shutil.rmtree(checkout / part, ignore_errors=True)


def environment(checkout: Path) -> dict[str, str]:
    """The variables with which Python imports the copy, whichever figeval is installed, and finds the data beside.

    A pytest that starts this one is none of its concern: as a worker of it, it would share folders with its siblings.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    variables["PYTHONPATH"] = str(checkout)
    if (data := ROOT.parent / "shared" / "data").is_dir():
        variables.setdefault("FIGEVAL_DATA_MIRROR", str(data))
    return variables


def main(arguments: Sequence[str]) -> int:
    existing = sorted(folder.name for folder in (ROOT / "figeval/wings").iterdir() if (folder / "__init__.py").exists())
    wings = list(takewhile(existing.__contains__, arguments))
    options = list(arguments[len(wings) :])
    if not wings:
        print(f"usage: python -m tests.without_wing WING… [PYTEST'S ARGUMENTS]; the wings are {', '.join(existing)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="without-wing-") as folder:
        checkout = Path(folder).resolve() / "figeval"
        copy(checkout)
        deleted = list(dict.fromkeys(name for wing in wings for name in with_dependants(wing)))
        for name in deleted:
            delete(name, checkout)
        options = [option for option in options if not (ROOT / option).exists() or (checkout / option).exists()]
        command = [sys.executable, "-m", "pytest", "-m", "not slow and not system", "-p", "no:cacheprovider", *options]
        code = subprocess.run(command, cwd=checkout, env=environment(checkout), check=False).returncode
    print(f"without {', '.join(deleted)}: {'all tests that remain pass' if code == 0 else f'pytest ended with {code}'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
