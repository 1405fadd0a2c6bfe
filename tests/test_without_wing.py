"""A wing can be deleted: everything else works, and its tests pass or are skipped (`python -m tests.without_wing`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, listed_commands
from tests.wings_here import ROOT, absent, commands, imported_by, wings_in
from tests.without_wing import with_dependants

CORE_TESTS = (  # what names wings, runs commands or reads the public names
    *(
        f"tests/cli/test_{name}.py"
        for name in ("data_command", "doctor", "kept_folders", "ls", "main", "shared_options")
    ),
    *(f"tests/cli/test_{name}.py" for name in ("compare_export", "show", "validate")),
    *(f"tests/wings/{name}" for name in ("check", "checklist", "contamination")),
    "tests/wings/comparison/test_command.py",
    *(f"tests/test_{name}.py" for name in ("public", "plugins", "registry", "docs", "api_results", "third_party")),
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_wings_can_be_deleted() -> None:
    """Two at once: that neither imports the other is a test of the layers."""
    command = [sys.executable, "-m", "tests.without_wing", "audit", "verify", *CORE_TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_says_which_wing_has_which_command(cli: Cli) -> None:
    wing_of_command = {
        command: file.parent.name
        for file in (ROOT / "figeval/wings").glob("*/__init__.py")
        for command in re.findall(r'add_lazy_command\(\s*"([\w-]+)"', file.read_text("utf-8"))
    }
    assert wing_of_command == {command: wing for command, wing in commands().items() if not absent([wing])}
    assert wing_of_command.keys() <= set(listed_commands(cli("--help").out))
    plugins = [row["name"] for row in json.loads(cli("ls", "plugins", "--json").out)]
    assert {name.rpartition(".")[2] for name in plugins if ".wings." in name} == set(wing_of_command.values())


def test_a_wing_goes_with_those_that_import_it() -> None:
    assert with_dependants("verify") == ["verify"]
    assert with_dependants("comparison")[0] == "comparison"
    imported = {wing for file in (ROOT / "figeval/wings/report").rglob("*.py") for wing in imported_by(file)}
    assert ("report" in with_dependants("comparison")) == ("comparison" in imported)


def test_what_a_text_needs() -> None:
    assert set(wings_in("figeval compare a b && figeval run --tasks mini")) == {"comparison"}
    assert set(wings_in("from figeval import Grid, verify\nfigeval.train(1)")) == {"verify", "training"}
    assert not list(wings_in("figeval show runs/report"))


def test_what_a_module_of_tests_imports(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os\nfrom figeval.wings.verify import api\nfrom tests.finished_runs import x\n"
    )
    assert imported_by(tmp_path / "test_it.py") == {"verify"}
    assert imported_by(Path(__file__)) == set()
    assert absent(["nothing_of_the_kind"]) == "needs figeval/wings/nothing_of_the_kind"
