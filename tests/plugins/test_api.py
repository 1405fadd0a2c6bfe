"""Models behind an API, against a server that answers by itself and misbehaves on demand."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import re
import socket
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from email.utils import formatdate
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from figeval import AnswerFormat, Harness, Message, ModelError, Prompt, RecordError, Reply
from figeval.testing import capabilities
from tests.cli.conftest import Cli
from tests.plugins.servers import (
    EXHAUSTED,
    Desk,
    Handler,
    after,
    anthropic_answer,
    hang_up,
    mangle,
    openai_answer,
    question,
    says,
    stall,
    truncate,
    well,
)

KEY = "sk-very-secret-0123456789"
PRICES = {"input_price": 1.0, "output_price": 2.0}
pytestmark = pytest.mark.usefixtures("no_keys", "no_pauses")
Open = Callable[..., Any]


@pytest.fixture
def archive_file(own_home: Path) -> Path:
    return own_home / "api_memo" / "answers.sqlite3"


@pytest.fixture
def model(desk: Desk, openai: Open) -> Open:
    """`model(temperature=1)`: a model behind the desk."""
    return lambda **options: openai("m", **{"base_url": desk.url, **options})


def ask(*texts: str, stop: tuple[str, ...] = (), max_tokens: int = 16) -> list[Prompt]:
    return [Prompt((Message("user", text),), stop, max_tokens) for text in texts]


def tokens_spent(backend: Any) -> int:
    description = backend.describe()
    return int(description["tokens_in"] + description["tokens_out"])


def error(message: str, **extra: Any) -> dict[str, Any]:
    return {"error": {"message": message, **extra}}


# ---- questions and answers -------------------------------------------------------------------------------------------


def test_replies_come_in_the_order_of_the_requests(desk: Desk, model: Open) -> None:
    desk.plan = [after(0.2), after(0.1)]
    texts = [f"question {number}" for number in range(50)]
    assert [reply.text for reply in model().generate(ask(*texts))] == [text.upper() for text in texts]
    assert desk.most_at_once <= 8


def test_what_openai_is_asked(desk: Desk, model: Open) -> None:
    turns = (Message("system", "Be brief."), Message("user", "1?"), Message("assistant", " A"), Message("user", "2?"))
    prompt = Prompt(turns, ("\n", "b", "c", "d", "e"), 7)
    model(top_p=0.9, reasoning_effort="low", reasoning_tokens=100, seed=3, extra_body='{"top_k": 1}').generate([prompt])
    assert desk.requests == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "1?"},
                {"role": "assistant", "content": "A"},
                {"role": "user", "content": "2?"},
            ],
            "max_tokens": 107,
            "temperature": 0,
            "top_p": 0.9,
            "stop": ["\n", "b", "c", "d"],
            "reasoning_effort": "low",
            "top_k": 1,
        }
    ]
    assert "authorization" not in desk.headers[0]


def test_what_anthropic_is_asked(desk: Desk, monkeypatch: pytest.MonkeyPatch, anthropic: Open) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    desk.usual = says(200, anthropic_answer("B", "end_turn", {"type": "thinking", "thinking": "hm"}))
    prompt = Prompt((Message("system", "Be brief."), Message("user", "Which?")), ("\n\n", "END"), 9)
    backend = anthropic("claude", base_url=desk.url, seed=0)
    assert backend.generate([prompt]) == [Reply(text="B", reasoning="hm")]
    assert desk.requests == [
        {
            "model": "claude",
            "messages": [{"role": "user", "content": "Which?"}],
            "max_tokens": 9,
            "system": "Be brief.",
            "stop_sequences": ["END"],
            "temperature": 0,
        }
    ]
    assert (desk.headers[0]["x-api-key"], desk.headers[0]["anthropic-version"]) == (KEY, "2023-06-01")
    assert (backend.describe()["tokens_in"], backend.describe()["tokens_out"]) == (10, 5)


def test_the_limit_of_an_answer_goes_by_the_name_that_the_server_knows(
    bodies_sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, openai: Open
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    local = {"base_url": "http://localhost:1/v1"}
    all_options = ({}, {"temperature": None}, local, {**local, "max_completion_tokens_key": "max_completion_tokens"})
    for options in all_options:
        openai("m", **options).generate(ask("x"))
    common = {"model", "messages"}
    assert [body.keys() - common for body in bodies_sent] == [
        {"max_completion_tokens", "temperature"},
        {"max_completion_tokens"},
        {"max_tokens", "temperature"},
        {"max_completion_tokens", "temperature"},
    ]


FILTER = {"message": "flagged", "code": "content_filter"}
ANSWERS = [
    (200, openai_answer("B"), Reply(text="B")),
    (200, openai_answer("B", None), Reply(text="B")),
    (200, openai_answer("The answ", "length"), Reply(text="The answ", finish="length")),
    (200, openai_answer(None), Reply(text="")),
    (200, openai_answer("", "content_filter"), Reply(text="", finish="refusal")),
    (200, openai_answer(None, refusal="I can't"), Reply(text="I can't", finish="refusal")),
    (200, openai_answer("B", reasoning_content="hm"), Reply(text="B", reasoning="hm")),
    (200, openai_answer("B", reasoning="hm"), Reply(text="B", reasoning="hm")),
    (200, openai_answer([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "B"}]), # type: ignore[arg-type]
     Reply(text="B", reasoning="hm")),
    (400, {"error": FILTER}, Reply(text="", finish="refusal", error="flagged")),
    (400, error("no", code=None, innererror={"code": "ResponsibleAIPolicyViolation"}),
     Reply(text="", finish="refusal", error="no")),
    (403, error("flagged", metadata={"reasons": ["violence"]}), Reply(text="", finish="refusal", error="flagged")),
    (400, error("too long"), Reply(text="", finish="error", error="400 too long")),
    (422, {"detail": "no such field"}, Reply(text="", finish="error", error="422 no such field")),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "reply"), ANSWERS, ids=range(len(ANSWERS)))
def test_what_an_answer_amounts_to(status: int, body: Any, reply: Reply, desk: Desk, model: Open) -> None:
    desk.usual = says(status, body)
    assert model().generate(ask("x")) == [reply]
    assert len(desk.requests) == 1


@pytest.mark.parametrize(
    ("reason", "finish"), [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal",) * 2]
)
def test_how_anthropic_says_that_an_answer_ended(reason: str, finish: str, desk: Desk, anthropic: Open) -> None:
    desk.usual = says(200, anthropic_answer("B", reason))
    (reply,) = anthropic("claude", base_url=desk.url).generate(ask("x"))
    assert reply.finish == finish


def test_a_stop_text_is_cut_off_whatever_the_server_was_told(desk: Desk, model: Open) -> None:
    desk.usual = says(200, openai_answer("B\nBecause", "length"))
    assert model(send_stop="off").generate(ask("x", stop=("\n",))) == [Reply(text="B")]
    assert "stop" not in desk.requests[0]


def test_a_cut_reply_holds_no_stop_text(desk: Desk, model: Open) -> None:
    dice = random.Random(0)
    texts = ["".join(dice.choices("ab\n", k=dice.randrange(9))) for _ in range(100)]
    stops = [tuple("".join(dice.choices("ab\n", k=number % 3)) for number in range(dice.randrange(4))) for _ in texts]
    desk.usual = lambda handler, body: handler.send(200, openai_answer(texts[int(question(body))]))
    prompts = [Prompt((Message("user", str(number)),), each, 16) for number, each in enumerate(stops)]
    for text, each, reply in zip(texts, stops, model().generate(prompts), strict=True):
        assert text.startswith(reply.text)
        assert not any(stop in reply.text for stop in each if stop)


def test_a_reply_is_stored_as_it_is(desk: Desk, model: Open, archive_file: Path) -> None:
    dice = random.Random(0)
    texts = ["".join(dice.choices('aé東🙂\n\t\0\x7f\u200b\\"{}<', k=dice.randrange(30))) for _ in range(50)]
    desk.usual = lambda handler, body: handler.send(
        200, openai_answer(texts[int(question(body))], reasoning=texts[int(question(body)) - 1])
    )
    prompts = ask(*map(str, range(len(texts))))
    replies = model().generate(prompts)
    assert [(reply.text, reply.reasoning) for reply in replies] == list(
        zip(texts, [texts[-1], *texts[:-1]], strict=True)
    )
    assert model().generate(prompts) == replies
    assert len(desk.requests) == len(texts)
    with closing(sqlite3.connect(archive_file)) as connection:
        assert all(answer.isascii() for (answer,) in connection.execute("SELECT answer FROM answers"))


def test_half_a_surrogate_pair_can_be_asked_and_answered(desk: Desk, model: Open) -> None:
    desk.usual = says(200, b'{"choices": [{"message": {"content": "\\ud800"}, "finish_reason": "stop"}]}')
    assert model().generate(ask("\ud800")) == [Reply(text="\ufffd")] == model().generate(ask("\ud800"))


def test_a_chat_model_gives_no_probabilities(desk: Desk, model: Open, cli: Cli) -> None:
    assert capabilities(model()) == {"generate"}
    flags = ("--model", "openai:m", "--model_args", f"base_url={desk.url}", "--route", "choice=by_loglikelihood")
    complaint = cli("run", "--tasks", "mini_proverbs", *flags).complaint
    assert re.search("offers generate, which is not enough .* by_loglikelihood needs log", complaint)


def test_it_can_be_asked_within_a_running_loop(model: Open) -> None:
    async def notebook() -> list[Reply]:
        return model().generate(ask("x"))

    assert asyncio.run(notebook()) == [Reply(text="X")]


# ---- retries ---------------------------------------------------------------------------------------------------------

PIECE = zlib.compressobj(9)
MEBIBYTE = PIECE.compress(bytes(1 << 20)) + PIECE.flush(zlib.Z_FULL_FLUSH)
BOMB = MEBIBYTE + MEBIBYTE[2:] * 1023  # a gibibyte of zeros; only the first piece has the header of two bytes

TRANSIENT_FAULTS = [
    ("408", says(408)),
    ("429", says(429, error("slow down"))),
    ("500", says(500, b"<html>")),
    ("503", says(503)),
    ("529", says(529, error("overloaded"))),
    ("502", says(200, error("upstream"))),
    ("503", says(200, error("upstream", code=503))),
    ("502", says(200, error("upstream", code=10**400))),
    ("502", says(200, error("upstream", code=-1))),
    ("unreadable", says(200, b"")),
    ("unreadable", says(200, b"[]")),
    ("unreadable", says(200, {"choices": []})),
    ("unreadable", says(200, openai_answer("B", "error"))),
    ("unreadable", says(200, openai_answer("The answ", "abort"))),
    ("unreadable", says(200, openai_answer("The answ", "insufficient_system_resource"))),
    ("unreadable", mangle),
    ("unreadable", says(200, b"[" * 100_000)),
    ("unreadable", says(200, BOMB, Content_Encoding="deflate")),
    ("unreadable", says(200, gzip.compress(b"x"), Content_Encoding="gzip, gzip")),
    ("unreadable", says(200, b"no gzip", Content_Encoding="gzip")),
    ("unreadable", says(200, bytes((1 << 24) + 1))),
    ("connection", truncate),
    ("connection", hang_up),
    ("timeout", stall),
    ("500", says(500, error("oops"), Set_Cookie="a=\xe9; Path=/")),
]


@pytest.mark.parametrize(("kind", "fault"), TRANSIENT_FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_may_pass_is_tried_again(kind: str, fault: Any, desk: Desk, model: Open) -> None:
    desk.plan = [well, fault, fault]
    backend = model(timeout=0.3 if kind == "timeout" else 30, max_concurrent=1)
    assert [reply.text for reply in backend.generate(ask("a", "b", "c"))] == ["A", "B", "C"]
    assert backend.describe()["faults"] == {kind: 2}
    assert len(desk.requests) == 5


def test_what_does_not_pass_becomes_a_reply_that_says_so_and_is_asked_again_later(desk: Desk, model: Open) -> None:
    desk.plan = [well, *[says(500, error("oops"))] * 3]
    first, second = model(max_retries=2, max_concurrent=1).generate(ask("a", "b"))
    assert first == Reply(text="A")
    assert second == Reply(text="", finish="error", error="500 oops (after 3 attempts)")
    assert [reply.text for reply in model().generate(ask("a", "b"))] == ["A", "B"]
    assert len(desk.requests) == 5


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds of all pauses, none of which is waited for."""
    seconds: list[float] = []
    sleep = asyncio.sleep

    async def note(delay: float) -> None:
        seconds.append(delay)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    return seconds


