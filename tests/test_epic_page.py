"""The numbers on docs/epic.md are those of the stored runs, and of the papers as we keep them."""

from __future__ import annotations

import pytest

from tests.measured import by_task, quoted, scores, shown, table, tasks

MODELS = ("random", "tfidf", "glove", "minilm")
OTHER_RUN = {"_published": "-published", "_authors": "-authors"}  # what a task's name ends in → where it was run
LINES = by_task(table("epic.md", "task | metric | trivial"))


def test_there_is_a_table() -> None:
    assert len(LINES) > 40


@pytest.mark.parametrize(("task", "cells"), LINES)
def test_a_line_is_what_was_measured_and_printed(task: str, cells: list[str]) -> None:
    metric, _, *measured, paper = cells
    ending = next((folder for end, folder in OTHER_RUN.items() if task.endswith(end)), "")
    measured_scores = [scores(tasks(f"{model}{ending}").get(task)).get(metric) for model in MODELS]
    assert measured == [shown(score) for score in measured_scores]
    for model, value, reference in quoted(paper, task, metric):
        assert value == reference, model
