"""`figeval run` killed and started again, on folders that are its own and on folders that are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import figeval

SLOW = """
import time
from figeval import hookimpl

class Slow:
    def __init__(self, model="", nap=0.005):
        self.nap = nap
    def score_pairs(self, pairs):
        time.sleep(self.nap * len(pairs))
        return [float(len(set(pair.left.split()) & set(pair.right.split()))) for pair in pairs]

@hookimpl
def register_backends(register):
    register("slow", Slow)
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes its time."""
    (tmp_path / "slow_plugin.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FIGEVAL_PLUGINS", "slow_plugin")


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "figeval", "run", "--output_path", "run", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(folder: Path, task: str) -> list[dict]:
    file = folder / f"run/predictions/{task}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


TASKS = ("--tasks", "mini_fables,mini_proverbs", "--model", "slow")


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_and_ends_like_an_undisturbed_one(slow: None, tmp_path: Path, kill: int) -> None:
    process = started(tmp_path, *TASKS)
    deadline = time.monotonic() + 60
    while not rows(tmp_path, "mini_fables") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(kill)
    _, errors = process.communicate(timeout=30)
    if kill == signal.SIGINT:
        assert process.returncode == 130
        assert errors.splitlines()[-1].startswith("figeval: interrupted; what was computed is kept")
    before = len(rows(tmp_path, "mini_fables")) + len(rows(tmp_path, "mini_proverbs"))
    assert 0 < before < 80
    shown = figeval("show", "run", cwd=tmp_path).stdout
    assert "running, begun" in shown
    assert f"mini_proverbs: {len(rows(tmp_path, 'mini_proverbs'))} of 60 examples answered" in shown

    resumed = figeval("run", "--output_path", "run", *TASKS, cwd=tmp_path)
    assert "of them kept from before" in resumed.stderr
    figeval("run", "--output_path", "whole", *TASKS, "--model_args", "nap=0", cwd=tmp_path)
    one, other = (json.loads((tmp_path / name / "run.json").read_text())["tasks"] for name in ("run", "whole"))
    assert [task["scores"] for task in one] == [task["scores"] for task in other]
    for task in ("mini_fables", "mini_proverbs"):
        same = [(tmp_path / name / f"predictions/{task}.jsonl").read_bytes() for name in ("run", "whole")]
        assert same[0] == same[1]


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_goes_on(slow: None, tmp_path: Path) -> None:
    process = started(tmp_path, *TASKS, "--model_args", "nap=1")
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    arguments = ("run", "--output_path", "run", *TASKS, "--model_args", "nap=1")
    refused = figeval(*arguments, cwd=tmp_path, code=2)
    assert refused.stderr == "figeval: run: another figeval run is writing here; wait for it\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_the_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    figeval("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "run", cwd=tmp_path)
    before = (tmp_path / "run/run.json").read_bytes()
    arguments = ("run", "--tasks", "mini_fables", "--model", "random", "--output_path", "run")
    refused = figeval(*arguments, cwd=tmp_path, code=2)
    assert "run holds another run (overlap on mini_fables); choose another --output_path" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert (tmp_path / "run/run.json").read_bytes() == before


def test_a_record_of_another_major_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text('{"schema_version": "7.0"}')
    arguments = ("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "run")
    refused = figeval(*arguments, cwd=tmp_path, code=2)
    assert "run.json has schema version 7.0, this figeval reads 1.0" in refused.stderr
    assert (tmp_path / "run/run.json").read_text() == '{"schema_version": "7.0"}'