@pytest.mark.parametrize(
    ("value", "seconds"), [("0", 0), ("1.5", 1.5), ("-3", 0), ("nan", 0), ("inf", 0), ("soon", 0), ("", 0),
                           ("3600", 60), (formatdate(0, usegmt=True), 0)]
)  # fmt: skip
def test_a_server_that_says_when_to_come_back_is_obeyed(
    value: str, seconds: float, desk: Desk, model: Open, pauses: list[float]
) -> None:
    desk.plan = [says(429, Retry_After=value)]
    assert model().generate(ask("x")) == [Reply(text="X")]
    assert pauses == [seconds]


def test_a_server_may_name_a_date(desk: Desk, model: Open, pauses: list[float]) -> None:
    desk.plan = [says(503, Retry_After=formatdate(time.time() + 30, usegmt=True))]
    model().generate(ask("x"))
    assert 20 < pauses[0] <= 30


def test_fewer_requests_go_out_side_by_side_when_the_server_is_crowded(desk: Desk, model: Open) -> None:
    desk.plan = [says(429)] * 6
    backend = model()
    assert len(backend.generate(ask(*map(str, range(200))))) == 200
    assert backend.describe()["narrowest"] < 8
    desk.most_at_once, desk.usual = 0, after(0.01)
    backend.generate(ask(*(f"another {number}" for number in range(50))))
    assert desk.most_at_once > 4, "it grows again"


