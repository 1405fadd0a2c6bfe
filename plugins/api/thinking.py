"""Thinking before an answer: how families of servers are asked for it, and how thoughts are told from the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from figeval.answers.reply_text import split_reasoning
from figeval.reasoning import Reasoning
from figeval.types import JSON, Reply


def by_effort(reasoning: Reasoning) -> JSON:
    """Return the field of OpenAI, which knows no budget; it is a part of the limit of the answer."""
    return {"reasoning_effort": "medium" if reasoning.on else "none"}


def by_template(reasoning: Reasoning) -> JSON:
    """Return the variables that chat templates read (Qwen, GLM; DeepSeek, Granite), and the budget of vLLM."""
    switch = {"enable_thinking": reasoning.on, "thinking": reasoning.on}
    budget = {} if reasoning.budget is None else {"thinking_token_budget": reasoning.budget}
    return {"chat_template_kwargs": switch, **budget}


def by_openrouter(reasoning: Reasoning) -> JSON:
    if not reasoning.on:
        return {"reasoning": {"effort": "none"}}
    return {"reasoning": {"enabled": True} if reasoning.budget is None else {"max_tokens": reasoning.budget}}


def by_qwen(reasoning: Reasoning) -> JSON:
    """Return the fields of Alibaba's own API."""
    budget = {} if reasoning.budget is None else {"thinking_budget": reasoning.budget}
    return {"enable_thinking": reasoning.on, **budget}


STYLES: Mapping[str, Callable[[Reasoning], JSON]] = {
    "effort": by_effort,
    "template": by_template,
    "openrouter": by_openrouter,
    "qwen": by_qwen,
}
HOSTS = {"api.openai.com": "effort", "openrouter.ai": "openrouter", "aliyuncs.com": "qwen"}
"""Style by the end of a host; servers elsewhere fill in a chat template."""


def style_at(url: str) -> str:
    """Return the style of the server at an address."""
    host = urlsplit(url).hostname or ""
    return next((style for end, style in HOSTS.items() if host == end or host.endswith(f".{end}")), "template")


def separate_thoughts(reply: Reply, reasoning: Reasoning | None) -> Reply:
    """Return a reply whose thoughts are apart from its answer, if the user gave --reasoning.

    A server that does not separate them leaves their marks in the text. If the opening mark was part of the prompt and
    the text was cut off before the closing one, it has no mark at all; that is only possible while the model thinks,
    since the limit has room for a whole answer after its thoughts.
    """
    if reasoning is None:
        return reply
    thoughts, text = split_reasoning(reply.text)
    if thoughts or text != reply.text:
        all_thoughts = "\n\n".join(filter(None, (reply.reasoning, thoughts)))
        return replace(reply, text=text.lstrip(), reasoning=all_thoughts)
    if reply.reasoning.strip():  # blank lines that only part the answer from it are no stop text of the answer
        return replace(reply, text=text.lstrip())
    if reasoning.on and reply.finish == "length" and not reply.reasoning and not reply.reasoning_tokens:
        return replace(reply, text="", reasoning=reply.text, answer_tokens=0, reasoning_tokens=reply.answer_tokens)
    return reply


def is_cut_off(reply: Reply) -> bool:
    """Return whether a reply reached its limit before it began to answer."""
    return reply.finish == "length" and not reply.text.strip()


def has_thoughts(reply: Reply) -> bool:
    """Return whether there is a sign that the model thought."""
    return bool(reply.reasoning.strip() or reply.reasoning_tokens)
