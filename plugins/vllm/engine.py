"""vLLM's offline engine: loading with one-line errors, and requests whose answers come back as they finish."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.errors import ModelError
from figeval.models.progress import loading

from ..encoders.loading import load_errors, one_line, suppress_logging

if TYPE_CHECKING:
    from vllm import LLM, PoolingParams, RequestOutput, SamplingParams

    Params: TypeAlias = SamplingParams | PoolingParams

WHY = re.compile(r"(?:Value error|Assertion failed), (?P<why>.*?)(?: \[type=| For further information|$)", re.DOTALL)
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR"}  # vLLM's processes inherit it; a value that the user has set stays


@dataclass(slots=True)
class Engine:
    """A loaded model of vLLM.

    Attributes:
        llm: engine.
        limit: most tokens of a prompt and its answer together.
    """

    llm: LLM
    limit: int

    @classmethod
    def load(cls, model: str, options: dict[str, Any]) -> Engine:
        """Load the model in `model`, a folder, with options of vLLM's `LLM`.

        Raises:
            ModelError: vLLM cannot load it, e.g. since its config forbids the options or memory does not suffice.
        """
        loading()
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        try:
            with suppress_logging("vllm"):
                from vllm import LLM

                llm = LLM(model, use_tqdm_on_load=False, **options)
        except load_errors() as error:
            raise ModelError(f"vLLM cannot load {model!r}: {reason(error)}") from error
        return cls(llm, int(llm.model_config.max_model_len))

    def finished(
        self, prompts: Sequence[Sequence[int]], params: Sequence[Params]
    ) -> Iterator[list[tuple[int, RequestOutput]]]:
        """Yield the finished outputs with the indexes of their prompts, after each step of the engine that has some.

        If the caller stops early, the others are taken back.
        """
        engine, waiting = self.llm.llm_engine, set()
        try:
            for place, (ids, how) in enumerate(zip(prompts, params, strict=True)):
                engine.add_request(str(place), {"prompt_token_ids": list(ids)}, how)
                waiting.add(str(place))
            while waiting:
                outputs = [output for output in engine.step() if output.finished]
                waiting.difference_update(output.request_id for output in outputs)
                if outputs:
                    yield [(int(output.request_id), output) for output in outputs]
        finally:
            if waiting:
                engine.abort_request(sorted(waiting))

    def forget(self) -> None:
        """Empty the prefix cache."""
        self.llm.reset_prefix_cache()

    def close(self) -> None:
        """End the engine's processes."""
        self.llm.llm_engine.engine_core.shutdown()


def reason(error: BaseException) -> str:
    """Return what vLLM says as one line, without the frame that pydantic puts around it."""
    found = WHY.search(str(error))
    text = one_line(ValueError(found["why"])) if found else one_line(error)
    return text.replace("See root cause above.", "The cause is in vLLM's messages above.")
