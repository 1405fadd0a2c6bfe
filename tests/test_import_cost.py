"""Cheap until asked: what a command imports is asserted on modules, since seconds depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from figeval.testing import harness

HEAVY_LIBRARIES = {
    "accelerate",
    "datasets",
    "evaluate",
    "httpx",
    "huggingface_hub",
    "lm_eval",
    "pandas",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "torch",
    "transformers",
}
MIDDLING_LIBRARIES = {"jinja2", "numpy", "pydantic", "rich", "yaml"}

PROGRAM = """
import contextlib, io, json, sys
from figeval.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main(sys.argv[1:])
    except SystemExit as ended:
        assert ended.code == 0, ended.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported_modules(program: str, *arguments: str, cwd: Path) -> set[str]:
    """The top-level modules that a fresh process has loaded in the end."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("ls",), ("new", "--help")], ids=" ".join)
def test_help_imports_next_to_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert not imported_modules(PROGRAM, *arguments, cwd=tmp_path) & (HEAVY_LIBRARIES | MIDDLING_LIBRARIES)


@pytest.mark.parametrize("kind", ["tasks", "suites", "models", "metrics", "routes", "heads", "presets", "plugins"])
def test_lists_import_no_library_of_models_or_numbers(kind: str, tmp_path: Path) -> None:
    assert not imported_modules(PROGRAM, "ls", kind, cwd=tmp_path) & (HEAVY_LIBRARIES | {"numpy", "rich"})


def test_the_state_of_files_is_found_out_without_a_client_of_the_web(tmp_path: Path) -> None:
    assert not imported_modules(PROGRAM, "data", "ls", cwd=tmp_path) & (HEAVY_LIBRARIES | {"numpy", "rich"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("preview", "mini_pairs"),
        ("validate", "mini_pairs"),
        ("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "out"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_no_weights_imports_no_library_of_models(arguments: tuple[str, ...], tmp_path: Path) -> None:
    modules = imported_modules(PROGRAM, *arguments, cwd=tmp_path)
    assert not modules & (HEAVY_LIBRARIES - {"scipy"})  # intervals are scipy's
    assert "pydantic" in modules, "this test looks at the right process"


def test_a_run_imports_no_other_task_type(tmp_path: Path) -> None:
    program = PROGRAM.replace('name.partition(".")[0]', "name")
    arguments = ("run", "--tasks", "mini_proverbs", "--model", "overlap", "--no_baselines", "--output_path", "out")
    modules = imported_modules(program, *arguments, cwd=tmp_path)
    names = [entry.name for entry in harness().task_types]
    assert {name for name in names if f"figeval.task_types.{name}" in modules} == {"choice"}


def test_the_package_itself_costs_nothing(tmp_path: Path) -> None:
    program = "import json, sys, figeval; print(json.dumps(sorted(sys.modules)))"
    modules = imported_modules(program, cwd=tmp_path)
    assert not modules & (HEAVY_LIBRARIES | MIDDLING_LIBRARIES | {"click", "pluggy", "figeval.types"})
