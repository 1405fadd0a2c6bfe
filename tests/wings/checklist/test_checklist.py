"""The checklists of conferences: what the records know is said, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.finished_runs import finished

TRAINING = {
    "task": "mini_fables",
    "head": {"name": "biencoder"},
    "config": {"model": "m", "seed": 7, "lr": 1e-4, "epochs": 3, "head_args": {}, "select_on": "dev"},
    "train": {"n": 54},
    "dev": {"n": 6, "source": "6 of 60 examples of train"},
    "best": 12,
    "select_by": ["acc"],
    "evaluations": [{"step": 12, "scores": {"acc": 0.5}}],
    "steps": 24,
    "why": "all epochs done",
    "seconds": 7200.0,
    "tokens": 1054,
    "peak_memory_mb": 437.6,
    "parameters": {"total": 22_713_216, "trainable": 294_912},
    "provenance": {"hardware": {"cores": 2, "processor": "x86_64", "memory_gib": 8.0}},
}
GRID = {
    "task": "mini_fables",
    "model": "m",
    "dev": "dev",
    "points": [{"folder": str(lr), "values": {"lr": lr}} for lr in (1e-4, 1e-3)],
}


FINISHED_GRID = GRID | {
    "dev": "6 of train",
    "metrics": ["acc", "mrr"],
    "best": "b",
    "points": [
        {"folder": "a", "values": {"lr": 1e-4}, "scores": {"acc": 0.25}},
        {"folder": "b", "values": {"lr": 1e-3}, "scores": {"acc": 0.5, "mrr": None}},
        {"folder": "c", "values": {"lr": 1}, "error": "NaN"},
    ],
}


def answers(cli: Cli, *arguments: object) -> dict[str, list[str]]:
    rows = json.loads(cli("checklist", *arguments, "--json").out)
    return {row["item"]: row["lines"] for row in rows}


def test_arr_from_a_run_and_its_training(cli: Cli, tmp_path: Path) -> None:
    """The run lies in the folder of the model, as `figeval train` leaves it, beside the record of the training."""
    run = finished(tmp_path / "sweep" / "model" / "runs" / "fables", "mini_fables", baselines=False, limit=15)
    model = tmp_path / "sweep" / "model"
    shutil.move(run, model / "run")
    (model / "training").mkdir()
    (model / "training" / "record.json").write_text(json.dumps(TRAINING))
    (model.parent / "grid.json").write_text(json.dumps(GRID))
    lines = answers(cli, model / "run")
    assert lines["A1"] == lines["B4"] == lines["E1"] == []
    assert lines["B5"] == ["mini_fables: choice, en"]
    assert lines["B6"] == [
        "mini_fables: 15 of 20 examples of test",
        "training on mini_fables: 54 examples, chosen on 6 (6 of 60 examples of train)",
    ]
    assert any(line.endswith(" 2:00:00 of training") for line in lines["C1"])
    assert "parameters of overlap: fill in" in lines["C1"]
    assert "trained on mini_fables: 294,912 of 22,713,216 parameters" in lines["C1"]
    assert "training on mini_fables: epochs 3, lr 0.0001, seed 7" in lines["C2"]
    assert "checkpoint of mini_fables: step 12, the best one by acc on dev" in lines["C2"]
    assert "search for mini_fables: 2 combinations (lr: 0.0001, 0.001), compared on dev" in lines["C2"]
    assert "best values found for mini_fables: fill in, since the search has not ended" in lines["C2"]
    assert "training seeds: 7" in lines["C3"]
    assert "scores of single runs: overlap; intervals are over examples, not over trainings" in lines["C3"]
    assert lines["C4"][0].startswith("Python 3.")
    assert lines["C4"][-1] == "other packages, such as those for preprocessing: fill in"
    (model.parent / "grid.json").write_text(json.dumps(FINISHED_GRID))
    lines = answers(cli, model / "run")
    search = "3 combinations, 1 of which failed (lr: 0.0001, 0.001, 1), compared by acc, then mrr on 6 of train"
    assert f"search for mini_fables: {search}" in lines["C2"]
    assert "best values found for mini_fables: lr 0.001 (on dev: acc 0.5)" in lines["C2"]
    (model.parent / "grid.json").unlink()
    (model / "training" / "record.json").write_text(json.dumps(TRAINING | {"evaluations": [], "best": None}))
    lines = answers(cli, model / "run")
    assert "checkpoint of mini_fables: step 24, the last one, because no examples were held out" in lines["C2"]
    assert "search for hyperparameters: none is recorded beside the trainings; fill in" in lines["C2"]


def test_how_metrics_were_computed_and_models_asked(cli: Cli, tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_narrative", model="tfidf", baselines=False, limit=2)
    lines = answers(cli, run)
    (signature,) = (line for line in lines["C4"] if line.startswith("corpus_bleu: "))
    assert "tok:13a" in signature and signature.endswith("(mini_narrative)")
    (undescribed,) = (line for line in lines["C4"] if line.startswith("defined in figeval's documentation"))
    assert "rouge_l" in undescribed and "corpus_bleu" not in undescribed
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    record["model"]["options"] = {"pooling": "mean"}
    record["tasks"][0]["settings"] |= {"signatures": {}, "metric_arguments": {"bertscore": {"argument": "m"}}}
    record["tasks"][0]["settings"] |= {"max_new_tokens": 64, "calibration": []}
    (run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    lines = answers(cli, run)
    assert "bertscore: argument m (mini_narrative)" in lines["C4"]
    assert "options of tfidf: pooling mean" in lines["C2"]
    assert any(line.startswith("mini_narrative: ") and line.endswith("; max_new_tokens 64") for line in lines["C2"])


def test_instructions_to_annotators_are_quoted(cli: Cli, tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_fables", baselines=False, limit=2)
    instructions = "Read slowly. " * 200
    items = write_items(tmp_path / "items", instructions)
    lines = answers(cli, run, "--items", items)
    assert lines["D1"] == [f"mini_fables: {instructions.strip()}\n\nanswer (A, B)"]
    assert lines["D2–D5"] == []
    assert answers(cli, run)["D1"] == []
    assert instructions.strip() in cli("checklist", run, "--items", items, "--format", "neurips").out
    (items / "instructions.txt").unlink()
    assert "restore it" in cli("checklist", run, "--items", items).complaint
    silent = write_items(tmp_path / "silent", "")
    assert answers(cli, run, "--items", silent)["D1"] == ["mini_fables: none"]
    assert "figeval annotate export" in cli("checklist", run, "--items", "run").complaint


def write_items(folder: Path, instructions: str) -> Path:
    """Write what `figeval annotate export` says about the instructions to annotators."""
    folder.mkdir()
    (folder / "key.json").write_text(json.dumps({"task": "mini_fables", "seed": 0, "instructions": instructions}))
    if instructions:
        (folder / "instructions.txt").write_text(f"{instructions.strip()}\n\nanswer (A, B)\n")
    return folder


def test_neurips_in_markdown_has_the_command(cli: Cli, tmp_path: Path) -> None:
    done = cli("checklist", finished(tmp_path / "run", "mini_fables", baselines=False), "--format", "neurips")
    assert done.out.startswith("### 1 Claims\n\n- fill in\n")
    assert "### 7 Statistical significance\n\n- scores of single runs: overlap; intervals are over ex" in done.out
    assert "\n- mini_fables: 95 % intervals (wilson), 20 clusters" in done.out


def test_runs_of_a_training_and_of_several_seeds(cli: Cli, tmp_path: Path) -> None:
    """Predictions of another system for two seeds, one of which leaves examples unanswered, and a trained model."""
    run = finished(tmp_path / "run", "mini_fables", baselines=True)
    rows = [json.loads(line) for line in (run / "predictions" / "mini_fables.jsonl").read_text("utf-8").splitlines()]
    lines = [
        {"id": row["id"], "prediction": row["gold"], "seed": seed}
        for seed in (4, 11)
        for row in (rows if seed == 4 else rows[:5])
    ]
    (tmp_path / "given.jsonl").write_text("\n".join(map(json.dumps, lines)))
    seeds = tmp_path / "seeds"
    cli("score", "--predictions", tmp_path / "given.jsonl", "--tasks", "mini_fables", "--output_path", seeds)
    statistics = answers(cli, seeds)["C3"]
    assert "seeds of the runs: 4, 11" in statistics
    assert "means over 2 seeds: given on mini_fables; without intervals over seeds" in statistics
    assert any(line.startswith("given on mini_fables: acc mean 1.0000, ") for line in statistics)
    assert not any("single" in line for line in statistics)
    both = answers(cli, seeds, tmp_path / "run")["C3"]
    assert any(line.startswith("scores of single runs: overlap; ") for line in both)
    limits = "if all 20 had one, acc would be between 0.2500 and 1.0000"
    assert f"mini_fables: only 5 of 20 examples have an answer (acc); {limits}: given" in statistics
    model = tmp_path / "model"
    (model / "runs").mkdir(parents=True)
    (model / "training").mkdir()
    (model / "training" / "record.json").write_text(json.dumps(TRAINING))
    assert "has no runs; evaluate the model" in cli("checklist", model).complaint
    shutil.copytree(tmp_path / "run", model / "runs" / "fables")
    assert "training seeds: 7" in answers(cli, model)["C3"]


def test_a_folder_without_a_run_is_one_line(cli: Cli, tmp_path: Path) -> None:
    assert "give a run folder" in cli("checklist", tmp_path).complaint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "record.json"),
        (TRAINING | {"config": None}, "config"),
        (TRAINING | {"config": {"model": "m", "seed": "x"}}, "config.seed"),
        (TRAINING | {"seconds": float("inf")}, "seconds"),
        (TRAINING | {"provenance": {"hardware": "x"}}, "hardware"),
    ],
)
def test_a_hostile_record_of_a_training_is_one_line(content: Any, words: str, cli: Cli, tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "training").mkdir(parents=True)
    (model / "training" / "record.json").write_text(json.dumps(content))
    inner = finished(model / "runs" / "x", "mini_fables", baselines=False, limit=1)
    assert words in cli("checklist", inner).complaint
