"""A process of ours ends without a last collection, and with everything else that an end brings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, gc
atexit.register(lambda: print(f"frozen: {gc.get_freeze_count() > 0}"))  # the first to be registered runs last
from figeval.cli.main import main
main(["ls", "metrics"])
"""


def test_the_last_collection_is_spared() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "span_f1" in done.stdout
    assert done.stdout.splitlines()[-1] == "frozen: True"


def test_triton_does_not_print_what_was_not_collected() -> None:
    pytest.importorskip("triton")
    program = "import triton; from figeval.cli.main import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_closed_streams_are_the_null_device(closed: tuple[int, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "figeval", "run", "--tasks", "mini_proverbs", "--model", "overlap", "--limit", "4"]
    redirections = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {redirections}', "sh", *command, "--output_path", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    rows = (tmp_path / "run" / "predictions" / "mini_proverbs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4  # nothing else is printed into the file that got the number of the closed stream


@pytest.mark.slow
def test_a_thread_that_a_plugin_leaves_does_not_keep_the_process(tmp_path: Path) -> None:
    program = """
import sys, threading, time
from figeval.cli.main import main
threading.Thread(target=lambda: time.sleep(120), name="telemetry").start()
sys.argv = ["figeval", "ls", "tasks", "--no_such_flag"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "'telemetry'" in done.stderr.splitlines()[-1]
