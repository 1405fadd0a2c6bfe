"""Commands on the real data of benchmarks as they were when the behaviour was frozen: the same commands must print and
write the same, whose digests are in `golden/benchmarks/`, under the names of `golden/runs/names.json`.

Where one differs on purpose: `python -m tests.golden.freeze_benchmarks --only NAME`, and say why in the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.cli.conftest import Cli, listed_commands
from tests.golden.benchmarks import BenchmarkCase, MirroredStage, cases, files, outcomes
from tests.golden.cases import differences, laid_out, names
from tests.golden.digests import digest
from tests.golden.stage import Models, single_threaded

MAX_SHOWN = 12  # differences of a case
MAX_BYTES = 400_000
CASES = cases()
# Tests of their own run them on all of the data and compare what is written: test_storal_analysis, test_storal_build.
COMPARED_ELSEWHERE = {("analyze", "storal"), ("build", "storal-items")}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """Share the tiny models between the cases."""
    with single_threaded():
        yield Models(tmp_path_factory.mktemp("golden") / "models")


def mark_case(case: BenchmarkCase) -> ParameterSet:
    return pytest.param(case, marks=[pytest.mark.slow] * case.slow, id=case.name)


@pytest.mark.parametrize("case", [mark_case(case) for case in CASES])
@pytest.mark.filterwarnings("ignore")
def test_a_command_does_what_it_did(case: BenchmarkCase, models: Models, real_data: str, tmp_path: Path) -> None:
    mirror = Path(real_data)
    if missing := case.missing(mirror):
        pytest.skip(f"{case.name} needs {', '.join(missing)}")
    renames = names()
    fields = {**vars(case), "commands": [renames.rename_command(command) for command in case.commands]}
    current = outcomes(BenchmarkCase(**fields), tmp_path, models, mirror)
    changes = differences([renames.renamed(outcome) for outcome in case.outcomes], current, "outcomes")
    if shown := list(islice(changes, MAX_SHOWN)):
        pytest.fail("\n  ".join([f"{case.name} ({case.why}) is not what it was:", *shown]), pytrace=False)


# ---- what the cases cover --------------------------------------------------------------------------------------------


def test_every_command_of_a_benchmark_is_in_some_case(cli: Cli) -> None:
    groups = listed_commands(cli("benchmark", "--help").out)
    assert groups == ["diagnose", "analyze", "build", "curve"]
    registered = {
        (group, name) for group in groups[1:] for name in listed_commands(cli("benchmark", group, "--help").out)
    }
    assert {group for group, _ in registered} == set(groups[1:])
    words = [command for case in CASES for command in case.commands]
    run = {tuple(command[1:3]) for command in words if command[0] == "benchmark"}
    assert registered - run == COMPARED_ELSEWHERE
    assert {"diagnose"} <= {group for group, _ in run}
    assert any("--labels" in command for command in words) and any(command[0] == "lm-eval" for command in words)


# ---- the files and their digests -------------------------------------------------------------------------------------


def test_cases_have_names_of_their_own_and_say_why() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.why.endswith("."), case.name
        assert len(case.outcomes) == len(case.commands), f"{case.name} is not frozen"


def test_files_are_as_they_are_written_and_small() -> None:
    for file in files():
        text = file.read_text("utf-8")
        assert text == laid_out(json.loads(text)) + "\n", file.name
    assert sum(file.stat().st_size for file in files()) < MAX_BYTES


@pytest.fixture
def stage(tmp_path: Path) -> MirroredStage:
    return MirroredStage(tmp_path, Models(tmp_path / "models"), mirror=tmp_path / "mirror")


TEXTS = [
    ("a.csv", "idiom,acc\nspill the beans,0.5\n", "0.5", "0.6"),
    ("a.json", '{"spill the beans": [{"acc": 0.5}], "n": 3}', "3", "4"),
    ("a.jsonl", '{"idiom": "spill the beans", "score": 0.5}\n' * 200, "0.5", "0.6"),
    ("a.html", '<html>\n  const spec = {"data": {"acc": 0.5}};\n</html>', "0.5", "0.6"),
]


@pytest.mark.parametrize(("name", "text", "old", "new"), TEXTS, ids=[text[0] for text in TEXTS])
def test_a_digest_has_numbers_and_no_texts(name: str, text: str, old: str, new: str, stage: MirroredStage) -> None:
    file = stage.folder / name

    def digest_of(text: str) -> Any:
        file.write_text(text, "utf-8")
        return digest(file, stage)

    golden = digest_of(text)
    assert "beans" not in json.dumps(golden) and list(golden)[-1] == "numbers"
    assert any("numbers" in change for change in differences(golden, digest_of(text.replace(old, new))))
    assert list(differences(golden, digest_of(text.replace("0.5", "0.500001")))) == []
    assert list(differences(golden, digest_of(text.replace("a", "o")))) != []
