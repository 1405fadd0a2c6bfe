"""Models behind an API. Capability: generate.

`openai` supports OpenAI and every server with its protocol (vLLM, llama.cpp, `transformers serve`, OpenRouter …):
`--model openai:gpt-4o-mini`, `--model openai:NAME --model_args base_url=http://localhost:8000/v1`. `anthropic` supports
Anthropic. Keys are read only from the environment and never appear in a record, log or error.

Requests are sent concurrently. A temporary failure is retried; a permanent one becomes a reply that ended by `error`,
and the next run of the same command asks again. Finished replies are stored on disk under the exact request, so that
nothing is asked or paid for twice.

`model` opens the backend: an `api_model`, of which `request_batch` sends many requests at once and `client` makes one
attempt at one request, or one that is asked in `batches`. Both speak one of the `dialects`, in which `thinking` and
`formats` of answers are asked for. `faults` says what errors mean, and `secret` keeps the key out of texts; `settings`,
`budget`, `prices` and `cache` are what their names say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one backend per dialect."""
    register(
        "openai",
        f"{__name__}.model:openai",
        "chat models of OpenAI and of compatible servers (base_url=…)",
    )
    register("anthropic", f"{__name__}.model:anthropic", "chat models of Anthropic")
