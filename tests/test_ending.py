"""A process of ours ends without a last collection, and with everything else that an end brings."""

from __future__ import annotations

import subprocess
import sys

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
