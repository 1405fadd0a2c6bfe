"""Thinking of local models: switched by the template, set apart by its marks, and with tokens of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from figeval import AnswerFormat, Continuation, FigevalError, Message, ModelError, Prompt, Reply, TaskError
from tests.plugins.test_causal import chatty
from tests.plugins.tiny import Workshop

CASES = json.loads((Path(__file__).parent.parent / "golden" / "thinking.json").read_text(encoding="utf-8"))
QUESTION = (Message("user", "Yes or no?"),)
SWITCH = {"default": "", "on": "on", "off": "off"}


def checkpoint(case: dict[str, Any], folder: Path, workshop: Workshop) -> str:
    """The folder of a tiny model with the template of a case."""
    added = {"additional_special_tokens": case["special"]} if "special" in case else {}
    target = chatty(workshop, folder, case["template"], **added)
    if added:
        model = AutoModelForCausalLM.from_pretrained(target)
        model.resize_token_embeddings(len(AutoTokenizer.from_pretrained(target)), mean_resizing=False)
        model.save_pretrained(target)
    return target


Opening = Callable[..., Any]


@pytest.fixture
def open_thinker(workshop: Workshop, tmp_path: Path, open_model: Any) -> Opening:
    """Return a function that opens a tiny model with the template of a case."""

    def open_case(case: dict[str, Any], reasoning: str = "") -> Any:
        folder = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        return open_model("hf", checkpoint(case, folder, workshop), apply_chat_template=True, reasoning=reasoning)

    return open_case


def script(backend: Any, texts: list[str]) -> list[int]:
    """Let the model write texts, and then nothing but its last token; return the tokens."""
    ids = [token for text in texts for token in backend.tokenizer.encode(text, add_special_tokens=False)]
    begun: dict[int, int] = {}

    def dictate(read: Any, scores: Any) -> Any:
        """The next token of the script, by how many have been written."""
        start = begun.setdefault(0, read.shape[1])
        dictated = scores.clone().fill_(-100.0)
        dictated[0, ids[min(read.shape[1] - start, len(ids) - 1)]] = 0
        return dictated

    backend.network.writer.processors = dictate
    return ids


def reply_to(backend: Any, max_tokens: int, stop: tuple[str, ...] = (), **fields: Any) -> Reply:
    (reply,) = backend.generate([Prompt(QUESTION, stop=stop, max_new_tokens=max_tokens, **fields)]).values
    return reply


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_template_is_switched(case: dict[str, Any], open_thinker: Opening) -> None:
    for name, reasoning in SWITCH.items():
        prompt = open_thinker(case, reasoning).chat(QUESTION)
        assert prompt.endswith(f"Yes or no?{case[name]}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_thinking_and_answer_are_told_apart(case: dict[str, Any], open_thinker: Opening) -> None:
    backend = open_thinker(case, "budget=40")
    ids = script(backend, case["written"])
    thought, mark, _ = (len(backend.tokenizer.encode(text, add_special_tokens=False)) for text in case["written"])
    reply = reply_to(backend, len(ids) - thought - mark)
    assert (reply.text, reply.reasoning, reply.finish) == (case["answer"], case["reasoning"], "length")
    assert reply.reasoning_tokens == thought + mark
    assert reply.answer_tokens == len(ids) - thought - mark


def test_a_model_that_opens_its_thinking_unasked_is_understood(open_thinker: Opening) -> None:
    backend = open_thinker(CASES[0])
    ids = script(backend, ["<think>\nHm.", "\n</think>", "\n\nYes"])
    reply = reply_to(backend, len(ids))
    assert (reply.text, reply.reasoning) == ("Yes", "Hm.")
    assert (reply.reasoning_tokens or 0) + (reply.answer_tokens or 0) == len(ids)
    backend = open_thinker(CASES[0])
    ids = script(backend, ["No <think> here"])
    reply = reply_to(backend, len(ids))
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == ("No <think> here", "", 0)


@pytest.mark.parametrize(("case", "opens"), [(CASES[1], True), (CASES[0], False)])
def test_options_that_are_scored_amid_thinking_are_a_warning(
    case: dict[str, Any], opens: bool, open_thinker: Opening
) -> None:
    """The default of DeepSeek-R1's template, which opens the thinking, and of Qwen3's, which does not."""
    backend = open_thinker(case)
    prompt = backend.chat(QUESTION)
    reply_to(backend, 4)
    assert not any("not as answers" in warning for warning in backend.describe()["warnings"])
    backend.loglikelihood([Continuation(prompt, "Yes"), Continuation(prompt, "No")])
    assert any("not as answers" in warning for warning in backend.describe()["warnings"]) is opens


def test_stop_texts_and_formats_hold_for_the_answer_only(open_thinker: Opening) -> None:
    backend = open_thinker(CASES[1], "budget=40")
    script(backend, ["First.\n\nSecond.", "</think>", "Yes. No."])
    reply = reply_to(backend, 12, ("\n\n", "."))
    assert (reply.text, reply.reasoning, reply.finish) == ("Yes", "First.\n\nSecond.", "stop")
    script(backend, ["Hm.", "</think>", "\n\nYes.\n\nNo."])
    reply = reply_to(backend, 16, ("\n\n",))
    assert (reply.text, reply.reasoning, reply.finish) == ("Yes.", "Hm.", "stop")
    script(backend, ["B? No.", "</think>", "B"])
    reply = reply_to(backend, 12, answer=AnswerFormat(choices=("A", "C")))
    assert reply.text.strip() in ("A", "C")
    assert (reply.reasoning, reply.finish) == ("B? No.", "stop")


def test_the_budget_is_extended_once_in_the_same_rows(open_thinker: Opening) -> None:
    backend = open_thinker(CASES[1], "budget=8")
    endless = script(backend, ["a b c d e f g h i j k l m n o p q r s t u v w"])
    assert len(endless) > 16
    reply = reply_to(backend, 4)
    assert (reply.text, reply.finish, reply.reasoning_tokens, reply.answer_tokens) == ("", "length", 16, 0)
    assert reply.reasoning.startswith("a b c d")
    ids = script(backend, ["a b c d e f", "</think>", "Yes"])
    assert len(ids) > 8
    reply = reply_to(backend, 4)
    assert reply.text.startswith("Yes")


def test_a_budget_that_leaves_no_room_and_a_model_that_never_thinks(
    workshop: Workshop, tmp_path: Path, open_model: Any, open_thinker: Opening
) -> None:
    backend = open_thinker(CASES[1], "budget=95")
    assert backend.context_length == 96
    with pytest.raises(ModelError, match="--reasoning budget=95 leaves no room for an answer"):
        reply_to(backend, 4)
    folder = chatty(workshop, tmp_path / "plain")
    with pytest.raises(ModelError, match="is not known to think before it answers: its chat template has no marks"):
        open_model("hf", folder, apply_chat_template=True, reasoning="on")
    with pytest.raises(ModelError, match="its chat template is not used; leave out --reasoning"):
        open_model("hf", folder, apply_chat_template=False, reasoning="on")
    with pytest.raises(ModelError, match="give either --reasoning or"):
        open_model("hf", folder, apply_chat_template=True, reasoning="off", enable_thinking=False)
    assert open_model("hf", folder, apply_chat_template=True, reasoning="off").chat(QUESTION).endswith("[assistant]")


HOSTILE_TEMPLATES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}<think>",
    "{% for %}<think>",
    "{% for _ in range(10**9) %}{% endfor %}<think>",
    "{{ raise_exception('\x1b[31m<think>\nno') }}",
    "{{ 1 + '<think>' }}",
]


@pytest.mark.parametrize("template", HOSTILE_TEMPLATES)
def test_a_hostile_template_is_one_line(template: str, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    backend = open_model("hf", chatty(workshop, tmp_path / "model", template), apply_chat_template=True, reasoning="on")
    with pytest.raises(FigevalError) as caught:
        backend.chat(QUESTION)
    assert isinstance(caught.value, TaskError)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
