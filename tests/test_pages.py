"""README and docs say what the records say: tables, numbers in prose and claims about them, and the check can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import pages

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("page", pages.PAGES)
def test_the_page_has_the_numbers_that_were_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert pages.rewrite_page(page, text) == text, "run `python -m bench.pages`"
    assert list(pages.problems(page, text)) == []


@pytest.mark.parametrize(("page", "number"), [("README.md", ".717"), ("docs/getting_started.md", "0.7167")])
def test_the_table_of_the_demo_is_that_of_the_stored_run(page: str, number: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert number in text
    assert pages.rewrite_page(page, text.replace(number, "0.123")) == text


RUN = "run minilm epic_retrieval_seen acc"
LOWER_SCORE = "run random epic_retrieval_seen acc"


def test_a_number_that_was_not_measured_is_replaced() -> None:
    value = pages.value_of(*RUN.split(maxsplit=1))
    assert value is not None
    right = f"{value.value:.3f}".removeprefix("0")
    assert pages.with_marks(f"it gets .999<!-- {RUN} --> there") == f"it gets {right}<!-- {RUN} --> there"
    percent = pages.with_marks(f"99.9 %<!-- {RUN} -->")
    assert percent == f"{value.value:.1%}<!-- {RUN} -->".replace("%", " %")


def test_a_number_without_a_mark_is_found_and_what_only_looks_like_one_is_not() -> None:
    fine = "Section 5.2, Python 3.11, lm-eval 0.4.13, `--lr 0.1`, 95 % intervals, 250 proverbs.\n| .123 | table |"
    assert list(pages.problems("docs/results.md", fine)) == []
    for wrong in ("it gets .123 there", "by 43 % more", "2.26 times the speed"):
        (problem,) = pages.problems("docs/results.md", f"{fine}\n{wrong}")
        assert "docs/results.md, line 3" in problem


@pytest.mark.slow
@pytest.mark.wing("comparison")
def test_a_difference_is_that_of_compare_and_a_claim_about_it_is_tested_in_pairs(monkeypatch: Any) -> None:
    from tests.finished_runs import compare_runs

    measured = ROOT / "results" / "measured"
    by_task = {task.task: task.comparison for task in compare_runs(measured / "minilm", measured / "glove").tasks}
    expected = by_task["epic_retrieval_unseen"]
    differences = [
        pages.value_of("paired", f"minilm glove epic_retrieval_unseen acc{end}") for end in ("", " low", " high")
    ]
    assert [difference and difference.value for difference in differences] == pytest.approx(
        [expected.difference, expected.low, expected.high]
    )
    claim = "<!-- holds: run minilm epic_retrieval_unseen acc > run glove epic_retrieval_unseen acc -->"
    assert list(pages.problems("bench/README.md", claim)) == []
    monkeypatch.setattr(pages, "difference", lambda *_: pages.Value(0.1, -0.1, 0.3))
    assert len(list(pages.problems("bench/README.md", claim))) == 1


def test_a_negative_difference_has_a_minus_sign() -> None:
    assert pages.printed_like(".123", -0.0456) == "−.046"
    assert pages.printed_like("−.123", 0.0456) == ".046"
    mark = "<!-- paired glove minilm epic_retrieval_unseen acc -->"
    assert pages.with_marks(f".1{mark}") == f"−.1{mark}"
    assert pages.with_marks(f"−.1{mark}") == f"−.1{mark}"


def test_a_claim_holds_where_intervals_are_apart_and_not_the_other_way() -> None:
    assert list(pages.problems("bench/README.md", f"<!-- holds: {RUN} > {LOWER_SCORE} -->")) == []
    for wrong in (f"{LOWER_SCORE} > {RUN}", f"{RUN} > {RUN}", f"{RUN} > run nobody epic_retrieval_seen acc"):
        (problem,) = pages.problems("bench/README.md", f"<!-- holds: {wrong} -->")
        assert "does not hold" in problem


def test_marks_that_lead_nowhere_are_found() -> None:
    unknown = ["run nobody epic_mcq acc", "floor minilm epic_mcq acc nobody", "paper epic_mcq acc Nobody", "bench no x"]
    for mark in (*unknown, "file results/measured/analysis/epic.json"):
        assert len(list(pages.problems("docs/results.md", f"it gets .98765<!-- {mark} -->"))) == 1, mark


@pytest.mark.parametrize(("right", "wrong"), [(" [", " [9"), ("overlap .", "overlap .9"), ("RoBERTa .", "RoBERTa .9")])
def test_a_wrong_cell_of_a_table_is_replaced(right: str, wrong: str) -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    row = next(line for line in text.split("\n") if line.startswith("| epic_retrieval_seen | acc |"))
    assert pages.with_tables("docs/results.md", text.replace(row, row.replace(right, wrong))) == text


def test_a_published_number_of_an_unknown_model_is_refused() -> None:
    with pytest.raises(KeyError):
        pages.published_cell("RoBERTa .282, Nobody .5", "epic_retrieval_seen", "acc")
