"""The declared range of lm-eval is the one that is tested: `make lm-eval-range` runs these tests at both ends."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]


def declared_requirement() -> Requirement:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["hf"]
    return next(requirement for requirement in map(Requirement, dependencies) if requirement.name == "lm-eval")


def tried_requirements() -> list[Requirement]:
    """Requirements of `make lm-eval-range`."""
    (releases,) = re.findall(r"^LM_EVAL := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [Requirement(release.strip("'")) for release in releases.split()]


def test_the_makefile_tries_both_ends() -> None:
    oldest, *_, newest = tried_requirements()
    (lower,) = [bound.version for bound in declared_requirement().specifier if bound.operator == ">="]
    (upper,) = [Version(bound.version) for bound in declared_requirement().specifier if bound.operator == "<"]
    assert str(oldest.specifier) == f"=={lower}"
    (pinned,) = newest.specifier
    assert Version(pinned.version) < upper
    assert (Version(pinned.version).major, Version(pinned.version).minor + 1) == (upper.major, upper.minor)


def test_a_pre_release_is_taken_only_if_it_is_requested() -> None:
    releases = ["0.4.9", "0.4.10", "0.4.13", "0.5.0.dev1", "0.6.0.dev1", "0.6.0"]
    within = declared_requirement().specifier
    assert list(within.filter(releases)) == ["0.4.10", "0.4.13"]
    assert list(within.filter(releases, prereleases=True)) == ["0.4.10", "0.4.13", "0.5.0.dev1"]


def test_the_installed_one_is_within() -> None:
    assert declared_requirement().specifier.contains(version("lm-eval"), prereleases=True)