def test_a_server_that_fails_on_and_on_is_left_in_peace(desk: Desk, model: Open) -> None:
    desk.plan = [well]
    desk.usual = says(400, error("bad"))
    backend = model(max_concurrent=1)
    replies = backend.generate(ask(*map(str, range(100))))
    assert len(desk.requests) == 21
    assert replies[0] == Reply(text="0")
    assert [reply.error for reply in replies[1:21]] == ["400 bad"] * 20
    assert {reply.error for reply in replies[21:]} == {"not sent: 20 consecutive requests had failed (400 bad)"}


def test_a_server_that_never_answers_anything_is_an_error(desk: Desk, model: Open) -> None:
    desk.usual = says(400, error("unknown parameter: temperature"))
    with pytest.raises(
        ModelError, match="20 requests in a row failed and none was answered; the last one: 400 unknown"
    ):
        model().generate(ask(*map(str, range(100))))
    assert len(desk.requests) <= 28


def test_a_server_that_goes_down_in_the_middle_loses_nothing(desk: Desk, model: Open) -> None:
    backend = model(max_retries=1)
    assert [reply.finish for reply in backend.generate(ask("a", "b"))] == ["stop", "stop"]
    desk.usual = hang_up
    replies = backend.generate(ask("b", "c"))
    assert [reply.finish for reply in replies] == ["stop", "error"]
    assert "the connection broke" in replies[1].error


