"""Models behind an API. Capability: generate.

`openai` speaks to OpenAI and to every server that speaks like it (vLLM, llama.cpp, `transformers serve`, OpenRouter …):
`--model openai:gpt-4o-mini`, `--model openai:NAME --model_args base_url=http://localhost:8000/v1`. `anthropic` speaks
to Anthropic. Keys come from the environment alone and get into no record, log or error.

Requests go out side by side; what fails for a while is tried again, what fails for good becomes a reply that ended by
`error`, which the next run of the same command asks again. Finished replies are kept on disk under the question as it
was sent, so that nothing is asked or paid for twice.

`model` is the backend, `request_batch` sends many requests at once, `client` makes one attempt at one request in one of
the `dialects`; `settings`, `budget` and `cache` are what their names say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Two dialects."""
    register(
        "openai",
        f"{__name__}.model:openai",
        "chat models of OpenAI, and of every server that speaks like it (base_url=…)",
    )
    register("anthropic", f"{__name__}.model:anthropic", "chat models of Anthropic")
