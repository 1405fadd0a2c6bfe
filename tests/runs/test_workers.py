"""Workers from inside: units, messages of workers that are not as they should be, what they leave, and their share.

What users see of them is tested in `test_processes` and `test_cluster`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from figeval import Harness, OptionError, RunConfig, RunRecord
from figeval.io.frontend import command_line
from figeval.io.observer import listening
from figeval.records.run_folder import RunFolder
from figeval.runs.plan import prepare
from figeval.runs.run import carry_out
from figeval.runs.workers import cluster, local
from figeval.runs.workers.protocol import Hire, Message, Order, Unit, WorkerLost
from figeval.runs.workers.schedule import LEAST, MOST, TRIES, Rate, Schedule
from figeval.runs.workers.session import Session
from tests.runs.conftest import Heard, Workshop, write_task

# ---- units: every example is handed out until it has a row, whatever happens to those who answer them ---------------

N_EACH = 60


@pytest.fixture
def schedule(workshop: Workshop) -> Schedule:
    """Two tasks of sixty examples for three workers; neighbours share no cluster."""
    for name in ("t", "u"):
        write_task(workshop.folder, name, N_EACH)
    _, plans, _ = prepare(RunConfig(tasks=("t", "u"), model="model"), workshop.harness())
    return Schedule.of(plans, RunFolder(workshop.output), 3)


def everything() -> set[tuple[str, str]]:
    return {(task, f"{task}{number}") for task in "tu" for number in range(N_EACH)}


def test_each_example_once_in_order_and_units_shrink_towards_the_end(schedule: Schedule) -> None:
    units = []
    while unit := schedule.take(20):
        units.append(unit)
        schedule.jobs[unit.task].close(unit, {}, lost=False)
    assert [unit.task for unit in units] == sorted(unit.task for unit in units)
    names = [(unit.task, name) for unit in units for name in unit.places]
    assert len(names) == len(set(names)) == 2 * N_EACH
    for task in "tu":
        indices = [index for unit in units if unit.task == task for index in unit.places.values()]
        assert indices == list(range(N_EACH))
        sizes = [len(unit.places) for unit in units if unit.task == task]
        assert sizes[0] == 10  # a sixth of what is left
        assert sizes == sorted(sizes, reverse=True)
        assert min(sizes[:-1]) >= LEAST


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_comes_back_and_only_the_cause_is_given_up(schedule: Schedule, seed: int) -> None:
    """Workers die of two examples, and now and then of nothing, after they have answered some."""
    chance = random.Random(seed)
    deadly, answered, given_up = {("t", "t7"), ("u", "u59")}, set(), []
    accidents = 5
    while unit := schedule.take(chance.choice((4, 16, 64))):
        names = list(unit.places)
        dies = next((index for index, name in enumerate(names) if (unit.task, name) in deadly), None)
        if dies is None and accidents and len(names) > 1 and chance.random() < 0.3:
            accidents -= 1
            dies = chance.randrange(len(names))
        done = names if dies is None else names[:dies]
        assert not answered & {(unit.task, name) for name in done}
        answered |= {(unit.task, name) for name in done}
        left = {name: unit.places[name] for name in names[len(done) :]}
        culprit = schedule.jobs[unit.task].close(unit, left, lost=dies is not None)
        if culprit is not None:
            assert culprit.lost == TRIES
            given_up.append((culprit.task, *culprit.places))
    assert sorted(given_up) == sorted(deadly)
    assert answered == everything() - deadly


def test_a_task_that_failed_is_not_handed_out_any_more(schedule: Schedule) -> None:
    unit = schedule.take(4)
    assert unit is not None
    schedule.jobs["t"].failure = "a bug"
    schedule.jobs["t"].close(unit, {}, lost=False)
    assert schedule.jobs["t"].over
    following = schedule.take(4)
    assert following is not None
    assert following.task == "u"


def test_whoever_finds_nothing_waits_for_what_may_come_back(schedule: Schedule) -> None:
    units = []
    while any(job.waiting for job in schedule.jobs.values()):
        unit = schedule.take(64)
        assert unit is not None
        units.append(unit)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(schedule.take(64)))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    with schedule.changed:
        schedule.jobs[units[0].task].close(units[0], units[0].places, lost=True)
        schedule.changed.notify_all()
    thread.join(10)
    assert taken[0].places == units[0].places
    assert taken[0].lost == 1


def test_data_that_were_cut_short_in_the_meantime_come_to_an_end(schedule: Schedule, workshop: Workshop) -> None:
    write_task(workshop.folder, "t", 7)
    units = []
    while (unit := schedule.take(20)) and len(units) < N_EACH:
        units.append(unit)
        schedule.jobs[unit.task].close(unit, {}, lost=False)
    assert [name for unit in units if unit.task == "t" for name in unit.places] == [f"t{i}" for i in range(7)]
    assert unit is None


def test_neighbours_of_one_cluster_stay_together(workshop: Workshop) -> None:
    write_task(workshop.folder, "t", N_EACH, **{f"row{i}": {"k": f"k{i // 7}"} for i in range(N_EACH)})
    _, plans, _ = prepare(RunConfig(tasks=("t",), model="model"), workshop.harness())
    schedule = Schedule.of(plans, RunFolder(workshop.output), 1)
    while unit := schedule.take(10):
        last = max(unit.places.values())
        assert last == N_EACH - 1 or (last + 1) % 7 == 0
        schedule.jobs["t"].close(unit, {}, lost=False)


def test_units_take_about_as_long_as_they_should() -> None:
    rate = Rate()
    rate.adapt(64, 0.01)
    assert rate.size == 256  # it grows by steps, since the first unit says little
    rate.adapt(256, 0.01)
    rate.adapt(1024, 0.01)
    rate.adapt(4096, 0.01)
    assert rate.size == MOST
    rate.adapt(64, 60.0)
    assert rate.size == 16
    rate.adapt(16, 600.0)
    assert rate.size == LEAST


# ---- what a run makes of what its workers send ----------------------------------------------------------------------

N = 40
Change = Callable[[list[Message]], Iterator[Message]]


@dataclass
class Strange:
    """A worker in this process; `change` makes other messages of those about a unit."""

    order: Order
    change: Change

    def ready(self) -> None:
        """It is."""

    def answer(self, unit: Unit) -> Iterator[Message]:
        """Yield messages that were changed."""
        messages: list[Message] = []
        session = Session(self.order, lambda *message: messages.append(message))
        session.answer(unit)
        session.close()
        yield from self.change(messages)

    def stop(self) -> None:
        """Nothing goes on."""

    close = stop


@dataclass(frozen=True)
class Staff:
    """Two of them."""

    change: Change
    workers: int = 2

    def hiring(self, order: Order, _folder: Path, _workers: int) -> Hire:
        """Return the function that makes one."""
        return lambda _number: Strange(order, self.change)


class Watcher(Heard):
    """An observer that also hears about requests."""

    def count_requests(self, answered: int, requests: int) -> None:
        """Take note of them."""
        self.events.append(("asked", answered, requests))


@dataclass
class Office:
    """A folder with a task."""

    path: Path
    watcher: Watcher = field(default_factory=Watcher)

    def run(self, name: str, change: Change | None = None, **settings: Any) -> RunRecord:
        """Run the task, with workers if their messages are changed."""
        harness = Harness(include=(self.path,))
        options: dict[str, Any] = {"tasks": ("t",), "model": "overlap", **settings}
        config = RunConfig(include_path=(self.path,), output_path=self.path / name, **options)
        staff = None if change is None else Staff(change)
        with listening(self.watcher):
            return carry_out(config, harness, self.watcher, prepare(config, harness), staff)[0]

    def predictions(self, name: str) -> str:
        """Return the rows on disk."""
        return (self.path / name / "predictions" / "t.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    write_task(tmp_path, "t", N)
    return Office(tmp_path)


def test_rows_that_come_twice_or_are_of_other_examples_count_once(office: Office) -> None:
    def twice(messages: list[Message]) -> Iterator[Message]:
        *before, end = messages
        yield from before
        for name in [message[1] for message in before if message[0] == "row"]:
            yield "row", name, b"{}"
            yield "row", "t39" if name != "t39" else "t0", b"{}"  # another unit's
            yield "row", "nobody", b"{}"
        yield end

    office.run("one")
    office.watcher.events.clear()
    record = office.run("two", twice)
    assert [task.status for task in record.tasks] == ["done"]
    assert office.predictions("two") == office.predictions("one")
    assert [event[1] for event in office.watcher.events if event[0] == "reach"][-1] == N


def test_rows_that_never_come_fail_the_task_and_the_next_run_computes_them(office: Office) -> None:
    record = office.run("two", lambda messages: (message for message in messages if message[1:2] != ("t7",)))
    (task,) = record.tasks
    assert task.status == "failed"
    assert task.error is not None
    assert "1 rows of t are missing, although all were computed" in task.error
    office.run("one")
    assert office.run("two", iter).status == "complete"
    assert office.predictions("two") == office.predictions("one")


def test_requests_of_a_lost_worker_are_not_counted_any_more(office: Office) -> None:
    lost = threading.Event()

    def loses(messages: list[Message]) -> Iterator[Message]:
        if threading.current_thread().name == "worker 1":
            yield "count_requests", 100, 10_000
            lost.set()
            raise WorkerLost("was lost")
        lost.wait(10)
        time.sleep(0.05)
        yield "count_requests", 1, 2
        yield from (message for message in messages if message[0] != "count_requests")

    office.run("two", loses, baselines=False)
    heard = office.watcher.events
    assert ("asked", 100, 10_000) in heard
    assert ("asked", 1, 2) in heard


def test_the_row_of_an_example_that_killed_its_workers_has_its_texts_too(office: Office) -> None:
    def deadly(messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            if message[1:2] == ("t7",):
                raise WorkerLost("was lost")
            yield message

    assert office.run("two", deadly, log_samples=True).status == "incomplete"
    rows = {row["id"]: row for row in map(json.loads, office.predictions("two").splitlines())}
    assert rows["t7"]["status"] == "error"
    assert rows["t7"]["texts"][0] == rows["t8"]["texts"][0].replace("8", "7")
    office.run("one", log_samples=True)
    office.run("two", iter, log_samples=True)
    assert office.predictions("two") == office.predictions("one")


def test_the_record_describes_the_model_as_it_was_at_the_last_task(office: Office) -> None:
    write_task(office.path, "u", 5)  # fewer words
    first, second = (
        office.run(name, change, tasks=("t", "u"), model="tfidf") for name, change in (("1", None), ("2", iter))
    )
    assert first.model.description["vocabulary"] == second.model.description["vocabulary"] < N


# ---- what worker processes leave on disk, and their share of the machine --------------------------------------------

RECORD: Any = None


class Ended:
    """A process that ended at once."""

    returncode = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stdin, self.stdout = BytesIO(), BytesIO()

    def wait(self, _seconds: float) -> None:
        """Nothing to wait for."""


@pytest.fixture
def often() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often")
def test_one_worker_begins_while_another_one_takes_its_log_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.subprocess, "Popen", Ended)
    order = Order(RunConfig(tasks=("t",), model="m", processes=2), RECORD, ".")
    workers = local.LocalWorkers(order, tmp_path, 2)
    errors: list[Exception] = []

    def begin_and_end(number: int) -> None:
        try:
            for _ in range(500):
                workers.hire(number).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=begin_and_end, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("printed", "last"),
    [
        (b"", ""),
        (b"first\nlast \n\n", "last"),
        (b"loading: 0 %\rloading: 50 %\rloading: 99 %", "loading: 99 %"),  # a bar moves within one line
        (b"x" * 1_000_000 + b"\n" + b"\xff the end\n", "\N{REPLACEMENT CHARACTER} the end"),
    ],
)
def test_the_last_line_says_how_a_worker_ended(tmp_path: Path, printed: bytes, last: str) -> None:
    (tmp_path / "log").write_bytes(printed)
    assert local.last_line(tmp_path / "log") == last


def test_no_process_is_started_for_nothing(workshop: Workshop) -> None:
    write_task(workshop.folder, "t", 5)
    workshop.run(limit=2)
    folder = RunFolder(workshop.output)
    config = RunConfig(tasks=("t",), model="model", limit=5, processes=8, fresh=True)
    _, plans, _ = prepare(config, workshop.harness())
    schedule = Schedule.of(plans, folder, 8)
    assert schedule.jobs["t"].left == 3
    unit = schedule.take(64)
    assert unit is not None
    assert unit.places == {"t2": 2, "t3": 3, "t4": 4}


def test_each_process_has_its_share_of_the_machine(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: 2))
    monkeypatch.setitem(sys.modules, "torch", torch)
    write_task(workshop.folder, "t", 9)

    def values_of(name: str) -> list[str | None]:
        config = RunConfig(tasks=("t",), model="model", processes=3)
        workers = local.LocalWorkers(Order(config, RECORD, "."), workshop.path, 3)
        return [workers.environment(number).get(name) for number in range(3)]

    def chosen(**settings: Any) -> list[str]:
        return local.devices(RunConfig(tasks=("t",), model="model", **settings))

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert chosen() == chosen(device="cuda") == ["0", "1"]
    assert chosen(device="cuda:1") == chosen(model_args={"device": "cpu"}) == []
    assert values_of("CUDA_VISIBLE_DEVICES") == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7")
    assert values_of("CUDA_VISIBLE_DEVICES") == ["5", "GPU-7", "5"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert values_of("CUDA_VISIBLE_DEVICES") == ["5,GPU-7"] * 3, "one device is shared as it is"

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert values_of("OMP_NUM_THREADS") == ["7"] * 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert values_of("OMP_NUM_THREADS") == ["5"] * 3


# ---- on a cluster: how many workers, and what each gets -------------------------------------------------------------


@pytest.mark.parametrize(
    ("machines", "workers", "gpus", "expected"),
    [
        ([(8, 0), (8, 0)], None, None, (2, 8, 0)),  # one per machine
        ([(8, 0), (8, 0)], 3, None, (3, 4, 0)),
        ([(8, 4), (8, 4)], None, None, (8, 2, 1)),  # one per GPU
        ([(8, 4), (8, 4)], None, 2, (4, 4, 2)),
        ([(8, 1)], 2, 0.5, (2, 4, 0.5)),  # two share a GPU
        ([(8, 4)], 2, 0, (2, 4, 0)),
        ([(2, 0), (16, 8)], 4, None, (4, 4, 1)),
    ],
)
def test_each_worker_gets_its_share(
    machines: list[tuple[int, int]], workers: int | None, gpus: float | None, expected: tuple[int, int, float]
) -> None:
    nodes = [{"CPU": float(cpu), "GPU": float(gpu)} for cpu, gpu in machines]
    shape = cluster.Shape.of(nodes, workers, gpus, cpu=False)
    assert (shape.workers, shape.cpus, shape.gpus) == expected


@pytest.mark.parametrize(
    ("machines", "workers", "gpus", "complaint"),
    [
        ([(2, 0)], 3, None, r"--workers 3: the cluster \(2 CPUs and 0 GPUs on 1 machine\) has room for 2 workers"),
        ([(8, 2), (8, 1)], 4, 1, "room for 3 workers with 1 GPU and a core each; use --workers 3"),
        ([(8, 0)], None, 1, r"--gpus_per_worker 1: the cluster \(8 CPUs and 0 GPUs on 1 machine\) has room for 0"),
        ([(8, 0)], 1, 1, "--workers 1: the cluster .* room for 0 workers with 1 GPU .* leave out --gpus_per_worker"),
        ([(8, 0)], None, 2, "room for 0 workers with 2 GPUs .* or use a cluster with GPUs"),
        ([(8, 1)], None, 2, "room for 0 workers .* use a larger cluster, or a lower --gpus_per_worker"),
        ([(0, 0)], None, None, r"--ray: the cluster \(0 CPUs .* with a core each; use a larger cluster$"),
        ([(8, 4)], 1, 1.5, "give a whole number, or a fraction of one GPU"),
    ],
)
def test_there_is_no_room(
    machines: list[tuple[int, int]], workers: int | None, gpus: float | None, complaint: str
) -> None:
    nodes = [{"CPU": float(cpu), "GPU": float(gpu)} for cpu, gpu in machines]
    with pytest.raises(OptionError, match=complaint):
        cluster.Shape.of(nodes, workers, gpus, cpu=False)


def test_a_slow_connection_is_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(cluster, "QUICK", 0.05)
    for seconds, expected in ((0.0, ""), (0.2, "connecting to the Ray cluster …\n")):
        monkeypatch.setattr(ray, "init", lambda seconds=seconds, **_: time.sleep(seconds))
        with command_line(["run"]), cluster.cluster_connection("auto"):
            assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "The actor died unexpectedly before finishing this task.\n\tclass_name: Actor\n\tactor_id: de2e\n"
            "The actor died because its node has died. Node Id: aca4\n\tthe actor's node was terminated expectedly",
            "its node has died. Node Id: aca4 the actor's node was terminated expectedly",
        ),
        ("The actor is dead because it was killed by `ray.kill`.", "it was killed by `ray.kill`"),
        (
            "The actor died unexpectedly before finishing this task.\nThe actor is dead because its worker process has "
            "died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection "
            "error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer due "
            "to high memory usage, (2) ray stop --force is called, (3) SIGSEGV or another unexpected error.",
            "its worker process has died",
        ),
        ("RPC error: Socket closed rpc_code: 14. The task may or may not have been executed", "Socket closed"),
        ("something else", "something else"),
    ],
)
def test_the_reason_stands_behind_details(message: str, expected: str) -> None:
    assert cluster.reason(message) == expected


def test_no_secrets_and_no_places_of_this_machine_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "FIGEVAL_API_KEY", "HF_HOME", "PATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FIGEVAL_PLUGINS", "mine")
    variables = cluster.passed_on()
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert variables["FIGEVAL_PLUGINS"] == "mine"
    assert not {"HF_TOKEN", "FIGEVAL_API_KEY", "HF_HOME", "PATH", "CUDA_VISIBLE_DEVICES"} & set(variables)
