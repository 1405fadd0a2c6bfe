"""Thinking and formats of answers at three families of servers, each imitated with its rules, and at bad ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import AnswerFormat, Message, ModelError, Prompt, strip_reasoning
from tests.plugins.servers import EXHAUSTED, Desk, Handler, openai_answer, question

LETTERS = AnswerFormat(("A", "B"))
QUOTE = AnswerFormat.of_object({"quote": {"type": "string"}})
LETTER = {"type": "string", "enum": ["A", "B"]}
OBJECT = {"type": "object", "properties": {"answer": LETTER}, "required": ["answer"], "additionalProperties": False}
SCHEMA_FIELDS = {"name": "answer", "strict": True}
USAGE = {"prompt_tokens": 1, "completion_tokens": 9}
THOUGHT = 300  # tokens that every server here needs for thinking
Open = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_keys")


def prompts_of(answer: AnswerFormat | None = None, stop: tuple[str, ...] = ()) -> list[Prompt]:
    return [Prompt((Message("user", "A or B?"),), stop, 16, answer)]


def refuse(handler: Handler, reason: str) -> None:
    handler.send(400, json.dumps({"error": {"message": reason, "type": "invalid_request_error"}}).encode())


def chat(handler: Handler, reason: str, used: dict[str, Any], **message: Any) -> None:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": reason}
    handler.send(200, json.dumps({"model": "served", "choices": [choice], "usage": used}).encode())


# ---- three families --------------------------------------------------------------------------------------------------


def like_vllm(handler: Handler, body: bytes) -> None:
    """The template decides whether it thinks; thoughts come apart from the text, and are not counted apart."""
    request = json.loads(body)
    thinks = request.get("chat_template_kwargs", {}).get("enable_thinking", True)
    structure = request.get("structured_outputs", {})
    text = (
        structure["choice"][1]
        if "choice" in structure
        else '{"quote": "x"}'
        if "json" in structure
        else "The answer is B."
    )
    if "response_format" in request:
        schema = request["response_format"]["json_schema"]["schema"]
        text = json.dumps(
            {name: property_schema.get("enum", ["x"])[-1] for name, property_schema in schema["properties"].items()}
        )
    if not thinks:
        return chat(handler, "stop", {"prompt_tokens": 9, "completion_tokens": 4}, content=text, reasoning=None)
    enough = request["max_tokens"] >= THOUGHT + 4
    used = {"prompt_tokens": 9, "completion_tokens": THOUGHT + 4 if enough else request["max_tokens"]}
    reason, content = ("stop", text) if enough else ("length", None)
    return chat(handler, reason, used, content=content, reasoning="A or B? Stop! B.")


def like_openai(handler: Handler, body: bytes) -> None:
    """Thoughts are hidden but counted; a model that thinks takes neither temperature nor stop texts."""
    request = json.loads(body)
    thinks = request.get("reasoning_effort", "medium") != "none"
    if thinks and ("temperature" in request or "stop" in request):
        return refuse(handler, "Unsupported parameter")
    text = "The answer is B."
    if "response_format" in request:
        form = request["response_format"]
        if form["type"] != "json_schema" or form["json_schema"]["schema"]["type"] != "object":
            return refuse(handler, "schema must be a JSON Schema of 'type: \"object\"'")
        text = json.dumps({"answer": "B"})
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    enough = limit >= THOUGHT + 4 or not thinks
    thought = min(THOUGHT, limit) if thinks else 0
    used = {
        "prompt_tokens": 9,
        "completion_tokens": thought + 4 * enough,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    return chat(handler, "stop" if enough else "length", used, content=text if enough else "")


def like_anthropic(handler: Handler, body: bytes) -> None:
    """Thoughts are blocks; budgets have a least size and are less than the limit; temperature is 1 or absent."""
    request = json.loads(body)
    thinking = request.get("thinking", {"type": "disabled"})
    thinks = thinking["type"] != "disabled"
    budget = thinking.get("budget_tokens", request["max_tokens"] - 1)
    if thinks and request.get("temperature", 1) != 1:
        return refuse(handler, "temperature may only be set to 1 when thinking is enabled")
    if thinks and not 1024 <= budget < request["max_tokens"]:
        return refuse(handler, "max_tokens must be greater than thinking.budget_tokens")
    if thinks and "tool_choice" in request:
        return refuse(handler, "Thinking may not be enabled when tool_choice forces tool use.")
    text: dict[str, Any] = {"type": "text", "text": "The answer is B."}
    if "output_config" in request:
        assert "maxItems" not in json.dumps(request["output_config"])
        text["text"] = json.dumps({"answer": "B"})
    if "tool_choice" in request:
        text = {"type": "tool_use", "id": "1", "name": request["tool_choice"]["name"], "input": {"answer": "B"}}
    blocks = [{"type": "thinking", "thinking": "A or B?", "signature": "s"}] if thinks else []
    used = {"input_tokens": 9, "output_tokens": 304 if thinks else 4}
    answer = {"model": "served", "content": [*blocks, text], "stop_reason": "end_turn", "usage": used}
    return handler.send(200, json.dumps(answer).encode())


OPENAI = {"reasoning_style": "effort", "temperature": None}  # what its address would decide, and its own models need
FAMILIES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "vllm": ("openai", like_vllm, {}),
    "openai": ("openai", like_openai, OPENAI),
    "anthropic": ("anthropic", like_anthropic, {}),
}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, desk: Desk, open_model: Open) -> Open:
    """`family(reasoning=…)`: a model at a server of one of the families."""
    provider, desk.usual, options = FAMILIES[request.param]
    return lambda **extra: open_model(provider, "m", **{"base_url": desk.url, **options, **extra})


def test_thoughts_are_apart_from_the_answer(family: Open, desk: Desk) -> None:
    backend = family(reasoning="budget=2000")
    (reply,) = backend.generate(prompts_of(stop=("Stop!",)))
    assert (reply.text, reply.finish) == ("The answer is B.", "stop")
    body = desk.requests[0]
    assert body.get("max_tokens", body.get("max_completion_tokens")) == 16 + 2000
    assert not {"stop", "stop_sequences"} & body.keys(), "it would fire within thoughts"
    assert (reply.answer_tokens, reply.reasoning_tokens) in [(None, None), (4, THOUGHT)], "unknown, or what was counted"
    assert "warnings" not in backend.describe()


def test_a_model_can_be_asked_not_to_think(family: Open, desk: Desk) -> None:
    backend = family(reasoning="off")
    (reply,) = backend.generate(prompts_of())
    assert (reply.text, reply.reasoning, reply.answer_tokens, reply.reasoning_tokens) == ("The answer is B.", "", 4, 0)
    assert desk.requests[0].get("max_tokens", desk.requests[0].get("max_completion_tokens")) == 16
    assert "warnings" not in backend.describe()


@pytest.mark.parametrize("reasoning", [None, "on", "off"])
def test_a_letter_comes_without_its_envelope(family: Open, reasoning: str | None, desk: Desk) -> None:
    thinking = {"reasoning_tokens": 900} if reasoning is None else {"reasoning": reasoning}
    backend = family(**thinking)
    (reply,) = backend.generate(prompts_of(LETTERS))
    assert reply.text == "B"
    assert "warnings" not in backend.describe()
    assert len(desk.requests) == 1


def test_without_the_flags_nothing_of_this_is_sent(family: Open, desk: Desk) -> None:
    family().generate(prompts_of())
    assert desk.requests[0].keys() <= {"model", "messages", "max_tokens", "temperature"}


# ---- what each family is asked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "reasoning", "fields"),
    [
        ("effort", "on", {"reasoning_effort": "medium"}),
        ("effort", "off", {"reasoning_effort": "none"}),
        ("template", "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        ("template", "budget=900", {"thinking_token_budget": 900}),
        ("openrouter", "on", {"reasoning": {"enabled": True}}),
        ("openrouter", "budget=900", {"reasoning": {"max_tokens": 900}}),
        ("openrouter", "off", {"reasoning": {"effort": "none"}}),
        ("qwen", "budget=900", {"enable_thinking": True, "thinking_budget": 900}),
        ("", "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    ],
)
def test_how_thinking_is_asked_for(
    style: str, reasoning: str, fields: dict[str, Any], desk: Desk, openai: Open
) -> None:
    desk.usual = like_vllm
    openai("m", base_url=desk.url, reasoning_style=style, reasoning=reasoning).generate(prompts_of())
    assert desk.requests[0].items() >= fields.items()


def test_the_address_decides_how_thinking_is_asked_for(
    bodies_sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, openai: Open
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-at-all")
    hosts = ("openrouter.ai/api", "dashscope-intl.aliyuncs.com", "notopenrouter.ai")
    for url in ("", *(f"https://{host}/v1" for host in hosts)):
        openai("m", base_url=url, reasoning="on").generate(prompts_of())
    assert [*map(sorted, bodies_sent)] == [
        ["max_completion_tokens", "messages", "model", "reasoning_effort"],
        ["max_tokens", "messages", "model", "reasoning", "temperature"],
        ["enable_thinking", "max_tokens", "messages", "model", "temperature"],
        ["chat_template_kwargs", "max_tokens", "messages", "model", "temperature"],
    ]


@pytest.mark.parametrize(
    ("way", "answer", "fields", "around"),
    [
        ("structured_outputs", LETTERS, {"structured_outputs": {"choice": ["A", "B"]}}, 0),
        ("structured_outputs", QUOTE, {"structured_outputs": {"json": QUOTE.json_schema}}, 0),
        ("guided", LETTERS, {"guided_choice": ["A", "B"]}, 0),
        ("guided", QUOTE, {"guided_json": QUOTE.json_schema}, 0),
        ("json_object", QUOTE, {"response_format": {"type": "json_object", "schema": QUOTE.json_schema}}, 0),
        ("json_object", LETTERS, {"response_format": {"type": "json_object", "schema": OBJECT}}, 32),
        (
            "",
            LETTERS,
            {"response_format": {"type": "json_schema", "json_schema": {**SCHEMA_FIELDS, "schema": OBJECT}}},
            32,
        ),
    ],
)
def test_how_a_format_is_asked_for(
    way: str, answer: AnswerFormat, fields: dict[str, Any], around: int, desk: Desk, openai: Open
) -> None:
    desk.usual = lambda handler, _: chat(handler, "stop", {}, content="A")
    model = openai("m", base_url=desk.url, structured=way)
    model.generate(prompts_of())
    model.generate(prompts_of(answer))
    free, held = desk.requests
    assert held.items() >= fields.items()
    assert held["max_tokens"] - free["max_tokens"] == around


def test_anthropic_is_asked_as_its_models_need(desk: Desk, anthropic: Open) -> None:
    desk.usual = like_anthropic
    for reasoning in ("on", "budget=1500"):
        anthropic("m", base_url=desk.url, reasoning=reasoning).generate(prompts_of())
    (reply,) = anthropic("m", base_url=desk.url, structured="tool").generate(prompts_of(LETTERS))
    assert [body.get("thinking") for body in desk.requests] == [
        {"type": "adaptive"},
        {"type": "enabled", "budget_tokens": 1500},
        None,
    ]
    assert reply.text == "B"


# ---- a second attempt ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vllm", "openai"])
def test_an_answer_that_was_cut_off_while_thinking_is_asked_for_once_more(name: str, desk: Desk, openai: Open) -> None:
    _, desk.usual, options = FAMILIES[name]
    settings = {"base_url": desk.url, **options, "input_price": 1, "output_price": 1}
    backend = openai("m", **settings, reasoning="budget=200")
    (reply,) = backend.generate(prompts_of())
    assert (reply.text, reply.finish) == ("The answer is B.", "stop")
    limits = [body.get("max_tokens", body.get("max_completion_tokens")) for body in desk.requests]
    assert limits == [16 + 200, 16 + 400]
    description = backend.describe()
    assert description["asked_again_with_more_room"] == 1
    assert description["tokens_out"] == 216 + THOUGHT + 4, "both attempts are paid for"
    again = openai("m", **settings, reasoning="budget=200")
    assert again.generate(prompts_of()) == [reply]
    assert len(desk.requests) == 2, "both are remembered"


def test_after_the_second_attempt_an_answer_is_truncated(desk: Desk, openai: Open) -> None:
    desk.usual = like_vllm
    (reply,) = openai("m", base_url=desk.url, reasoning="budget=100").generate(prompts_of())
    assert (reply.text, reply.finish, len(desk.requests)) == ("", "length", 2)


def test_a_limit_that_the_server_refuses_leaves_the_answer_truncated(desk: Desk, openai: Open) -> None:
    desk.usual = lambda handler, body: (
        refuse(handler, "maximum context length is 300 tokens") if b":416," in body else like_vllm(handler, body)
    )
    (reply,) = openai("m", base_url=desk.url, reasoning="budget=200").generate(prompts_of())
    assert (reply.text, reply.finish, len(desk.requests)) == ("", "length", 2)


def test_a_budget_of_money_covers_the_second_attempt(desk: Desk, openai: Open) -> None:
    desk.usual = like_vllm
    options = {"base_url": desk.url, "reasoning": "budget=200", "account": "a"}
    with pytest.raises(ModelError, match=EXHAUSTED):
        openai("m", **options, max_tokens=400).generate(prompts_of())
    assert len(desk.requests) == 1, "the second attempt would cost more than is left"
    (reply,) = openai("m", **options, max_tokens=4000).generate(prompts_of())
    assert (reply.text, len(desk.requests)) == ("The answer is B.", 2), "the first one is not paid for twice"


def test_a_limit_of_the_answer_is_not_asked_for_again(desk: Desk, openai: Open) -> None:
    desk.usual = lambda handler, _: chat(handler, "length", {}, content="B, because", reasoning="B.")
    (reply,) = openai("m", base_url=desk.url, reasoning="on").generate(prompts_of())
    assert (reply.text, reply.finish, len(desk.requests)) == ("B, because", "length", 1)


# ---- bad servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason", "text", "thoughts"),
    [
        ("<think>A? Stop! No.</think>\n\nB", "stop", "B", "A? Stop! No."),
        ("A? No.</think>B", "stop", "B", "A? No."),
        ("<think>\n\n</think>\n\nB", "stop", "B", ""),
        ("[THINK]A?[/THINK]B", "stop", "B", "A?"),
        ("B", "stop", "B", ""),
        ("<think>on and on", "length", "", "on and on"),
        ("on and on without a mark", "length", "", "on and on without a mark"),
    ],
)
def test_thoughts_within_the_text_are_taken_out(
    content: str, reason: str, text: str, thoughts: str, desk: Desk, openai: Open
) -> None:
    desk.usual = lambda handler, _: chat(
        handler,
        reason,
        {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": None},
        content=content,
    )
    (reply,) = openai("m", base_url=desk.url, reasoning="on").generate(prompts_of(stop=("Stop!",)))
    assert (reply.text, reply.reasoning) == (text, thoughts)


def test_a_blank_line_after_separate_thoughts_is_no_stop_text(desk: Desk, openai: Open) -> None:
    desk.usual = lambda handler, _: chat(handler, "stop", {}, content="\n\nB\n\nSo.", reasoning_content="A? No.")
    backend = openai("m", base_url=desk.url, reasoning="on")
    (reply,) = backend.generate(prompts_of(stop=("\n\n",)))
    assert (reply.text, reply.reasoning) == ("B", "A? No.")


def test_a_server_that_ignores_the_flags_is_found_out(desk: Desk, openai: Open) -> None:
    desk.usual = lambda handler, _: chat(handler, "stop", USAGE, content="Well, B")
    backend = openai("m", base_url=desk.url, reasoning="on")
    (reply,) = backend.generate(prompts_of(LETTERS))
    assert reply.text == "Well, B", "the extractor may still read it"
    held, thinks = backend.describe()["warnings"]
    assert held.startswith("1 of 1 answers do not keep to the format of --constrain;")
    assert thinks.startswith("--reasoning on: none of 1 answers shows a sign of reasoning;")
    silent = openai("m", base_url=desk.url, reasoning="off")
    desk.usual = lambda handler, _: chat(handler, "stop", USAGE, content="B", reasoning="Hm.")
    silent.generate(prompts_of())
    (warned,) = silent.describe()["warnings"]
    assert warned == "--reasoning off: the model reasoned all the same before 1 of 1 answers"


@pytest.mark.parametrize(
    "details", [{"reasoning_tokens": -1}, {"reasoning_tokens": "3"}, {"reasoning_tokens": 99}, 3, []]
)
def test_impossible_counts_of_thoughts_are_unknown(details: Any, desk: Desk, openai: Open) -> None:
    used = {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": details}
    desk.usual = lambda handler, _: chat(handler, "stop", used, content="B", reasoning="Hm.")
    (reply,) = openai("m", base_url=desk.url).generate(prompts_of())
    assert (reply.answer_tokens, reply.reasoning_tokens) == (None, None)


@pytest.mark.parametrize(
    ("provider", "options", "words"),
    [
        ("anthropic", {"reasoning": "budget=1000"}, "smallest budget is 1,024 tokens"),
        ("anthropic", {"reasoning": "on", "structured": "tool"}, "cannot be made to call a tool"),
        ("anthropic", {"reasoning_style": "effort"}, "reasoning_style=effort is not one of"),
        ("openai", {"structured": "grammar"}, "structured=grammar is not one of response_format"),
        ("openai", {"reasoning": "budget=9", "reasoning_tokens": 8}, "are the same; give only one"),
        ("openai", {"reasoning": "off", "reasoning_effort": "high"}, "contradict each other"),
    ],
)
def test_options_that_do_not_go_together(
    provider: str, options: dict[str, Any], words: str, desk: Desk, open_model: Open
) -> None:
    with pytest.raises(ModelError, match=words):
        open_model(provider, "m", base_url=desk.url, **options)


def test_a_server_that_lists_its_context_tells_how_much_room_there_is(desk: Desk, openai: Open) -> None:
    desk.models = {"data": [{"id": "m", "max_model_len": 4096}]}
    assert openai("m", base_url=desk.url).context_length == 4096
    desk.models = {"data": [{"id": "m", "max_model_len": -5}]}
    assert openai("m", base_url=desk.url).context_length is None
    desk.models = None
    assert openai("m", base_url=desk.url).context_length is None


def test_a_budget_that_leaves_no_room_is_refused_before_anything_is_asked(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.models = {"data": [{"id": "m", "max_model_len": 2048}]}
    with pytest.raises(
        ModelError, match="--reasoning budget=2000 leaves no room for an answer: 2,000 tokens of thinking"
    ):
        figeval.run("mini_pairs", "openai:m", model_args={"base_url": desk.url}, reasoning="budget=2000")
    assert not desk.requests


def test_splitting_loses_nothing_but_marks(desk: Desk, openai: Open) -> None:
    dice = random.Random(0)
    pieces = ("<think>", "</think>", "[THINK]", "[/THINK]", "<", ">", "/", "think", "a", "b", " ", "\n")
    texts = ["".join(dice.choices(pieces, k=dice.randrange(12))) for _ in range(200)]
    desk.usual = lambda handler, body: handler.send(200, openai_answer(texts[int(question(body))]))
    prompts = [Prompt((Message("user", str(number)),), (), 16) for number in range(len(texts))]
    replies = openai("m", base_url=desk.url, reasoning="on").generate(prompts)
    assert [reply.text.lstrip() for reply in replies] == [strip_reasoning(text).lstrip() for text in texts]
    for text, reply in zip(texts, replies, strict=True):
        assert len(reply.reasoning) + len(reply.text) <= len(text) + 2 * text.count("<") + 2 * text.count("[")
