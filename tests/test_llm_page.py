"""The table of wordings on docs/llm.md is the paired comparison of the stored run."""

from __future__ import annotations

import json

import pytest

from tests.measured import MEASURED_FOLDER, short, table

RUN = MEASURED_FOLDER / "smollm2-case"
GENERATION = MEASURED_FOLDER / "bench" / "generation.json"
LINES = list(table("llm.md", "metric | as written | lower case"))


@pytest.mark.wing("comparison")
@pytest.mark.parametrize("cells", LINES, ids=lambda cells: cells[0])
@pytest.mark.wing("comparison")
def test_the_wordings_differ_by_what_the_page_says(cells: list[str]) -> None:
    from tests.finished_runs import compare_runs

    metric, *numbers = cells
    (task,) = compare_runs(RUN, RUN, metric, prompts=("default", "lower")).tasks
    comparison = task.comparison
    assert (task.task, comparison.n, comparison.test) == ("epic_mcq", 250, "exact McNemar")
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.p is not None
    difference, low, high = (signed_number(value) for value in (comparison.difference, comparison.low, comparison.high))
    values = [short(comparison.value_a), short(comparison.value_b)]
    assert numbers == [*values, f"{difference} [{low}, {high}]", short(comparison.p)]


def test_both_wordings_are_in_the_table() -> None:
    assert [cells[0] for cells in LINES] == ["acc", "acc_norm", "acc_pmi"]


@pytest.mark.skipif(not GENERATION.exists(), reason="the benchmark has not been stored")
def test_all_answers_of_the_benchmark_are_those_of_prompts_alone() -> None:
    figures = json.loads(GENERATION.read_text(encoding="utf-8"))["figures"]
    workloads = [workload for workload in figures.values() if isinstance(workload, dict)]
    assert workloads
    assert all(workload["same"] == workload["prompts"] for workload in workloads)


def signed_number(value: float) -> str:
    """Three digits with a sign, `+.036`."""
    return f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")
