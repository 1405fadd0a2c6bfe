"""Run the same model on the same task in figeval and in lm-eval, and compare the results of every example."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from figeval import Harness, Observer, RunConfig
from figeval.builtin.plugins.lm_eval_bridge.stubs import PREFIX, stubs_folder
from figeval.runs.run import run


@dataclass(frozen=True)
class Result:
    """What a harness made of one task: per example predictions, scores of all options and metrics; and the numbers."""

    predictions: list[Any]
    scores: list[list[float]]
    metrics: list[dict[str, Any]]
    numbers: dict[str, float]


def load_tasks(manager: Any, *names: str) -> dict[str, Any]:
    """Tasks by name, out of whatever groups a release of lm-eval puts them into."""
    if hasattr(manager, "load"):
        tasks: dict[str, Any] = manager.load(list(names))["tasks"]
        return tasks

    def flat(nested: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in nested.items():
            yield from flat(value) if isinstance(value, dict) else [(name, value)]

    return dict(flat(manager.load_task_or_group(list(names))))


def in_lm_eval(model: Any, task: str, folder: Path, **settings: Any) -> tuple[Result, Any]:
    """lm-eval's own evaluation of our task, read from its samples; and all that it returned.

    `model` is an LM, or the options of its `hf`.
    """
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    (task_object,) = load_tasks(manager, PREFIX + task).values()
    task_object.set_config("repeats", settings.pop("repeats", 1))
    by_name = {"model": "hf", "model_args": model} if isinstance(model, dict) else {"model": model}
    shots = settings.pop("num_fewshot", None)
    seed = settings.pop("seed", 0)
    settings.setdefault("device", "cpu")
    manager.load = lambda _: {
        "tasks": {PREFIX + task: task_object},
        "groups": {},
    }  # 0.5 refuses tasks that are already loaded
    with patch("lm_eval.evaluator.add_env_info"):  # it asks pip what is installed, for a second
        evaluation = simple_evaluate(
            **by_name,
            tasks=[task_object],
            task_manager=manager,
            num_fewshot=shots,
            fewshot_random_seed=seed,
            **settings,
        )
    samples = evaluation["samples"][PREFIX + task]
    answers = [[repeated[0] for repeated in sample["resps"]] for sample in samples]
    pairs = zip(samples, answers, strict=True)
    predictions = [task_object._predict(task_object.examples[sample["doc"]["id"]], reply) for sample, reply in pairs]
    metrics = json.loads(
        json.dumps([{name: sample[name] for name in sample["metrics"]} for sample in samples], default=str)
    )
    numbers = {name.removesuffix(",none"): value for name, value in evaluation["results"][PREFIX + task].items()}
    values = [prediction.value for prediction in predictions]
    return Result(values, [list(prediction.scores) for prediction in predictions], metrics, numbers), evaluation


def in_figeval(model: str, task: str, folder: Path, **settings: Any) -> Result:
    """`figeval run`, read from its predictions and record."""
    config = RunConfig(tasks=(task,), model=model, output_path=folder, log_samples=True, baselines=False, **settings)
    record, _ = run(config, Harness(include=config.include_path), Observer())
    (done,) = record.tasks
    assert done.status == "done", done.error
    lines = (folder / "predictions" / f"{task}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return Result(
        [row["pred"] for row in rows],
        [row["all_scores"] for row in rows],
        [row["metrics"] for row in rows],
        {score.metric: score.value for score in done.scores},
    )


def assert_same(our_result: Result, their_result: Result, rel: float = 1e-4) -> None:
    """Example by example, and in the end."""
    assert our_result.predictions == their_result.predictions
    for ours, their_score in zip(our_result.scores, their_result.scores, strict=True):
        assert ours == pytest.approx(their_score, rel=rel)
    for our_metrics, their_metrics in zip(our_result.metrics, their_result.metrics, strict=True):
        assert our_metrics == {name: value for name, value in their_metrics.items() if name != "acc_strict"}
    assert our_result.numbers
    for name, value in our_result.numbers.items():
        assert their_result.numbers[name] == pytest.approx(value, abs=1e-12), name


def stubs(*include: Path) -> Path:
    return stubs_folder(include)
