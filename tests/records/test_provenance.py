"""With what a run was made; nothing that is only true of this machine's folders."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from figeval.records import provenance


def test_now_is_utc_to_the_second() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", provenance.now())


def test_all_of_it_is_json_without_folders_of_this_machine() -> None:
    text = json.dumps(provenance.collect())
    assert str(Path.home()) not in text
    assert str(Path(provenance.__file__).parents[2]) not in text
    assert provenance.collect()["packages"]["figeval"]


def test_peak_memory_is_that_of_a_python_process() -> None:
    assert 5 < provenance.peak_memory_mb() < 1e6


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(("git", "-C", str(tmp_path), *identity, *arguments), check=True, capture_output=True)

    git("init")
    (tmp_path / "figeval").mkdir()
    (tmp_path / "figeval/a").write_text("1")
    git("add", "figeval")
    git("commit", "-m", "first")
    return tmp_path


def test_git_state_tells_a_changed_checkout(repository: Path) -> None:
    clean = provenance.git_state(repository)
    assert clean is not None
    assert re.fullmatch("[0-9a-f]{40}", clean["commit"])
    assert clean["dirty"] is False
    (repository / "results.json").write_text("a run that is being written changes no number")
    assert provenance.git_state(repository) == clean
    (repository / "figeval/a").write_text("2")
    assert provenance.git_state(repository) == {**clean, "dirty": True}


def test_what_git_cannot_tell_is_unknown_rather_than_clean(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert provenance.git_state(tmp_path / "elsewhere") is None
    (tmp_path / "broken/.git").mkdir(parents=True)
    assert provenance.git_state(tmp_path / "broken") is None
    monkeypatch.setenv("PATH", "")
    assert provenance.git_state(repository) is None
