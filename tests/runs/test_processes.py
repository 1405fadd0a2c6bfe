"""Several processes answer what one would: each example once, whoever dies on the way."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from figeval import ModelError
from tests.finished_runs import finished
from tests.plugins.tiny import Workshop as Checkpoints
from tests.processes import beside
from tests.runs.commands import SLOW_FOLDER, Run, same_files, wait
from tests.runs.conftest import Workshop, write_task

N = 300
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

MOODY_PLUGIN = """
import os
import signal
import sys
import time
from contextlib import suppress
from figeval import FigevalError, ModelError, Reply, hookimpl

UNHEARD = Reply(text="", finish="error", error="nobody there")

class Moody:
    is_chat_model = False
    deterministic_by_name = True
    def __init__(self, model=""):
        self.mood = os.environ.get("MOOD", "")
    def begin_a_process(self):
        # a child that outlives this process, which dies; only the first of all workers does that
        with suppress(FileExistsError), open("child", "x") as file:
            child = os.fork()
            if child:
                print(child, file=file, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
            os._exit(0)
    def generate(self, prompts):
        if self.mood == "forking":
            assert sys.stdin.read() == ""
            assert os.read(0, 1) == b""
            self.begin_a_process()
        asked = [prompt.messages[-1].content for prompt in prompts]
        deadly = self.mood == "lethal" or self.mood == "deadly" and any("word3 " in question for question in asked)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mood == "unusable":
            raise ModelError("these weights are of no use; take others")
        if self.mood == "broken" and any("word3 " in question for question in asked):
            raise SystemExit(0)
        absent = self.mood == "absent"
        return [UNHEARD if absent and "7 here" in text else Reply(text="A") for text in asked]

def strict(example, prediction):
    if os.environ.get("MOOD") == "strict" and example.id == "t7":
        raise ArithmeticError("no answer")
    return 1.0

@hookimpl
def register_backends(register):
    register("moody", Moody)

@hookimpl
def register_metrics(register):
    register("strict", strict)
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tasks, and plugins with models that only processes in it find."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "moody.py").write_text(MOODY_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", beside(os.pathsep.join([str(SLOW_FOLDER), str(tmp_path)])))
    monkeypatch.setenv("FIGEVAL_PLUGINS", "slow_model,moody")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


# ---- the same as one process ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "tasks"),
    [
        ("tfidf", ["mini", "mini_motif"]),  # fitted to all texts of a task; metrics that depend on all examples
        ("random", ["mini_alignment", "mini_joint", "mini_proverbs"]),
    ],
)
def test_the_same_as_one_process_to_the_byte(bench: Path, model: str, tasks: list[str]) -> None:
    finished(bench / "one", *tasks, model=model, by=("proverb",))
    first, second = (
        Run(bench, "one"),
        Run(bench, "two", "--tasks", ",".join(tasks), "--model", model, "--by", "proverb"),
    )
    second(2)
    assert same_files(first, second)
    assert second.clean()
    assert first.record["identity"] == second.record["identity"]
    assert second.record["config"]["processes"] == 2


def test_a_network_answers_alike_and_what_it_is_stands_in_the_record(bench: Path) -> None:
    model, model_args = f"encoder:{Checkpoints(bench)('bert', 'Model')}", {"pooling": "cls", "max_length": 48}
    finished(bench / "one", "mini_proverbs", model=model, model_args=model_args, device="cpu")
    arguments = (
        "--tasks",
        "mini_proverbs",
        "--model",
        model,
        "--model_args",
        json.dumps(model_args),
        "--device",
        "cpu",
    )
    first, second = Run(bench, "one"), Run(bench, "two", *arguments)
    second(2)
    before, after = first.rows("mini_proverbs"), second.rows("mini_proverbs")
    assert len(after) == 60
    assert [row["id"] for row in before] == [row["id"] for row in after]
    assert [row["pred"] for row in before] == [row["pred"] for row in after]
    for left, right in zip(before, after, strict=True):
        assert left["scores"] == pytest.approx(right["scores"], abs=1e-5)
    described = [run.record["model"]["description"] for run in (first, second)]
    assert described[0]["class"] == "BertModel"
    assert described[0] == described[1]


