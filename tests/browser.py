"""A real browser without a window, for pages that run a script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=4000")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium")


def elements_of(page: Path, place: str = "") -> str:
    """The page as the browser has it after its script ran; `place` is the part of the address after the file."""
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri() + place]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