# ---- the same for every request --------------------------------------------------------------------------------------


def test_nobody_is_there(openai: Open) -> None:
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"no server at http://127.0.0.1:9/v1 \(.*\); start it, or correct .*base_url"):
        openai("m", base_url="http://127.0.0.1:9/v1").generate(ask("x"))
    assert time.monotonic() - began < 5


LASTING_FAULTS = [
    (says(401, error("bad key")), r"127.0.0.1 answered 401 \(bad key\); correct the key in OPENAI_API_KEY"),
    (says(403, b"<html>no"), r"answered 403 \(<html>no\); the key in OPENAI_API_KEY does not permit this"),
    (says(402, error("no money")), r"127.0.0.1: no money; top up the account"),
    (says(400, error("Your credit balance is too low")), r"127.0.0.1: Your credit balance is too low; top up"),
    (says(405, error("no")), r"answered 405 \(no\); correct base_url .*: what is there accepts no questions"),
    (says(501, b"<html>"), r"answered 501 \(<html>\); correct base_url"),
    (says(404, error("no model m")), r"answered 404 \(no model m\); correct base_url .* or the model's name 'm'"),
    (says(301, Location="/v2"), r"answered 301 .*; correct base_url .*: it redirects elsewhere"),
    (says(429, error("quota", code="insufficient_quota")), r"127.0.0.1: quota; top up the account"),
]


@pytest.mark.parametrize(("fault", "message"), LASTING_FAULTS, ids=range(len(LASTING_FAULTS)))
def test_what_is_the_same_for_all_ends_the_run_at_once(fault: Any, message: str, desk: Desk, model: Open) -> None:
    desk.plan = [well]
    desk.usual = fault
    with pytest.raises(ModelError, match=message):
        model(max_concurrent=2).generate(ask(*map(str, range(30))))
    assert len(desk.requests) <= 4
    desk.usual = well
    assert len(model().generate(ask("0"))) == 1
    assert desk.upstream_saw["0"] == 1, "what was answered before is kept"


# ---- options ---------------------------------------------------------------------------------------------------------


BAD_OPTIONS = [
    ({}, "no key for api.openai.com: set the environment variable OPENAI_API_KEY"),
    ({"base_url": "http://10.1.2.3/v1", "api_key_env": "MINE"}, "set the environment variable MINE"),
    ({"base_url": "localhost:8000"}, "base_url is not a valid address; write it like http://localhost:8000/v1"),
    ({"base_url": "http://localhost:port"}, "base_url is not a valid address"),
    ({"base_url": "http://ann:hunter2@localhost"}, "base_url holds a user, password or query"),
    ({"base_url": "http://localhost?key=hunter2"}, "base_url holds a user, password or query"),
    ({"api_key_env": "sk-hunter2"}, "not the key"),
    ({"api_key": "hunter2"}, "has no option 'api_key'; did you mean 'api_key_env'"),
    ({"max_concurrent": 0}, "max_concurrent=0 is not a positive integer"),
    ({"timeout": 0}, "timeout=0 is not above 0"),
    ({"max_retries": -1}, "max_retries=-1 is not a positive integer"),
    ({"temperature": "hot"}, "temperature=hot is not a number of at least 0"),
    ({"temperature": True}, "temperature=True is not a number of at least 0"),
    ({"extra_body": "[1]"}, "extra_body is not a JSON object"),
    ({"memo": "perhaps"}, "memo=perhaps must be on or off"),
    ({"max_completion_tokens_key": "n"}, "max_completion_tokens_key is max_tokens or max_completion_tokens"),
    ({"account": "mine"}, "has no option 'account'"),
    ({"price_source": "mine"}, "has no option 'price_source'"),
    ({"max_cost": 1}, "max_cost is a flag, not an option of the model; write --max_cost"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=range(len(BAD_OPTIONS)))
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as refused, Harness().open_model("openai:m", options):
        raise AssertionError("it must not open")
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_budget_in_money_needs_prices(openai: Open) -> None:
    with pytest.raises(ModelError, match="--max_cost needs prices"):
        openai("m", base_url="http://127.0.0.1:1/v1", max_cost=1.0, input_price=1)


def test_the_model_may_be_named_among_the_options_as_lm_eval_has_it() -> None:
    options = {"model": "gpt-4o-mini", "base_url": "http://localhost:1/v1"}
    with Harness().open_model("openai", options) as opened:
        assert opened.name == "openai:gpt-4o-mini"


def test_a_model_without_a_name(openai: Open) -> None:
    with pytest.raises(ModelError, match="no model is given"):
        openai()


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.0.0.1:1/v1/", "http://[::1]:1/v1", "http://127.8.0.1"]
)
def test_this_machine_needs_no_key(url: str, openai: Open) -> None:
    openai("m", base_url=url)


# ---- the key ---------------------------------------------------------------------------------------------------------


