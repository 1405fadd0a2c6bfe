"""Batch APIs: submitted once, left, collected by any later process, whatever fails in between."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from figeval import Message, ModelError, NotFinished, Prompt, RecordError, Reply
from figeval.builtin.plugins.api import batch_http, batches
from figeval.builtin.plugins.api import client as http_client
from figeval.builtin.plugins.api.archive import archive_file, open_archive
from figeval.builtin.plugins.api.batch_api import AnthropicBatches, OpenAIBatches
from figeval.builtin.plugins.api.batch_archive import BatchArchive
from figeval.builtin.plugins.api.batch_http import read_beginning, split_lines
from figeval.builtin.plugins.api.providers import anthropic, openai
from figeval.errors import BudgetExhausted
from figeval.reasoning import Reasoning
from tests.plugins.batch_servers import BatchDesk, answer_to, batch_desk

PRICES = {"input_price": 100, "output_price": 200}
QUESTIONS = [f"question {number}" for number in range(7)]


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "FIRST_PAUSE_SECONDS", 0.001)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=["openai", "anthropic"])
def desk(request: pytest.FixtureRequest) -> Iterator[BatchDesk]:
    with batch_desk(anthropic=request.param == "anthropic") as desk:
        yield desk


Open = Callable[..., Any]


@pytest.fixture
def model(desk: BatchDesk) -> Open:
    """`model()`: a process of its own, as far as a model can tell."""
    factory = anthropic if desk.anthropic else openai
    return lambda **options: factory("m", **{"base_url": desk.url, "batch": True, "account": "run", **options})


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt((Message("user", text),), (), 16) for text in texts or QUESTIONS]


def leave_batch(backend: Any, *texts: str) -> str:
    """The line with which a process leaves a batch."""
    with pytest.raises(NotFinished) as caught:
        backend.generate(prompts(*texts))
    return str(caught.value)


def texts(replies: Sequence[Reply]) -> list[str]:
    return [reply.text or f"({reply.error})" for reply in replies]


CAPITALS = [text.upper() for text in QUESTIONS]


def finish(model: Open, desk: BatchDesk, *questions: str, attempts: int = 12, **options: Any) -> list[str]:
    """What the command gives at last, if it is called again and again, each time in another process."""
    for _ in range(attempts):
        try:
            return texts(model(**options).generate(prompts(*questions)))
        except NotFinished:
            continue
    raise AssertionError(f"not finished: {desk.request_counts}")


# ---- as it should be -------------------------------------------------------------------------------------------------


def test_submit_leave_and_collect(desk: BatchDesk, model: Open) -> None:
    desk.polls = 2
    message = leave_batch(model())
    assert message.startswith(
        "127.0.0.1: 0 of 7 requests of batch_0 are done; to collect the answers, make the same call"
    )
    for _ in range(2):
        assert "0 of 7 requests of batch_0" in leave_batch(model())
    backend = model()
    assert texts(backend.generate(prompts())) == CAPITALS, "each its own answer, although they were shuffled"
    assert (desk.processed, len(desk.batches), desk.live) == (dict.fromkeys(QUESTIONS, 1), 1, 0)
    description = backend.describe()
    assert (description["batches"], description["tokens_in"], description["tokens_out"]) == (["batch_0"], 70, 35)
    before = desk.request_counts.total()
    assert texts(model().generate(prompts())) == CAPITALS
    assert desk.request_counts.total() - before <= 1, (
        "all are remembered; a server on this machine is asked for its models"
    )


def test_a_batch_is_asked_exactly_what_live_requests_are(desk: BatchDesk, model: Open) -> None:
    leave_batch(model(), "a")
    ((_, body),) = desk.batches["batch_0"].requests
    (prompt,) = prompts("a")
    assert body == json.loads(model().call(prompt).body)
    finish(model, desk, "a")
    live = model(batch=False)
    assert texts(live.generate(prompts("a"))) == ["A"]
    assert live.describe()["from_memo"] == 1, "the answers of batches are those of live requests"


def test_tokens_cost_half(desk: BatchDesk, model: Open) -> None:
    finish(model, desk, **PRICES)
    backend = model(**PRICES)
    backend.generate(prompts())
    assert backend.describe()["cost"] == pytest.approx(0.5 * (70 * 100 + 35 * 200) / 1e6)
    live = model(**PRICES, batch=False)
    live.generate(prompts("more"))
    assert live.describe()["cost"] == pytest.approx((0.5 * (70 * 100 + 35 * 200) + 10 * 100 + 5 * 200) / 1e6)


def test_what_is_asked_live_while_a_batch_is_processed_would_be_paid_twice(desk: BatchDesk, model: Open) -> None:
    leave_batch(model())
    with pytest.raises(ModelError, match="run the same command with --batch to collect"):
        model(batch=False).generate(prompts("question 3"))
    assert texts(model(batch=False).generate(prompts("another"))) == ["ANOTHER"]
    assert desk.live == 1


def test_two_processes_submit_at_the_same_time(desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes when the first has written its batch down, and the server does not have it yet."""
    begin, second = BatchArchive.begin, model()

    def overtaken(*arguments: Any) -> None:
        begin(*arguments)
        with pytest.raises(RecordError, match="another figeval run with the same flags is busy with its batches"):
            second.generate(prompts())
        leave_batch(model(account="another run"), "something else")

    with monkeypatch.context() as once:
        once.setattr(BatchArchive, "begin", lambda *arguments: once.undo() or overtaken(*arguments))
        leave_batch(model())
    assert finish(model, desk) == CAPITALS
    assert [len(batch.requests) for batch in desk.batches.values()] == [1, 7]


