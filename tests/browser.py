"""A real browser without a window, for pages that run a script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


def browser() -> str:
    """The path of the browser; without one, the test fails."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    return executable or pytest.fail("this test needs Chromium: install the package chromium (`make system-packages`)")


def elements_of(page: Path, page_address: str = "") -> str:
    """The page as the browser has it after its script ran; `page_address` is the part of the address after the file."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [browser(), *FLAGS, "--virtual-time-budget=4000", profile, "--dump-dom", page.as_uri() + page_address]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
