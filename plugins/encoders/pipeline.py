"""Two models as one: the first ranks, the second finds spans (Ghosh and Srivastava 2022, section 5.3, "pipelined").

    --model pipeline --model_args ranker=minilm,spans=FOLDER

Each part is any value of --model, or a JSON object if it has options of its own: `{"ranker": {"model":
"encoder:FOLDER", "pooling": "cls"}, "spans": "FOLDER"}`. Capabilities: all those of the ranker, and find_spans of the
second part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from figeval import plugins
from figeval.errors import FigevalError, ModelError
from figeval.models.capabilities import Answers
from figeval.models.model import Backends, Model, open_model
from figeval.types import JSON, Example, ScoredSpan, SpanQuery

if TYPE_CHECKING:
    from figeval.io.json_files import JSONValue

# Capabilities of each part, of which it needs one.
NEEDS = {"ranker": ("embed", "score_pairs", "loglikelihood"), "spans": ("find_spans",)}
USAGE = "--model pipeline --model_args ranker=MODEL,spans=MODEL"


def pipeline(
    model: str = "",
    *,
    ranker: str | Mapping[str, JSONValue] = "",
    spans: str | Mapping[str, JSONValue] = "",
    device: str | None = None,
    batch_size: int | str | None = None,
    seed: int | None = None,
) -> Pipeline:
    """Open a pipeline of two models; each flag goes to the parts that know it.

    Args:
        model: must be empty.
        ranker: the model that ranks, as for `--model`; with options of its own as `{"model": …, "pooling": …}`.
        spans: the model that finds spans, likewise.
        device: device of both parts.
        batch_size: batch size of both parts.
        seed: seed of both parts.

    Raises:
        ModelError: a part is missing, is no model, or lacks the capability for its role.
    """
    if model:
        raise ModelError(f"'pipeline' takes no model after the colon; name its parts: {USAGE}")
    common = {"device": device, "batch_size": batch_size, "seed": seed}
    backends = Backends(plugins.plugin_manager())
    return Pipeline(
        *(open_part(role, value, backends, common) for role, value in (("ranker", ranker), ("spans", spans)))
    )


def open_part(
    role: str, value: str | Mapping[str, JSONValue], backends: Backends, common: Mapping[str, JSONValue]
) -> Model:
    """Open one part. Raises `ModelError` naming the part."""
    options = {"model": value} if isinstance(value, str) else dict(value)
    name = options.pop("model", "")
    if not name:
        raise ModelError(f"'pipeline' has no {role}: {USAGE}")
    try:
        part = open_model(backends, str(name), options, common)
    except FigevalError as error:
        raise ModelError(f"pipeline, {role}={name}: {error}") from error
    if not part.offers & set(NEEDS[role]):
        offers = ", ".join(sorted(part.offers)) or "nothing"
        raise ModelError(f"pipeline, {role}={name}: it has {offers}, but needs {' or '.join(NEEDS[role])}")
    return part


class Pipeline:
    """A ranker and a span finder. Attributes not defined here are the ranker's."""

    def __init__(self, ranker: Model, spans: Model) -> None:
        self.ranker = ranker
        self.spans = spans

    def __getattr__(self, name: str) -> object:
        if name in ("ranker", "spans"):  # not set yet while the object is being copied
            raise AttributeError(name)
        return getattr(self.ranker.backend, name)

    @property
    def parts(self) -> dict[str, Model]:
        return {"ranker": self.ranker, "spans": self.spans}

    def find_spans(self, requests: Sequence[SpanQuery]) -> Answers[Sequence[ScoredSpan]]:
        """Return the spans that the second part finds."""
        answers: Answers[Sequence[ScoredSpan]] = self.spans.backend.find_spans(requests)
        return answers

    def fit(self, examples: Iterable[Example]) -> None:
        """Fit both models, if they learn from the task, on the split that the ranker learns from."""
        all_examples = list(examples)
        for part in self.parts.values():
            part.fit(all_examples)

    def fingerprint(self) -> str:
        """Return a digest that changes with either part."""
        return "; ".join(f"{role} {part.backend_name} {part.fingerprint()}" for role, part in self.parts.items())

    def describe(self) -> JSON:
        """Return the descriptions of both parts, with their warnings merged and their numbers of weights added."""
        descriptions: dict[str, JSON] = {role: part.description() for role, part in self.parts.items()}
        warnings = [line for part in descriptions.values() for line in part.pop("warnings", [])]
        description: JSON = {role: {"model": self.parts[role].name, **part} for role, part in descriptions.items()}
        sizes = [part.get("parameters") for part in descriptions.values()]
        if all(isinstance(size, int) for size in sizes):
            description["parameters"] = sum(sizes)
        return description | ({"warnings": warnings} if warnings else {})

    def close(self) -> None:
        """Release the memory of both models."""
        for part in self.parts.values():
            part.close()
