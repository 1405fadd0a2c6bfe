"""The declared range of lm-eval is the one that is tested: `make lm-eval-range` runs this folder at both ends."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]


def declared() -> Requirement:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return next(one for one in map(Requirement, dependencies) if one.name == "lm-eval")


def test_the_makefile_tries_both_ends() -> None:
    (ends,) = re.findall(r"^LM_EVAL := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    oldest, newest = (Requirement(end.strip("'")) for end in ends.split())
    bounds = {one.operator: one.version for one in declared().specifier}
    assert str(oldest.specifier) == f"=={bounds['>=']}"
    assert str(newest.specifier) == f"<{bounds['<']}"


def test_the_installed_one_is_within() -> None:
    assert declared().specifier.contains(version("lm-eval"))
