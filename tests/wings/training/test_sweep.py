"""Seeds and grids: compared on dev, resumable, each training kept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import figeval
from tests import trainings
from tests.cli.conftest import Cli, Outcome
from tests.plugins.tiny import Workshop
from tests.trainings import optimizer_steps

Sweep = Callable[..., Outcome]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")


@pytest.fixture
def sweep(model: Path, tmp_path: Path, cli: Cli) -> Sweep:
    """`sweep("--seeds=2", lr=0.1)` into the folder `out`."""

    def run(*flags: str, **changes: Any) -> Outcome:
        settings = trainings.settings(model, tmp_path / "tasks", tmp_path / "out", **changes)
        return cli("train", *trainings.flags(settings), *flags)

    return run


@pytest.fixture
def record(tmp_path: Path) -> Callable[[str], Any]:
    """Read `seeds` or `grid` of the sweep."""
    return lambda name: json.loads((tmp_path / "out" / f"{name}.json").read_text(encoding="utf-8"))


def say(outcome: Outcome) -> list[str]:
    """What a sweep says of its trainings."""
    return [line for line in outcome.err.splitlines() if line.startswith("seed ") or " of 2: " in line]


GRID = "--grid=lr=1e-3,1e-2"


def test_a_grid_is_compared_on_dev_and_the_best_is_named(sweep: Sweep, record: Any, tmp_path: Path) -> None:
    assert say(sweep(GRID, evaluate=())) == ["1 of 2: lr=1e-3", "2 of 2: lr=1e-2"]
    grid = record("grid")
    assert [point["folder"] for point in grid["points"]] == ["grid-lr-1e-3", "grid-lr-1e-2"]
    assert (grid["metrics"], grid["dev"].split(",")[0]) == (["acc", "mrr"], "6 of 60 examples of train")
    scores = {point["folder"]: (point["scores"]["acc"], point["scores"]["mrr"]) for point in grid["points"]}
    assert grid["best"] == max(scores, key=lambda name: scores[name])
    assert not list(tmp_path.glob("out/*/runs"))  # nothing is scored on test
    with optimizer_steps() as steps:
        sweep(GRID, evaluate=())
    assert (record("grid"), steps) == (grid, [])


@pytest.mark.slow
def test_seeds_are_averaged_and_kept(sweep: Sweep, record: Any, tmp_path: Path) -> None:
    assert sweep("--seeds=3,5").code == 0
    seeds = record("seeds")
    assert (seeds["seeds"], seeds["wanted"]) == ([3, 5], [3, 5])
    for score in seeds["scores"]:
        values = [score["values"][seed] for seed in ("3", "5")]
        assert values == [value_of(tmp_path / "out" / seeds["runs"][seed], score["metric"]) for seed in ("3", "5")]
        assert score["mean"] == pytest.approx(sum(values) / 2)
        assert score["sd"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
        assert score["low"] is None
        assert "trained on 54 and chosen on 6 of 60 examples" in str(score["interval"])
    assert [score["metric"] for score in seeds["scores"]] == ["acc", "mrr"]
    stored = figeval.Training(tmp_path / "out" / "seed-5").record
    assert (stored.config.seed, stored.preset) == (5, None)
    with optimizer_steps() as steps:
        sweep("--seeds=3,5,6")
    assert (record("seeds")["seeds"], len(steps)) == ([3, 5, 6], 2)


def value_of(folder: Path, metric: str) -> float | None:
    (task,) = figeval.load(folder).record.tasks
    return next(score.value for score in task.scores if score.metric == metric)


@pytest.mark.slow
def test_what_was_cut_off_goes_on(sweep: Sweep, record: Any) -> None:
    with optimizer_steps(3):
        assert sweep("--seeds=0,1").code == 130
    assert record("seeds")["seeds"] == [0]
    with optimizer_steps() as steps:
        sweep("--seeds=0,1")
    assert (record("seeds")["seeds"], len(steps)) == ([0, 1], 2)


@pytest.fixture
def trained_elsewhere(tmp_path: Path) -> Callable[[str], FileLock]:
    """Lock the folder of a training as the process that trains it does."""

    def lock(name: str) -> FileLock:
        (tmp_path / "out" / name / "training").mkdir(parents=True)
        return FileLock(tmp_path / "out" / name / "training" / ".lock")

    return lock


@pytest.mark.slow
def test_a_seed_that_is_trained_elsewhere_is_left_for_last(
    sweep: Sweep, record: Any, trained_elsewhere: Any, tmp_path: Path
) -> None:
    """The others are trained and averaged; the same command adds it when its folder is free."""
    with trained_elsewhere("seed-3"):
        outcome = sweep("--seeds=3,5")
    elsewhere = f"seed 3 is being trained or evaluated by another process in {tmp_path / 'out' / 'seed-3'}"
    assert say(outcome) == ["seed 3, 1 of 2", elsewhere, "seed 5, 2 of 2", "seed 3, again", elsewhere]
    assert outcome.code == 2
    assert "another process; all others are done, so run the same command when that has finished" in outcome.err
    seeds = record("seeds")
    assert (seeds["seeds"], seeds["wanted"], list(seeds["runs"])) == ([5], [3, 5], ["5"])
    with optimizer_steps() as steps:
        assert sweep("--seeds=3,5").code == 0
    assert (record("seeds")["seeds"], len(steps)) == ([3, 5], 2)


@pytest.mark.slow
def test_a_combination_that_is_trained_elsewhere_is_waited_for(
    sweep: Sweep, record: Any, trained_elsewhere: Any
) -> None:
    """Choosing the best of the others would be another result than the command gives in the end."""
    with trained_elsewhere("grid-lr-1e-3"):
        outcome = sweep(GRID, evaluate=())
    assert outcome.code == 2
    assert "being trained by another process; all other combinations are done" in outcome.err
    with optimizer_steps() as steps:
        sweep(GRID, evaluate=())
    assert not record("grid")["points"][0]["error"]
    assert len(steps) == 2, "the other one was trained before"


# Counts how often files of predictions are opened.
COUNTING_PROGRAM = """
import os, sys
from collections import Counter
opened = Counter()
def count(name, args):
    if name == "open" and isinstance(args[0], (str, bytes, os.PathLike)) and "predictions" in os.fsdecode(args[0]):
        opened[os.fsdecode(args[0])] += 1
