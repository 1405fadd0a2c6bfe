"""Which kinds of options were chosen: from rows alone, by expectation under ties, and the same however it is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from rich.console import Console

from figeval import ChoiceExample, Prediction, PredictionRow, decide
from figeval.metrics.classification import choice_accuracy
from figeval.records.run_folder import read_run
from figeval.records.schema import ChoicesRecord
from figeval.reporting import table
from figeval.runs.option_kinds import choices
from figeval.task_types.choice import Choice, chosen
from figeval.task_types.debiasing import combine_answers
from figeval.task_types.fields import reordered
from figeval.testing.fakes import FakeGenerator
from tests.finished_runs import row, run, task
from tests.runs.conftest import Workshop, write_task

CASES = json.loads((Path(__file__).parent.parent / "golden" / "option_kinds.json").read_text("utf-8"))


def choices_of(rows: list[dict[str, Any]]) -> ChoicesRecord:
    """The table of rows of one key, `kind`."""
    stored = [
        row(str(index), choice={**case_row, "kinds": {"kind": case_row["kinds"]}}, cluster=case_row.get("cluster"))
        for index, case_row in enumerate(rows)
    ]
    (record,) = choices(lambda: stored, seed=0)
    return record


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_worked_by_hand(case: dict[str, Any]) -> None:
    record = choices_of(case["rows"])
    expected = case["expected"]
    assert (record.key, record.answered, record.wrong) == (
        "kind",
        expected["answered"],
        pytest.approx(expected["wrong"]),
    )
    assert {kind.value for kind in record.kinds} == set(expected["kinds"])
    for kind in record.kinds:
        numbers = (kind.offered, kind.examples, kind.chosen.value, kind.chosen_wrong.value, kind.expected_wrong)
        assert list(numbers) == pytest.approx(expected["kinds"][kind.value]), kind.value


def test_intervals_are_clustered_and_say_why_they_are_missing() -> None:
    rows = [
        {
            "kinds": ["right", "antonym", "literal"],
            "chosen": list(np.eye(3)[index % 3]),
            "right": [0],
            "cluster": str(c),
        }
        for c in range(24)
        for index in (c, c, c + c // 4)
    ]
    antonym = next(kind for kind in choices_of(rows).kinds if kind.value == "antonym")
    assert (antonym.chosen.n, antonym.chosen.clusters) == (72, 24)
    assert antonym.chosen.interval.method == antonym.chosen_wrong.interval.method == "wilson on effective n"
    assert antonym.chosen_wrong.n == 48
    tied = [{**row, "chosen": [0.5, 0.5, 0.0]} for row in rows]
    assert next(k for k in choices_of(tied).kinds if k.value == "antonym").chosen_wrong.interval.reason.startswith(
        "fewer"
    )
    right = next(kind for kind in choices_of(rows).kinds if kind.value == "right")
    assert right.chosen_wrong.interval.reason == "no wrong answer could be of this kind"


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=2, max_size=6),
    kinds=st.lists(st.sampled_from(["a", "b", "c"]), min_size=6, max_size=6),
    gold=st.integers(0, 5),
    seed=st.integers(0, 9),
)
def test_a_tie_counts_as_the_mean_of_fair_draws(scores: list[float], kinds: list[str], gold: int, seed: int) -> None:
    """The shares of one tied row are those of many rows in which the tie was broken by a draw."""
    n = len(scores)
    example = ChoiceExample(
        id="e",
        query="q",
        options=tuple("abcdef"[:n]),
        gold=gold % n,
        option_meta=tuple({"kind": kind} for kind in kinds[:n]),
    )
    prediction = decide("e", scores)
    shares = chosen(example, prediction)
    assert sum(shares) == pytest.approx(1)
    assert shares[gold % n] == pytest.approx(choice_accuracy(example, prediction))
    best = [index for index, score in enumerate(scores) if score == max(scores)]
    every = [{"kinds": kinds[:n], "chosen": list(np.eye(n)[index]), "right": [gold % n]} for index in best]
    tied, drawn = choices_of([{"kinds": kinds[:n], "chosen": shares, "right": [gold % n]}]), choices_of(every)
    assert tied.wrong * len(best) == pytest.approx(drawn.wrong)
    for kind, other in zip(tied.kinds, drawn.kinds, strict=True):
        assert kind.value == other.value
        assert kind.chosen.value == pytest.approx(other.chosen.value)
        assert kind.chosen_wrong.value == pytest.approx(other.chosen_wrong.value)
        assert kind.expected_wrong == pytest.approx(other.expected_wrong)


def test_orders_count_by_their_share() -> None:
    """Three orders, one without an answer: the others count one half each, whatever places the options stood at."""
    meta = ({"kind": "right"}, {"kind": "antonym"}, {"kind": "literal"})
    example = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=0, option_meta=meta)
    answers = [
        Prediction(example_id="e", value=1, order=(0, 1, 2)),
        Prediction(example_id="e", value=None, status="refusal", order=(1, 2, 0)),
        Prediction(example_id="e", value=2, order=(2, 0, 1)),
    ]
    assert chosen(example, combine_answers(example, answers)) == [0.0, 0.5, 0.5]
    assert reordered(example, "options", (2, 0, 1)).option_meta == (meta[2], meta[0], meta[1])
    unanswered = combine_answers(example, [answers[1]])
    assert Choice().row(example, unanswered)["choice"]["chosen"] == []


def test_a_task_without_kinds_stores_none() -> None:
    example = ChoiceExample(id="e", query="q", options=("a", "b"), gold=0)
    assert "choice" not in Choice().row(example, Prediction(example_id="e", value=0))
    assert choices(lambda: [row()], seed=0) == []
    assert "choices" not in task().model_dump()


def with_kinds(workshop: Workshop, n: int = 24) -> None:
    """The workshop's task, whose options have kinds."""
    write_task(workshop.folder, "t", n)
    file = workshop.folder / "t.task.yaml"
    text = file.read_text("utf-8").replace("gold: row.g,", "gold: row.g, option_meta: row.kinds,")
    file.write_text(text.replace("baselines", "version: 2\nbaselines"), "utf-8")
    data = workshop.folder / "t.jsonl"
    kinds = [{"kind": "first"}, {"kind": "second", "register": "high"}, {"kind": "third", "register": None}]
    rows = [{**json.loads(line), "kinds": kinds} for line in data.read_text("utf-8").splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_a_run_stores_them_and_computes_the_table_from_what_is_stored(workshop: Workshop) -> None:
    with_kinds(workshop)
    record = workshop.run()
    (kinds, register) = record.tasks[0].choices
    assert (kinds.key, register.key, kinds.answered) == ("kind", "register", 24)
    for line in workshop.rows():
        TypeAdapter(PredictionRow).validate_python(line)
    assert choices(workshop.rows, seed=0) == [kinds, register]
    assert read_run(workshop.path / "run")[0].tasks[0].choices == [kinds, register]
    first = next(kind for kind in kinds.kinds if kind.value == "first")
    assert (first.offered, first.examples, first.chosen.n, first.chosen.clusters) == (24, 24, 24, 5)


def test_a_run_cut_short_ends_with_the_same_table(workshop: Workshop) -> None:
    from tests.runs.conftest import Heard

    with_kinds(workshop)
    with pytest.raises(KeyboardInterrupt):
        workshop.run(observer=Heard(stop_after=1))
    resumed = workshop.run()
    uninterrupted = workshop.run(fresh=True)
    assert resumed.tasks[0].choices == uninterrupted.tasks[0].choices != []


def test_answers_read_again_have_the_table_again(workshop: Workshop) -> None:
    with_kinds(workshop)
    workshop.backend = FakeGenerator(function=lambda prompt: "B" if "word1" in str(prompt) else "A")
    before = workshop.run()
    assert before.tasks[0].choices
    file = workshop.path / "run" / "predictions" / "t.jsonl"
    stored = workshop.rows()
    workshop.rescore()
    assert workshop.rows() == stored
    assert read_run(workshop.path / "run")[0].tasks[0].choices == before.tasks[0].choices
    assert file.is_file()


def test_the_table_as_it_is_printed() -> None:
    record = choices_of(CASES[0]["rows"])
    console = Console(width=200)
    with console.capture() as shown:
        table.show(run(task(choices=[record])), console)
    printed = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert "proverbs: chosen by kind in 4 answers, 3 of them wrong" in printed
    assert "kind offered chosen 95 % interval of wrong interval of it expected" in printed
    assert any(
        line.startswith("antonym 4 0.5000 0.150 to 0.850 0.6667") and line.endswith("0.5000") for line in printed
    )
    assert any(line.startswith("right 4 0.2500") and line.endswith("– – –") for line in printed)
