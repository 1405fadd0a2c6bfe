"""`figeval run` killed and started again, on folders that are its own and on folders that are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes import figeval, starting

SLOW_PLUGIN = """
import os, time
from figeval import hookimpl

class Slow:
    deterministic_by_name = True
    def __init__(self, model=""):
        self.batches = 0
    def score_pairs(self, pairs):
        self.batches += 1
        if self.batches > 1 and "NAP" in os.environ:
            open("napping", "w").close()
            time.sleep(60)
        return [float(len(set(pair.left.split()) & set(pair.right.split()))) for pair in pairs]

@hookimpl
def register_backends(register):
    register("slow", Slow)
"""


pytestmark = pytest.mark.usefixtures("warm_start")
TASKS = ("--tasks", "mini_fables,mini_proverbs", "--model", "slow")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that answers its first batch, the first task, at once and then takes a nap."""
    (tmp_path / "slow_plugin.py").write_text(SLOW_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FIGEVAL_PLUGINS", "slow_plugin")


def start_run(folder: Path) -> subprocess.Popen[str]:
    """A run whose first task is done and whose second one is being computed."""
    command = [starting["python"], "-m", "figeval", "run", "--output_path", "run", *TASKS]
    environment = {**os.environ, "NAP": "yes"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (folder / "napping").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def rows(folder: Path, task: str) -> list[dict]:
    file = folder / f"run/predictions/{task}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_and_ends_like_an_undisturbed_one(slow: None, tmp_path: Path, kill: int) -> None:
    process = start_run(tmp_path)
    process.send_signal(kill)
    _, errors = process.communicate(timeout=30)
    if kill == signal.SIGINT:
        assert process.returncode == 130
        assert errors.splitlines()[-1].startswith("figeval: interrupted; results so far are kept")
    assert (len(rows(tmp_path, "mini_fables")), len(rows(tmp_path, "mini_proverbs"))) == (20, 0)
    shown = figeval("show", "run", cwd=tmp_path).stdout
    assert "running, started" in shown
    assert "mini_proverbs: 0 of 60 examples answered" in shown

    resumed = figeval("run", "--output_path", "run", *TASKS, cwd=tmp_path)
    assert "mini_fables: 20 examples, 20 of them kept from before" in resumed.stderr
    figeval("run", "--output_path", "whole", *TASKS, cwd=tmp_path)
    killed, other = (json.loads((tmp_path / name / "run.json").read_text())["tasks"] for name in ("run", "whole"))
    assert [task["scores"] for task in killed] == [task["scores"] for task in other]
    for task in ("mini_fables", "mini_proverbs"):
        same = [(tmp_path / name / f"predictions/{task}.jsonl").read_bytes() for name in ("run", "whole")]
        assert same[0] == same[1]


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_goes_on(slow: None, tmp_path: Path) -> None:
    process = start_run(tmp_path)
    refused = figeval("run", "--output_path", "run", *TASKS, cwd=tmp_path, code=2)
    assert refused.stderr == "figeval: run: another figeval run is writing to this folder; wait for it\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_the_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    figeval("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "run", cwd=tmp_path)
    before = (tmp_path / "run/run.json").read_bytes()
    arguments = ("run", "--tasks", "mini_fables", "--model", "random", "--output_path", "run")
    refused = figeval(*arguments, cwd=tmp_path, code=2)
    assert "run contains another run (model was overlap, is random); choose another --output_path" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert (tmp_path / "run/run.json").read_bytes() == before


def test_a_record_of_another_major_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text('{"schema_version": "7.0"}')
    arguments = ("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "run")
    refused = figeval(*arguments, cwd=tmp_path, code=2)
    assert "run.json has schema version 7.0, but this version of figeval reads 2.5" in refused.stderr
    assert (tmp_path / "run/run.json").read_text() == '{"schema_version": "7.0"}'
