"""Bridges to lm-eval in both directions: its models as backends here, our tasks and models there."""

from __future__ import annotations

import click

from figeval.hooks import BackendRegistrar, hookimpl


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register `lm_eval:NAME` for every model of lm-eval."""
    register("lm_eval", f"{__name__}.backend:lm_eval", "any model of lm-eval, e.g. lm_eval:vllm, with its --model_args")


@hookimpl
def register_commands(cli: click.Group) -> None:
    """Register `figeval lm-eval`."""
    from .commands import lm_eval

    cli.add_command(lm_eval)
