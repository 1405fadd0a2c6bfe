"""Examples that a route cannot put to a model: said beforehand, left out, and the others are kept."""

from __future__ import annotations

import json

import pytest

from figeval import CapabilityError, TaskError
from figeval.testing.fakes import FakeGenerator
from tests.runs.conftest import Workshop

TASK = """
name: t
type: choice
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, query: row.query, options: row.options, gold: row.gold}
metrics: [acc]
baselines: [random]
"""


def asking(workshop: Workshop, *numbers: int) -> FakeGenerator:
    """A task whose examples have so many options, and a model that always says A."""
    (workshop.folder / "t.task.yaml").write_text(TASK, encoding="utf-8")
    rows = [
        {"id": f"t{index}", "query": f"word {index}", "options": [f"option {n}" for n in range(number)], "gold": 0}
        for index, number in enumerate(numbers)
    ]
    (workshop.folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    backend = FakeGenerator(function=lambda _: "A")
    workshop.backend = backend
    return backend


@pytest.mark.parametrize("numbers", [(27, 2, 26, 30), (2, 26, 27, 30)])
def test_what_has_too_many_options_costs_no_other_row(
    numbers: tuple[int, ...], workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = asking(workshop, *numbers)
    (task,) = workshop.run("t").tasks
    assert "by_letter cannot ask about 2 examples, left out (first:" in capsys.readouterr().err
    assert (task.status, task.counts) == ("done", {"ok": 2, "unasked": 2})
    values = {score.metric: (score.value, score.n) for score in task.scores}
    assert values == dict.fromkeys(("acc", "acc_of_all", "parse_rate"), (1.0, 2))
    assert len(backend.asked) == 2
    workshop.run("t")
    assert len(backend.asked) == 2, "a complete run"
    (read,) = workshop.rescore()
    assert not read.changed


def test_a_task_of_which_nothing_can_be_asked_is_refused(workshop: Workshop) -> None:
    asking(workshop, 27, 28)
    with pytest.raises(CapabilityError, match="27 options, more than the 26 letters"):
        workshop.run("t")


@pytest.mark.parametrize(("options", "answers"), [({}, 2), ({"orders": "2"}, 4)])
def test_a_row_with_too_many_options_is_no_solved_example(
    options: dict[str, str], answers: int, workshop: Workshop
) -> None:
    backend = asking(workshop, 2, 27, 3)
    with_train = TASK.replace('"jsonl:t.jsonl"}', '"jsonl:t.jsonl", train: "jsonl:train.jsonl"}')
    (workshop.folder / "t.task.yaml").write_text(with_train, encoding="utf-8")
    rows = [
        {"id": f"s{number}", "query": f"shot {number}", "options": [f"choice {n}" for n in range(number)], "gold": 0}
        for number in (27, 4, 30)
    ]
    (workshop.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (task,) = workshop.run("t", num_fewshot=1, **options).tasks
    assert (task.status, task.counts) == ("done", {"ok": answers, "unasked": 1})
    assert all("shot 4" in str(request) for request in backend.asked)
    workshop.path = workshop.path / "second"
    with pytest.raises(TaskError, match="--num_fewshot 2 cannot be met"):
        workshop.run("t", num_fewshot=2, **options)
