"""Run figeval in a subprocess, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.wings_here import require_command

starting = {"python": sys.executable}  # the fixture `warm_start` replaces it for a test


def beside(path: str) -> str:
    """Return PYTHONPATH with a folder prepended; the other entries stay, because this checkout may be among them."""
    return os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))


def figeval(
    *arguments: str | Path, cwd: Path, code: int = 0, python: Path | str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `figeval …` in the folder `cwd` with further environment variables; its exit code must be `code`.

    The test is skipped if the command belongs to a wing that is not here.
    """
    require_command(arguments)
    if "PYTHONPATH" in environment:
        environment = {**environment, "PYTHONPATH": beside(environment["PYTHONPATH"])}
    done = subprocess.run(
        [python or starting["python"], "-m", "figeval", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "160", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
