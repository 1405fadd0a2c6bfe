"""Results that are read from runs or plans: in Python as on the command line, as text, DataFrame, JSON and HTML."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval.testing.fakes import FakePairScorer
from tests.cli.conftest import Cli
from tests.finished_runs import finished

pytest.importorskip("pandas")

TASKS = ("mini_proverbs", "mini_pairs")


@pytest.fixture
def runs(cli: Cli, tmp_path: Path) -> tuple[Path, Path]:
    """Two finished runs in the working folder."""
    return finished(tmp_path / "a", *TASKS, limit=20), finished(tmp_path / "b", *TASKS, limit=20, model="tfidf")


CALLS: list[tuple[tuple[str, ...], Callable[[], Any]]] = [
    (("verify", "a", "--against", "a"), lambda: figeval.verify("a", against=figeval.load("a"))),
    (("verify", "a", "--no_data"), lambda: figeval.verify(figeval.load("a"), data=False)),
    (("checklist", "a", "b"), lambda: figeval.checklist(["a", figeval.load("b")])),
    (("checklist", "a", "--format", "neurips"), lambda: figeval.checklist("a", form="neurips")),
]


@pytest.mark.parametrize(("command", "call"), CALLS, ids=[" ".join(command) for command, _ in CALLS])
def test_python_gives_what_the_command_prints(
    command: tuple[str, ...], call: Callable[[], Any], cli: Cli, runs: tuple[Path, Path]
) -> None:
    table = call()
    printed = cli(*command)
    assert printed.code == 0, printed.err
    assert printed.out.strip() == str(table).strip()
    stored = json.loads(cli(*command, "--json").out)
    assert stored == json.loads(json.dumps(table.to_dict()))
    assert repr(table).startswith(f"<figeval.{type(table).__name__}")
    assert table._repr_html_().startswith("<")
    frame = table.to_frame()
    assert len(frame) >= len(stored)
    with pytest.raises(AttributeError):
        setattr(table, next(iter(type(table).__slots__)), None)


def test_the_frame_of_a_run_has_its_scores(runs: tuple[Path, Path]) -> None:
    run = figeval.load(runs[0])
    assert len(run.to_frame()) > 1
    assert run.to_frame().equals(run.scores)


def test_a_result_without_a_table_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Result has no table"):
        figeval.Result().to_frame()


@pytest.mark.wing("comparison")
def test_columns_do_not_depend_on_the_content(runs: tuple[Path, Path]) -> None:
    plan = figeval.power("mini_proverbs").to_frame()
    assert (plan["n"][0], str(plan["n"].dtype), str(plan["difference"].dtype)) == (60, "Int64", "float64")
    none = figeval.power("mini_proverbs", disagreement=0.01).to_frame()
    assert none["difference"].isna().all() and (none.dtypes == plan.dtypes).all()
    items = figeval.difficulty(*runs).to_frame()
    assert len(items) == 40
    assert items.groupby("task")["difficulty"].first().to_dict() == dict.fromkeys(TASKS, 1.0)
    answers = figeval.checklist(runs).to_frame()
    assert answers["answer"].isna().any()
    assert answers.set_index("item")["answer"]["B1"].startswith("models: overlap, tfidf")


def test_a_changed_run_is_not_ok(runs: tuple[Path, Path]) -> None:
    file = runs[0] / "run.json"
    file.write_text(file.read_text("utf-8").replace('"n": 20', '"n": 19', 1), "utf-8")
    verification = figeval.verify(runs[0], data=False)
    assert not verification.ok
    assert {check.part for check in verification.problems} >= {"run.json"}
    assert "problem" in set(verification.to_frame()["state"])
    assert f"{len(verification.problems)} problem" in repr(verification)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: figeval.checklist([]), "runs is empty"),
        (lambda: figeval.checklist(3), "runs is an int; give runs, or their folders"),  # type: ignore[arg-type]
        (lambda: figeval.checklist(["a", None]), "runs has None; give runs, or their folders"),  # type: ignore[list-item]
        (lambda: figeval.checklist("a", items=[3]), "items has an int; give a path"),  # type: ignore[list-item]
        (lambda: figeval.checklist("a", form="neurip"), "did you mean 'neurips'"),
        (lambda: figeval.checklist("a", items="a"), "annotate export"),
        (lambda: figeval.verify("a", data="maybe"), "data='maybe': give True or False"),  # type: ignore[arg-type]
        (lambda: figeval.verify("c"), "c: cannot be read"),
    ],
)
def test_a_mistake_is_one_line(call: Callable[[], object], words: str, runs: tuple[Path, Path]) -> None:
    with pytest.raises(figeval.FigevalError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.wing("checklist")
def test_names_in_a_checklist_are_no_html(tmp_path: Path) -> None:
    options: Any = {"name": "<script>alert(1)</script>, n < 5", "limit": 3, "baselines": False}
    run = figeval.run("mini_fables", FakePairScorer(), output_path=tmp_path / "run", **options)
    checklist = figeval.checklist(run)
    assert r"models: \<script>alert(1)\</script>, n < 5" in checklist.to_markdown()
    assert "<script>" not in checklist._repr_html_()


@pytest.mark.wing("comparison")
def test_a_task_of_the_program_has_a_plan() -> None:
    @figeval.task(name="crows", type="choice", labels=())
    def crows() -> Any:
        """Questions about crows."""
        for index in range(40):
            yield figeval.ChoiceExample(id=str(index), query="caw", options=("yes", "no"), gold=index % 2)

    plan = figeval.power(crows).plans["crows"]
    assert (plan.n, plan.clusters, plan.effect) == (40, 40, 1.0)


@pytest.mark.wing("comparison")
def test_a_small_disagreement_is_not_printed_as_none() -> None:
    (note,) = figeval.Power({}, 0.005, 0.8, 1).notes()
    assert note.endswith("if exactly one of the two models is right on 0.5% of the examples")


@pytest.mark.wing("comparison")
def test_a_plan_says_which_tasks_have_no_accuracy() -> None:
    powers = figeval.power("mini_narrative,mini_pairs")
    assert powers.without_accuracy == ("mini_narrative",)
    assert any(note.startswith("mini_narrative: without acc; the plan holds") for note in powers.notes())
