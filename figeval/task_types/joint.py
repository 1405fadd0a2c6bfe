"""Joint tasks, which rank candidates and find spans in the query by combining a ranking route and a span route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from figeval.errors import DataError
from figeval.io.json_files import json_scores
from figeval.prompts import PromptContext
from figeval.task_types.base import metric
from figeval.task_types.debiasing import together
from figeval.task_types.fields import Field, RowContext
from figeval.task_types.given import Given
from figeval.task_types.ranking import Ranking, RankingExample
from figeval.task_types.routes import Dialogue, Route
from figeval.task_types.spans import SpanExample, Spans
from figeval.types import JSON, Input, Prediction, written

SPANS = Spans()
RANKING, FOUND = "figeval.metrics.ranking", "figeval.metrics.spans"


@dataclass(frozen=True, slots=True)
class PartsField(Field):
    """List of span rows of the same query, each with `id`, `given`, `known` and `gold`."""

    shown: bool = field(default=True, kw_only=True)

    def read(self, value: Any, row: RowContext) -> tuple[SpanExample, ...]:  # noqa: D102
        if not isinstance(value, Sequence) or not all(isinstance(part, Mapping) for part in value):
            raise row.error(f"expected a list of mappings, found {value!r:.80}")
        if not value:
            raise row.error("there are no spans; leave the row out")
        return tuple(self._part(part, len(value), row) for part in value)

    def _part(self, part: Mapping[str, Any], parts: int, row: RowContext) -> SpanExample:
        if missing := sorted({"id", "given", "known", "gold"} - set(part)):
            raise row.error(f"no {', '.join(missing)} in {dict(part)!r:.80}")
        common = {"id": str(part["id"]), "cluster": row.common["cluster"]}
        values = {"text": row.read["query"], "weight": 1 / parts, **part}
        location = f"{row.where}, field {row.field!r}, part {common['id']!r}"
        return SPANS.example(replace(row, where=location, values=values, common=common))

    def schema(self) -> JSON:  # noqa: D102
        return {"type": "array", "items": SPANS.json_schema(), "minItems": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class JointExample(RankingExample):
    """Example that asks to rank candidates and find spans in the query (Ghosh and Srivastava 2022, Table 9)."""

    parts: Annotated[tuple[SpanExample, ...], PartsField("The spans to be found in the query.")]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.candidates, *self.background, *(part.given for part in self.parts))

    @property
    def hidden(self) -> bool:  # noqa: D102
        return not self.relevant or any(part.hidden for part in self.parts)


# ---- routes ----------------------------------------------------------------------------------------------------------


def at_once(example: JointExample, context: PromptContext, ranking: Route, spans: Route) -> Dialogue:
    """Ask for candidates and spans in the same rounds, whatever the candidate.

    This is the joint setting of Ghosh and Srivastava 2022, Table 9.
    """
    about = of_parts(context)
    first, *parts = yield from together(
        [ranking.begin(example, context), *(spans.begin(part, about) for part in example.parts)]
    )
    return combine_parts(first, tuple(parts))


def in_turn(example: JointExample, context: PromptContext, ranking: Route, spans: Route) -> Dialogue:
    """Ask for the candidate first, and for the spans only if it may be right, since others do not count.

    This is the pipelined setting of Ghosh and Srivastava 2022, Table 9.
    """
    first = yield from ranking.begin(example, context)
    best = max(first.scores[: len(example.candidates)], default=None)
    if first.status != "ok" or all(first.scores[index] != best for index in example.relevant):
        return first  # no right candidate has the best score, alone or in a tie
    about = of_parts(context)
    parts = yield from together([spans.begin(part, about) for part in example.parts])
    return combine_parts(first, tuple(parts))


def of_parts(context: PromptContext) -> PromptContext:
    """Return the context for spans, which shows the first part of every solved example."""
    return replace(
        context,
        shots=lambda example: [shot.parts[0] for shot in context.shots(example)],
        few_shot_answer=SPANS.few_shot_answer,
    )


def combine_parts(first: Prediction, parts: tuple[Prediction, ...]) -> Prediction:
    """Return one prediction from those of all parts; an error in one part makes it an error, to be asked again."""
    first = replace(first, dropped_shots=max(part.dropped_shots for part in (first, *parts)))
    broken = next((part for part in parts if part.status == "error"), None)
    if broken is not None:
        return replace(first, value=None, status="error", finish="error", error=broken.error, parts=parts)
    return replace(first, parts=parts)


# ---- the type --------------------------------------------------------------------------------------------------------


class Joint(Ranking):
    """Order the candidates, and find in the query what stands for parts of the right one."""

    name = "joint"
    Example = JointExample
    query = ""
    given_form = 'an object such as {"candidates": [4, 1], "spans": [[0, 12], "quoted words"]}, with a span per part'
    default_metrics = ("acc", "span_f1")
    routes = (
        Route(name="at_once", start=at_once, of=("ranking", "spans")),
        Route(name="in_turn", start=in_turn, of=("ranking", "spans"), on_request=True),
    )
    metrics = (
        metric("acc", f"{RANKING}:accuracy"),
        metric("mrr", f"{RANKING}:mrr"),
        metric("acc_near", f"{RANKING}:acc_near"),
        metric("span_precision", f"{FOUND}:joint_precision", counts_words=True),
        metric("span_recall", f"{FOUND}:joint_recall", counts_words=True),
        metric("span_f1", f"{FOUND}:joint_f1", counts_words=True),
        metric("squad_f1", f"{FOUND}:joint_squad_f1", counts_words=True),
        metric("span_precision_ungated", f"{FOUND}:joint_precision_ungated", counts_words=True, routes=["at_once"]),
        metric("span_recall_ungated", f"{FOUND}:joint_recall_ungated", counts_words=True, routes=["at_once"]),
        metric("span_f1_ungated", f"{FOUND}:joint_f1_ungated", counts_words=True, routes=["at_once"]),
    )

    def query_text(self, example: RankingExample) -> str:
        """Return the text that is asked about, although no probe exchanges it."""
        return example.query

    def prompted(self, example: JointExample, values: Mapping[str, Any], where: str) -> JointExample:  # type: ignore[override]
        """Return the example with `prompted` set, also for the parts, whose text is the query as prompts show it."""
        own_values = {name: value for name, value in values.items() if name != "parts"}
        changes = self.prompted_fields(example, own_values, where)
        parts = faces(example, changes.get("query", example.query), values.get("parts"), where)
        shown: dict[str, Any] = {**changes, "parts": tuple(part.prompted for part in parts)}
        return replace(example, parts=parts, prompted=replace(example, **shown))

    def given(self, example: JointExample, given: Given, labels: Sequence[str]) -> Prediction:  # type: ignore[override]
        """Return the ranking with the spans of all parts; null stands for a span that was not found out."""
        value = given.parsed
        spans = value.get("spans") if isinstance(value, Mapping) else None
        if not isinstance(spans, list) or len(spans) != len(example.parts):
            raise ValueError(f"there must be a span for each of {len(example.parts)} parts")
        first = super().given(example, Given(value.get("candidates"), given.scores), labels)

        def part(span_example: SpanExample, span: Any) -> Prediction:
            if span is None or span == "":
                return Prediction(example_id=span_example.id, value=None, status="empty")
            prediction = SPANS.given(span_example, Given(span), labels)
            if prediction.value is not None and (
                problem := SPANS.value_problem(prediction.value, span_example, labels)
            ):
                raise ValueError(problem)
            return prediction

        return combine_parts(first, tuple(map(part, example.parts, spans)))

    def judged_example(self, example: JointExample) -> Mapping[str, Input]:  # type: ignore[override]
        """Return query and right candidate, and what stands for each part of it."""
        spans = tuple(f"{part.given} → {SPANS.shown_gold(part)}" for part in example.parts)
        return {**super().judged_example(example), "parts": spans}

    def row(self, example: RankingExample, prediction: Prediction) -> JSON:
        """Return the row of a ranking, with the span that was found for each part."""
        parts = []
        for part in prediction.parts:
            row: JSON = {"id": part.example_id, "status": part.status, "pred": SPANS.to_json(part.value)}
            scores = {"scores": json_scores(part.scores)} if part.scores else {}
            parts.append({**row, **scores, **written(part)})
        return {**super().row(example, prediction), "parts": parts}


def faces(example: JointExample, query: str, values: Any, location: str) -> tuple[SpanExample, ...]:
    """Return the parts of an example, each with `prompted` set. Raises `DataError`."""
    texts: Sequence[Any] = [{} for _ in example.parts] if values is None else values
    mappings = isinstance(texts, Sequence) and all(isinstance(text, Mapping) for text in texts)
    if not mappings or len(texts) != len(example.parts):
        raise DataError(
            f"{location}, prompt field 'parts': expected {len(example.parts)} mappings, found {values!r:.80}"
        )
    examples = []
    for part, changed in zip(example.parts, texts, strict=True):
        replacements = {name: changed[name] for name in ("given", "known") if name in changed}
        examples.append(SPANS.prompted(part, {"text": query, **replacements}, location))
    return tuple(examples)
