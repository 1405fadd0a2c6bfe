"""Whole runs as they were when the behaviour was frozen: the same commands must give the same records, predictions and
texts, under the names of `golden/runs/names.json`.

Where one differs on purpose: `python -m tests.golden.freeze --only NAME`, and say why in the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.golden.cases import Case, Names, cases, differences, files, laid_out, names, outcomes
from tests.golden.stage import Models, Stage, single_threaded
from tests.wings_here import commands

MAX_CHANGES = 12  # differences of a case
MOST_BYTES = 3_200_000
CASES = cases()
QUICK_CASES = ("classifier",)  # of the trained heads
SLOW_CASES = (  # kinds of models and flags that quick tests of their own cover, too
    *("two_processes", "infill", "seq2seq_writer", "causal_joint", "causal_writer", "causal_prompts_and_probes"),
    *("letters_prompts_and_probes", "judged_by_likelihood", "contamination_by_likelihood", "compared_prompts"),
    *("board_with_reports", "judged_interrupted", "contamination_interrupted", "board", "bertscore", "audited"),
    *("exported_replies", "frames_of_questions", "frames_of_runs", "frames_of_judgements", "frames_of_comparisons"),
    *("compared_several", "trained_on_mini", "cross_encoder", "outlines", "causal_writes_letters", "causal_shots"),
    *("exported_comparison", "compared_contrasts", "compared_other_examples", "tfidf_with_all_metrics", "difficulty"),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """Share the tiny models between the cases."""
    with single_threaded():
        yield Models(tmp_path_factory.mktemp("golden") / "models")


def mark_case(case: Case) -> ParameterSet:
    trained = case.file.stem == "training" and case.name not in QUICK_CASES
    wings = {commands()[command[0]] for command in case.commands if command[0] in commands()}
    marks = [pytest.mark.slow] * (trained or case.name in SLOW_CASES)
    return pytest.param(case, marks=[*marks, pytest.mark.wing(*wings)], id=case.name)


@pytest.mark.parametrize("case", [mark_case(case) for case in CASES])
@pytest.mark.filterwarnings("ignore")
def test_a_run_is_what_it_was(case: Case, models: Models, tmp_path: Path) -> None:
    new_names = names(files=case.files)
    renamed_case = Case(**{**vars(case), "commands": [new_names.rename_command(command) for command in case.commands]})
    current = outcomes(renamed_case, tmp_path, models)
    changes = differences([new_names.renamed(outcome) for outcome in case.outcomes], current, "outcomes")
    if shown := list(islice(changes, MAX_CHANGES)):
        pytest.fail("\n  ".join([f"{case.name} ({case.why}) is not what it was:", *shown]), pytrace=False)


# ---- what the cases cover --------------------------------------------------------------------------------------------


def list_parts(kind: str, tmp_path: Path, models: Models) -> list[dict[str, Any]]:
    """What `figeval ls` knows of a kind."""
    done = Stage(tmp_path, models).figeval(["ls", kind, "--json"])
    assert done.code == 0, done.err
    parts: list[dict[str, Any]] = json.loads(done.out)
    return parts


def runs() -> Iterator[dict[str, Any]]:
    """The tasks of all golden runs, in new names."""
    for case in CASES:
        for outcome in case.outcomes:
            yield from names().renamed(outcome).get("run", {}).get("tasks", [])


# Task types and metrics that tests of their own compare with values worked out by hand or by other libraries.
TYPES_ELSEWHERE = {"g_idiomalign_choice", "pairwise", "surprisal"}
METRICS_ELSEWHERE = {"maj@k", "pass@k", "self_agreement", "self_entropy@k", "self_rouge_l"}
OWNERS_ELSEWHERE = tuple(f"figeval.builtin.plugins.{name}" for name in ("pairwise", "soft_labels", "surprisal"))


def test_every_route_is_in_some_case(tmp_path: Path, models: Models) -> None:
    taken = {(task["task_type"], task["route"]) for task in runs()}
    routes = {(route["type"], route["name"]) for route in list_parts("routes", tmp_path, models)}
    routes = {route for route in routes if route[0] not in TYPES_ELSEWHERE}
    assert routes <= taken, sorted(routes - taken)


def test_every_metric_is_in_some_case(tmp_path: Path, models: Models) -> None:
    measured = {score["metric"] for task in runs() for score in task["scores"]}
    parts = list_parts("metrics", tmp_path, models)
    metrics = {metric["name"] for metric in parts if not metric["owner"].startswith(OWNERS_ELSEWHERE)}
    metrics -= METRICS_ELSEWHERE
    assert metrics <= measured, sorted(metrics - measured)


@pytest.mark.wing("training")
def test_every_head_is_in_some_case(tmp_path: Path, models: Models) -> None:
    commands = [command for case in CASES for command in case.commands if command[0] == "train"]
    trained = {command[command.index("--head") + 1] for command in commands}
    heads = {head["name"] for head in list_parts("heads", tmp_path, models)}
    assert heads <= trained, sorted(heads - trained)


def test_every_status_of_an_answer_is_in_some_case() -> None:
    answers = [row for task in runs() for row in task["rows"]]
    statuses = {part["status"] for row in answers for part in (row, *row.get("answers", ()), *row.get("parts", ()))}
    every = {"ok", "ambiguous", "unparseable", "refusal", "empty", "truncated", "nan", "error", "absent"}
    assert statuses == every, sorted(every ^ statuses)


# ---- the files and their comparison ----------------------------------------------------------------------------------


def test_cases_have_names_of_their_own_and_say_why() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.why.endswith("."), case.name
        assert len(case.outcomes) == len(case.commands), f"{case.name} is not frozen: python -m tests.golden.freeze"


def test_files_are_as_they_are_written_and_small() -> None:
    for file in files():
        text = file.read_text("utf-8")
        assert text == laid_out(json.loads(text)) + "\n", file.name
    assert sum(file.stat().st_size for file in files()) < MOST_BYTES


GOLDEN = {"route": "by_word", "score": 0.5, "rows": [{"id": "1", "pred": None}, {"id": "2", "low": float("nan")}]}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"score": 0.50005}, "run.score: 0.5 → 0.50005"),
        ({"route": "by_letter"}, "run.route: 'by_word' → 'by_letter'"),
        ({"score": None}, "run.score: 0.5 → None"),
        ({"score": True}, "run.score: 0.5 → True"),
        ({"score": float("nan")}, "run.score: 0.5 → nan"),
        ({"more": 1}, "run.more: is new, 1"),
        ({"rows": [{"id": "1", "pred": 0}]}, "run.rows: 2 entries → 1"),
    ],
)
def test_a_difference_is_told_with_its_place(change: dict[str, Any], path: str) -> None:
    assert next(differences(GOLDEN, {**GOLDEN, **change}, "run")) == path
    assert next(differences({**GOLDEN, **change}, GOLDEN, "run")).startswith(path.split(":")[0])


def test_roundings_and_columns_are_no_difference() -> None:
    current = {**GOLDEN, "score": 0.5000000001, "rows": [{"id": "1", "pred": None}, {"id": "2", "low": float("nan")}]}
    assert not list(differences(GOLDEN, current))
    assert not list(differences("task   acc", "task  acc"))


def test_new_names_are_applied_to_keys_values_and_texts() -> None:
    new_names = Names({"protocol": "type", "gone": None}, {"by_word": "word"}, {"by_word": "word", "protocol": "type"})
    golden = {"protocol": "by_word", "gone": 1, "rows": ["by_words", "by_word: 3 of protocol x"]}
    assert new_names.renamed(golden) == {"type": "word", "rows": ["by_words", "word: 3 of type x"]}
    assert new_names.rename_command(["run", "--route", "pairs=by_word"]) == ["run", "--route", "pairs=word"]
