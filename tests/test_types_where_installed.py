"""Type checkers know what `figeval.compare` returns, in a checkout, an editable installation and a wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import figeval
from tests.test_packaging import build, install_wheel
from tests.wings_here import wing_of_name

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NAMES = [name for name in figeval.__all__ if wing_of_name(name)] + ["load", "run", "shared_options", "api_backend"]
PROGRAM = "import figeval\n" + "".join(f"reveal_type(figeval.{name})\n" for name in NAMES)


def reveal_types(folder: Path, *options: str, **variables: str) -> dict[str, str]:
    """Name → the type that mypy reveals."""
    (folder / "program.py").write_text(PROGRAM)
    flags = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *flags, *options, "program.py"]
    environment = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    types = re.findall(r'program\.py:\d+: note: Revealed type is "(.*)"$', done.stdout, flags=re.MULTILINE)
    assert len(types) == len(NAMES), done.stdout + done.stderr
    return dict(zip(NAMES, types, strict=True))


def in_checkout(folder: Path) -> dict[str, str]:
    return reveal_types(folder, "--no-site-packages", MYPYPATH=str(ROOT))


def new_environment(folder: Path) -> tuple[Path, Path]:
    """An empty environment: its Python and its folder of packages."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    return folder / "venv/bin/python", site


def in_editable_installation(folder: Path) -> dict[str, str]:
    python, site = new_environment(folder)
    (site / "_figeval.pth").write_text(str(ROOT))  # all that `pip install --editable` writes but metadata
    return reveal_types(folder, "--python-executable", str(python))


def in_wheel(folder: Path) -> dict[str, str]:
    python, site = new_environment(folder)
    (folder / "dist").mkdir()
    install_wheel(build(ROOT, "wheel", folder / "dist"), site)
    return reveal_types(folder, "--python-executable", str(python))


@pytest.mark.parametrize("types_of", [in_checkout, in_editable_installation, in_wheel])
def test_no_name_of_a_wing_is_any(types_of: Callable[[Path], dict[str, str]], tmp_path: Path) -> None:
    types = types_of(tmp_path)
    assert not [name for name, kind in types.items() if re.fullmatch(r"Any|def \(.*\) -> Any", kind)]
    assert types["compare"].endswith("-> figeval.wings.comparison.api.Comparison")
