"""Models behind an API, and log-likelihoods from inference servers.

`openai` supports OpenAI and every server with its protocol (vLLM, llama.cpp, `transformers serve`, OpenRouter …):
`--model openai:gpt-4o-mini`, `--model openai:NAME --model_args base_url=http://localhost:8000/v1`. `anthropic` supports
Anthropic. `vllm_server`, `sglang` and `llama_cpp` ask the same servers for answers in words, and also for the
log-probabilities of given texts, for which every server has an interface of its own. Keys are read only from the
environment and never appear in a record, log or error.

Requests are sent concurrently. A temporary failure is retried; a permanent one becomes a reply that ended by `error`,
and the next run of the same command asks again. Finished replies are stored on disk under the exact request, so that
nothing is asked or paid for twice.

| module | contents |
|---|---|
| `providers` | who can be asked, each a declared value, and what is opened for them |
| `api_settings` | options from --model_args, the address and its key |
| `api_model` | the backend that answers in words |
| `served_model` | the backend that also scores: token ids in, log-likelihoods out |
| `dialects`, `scoring_dialects` | requests and responses: answers in words, log-probabilities of a text |
| `thinking`, `formats` | how a server is asked to think, and held to a format |
| `request_batch` | many requests at once: retries, adaptive concurrency, budget |
| `client` | one attempt at one request; `faults` says what errors mean, and `secret` keeps the key out of texts |
| `batches`, `batch_api`, `batch_http` | requests that are submitted and collected later (--batch) |
| `budget`, `prices` | what requests may cost; `archive` and `batch_archive`: replies and batches on disk |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one backend per provider."""
    providers, served = f"{__name__}.providers", f"{__name__}.served_model"
    register("openai", f"{providers}:openai", "chat models of OpenAI and of compatible servers (base_url=…)")
    register("anthropic", f"{providers}:anthropic", "chat models of Anthropic")
    scores = "log-likelihoods, and answers in words"
    register("vllm_server", f"{served}:vllm_server", f"a running `vllm serve` (base_url=…): {scores}")
    summary = f"a running SGLang (base_url=…): {scores}; never tried with a real one"
    register("sglang", f"{served}:sglang", summary)
    register("llama_cpp", f"{served}:llama_cpp", f"a running llama-cpp-python server (base_url=…): {scores}")
