"""`figeval run` with a model behind an API: `transformers serve` with a tiny model, a faulty proxy before it, kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from figeval import Message, Prompt
from tests.plugins.servers import (
    Desk,
    Handler,
    after,
    desk_open,
    faulty,
    openai_answer,
    says,
    talkative,
    transformers_serve,
    well,
)
from tests.plugins.tiny import Workshop
from tests.processes import figeval, starting
from tests.runs.conftest import write_task

KEY = "sk-very-secret-0123456789"
N = 48
pytestmark = pytest.mark.usefixtures("warm_start")


@pytest.fixture(scope="module")
def served(workshop: Workshop, warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(base URL, model) of a real server."""
    checkpoint, weights_folder = (
        workshop("llama", "ForCausalLM", max_position_embeddings=512),
        tmp_path_factory.mktemp("served"),
    )
    folder = talkative(
        Path(shutil.copytree(checkpoint, weights_folder / "chat"))
    )  # other tests use the checkpoint without a template
    with transformers_serve(folder, weights_folder / "log", warm / "python") as url:
        yield url, str(folder)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desk_open() as desk:
        desk.usual = lambda handler, body: handler.send(200, openai_answer("A"))
        yield desk


def rows(folder: Path) -> list[dict[str, Any]]:
    file = folder / "predictions" / "t.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def record(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """`command(desk, "out")`: a run of N questions that goes to the folder `out`."""
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", "t", N)

    def build(desk: Desk, output: str, *flags: str, model: str = "m", **options: Any) -> list[str]:
        model_args = json.dumps({"base_url": desk.url, **options})
        fixed = ["run", "--tasks", "t", "--include_path", "tasks", "--max_new_tokens", "3"]
        return [*fixed, "--model", f"openai:{model}", "--model_args", model_args, "--output_path", output, *flags]

    return build


# ---- through a faulty proxy ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_pauses")
def test_two_hundred_questions_through_a_faulty_proxy(served: tuple[str, str], openai: Callable[..., Any]) -> None:
    url, name = served
    texts = [f"Is proverb {number} about time?" for number in range(200)]
    prompts = [Prompt((Message("user", text),), (), 2) for text in texts]
    with desk_open(upstream=url) as proxy:
        proxy.usual = faulty(share=0.2, seed=3)
        backend = openai(name, base_url=proxy.url, timeout=4, max_retries=12)
        replies = backend.generate(prompts)
        faults = sum(proxy.done.values()) - proxy.done["well"]
        assert proxy.done.keys() == {"well", "429", "429 for a second", "500", "slow", "truncated", "invalid"}
        assert 0.1 < faults / sum(proxy.done.values()) < 0.3
        assert not [reply for reply in replies if reply.finish == "error"], "none lost"
        assert proxy.delivered == dict.fromkeys(texts, 1), "none twice"
        lost_on_the_way = proxy.done["truncated"] + proxy.done["invalid"]
        assert sum(proxy.upstream_saw.values()) == 200 + lost_on_the_way
        assert backend.describe()["requests"] == 200 + faults == len(proxy.requests)
        again = openai(name, base_url=proxy.url)
        assert again.generate(prompts) == replies
        assert again.describe()["requests"] == 0
    directly = openai(name, base_url=url, max_concurrent=1).generate(prompts[::20])
    assert directly == replies[::20], "each its own answer"
    assert len({reply.text for reply in replies}) > 1


@pytest.mark.slow
def test_killed_in_the_middle_nothing_is_paid_for_twice(
    served: tuple[str, str], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    url, name = served
    with desk_open(upstream=url) as proxy:
        proxy.usual = faulty(share=0.2, seed=5)
        arguments = command(proxy, "out", model=name, timeout=4, max_retries=12)
        program = [starting["python"], "-m", "figeval", *arguments]
        process = subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(proxy.delivered) < N // 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(rows(tmp_path / "out")) < N, "killed too late to show anything"
        proxy.usual = well  # what is delivered from here on, the second process has
        before = sum(proxy.delivered.values())
        done = figeval(*arguments, cwd=tmp_path)
        twice = sum(count - 1 for count in proxy.delivered.values())
        assert twice <= 8, "only what was on its way to the first process"
        assert sum(proxy.delivered.values()) - before < N
    assert [row["id"] for row in rows(tmp_path / "out")] == [f"t{number}" for number in range(N)]
    assert record(tmp_path / "out")["status"] == "complete"
    assert f"{N} requests" not in done.stderr, "the estimate knows what is in the memo"


# ---- replies that failed ---------------------------------------------------------------------------------------------


def every(n: int, bad: Any) -> Callable[[Handler, bytes], None]:
    """Answer A, but every n-th question in another way."""

    def behave(handler: Handler, body: bytes) -> None:
        number = int(json.loads(body)["messages"][-1]["content"].partition("word")[2].partition(" ")[0])
        (bad if number % n == 0 else says(200, openai_answer("A")))(handler, body)

    return behave


@pytest.mark.slow
def test_failed_examples_are_asked_again_by_the_same_command(
    desk: Desk, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    usual = desk.usual
    desk.usual = every(16, says(400, {"error": {"message": "too many verbs"}}))
    arguments = command(desk, "out")
    failed = figeval(*arguments, cwd=tmp_path, code=1)
    assert "t: 3 examples failed (first: 400 too many verbs); run the same command again to retry them" in failed.stdout
    assert record(tmp_path / "out")["status"] == "incomplete"
    assert [row["id"] for row in rows(tmp_path / "out") if row["status"] == "error"] == ["t0", "t16", "t32"]
    score = record(tmp_path / "out")["tasks"][0]["scores"][0]
    assert (score["metric"], score["n"]) == ("acc", N - 3)
    request_count = len(desk.requests)
    desk.usual = usual
    mended = figeval(*arguments, cwd=tmp_path)
    assert len(desk.requests) == request_count + 3
    assert f"t: {N} examples, {N - 3} of them kept from before" in mended.stderr
    assert "3 requests, about" in mended.stderr
    assert "failed" not in mended.stdout
    figeval(*command(desk, "undisturbed"), cwd=tmp_path)
    same = [(tmp_path / name / "predictions/t.jsonl").read_bytes() for name in ("out", "undisturbed")]
    assert same[0] == same[1], "in the same order, too"
    assert len(desk.requests) == request_count + 3, "another folder asks nothing either"
    tasks = [record(tmp_path / name)["tasks"][0] for name in ("out", "undisturbed")]
    assert tasks[0]["scores"] == tasks[1]["scores"]


@pytest.mark.slow
def test_a_server_that_went_down_leaves_examples_for_later(
    desk: Desk, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    usual = desk.usual
    desk.plan = [usual] * 20
    desk.usual = says(503)
    arguments = command(desk, "out", max_retries=0)
    figeval(*arguments, cwd=tmp_path, code=1)
    assert sum(row["status"] == "error" for row in rows(tmp_path / "out")) == N - 20
    assert len(desk.requests) <= 20 + 8 + 20 + 8, "the breaker"
    desk.usual = usual
    figeval(*command(desk, "out", max_retries=1, max_concurrent=2), cwd=tmp_path)  # still the same run
    assert record(tmp_path / "out")["status"] == "complete"


def test_nobody_there(command: Callable[..., list[str]], tmp_path: Path) -> None:
    done = figeval(*command(Desk(url="http://127.0.0.1:9/v1"), "out"), cwd=tmp_path, code=2)
    assert done.stderr.splitlines()[-1].startswith("figeval: no server at http://127.0.0.1:9/v1 (")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_every_finished_reply(desk: Desk, command: Callable[..., list[str]], tmp_path: Path) -> None:
    usual = desk.usual
    desk.usual = after(0.05, usual)
    arguments = command(desk, "out", max_concurrent=2)
    program = [starting["python"], "-m", "figeval", *arguments]
    process = subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(desk.requests) < 20:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    figeval(*arguments, cwd=tmp_path)
    assert len(desk.requests) <= N + 2, "two were on their way"


# ---- budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_budget_ends_the_run_and_more_of_it_goes_on(
    desk: Desk, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    prices = {"input_price": 100, "output_price": 200}
    spent = figeval(*command(desk, "out", "--max_tokens", "300", **prices), cwd=tmp_path, code=2)
    assert f"openai:m: {N} requests, about" in spent.stderr
    assert "a cost of at most" in spent.stderr
    assert "the budget may not be sufficient" in spent.stderr
    complaint = spent.stderr.splitlines()[-1]
    assert complaint.startswith("figeval: the budget (--max_tokens 300) does not allow another request:")
    request_count = len(desk.requests)
    assert 0 < request_count <= 20
    assert record(tmp_path / "out")["model"]["description"]["tokens_in"] == 10 * request_count
    again = figeval(*command(desk, "out", "--max_tokens", "310", **prices), cwd=tmp_path, code=2)
    assert f"{request_count} answers already cached; spent so far: {15 * request_count} tokens" in again.stderr
    assert len(desk.requests) <= request_count + 1
    figeval(*command(desk, "out", "--max_tokens", "90000", **prices), cwd=tmp_path)
    assert len(desk.requests) == N
    described = record(tmp_path / "out")["model"]["description"]
    assert (described["tokens_in"], described["tokens_out"]) == (10 * N, 5 * N)
    assert described["cost"] == pytest.approx((10 * 100 + 5 * 200) * N / 1e6)


REFUSED_OPTIONS = [
    (("--max_cost", "1"), {}, "--max_cost needs prices: --model_args input_price="),
    ((), {"max_tokens": 9}, "max_tokens is a flag, not an option of the model; write --max_tokens"),
    ((), {"stream": True}, "model 'openai' has no option 'stream'"),
]


@pytest.mark.parametrize(("flags", "options", "message"), REFUSED_OPTIONS, ids=["prices", "flag", "unknown"])
def test_what_is_refused_before_anything_is_asked(
    flags: tuple[str, ...], options: Any, message: str, desk: Desk, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    done = figeval(*command(desk, "out", *flags, **options), cwd=tmp_path, code=2)
    (line,) = done.stderr.splitlines()
    assert message in line
    assert not desk.requests


def test_a_budget_for_a_model_that_costs_nothing(tmp_path: Path) -> None:
    done = figeval("run", "--tasks", "mini_fables", "--model", "overlap", "--max_cost", "1", cwd=tmp_path, code=2)
    assert done.stderr == ("figeval: --max_cost limits the spending of API models; leave it out for 'overlap'\n")


# ---- the key ---------------------------------------------------------------------------------------------------------


def test_no_key_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = figeval("run", "--tasks", "mini_fables", "--model", "openai:gpt-4o-mini", cwd=tmp_path, code=2)
    (line,) = done.stderr.splitlines()
    assert "no key for api.openai.com: set the environment variable OPENAI_API_KEY" in line


@pytest.mark.slow
def test_the_key_is_in_nothing_that_is_written_or_printed(
    desk: Desk, command: Callable[..., list[str]], tmp_path: Path, own_home: Path
) -> None:
    desk.plan = [says(500, f"<p>{KEY}".encode()), says(400, {"error": {"message": f"{KEY} is odd"}})]
    arguments = command(desk, "out", "--log_samples", api_key_env="MY_KEY", max_concurrent=1)
    outputs = figeval(*arguments, cwd=tmp_path, code=1, MY_KEY=KEY)
    desk.usual = says(401, {"error": {"message": f"Incorrect API key: {KEY}"}})
    refused = figeval(*arguments, cwd=tmp_path, code=2, MY_KEY=KEY)
    assert desk.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "Incorrect API key: [key]" in outputs.stdout + refused.stderr
    printed = (outputs.stdout, outputs.stderr, refused.stdout, refused.stderr)
    assert not any("sk-very" in text for text in printed)
    files = [file for folder in (tmp_path, own_home) for file in folder.rglob("*") if file.is_file()]
    assert len(files) >= 4
    assert not [file for file in files if b"sk-very" in file.read_bytes()]
    assert "MY_KEY" not in os.environ


# ---- texts -----------------------------------------------------------------------------------------------------------


TELL_TASK = """
name: tell
type: generation
data: {test: "jsonl:tell.jsonl"}
fields: {id: row.id, inputs: {saying: row.saying, keywords: row.words}, references: [row.told]}
max_new_tokens: 40
metrics: [rouge_l, keyword_recall, cut_off]
"""


@pytest.mark.slow
def test_texts_are_written_through_the_network(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "tell.task.yaml").write_text(TELL_TASK)
    lines = [{"id": str(n), "saying": f"s{n}", "words": ["roof"], "told": "the roof leaked"} for n in range(4)]
    (tmp_path / "tasks" / "tell.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    replies = [
        openai_answer("The roof leaked."),
        openai_answer("The roof", reason="length"),
        openai_answer("", reason="content_filter"),
        openai_answer("The end.", reasoning_content="A roof, then."),
    ]
    desk.plan = [lambda handler, _body, body=body: handler.send(200, body) for body in replies]  # type: ignore[misc]
    model_arguments = json.dumps({"base_url": desk.url, "max_concurrent": 1})
    command = (
        "run",
        "--tasks",
        "tell",
        "--include_path",
        "tasks",
        "--model",
        "openai:m",
        "--model_args",
        model_arguments,
    )
    figeval(*command, "--output_path", "out", cwd=tmp_path, OPENAI_API_KEY=KEY)
    (task,) = record(tmp_path / "out")["tasks"]
    assert task["counts"] == {"ok": 3, "refusal": 1}
    scores = {score["metric"]: score["value"] for score in task["scores"]}
    assert scores["parse_rate"] == 0.75
    assert scores["keyword_recall"] == pytest.approx(2 / 3)
    assert scores["cut_off"] == pytest.approx(1 / 3)
    stored_lines = (tmp_path / "out" / "predictions" / "tell.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["pred"] for line in stored_lines] == ["The roof leaked.", "The roof", None, "The end."]
    assert {len(request["messages"]) for request in desk.requests} == {1}
