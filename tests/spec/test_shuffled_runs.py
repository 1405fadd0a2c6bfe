"""A run of a task with `shuffle_options`: what is stored is about the shuffled options, and the record says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import figeval
from tests.runs.conftest import write_task


@pytest.mark.parametrize(("key", "seed"), [("true", 0), ("{seed: 4}", 4)])
def test_the_record_has_the_seed_and_scores_are_of_the_shuffled_options(tmp_path: Path, key: str, seed: int) -> None:
    write_task(tmp_path, "t")
    plain = figeval.run("t", "overlap", include_path=tmp_path, output_path=tmp_path / "plain", baselines=False)
    file = tmp_path / "t.task.yaml"
    file.write_text(f"{file.read_text()}shuffle_options: {key}\n")
    shuffled = figeval.run("t", "overlap", include_path=tmp_path, output_path=tmp_path / "run", baselines=False)
    (task,), (before,) = shuffled.record.tasks, plain.record.tasks
    assert task.settings["shuffle_options"] == {"seed": seed} and "shuffle_options" not in before.settings
    assert task.examples_sha256 != before.examples_sha256
    assert task.scores == before.scores  # word overlap does not depend on the order
    with pytest.raises(figeval.FigevalError, match="examples"):
        figeval.run("t", "overlap", include_path=tmp_path, output_path=tmp_path / "plain", baselines=False)
