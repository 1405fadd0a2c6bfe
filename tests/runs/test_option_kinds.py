"""Which kinds of options were chosen: from rows alone, by expectation under ties, and the same however it is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import figeval
from figeval import ChoiceExample, PredictionRow, Reply
from figeval.testing.fakes import FakeGenerator
from tests.runs.conftest import Heard, Workshop, write_task

CASES = json.loads((Path(__file__).parent.parent / "golden" / "option_kinds.json").read_text("utf-8"))


def score(folder: Path, rows: list[dict[str, Any]]) -> figeval.Run:
    """Score rows with kinds of options, the scores of these (`chosen`; empty without an answer), and right options."""

    @figeval.task(name="kinds", type="choice", labels=(), metrics=("acc",), baselines=())
    def kinds() -> Iterator[ChoiceExample]:
        for number, row in enumerate(rows):
            yield ChoiceExample(
                id=str(number),
                query="q",
                options=tuple(f"option {index}" for index in range(len(row["kinds"]))),
                gold=row["right"][0] if row["right"] else None,
                cluster=row.get("cluster"),
                option_meta=tuple({"kind": kind} for kind in row["kinds"]),
            )

    predictions = [{"id": str(number), "scores": row["chosen"] or None} for number, row in enumerate(rows)]
    return figeval.score(kinds, predictions, name="x", output_path=folder / "run", fresh=True)


def choices_of(folder: Path, rows: list[dict[str, Any]]) -> Any:
    """The table of the only key of such rows."""
    (table,) = score(folder, rows).record.tasks[0].choices
    return table


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_worked_by_hand(case: dict[str, Any], tmp_path: Path) -> None:
    record = choices_of(tmp_path, case["rows"])
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


def test_intervals_are_clustered_and_say_why_they_are_missing(tmp_path: Path) -> None:
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
    kinds = {kind.value: kind for kind in choices_of(tmp_path, rows).kinds}
    antonym = kinds["antonym"]
    assert (antonym.chosen.n, antonym.chosen.clusters) == (72, 24)
    assert antonym.chosen.interval.method == antonym.chosen_wrong.interval.method == "wilson on effective n"
    assert antonym.chosen_wrong.n == 48
    assert kinds["right"].chosen_wrong.interval.reason == "no wrong answer could be of this kind"
    tied = choices_of(tmp_path, [{**row, "chosen": [0.5, 0.5, 0.0]} for row in rows])
    (antonym,) = [kind for kind in tied.kinds if kind.value == "antonym"]
    assert antonym.chosen_wrong.interval.reason.startswith("fewer")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scores=st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=2, max_size=6),
    kinds=st.lists(st.sampled_from(["a", "b", "c"]), min_size=6, max_size=6),
    gold=st.integers(0, 5),
)
def test_a_tie_counts_as_the_mean_of_fair_draws(
    scores: list[float], kinds: list[str], gold: int, tmp_path: Path
) -> None:
    """The shares of one tied row are those of many rows in which the tie was broken by a draw."""
    n = len(scores)
    best = [index for index, value in enumerate(scores) if value == max(scores)]
    question = {"kinds": kinds[:n], "right": [gold % n]}
    run = score(tmp_path, [{**question, "chosen": scores}])
    (row,) = run.rows("kinds")
    shares = row["choice"]["chosen"]
    assert sum(shares) == pytest.approx(1)
    assert shares[gold % n] == pytest.approx(row["metrics"]["acc"])
    (tied,) = run.record.tasks[0].choices
    drawn = choices_of(tmp_path, [{**question, "chosen": list(np.eye(n)[index])} for index in best])
    assert tied.wrong * len(best) == pytest.approx(drawn.wrong)
    for kind, other in zip(tied.kinds, drawn.kinds, strict=True):
        assert kind.value == other.value
        assert kind.chosen.value == pytest.approx(other.chosen.value)
        assert kind.chosen_wrong.value == pytest.approx(other.chosen_wrong.value)
        assert kind.expected_wrong == pytest.approx(other.expected_wrong)


@pytest.mark.parametrize(
    ("replies", "chosen"),
    [
        # One order without an answer: the others count one half each, whatever positions the options have.
        ({"A. a\nB. b": "B", "A. b\nB. c": None, "A. c\nB. a": "A"}, [0.0, 0.5, 0.5]),
        ({}, []),
    ],
)
def test_orders_count_by_their_share(replies: dict[str, str | None], chosen: list[float], tmp_path: Path) -> None:
    meta = ({"kind": "right"}, {"kind": "antonym"}, {"kind": "literal"})

    @figeval.task(name="kinds", type="choice", labels=(), metrics=("acc",), baselines=())
    def kinds() -> Iterator[ChoiceExample]:
        yield ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=0, option_meta=meta)

    def answer(question: str) -> Reply | str:
        letter = next((letter for options, letter in replies.items() if options in question), None)
        return letter or Reply(text="", finish="refusal")

    run = figeval.run(kinds, FakeGenerator(function=answer), orders="cyclic", output_path=tmp_path / "run")
    (row,) = run.rows("kinds")
    assert row["choice"] == {"kinds": {"kind": ["right", "antonym", "literal"]}, "chosen": chosen, "right": [0]}


def test_a_task_without_kinds_stores_none(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    record = workshop.run()
    assert not any("choice" in row for row in workshop.rows())
    assert "choices" not in record.tasks[0].model_dump()


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
    assert workshop.load().record.tasks[0].choices == [kinds, register]
    first = next(kind for kind in kinds.kinds if kind.value == "first")
    assert (first.offered, first.examples, first.chosen.n, first.chosen.clusters) == (24, 24, 24, 5)


def test_a_run_cut_short_ends_with_the_same_table(workshop: Workshop) -> None:
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
    stored = workshop.rows()
    workshop.rescore()
    assert workshop.rows() == stored
    assert workshop.load().record.tasks[0].choices == before.tasks[0].choices


def test_the_table_as_it_is_printed(tmp_path: Path) -> None:
    printed = [" ".join(line.split()) for line in str(score(tmp_path, CASES[0]["rows"])).splitlines()]
    assert "kinds: chosen by kind in 4 answers, 3 of them wrong" in printed
    assert "kind offered chosen 95 % interval of wrong interval of it expected" in printed
    assert any(
        line.startswith("antonym 4 0.5000 0.150 to 0.850 0.6667") and line.endswith("0.5000") for line in printed
    )
    assert any(line.startswith("right 4 0.2500") and line.endswith("– – –") for line in printed)
