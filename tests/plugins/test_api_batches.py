"""Batch APIs: submitted once, left, collected by any later process, whatever fails in between."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from figeval import Message, ModelError, NotFinished, Prompt, RecordError, Reply
from tests.plugins.batch_servers import BatchDesk, answer_to, batch_desk
from tests.plugins.servers import EXHAUSTED

PRICES = {"input_price": 100, "output_price": 200}
QUESTIONS = [f"question {number}" for number in range(7)]


pytestmark = pytest.mark.usefixtures("no_keys", "no_pauses")
Open = Callable[..., Any]


@pytest.fixture
def archive_file(own_home: Path) -> Path:
    return own_home / "api_memo" / "answers.sqlite3"


@pytest.fixture(params=["openai", "anthropic"])
def desk(request: pytest.FixtureRequest) -> Iterator[BatchDesk]:
    with batch_desk(anthropic=request.param == "anthropic") as desk:
        yield desk


@pytest.fixture
def model(desk: BatchDesk, open_model: Open) -> Open:
    """`model()`: a process of its own, as far as a model can tell."""
    provider = "anthropic" if desk.anthropic else "openai"
    return lambda **options: open_model(
        provider, "m", **{"base_url": desk.url, "batch": True, "account": "run", **options}
    )


class WatchedConnection(sqlite3.Connection):
    """A connection to the archive.

    Attributes:
        watch: function that is called with "before" and "after" each commit.
    """

    watch: Callable[[str], None] = lambda _when: None

    def __exit__(self, *error: Any) -> Any:
        try:
            if error[0] is None:
                type(self).watch("before")
        except BaseException:
            self.rollback()
            raise
        super().__exit__(*error)
        if error[0] is None:
            type(self).watch("after")


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str, Callable[[], None]], None]:
    """Return a function that has an action called before or after the commit of this number, once."""

    def plan(number: int, when: str, action: Callable[[], None]) -> None:
        moments = iter([*[False] * (2 * number + (when == "after")), True])
        monkeypatch.setattr(WatchedConnection, "watch", lambda _when: action() if next(moments, False) else None)
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=WatchedConnection))

    return plan


def tokens_spent(backend: Any) -> int:
    description = backend.describe()
    return int(description["tokens_in"] + description["tokens_out"])


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
    assert (desk.processed, len(desk.batches), len(desk.live_bodies)) == (dict.fromkeys(QUESTIONS, 1), 1, 0)
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
    model(batch=False, memo="off", account="another").generate(prompts("a"))
    assert [body] == desk.live_bodies
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
    assert len(desk.live_bodies) == 1


def test_two_processes_submit_at_the_same_time(desk: BatchDesk, model: Open, at_commit: Any) -> None:
    """The second comes when the first has written its batch down, and the server does not have it yet."""

    def overtake() -> None:
        assert not desk.batches
        with pytest.raises(RecordError, match="another figeval run with the same flags is busy with its batches"):
            model().generate(prompts())
        leave_batch(model(account="another run"), "something else")

    at_commit(0, "after", overtake)
    leave_batch(model())
    assert finish(model, desk) == CAPITALS
    assert [len(batch.requests) for batch in desk.batches.values()] == [1, 7]


# ---- kills -----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", range(3), ids=["its requests", "its id", "its answers"])
def test_a_kill_while_a_batch_is_written_down_submits_nothing_twice(
    commit: int, when: str, desk: BatchDesk, model: Open, at_commit: Any
) -> None:
    at_commit(commit, when, kill)
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


def test_an_archive_that_was_lost(desk: BatchDesk, model: Open, archive_file: Path) -> None:
    """OpenAI keeps our label with a batch, so another machine finds it."""
    leave_batch(model())
    archive_file.unlink()
    assert finish(model, desk) == CAPITALS
    assert len(desk.batches) == (2 if desk.anthropic else 1)


def test_a_batch_of_somebody_else_is_not_taken_for_ours(desk: BatchDesk, model: Open, at_commit: Any) -> None:
    """It has the size of ours, and is newer than what was written down."""
    at_commit(1, "before", kill)
    with pytest.raises(Killed):
        model().generate(prompts())
    other_batch = desk.create([(f"x{number}", {"messages": [{"content": "theirs"}]}) for number in range(7)], "x")
    assert finish(model, desk) == CAPITALS
    assert desk.processed.keys() - {"theirs"} == set(QUESTIONS)
    assert {desk.processed[text] for text in QUESTIONS} == {1}
    assert other_batch.name in desk.batches


@pytest.mark.parametrize("copies_read", [3, 1203])
def test_results_that_break_off_or_come_twice_are_paid_once(copies_read: int, desk: BatchDesk, model: Open) -> None:
    """A commit has 500 results."""
    desk.copies = 2
    questions = [f"question {number}" for number in range(700)]
    leave_batch(model(), *questions)
    assert "0 of 700" in leave_batch(model(), *questions)
    desk.cut = copies_read
    with pytest.raises(ModelError, match="run the same command again"):
        model().generate(prompts(*questions))
    backend = model()
    assert texts(backend.generate(prompts(*questions))) == [question.upper() for question in questions]
    assert backend.describe()["tokens_out"] == 5 * 700


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


def test_a_batch_that_the_server_does_not_accept_is_an_error_with_its_reason(openai: Open) -> None:
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
        warning = re.search(
            r"may have been billed, and ([\d,]+) tokens count against the budget", capsys.readouterr().err
        )
        assert warning is not None
        waiting = int(warning[1].replace(",", ""))
        assert waiting >= 40 * len(lost), "what may be billed is reserved"
    assert desk.request_counts["POST /v1/messages/batches"] + desk.request_counts["POST /v1/batches"] == submitted
    with pytest.raises(ModelError, match=EXHAUSTED):
        model(max_tokens=tokens_spent(backend) + waiting + 20, resubmit_lost=True).generate(prompts())
    desk.fate = lambda *_: "ok"
    assert finish(model, desk, max_tokens=2000, resubmit_lost=True) == CAPITALS
    backend = model(max_tokens=2000)
    backend.generate(prompts())
    assert tokens_spent(backend) >= 15 * 7 + 40 * len(lost), "what may have been billed is charged"


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
    monkeypatch.setattr(type(model().api), "most_requests", 1)
    desk.polls, desk.hang_up = 0, "before"
    desk.fate = lambda question, attempt: "expired" if (question, attempt) == ("b", 0) else "ok"
    assert "whether a batch of 1 requests was submitted" in leave_batch(model(max_retries=0), "a", "b")
    assert finish(model, desk, "b") == ["B"]


def test_a_server_without_a_batch_api(desk: BatchDesk, model: Open) -> None:
    with pytest.raises(ModelError, match=r"has no batch API .* leave out --batch, or correct base_url"):
        model(base_url=desk.url.removesuffix("/v1")).generate(prompts())
    assert "already in a batch" not in model().estimate(prompts())
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
    monkeypatch.setattr(type(model().api), "most_requests", 3)
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


def test_half_a_key_is_none_in_a_message_either(monkeypatch: pytest.MonkeyPatch, openai: Open) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with batch_desk(quotes="x" * 165 + key, fate=lambda *_: "expired") as desk:
        replies = finish(lambda **_: openai("m", base_url=desk.url, batch=True, account="run"), desk)
    assert "not executed in time xxx" in replies[0]
    assert key[:8] not in replies[0]


@pytest.mark.parametrize("fate", ["lost", "cancelled"])
def test_a_batch_whose_id_is_the_key(fate: str, monkeypatch: pytest.MonkeyPatch, openai: Open) -> None:
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
def test_an_archive_that_somebody_has_edited(change: str, desk: BatchDesk, model: Open, archive_file: Path) -> None:
    leave_batch(model())
    with closing(sqlite3.connect(archive_file)) as edited, edited:
        edited.execute(f"UPDATE {change}")
    with pytest.raises(RecordError, match=r"the reply cache is damaged, since .* is recorded wrongly; delete it"):
        model().generate(prompts())
    assert len(desk.batches) == 1


# ---- budget ----------------------------------------------------------------------------------------------------------


def test_a_budget_reserves_what_a_batch_may_cost(desk: BatchDesk, model: Open) -> None:
    with pytest.raises(ModelError, match="does not allow another request"):
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


def test_an_answer_that_was_cut_off_while_thinking_is_in_a_second_batch(openai: Open) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        enough = body["max_tokens"] >= 16 + 400
        answer = answer_to(body)
        answer["choices"][0] |= {} if enough else {"finish_reason": "length"}
        answer["choices"][0]["message"] |= {"content": "B" if enough else "", "reasoning": "hm"}
        return answer

    with batch_desk(reply=reply) as desk:
        options = {"base_url": desk.url, "batch": True, "account": "r", "reasoning": "budget=200"}
        assert finish(lambda **_: openai("m", **options), desk) == ["B"] * 7
        limits = [{body["max_tokens"] for _, body in batch.requests} for batch in desk.batches.values()]
        assert limits == [{216}, {416}]


# ---- long results ----------------------------------------------------------------------------------------------------


class Pieces(httpx.HTTPTransport):
    """A connection on which results come in pieces of this many bytes; `pause` is called before each."""

    def __init__(self, size: int, pause: Callable[[], None]) -> None:
        super().__init__()
        self.size, self.pause = size, pause

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if not request.url.path.endswith(("/content", "/results")):
            return response
        content = response.read()
        starts = range(0, len(content), self.size)
        pieces = (self.pause() or content[start : start + self.size] for start in starts)
        return httpx.Response(response.status_code, content=pieces)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def cut(size: int, pause: Callable[[], None] = lambda: None) -> None:
        monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=Pieces(size, pause)))

    return cut


@pytest.mark.parametrize(
    ("size", "line_end"),
    [(1, b"\r\n"), (2, b"\r\n"), (2, b"\n\n"), (5, b"\n"), (100_000, b"\n"), (100_000, b"\r\n")],
    ids=["characters", "halves of CRLF", "blank lines", "pieces", "whole", "whole with CRLF"],
)
def test_results_are_split_into_lines_wherever_they_are_cut(
    size: int, line_end: bytes, desk: BatchDesk, model: Open, in_pieces: Callable[..., None]
) -> None:
    desk.line_end = line_end
    in_pieces(size)
    assert finish(model, desk) == CAPITALS


@pytest.mark.parametrize("line", [b"\n", b"x\n", b'{"custom_id": "z"}\n'], ids=["blank", "no JSON", "foreign"])
def test_results_without_an_end_are_not_read_on(line: bytes, openai: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.builtin.plugins.api.batch_http.MAX_LINES", 25_000)
    with batch_desk(polls=0, endless=line * 10_000) as desk:
        options = {"base_url": desk.url, "batch": True, "account": "run"}
        leave_batch(openai("m", **options))
        with pytest.raises(ModelError, match="more than 25,000 lines"):
            openai("m", **options).generate(prompts())


def test_results_that_come_byte_by_byte_have_a_time_limit(
    desk: BatchDesk, model: Open, in_pieces: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.polls, clock, delays = 0, time.monotonic, [0.0]
    leave_batch(model())
    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(delays))
    in_pieces(1, lambda: delays.append(60.0))
    with pytest.raises(ModelError, match="took too long"):
        model().generate(prompts())
    assert 60 <= len(delays) <= 62, "an hour"


def test_of_an_endless_body_that_explains_an_error_only_the_beginning_is_read(desk: BatchDesk, model: Open) -> None:
    desk.polls, desk.endless, desk.endless_status = 0, b"x" * 1000, 500
    leave_batch(model())
    with pytest.raises(ModelError, match=r"500 x+"):
        model().generate(prompts())
