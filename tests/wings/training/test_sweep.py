"""Seeds and grids: compared on dev, resumable, each training kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from figeval import TrainError
from figeval.errors import FolderInUse
from figeval.io.observer import NO_FIGURES, Observer
from figeval.records.run_folder import read_record
from figeval.records.sweep import GridRecord, SeedsRecord, parse_seeds
from figeval.runs.seeds import scores_of
from figeval.wings.training import sweep as sweeps
from figeval.wings.training.sweep import Sweep, parse_grid
from figeval.wings.training.train_folder import TrainFolder
from tests import trainings
from tests.plugins.tiny import Workshop


@dataclass
class Heard(Observer):
    """Remembers how many trainings began and how many steps were made; may stop as a power cut would."""

    cut: int | None = None
    began_at: list[int] = field(default_factory=list)
    steps: int = 0

    def start(self, stage: str, total: int, done: int = 0, *, unit: str = "example", note: str = "") -> None:
        self.began_at.append(done)

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:
        self.steps += 1
        if self.steps == self.cut:
            raise KeyboardInterrupt

    def warn(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")


@pytest.fixture
def sweep(model: Path, tmp_path: Path) -> Any:
    """`sweep(Heard(), limit=20)` into the folder `out`."""

    def make(heard: Heard, **changes: Any) -> Sweep:
        notes.clear()
        return Sweep(trainings.config(model, tmp_path / "tasks", tmp_path / "out", **changes), heard, notes.append)

    notes: list[str] = []
    make.said = notes  # type: ignore[attr-defined]
    return make


GRID = {"lr": ["1e-3", "1e-2"]}


def test_a_grid_is_compared_on_dev_and_the_best_is_named(sweep: Any, tmp_path: Path) -> None:
    heard = Heard()
    record, best = sweep(heard).train_grid(GRID)
    assert sweep.said == ["1 of 2: lr=1e-3", "2 of 2: lr=1e-2"]
    assert [point.folder for point in record.points] == ["grid-lr-1e-3", "grid-lr-1e-2"]
    assert (record.metrics, record.dev.split(",")[0]) == (["acc", "mrr"], "6 of 60 examples of train")
    scores = {point.folder: (point.scores["acc"], point.scores["mrr"]) for point in record.points}
    assert record.best == max(scores, key=lambda name: scores[name]) == best.output.name
    assert not list(tmp_path.glob("out/*/runs"))  # nothing is scored on test
    assert GridRecord.model_validate_json((tmp_path / "out/grid.json").read_bytes()) == record
    again = Heard()
    assert sweep(again).train_grid(GRID)[0] == record
    assert again.began_at == []


@pytest.mark.slow
def test_seeds_are_averaged_and_kept(sweep: Any, tmp_path: Path) -> None:
    record = sweep(Heard()).train_seeds([3, 5])
    assert (record.seeds, record.wanted) == ([3, 5], [3, 5])
    for score in record.scores:
        values = [score.values[seed] for seed in ("3", "5")]
        assert values == [value_of(tmp_path / "out" / record.runs[seed], score.metric) for seed in ("3", "5")]
        assert score.mean == pytest.approx(sum(values) / 2)
        assert score.sd == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
        assert (score.low, score.interval.reason) == (None, "trained on 54 and chosen on 6 of 60 examples")
    assert [score.metric for score in record.scores] == ["acc", "mrr"]
    stored = json.loads((tmp_path / "out/seed-5/training/record.json").read_text())
    assert (stored["config"]["seed"], stored["preset"]) == (5, None)
    assert SeedsRecord.model_validate_json((tmp_path / "out/seeds.json").read_bytes()) == record
    further = Heard()
    assert sweep(further).train_seeds([3, 5, 6]).seeds == [3, 5, 6]
    assert further.began_at == [0]


def value_of(folder: Path, metric: str) -> float | None:
    (task,) = read_record(folder / "run.json").tasks
    return next(score.value for score in task.scores if score.metric == metric)


@pytest.mark.slow
def test_what_was_cut_off_goes_on(sweep: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(Heard(cut=3)).train_seeds([0, 1])
    assert SeedsRecord.model_validate_json((tmp_path / "out/seeds.json").read_bytes()).seeds == [0]
    rest = Heard()
    assert sweep(rest).train_seeds([0, 1]).seeds == [0, 1]
    assert (rest.began_at, rest.steps) == ([0], 2)


@pytest.mark.slow
def test_a_seed_that_is_trained_elsewhere_is_left_for_last(sweep: Any, tmp_path: Path) -> None:
    """The others are trained and averaged; the same command adds it when its folder is free."""
    with TrainFolder(tmp_path / "out/seed-3").locked():
        record = sweep(Heard()).train_seeds([3, 5])
    seed_folder = tmp_path / "out" / "seed-3"
    elsewhere = f"seed 3 is being trained or evaluated by another process in {seed_folder}"
    assert sweep.said == ["seed 3, 1 of 2", elsewhere, "seed 5, 2 of 2", "seed 3, again", elsewhere]
    assert (record.seeds, record.wanted, list(record.runs)) == ([5], [3, 5], ["5"])
    heard = Heard()
    assert sweep(heard).train_seeds([3, 5]).seeds == [3, 5]
    assert heard.began_at == [0]


def test_a_combination_that_is_trained_elsewhere_is_waited_for(sweep: Any, tmp_path: Path) -> None:
    """Choosing the best of the others would be another result than the command gives in the end."""
    words = "grid-lr-1e-3 in .*: being trained by another process; all other combinations are done"
    with TrainFolder(tmp_path / "out/grid-lr-1e-3").locked(), pytest.raises(FolderInUse, match=words):
        sweep(Heard()).train_grid(GRID)
    heard = Heard()
    assert not sweep(heard).train_grid(GRID)[0].points[0].error
    assert heard.began_at == [0], "the other one was trained before"


@pytest.mark.slow
def test_finished_seeds_are_read_once(sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores over seeds are computed from all predictions: once at the end, not after every finished seed."""
    first = sweep(Heard()).train_seeds([0, 1, 2])
    computed = []
    monkeypatch.setattr(sweeps, "scores_of", lambda *arguments: computed.append(arguments) or scores_of(*arguments))
    assert sweep(Heard()).train_seeds([0, 1, 2]) == first
    assert len(computed) == 1
    monkeypatch.setattr(sweeps, "complete_training", lambda *_: pytest.fail("run again"))
    assert sweep(Heard()).train_seeds([0, 1, 2]) == first


