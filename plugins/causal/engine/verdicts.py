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

from figeval.io.files import home, replace_text
from figeval.types import JSON

from .views import ReadStrategy

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FOLDER = "self_tests"
LIBRARIES = ("torch", "transformers")
IMPLEMENTATIONS = ("_attn_implementation", "_experts_implementation")  # which a config does not write down
SOURCES = ("causal", "encoders")  # plugins whose code a verdict depends on


class SelfTestVerdict(BaseModel):
    """The choice of the self-test, and its reasons.

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
        return self.strategy in {strategy.name for strategy in strategies}

    def find_strategy(self, strategies: Sequence[ReadStrategy], fallback: ReadStrategy) -> ReadStrategy:
        """Look up the strategy by the name in this verdict; `fallback` if there is none of it."""
        by_name = {strategy.name: strategy for strategy in strategies}
        strategy = by_name.get(self.strategy, fallback)
        return strategy if strategy is fallback else replace(strategy, reach=self.reach)

    def describe(self) -> JSON:
        """Return the evidence, and why a better strategy was not used and what helps, for the record."""
        failures = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
        description: JSON = {"self_test": self.evidence} if self.evidence else {}
        return description | ({"fell_back_because": failures, "cure": self.cure} if failures else {})


def recall_verdict(file: Path) -> SelfTestVerdict | None:
    """Return the verdict of an earlier self-test of the same model, device and versions, or None."""
    try:
        return SelfTestVerdict.model_validate_json(file.read_bytes())
    except (OSError, ValueError):  # none, or damaged: the test takes a few seconds
        return None


def remember_verdict(file: Path, verdict: SelfTestVerdict) -> None:
    """Keep a verdict for later runs, if the folder can be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, verdict.model_dump_json() + "\n")
    except OSError:
        return


def verdict_file(model: PreTrainedModel, scoring: str) -> Path:
    """Return the file of a verdict: its name is a digest of everything that the verdict depends on.

    All weights are read for it.
    """
    config, kind = model.config, type(model)
    implementations = [str(getattr(config.get_text_config(decoder=True), name, "")) for name in IMPLEMENTATIONS]
    model_parts = [kind.__module__, kind.__qualname__, config.to_json_string(use_diff=False), *implementations]
    parts = [*model_parts, *versions(), scoring, device_name(model.device), str(model.dtype)]
    digest = hashlib.sha256("\n".join(parts).encode())
    for numbers in sums_of_weights(model):
        digest.update(numbers)
    return home() / FOLDER / f"{digest.hexdigest()[:32]}.json"


def sums_of_weights(model: PreTrainedModel) -> Iterator[bytes]:
    """Yield the sum of every parameter and buffer, which tells checkpoints of an architecture apart."""
    import torch

    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type != "meta":  # offloaded
            yield tensor.detach().sum(dtype=torch.float64).cpu().numpy().tobytes()


@cache
def versions() -> tuple[str, ...]:
    """Return the versions of libraries, and a digest of the modules that read models."""
    plugins = Path(__file__).resolve().parents[2]
    modules = sorted(module for name in SOURCES for module in (plugins / name).rglob("*.py"))
    sources = hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()
    return (*map(version, LIBRARIES), sources)


def device_name(device: torch.device) -> str:
    import torch

    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else device.type
