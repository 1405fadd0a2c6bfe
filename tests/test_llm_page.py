"""The table of wordings on docs/llm.md is the paired comparison of the stored run."""

from __future__ import annotations

import json

import pytest

from tests.measured import MEASURED, short, table

RUN = MEASURED / "smollm2-case"
GENERATION = MEASURED / "bench" / "generation.json"
LINES = list(table("llm.md", "metric | as written | lower case"))


@pytest.mark.wing("comparison")
@pytest.mark.parametrize("cells", LINES, ids=lambda cells: cells[0])
@pytest.mark.wing("comparison")
def test_the_wordings_differ_by_what_the_page_says(cells: list[str]) -> None:
    from tests.finished_runs import compare_runs

    metric, *numbers = cells
    (task,) = compare_runs(RUN, RUN, metric, prompts=("default", "lower")).tasks
    found = task.comparison
    assert (task.task, found.n, found.test) == ("epic_mcq", 250, "exact McNemar")
    assert found.low is not None
    assert found.high is not None
    assert found.p is not None
    difference, low, high = (signed(value) for value in (found.difference, found.low, found.high))
    values = [short(found.value_a), short(found.value_b)]
    assert numbers == [*values, f"{difference} [{low}, {high}]", short(found.p)]


def test_both_wordings_are_in_the_table() -> None:
    assert [cells[0] for cells in LINES] == ["acc", "acc_norm", "acc_pmi"]


@pytest.mark.skipif(not GENERATION.exists(), reason="the benchmark has not been stored")
def test_all_answers_of_the_benchmark_are_those_of_prompts_alone() -> None:
    figures = json.loads(GENERATION.read_text(encoding="utf-8"))["figures"]
    workloads = [found for found in figures.values() if isinstance(found, dict)]
    assert workloads
    assert all(found["same"] == found["prompts"] for found in workloads)


def signed(value: float) -> str:
    """Three digits with a sign, `+.036`."""
    return f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")