def test_the_key_goes_to_the_server_and_nowhere_else(
    desk: Desk,
    model: Open,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    own_home: Path,
    archive_file: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    desk.plan = [
        says(200, openai_answer(f"your key is {KEY}", reasoning=KEY)),
        says(400, error(f"{'x' * 290} {KEY} is wrong")),
        says(500, f"<html>{KEY}".encode()),
        says(401, error(f"{KEY} is no key")),
    ]
    backend = model(max_concurrent=1, max_retries=0)
    replies = backend.generate(ask("a", "b", "c"))
    with pytest.raises(ModelError) as refused:
        backend.generate(ask("d"))
    assert {headers["authorization"] for headers in desk.headers} == {f"Bearer {KEY}"}
    assert replies[0].text == "your key is [key]"
    parts = (backend, *vars(backend).values())
    outputs = [repr(replies), str(refused.value), repr(refused.value), backend.fingerprint(), caplog.text]
    outputs += [json.dumps(backend.describe()), *map(repr, parts)]
    assert not any("sk-very" in text for text in outputs)
    files = [file for file in own_home.rglob("*") if file.is_file()]
    assert archive_file in files
    assert not any(b"sk-very" in file.read_bytes() for file in files)


def test_a_key_that_cannot_be_one_is_not_repeated(monkeypatch: pytest.MonkeyPatch, openai: Open) -> None:
    for wrong in (f"{KEY}\n{KEY}", f"“{KEY}”", f"{KEY} "[:-1] + " x"):
        monkeypatch.setenv("OPENAI_API_KEY", wrong)
        with pytest.raises(ModelError) as refused:
            openai("m")
        assert "OPENAI_API_KEY contains blanks" in str(refused.value)
        assert "sk-very" not in str(refused.value)


def test_a_placeholder_is_no_secret(desk: Desk, model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "NONE")
    assert model().generate(ask("none of them")) == [Reply(text="NONE OF THEM")]


# ---- the memo --------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_twice(desk: Desk, model: Open) -> None:
    first = model().generate(ask("a", "b", "a"))
    again = model()
    assert again.generate(ask("b", "a")) == [first[1], first[0]]
    assert len(desk.requests) == 2
    assert again.describe()["from_memo"] == 2
    assert (again.describe()["requests"], again.describe()["answered"]) == (0, 0)


@pytest.mark.parametrize(
    "change", [{"temperature": 0.5}, {"top_p": 0.5}, {"reasoning_effort": "low"}, {"extra_body": '{"top_k": 2}'},
               {"reasoning_tokens": 5}, {"temperature": None}, {"extra_body": {"reasoning_effort": "low"}},
               {"extra_body": {"seed": 1}}, {"extra_body": {"enable_thinking": False}}, {"extra_body": {"top_k": 0}}]
)  # fmt: skip
def test_other_decoding_is_another_question(change: dict[str, Any], desk: Desk, model: Open) -> None:
    model().generate(ask("a"))
    model(**change).generate(ask("a"))
    assert len(desk.requests) == 2
    assert model().fingerprint() != model(**change).fingerprint()


def test_another_model_or_server_is_another_question(desk: Desk, model: Open, openai: Open) -> None:
    model().generate(ask("a"))
    openai("other", base_url=desk.url).generate(ask("a"))
    openai("m", base_url=desk.url.replace("127.0.0.1", "localhost")).generate(ask("a"))
    assert len(desk.requests) == 3


LISTS = [
    ([{"id": "m", "root": "llama"}], [{"id": "m", "root": "qwen"}]),
    ([{"id": "/a.gguf", "meta": {"n_params": 1}}], [{"id": "/b.gguf", "meta": {"n_params": 2}}]),
]


@pytest.mark.parametrize(("before", "later"), LISTS, ids=["vLLM", "llama.cpp"])
def test_another_model_behind_the_same_address_and_name_is_another_question(
    before: Any, later: Any, desk: Desk, model: Open
) -> None:
    desk.models = {"data": [model_entry | {"created": 1} for model_entry in before]}
    first = model()
    first.generate(ask("a"))
    desk.models = {"data": [model_entry | {"created": 2} for model_entry in before]}  # started anew
    restarted = model()
    restarted.generate(ask("a"))
    assert len(desk.requests) == 1
    assert first.fingerprint() == restarted.fingerprint()
    desk.models = {"data": later}
    changed = model()
    changed.generate(ask("a"))
    assert len(desk.requests) == 2
    assert first.fingerprint() != changed.fingerprint()


@pytest.mark.parametrize(
    "listing", [None, [], {"data": 3}, {"data": [1]}, {"data": [{"id": str(n)} for n in range(9)]}]
)
def test_a_list_of_models_that_says_nothing_of_this_one(listing: Any, desk: Desk, model: Open) -> None:
    unlisted = model().fingerprint()
    desk.models = listing
    assert model().fingerprint() == unlisted
    assert model().generate(ask("a")) == [Reply(text="A")]


def test_a_list_of_models_that_comes_byte_by_byte_is_not_waited_for(model: Open) -> None:
    """Each byte was waited for anew, without an end. What is served is unknown then, which is not nothing."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
                while not over.wait(0.01):
                    connection.sendall(b" ")

        threading.Thread(target=drip, daemon=True).start()
        unresponsive = model(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1", timeout=0.3)
        try:
            with pytest.raises(ModelError, match=r"within 0\.3 s which model it serves; if it is busy"):
                unresponsive.fingerprint()
        finally:
            over.set()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_away_does_not_seem_to_serve_another_model(status: int, desk: Desk, model: Open) -> None:
    desk.models, desk.listing = {"error": {"message": "Loading model"}}, status
    with pytest.raises(ModelError, match=rf"does not say \(status {status}\) which model it serves; if it is busy"):
        model().fingerprint()


def test_no_cookie_is_sent(desk: Desk, model: Open) -> None:
    """Their number would grow with that of the answers."""
    desk.usual = says(200, openai_answer("B"), Set_Cookie="a=b; Path=/")
    model(max_concurrent=1).generate(ask("a", "b", "c"))
    assert [headers.get("cookie") for headers in desk.headers] == [None] * 3


def test_how_it_is_asked_makes_no_other_question(desk: Desk, model: Open) -> None:
    model().generate(ask("a"))
    changed = model(timeout=9, max_concurrent=1, max_retries=0, max_tokens=10_000, seed=7, **PRICES)
    changed.generate(ask("a"))
    assert len(desk.requests) == 1
    assert model().fingerprint() == changed.fingerprint()


def test_samples_are_told_apart_by_their_seed(desk: Desk, model: Open, anthropic: Open) -> None:
    for seed in (0, 1, 0):
        model(temperature=1, seed=seed).generate(ask("a"))
    assert [body["seed"] for body in desk.requests] == [0, 1]
    for seed in (0, 1, 0):  # Anthropic takes none, but two samples are two all the same
        anthropic("m", base_url=desk.url, temperature=1, seed=seed).generate(ask("a"))
    assert len(desk.requests) == 4


def test_the_memo_can_be_switched_off(desk: Desk, model: Open) -> None:
    for _ in range(2):
        model(memo="off").generate(ask("a"))
    assert len(desk.requests) == 2
    model().generate(ask("a"))
    assert len(desk.requests) == 3, "nor was anything kept"


def test_a_memo_that_is_none(model: Open, archive_file: Path) -> None:
    archive_file.parent.mkdir(parents=True)
    archive_file.write_bytes(b"something else" * 100)
    with pytest.raises(RecordError, match=r"cannot use the reply cache .*answers.sqlite3 \(file is not a database\)"):
        model().generate(ask("a"))
    archive_file.unlink()
    archive_file.parent.rmdir()
    archive_file.parent.write_text("")
    with pytest.raises(RecordError, match="set FIGEVAL_HOME to another folder"):
        model().generate(ask("a"))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"text": 3}',
        '{"text": "A", "finish": "somehow"}',
        '{"text": "A", "unheard": 1}',
        '{"text": "", "finish": "error", "error": "lost"}',
        "[" * 10_000,
        b"\xff\xfe",
        '{"text": "\u00e9"}',
    ],
)
def test_a_damaged_row_of_the_memo_is_asked_again(damaged: Any, desk: Desk, model: Open, archive_file: Path) -> None:
    model().generate(ask("a", "b"))
    with closing(sqlite3.connect(archive_file)) as connection, connection:
        connection.execute("UPDATE answers SET answer = CAST(? AS TEXT)", [damaged])
    again = model()
    assert "2 requests" in again.estimate(ask("a", "b"))
    assert again.generate(ask("a", "b")) == [Reply(text="A"), Reply(text="B")]
    assert (len(desk.requests), again.describe()["from_memo"]) == (4, 0)
    model().generate(ask("a", "b"))
    assert len(desk.requests) == 4, "the rows are whole again"


# ---- what servers should not say -------------------------------------------------------------------------------------


def change_answer(answer: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(answer), **changes}).encode()


IMPOSSIBLE_COUNTS = [-5, -(10**30), 10**30, 12.5, "12", True, None, [1], {}]


@pytest.mark.parametrize("count", IMPOSSIBLE_COUNTS)
@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
def test_usage_that_cannot_be_true_is_charged_as_the_most_there_can_be(
    field: str, count: Any, desk: Desk, model: Open
) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 5, field: count}
    desk.usual = says(200, change_answer(openai_answer("A" * 40), usage=used))
    backend = model(max_tokens=100, account="run")
    with pytest.raises(ModelError, match="99 tokens spent"):  # a byte, 16 for its turn, and an answer of 16
        backend.generate(ask(*map(str, range(10))))
    assert len(desk.requests) == 3


@pytest.mark.parametrize("usage", [*IMPOSSIBLE_COUNTS[:5], [1], "none", {"prompt_tokens": 0, "completion_tokens": 0}])
def test_usage_of_any_form_costs_no_answer(usage: Any, desk: Desk, model: Open) -> None:
    desk.usual = says(200, change_answer(openai_answer("A"), usage=usage))
    backend = model()
    assert backend.generate(ask("a")) == [Reply(text="A")]
    assert backend.describe()["tokens_in"] > 0


EVIL_TEXT = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J\u202eevil\ud800 \r\nsecond\x00"


def test_text_of_servers_is_cleaned_where_it_comes_in(desk: Desk, model: Open) -> None:
    desk.plan = [says(200, change_answer(openai_answer("A\ud83d and \ud83d\ude00", reason=EVIL_TEXT), model=EVIL_TEXT))]
    backend = model()
    assert backend.generate(ask("a")) == [Reply(text="A\ufffd and 😀")]
    assert backend.describe()["answered_as"] == ["red evil\ufffd second"]
    desk.plan = [says(400, error(EVIL_TEXT))]
    (reply,) = backend.generate(ask("b"))
    assert (reply.finish, reply.error) == ("error", "400 red evil\ufffd second")
    desk.plan = [says(401, error(EVIL_TEXT))]
    with pytest.raises(ModelError, match=r"401 \(red evil\ufffd second\)"):
        backend.generate(ask("c"))


# ---- budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_is_never_exceeded(desk: Desk, model: Open) -> None:
    # 10 + 5 tokens each as the server counts, 4 + 0 + 16 as expected beforehand
    backend = model(max_tokens=100, account="run")
    with pytest.raises(ModelError, match=r"\(--max_tokens 100\) does not allow another request: 75 tokens spent"):
        backend.generate(ask(*map(str, range(50))))
    assert len(desk.requests) == 5
    assert (backend.describe()["tokens_in"], backend.describe()["tokens_out"]) == (50, 25)
    assert "spent so far: 75 tokens" in model(account="run").estimate(ask("more"))


def counting(tokens: Callable[[str], int]) -> Callable[[Handler, bytes], None]:
    """Answer, and count the tokens of a question in this way, with 30 for the template."""

    def behave(handler: Handler, body: bytes) -> None:
        used = {"prompt_tokens": tokens(question(body)) + 30, "completion_tokens": 3}
        answer = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "usage": used}
        handler.desk.over.wait(0.2)  # so long that requests overlap on a busy machine, too
        handler.send(200, json.dumps(answer).encode())

    return behave


PROSE = "The quick fox and the dog ran home. " * 12
COUNTS: list[tuple[str, Callable[[str], int], float, float]] = [
    ("a token for four bytes", lambda text: len(text) // 4, 0.9, 1),
    ("a token per byte", len, 0.9, 1),
    ("few tokens, then many", lambda text: len(text) // 4 if int(text[:3]) < 60 else len(text), 0.9, 1),
    ("in turns", lambda text: len(text) // (4 if int(text[:3]) % 2 else 1), 0.9, 1),
    ("few tokens, then more than bytes", lambda text: len(text) // 4 if int(text[:3]) < 60 else 2 * len(text), 0.9, 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "least", "highest"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS]
)
def test_a_budget_holds_with_many_requests_at_once(
    tokens: Callable[[str], int], least: float, highest: float, desk: Desk, model: Open
) -> None:
    desk.usual = counting(tokens)
    backend = model(max_tokens=20_000, max_concurrent=32)
    with pytest.raises(ModelError, match=EXHAUSTED) as caught:
        backend.generate(ask(*(f"{number:03d} {PROSE}" for number in range(250))))
    spent = tokens_spent(backend)
    assert 20_000 * least <= spent <= 20_000 * highest
    assert ("more than --max_tokens" in str(caught.value)) == (spent > 20_000)
    assert desk.most_at_once > 8


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(8000, *[40] * 200), (40, 8000, *[40] * 200), (200, *[20, 4000] * 100)])
@pytest.mark.parametrize("template", [0, 600])
def test_a_budget_holds_where_texts_with_few_tokens_precede_dense_ones(
    sizes: tuple[int, ...], template: int, desk: Desk, model: Open
) -> None:
    """Long texts have a token per 40 bytes, others one per byte; after the first answer, 32 requests are pending."""

    def behave(handler: Handler, body: bytes) -> None:
        size = len(question(body))
        used = {"prompt_tokens": (size // 40 if size > 1000 else size) + template, "completion_tokens": 16}
        handler.send(200, change_answer(openai_answer("B"), usage=used))

    desk.usual = behave
    backend = model(max_tokens=20_000, max_concurrent=32)
    with suppress(ModelError):
        backend.generate(ask(*(f"{number:03d}".ljust(size, "x") for number, size in enumerate(sizes))))
    assert tokens_spent(backend) <= 20_000
    assert len(desk.requests) == len(sizes) or tokens_spent(backend) > 10_000


@dataclass
class Meter:
    """A server that counts a token per byte and 12 around each message, and reports some of the counts.

    Attributes:
        reports: for each request, one of "count", "no count", "hang up".
        spent: tokens that it counted, reported or not.
    """

    reports: Iterator[str]
    spent: int = 0

    def __call__(self, handler: Handler, body: bytes) -> None:
        tokens = sum(len(message["content"].encode()) + 12 for message in json.loads(body)["messages"])
        with handler.desk.lock:
            self.spent += tokens + 3
            report = next(self.reports)
        handler.desk.over.wait(0.2)  # so long that requests overlap on a busy machine, too
        if report == "hang up":
            hang_up(handler, body)
            return
        used = {"usage": {"prompt_tokens": tokens, "completion_tokens": 3}} if report == "count" else {}
        handler.send(
            200, json.dumps({"choices": [{"message": {"content": "Na"}, "finish_reason": "stop"}], **used}).encode()
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "reports", [("no count",), ("count", "no count"), ("no count", "no count", "count"), ("count", "count", "hang up")]
)
def test_a_budget_holds_for_tokens_that_are_counted_and_not_reported(
    reports: tuple[str, ...], desk: Desk, model: Open
) -> None:
    desk.usual = meter = Meter(cycle(reports))
    backend = model(max_tokens=20_000, max_concurrent=32)
    with pytest.raises(ModelError, match=EXHAUSTED) as caught:
        backend.generate(ask(*(f"{number:03d} नाव किनारे पर खड़ी है। 舟は岸にある。" * 3 for number in range(200))))
    assert 10_000 < meter.spent <= 20_000
    assert desk.most_at_once > 8
    assert ("without a count of tokens" in str(caught.value)) == ("no count" in reports)


@pytest.mark.parametrize(("room", "answered"), [(50 + 7 * 200 + 15, False), (50 + 7 * (200 + 16) + 16, True)])
def test_more_turns_have_as_much_around_each_of_them(room: int, answered: bool, desk: Desk, model: Open) -> None:
    desk.usual = says(200, change_answer(openai_answer("B"), usage={"prompt_tokens": 201, "completion_tokens": 1}))
    backend = model(max_tokens=202 + room)
    backend.generate(ask("x"))
    turns = [Message("user" if number % 2 == 0 else "assistant", "x" * 7) for number in range(6)]
    long = Prompt((*turns, Message("user", "x" * 8)), (), 16)
    with nullcontext() if answered else pytest.raises(ModelError, match=EXHAUSTED):
        backend.generate([long])


@pytest.mark.parametrize(("answer", "limit"), [(None, 10 + 16 + 2), (AnswerFormat(("आम", "a boat" * 90)), 600)])
def test_the_schema_of_an_answer_counts_as_text(
    answer: AnswerFormat | None, limit: int, desk: Desk, model: Open
) -> None:
    """A request may use a token for each byte of text and schema, 16 around its turn, and those of the answer."""
    prompt = Prompt((Message("user", "Which one?"),), (), 2, answer)
    for max_tokens in (limit - 1, 28 if answer else limit - 10):
        with pytest.raises(ModelError, match=EXHAUSTED):
            model(max_tokens=max_tokens, account=f"{max_tokens}").generate([prompt])
    assert not desk.requests
    assert model(max_tokens=1_000, account="more").generate([prompt])


def test_with_more_the_same_command_goes_on(desk: Desk, model: Open) -> None:
    prompts = ask(*map(str, range(10)))
    with pytest.raises(ModelError, match=EXHAUSTED):
        model(max_tokens=100, account="run").generate(prompts)
    with pytest.raises(ModelError, match=EXHAUSTED):  # what was spent before counts
        model(max_tokens=100, account="run").generate(prompts)
    assert len(desk.requests) <= 6
    assert len(model(max_tokens=200, account="run").generate(prompts)) == 10
    assert len(desk.requests) == 10
    assert set(desk.upstream_saw.values()) == {1}
    model(max_tokens=100, account="another").generate(ask("new"))


def test_a_cost_is_counted_with_the_prices(desk: Desk, model: Open) -> None:
    prices = {"input_price": 1_000_000, "output_price": 2_000_000}  # 10 + 2 · 5 each
    backend = model(max_cost=100, **prices)
    with pytest.raises(ModelError, match=r"--max_cost 100\) .* 75 tokens at a cost of 100.0000 spent"):
        backend.generate(ask(*map(str, range(50)), max_tokens=5))
    assert backend.describe()["cost"] == 100.0
    assert len(desk.requests) == 5


def test_a_server_that_does_not_count_is_estimated(desk: Desk, model: Open) -> None:
    desk.usual = says(200, openai_answer("four words and more!", used=False))
    backend = model()
    backend.generate(ask("x" * 40))
    assert (backend.describe()["tokens_in"], backend.describe()["tokens_out"]) == (14, 5)


def test_an_answer_lost_on_the_way_is_on_the_bill(desk: Desk, model: Open) -> None:
    desk.plan = [truncate]
    backend = model()
    backend.generate(ask("x" * 40))
    assert (backend.describe()["tokens_in"], backend.describe()["tokens_out"]) == (14 + 10, 16 + 5)
    desk.plan = [truncate] * 9
    with pytest.raises(ModelError, match=EXHAUSTED):
        model(max_tokens=120, account="small").generate(ask("y" * 40))
    backend = model(account="small")
    backend.estimate([])
    assert 0 < tokens_spent(backend) <= 120


def test_what_it_would_take_is_known_beforehand(desk: Desk, model: Open) -> None:
    backend = model(input_price=1, output_price=2, max_tokens=74)
    backend.generate(ask("a" * 40))
    estimate = backend.estimate(ask("a" * 40, "b" * 40, "c" * 40, "c" * 40))
    assert estimate == (
        "2 requests, about 28 input tokens and at most 32 output tokens, a cost of at most 0.0001; 1 answer "
        "already cached; spent so far: 15 tokens at a cost of 0.0000; the budget may not be sufficient"
    )
    assert len(desk.requests) == 1
