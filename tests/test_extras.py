"""An installation of the core alone: what works without the packages of extras, and the extra that an error names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.wings_here import absent_command, require_command

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = {"RAKE": "python-rake", "vl_convert": "vl-convert-python"}  # those with another name than their module

# Hides the packages of all extras, runs commands and one Python call, and prints the exit code and stderr of each.
CORE_ALONE = """
import contextlib, io, json, sys
from figeval.extras import EXTRAS

class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *others):
        return None if name in EXTRAS else self.finder.find_spec(name, *others)

sys.meta_path[:] = map(Hiding, sys.meta_path)
from figeval.cli.main import main
def run(words):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ending:
            return ending.code, err.getvalue()
endings = {" ".join(words): run(words) for words in json.load(sys.stdin)}
import figeval
try:
    print(figeval.run("mini_pairs", "overlap", output_path="again").scores)
except figeval.FigevalError as error:
    endings["scores"] = type(error).__name__, str(error)
print(json.dumps([EXTRAS, endings]))
"""
WORKING = (
    "--help",
    "run --help",
    "ls tasks",
    "ls models",
    "ls metrics",
    "ls plugins",
    "show mini_pairs",
    "preview mini_pairs",
    "validate mini_pairs",
    "data ls",
    "schema task",
    "run --tasks mini_pairs,mini_fables --model tfidf --output_path a",
    "run --tasks mini_pairs,mini_fables --model overlap --output_path b",
    "show a",
    "score --tasks mini_pairs --limit 4 -p answers.csv --output_path s",
    "compare a b",
    "export a --to latex",
    "report a -o a.html",
    "annotate export --task mini_proverbs --n 20 -o sheets",
)
REFUSED = {
    "run --tasks mini --model minilm": "hf",
    "run --tasks mini --model roberta-base": "hf",
    "run --tasks mini --model hf:gpt2": "hf",
    "preview mini_pairs --model roberta-large": "hf",
    "run --tasks mini --model lm_eval:dummy": "hf",
    "contamination --tasks mini_pairs --model hf:gpt2 -o c": "hf",
    "train --task mini_situations --model minilm --output model": "hf",
    "run --tasks mini --model tfidf --ray auto": "ray",
    "new task rows --from hub:acme/rows": "hub",
    "export b --to parquet -o b.parquet": "parquet",
}
MISSPELT = "run --tasks mini_pairs --model tfidff"


@pytest.fixture(scope="module")
def core_alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, tuple[int | str, str]]]:
    """The extra of each module, and how every command ends, all of them in one process that has the core alone."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "needs_torch.py").write_text("import torch\n")
    (folder / "answers.csv").write_text("id,prediction\nI01E,entailment\n")
    commands = [line.split() for line in (*WORKING, *REFUSED, MISSPELT)]
    present = [words for words in commands if not absent_command(words)]
    command = [sys.executable, "-c", CORE_ALONE]
    environment = {**os.environ, "FIGEVAL_PLUGINS": "needs_torch"}
    done = subprocess.run(
        command, cwd=folder, env=environment, input=json.dumps(present), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    extras, endings = json.loads(done.stdout.splitlines()[-1])
    return extras, endings


@pytest.fixture
def endings(core_alone: tuple[dict[str, str], dict[str, tuple[int | str, str]]]) -> dict[str, tuple[int | str, str]]:
    """The exit code and stderr of every command."""
    return core_alone[1]


@pytest.mark.parametrize("line", WORKING)
def test_what_works(line: str, endings: dict[str, tuple[int | str, str]]) -> None:
    require_command(line.split())
    code, err = endings[line]
    assert code == 0, err


@pytest.mark.parametrize("line", REFUSED)
def test_what_says_how_to_install_the_rest(line: str, endings: dict[str, tuple[int | str, str]]) -> None:
    require_command(line.split())
    code, err = endings[line]
    assert code == 2, err
    assert f"pip install 'figeval[{REFUSED[line]}]'" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_misspelt_model_of_the_core_needs_no_extra(endings: dict[str, tuple[int | str, str]]) -> None:
    code, err = endings[MISSPELT]
    assert code == 2
    assert "did you mean 'tfidf'" in err
    assert "pip install" not in err


def test_a_plugin_that_needs_an_extra_disturbs_no_other(endings: dict[str, tuple[int | str, str]]) -> None:
    lines = [line for _, err in endings.values() for line in err.splitlines()]
    (warning,) = [line for line in lines if "needs_torch" in line]
    assert "figeval[hf]" in warning


def test_a_python_call_says_it_as_well(endings: dict[str, tuple[int | str, str]]) -> None:
    kind, message = endings["scores"]
    assert kind == "MissingPackage"
    assert "figeval[notebook]" in message


def test_every_package_is_in_the_extra_that_errors_name(core_alone: tuple[dict[str, str], object]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def distributions(names: list[str]) -> Iterator[str]:
        for requirement in map(Requirement, names):
            yield requirement.name
            for extra in requirement.extras if requirement.name == "figeval" else ():
                yield from distributions(extras[extra])

    core = set(distributions(project["dependencies"]))
    for module, extra in core_alone[0].items():
        distribution = DISTRIBUTIONS.get(module, module.replace("_", "-"))
        assert distribution in set(distributions(extras[extra]))
        assert distribution not in core