@pytest.mark.slow
def test_the_best_of_a_grid_is_trained_with_every_seed(sweep: Any, tmp_path: Path) -> None:
    trained_seeds = sweep(Heard())
    record, best = trained_seeds.train_grid({"lr": ["1e-2"], "head_args.temperature": ["0.1", "0.5"]})
    trained_seeds.train_seeds([1], best)
    stored = json.loads((tmp_path / "out/seed-1/training/record.json").read_text())["config"]
    assert record.best == f"grid-lr-1e-2-head_args.temperature-{stored['head_args']['temperature']}"
    assert (stored["lr"], stored["seed"], stored["head_args"]["pooling"]) == (0.01, 1, "mean")


def test_a_combination_whose_loss_breaks_does_not_stop_the_others(sweep: Any) -> None:
    record, best = sweep(Heard(), optimizer="adamw", clip=None).train_grid({"lr": ["1e30", "1e-2"]})
    assert "lower --lr" in record.points[0].error and not record.points[1].error
    assert best.lr == 0.01
    with pytest.raises(TrainError, match="no combination could be trained; the first: the loss"):
        sweep(Heard(), clip=None).train_grid({"lr": ["1e30"]})


@pytest.mark.parametrize(
    ("grid", "changes", "words"),
    [
        (["lr=1e-3"], {"select_on": "test"}, "compares on dev, never on test; leave out --select_on test"),
        (["lr=1e-3"], {"select_on": "none"}, "leave out --select_on none"),
        (["lr=1e-3,1e-3"], {}, "give distinct, non-empty values"),
        (["lr=1e-3,"], {}, "give distinct, non-empty values"),
        (["lr=quick"], {}, "--grid: lr must be a number"),
        (["lr"], {}, "write field=value,value"),
        (["seed=1,2"], {}, "--grid seed: this field cannot be varied"),
        (["learn=1"], {}, "--grid learn: this field cannot be varied"),
        (["device=cpu,cuda"], {}, "--grid device: this field cannot be varied"),
    ],
)
def test_what_cannot_be_swept(sweep: Any, tmp_path: Path, grid: list[str], changes: Any, words: str) -> None:
    with pytest.raises(TrainError) as raised:
        sweep(Heard(), **changes).train_grid(parse_grid(grid))
    assert words in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(sweep: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.pdf").write_text("")
    with pytest.raises(TrainError, match=r"contains 'thesis.pdf', which is not part of a sweep"):
        sweep(Heard()).train_seeds([0])


def test_grids_and_seeds_as_they_are_written() -> None:
    assert parse_grid(["lr=1e-5, 2e-5;epochs=3,5", "batch-size=8"]) == {
        "lr": ["1e-5", "2e-5"],
        "epochs": ["3", "5"],
        "batch_size": ["8"],
    }
    assert (parse_seeds("3", 42), parse_seeds("7,", 0), parse_seeds("1, 5", 0)) == ([42, 43, 44], [7], [1, 5])
    for wrong in ("0", "x", "1,1", "-2", "", ",", "99999999999", "9" * 5000):
        with pytest.raises(TrainError, match="--seeds"):
            parse_seeds(wrong, 0)
