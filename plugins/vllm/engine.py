"""vLLM's offline engine: loading with one-line errors, and requests whose answers come back as they finish."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.errors import ModelError
from figeval.io.observer import report_loading

from ..torch_models.faults import load_errors, one_line
from ..torch_models.loading import suppress_logging

if TYPE_CHECKING:
    from vllm import LLM, PoolingParams, RequestOutput, SamplingParams

    Request: TypeAlias = tuple[Sequence[int], SamplingParams | PoolingParams]  # token ids of a prompt, what is wanted

REASON = re.compile(r"(?:Value error|Assertion failed), (?P<why>.*?)(?: \[type=| For further information|$)", re.DOTALL)
QUIET_ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "ERROR"}  # vLLM's processes inherit it; a value that the user has set stays


@dataclass(slots=True)
class VllmEngine:
    """A loaded model of vLLM.

    Attributes:
        llm: engine.
        limit: most tokens of a prompt and its answer together.
    """

    llm: LLM
    limit: int

    @classmethod
    def load(cls, model: str, options: dict[str, Any]) -> VllmEngine:
        """Load the model in `model`, a folder, with options of vLLM's `LLM`.

        Raises:
            ModelError: vLLM cannot load it, e.g. since its config forbids the options or memory does not suffice.
        """
        report_loading()
        for name, value in QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            with suppress_logging("vllm"):
                from vllm import LLM

                llm = LLM(model, use_tqdm_on_load=False, **options)
        except load_errors() as error:
            raise ModelError(f"vLLM cannot load {model!r}: {reason(error)}") from error
        return cls(llm, int(llm.model_config.max_model_len))

    def stream_outputs(
        self, requests: Sequence[Request], following: Callable[[int, RequestOutput], Request | None] | None = None
    ) -> Iterator[list[tuple[int, RequestOutput]]]:
        """Yield the finished outputs with the indexes of their requests, after each step of the engine that has some.

        If the caller stops early, the others are taken back.

        Args:
            requests: token ids of prompts, and what is wanted of them.
            following: function of an index and a finished output that returns the request to make next in its place,
                or None if the output is the last one of its index; None if all are.
        """
        engine, waiting, names = self.llm.llm_engine, dict[str, int](), map(str, count())

        def send(index: int, request: Request) -> None:
            name, (ids, parameters) = next(names), request
            engine.add_request(name, {"prompt_token_ids": list(ids)}, parameters)
            waiting[name] = index

        try:
            for index, request in enumerate(requests):
                send(index, request)
            while waiting:
                finished_outputs = []
                for output in engine.step():
                    if output.finished:
                        index = waiting.pop(output.request_id)
                        next_request = following and following(index, output)
                        if next_request:
                            send(index, next_request)
                        else:
                            finished_outputs.append((index, output))
                if finished_outputs:
                    yield finished_outputs
        finally:
            if waiting:
                engine.abort_request(sorted(waiting))

    @property
    def generation(self) -> dict[str, Any]:
        """The settings of the model's generation config, such as the tokens that end a text."""
        return dict(self.llm.model_config.try_get_generation_config())

    def forget(self) -> None:
        """Empty the prefix cache."""
        self.llm.reset_prefix_cache()

    def close(self) -> None:
        """End the engine's processes."""
        self.llm.llm_engine.engine_core.shutdown()


def reason(error: BaseException) -> str:
    """Return what vLLM says as one line, without the frame that pydantic puts around it."""
    match = REASON.search(str(error))
    text = one_line(ValueError(match["why"])) if match else one_line(error)
    return text.replace("See root cause above.", "The cause is in vLLM's messages above.")
