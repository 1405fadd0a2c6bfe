"""Log-likelihoods from inference servers: `vllm_server:NAME`, `sglang:NAME`, `llama_cpp:NAME`.

`openai:NAME` asks the same servers for answers in words. These backends also score given texts, for which every server
has an interface of its own. Concurrency, retries and the archive of replies are those of `plugins/api`.

| module | contents |
|---|---|
| `dialects` | one class per server: the request that scores a text, and the reading of its response |
| `settings` | options from --model_args |
| `model` | the backend: token ids in, log-likelihoods out |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one backend per server."""
    model = f"{__name__}.model"
    register(
        "vllm_server",
        f"{model}:vllm_server",
        "a running `vllm serve` (base_url=…): log-likelihoods, and answers in words",
    )
    summary = "a running SGLang (base_url=…): log-likelihoods, and answers in words; never tried with a real one"
    register("sglang", f"{model}:sglang", summary)
    summary = "a running llama-cpp-python server (base_url=…): log-likelihoods, and answers in words"
    register("llama_cpp", f"{model}:llama_cpp", summary)
