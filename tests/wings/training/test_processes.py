"""Several processes train what one would, whoever dies on the way, and however the weights are held."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock
from safetensors.torch import load_file

from tests.plugins.tiny import Workshop
from tests.trainings import write_tasks

ROOT = Path(__file__).resolve().parents[3]
STEPS, EPOCH = 18, 6  # three epochs of 48 examples
EARLIER_STEP = 15  # step of the last checkpoint but one, whose state is kept
pytestmark = pytest.mark.slow
deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs deepspeed: pip install 'figeval[deepspeed]'"
)


class Training:
    """One command with a folder of its own, and what it has left there."""

    def __init__(self, yard: Path, output: str, python: Path | str) -> None:
        self.yard, self.folder = yard, yard / output
        self.command = [
            *(str(python), "-m", "figeval", "train", "--include_path", "tasks", "--task", "tiny_retrieval"),
            *("--model", "model", "--output", output, "--head_args", "pooling=mean", "--batch_size", "8"),
            *("--epochs", "3", "--patience", "9", "--lr", "1e-3", "--holdout", "0.2", "--device", "cpu"),
        ]

    def start(self, *arguments: str, **environment: str) -> psutil.Popen:
        """In the background."""
        path = os.pathsep.join([str(ROOT), str(self.yard)])
        variables = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
        variables["TRAINING"] = str(self.folder)
        variables["TORCH_EXTENSIONS_DIR"] = str(self.yard / "compiled")
        return psutil.Popen(
            [*self.command, *arguments],
            cwd=self.yard,
            env={**variables, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
        """To the end; what it has printed."""
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == code, errors
        return output, errors

    def copy(self, output: str, python: Path) -> Training:
        """The same training as it stands, in another folder."""
        shutil.copytree(self.folder, self.yard / output)
        return Training(self.yard, output, python)

    @property
    def step(self) -> int:
        """Of the last checkpoint."""
        file = self.folder / "training" / "progress.json"
        return int(json.loads(file.read_text())["step"]) if file.exists() else 0

    def noted(self, field: str) -> dict[int, Any]:
        """Losses or scores by step, each step once."""
        lines = (self.folder / "training" / "history.jsonl").read_text().splitlines()
        values_of_steps = [(line["step"], line[field]) for line in map(json.loads, lines) if field in line]
        assert len(values_of_steps) == len(dict(values_of_steps))
        return dict(values_of_steps)

    def weights(self) -> dict[str, Any]:
        return dict(load_file(self.folder / "model.safetensors"))

    def hoard(self, *arguments: str) -> None:
        """Train to the end, and keep the state of `EARLIER_STEP`."""
        self.command[2:3] = ["tests.wings.training.hoards"]
        self(*arguments, "--checkpoint_every", "3")

    def state(self) -> dict[str, Any]:
        return dict(load_file(self.folder.with_suffix(f".step-{EARLIER_STEP:06d}") / "state.safetensors"))


def wait(condition: Callable[[], bool], process: psutil.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def reported_lines(errors: Iterable[str]) -> Iterator[str]:
    """The lines of stderr without those that only say, on a busy machine, that something goes on: `… (5 s)`."""
    return (line for line in map(str.strip, errors) if not re.search(r" … \(\d+ s\)$", line))


def processes_of(training: Training) -> dict[psutil.Process, str | None]:
    """The processes of a training, and which of those that train each is; the first has started the others."""
    processes = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (environment := process.environ()).get("TRAINING") == str(training.folder):
                processes[process] = environment.get("RANK")
    return processes


# ---- one training, cut off twice ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def yard(shared_folder: Path) -> Path:
    """One folder for all processes that test: what is in it is made once."""
    yard = shared_folder / "processes"
    with FileLock(shared_folder / "processes.lock"):
        if not yard.exists():
            draft = shared_folder / "processes.draft"
            model = Workshop(draft)("bert", "Model", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            model.rename(draft / "model")
            write_tasks(draft / "tasks")
            draft.rename(yard)
    return yard


def once(training: Training, make: Callable[[Training], Any]) -> tuple[Training, Any]:
    """A training that is made by whoever asks first, and what was seen of it."""
    name, facts = training.folder.name, training.folder.with_suffix(".json")
    with FileLock(training.yard / f"{name}.lock"):
        if not facts.exists():
            facts.write_text(json.dumps(make(training)))
    return training, json.loads(facts.read_text())


@pytest.fixture(scope="session")
def python(warm: Path) -> Path:
    """One that is quick to start, and so are the processes of a training that it starts."""
    return warm / "python"


@pytest.fixture(scope="session")
def single_training(yard: Path, python: Path) -> Training:
    """By one process, undisturbed."""
    return once(Training(yard, "one", python), Training.hoard)[0]


def kill_process(training: Training) -> dict[str, Any]:
    """Two processes, of which one is killed when there is a checkpoint."""
    process = training.start("--processes", "2")
    wait(lambda: training.step >= EPOCH, process)
    processes = processes_of(training)
    next(process for process, rank in processes.items() if rank == "1").kill()
    _, errors = process.communicate(timeout=60)
    left = [process.pid for process in psutil.wait_procs(processes, timeout=20)[1]]
    return {"code": process.returncode, "errors": errors, "step": training.step, "left": left}


@pytest.fixture(scope="session")
def cut(yard: Path, python: Path) -> tuple[Training, dict[str, Any]]:
    """By two processes, until one of them was killed."""
    return once(Training(yard, "cut", python), kill_process)


Cut = tuple[Training, dict[str, Any]]


def test_a_killed_process_ends_the_job_with_a_line_and_no_hang(cut: Cut) -> None:
    seen = cut[1]
    assert seen["code"] == 2
    assert seen["left"] == []
    lines = [*reported_lines(seen["errors"].splitlines())]
    assert lines[0] == "loading model model …"
    assert [line.count("chosen on only 12 examples") for line in lines[:3]].count(1) == 1, "one process warns"
    assert [line.partition(":")[0] for line in lines if line.startswith(("step 0", "training"))] == [
        "step 0",
        "training",
    ]
    assert lines[-2].startswith("training: ") and lines[-2].endswith("FAILED")
    assert lines[-1] == (
        f"figeval: process 1 was killed (signal 9); the last checkpoint is at step {seen['step']}; "
        "the same command resumes from it; log: cut/training/processes.log"
    )
    assert not any(word in seen["errors"] for word in ("Traceback", "Warning", "elastic", "gloo")), "noise of libraries"


def test_two_processes_have_the_losses_and_scores_of_one(cut: Cut, single_training: Training) -> None:
    losses, all_losses = cut[0].noted("loss"), single_training.noted("loss")
    assert list(all_losses) == list(range(1, STEPS + 1))
    assert len(losses) >= EPOCH
    assert losses == {step: pytest.approx(all_losses[step], rel=1e-5) for step in losses}
    scores, all_scores = cut[0].noted("scores"), single_training.noted("scores")
    assert scores == {step: pytest.approx(all_scores[step], abs=1e-6) for step in scores}


WAYS = {
    "one": ((), 1e-5),
    "zero2": (("--processes", "2", "--deepspeed", "zero2"), 1e-4),
    "zero3": (("--processes", "2", "--deepspeed", "zero3"), 1e-4),
    "fsdp": (("--processes", "2", "--fsdp"), 1e-4),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=deepspeed if "zero" in way else ()) for way in WAYS])
def test_it_goes_on_with_other_processes_that_hold_weights_in_other_ways(
    way: str, cut: Cut, single_training: Training, python: Path
) -> None:
    arguments, tolerance = WAYS[way]
    training = cut[0].copy(f"on-{way}", python)
    training.hoard(*arguments, *(() if way == "zero3" else ("--evaluate", "")))
    losses, all_losses = training.noted("loss"), single_training.noted("loss")
    assert losses == {step: pytest.approx(all_losses[step], rel=tolerance) for step in range(1, STEPS + 1)}
    scores = training.noted("scores")
    assert scores == {step: pytest.approx(score, abs=1e-6) for step, score in single_training.noted("scores").items()}
    assert is_alike(training.weights(), single_training.weights())
    assert is_alike(training.state(), single_training.state()), "weights, moments and counters, whole and by name"
    assert not (training.yard / "compiled").exists(), "nothing is compiled first"
    if way == "zero3":  # and it was evaluated by one process, which loaded it
        runs = [
            json.loads((either.folder / "runs" / "tiny_retrieval" / "run.json").read_text())
            for either in (training, single_training)
        ]
        before, after = ({score["metric"]: score["value"] for score in run["tasks"][0]["scores"]} for run in runs)
        assert before == pytest.approx(after, abs=1e-6)


@pytest.mark.parametrize("way", [pytest.param(way, marks=deepspeed if "zero" in way else ()) for way in WAYS])
def test_passes_planned_by_cost_have_the_losses_of_a_cpu_s(
    way: str, yard: Path, single_training: Training, python: Path
) -> None:
    """Also in two processes that share nothing: if they did not take equally many passes, they would wait forever."""
    training = Training(yard, f"planned-{way}", python)
    training.command[2:3] = ["tests.wings.training.gauges"]
    arguments, tolerance = WAYS[way]
    training(*(arguments or ("--processes", "2")), "--max_steps", "9", "--select_on", "none", "--evaluate", "")
    progress = json.loads((training.folder / "training" / "progress.json").read_text())
    assert progress["cost"]["device"].startswith("made up, 2 x")
    assert progress["cost"]["seconds_per_pass"] == pytest.approx(1.0)
    assert (
        2 * 9
        <= progress["passes"]
        < json.loads((single_training.folder / "training" / "progress.json").read_text())["passes"]
    )
    losses, all_losses = training.noted("loss"), train_unplanned(yard, python).noted("loss")
    assert losses == {step: pytest.approx(all_losses[step], rel=tolerance) for step in range(1, 10)}


def train_unplanned(yard: Path, python: Path) -> Training:
    """The same training in one process, with the passes of a CPU."""

    def make(training: Training) -> None:
        training("--max_steps", "9", "--select_on", "none", "--evaluate", "")

    return once(Training(yard, "unplanned", python), make)[0]


def is_alike(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """But for rounding. Biases of keys change no attention: all their gradient is rounding, and Adam makes it large."""
    assert left.keys() == right.keys()
    names = [name for name in left if ".key.bias" not in name]
    return all(left[name].allclose(right[name], rtol=1e-3, atol=1e-5) for name in names)


def test_one_process_that_is_killed_ends_with_the_very_same_weights(
    yard: Path, single_training: Training, python: Path
) -> None:
    training = Training(yard, "again", python)
    process = training.start("--evaluate", "")
    wait(lambda: training.step >= EPOCH, process)
    process.kill()
    process.communicate()
    assert training.step < STEPS
    training("--evaluate", "")
    assert training.noted("loss") == single_training.noted("loss")
    files = [(either.folder / "model.safetensors").read_bytes() for either in (training, single_training)]
    assert files[0] == files[1]


@deepspeed
def test_adapters_beside_weights_in_parts(yard: Path, python: Path) -> None:
    """LoRA with ZeRO-3, for models that do not fit: the adapters are folded into weights that no process has whole."""
    pytest.importorskip("peft", reason="needs peft: pip install 'figeval[lora]'")
    flags = ("--lora", "2", "--max_steps", "3", "--select_on", "none", "--evaluate", "")
    alone, together = Training(yard, "lora", python), Training(yard, "lora-zero3", python)
    alone(*flags)
    together(*flags, "--processes", "2", "--deepspeed", "zero3")
    assert together.noted("loss") == {step: pytest.approx(loss, rel=1e-5) for step, loss in alone.noted("loss").items()}
    before, trained = dict(load_file(yard / "model" / "model.safetensors")), together.weights()
    assert is_alike(trained, alone.weights())
    changed_fields = {name.rpartition("attention.")[2] for name in before if not before[name].equal(trained[name])}
    assert changed_fields == {"self.query.weight", "self.value.weight"}


# ---- what goes wrong in a process -----------------------------------------------------------------------------------


class Moody(Training):
    """Processes that do something else than to train, which takes less time."""

    def __init__(self, yard: Path, mood: str, python: Path | str = sys.executable) -> None:
        super().__init__(yard, mood, python)
        self.command[2:3] = ["tests.wings.training.moods"]
        self.command += ["--processes", "2", "--evaluate", ""]
        self.log = self.folder / "training" / "processes.log"

    def start(self, *arguments: str, **environment: str) -> psutil.Popen:
        return super().start(*arguments, MOOD=self.folder.name, **environment)


def test_what_the_user_can_mend_is_one_line(yard: Path, python: Path) -> None:
    _, errors = Moody(yard, "mendable", python)(code=2)
    assert [*reported_lines(errors.splitlines())] == [
        "loading model model …",
        "figeval: this cannot be trained; take that",
    ]


def test_a_bug_shows_its_traceback_once_and_the_log_has_what_libraries_print(yard: Path, python: Path) -> None:
    training = Moody(yard, "buggy", python)
    output, errors = training(code=1)
    assert errors.count("ZeroDivisionError: a bug") == 1
    assert "process 1 failed; log: buggy/training/processes.log" in errors
    assert "what libraries print" not in output + errors
    assert "what libraries print" in training.log.read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["ctrl-c", "killed"])
def test_no_process_outlives_the_one_that_was_asked_to_train(yard: Path, number: int, code: int) -> None:
    """These are started like a user's, so that nothing on stderr comes from libraries."""
    training = Moody(yard, "busy")
    process = training.start()
    assert process.stderr is not None
    lines = [*islice(reported_lines(process.stderr), 3)]
    assert lines[:2] == ["loading model model …", "continuing from step 3 of 9"]
    assert lines[2].startswith("training: 3 of 9")
    children = process.children(recursive=True)
    assert len(children) == 3, "torchrun and two processes"
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert psutil.wait_procs(children, timeout=20)[1] == []
    if number == signal.SIGINT:
        assert errors.strip() == "figeval: interrupted; results so far are kept, and the same command resumes"
