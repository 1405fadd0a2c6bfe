"""Conversations rendered by a tokenizer's chat template, for all models that bring one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from figeval.errors import TaskError
from figeval.types import Message

from ..encoders.loading import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def rendered(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], model: str, thinking: bool | None = None
) -> str:
    """Return the turns rendered by the chat template, up to the beginning of the answer.

    Args:
        tokenizer: tokenizer with a chat template.
        messages: turns of the conversation.
        model: name of the model, for the error.
        thinking: passed to templates that can switch thinking on and off, unless it is None.

    Raises:
        TaskError: the template rejects these turns (some have no system role).
    """
    from jinja2 import TemplateError

    options = {} if thinking is None else {"enable_thinking": thinking}
    turns = [{"role": message.role, "content": message.content.strip()} for message in messages]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **options)
    except TemplateError as error:
        raise TaskError(
            f"the chat template of {model!r} refuses these turns ({one_line(error)}); "
            "leave out --system_instruction or --num_fewshot, or use --no_chat_template"
        ) from error
    return str(text)
