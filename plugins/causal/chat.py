"""The beginning of prompts: conversations in a chat template, and what a record says of the first prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from figeval.errors import TaskError
from figeval.types import JSON, Message

from ..torch_models.loading import one_line
from .generation.thinking import marks_of, template_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AMID_THINKING = (
    "the chat template opens the model's thinking, so options were scored as the first words of it and not as answers; "
    "use a --route on which the model writes, or --model_args enable_thinking=false if its template knows that"
)
TEMPLATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of its code


def render_chat(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], model: str, **options: object) -> str:
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

    variables: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    turns = [{"role": message.role, "content": message.content.strip()} for message in messages]
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **variables)
    except (TemplateError, *TEMPLATE_ERRORS) as error:
        raise TaskError(
            f"the chat template of {model!r} refuses these turns ({one_line(error)}); "
            "leave out --system_instruction or --num_fewshot, or use --no_chat_template"
        ) from error
    return str(text)


def opening(
    tokenizer: PreTrainedTokenizerBase,
    ids: list[int] | None,
    of_options: Sequence[str] = (),
    *,
    chat: bool,
    scored: str = "",
) -> JSON:
    """Return what a record says about the first prompt of a model; nothing if there was none.

    Args:
        tokenizer: tokenizer of the model.
        ids: tokens of the prompt, or None.
        of_options: warnings about the options that were scored.
        chat: whether prompts are rendered by the chat template.
        scored: prompt after which options were scored, or "".
    """
    if ids is None:
        return {}
    warnings = opening_warnings(tokenizer, ids)
    marks = marks_of(tokenizer, template_of(tokenizer)) if chat and scored else None
    if marks is not None and marks.opened_in(scored):
        warnings.append(AMID_THINKING)
    warnings += of_options
    return {"first_prompt_ids": ids, "chat_template": chat, "warnings": warnings}


def opening_warnings(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Return warnings about the beginning of a prompt; a token that also ends texts (GPT-2's) is not expected there."""
    bos = tokenizer.bos_token_id
    if bos is None or bos == tokenizer.eos_token_id:
        return []
    count = next((index for index, token in enumerate(ids) if token != bos), len(ids))
    if count == 1:
        return []
    cure = "add_bos_token=true" if count == 0 else "add_bos_token=false"
    return [f"prompts begin with {count} {tokenizer.bos_token!r} tokens instead of 1; try --model_args {cure}"]
