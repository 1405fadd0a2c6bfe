"""Scores of a run reach the trackers of accelerate, and a tracker that fails costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import accelerate
import accelerate.tracking
import pytest

import figeval


class Tracked:
    """Stands for `accelerate.Accelerator`, of which only the trackers are used."""

    seen: ClassVar[list[Any]] = []
    broken = ""

    def __init__(self, log_with: list[str], project_dir: str) -> None:
        self.seen.append(("made", log_with))

    def init_trackers(self, project: str, config: dict[str, Any], init_kwargs: dict[str, Any]) -> None:
        self._send("start", project, config["model"], init_kwargs["mlflow"]["run_name"].split()[0])

    def log(self, values: dict[str, float], step: int) -> None:
        self._send("log", step, values)

    def end_training(self) -> None:
        self._send("end")

    def _send(self, event: str, *values: object) -> None:
        self.seen.append((event, *values))
        if event == self.broken:
            raise ConnectionError("the server is\x1b[31m gone")


@pytest.fixture
def tracked(monkeypatch: pytest.MonkeyPatch) -> type[Tracked]:
    monkeypatch.setattr(accelerate, "Accelerator", Tracked)
    monkeypatch.setattr(accelerate.tracking, "get_available_trackers", lambda: [accelerate.tracking.LoggerType.MLFLOW])
    monkeypatch.setattr(Tracked, "seen", [])
    return Tracked


def test_finished_tasks_are_logged_with_their_intervals(tracked: type[Tracked], tmp_path: Path) -> None:
    run = figeval.run("mini_fables,mini_retrieval", "overlap", trackers="mlflow", output_path=tmp_path, baselines=False)
    created, start, first, second, end = tracked.seen
    assert (created, start) == (("made", ["mlflow"]), ("start", "figeval", "overlap", "overlap"))
    (acc,) = (score for score in run.record.tasks[0].scores if score.metric == "acc")
    expected = {"mini_fables/acc": acc.value, "mini_fables/acc_low": acc.low, "mini_fables/acc_high": acc.high}
    assert first[:2] == ("log", 1)
    assert expected.items() <= first[2].items()
    assert "mini_retrieval/recall_5" in second[2], "MLflow allows no @ in a name"
    assert end == ("end",)
    assert "trackers" not in run.record.config


@pytest.mark.parametrize("broken", ["start", "log", "end"])
def test_a_tracker_that_fails_is_one_line(
    broken: str, tracked: type[Tracked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked, "broken", broken)
    with pytest.warns(figeval.FigevalWarning, match=r"--trackers mlflow: .* failed \(the server is gone\)"):
        assert figeval.run("mini_fables", "overlap", trackers="mlflow", output_path=tmp_path).complete


def test_an_unknown_tracker_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(figeval.FigevalError, match="did you mean 'mlflow'"):
        figeval.run("mini_fables", "overlap", trackers="mlflo", output_path=tmp_path / "run")
    assert not (tmp_path / "run").exists()