def test_prompts_probes_and_limit(bench: Path) -> None:
    arguments = ("--tasks", "mini_proverbs", "--model", "slow", "--prompts", "all", "--probes", "--limit", "7")
    first, second = Run(bench, "one", *arguments), Run(bench, "two", *arguments)
    first(1)
    second(2)
    assert len(first.record["tasks"]) > 3
    assert same_files(first, second)


# ---- who dies on the way --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run as it should be."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tasks").mkdir()
    write_task(folder / "tasks", "t", N)
    run = Run(folder, "out", "--tasks", "t", "--model", "slow")
    run(1, PYTHONPATH=str(SLOW_FOLDER), FIGEVAL_PLUGINS="slow_model")
    return run


@pytest.fixture
def disturbed_run(bench: Path) -> Run:
    write_task(bench / "tasks", "t", N)
    return Run(bench, "out", "--tasks", "t", "--model", "slow")


def begin_run(run: Run) -> psutil.Popen:
    """Two processes, in the middle of their work."""
    process = run.start(0.003, "--processes", "2")
    wait(lambda: run.written() >= 70, process)
    return process


def test_a_process_that_is_killed_is_replaced(disturbed_run: Run, undisturbed_run: Run) -> None:
    process = begin_run(disturbed_run)
    victim = next(child for child in process.children() if child.is_running())
    victim.kill()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "of 2 was killed by SIGKILL (memory may have run out); another one takes its place" in errors
    assert "Traceback" not in errors
    assert same_files(disturbed_run, undisturbed_run)
    assert len(list((disturbed_run.folder / "logs").iterdir())) == 1


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_ends_all_and_keeps_what_they_answered(
    disturbed_run: Run, undisturbed_run: Run, signal_number: signal.Signals, code: int
) -> None:
    process = begin_run(disturbed_run)
    children = process.children()
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors.splitlines()[-1].startswith("figeval: interrupted; results so far are kept")
    assert not any(child.is_running() for child in children)
    assert disturbed_run.clean()
    stored_count = len(disturbed_run.rows())
    assert 70 <= stored_count < N
    assert f"{stored_count} of them kept from before" in disturbed_run(3).stderr  # with another number of processes
    assert same_files(disturbed_run, undisturbed_run)


def test_when_the_run_itself_is_killed_its_processes_end_and_its_rows_are_kept(
    disturbed_run: Run, undisturbed_run: Run
) -> None:
    process = begin_run(disturbed_run)
    children = process.children()
    process.kill()
    process.communicate()
    assert psutil.wait_procs(children, timeout=30)[1] == []
    written_rows = disturbed_run.written()
    assert 70 <= written_rows < N
    with (disturbed_run.folder / "predictions" / "t.jsonl").open("a") as cut:
        cut.write('{"id":"t299","sta')
    assert f"{written_rows} of them kept from before" in disturbed_run(1).stderr
    assert same_files(disturbed_run, undisturbed_run)
    assert disturbed_run.clean()


def test_rows_that_processes_of_earlier_versions_left_are_taken_over(disturbed_run: Run, undisturbed_run: Run) -> None:
    process = begin_run(disturbed_run)
    process.kill()
    process.communicate()
    rows = (disturbed_run.folder / "predictions" / "t.jsonl").read_bytes().splitlines(keepends=True)
    for name, part in {"1-of-2": rows[::2], "2-of-2": rows[1::2]}.items():
        shard = disturbed_run.folder / "shards" / name / "predictions"
        shard.mkdir(parents=True)
        (shard / "t.jsonl").write_bytes(b"".join(part))
    (disturbed_run.folder / "predictions" / "t.jsonl").write_bytes(
        b"".join(rows[:5])
    )  # killed between merge and deletion
    assert f"{len(rows)} of them kept from before" in disturbed_run(2).stderr
    assert same_files(disturbed_run, undisturbed_run)
    assert disturbed_run.clean()


# ---- what goes wrong in a task --------------------------------------------------------------------------------------

MOODY_RUN = ("--tasks", "t,u", "--model", "moody")


