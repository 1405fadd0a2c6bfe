"""A distribution that brings a wing of its own, with nothing but public names of figeval."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import figeval as public
from tests.processes import figeval
from tests.test_third_party_types import install_package, own_tests_pass

SOURCE = Path(__file__).parent / "third_party/figeval_hello/src/figeval_hello"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the distribution is installed, to be put on PYTHONPATH."""
    return install_package("figeval_hello", tmp_path_factory.mktemp("site"))


@pytest.fixture
def run(tmp_path: Path, warm_start: None) -> Path:
    figeval("run", "--tasks", "mini_fables,mini_pairs", "--model", "overlap", "-o", "run", cwd=tmp_path)
    return tmp_path / "run"


@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
def test_its_command_reads_a_run(site: Path, run: Path, tmp_path: Path) -> None:
    site_packages = {"PYTHONPATH": str(site)}
    shown = figeval("hello", "run", "--language", "latin", "--html", "hello.html", cwd=tmp_path, **site_packages)
    heading, _, *rows = shown.stdout.splitlines()
    assert heading == "Salve, overlap!"
    assert [row.split()[0] for row in rows] == ["mini_fables", "mini_pairs"]
    assert "<h1>Salve, overlap!</h1>" in (tmp_path / "hello.html").read_text()
    printed = json.loads(figeval("hello", "run", "--json", cwd=tmp_path, **site_packages).stdout)
    assert [task["examples"] for task in printed["tasks"]] == [20, 60]
    refused = figeval("hello", "run", "--html", "run/run.json", cwd=tmp_path, code=2, **site_packages)
    assert refused.stderr.startswith("figeval: --html run/run.json would replace a record")


@pytest.mark.usefixtures("warm_start")
def test_its_languages_are_listed_and_shown(site: Path, tmp_path: Path) -> None:
    assert "Guten Morgen" in figeval("ls", "languages", cwd=tmp_path, PYTHONPATH=str(site)).stdout
    assert json.loads(figeval("show", "latin", "--json", cwd=tmp_path, PYTHONPATH=str(site)).stdout)["name"] == "latin"


@pytest.mark.slow
def test_its_own_tests_pass(site: Path) -> None:
    own_tests_pass("figeval_hello", site)


def test_it_uses_public_names_alone() -> None:
    for file in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "figeval":
                assert node.module in {"figeval", "figeval.hooks"}, file.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "figeval":
                assert node.attr in public.__all__, file.name
