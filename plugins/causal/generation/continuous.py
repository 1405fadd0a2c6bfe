"""Generation by transformers' continuous batching, whose rows come and go in pages of keys and values.

It writes in a thread of its own and knows nothing of formats. Stop texts and thinking are looked for in the tokens that
it reports, and what goes on after them is called off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from figeval.types import JSON

from ...torch_models.batching import TokenBudget
from ...torch_models.loading import suppress_logging
from .row import Row

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SILENCE_SECONDS = 300  # without any token, after which the thread is taken to hang
WAIT_SECONDS = 1.0  # between two looks at whether the thread is alive
NEVER = -1  # transformers' id of a token that ends no text
LOGGER = "ContinuousBatchingLogger"  # its errors are in our record
MAX_BATCH_TOKENS = 2_048  # read at a time; torch's attention needs a mask of these by all kept tokens


@dataclass(slots=True)
class Continuous:
    """A writer of texts with transformers' continuous batching.

    Attributes:
        model: causal model without changes of scores in its generation config.
        writing: budget of the tokens whose keys and values are kept.
    """

    model: PreTrainedModel
    writing: TokenBudget
    _session: ExitStack = field(default_factory=ExitStack)
    _manager: Any = None

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield each as soon as it has ended.

        Raises:
            RuntimeError: the thread ends, hangs, or fails on a row.
        """
        manager = self._require_manager()
        waiting = {f"row {id(row)}": row for row in rows}
        try:
            for name, row in waiting.items():
                self._send(name, row)
            while waiting:
                name, tokens, is_complete = self._next()
                if name in waiting and _is_ended(waiting[name], tokens, is_complete=is_complete):
                    if not is_complete:
                        manager.cancel_request(name)
                    yield waiting.pop(name)
        finally:
            for name in waiting:
                manager.cancel_request(name)

    def _send(self, name: str, row: Row) -> None:
        looks = bool(row.end.stop) or row.thinking is not None
        final = sorted(row.end.tokens) or [NEVER]
        self._manager.add_request(
            list(row.prompt), request_id=name, max_new_tokens=row.max_tokens, streaming=looks, eos_token_id=final
        )

    def _next(self) -> tuple[str, Sequence[int], bool]:
        """Return the name of a row, its tokens so far, and whether these are all."""
        for _ in range(int(SILENCE_SECONDS / WAIT_SECONDS)):
            output = self._manager.get_result(timeout=WAIT_SECONDS)
            if output is not None:
                if output.error:
                    raise RuntimeError(output.error)
                return output.request_id, output.generated_tokens, output.is_finished()
            if not self._manager.is_running():
                raise RuntimeError("the thread of continuous batching has ended")
        raise RuntimeError(f"continuous batching has written nothing for {SILENCE_SECONDS} s")

    def _require_manager(self) -> Any:
        """Return the running manager, which is started if there is none."""
        import torch

        if self._manager is None:
            config = deepcopy(self.model.generation_config)
            config.do_sample, config.num_return_sequences, config.eos_token_id = False, 1, NEVER  # rows know their ends
            self._session.enter_context(suppress_logging(LOGGER, errors=True))
            with torch.inference_mode():
                manager = self.model.continuous_batching_context_manager(
                    generation_config=config, continuous_batching_config=self._options()
                )
                self._manager = self._session.enter_context(manager)
        return self._manager

    def _options(self) -> Any:
        from transformers.generation.configuration_utils import ContinuousBatchingConfig

        # FlashAttention is used if it is installed; transformers would download it if it could.
        flash = find_spec("flash_attn") is not None and find_spec("kernels") is None
        options = ContinuousBatchingConfig(auto_switch_to_flash=flash, max_batch_tokens=MAX_BATCH_TOKENS)
        options.num_blocks = 1 + self.writing.tokens // options.page_size
        options.max_requests_per_batch = self.writing.rows
        return options

    def close(self) -> None:
        """End the thread, and release its memory."""
        self._manager = None
        with suppress(Exception):  # of a thread that has failed before; the texts are written
            self._session.close()

    def describe(self) -> JSON:
        """Return the budget, and how rows are written."""
        return {"rows": "come and go in pages", **self.writing.describe()}


def _is_ended(row: Row, tokens: Sequence[int], *, is_complete: bool) -> bool:
    """Pass new tokens on to a row, and return whether it has ended."""
    for token in tokens[len(row.written) :]:
        if row.finish is None:
            row.take(token)
    if is_complete:
        row.finish = row.finish or "length"
    return row.finish is not None