sys.addaudithook(count)
from figeval.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("opened", *opened.values(), file=sys.stderr)
"""


@pytest.mark.slow
def test_finished_seeds_are_read_once(sweep: Sweep, record: Any, model: Path, warm: Path, tmp_path: Path) -> None:
    """Scores over seeds are computed from all predictions: once at the end, not after every finished seed."""
    sweep("--seeds=0,1")
    seeds, times = record("seeds"), {file: file.stat().st_mtime_ns for file in tmp_path.glob("out/seed-*/**/*")}
    counts = []
    for number in (1, 2):
        settings = trainings.settings(model, tmp_path / "tasks", tmp_path / "out")
        command = [warm / "python", "-c", COUNTING_PROGRAM, "train", *trainings.flags(settings), f"--seeds={number}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts.append(done.stderr.splitlines()[-1].split()[1:])
    assert counts[0] and counts[1] == 2 * counts[0]
    assert record("seeds") == seeds
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("out/seed-*/**/*")} == times


@pytest.mark.slow
def test_the_best_of_a_grid_is_trained_with_every_seed(sweep: Sweep, record: Any, tmp_path: Path) -> None:
    sweep("--grid=lr=1e-2;head_args.temperature=0.1,0.5", "--seeds=1,")
    stored = figeval.Training(tmp_path / "out" / "seed-1").record.config
    assert record("grid")["best"] == f"grid-lr-1e-2-head_args.temperature-{stored.head_args['temperature']}"
    assert (stored.lr, stored.seed, stored.head_args["pooling"]) == (0.01, 1, "mean")


@pytest.mark.slow
def test_a_combination_whose_loss_breaks_does_not_stop_the_others(sweep: Sweep, record: Any) -> None:
    sweep("--grid=lr=1e30,1e-2", optimizer="adamw", clip=None, evaluate=())
    grid = record("grid")
    assert "lower --lr" in grid["points"][0]["error"] and not grid["points"][1]["error"]
    assert grid["best"] == "grid-lr-1e-2"
    outcome = sweep("--grid=lr=1e30", clip=None)
    assert outcome.code == 2
    assert "no combination could be trained; the first: the loss" in outcome.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--grid=lr=1e-3", "--evaluate=epie_formal"], "could not answer epie_formal: this model offers embed"),
        (["--grid=lr=1e-3", "--select_on=test"], "compares on dev, never on test; leave out --select_on test"),
        (["--grid=lr=1e-3", "--select_on=none"], "leave out --select_on none"),
        (["--grid=lr=1e-3,1e-3"], "give distinct, non-empty values"),
        (["--grid=lr=1e-3,"], "give distinct, non-empty values"),
        (["--grid=lr=quick"], "--grid: lr must be a number"),
        (["--grid=lr"], "write field=value,value"),
        (["--grid=seed=1,2"], "--grid seed: this field cannot be varied"),
        (["--grid=learn=1"], "--grid learn: this field cannot be varied"),
        (["--grid=device=cpu,cuda"], "--grid device: this field cannot be varied"),
        *(([f"--seeds={text}"], "--seeds") for text in ("0", "x", "1,1", "-2", "", ",", "99999999999", "9" * 5000)),
    ],
)
def test_what_cannot_be_swept(sweep: Sweep, tmp_path: Path, flags: list[str], words: str) -> None:
    assert words in sweep(*flags).complaint
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.pdf").write_text("")
    assert "contains 'thesis.pdf', which is not part of a sweep" in sweep("--seeds=1").complaint


@pytest.mark.parametrize(
    ("flags", "folders"),
    [
        (["--grid=lr=1e30, 2e30;epochs=3", "--grid=batch-size=8"], {"grid-lr-1e30-epochs-3-batch_size-8"}),
        (["--seeds=2", "--seed=42"], {"seed-42", "seed-43"}),
        (["--seeds=7,"], {"seed-7"}),
        (["--seeds=1, 5"], {"seed-1", "seed-5"}),
    ],
)
def test_grids_and_seeds_as_they_are_written(flags: list[str], folders: set[str], sweep: Sweep, tmp_path: Path) -> None:
    sweep(*flags, evaluate=(), max_steps=1, clip=None)
    assert {folder.name for folder in (tmp_path / "out").iterdir() if folder.is_dir()} >= folders
