"""From conversations to rows that a model continues: chat template, thinking, room for the answer.

`causal` and `vllm` share this, so that both read the same tokens and know the same ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError, TaskError
from figeval.reasoning import Reasoning
from figeval.types import JSON, Message, Prompt

from ..torch_models.faults import one_line
from .generation.row import End, Row, Thinking
from .generation.thinking import Marks, marks_of, switch_of, template_of
from .lm_eval_requests import CausalTokenizer
from .option_tokens import OptionEncoder

if TYPE_CHECKING:
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerBase

AMID_THINKING = (
    "the chat template opens the model's thinking, so options were scored as the first words of it and not as answers; "
    "use a --route on which the model writes, or --model_args enable_thinking=false if its template knows that"
)
TEMPLATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of its code
LIMITS = ("n_positions", "max_position_embeddings", "n_ctx")  # names of a model's limit in configs, as in lm-eval


@dataclass
class Prompting:
    """Maker of the prompts of a model: it renders conversations, and turns requests into rows to be continued.

    Attributes:
        tokenizer: the model's tokenizer.
        model: name of the model, for errors.
        chats: whether conversations are rendered by the chat template.
        enable_thinking: passed to chat templates that can switch thinking on and off; None leaves it to them.
        reasoning: whether and how long the model thinks (--reasoning); None for what its template does.
        first: tokens of the first prompt, because unexpected ones at its beginning cost points of accuracy.
        scored: a prompt after which options were scored; "" if there was none.
        options: encoder of options after their prompts.
    """

    tokenizer: PreTrainedTokenizerBase
    model: str
    chats: bool
    enable_thinking: bool | None = None
    reasoning: Reasoning | None = None
    first: list[int] | None = None
    scored: str = ""
    options: OptionEncoder = field(default_factory=OptionEncoder)

    @cached_property
    def marks(self) -> Marks | None:
        """The marks of the model's thinking; None if it has none, or no chat template in use."""
        return marks_of(self.tokenizer, template_of(self.tokenizer)) if self.chats else None

    def check(self) -> None:
        """Raise `ModelError` if --reasoning contradicts an option, or the model is not known to think."""
        if self.reasoning is None:
            return
        if self.enable_thinking is not None:
            raise ModelError("give either --reasoning or --model_args enable_thinking=…, not both")
        if self.reasoning.on and self.marks is None:
            reason = "its chat template has no marks for it" if self.chats else "its chat template is not used"
            raise ModelError(f"{self.model!r} is not known to think before it answers: {reason}; leave out --reasoning")

    def render(self, messages: Sequence[Message]) -> str:
        """Return the turns rendered by the chat template, up to the beginning of the answer, or of the thinking.

        Raises:
            TaskError: the template rejects these turns (some have no system role).
        """
        reasoning = self.reasoning
        options: JSON = {"enable_thinking": self.enable_thinking}
        if reasoning is not None:
            options = dict(switch_of(template_of(self.tokenizer), on=reasoning.on))
        text = self._fill_template(messages, {name: value for name, value in options.items() if value is not None})
        if reasoning is None or self.marks is None:
            return text
        return self.marks.switch(text, on=reasoning.on, by_template=bool(options))

    def _fill_template(self, messages: Sequence[Message], variables: JSON) -> str:
        """Return the turns as the chat template writes them, with its variables. Raises what `render` raises."""
        from jinja2 import TemplateError

        turns = [{"role": message.role, "content": message.content.strip()} for message in messages]
        try:
            text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **variables)
        except (TemplateError, *TEMPLATE_ERRORS) as error:
            has_system = any(message.role == "system" for message in messages)
            cure = "add --system_as_user, leave out --system_instruction or" if has_system else "leave out"
            raise TaskError(
                f"the chat template of {self.model!r} refuses these turns ({one_line(error)}); "
                f"{cure} --num_fewshot, or use --no_chat_template"
            ) from error
        if any(turn["role"] == "system" and turn["content"] not in text for turn in turns):
            raise TaskError(
                f"the chat template of {self.model!r} leaves out the system message; add --system_as_user, or leave "
                "out --system_instruction"
            )
        return str(text)

    def text(self, request: Prompt) -> str:
        """Return a prompt as one text. Raises what `render` raises."""
        return self.render(request.messages) if self.chats else request.plain

    def answer_tokens(self, request: Prompt) -> int:
        """Return how many tokens the answer to a prompt may take, with the budget of --reasoning."""
        return request.max_new_tokens + (0 if self.reasoning is None else self.reasoning.tokens)

    def rows(
        self, requests: Sequence[Prompt], lm: HFLM | CausalTokenizer, limit: int, final: frozenset[int]
    ) -> tuple[list[Row], set[int]]:
        """Return a row per request, and the indexes of those whose prompts are too long and lose their beginning.

        Args:
            requests: what to answer.
            lm: tokenizer with lm-eval's rules.
            limit: most tokens that the model takes: an encoder-decoder in a prompt, others in prompt and answer.
            final: ids of the tokens that end a text.

        Raises:
            TaskError: `max_new_tokens` leaves no room for a prompt.
            ModelError: the budget of --reasoning leaves none.
        """
        reasoning = self.reasoning
        thinking_tokens = reasoning.tokens if reasoning is not None else 0
        texts = list(map(self.text, requests))
        room = [limit - self.answer_tokens(request) * (lm.backend == "causal") for request in requests]
        if min(room) <= 0:
            if reasoning is not None:
                reasoning.check_room(max(request.max_new_tokens for request in requests), limit)
            raise TaskError(f"--max_new_tokens leaves no room for a prompt: the model takes {limit} tokens")
        prompts = [lm.tok_encode(text) or [lm.prefix_token_id] for text in texts]
        self.note(prompts[0])
        rows = []
        for text, ids, prompt_tokens, request in zip(texts, prompts, room, requests, strict=True):
            thinking = self._thinking(
                text, request, thinking_tokens + max(0, min(thinking_tokens, prompt_tokens - len(ids)))
            )
            end = End(lm.tokenizer, final, tuple(filter(None, request.stop)))
            rows.append(Row(ids[-prompt_tokens:], request.max_new_tokens, end, thinking))
        return rows, {index for index, ids in enumerate(prompts) if len(ids) > room[index]}

    def _thinking(self, prompt: str, request: Prompt, max_tokens: int) -> Thinking | None:
        """Return the thinking of a row, of so many tokens if it has tokens of its own."""
        reasoning, marks = self.reasoning, self.marks
        if marks is None or (reasoning is not None and not reasoning.on):
            return None
        is_open = marks.opened_in(prompt)
        if request.answer is not None and not is_open:  # what is held to a format is an answer from the first token on
            return None
        return Thinking(marks, None if reasoning is None else max_tokens, is_open)

    def note(self, ids: Sequence[int], scored: str | None = None) -> None:
        """Record a prompt if it is the first, and the text of one after which options are `scored`."""
        if self.first is None:
            self.first = list(ids)
        if scored is not None:
            self.scored = scored

    def opening(self) -> JSON:
        """Return what a record says about the first prompt, and warnings about options; nothing if there was none."""
        if self.first is None:
            return {}
        warnings = opening_warnings(self.tokenizer, self.first)
        if self.scored and self.marks is not None and self.marks.opened_in(self.scored):
            warnings.append(AMID_THINKING)
        warnings += self.options.warnings()
        return {"first_prompt_ids": self.first, "chat_template": self.chats, "warnings": warnings}


def context_length(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens that a causal model reads and writes together; None if its config does not say it."""
    limits = (config.get(name) for name in LIMITS)
    return next((limit for limit in limits if isinstance(limit, int)), None)


def final_tokens(eos_ids: int | Sequence[int] | None, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of all tokens that end a text: the `eos_token_id` of a generation config, and the tokenizer's."""
    ids = [eos_ids] if isinstance(eos_ids, int) or eos_ids is None else eos_ids
    return frozenset(token for token in (*ids, tokenizer.eos_token_id) if token is not None)


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
