"""`figeval run --batch`: a batch for the whole run, collected by later processes, and dialogues of several rounds."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import figeval as package
from figeval import Example, Inquiry, Message, Model, Prediction, Prompt, Reply
from tests.plugins.batch_servers import BatchDesk, answer_to, batch_desk
from tests.processes import figeval, starting
from tests.runs.conftest import write_task

pytestmark = pytest.mark.usefixtures("warm_start")
N = 12


def says_b(body: dict[str, Any]) -> dict[str, Any]:
    answer = answer_to(body)
    answer["choices"][0]["message"]["content"] = "B"
    return answer


@pytest.fixture
def desk() -> Iterator[BatchDesk]:
    with batch_desk(reply=says_b) as desk:
        yield desk


@pytest.fixture
def command(desk: BatchDesk, tmp_path: Path) -> list[str]:
    (tmp_path / "tasks").mkdir()
    for name in ("s", "t"):
        write_task(tmp_path / "tasks", name, N)
    fixed = ["run", "--tasks", "s,t", "--include_path", "tasks", "--no_baselines", "--output_path", "out", "--batch"]
    return [*fixed, "--model", "openai:m", "--model_args", f"base_url={desk.url},input_price=1,output_price=1"]


def test_a_run_is_submitted_left_and_collected(desk: BatchDesk, command: list[str], tmp_path: Path) -> None:
    first = figeval(*command, "--fresh", cwd=tmp_path, code=75)
    *_, line = first.stderr.splitlines()
    n = len(desk.batches["batch_0"].requests)
    assert f"openai:m: {n} requests, about" in first.stderr
    assert line.startswith(f"figeval: 127.0.0.1: 0 of {n} requests of batch_0 are done; to collect the answers, run")
    assert line.endswith(" ".join(["figeval", *command]))
    record = json.loads((tmp_path / "out/run.json").read_text(encoding="utf-8"))
    assert (record["status"], record["model"]["description"]["batches"]) == ("running", ["batch_0"])
    again = figeval(*command, cwd=tmp_path, code=75)
    assert f"openai:m: no new requests; {n} requests already in a batch" in again.stderr
    figeval(*command, cwd=tmp_path)
    record = json.loads((tmp_path / "out/run.json").read_text(encoding="utf-8"))
    assert record["status"] == "complete"
    assert [task["counts"]["ok"] for task in record["tasks"]] == [N, N]
    description = record["model"]["description"]
    assert (description["batches"], description["cost"]) == (["batch_0"], pytest.approx(0.5 * 15 * n / 1e6))
    assert (len(desk.batches), desk.live_bodies, set(desk.processed.values())) == (1, [], {1}), (
        "one batch for both tasks"
    )


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_submits(desk: BatchDesk, command: list[str], tmp_path: Path) -> None:
    desk.pause = 3.0
    program = [starting["python"], "-m", "figeval", *command]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not desk.batches and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(desk.batches) == 1
    desk.pause = 0.0
    figeval(*command, cwd=tmp_path, code=75)  # it is found, and looked at for the first time
    figeval(*command, cwd=tmp_path)
    assert (len(desk.batches), set(desk.processed.values())) == (1, {1})


def test_a_model_without_a_batch_api_is_refused(tmp_path: Path) -> None:
    done = figeval("run", "--tasks", "mini_pairs", "--model", "overlap", "--batch", cwd=tmp_path, code=2)
    assert "--batch is for models with a batch API, such as openai:NAME" in done.stderr
    assert "leave it out for 'overlap'" in done.stderr


def test_a_program_is_told_by_an_exception(desk: BatchDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"model_args": {"base_url": desk.url}, "orders": "cyclic", "limit": 2, "baselines": False}
    for _ in range(2):
        with pytest.raises(package.NotFinished, match="make the same call again"):
            package.run("mini_proverbs", "openai:m", batch=True, **options)
    done = package.run("mini_proverbs", "openai:m", batch=True, **options)
    assert done.complete
    assert len(desk.batches) == 1, "all orders of the options are asked at once"


# ---- dialogues -------------------------------------------------------------------------------------------------------


class Slow:
    """Answers a batch when it is asked for the second time, with the question in capitals."""

    def __init__(self) -> None:
        self.replies: dict[Prompt, Reply] = {}
        self.batches: list[list[str]] = []

    def known_replies(self, requests: Sequence[Prompt]) -> list[Reply | None]:
        return [self.replies.get(request) for request in requests]

    def submit(self, requests: Sequence[Prompt]) -> None:
        self.batches.append([request.messages[-1].content for request in requests])
        self.replies |= {request: Reply(text=request.messages[-1].content.upper()) for request in requests}

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        return [self.replies[request] for request in requests]


def batches_of(*dialogues: Callable[[], Any]) -> Iterator[list[str]]:
    """Yield the questions of each batch, then what the dialogues raise."""
    examples = [Example(id=str(number)) for number in range(len(dialogues))]
    inquiry = Inquiry(lambda: examples, lambda example: dialogues[int(example.id)](), frozenset)
    model = Slow()
    answers = inquiry.answer(Model("slow", "slow", model), lambda *_: None, in_batches=True)
    next(answers)
    yield from model.batches
    assert sum(1 for _ in answers) == len(dialogues) - 1


def asks(*questions: str) -> Callable[[], Any]:
    """A dialogue with a question per round."""

    def dialogue() -> Any:
        for question in questions:
            (reply,) = yield [Prompt((Message("user", question),))]
            assert reply.text == question.upper()
        return Prediction(example_id="", value=None)

    return dialogue


def test_rounds_of_all_dialogues_go_together() -> None:
    batches = batches_of(asks("a", "c"), asks("b"), asks("a", "d", "e"), asks())
    assert list(batches) == [["a", "b"], ["c", "d"], ["e"]], "equal questions are asked once"


def test_a_dialogue_that_fails_does_not_keep_the_others_waiting() -> None:
    def broken() -> Any:
        yield [Prompt((Message("user", "x"),))]
        raise ValueError("a reader fails")

    batches = batches_of(broken, asks("a", "b"))
    assert [next(batches), next(batches)] == [["x", "a"], ["b"]]
    with pytest.raises(ValueError, match="a reader fails"):
        next(batches)
