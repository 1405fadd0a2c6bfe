"""Models in vLLM's offline engine: `--model vllm:NAME` (extra `vllm`). Capabilities by kind of checkpoint.

| module | contents |
|---|---|
| `opening` | the factory, and everything that is checked before weights are loaded |
| `vllm_model` | what all models share: options from --model_args, the engine, the record |
| `engine` | the engine: loading, requests in, finished answers out |
| `scoring` | log-likelihoods of options in several ways, the fastest of which is used |
| `language_model` | causal models: loglikelihood, generate |
| `pooling` | encoders and cross-encoders: embed, score_pairs |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one backend, which opens a checkpoint as what it is."""
    summary = "vLLM's offline engine for a causal model, an encoder or a cross-encoder (extra vllm)"
    register("vllm", f"{__name__}.opening:vllm", summary)
