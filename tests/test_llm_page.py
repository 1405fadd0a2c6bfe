"""The table of wordings on docs/llm.md is the paired comparison of the stored run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from figeval.evaluation.comparisons import compare_runs
from tests.measured import MEASURED, short, table

ROOT = Path(__file__).parent.parent
RUN = MEASURED / "smollm2-case"
LINES = list(table("llm.md", "metric | as written | lower case"))


@pytest.mark.parametrize("cells", LINES, ids=lambda cells: cells[0])
def test_the_wordings_differ_by_what_the_page_says(cells: list[str]) -> None:
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


def test_the_batch_took_as_long_as_the_page_says() -> None:
    found = json.loads((MEASURED / "bench" / "writing.json").read_text(encoding="utf-8"))["figures"]
    alone, batched = found["alone"], found["batched"]
    told = (
        f"{alone['seconds']:.0f} s one at a time and {batched['seconds']:.0f} s in one batch: "
        f"{found['ratio']:.1f} times as fast, with the same {found['same']} answers, "
        f"for {batched['memory_mib']:.0f} MiB more memory instead of {alone['memory_mib']:.0f}"
    )
    assert told in " ".join((ROOT / "docs" / "llm.md").read_text(encoding="utf-8").split())
    assert found["same"] == found["prompts"]


def signed(value: float) -> str:
    """Three digits with a sign, `+.036`."""
    return f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")
