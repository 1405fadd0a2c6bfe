"""Conversations rendered by a tokenizer's chat template, for all models that bring one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from figeval.errors import TaskError
from figeval.types import Message

from ..encoders.loading import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPLATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of its code


def rendered(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], model: str, **options: object) -> str:
    """Return the turns rendered by the chat template, up to the beginning of the answer.

    Args:
        tokenizer: tokenizer with a chat template.
        messages: turns of the conversation.
        model: name of the model, for the error.
        options: variables of the template, such as `enable_thinking`; those that are None are left to it.

    Raises:
        TaskError: the template rejects these turns (some have no system role).
    """
    from jinja2 import TemplateError

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    turns = [{"role": message.role, "content": message.content.strip()} for message in messages]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **given)
    except (TemplateError, *TEMPLATE_ERRORS) as error:
        raise TaskError(
            f"the chat template of {model!r} refuses these turns ({one_line(error)}); "
            "leave out --system_instruction or --num_fewshot, or use --no_chat_template"
        ) from error
    return str(text)
