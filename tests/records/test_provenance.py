"""With what a run was made; nothing that is only true of this machine's folders."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import figeval as package
from tests.finished_runs import finished
from tests.processes import figeval

ROOT = Path(package.__file__).parents[1]
ROOMS = ("figeval", "tasks", "templates", "plugins")


def test_a_run_says_with_what_it_was_made(tmp_path: Path) -> None:
    record = package.load(finished(tmp_path / "run", "mini_fables", limit=2, baselines=False)).record
    for time in (record.started, record.finished):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time or ""), "UTC, to the second"
    text = json.dumps(record.provenance)
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert record.provenance["packages"]["figeval"]
    assert 5 < (record.tasks[0].peak_memory_mb or 0) < 1e6, "that of a Python process"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of figeval, which is not a repository yet."""
    for name in ROOMS:
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "checkout")
    return tmp_path / "checkout"


def git_state(checkout: Path, name: str, **environment: str) -> Any:
    """Return what a run of this checkout records about its repository."""
    command = ("run", "--tasks", "mini_fables", "--model", "overlap", "--limit", "2", "--no_baselines")
    figeval(*command, "--output_path", name, cwd=checkout, PYTHONPATH=str(checkout), **environment)
    return json.loads((checkout / name / "run.json").read_text("utf-8"))["provenance"]["git"]


@pytest.mark.slow
def test_a_run_tells_a_changed_checkout(checkout: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(("git", "-C", str(checkout), *identity, *arguments), check=True, capture_output=True)

    assert git_state(checkout, "outside") is None
    (checkout / ".gitignore").write_text("__pycache__")
    (checkout / ".git").mkdir()
    assert git_state(checkout, "broken") is None, "what git cannot tell is unknown rather than clean"
    git("init")
    git("add", ".gitignore", "pyproject.toml", *ROOMS)
    git("commit", "-m", "first")
    clean = git_state(checkout, "clean")
    assert re.fullmatch("[0-9a-f]{40}", clean["commit"])
    assert clean["dirty"] is False, "a run that is being written changes no number"
    (checkout / "figeval" / "added.py").write_text("")
    assert git_state(checkout, "changed") == {**clean, "dirty": True}
    assert git_state(checkout, "without", PATH="") is None
