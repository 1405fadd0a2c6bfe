"""What servers say instead of an answer: each case is asked as often as it may help, and has one right meaning."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from figeval import Message, ModelError, Prompt, Reply
from tests.plugins.servers import Desk, Handler, openai_answer, question, says, well

pytestmark = pytest.mark.usefixtures("no_keys", "no_pauses")
CASES = json.loads((Path(__file__).parents[1] / "golden" / "api_responses.json").read_text(encoding="utf-8"))
FORBIDDEN_REPLY = says(403, {"error": {"message": "no"}})


Open = Callable[..., Any]


@pytest.fixture
def model(desk: Desk, openai: Open) -> Open:
    return lambda **options: openai("m", **{"base_url": desk.url, **options})


def ask(*texts: str) -> list[Prompt]:
    return [Prompt((Message("user", text),), (), 16) for text in texts]


def outcome(case: dict[str, Any], desk: Desk, backend: Any) -> dict[str, Any]:
    """Return what became of a question that the server answers as this case does, in the words of the cases."""
    desk.usual = says(case["status"], case["body"])
    before = len(desk.requests)
    try:
        (reply,) = backend.generate(ask("x"))
    except ModelError as error:
        return {"ends": re.search(case.get("ends", "$"), str(error)) is not None}
    return {
        "requests": len(desk.requests) - before,
        "faults": backend.describe()["faults"],
        "text": reply.text,
        "finish": reply.finish,
        "error": reply.error,
    }


def expected(case: dict[str, Any], error: str) -> dict[str, Any]:
    """Return what must become of the question; of the error, the case may say nothing."""
    if "ends" in case:
        return {"ends": True}
    retried = "retried" in case
    return {
        "requests": 3 if retried else 1,
        "faults": {case["retried"]: 3} if retried else {},
        "text": "",
        "finish": "error" if retried else case.get("finish", "error"),
        "error": error if retried else case.get("error", error),
    }


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_what_a_server_says_has_one_meaning(dialect: str, desk: Desk, open_model: Open) -> None:
    """Each is said to a model, on an account, that has had no answer yet: after one, some of it means another thing."""
    wrong = {}
    cases = [case for case in CASES if case.get("dialect", "openai") == dialect]
    assert cases
    for number, case in enumerate(cases):
        options = {"base_url": desk.url, "max_retries": 2, "memo": "off", "account": f"case {number}"}
        seen = outcome(case, desk, open_model(dialect, "m", **options))
        if seen != expected(case, seen.get("error", "")):
            wrong[case["why"]] = seen
    assert not wrong


@pytest.mark.parametrize(
    ("details", "thought"), [({"reasoning_tokens": 1000}, 1000), ({"reasoning_tokens": 0}, 1000), (None, 1000)]
)
def test_thoughts_that_only_the_total_contains_are_spent(details: Any, thought: int, desk: Desk, model: Open) -> None:
    """As xAI and Gemini report them."""
    used = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 1015, "completion_tokens_details": details}
    desk.usual = says(200, {**json.loads(openai_answer("B")), "usage": used})
    backend = model(max_tokens=3_000, max_concurrent=1, account="run")
    with pytest.raises(ModelError, match="2,030 tokens spent"):
        backend.generate(ask(*"abcdef"))
    (reply,) = model(account="run").generate(ask("a"))
    assert (reply.answer_tokens, reply.reasoning_tokens, len(desk.requests)) == (5, thought, 2)


@pytest.mark.parametrize("status", [200, 500])
def test_what_a_server_counts_beside_an_error_is_spent(status: int, desk: Desk, model: Open) -> None:
    used = {"prompt_tokens": 300, "completion_tokens": 0}
    desk.usual = says(status, {"error": {"message": "boom", "code": 500}, "usage": used})
    backend = model(max_tokens=1_000, max_concurrent=1, max_retries=9)
    with pytest.raises(ModelError, match="1,200 tokens spent"):
        backend.generate(ask("x"))
    assert len(desk.requests) == 4


@pytest.mark.parametrize("content", [{"type": "text", "text": "B"}, [{"type": "text", "text": "B"}]])
def test_a_block_is_read_alone_and_in_a_list(content: Any, desk: Desk, model: Open) -> None:
    desk.usual = says(200, {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})
    assert [reply.text for reply in model().generate(ask("x"))] == ["B"]


def test_a_withheld_answer_is_kept_with_its_reason(desk: Desk, model: Open) -> None:
    desk.usual = says(200, {"choices": [], "promptFeedback": {"blockReason": "SAFETY"}})
    expected = [Reply(text="", finish="refusal", error="SAFETY")]
    assert model().generate(ask("x")) == expected == model().generate(ask("x"))
    assert len(desk.requests) == 1


@pytest.mark.parametrize(
    "error", [None, False, "", {}, [], {"code": 0, "message": ""}, {"code": None, "message": None}, [{"code": None}]]
)
def test_an_error_without_values_beside_an_answer_is_none(error: Any, desk: Desk, model: Open) -> None:
    desk.usual = says(200, {**json.loads(openai_answer("B")), "error": error})
    assert [reply.text for reply in model().generate(ask("x"))] == ["B"]
    assert len(desk.requests) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"base_resp": {"status_code": 0, "status_msg": "success"}},
        {"base_resp": {"status_code": None}},
        {"error_code": 0, "error_msg": ""},
        {"code": 0, "message": "ok"},
        {"candidates": [{"finishReason": "SAFETY"}]},
    ],
)
def test_a_code_of_success_beside_an_answer_is_no_error(fields: dict[str, Any], desk: Desk, model: Open) -> None:
    desk.usual = says(200, {**json.loads(openai_answer("B")), **fields})
    assert [reply.text for reply in model().generate(ask("x"))] == ["B"]
    assert len(desk.requests) == 1


@pytest.mark.parametrize(
    "message", [{"content": None, "refusal": "I can't"}, {"content": [{"type": "refusal", "refusal": "I can't"}]}]
)
def test_a_refusal_in_words_is_one_in_either_shape(message: dict[str, Any], desk: Desk, model: Open) -> None:
    desk.usual = says(200, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert [(reply.text, reply.finish) for reply in model().generate(ask("x"))] == [("I can't", "refusal")]


def forbidden_if(*texts: str) -> Callable[[Handler, bytes], None]:
    return lambda handler, body: (FORBIDDEN_REPLY if question(body) in texts else well)(handler, body)


@pytest.mark.parametrize("width", [1, 8])
def test_a_403_beside_answers_refuses_only_its_own_question(width: int, desk: Desk, model: Open) -> None:
    desk.usual = forbidden_if("a", "c")
    replies = model(max_concurrent=width).generate(ask("a", "b", "c", "d"))
    assert [reply.finish for reply in replies] == ["refusal", "stop", "refusal", "stop"]
    assert replies[0].error == "no"
    assert len(desk.requests) == 4


def test_a_403_after_the_answers_of_an_earlier_session_refuses_its_question(desk: Desk, model: Open) -> None:
    desk.usual = forbidden_if("b")
    model().generate(ask("a"))
    assert [reply.finish for reply in model().generate(ask("a", "b"))] == ["stop", "refusal"]


def test_a_403_is_not_kept_as_the_answer(desk: Desk, model: Open) -> None:
    desk.usual = forbidden_if("b")
    model().generate(ask("a", "b"))
    desk.usual = well
    assert [reply.text for reply in model().generate(ask("a", "b"))] == ["A", "B"]


def test_a_key_that_permits_nothing_ends_the_run_soon(desk: Desk, model: Open) -> None:
    desk.usual = FORBIDDEN_REPLY
    with pytest.raises(ModelError, match=r"answered 403 \(no\); the key in OPENAI_API_KEY does not permit this"):
        model(max_concurrent=2).generate(ask(*map(str, range(50))))
    assert len(desk.requests) <= 8 + 1


def test_a_key_that_permits_nothing_any_more_ends_the_run(desk: Desk, model: Open) -> None:
    desk.plan, desk.usual = [well], FORBIDDEN_REPLY
    with pytest.raises(ModelError, match="does not permit this"):
        model().generate(ask(*map(str, range(50))))


NAMES = ("code", "type", "status", "message", "status_code", "errorCode", "detail", "base_resp")
CODES = [None, True, False, 0, -1, 7, 200, 301, 404, 599, 10**30, "", "200", "404", "x", "rate_limit", [], [503]]


@pytest.mark.parametrize("start", range(4))
def test_any_error_has_a_status_of_an_error(start: int, desk: Desk, model: Open) -> None:
    """A reply that fails, or an end of the run, but never an answer."""
    dice = random.Random(start)
    for _ in range(30):
        names = dice.sample(NAMES, k=dice.randrange(1, 4))
        desk.usual = says(200, {"error": {name: dice.choice(CODES) for name in names} | {"param": "x"}})
        with suppress(ModelError):
            (reply,) = model(max_retries=0, memo="off").generate(ask("x"))
            assert reply.finish in ("error", "refusal") and not reply.text


@pytest.mark.parametrize("piece", [":", "- ", "(", "error", "input exceed ", "context "])
def test_the_time_to_judge_a_message_does_not_grow_with_its_length(piece: str, desk: Desk, model: Open) -> None:
    desk.usual = says(200, {"error": piece * 200_000})
    began = time.monotonic()
    model(max_retries=0).generate(ask("x"))
    assert time.monotonic() - began < 3