@pytest.fixture
def moody(bench: Path) -> Run:
    write_task(bench / "tasks", "t", 20)
    write_task(bench / "tasks", "u", 20, row3={"q": "fine"})
    return Run(bench, "out", *MOODY_RUN)


def test_a_bug_in_one_task_does_not_cost_the_other(moody: Run) -> None:
    done = moody(2, code=1, MOOD="broken")
    assert "t failed: SystemExit: 0" in done.stdout
    assert [(task["task"], task["status"]) for task in moody.record["tasks"]] == [("t", "failed"), ("u", "done")]
    assert "Traceback" in moody.record["tasks"][0]["error"]
    assert moody.clean()


def test_weights_that_cannot_be_used_are_one_line(moody: Run) -> None:
    done = moody(2, code=2, MOOD="unusable")
    assert done.stderr.splitlines()[-1] == "figeval: these weights are of no use; take others"
    assert "Traceback" not in done.stderr


def test_an_example_that_kills_every_process_has_no_answer_and_the_others_have(moody: Run) -> None:
    done = moody(2, code=1, MOOD="deadly")
    assert "1 example failed (first: 3 workers were lost while they answered it" in " ".join(done.stdout.split())
    assert [row["id"] for row in moody.rows() if row["status"] == "error"] == ["t3"]
    assert {row["status"] for row in moody.rows("u")} == {"ok"}
    moody(2)
    assert [(row["id"], row["status"]) for row in moody.rows()] == [(f"t{i}", "ok") for i in range(20)]


def test_a_model_with_which_every_process_dies_is_one_line(moody: Run) -> None:
    done = moody(2, code=2, MOOD="lethal")
    assert done.stderr.splitlines()[-1] == (
        "figeval: no worker is left: each of the workers 1 and 2 was killed by SIGKILL (memory may have run out); "
        "results so far are kept; run the same command again to continue"
    )


def test_a_model_may_read_stdin_and_its_child_may_live_longer_than_its_process(moody: Run) -> None:
    done = moody(2, MOOD="forking")
    child = psutil.Process(int((moody.bench / "child").read_text()))
    child.kill()  # it has not ended yet
    assert "was killed by SIGKILL (memory may have run out); another one takes its place" in done.stderr
    assert len(moody.rows()) == 20


def test_examples_without_a_reply_are_asked_again(moody: Run) -> None:
    done = moody(2, code=1, MOOD="absent")
    assert "2 examples failed (first: nobody there)" in " ".join(done.stdout.split())
    assert [row["id"] for row in moody.rows() if row["status"] == "error"] == ["t7", "t17"]
    assert "t: 20 examples, 18 of them kept from before" in moody(2).stderr
    assert [(row["id"], row["status"]) for row in moody.rows()] == [(f"t{i}", "ok") for i in range(20)]
    assert moody.record["status"] == "complete"


# ---- how many, and where --------------------------------------------------------------------------------------------


def test_replies_that_a_metric_failed_on_are_not_asked_for_again(bench: Path) -> None:
    """Worker processes keep them, and the next run reads them from wherever they were left."""
    write_task(bench / "tasks", "t", N)
    run = Run(bench, "out", "--tasks", "t", "--model", "moody", "--metrics", "strict")
    done = run(2, code=1, MOOD="strict")
    assert "ArithmeticError: no answer (metric 'strict', example 't7')" in done.stdout + done.stderr
    assert len(run.rows()) < N
    replies = (run.folder / "replies" / "t.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in replies] == ["A"]
    run(2)
    assert run.clean()
    assert len(run.rows()) == N


def test_models_that_answer_side_by_side_need_no_processes(workshop: Workshop) -> None:
    workshop.backend.min_batch_size = 32
    write_task(workshop.folder, "t")
    with pytest.raises(ModelError, match="model already answers many requests in parallel; leave out --processes"):
        workshop.run(processes=2)


def test_no_process_at_all(bench: Path) -> None:
    done = Run(bench, "out", "--tasks", "mini", "--model", "overlap")(0, code=2)
    assert "--processes" in done.stderr
    assert len(done.stderr.splitlines()) == 1
