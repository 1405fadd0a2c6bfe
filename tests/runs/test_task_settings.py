"""`--set`: settings of tasks, for one task, for a suite or for all tasks that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import FigevalError, OptionError

TASKS = ("mini_pairs", "mini_fables")


def thresholds(output: Path, settings: Any) -> list[float | None]:
    run = figeval.run(TASKS, "tfidf", settings=settings, limit=2, baselines=False, output_path=output)
    assert run.record.config["settings"], "kept in the record"
    return [task.settings.get("threshold") for task in run.record.tasks]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("threshold=.7", [0.7, None]),
        ({"mini_pairs.threshold": 1}, [1.0, None]),
        ({"mini.threshold": 0.2, "threshold": 0.1}, [0.2, None]),
        ({"mini_pairs.threshold": 0.3, "mini.threshold": 0.2}, [0.3, None]),
    ],
)
def test_the_narrowest_setting_counts(settings: Any, expected: list[float | None], tmp_path: Path) -> None:
    assert thresholds(tmp_path / "run", settings) == expected


def test_a_setting_is_part_of_the_identity_of_a_run(tmp_path: Path) -> None:
    thresholds(tmp_path, {"threshold": 0.7})
    thresholds(tmp_path, {"threshold": 0.7})
    with pytest.raises(FigevalError, match=r"settings.threshold was 0.7, is 0.8"):
        thresholds(tmp_path, {"threshold": 0.8})


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        ({"treshold": 1}, "did you mean 'threshold'.*have threshold"),
        ({"mini_pairs.temperature": 1}, "mini_pairs has threshold"),
        ({"mini_fables.threshold": 1}, "mini_fables has no settings"),
        ({"mini_pears.threshold": 1}, "did you mean 'mini_pairs'"),
        ({"mini_proverbs.threshold": 1}, "not among the tasks.*mini_pairs, mini_fables"),
        ({"threshold": "high"}, "is a number"),
        ({"threshold": True}, "is a number"),
        ({"threshold": 10**400}, "give a number"),
        (f"threshold={10**400}", "is a number"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_the_right_ones(settings: Any, cure: str, tmp_path: Path) -> None:
    with pytest.raises(FigevalError, match=cure) as refused:
        thresholds(tmp_path / "run", settings)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("settings", [{"threshold": float("nan")}, {"threshold": None}, {"a.b.c": 1}, "threshold", 3])
def test_what_is_no_setting_is_refused(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="settings"):
        thresholds(tmp_path / "run", settings)


def test_a_former_flag_names_its_new_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"settings=\{'temperature': 2\}"):
        figeval.run("mini_pairs", "tfidf", temperature=2, output_path=tmp_path)  # type: ignore[call-arg]
