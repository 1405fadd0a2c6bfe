"""What can be trained on a model: one module per head. The loop (`figeval.training`) sees only the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hookspecs import hookimpl

if TYPE_CHECKING:
    from figeval.registry import LearnerRegister


@hookimpl
def register_learners(register: LearnerRegister) -> None:
    """Protocol, head, factory; the first head of a protocol is its default."""
    register("ranking", "biencoder", f"{__name__}.biencoder:biencoder", "query and candidates apart, all in every step")
