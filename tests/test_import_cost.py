"""Cheap until asked: what a command imports is asserted on modules, since seconds depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main(command)
        except SystemExit as ended:
            assert ended.code == 0, ended.code
    print(json.dumps(sorted(sys.modules)))
"""
LISTS = ("tasks", "suites", "models", "metrics", "routes", "heads", "presets", "plugins")
WITHOUT_WEIGHTS = (
    "run --tasks mini_proverbs --model overlap --no_baselines --output_path proverbs",
    "run --tasks mini_fables --model overlap --output_path fables",
    "preview mini_pairs",
    "validate mini_pairs",
)


def imported_modules(folder: Path, *commands: str) -> dict[str, set[str]]:
    """The modules that a fresh process has loaded after each of some commands."""
    program = [sys.executable, "-c", PROGRAM, json.dumps([command.split() for command in commands])]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True)
    return dict(zip(commands, map(set, map(json.loads, done.stdout.splitlines())), strict=True))


def test_help_imports_next_to_nothing(tmp_path: Path) -> None:
    for command, modules in imported_modules(tmp_path, "--help", "run --help", "ls", "new --help").items():
        assert not modules & (HEAVY_LIBRARIES | MIDDLING_LIBRARIES), command


def test_lists_and_the_state_of_files_import_no_library_of_models_numbers_or_the_web(tmp_path: Path) -> None:
    for command, modules in imported_modules(tmp_path, *(f"ls {kind}" for kind in LISTS), "data ls").items():
        assert not modules & (HEAVY_LIBRARIES | {"numpy", "rich"}), command


def test_what_needs_no_weights_imports_no_library_of_models_and_no_other_task_type(tmp_path: Path) -> None:
    imported = imported_modules(tmp_path, *WITHOUT_WEIGHTS)
    for command, modules in imported.items():
        assert not modules & (HEAVY_LIBRARIES - {"scipy"}), command  # intervals are scipy's
        assert "pydantic" in modules, "this test looks at the right process"
    names = [entry.name for entry in harness().task_types]
    assert {name for name in names if f"figeval.task_types.{name}" in imported[WITHOUT_WEIGHTS[0]]} == {"choice"}


def test_the_package_itself_costs_nothing() -> None:
    program = "import json, sys, figeval; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert not modules & (HEAVY_LIBRARIES | MIDDLING_LIBRARIES | {"click", "pluggy", "figeval.types"})
