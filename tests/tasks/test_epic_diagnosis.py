"""Diagnosis of stored runs: ties by expectation, near-duplicates, the heat map; real runs of trivial models."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataError
from figeval.builtin.tasks.epic.diagnosis import accuracy, answers, confusion, versus
from figeval.builtin.tasks.epic.diagnosis.answers import AnsweredRun, ProverbAnswer, ProverbQuestion
from figeval.cli.main import main
from figeval.io import plots
from tests.finished_runs import finished

CHANCES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=5)
PROVERB_IDS = ("Q1", "Q2", "Q3", "Q4")


def row(**fields: Any) -> dict[str, Any]:
    return {"tied": 1, "pred": 0, **fields}


def run_of(*answers_of_questions: tuple[str, dict[str, float] | None], model: str = "m") -> AnsweredRun:
    """Answers to narratives of these gold proverbs."""
    questions, rows = {}, {}
    for number, (gold, picks) in enumerate(answers_of_questions):
        key = f"{gold}N{number}"
        questions[key] = ProverbQuestion(gold, PROVERB_IDS)
        rows[key] = ProverbAnswer(gold, (picks or {}).get(gold, 0.0), picks)
    return AnsweredRun(model, questions, rows)


# ---- stored rows ----------------------------------------------------------------------------------------------------


def test_one_best_is_the_prediction() -> None:
    assert answers.picks(row(pred=2, top=[[2, 0.5], [0, 0.1]]), PROVERB_IDS) == {"Q3": 1.0}


def test_tied_best_share_the_answer() -> None:
    assert answers.picks(row(tied=2, scores=[0.5, 0.1, 0.5, None]), PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}
    assert answers.picks(row(tied=2, top=[[1, 0.5], [3, 0.5], [0, 0.2]]), PROVERB_IDS) == {"Q2": 0.5, "Q4": 0.5}
    assert answers.picks(row(tied=2, scores=["inf", 3.0, "inf", "-inf"]), PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}


def test_background_candidates_are_no_answers() -> None:
    """The unseen test stores the best ten of all 250; its answer is the best of its own 100."""
    stored = row(tied=2, pred=0, top=[[9, 0.9], [0, 0.5], [2, 0.5]])
    assert answers.picks(stored, PROVERB_IDS) == {"Q1": 0.5, "Q3": 0.5}


def test_all_tied_are_known_although_only_ten_are_stored() -> None:
    many = [f"Q{n}" for n in range(250)]
    everything = answers.picks(row(tied=250, top=[[n, 0.0] for n in range(10)]), many)
    assert everything == dict.fromkeys(many, 1 / 250)


def test_a_tie_that_is_not_wholly_stored_is_unknown() -> None:
    many = [f"Q{n}" for n in range(250)]
    stored = row(tied=12, top=[[n, 0.5] for n in range(10)])
    assert answers.picks(stored, many) is None
    picks = answers.picks({**stored, "all_scores": [0.5] * 12 + [0.0] * 238}, many)
    assert picks == {f"Q{n}": 1 / 12 for n in range(12)}


def test_rows_of_other_data_are_refused() -> None:
    questions = {"Q2N1": ProverbQuestion("Q2", PROVERB_IDS)}
    assert answers.find_question({"id": "Q2N1", "gold": [1]}, questions, "t").gold == "Q2"
    for wrong in ({"id": "Q2N9", "gold": [1]}, {"id": "Q2N1", "gold": 0}, {"id": "Q2N1", "gold": 9}):
        with pytest.raises(DataError, match="does not fit the data of this version"):
            answers.find_question(wrong, questions, "t")


# ---- accuracy -------------------------------------------------------------------------------------------------------


@given(CHANCES)
def test_number_right_is_the_sum_of_independent_draws(chances: list[float]) -> None:
    expected = np.zeros(len(chances) + 1)
    for outcome in product((0, 1), repeat=len(chances)):
        weights = [chance if outcome_bit else 1 - chance for outcome_bit, chance in zip(outcome, chances, strict=True)]
        expected[sum(outcome)] += np.prod(weights)
    assert accuracy.number_right(chances) == pytest.approx(expected)


def test_spread_counts_proverbs() -> None:
    assert list(accuracy.spread({"a": [1, 1], "b": [0, 1], "c": [0]})) == [1, 1, 1]
    assert list(accuracy.spread({"a": [0.5, 1]})) == [0, 0.5, 0.5]  # a tie is a fraction of two cells


def test_near_duplicates_count_if_they_are_listed() -> None:
    run = run_of(("Q1", {"Q2": 1.0}), ("Q1", {"Q1": 1.0}), ("Q1", {"Q3": 1.0}), ("Q4", {"Q3": 1.0}))
    accepted = {"Q1": frozenset({"Q2"}), "Q2": frozenset({"Q1"})}
    plain, aware = accuracy.tolerant_accuracy(run, {}), accuracy.tolerant_accuracy(run, accepted)
    assert (plain.score.value, aware.score.value) == (0.25, 0.5)
    assert aware.score.clusters == 2 and aware.unknown == 0
    assert (plain.chance, aware.chance) == (0.25, (3 * 2 + 1) / 16)


def test_a_tie_with_a_paraphrase_counts_whole() -> None:
    accepted = {"Q1": frozenset({"Q2"})}
    answer = ProverbAnswer("Q1", 1 / 3, {"Q1": 1 / 3, "Q2": 1 / 3, "Q3": 1 / 3})
    assert accuracy.credit_of(answer, accepted) == pytest.approx(2 / 3)
    assert accuracy.credit_of(answer, {}) == pytest.approx(1 / 3)


def test_unknown_ties_are_left_out_and_counted() -> None:
    run = run_of(("Q1", None), ("Q3", None), ("Q1", {"Q1": 1.0}))
    aware = accuracy.tolerant_accuracy(run, {"Q1": frozenset({"Q2"})})
    assert (aware.unknown, aware.score.n) == (1, 2)  # of Q3 nothing else would be accepted: its 0 is known


# ---- confusion ------------------------------------------------------------------------------------------------------


def test_confusions_are_sorted_and_named() -> None:
    run = run_of(("Q24", {"Q125": 1.0}), ("Q24", {"Q125": 0.5, "Q3": 0.5}), ("Q4", {"Q4": 1.0}), ("Q4", None))
    first, second = confusion.confusions(run)
    assert (first.gold, first.predicted, first.count, first.n) == ("Q24", "Q125", 1.5, 2)
    assert first.paraphrase and first.defensible and not second.defensible
    assert confusion.most_taken(run) == [("Q125", 1.5), ("Q3", 0.5)]


# ---- two runs -------------------------------------------------------------------------------------------------------


def test_two_runs_cell_by_cell() -> None:
    right, wrong = {"Q1": 1.0}, {"Q2": 1.0}
    a = run_of(("Q1", right), ("Q1", right), ("Q3", {"Q3": 1.0}), model="a")
    b = run_of(("Q1", right), ("Q1", wrong), ("Q3", {"Q4": 1.0}), model="b")
    comparison = versus.compare_runs(a, b)
    assert (comparison.n, comparison.proverbs) == (3, 2)
    assert comparison.cells.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert (comparison.both, comparison.only_a, comparison.only_b, comparison.neither) == (1, 2, 0, 0)
    assert comparison.same == pytest.approx(1 / 3)
    assert comparison.r is None  # two proverbs are too few


@pytest.mark.slow
@given(st.lists(st.tuples(CHANCES, st.randoms(use_true_random=False)), min_size=1, max_size=4))
def test_the_heat_map_holds_every_proverb_once(groups: list[Any]) -> None:
    answer_table = [
        [
            (ProverbAnswer("Q1", value, None), ProverbAnswer("Q1", other.choice([0.0, 0.5, 1.0]), None))
            for value in values
        ]
        for values, other in groups
    ]
    cells = versus.heat_map(answer_table)
    assert cells.sum() == pytest.approx(len(groups))
    assert cells.sum(axis=1) == pytest.approx(
        accuracy.spread(
            {str(n): [a.right for a, _ in proverb_answers] for n, proverb_answers in enumerate(answer_table)}
        )
    )


def test_unmatched_narratives_are_left_out() -> None:
    a = run_of(("Q1", {"Q1": 1.0}), ("Q2", {"Q2": 1.0}))
    b = AnsweredRun("b", a.questions, {"Q1N0": a.answers["Q1N0"]})
    assert versus.compare_runs(a, b).n == 1


@pytest.mark.slow
def test_the_heat_map_is_drawn(tmp_path: Path) -> None:
    run = run_of(*((key, {key: 1.0}) for key in PROVERB_IDS), *((key, {"Q1": 1.0}) for key in PROVERB_IDS))
    chart = versus.chart(versus.compare_runs(run, run))
    assert chart.to_dict()["title"]["text"] == "Neither model gets a narrative right for 0 of 4 proverbs"
    png, svg, html = plots.save(chart, tmp_path, "heat_map")
    assert png.read_bytes().startswith(b"\x89PNG") and html.stat().st_size > 100_000
    assert svg.stat().st_size > 1_000


# ---- real runs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(real_data: str, tmp_path: Path) -> tuple[Path, Path]:
    """`random` and `chance` on the first narratives."""
    tasks, options = ("epic_retrieval_seen", "epic_mcq_random"), {"limit": 60, "baselines": False}
    a = finished(tmp_path / "a", *tasks, model="random", **options)
    b = finished(tmp_path / "b", *tasks, model="chance", **options)
    return a, b


def call(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_the_command_on_real_runs(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert call("diagnose", *runs, "--output", out, "--no_plots") == 0
    printed = capsys.readouterr().out
    assert "Our interpretation of Figure 5" in printed
    assert "correlation of accuracies over proverbs: undefined" in printed
    for task in ("epic_retrieval_seen", "epic_mcq_random"):
        record = json.loads((out / task / "diagnosis.json").read_text(encoding="utf-8"))
        for letter in "AB":
            stored = json.loads((runs["AB".index(letter)] / "run.json").read_text(encoding="utf-8"))
            (acc,) = (stored_task for stored_task in stored["tasks"] if stored_task["task"] == task)
            plain = record["runs"][letter]["accuracy"]["plain"]["score"]
            assert plain["value"] == pytest.approx(acc["scores"][0]["value"])  # the run's own accuracy
            assert sum(record["runs"][letter]["proverbs_by_narratives_right"]) == pytest.approx(
                record["versus"]["proverbs"]
            )
        assert sum(map(sum, record["versus"]["cells"])) == pytest.approx(record["versus"]["proverbs"])
    seen = json.loads((out / "epic_retrieval_seen" / "diagnosis.json").read_text(encoding="utf-8"))["runs"]["B"]
    for name, shares in seen["accuracy"].items():
        assert shares["score"]["value"] == pytest.approx(shares["chance"]), name  # all tie: the model is its own floor
    with (out / "epic_mcq_random" / "confusion.csv").open(encoding="utf-8", newline="") as stream:
        pairs = list(csv.DictReader(stream))
    assert pairs and not any(pair["paraphrase"] == "True" for pair in pairs)  # the items exclude them


@pytest.mark.slow
def test_what_the_user_can_mend(runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diagnose", runs[0], "--task", "epic_mcq_rando", "--output", tmp_path / "o") == 2
    assert "did you mean 'epic_mcq_random'?" in capsys.readouterr().err
    assert call("diagnose", tmp_path / "nowhere") == 2
    assert "nowhere: cannot be read" in capsys.readouterr().err
    other = finished(tmp_path / "mini", "mini_pairs", baselines=False)
    assert call("diagnose", other) == 2
    assert "nothing to diagnose: it has mini_pairs" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert call("diagnose", runs[0], "--output", tmp_path / "file") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--output" in line
