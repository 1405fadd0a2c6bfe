"""Runs that are cut short in every way there is: what was computed is kept, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tiny import Workshop
from tests.processes import figeval, starting
from tests.runs.conftest import write_task

PLUGIN = {"PYTHONPATH": str(Path(__file__).parent.parent / "slow"), "FIGEVAL_PLUGINS": "slow_model"}
N = 300
SMALL_DISK = """
import resource, runpy, sys
room = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))  # Python ignores SIGXFSZ
sys.dont_write_bytecode = True  # Python would cut off the file of a large module, too
runpy.run_module("figeval", run_name="__main__", alter_sys=True)
"""


class Run:
    """One command, and what it has left in its folder."""

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        self.command = ("run", "--tasks", "t", "--model", "slow", "--include_path", "tasks", "--output_path", output)
        self.record_file = folder / output / "run.json"
        self.file = folder / output / "predictions" / "t.jsonl"

    def start(self, seconds: float) -> subprocess.Popen[str]:
        """Begin in the background, with so much time for each request."""
        return subprocess.Popen(
            [starting["python"], "-m", "figeval", *self.command],
            cwd=self.folder,
            env={**os.environ, **PLUGIN, "SLOW_SECONDS": str(seconds)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, code: int = 0) -> subprocess.CompletedProcess[str]:
        """The same command again, to the end."""
        return figeval(*self.command, cwd=self.folder, code=code, **PLUGIN)

    def lines(self) -> int:
        """How many predictions are there."""
        return self.file.read_bytes().count(b"\n") if self.file.exists() else 0

    def scores(self) -> Any:
        """All that was measured."""
        record = json.loads(self.record_file.read_text(encoding="utf-8"))
        assert record["status"] == "complete"
        return [(task["scores"], task["baselines"], task["counts"], task["n"]) for task in record["tasks"]]


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Run]:
    """A command that writes to a folder of this name."""
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", "t", N)
    return lambda output: Run(tmp_path, output)


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run as it should be."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tasks").mkdir()
    write_task(folder / "tasks", "t", N)
    run = Run(folder, "out")
    run.finish()
    assert run.lines() == N
    return run


def wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something is so, while the process lives."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)


def end(process: subprocess.Popen[str], signal_number: signal.Signals) -> tuple[int, str]:
    """(exit code, stderr) after a signal."""
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def same(run: Run, undisturbed: Run) -> bool:
    return run.file.read_bytes() == undisturbed.file.read_bytes() and run.scores() == undisturbed.scores()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_what_an_interrupted_command_has_is_kept_and_the_same_command_goes_on(
    signal_number: signal.Signals, expected: int, make: Callable[[str], Run], undisturbed_run: Run, warm_start: None
) -> None:
    run = make("out")
    process = run.start(seconds=0.005)
    wait(lambda: run.lines() >= 64, process)
    code, errors = end(process, signal_number)
    stored_lines = run.lines()
    assert code == expected
    assert errors.splitlines()[-1].startswith("figeval: interrupted; results so far are kept")
    assert "Traceback" not in errors
    assert 64 <= stored_lines < N
    assert f"{stored_lines} of them kept from before" in run.finish().stderr
    assert same(run, undisturbed_run)


@pytest.mark.slow
def test_a_hangup_that_is_ignored_stays_ignored(make: Callable[[str], Run], undisturbed_run: Run) -> None:
    run = make("out")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        process = run.start(seconds=0.002)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait(lambda: run.lines() >= 64, process)
    assert end(process, signal.SIGHUP)[0] == 0
    assert same(run, undisturbed_run)


def test_ctrl_c_before_the_first_answer(make: Callable[[str], Run], undisturbed_run: Run, warm_start: None) -> None:
    run = make("out")
    process = run.start(seconds=10)
    wait(run.record_file.exists, process)
    assert end(process, signal.SIGINT)[0] == 130
    run.finish()
    assert same(run, undisturbed_run)


@pytest.mark.slow
def test_killed_again_and_again_while_writing(
    make: Callable[[str], Run], undisturbed_run: Run, warm_start: None
) -> None:
    run = make("out")
    for _ in range(3):
        process, stored_lines = run.start(seconds=0.002), run.lines()
        wait(lambda stored_lines=stored_lines: run.lines() > stored_lines, process)  # type: ignore[misc]
        assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
        assert stored_lines < run.lines() < N
    run.finish()
    assert same(run, undisturbed_run)


def test_killed_in_the_middle_of_a_line(make: Callable[[str], Run], undisturbed_run: Run, warm_start: None) -> None:
    run = make("out")
    process = run.start(seconds=0.002)
    wait(lambda: run.lines() >= 3, process)
    end(process, signal.SIGKILL)
    with run.file.open("rb+") as file:
        file.truncate(file.seek(0, 2) - 9)
    run.finish()
    assert same(run, undisturbed_run)


@pytest.mark.parametrize("room", [20_000, 20_001, 20_100])
def test_a_full_disk_half_way(room: int, make: Callable[[str], Run], undisturbed_run: Run, warm_start: None) -> None:
    run = make("out")
    done = subprocess.run(
        [starting["python"], "-c", SMALL_DISK, str(room), *run.command],
        cwd=run.folder,
        env={**os.environ, **PLUGIN},
        capture_output=True,
        text=True,
        check=False,
    )
    complaint = done.stderr.splitlines()[-1]
    assert done.returncode == 2, done.stderr
    assert complaint.startswith("figeval: no space left for out/predictions/t.jsonl; what was written is kept")
    assert "Traceback" not in done.stderr
    assert run.file.stat().st_size == room
    assert 0 < run.lines() < N
    run.finish()
    assert [json.loads(line)["id"] for line in run.file.read_text().splitlines()] == [f"t{i}" for i in range(N)]
    assert same(run, undisturbed_run)


@pytest.mark.slow
def test_two_at_once_in_one_folder(make: Callable[[str], Run], undisturbed_run: Run) -> None:
    run = make("out")
    process = run.start(seconds=0.003)
    wait(lambda: run.lines() >= 1, process)
    process.send_signal(signal.SIGSTOP)  # or it may be through before the second one has started
    refused = run.finish(code=2)
    process.send_signal(signal.SIGCONT)
    assert refused.stderr.splitlines()[-1] == "figeval: out: another figeval run is writing to this folder; wait for it"
    process.communicate(timeout=60)
    assert same(run, undisturbed_run)


# ---- texts that are being written ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sigterm_while_texts_are_written(tmp_path: Path, warm_start: None) -> None:
    """Those that have ended are kept, and the others are written anew, as in a run that nobody disturbs."""
    model = Workshop(tmp_path)("llama", "ForCausalLM", max_position_embeddings=2048)
    uninterrupted, run = (Run(tmp_path, name) for name in ("whole", "cut"))
    for text_run in (uninterrupted, run):
        text_run.command = (
            *("run", "--tasks", "mini_narrative", "--model", f"causal:{model}", "--batch_size", "2"),
            *("--max_new_tokens", "64", "--limit", "12", "--output_path", text_run.record_file.parent.name),
        )
        text_run.file = text_run.record_file.parent / "predictions" / "mini_narrative.jsonl"
    uninterrupted.finish()
    process = run.start(seconds=0)
    wait(lambda: run.lines() >= 3, process)
    code, errors = end(process, signal.SIGTERM)
    stored_lines = run.lines()
    assert (code, "Traceback" in errors) == (143, False)
    assert 3 <= stored_lines < uninterrupted.lines() == 12
    assert f"{stored_lines} of them kept from before" in run.finish().stderr
    assert same(run, uninterrupted)
