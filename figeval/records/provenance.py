"""Provenance of a run: versions, hardware, state of the code. It has no paths or environment: runs are shared."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

PACKAGES = (
    "figeval",
    "torch",
    "transformers",
    "sentence-transformers",
    "tokenizers",
    "lm-eval",
    "scikit-learn",
    "numpy",
    "scipy",
    "nltk",
    "spacy",
    "sacrebleu",
    "rouge-score",
    "bert-score",
    "rapidfuzz",
    "simplemma",
)

ROOMS = ("figeval", "tasks", "templates", "plugins", "pyproject.toml")


# First line of `git status --porcelain=v2 --branch`, which goes on with more lines of `#` and those of changed files.
OID = "# branch.oid "
INITIAL = f"{OID}(initial)"  # of a repository without a commit


def now() -> str:
    """Return the current UTC time to the second, e.g. 2026-01-31T23:59:59Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that can change a number."""
    by_package = {package: installed_version(package) for package in PACKAGES}
    return {package: number for package, number in by_package.items() if number is not None}


@cache
def installed_version(package: str) -> str | None:
    """Return the installed version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_state(root: Path | None = None) -> dict[str, str | bool] | None:
    """Return the commit of figeval's checkout and whether it was changed; None without a checkout or without git.

    The repository of the code counts, not the one of the current directory. Only files that can change a number are
    compared, so that the results that are being written do not make the checkout dirty.
    """
    root = root or Path(str(files("figeval"))).parent
    if not (root / ".git").exists():
        return None
    status = git(root, "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--", *ROOMS)
    head, *changes = (status or INITIAL).splitlines()
    if head == INITIAL:
        return None
    return {"commit": head.removeprefix(OID), "dirty": any(not line.startswith("# ") for line in changes)}


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints about the repository at `root`, not about an enclosing one; None if git fails."""
    command, around = ("git", "-C", str(root), *arguments), {"GIT_CEILING_DIRECTORIES": str(root.resolve().parent)}
    try:
        done = subprocess.run(command, env={**os.environ, **around}, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, no commit yet, or a repository of another user
        return None
    return done.stdout.strip()


def hardware() -> dict[str, str | int | float | None]:
    """Return the processor, the number of cores and the memory."""
    import psutil

    return {
        "machine": platform.machine(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }


def collect() -> dict[str, Any]:
    """Return the provenance for `run.json`."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()}",
        "packages": versions(),
        "git": git_state(),
        "hardware": hardware(),
    }


def recorded_packages(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the versions of packages by name that a record has; records of others may have none."""
    return provenance.get("packages") or {}


def peak_memory_mb() -> float:
    """Return the highest resident memory of this process so far, in MiB."""
    import resource  # not available on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if platform.system() == "Darwin" else 2**10), 1)
