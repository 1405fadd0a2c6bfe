"""Bridges to lm-eval in both directions: its models as backends here, our tasks and models there."""

from __future__ import annotations

from figeval.hooks import BackendRegistrar, CommandLine, hookimpl


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register `lm_eval:NAME` for every model of lm-eval."""
    register("lm_eval", f"{__name__}.backend:lm_eval", "any model of lm-eval, e.g. lm_eval:vllm, with its --model_args")


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register `figeval lm-eval`."""
    target = f"{__name__}.commands:lm_eval"
    cli.add_lazy_command("lm-eval", target, "Run figeval's tasks in lm-eval.", heading="Evaluate")
