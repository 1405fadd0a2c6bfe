"""The documents of a ranking task are read once, however often its rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from figeval import RunConfig, hookimpl
from figeval.testing import harness
from tests.finished_runs import execute

TASK = """
name: {name}
description: Which bird is it?
type: ranking
corpus: {{data: "counted:{corpus}", text: "row.text ~ '{mark}'"}}
data: {{test: "counted:rows"}}
fields: {{id: row.id, query: row.text, relevant: row.right}}
"""
ROWS = [{"id": f"q{number}", "text": f"bird {number}", "right": [f"d{number}"]} for number in range(5)]
DOCUMENTS = [{"id": f"d{number}", "text": f"a bird {number}"} for number in range(9)]


class Counted:
    """A source of rows that counts how often it is read."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()

    @hookimpl
    def register_sources(self, register: Callable[[str, Any], None]) -> None:
        def open_rows(path: str, _context: object) -> Iterator[dict[str, Any]]:
            self.read[path] += 1
            yield from ROWS if path == "rows" else DOCUMENTS

        register("counted", open_rows)


@pytest.mark.parametrize("mark", ["", "!"])  # the documents of the second task: the same, or others from the same file
def test_the_documents_of_a_task_are_read_once_per_run(tmp_path: Path, mark: str) -> None:
    tasks = {"birds": ("a", ""), "again": ("a", mark), "others": ("b", "")}
    for name, (corpus, end) in tasks.items():
        (tmp_path / f"{name}.task.yaml").write_text(TASK.format(name=name, corpus=corpus, mark=end))
    counted = Counted()
    registries = harness("figeval.builtin.plugins.baselines", counted, include=(tmp_path,))
    for name in tasks:
        before = counted.read.copy()
        config = RunConfig(tasks=(name,), model="overlap", output_path=tmp_path / "runs" / name, log_samples=True)
        assert execute(config, registries).status == "complete"
        assert counted.read["rows"] - before["rows"] > 2
        text = (tmp_path / "runs" / name / "predictions" / f"{name}.jsonl").read_text()
        assert ("bird 0!" in text) == (tasks[name][1] == "!")
    assert counted.read["a"] == (1 if not mark else 2)
    assert counted.read["b"] == 1
