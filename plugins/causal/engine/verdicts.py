"""Verdicts of the self-test, kept in `FIGEVAL_HOME/self_tests` for later runs of the same model on the same device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from figeval.files import home
from figeval.storage import replace_text
from figeval.types import JSON

from .views import ReadStrategy

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FOLDER = "self_tests"
LIBRARIES = ("torch", "transformers")
SAMPLED = 16  # weights of each parameter that tell one checkpoint from another of the same architecture


class Verdict(BaseModel):
    """What the self-test chose, and why.

    Attributes:
        strategy: name of the strategy.
        reach: tokens of the longest text that it may read; None if there is no limit.
        failures: why better strategies are not used, by name.
        evidence: distances in nats, by the name of a strategy that was tried.
        cure: what a user can do for a better strategy; empty if nothing helps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    strategy: str
    reach: int | None = None
    failures: dict[str, str] = {}
    evidence: dict[str, dict[str, float]] = {}
    cure: str = ""

    def names_one_of(self, strategies: Sequence[ReadStrategy]) -> bool:
        """Return whether the strategy is one of those that there are."""
        return self.strategy in {strategy.name for strategy in strategies}

    def chosen(self, strategies: Sequence[ReadStrategy], fallback: ReadStrategy) -> ReadStrategy:
        """Return the strategy of this verdict."""
        known = {strategy.name: strategy for strategy in strategies}
        strategy = known.get(self.strategy, fallback)
        return strategy if strategy is fallback else replace(strategy, reach=self.reach)

    def describe(self) -> JSON:
        """Return the evidence, and why a better strategy was not used and what helps, for the record."""
        failed = "; ".join(f"{name}: {why}" for name, why in self.failures.items())
        said: JSON = {"self_test": self.evidence} if self.evidence else {}
        return said | ({"fell_back_because": failed, "cure": self.cure} if failed else {})


def recall_verdict(model: PreTrainedModel, scoring: str) -> Verdict | None:
    """Return the verdict of an earlier self-test of the same model, device and versions, or None."""
    try:
        return Verdict.model_validate_json(file_of(model, scoring).read_bytes())
    except (OSError, ValueError):  # none, or damaged: the test takes a second
        return None


def remember_verdict(model: PreTrainedModel, scoring: str, verdict: Verdict) -> None:
    """Keep a verdict for later runs, if the folder can be written."""
    file = file_of(model, scoring)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, verdict.model_dump_json() + "\n")
    except OSError:
        return


def file_of(model: PreTrainedModel, scoring: str) -> Path:
    """Return the file of a verdict: its name is a digest of everything that the verdict depends on."""
    parts = (type(model).__qualname__, model.config.to_json_string(use_diff=False), *versions(), scoring)
    digest = hashlib.sha256("\n".join([*parts, device_name(model.device), str(model.dtype)]).encode())
    for bits in weight_bits(model):
        digest.update(bits)
    return home() / FOLDER / f"{digest.hexdigest()[:32]}.json"


def weight_bits(model: PreTrainedModel) -> Iterator[bytes]:
    """Yield some numbers of every parameter."""
    import torch

    chosen = [weight.detach().flatten()[:: max(1, weight.numel() // SAMPLED)] for weight in model.parameters()]
    yield torch.cat([values.float() for values in chosen]).cpu().numpy().tobytes()


@cache
def versions() -> tuple[str, ...]:
    """Return the versions of libraries, and a digest of the modules that read models."""
    modules = sorted(Path(__file__).resolve().parents[1].rglob("*.py"))
    sources = hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()
    return (*map(version, LIBRARIES), sources)


def device_name(device: torch.device) -> str:
    """Return the name of the kind of device."""
    import torch

    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else device.type
