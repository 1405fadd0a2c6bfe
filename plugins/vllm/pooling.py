"""Encoders and cross-encoders in vLLM. Capabilities: embed, or score_pairs.

Texts are tokenized as by `encoder`, with the same prompts, cut on the right and reported. Pooling and normalisation are
those of the checkpoint, as vLLM reads them; `pooler_config` and `convert` are vLLM's own options for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figeval.errors import ModelError
from figeval.io.observer import report_share
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Text, TextPair

from ..encoders.prompts import INSTRUCTOR, PROMPT_NAMES, Prompts
from ..torch_models.checkpoint import Checkpoint, load_json
from ..torch_models.faults import load_errors
from ..torch_models.tokens import IDS, tokenize
from .engine import VllmEngine, reason
from .vllm_model import VllmModel, VllmSettings

POOLING = "1_Pooling/config.json"
MAX_CALL_PAIRS = 256  # pairs of one call of vLLM, after which progress is reported


def longest(model: VllmModel) -> int:
    """Return the most tokens of an input: vLLM's limit, or the tokenizer's, which vLLM reads for some models only."""
    return min(model.engine.limit, int(model.tokenizer.model_max_length))


class VllmEncoder(VllmModel):
    """A sentence encoder."""

    runner = "pooling"

    def __init__(self, settings: VllmSettings, checkpoint: Checkpoint, prompts: Prompts) -> None:
        super().__init__(settings, checkpoint)
        self.prompts = prompts

    def embed(self, requests: Sequence[Text]) -> Outputs[Any]:
        """Return vectors as one array (n, d), float32.

        Raises:
            ModelError: the model reads prompts that are no part of its vectors.
        """
        import numpy as np
        from vllm import PoolingParams

        self._check_pooling()
        texts = [self.prompts.of(request.role) + request.text for request in requests]
        tokens = tokenize(self.tokenizer, texts, longest(self))
        engine_requests = [(ids, PoolingParams(task="embed")) for ids in tokens.fields[IDS]]
        vector_of: dict[int, Any] = {}
        for outputs in self.engine.stream_outputs(engine_requests):
            report_share(len(outputs) / len(requests))
            vector_of |= {index: output.outputs.data.float().numpy() for index, output in outputs}
        vectors: Any = np.stack([vector_of[index] for index in range(len(requests))])
        return Outputs(vectors, tokens.truncated)

    def canonical(self, request: Text) -> Text:
        """Return the text that is read like this one, whatever its role."""
        return self.prompts.canonical(request)

    def details(self, engine: VllmEngine) -> JSON:
        config = engine.llm.model_config.pooler_config
        return {"pooling": str(getattr(config, "seq_pooling_type", None) or getattr(config, "pooling_type", ""))}

    def describe(self) -> JSON:
        """Return the model's description, with its prompts and a warning about those that it may lack."""
        warnings = self.prompts.warnings(self.checkpoint.model)
        return super().describe() | self.prompts.describe() | ({"warnings": warnings} if warnings else {})

    def fingerprint(self) -> str:
        """Return what `VllmModel` does, with the prompts if there are any."""
        return self.prompts.identity(super().fingerprint())

    def _check_pooling(self) -> None:
        """Raise `ModelError` if the states of a prompt's tokens must be left out, which vLLM does not do."""
        if not any(map(self.prompts.of, PROMPT_NAMES)):
            return
        pooling = load_json(self.checkpoint.folder_here() / POOLING) or {}
        if pooling.get("include_prompt") is False or self.checkpoint.model.startswith(INSTRUCTOR):
            model = self.checkpoint.model
            raise ModelError(
                f"the prompts of {model!r} are no part of its vectors, and vLLM cannot leave them out; use --model "
                f"encoder:{model}"
            )


class VllmCrossEncoder(VllmModel):
    """A cross-encoder with one output."""

    runner = "pooling"

    def score_pairs(self, requests: Sequence[TextPair]) -> Outputs[float]:
        """Return the score of every pair; the longer text of a pair that does not fit loses its end.

        Raises:
            ModelError: vLLM refuses a pair.
        """
        from vllm import PoolingParams

        raw = PoolingParams(use_activation=False)  # a sigmoid would round the scores of the best candidates to 1
        lefts, rights = [request.left for request in requests], [request.right for request in requests]
        limit = longest(self)
        truncated = tokenize(self.tokenizer, lefts, limit, rights).truncated
        scores: list[float] = []
        for begin in range(0, len(requests), MAX_CALL_PAIRS):
            part = slice(begin, begin + MAX_CALL_PAIRS)
            try:
                outputs = self.engine.llm.score(
                    lefts[part],
                    rights[part],
                    use_tqdm=False,
                    pooling_params=raw,
                    tokenization_kwargs={"truncate_prompt_tokens": limit},
                )
            except load_errors() as error:
                raise ModelError(f"vLLM cannot score pairs with {self.checkpoint.model!r}: {reason(error)}") from error
            scores += [float(output.outputs.score) for output in outputs]
            report_share(len(outputs) / len(requests))
        return Outputs(scores, truncated)

    def details(self, engine: VllmEngine) -> JSON:
        """Add nothing to what every model describes."""
        del engine
        return {}
