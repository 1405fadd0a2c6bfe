"""Models that metrics use: opened by the names that `--model` takes, once per run, and asked in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from figeval.errors import CapabilityError, FigevalError, ModelError, OptionNeeded
from figeval.metrics.catalogue import MetricContext
from figeval.models.batching import Memo
from figeval.models.capabilities import Answer, ask, capability_of
from figeval.models.model import Backends, Model, open_model
from figeval.records.seen import Lineage, about_in
from figeval.runs.lineage import line_of
from figeval.spec import TaskSpec
from figeval.task_types.base import Metric
from figeval.types import JSON, Example, Request, Role

BATCH = 1024  # requests that are passed to the model together


@dataclass(frozen=True)
class SharedModel:
    """A model of the registry that several metrics may share (`figeval.metrics.catalogue.MetricModel`).

    Attributes:
        model: the model.
        memo: earlier answers, since several metrics send the same requests about a text.
    """

    model: Model
    memo: Memo = field(default_factory=Memo)

    @property
    def capabilities(self) -> frozenset[str]:
        return self.model.offers

    @cached_property
    def fingerprint(self) -> str:
        """Digest that changes whenever an answer could change."""
        return self.model.fingerprint()

    @property
    def about(self) -> JSON:
        """Description of its training by `figeval train`, from its figeval.json; empty for other models."""
        return self._lineage.ancestors[0].about

    def role(self, example: Example) -> Role | None:
        """Return the role in which the model, or one that it was trained from, has seen an example."""
        return self._lineage.role(example)

    def answer(self, requests: Sequence[Request]) -> list[tuple[Any, bool]]:
        """Return (output, whether the input was truncated) for requests of one class; equal ones are computed once.

        Raises:
            CapabilityError: the model lacks a capability that the requests need.
        """
        capabilities = {capability_of(request) for request in requests}
        if lacking := sorted(capabilities - self.capabilities):
            raise CapabilityError(f"{self.model.name} lacks the capability {lacking[0]!r}, which the metric needs")
        answers = {
            request: answer for request in dict.fromkeys(requests) if (answer := self.memo.get(request)) is not None
        }
        fresh = [request for request in dict.fromkeys(requests) if request not in answers]
        for begin in range(0, len(fresh), BATCH):
            batch = fresh[begin : begin + BATCH]
            outputs = ask(self.model.backend, batch)
            pairs = zip(batch, outputs.values, strict=True)
            fresh_answers = {
                request: Answer(value, row in outputs.truncated) for row, (request, value) in enumerate(pairs)
            }
            self.memo.update(fresh_answers)
            answers |= fresh_answers
        return [answers[request][:2] for request in requests]

    @cached_property
    def _lineage(self) -> Lineage:
        return line_of(self.model)


@dataclass(frozen=True)
class MetricModels:
    """Opens each model once for all metrics and tasks of a run."""

    backends: Backends
    _opened: dict[tuple[str, str | None], SharedModel] = field(default_factory=dict)

    def context(self, metric: Metric, task: TaskSpec, device: str | None) -> MetricContext:
        """Return the context from which a metric is made for a task."""
        argument = metric.given or ""

        def shared_model(name: str) -> SharedModel:
            with blamed():
                return self._get(name, device)

        def training_of(name: str) -> JSON:
            folder = self.backends.folder(name)
            if folder is None:
                return shared_model(name).about
            with blamed():
                return about_in(folder)

        @contextmanager
        def blamed() -> Iterator[None]:
            """Name the metric in the error messages of its model."""
            try:
                yield
            except OptionNeeded as error:
                cure = "and the model of a metric takes no options; use another one"
                raise ModelError(f"metric {metric.name}={argument}: {error.problem}, {cure}") from error
            except FigevalError as error:
                raise ModelError(f"metric {metric.name}={argument}: {error}") from error

        return MetricContext(metric.name, argument, task.name, task.languages, shared_model, training_of)

    def _get(self, name: str, device: str | None) -> SharedModel:
        if (name, device) not in self._opened:
            model = open_model(self.backends, name, {}, {"device": device})
            self._opened[name, device] = SharedModel(model)
        return self._opened[name, device]