# ---- kills -----------------------------------------------------------------------------------------------------------

PLACES = {  # the method after which, or before which, the process is killed
    "before it is written down": (BatchArchive, "begin", "before"),
    "before it is submitted": (BatchArchive, "begin", "after"),
    "before its id is stored": (BatchArchive, "created", "before"),
    "after its id is stored": (BatchArchive, "created", "after"),
    "before answers are stored": (BatchArchive, "collected", "before"),
    "after answers are stored": (BatchArchive, "collected", "after"),
}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", PLACES)
def test_a_kill_at_any_place_submits_nothing_twice(
    moment: str, desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, when = PLACES[moment]
    method = getattr(owner, name)

    def killed(*arguments: Any, **options: Any) -> None:
        if when == "after":
            method(*arguments, **options)
        raise Killed

    with monkeypatch.context() as once:
        once.setattr(owner, name, killed)
        with pytest.raises(Killed):
            for _ in range(3):
                with pytest.raises(NotFinished):
                    model().generate(prompts())
    assert finish(model, desk) == CAPITALS
    assert (desk.processed, len(desk.batches)) == (dict.fromkeys(QUESTIONS, 1), 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_breaks_during_the_submission(when: str, desk: BatchDesk, model: Open) -> None:
    desk.hang_up = when
    message = leave_batch(model())
    assert ("whether a batch of" in message) == (when == "before")
    assert finish(model, desk) == CAPITALS
    assert (desk.processed, len(desk.batches)) == (dict.fromkeys(QUESTIONS, 1), 1)


def test_an_archive_that_was_lost(desk: BatchDesk, model: Open) -> None:
    """OpenAI keeps our label with a batch, so another machine finds it."""
    leave_batch(model())
    archive_file().unlink()
    assert finish(model, desk) == CAPITALS
    assert len(desk.batches) == (2 if desk.anthropic else 1)


def test_a_batch_of_somebody_else_is_not_taken_for_ours(
    desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the size of ours, and is newer than what was written down."""
    with monkeypatch.context() as once:
        once.setattr(BatchArchive, "created", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            model().generate(prompts())
    other_batch = desk.create([(f"x{number}", {"messages": [{"content": "theirs"}]}) for number in range(7)], "x")
    assert finish(model, desk) == CAPITALS
    assert desk.processed.keys() - {"theirs"} == set(QUESTIONS)
    assert {desk.processed[text] for text in QUESTIONS} == {1}
    assert other_batch.name in desk.batches


def test_results_that_break_off_or_come_twice_are_paid_once(
    desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "RESULTS_PER_COMMIT", 2)
    desk.copies = 2
    leave_batch(model())
    model_left = leave_batch(model())
    assert "0 of 7" in model_left
    desk.cut = 3
    with pytest.raises(ModelError, match="run the same command again"):
        model().generate(prompts())
    backend = model()
    assert texts(backend.generate(prompts())) == CAPITALS
    assert backend.describe()["tokens_out"] == 35


def test_a_server_that_fails_now_and_then_is_asked_again(desk: BatchDesk, model: Open) -> None:
    leave_batch(model())
    desk.faults = 3
    assert finish(model, desk) == CAPITALS
    leave_batch(model(), "another")
    desk.faults = 99
    with pytest.raises(ModelError, match=r"503 .*after 2 attempts.*run the same command again"):
        model(max_retries=1).generate(prompts("another"))


# ---- failures --------------------------------------------------------------------------------------------------------


def test_what_failed_is_asked_again_and_nothing_else(desk: BatchDesk, model: Open) -> None:
    fates = {"question 1": "error", "question 2": "expired", "question 3": "error"}
    desk.fate = lambda question, attempt: fates.get(question, "ok") if attempt == 0 else "ok"
    assert finish(model, desk) == CAPITALS
    assert desk.processed == dict.fromkeys(QUESTIONS, 1)
    assert [len(batch.requests) for batch in desk.batches.values()] == [7, 3]


def test_a_batch_that_expired_as_a_whole(desk: BatchDesk, model: Open) -> None:
    desk.fate = lambda _, attempt: "expired" if attempt == 0 else "ok"
    desk.ends = "completed" if desk.anthropic else "expired"
    assert finish(model, desk) == CAPITALS
    assert len(desk.batches) == 2


def test_a_request_that_is_refused_becomes_an_error_that_the_next_run_asks_again(desk: BatchDesk, model: Open) -> None:
    desk.fate = lambda question, _: "invalid" if question == "question 4" else "ok"
    replies = finish(model, desk)
    assert replies[:4] == CAPITALS[:4] and replies[4].startswith("(400 ")
    assert len(desk.batches) == 1, "the server would refuse it again"
    leave_batch(model())
    assert [len(batch.requests) for batch in desk.batches.values()] == [7, 1]


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_403_in_the_results_is_a_refusal_beside_answers(all_of_them: bool, desk: BatchDesk, model: Open) -> None:
    desk.polls = 0
    desk.fate = lambda question, _: "forbidden" if all_of_them or question == "question 4" else "ok"
    leave_batch(model())
    replies = model().generate(prompts())
    finishes = {reply.finish for reply in replies}
    assert finishes == ({"error"} if all_of_them else {"stop", "refusal"})
    assert replies[4].finish == ("error" if all_of_them else "refusal")
    assert len(desk.batches) == 1


def test_a_request_that_always_fails_is_given_up(desk: BatchDesk, model: Open) -> None:
    desk.fate = lambda question, _: "error" if question == "question 4" else "ok"
    assert finish(model, desk)[4].startswith("(500 ")
    assert [len(batch.requests) for batch in desk.batches.values()] == [7, 1, 1]


def test_a_batch_that_somebody_cancelled_is_not_submitted_again_at_once(desk: BatchDesk, model: Open) -> None:
    desk.ends, desk.fate = "cancelled", lambda question, _: "ok" if question < "question 3" else "lost"
    replies = finish(model, desk)
    assert replies[:3] == CAPITALS[:3] and replies[3] == "(the batch batch_0 was cancelled)"
    assert len(desk.batches) == 1
    desk.ends, desk.fate = "completed", lambda *_: "ok"
    assert finish(model, desk) == CAPITALS, "the next command does"
    assert desk.processed == dict.fromkeys(QUESTIONS, 1)


def test_a_batch_that_the_server_does_not_accept_is_an_error_with_its_reason() -> None:
    with batch_desk(ends="failed") as desk:
        options = {"base_url": desk.url, "batch": True, "account": "run"}
        leave_batch(openai("m", **options))
        leave_batch(openai("m", **options))
        with pytest.raises(
            ModelError, match=r"did not process the batch batch_0 of 7 requests \(The model is not known"
        ):
            openai("m", **options).generate(prompts())
        desk.ends = "completed"
        assert finish(lambda **_: openai("m", **options), desk) == CAPITALS


def test_no_key_gets_into_a_message(desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("ANTHROPIC_API_KEY" if desk.anthropic else "OPENAI_API_KEY", key)
    desk.quotes, desk.fate = key, lambda question, _: "expired" if question == "question 1" else "ok"
    replies = finish(model, desk)
    assert replies[1].startswith("(") and key not in replies[1]
    assert desk.anthropic or replies[1] == "(not executed in time [key])"
    if not desk.anthropic:  # which has no batches that fail as a whole
        desk.ends = "failed"
        leave_batch(model(), "another")
        leave_batch(model(), "another")
        with pytest.raises(ModelError, match=r"The model is not known\. \[key\]"):
            model().generate(prompts("another"))


def lose(desk: BatchDesk, way: str) -> None:
    """Let the server forget its batches, or have no results for them."""
    if way == "404":
        desk.batches.clear()
    else:
        desk.fate = lambda question, _: "lost" if way == "empty" or question == "question 3" else "ok"


@pytest.mark.parametrize("way", ["404", "empty", "partly"])
def test_what_a_server_lost_is_submitted_again_only_by_a_flag(
    way: str, desk: BatchDesk, model: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.polls = 0
    leave_batch(model(max_tokens=2000))
    lose(desk, way)
    submitted = desk.request_counts["POST /v1/messages/batches"] + desk.request_counts["POST /v1/batches"]
    for _ in range(2):
        backend = model(max_tokens=2000)
        replies = backend.generate(prompts())
        lost = [reply for reply in replies if reply.finish == "error"]
        assert len(lost) == (1 if way == "partly" else 7)
        assert all("batch_0" in reply.error and "--resubmit_lost" in reply.error for reply in lost)
        assert "may have been billed" in capsys.readouterr().err
        with backend.archive():
            assert backend.budget.waiting.total >= 40 * len(lost), "what may be billed is reserved"
    assert desk.request_counts["POST /v1/messages/batches"] + desk.request_counts["POST /v1/batches"] == submitted
    with pytest.raises(BudgetExhausted):
        model(max_tokens=backend.budget.spent.total + backend.budget.waiting.total + 20, resubmit_lost=True).generate(
            prompts()
        )
    desk.fate = lambda *_: "ok"
    assert finish(model, desk, max_tokens=2000, resubmit_lost=True) == CAPITALS
    backend = model(max_tokens=2000)
    backend.generate(prompts())
    assert backend.budget.spent.total >= 15 * 7 + 40 * len(lost), "what may have been billed is charged"


def test_results_that_come_late_are_collected(desk: BatchDesk, model: Open) -> None:
    desk.polls = 0
    leave_batch(model())
    batches = dict(desk.batches)
    desk.batches.clear()
    assert {reply.finish for reply in model().generate(prompts())} == {"error"}
    desk.batches.update(batches)
    assert texts(model().generate(prompts())) == CAPITALS
    assert desk.processed == dict.fromkeys(QUESTIONS, 1)


def test_the_flag_is_one_of_batches(desk: BatchDesk, model: Open) -> None:
    with pytest.raises(ModelError, match="--resubmit_lost is for requests of --batch"):
        model(batch=False, resubmit_lost=True)


def test_a_batch_after_one_that_never_arrived_has_a_label_of_its_own(
    model: Open, desk: BatchDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests once had the number that is the next one again, and could never be submitted any more."""
    monkeypatch.setattr(OpenAIBatches, "most_requests", 1)
    monkeypatch.setattr(AnthropicBatches, "most_requests", 1)
    desk.polls, desk.hang_up = 0, "before"
    desk.fate = lambda question, attempt: "expired" if (question, attempt) == ("b", 0) else "ok"
    assert "whether a batch of 1 requests was submitted" in leave_batch(model(max_retries=0), "a", "b")
    assert finish(model, desk, "b") == ["B"]


def test_a_server_without_a_batch_api(desk: BatchDesk, model: Open) -> None:
    with pytest.raises(ModelError, match=r"has no batch API .* leave out --batch, or correct base_url"):
        model(base_url=desk.url.removesuffix("/v1")).generate(prompts())
    with open_archive(archive_file(), BatchArchive) as archive:
        assert archive.open_batches("run") == []
    with pytest.raises(ModelError, match="no server at"):
        model(base_url="http://127.0.0.1:1/v1").generate(prompts())


def test_a_batch_that_is_too_large_for_the_server(desk: BatchDesk, model: Open) -> None:
    desk.max_requests = 5
    with pytest.raises(ModelError, match="did not accept the batch: 400 a batch has at most 5 requests"):
        model().generate(prompts())
    assert finish(model, desk, "a", "b") == ["A", "B"]


def test_a_run_that_is_too_large_for_one_batch_has_several(
    desk: BatchDesk, model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for api in (OpenAIBatches, AnthropicBatches):
        monkeypatch.setattr(api, "most_requests", 3)
    assert "0 of 3 requests of batch_0 are done; 0 of 3 requests of batch_1" in leave_batch(model())
    assert finish(model, desk) == CAPITALS
    assert sorted(len(batch.requests) for batch in desk.batches.values()) == [1, 3, 3]


# ---- hostile servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({"data": [{"created_at": "new"}], "has_more": True}, r"an unexpected response \(it has no id\)"),
        ({"data": [{"id": "b", "created_at": 10**400}], "has_more": False}, "whether a batch of"),
        (None, "has no batch API"),
    ],
)
def test_a_list_of_batches_that_is_none(desk: BatchDesk, model: Open, listed: Any, message: str) -> None:
    """It is read when it is not known whether a batch was submitted; the batch stays written down until it is."""
    desk.hang_up = "before"
    assert "whether a batch of" in leave_batch(model())
    new = '"2999-01-01T00:00:00+00:00"' if desk.anthropic else "9e9"
    desk.listed = json.loads(json.dumps(listed).replace('"new"', new)) or "none"
    desk.hang_up = "before"
    with pytest.raises((ModelError, NotFinished), match=message):
        model().generate(prompts())
    desk.listed = None
    assert finish(model, desk) == CAPITALS
    assert desk.processed == dict.fromkeys(QUESTIONS, 1)


def test_results_of_another_batch_under_our_own_name(desk: BatchDesk, model: Open) -> None:
    """The server has told us the id, so the batch is ours, and its requests may have been billed."""
    desk.foreign = True
    assert all("batch_0 has ended without a result" in text for text in finish(model, desk))
    assert len(desk.batches) == 1
    desk.foreign = False
    assert finish(model, desk) == CAPITALS


def test_a_line_of_results_that_is_no_json_costs_only_its_own_request(desk: BatchDesk, model: Open) -> None:
    desk.garbled = 1
    assert sum("without a result" in text for text in finish(model, desk)) == 1
    assert finish(model, desk, resubmit_lost=True) == CAPITALS
    assert sorted(len(batch.requests) for batch in desk.batches.values()) == [1, len(QUESTIONS)]
    assert sum(desk.processed.values()) == len(QUESTIONS) + 1


def test_half_a_key_is_none_in_a_message_either(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with batch_desk(quotes="x" * 165 + key, fate=lambda *_: "expired") as desk:
        replies = finish(lambda **_: openai("m", base_url=desk.url, batch=True, account="run"), desk)
    assert "not executed in time xxx" in replies[0]
    assert key[:8] not in replies[0]


@pytest.mark.parametrize("fate", ["lost", "cancelled"])
def test_a_batch_whose_id_is_the_key(fate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with batch_desk(fate=lambda *_: "lost", ends="cancelled" if fate == "cancelled" else "completed") as desk:
        monkeypatch.setattr(desk, "prefix", key)
        replies = finish(lambda **_: openai("m", base_url=desk.url, batch=True, account="run"), desk)
    assert replies[0].startswith("(the batch [key]")


@pytest.mark.parametrize(
    "change",
    [
        "batches SET requests = 'many'",
        "batches SET began = 'x'",
        "batches SET name = x'00'",
        "batches SET name = hex(zeroblob(1000))",
        "batch_requests SET tokens_in = 'x'",
        "batch_requests SET tokens_out = -5000",
    ],
)
def test_an_archive_that_somebody_has_edited(change: str, desk: BatchDesk, model: Open) -> None:
    leave_batch(model())
    with closing(sqlite3.connect(archive_file())) as edited, edited:
        edited.execute(f"UPDATE {change}")
    with pytest.raises(RecordError, match=r"the reply cache is damaged, since .* is recorded wrongly; delete it"):
        model().generate(prompts())
    assert len(desk.batches) == 1


# ---- budget ----------------------------------------------------------------------------------------------------------


def test_a_budget_reserves_what_a_batch_may_cost(desk: BatchDesk, model: Open) -> None:
    with pytest.raises(BudgetExhausted, match="does not allow another request"):
        model(max_tokens=20).generate(prompts())
    assert not desk.batches
    leave_batch(model(max_tokens=120))
    first = len(desk.batches["batch_0"].requests)
    assert 0 < first < 7, "as many as fit"
    leave_batch(model(max_tokens=120))
    assert len(desk.batches) == 1, "what waits is still reserved"
    assert finish(model, desk, max_tokens=150) == CAPITALS
    assert desk.processed == dict.fromkeys(QUESTIONS, 1)
    backend = model(max_tokens=150)
    backend.generate(prompts())
    assert backend.describe()["tokens_in"] + backend.describe()["tokens_out"] == 105


# ---- dialogues -------------------------------------------------------------------------------------------------------


def test_an_answer_that_was_cut_off_while_thinking_is_in_a_second_batch() -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        enough = body["max_tokens"] >= 16 + 400
        answer = answer_to(body)
        answer["choices"][0] |= {} if enough else {"finish_reason": "length"}
        answer["choices"][0]["message"] |= {"content": "B" if enough else "", "reasoning": "hm"}
        return answer

    with batch_desk(reply=reply) as desk:
        options = {"base_url": desk.url, "batch": True, "account": "r", "reasoning": Reasoning.parse("budget=200")}
        assert finish(lambda **_: openai("m", **options), desk) == ["B"] * 7
        limits = [{body["max_tokens"] for _, body in batch.requests} for batch in desk.batches.values()]
        assert limits == [{216}, {416}]


# ---- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_results_are_split_into_lines_wherever_they_are_cut(size: int) -> None:
    content = b'{"a":1}\n\n{"b":2}\r\n{"c":3}'
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    assert [json.loads(line) for line, _ in split_lines(iter(pieces))] == [{"a": 1}, {"b": 2}, {"c": 3}]


@pytest.mark.parametrize("line", [b"\n", b"x\n", b'{"custom_id": "z"}\n'], ids=["blank", "no JSON", "foreign"])
def test_results_without_an_end_are_not_read_on(line: bytes) -> None:
    with pytest.raises(ModelError, match="more than 250,000 lines"):
        for _ in split_lines(itertools.repeat(line * 10_000)):
            pass


def test_results_that_come_byte_by_byte_have_a_time_limit() -> None:
    pieces = batch_http.until_deadline(time.monotonic() + 0.05, iter(lambda: time.sleep(0.01) or b" ", None))
    with pytest.raises(ModelError, match="took too long"):
        for _ in split_lines(pieces):
            pass


def test_of_an_endless_body_that_explains_an_error_only_the_beginning_is_read() -> None:
    assert read_beginning(itertools.repeat(b"x" * 1000)) == b"x" * batch_http.MAX_ERROR_BYTES
