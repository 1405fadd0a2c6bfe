"""Every module can be imported on its own account, and without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("tasks", "plugins", "templates", "results")
PROGRAM = """
import importlib, random, sys

names = sys.stdin.read().split()
for seed in range(3):
    random.Random(seed).shuffle(names)
    for name in names:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "figeval"]:
        del sys.modules[name]
"""


def modules() -> list[str]:
    """Every module of the product, by the name under which it is installed."""
    core = [file.relative_to(ROOT) for file in (ROOT / "figeval").rglob("*.py") if file.name != "__main__.py"]
    rooms = [Path("figeval/builtin") / file.relative_to(ROOT) for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    return sorted(".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in core + rooms)


@pytest.mark.slow
def test_every_module_imports_in_any_order_without_a_warning(tmp_path: Path) -> None:
    names = modules()
    builtin = {f"figeval.builtin.{name}" for name in ("tasks.mini", "plugins.baselines")}
    assert {"figeval", "figeval.cli.main", *builtin} <= {*names}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, input="\n".join(names), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_python_m_figeval_is_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "figeval", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("figeval ")
