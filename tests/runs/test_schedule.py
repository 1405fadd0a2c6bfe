"""Units: every example is handed out until it has a row, whatever happens to those who answer them."""

from __future__ import annotations

import random
import threading

import pytest

from figeval import RunConfig
from figeval.records.run_folder import RunFolder
from figeval.runs.plan import prepare
from figeval.runs.workers.schedule import LEAST, MOST, TRIES, Rate, Schedule
from tests.runs.conftest import Workshop, write_task

N = 60


@pytest.fixture
def schedule(workshop: Workshop) -> Schedule:
    """Two tasks of sixty examples for three workers; neighbours share no cluster."""
    for name in ("t", "u"):
        write_task(workshop.folder, name, N)
    _, plans, _ = prepare(RunConfig(tasks=("t", "u"), model="model"), workshop.harness())
    return Schedule.of(plans, RunFolder(workshop.path / "run"), 3)


def everything() -> set[tuple[str, str]]:
    return {(task, f"{task}{number}") for task in "tu" for number in range(N)}


def test_each_example_once_in_order_and_units_shrink_towards_the_end(schedule: Schedule) -> None:
    units = []
    while unit := schedule.take(20):
        units.append(unit)
        schedule.jobs[unit.task].close(unit, {}, lost=False)
    assert [unit.task for unit in units] == sorted(unit.task for unit in units)
    names = [(unit.task, name) for unit in units for name in unit.places]
    assert len(names) == len(set(names)) == 2 * N
    for task in "tu":
        indices = [index for unit in units if unit.task == task for index in unit.places.values()]
        assert indices == list(range(N))
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
    while (unit := schedule.take(20)) and len(units) < N:
        units.append(unit)
        schedule.jobs[unit.task].close(unit, {}, lost=False)
    assert [name for unit in units if unit.task == "t" for name in unit.places] == [f"t{i}" for i in range(7)]
    assert unit is None


def test_neighbours_of_one_cluster_stay_together(workshop: Workshop) -> None:
    write_task(workshop.folder, "t", N, **{f"row{i}": {"k": f"k{i // 7}"} for i in range(N)})
    _, plans, _ = prepare(RunConfig(tasks=("t",), model="model"), workshop.harness())
    schedule = Schedule.of(plans, RunFolder(workshop.path / "run"), 1)
    while unit := schedule.take(10):
        last = max(unit.places.values())
        assert last == N - 1 or (last + 1) % 7 == 0
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
