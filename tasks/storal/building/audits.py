"""Audits of built choice tasks for the report: blind rules compared with chance, and negatives that may be right."""

from __future__ import annotations

from collections.abc import Sequence

from figeval.errors import FigevalError
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.statistic import mean_of
from figeval.models.capabilities import ask
from figeval.models.model import Model
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.routes import cosines
from figeval.types import JSON, Text, TextPair

MAX_BLIND_ITEMS = 10_000  # items of a split to which blind rules are applied
MAX_SCORED_ITEMS = 1000  # items of a split that models score


def apply_blind_rules(examples: Sequence[ChoiceExample], seed: int) -> list[JSON]:
    """Apply every blind rule to the items of a split, and flag those whose interval does not contain chance (`off`).

    Rules that know the labels of the other half are left out: if every option is right once, they know for certain that
    an option that was right elsewhere is wrong here, whatever the negatives are. Without the wing of audits, no
    rule is applied.
    """
    try:
        from figeval.wings.audit.blind_rules import LABELS, blind_rules
    except ModuleNotFoundError:
        return []
    results = []
    for rule in blind_rules(examples[:MAX_BLIND_ITEMS], seed):
        if rule.knows == LABELS:
            continue
        aggregator = MetricAggregator(rule.name, mean_of(lambda _example, _prediction: None))
        for example, hit in zip(examples, rule.hits.tolist(), strict=False):
            aggregator.add(example.cluster, (hit, 1.0))
        score = aggregator.score()
        chance = 1 / len(examples[0].options)
        has_interval = score.value is not None and score.low is not None and score.high is not None
        off = has_interval and not (score.low or 0) - 1e-9 <= chance <= (score.high or 0) + 1e-9
        numbers = {"value": score.value, "low": score.low, "high": score.high}
        rounded = {name: None if value is None else round(value, 4) for name, value in numbers.items()}
        results.append({"rule": rule.name, "knows": rule.knows, **rounded, "chance": chance, "off": off})
    return results


def count_ambiguous(examples: Sequence[ChoiceExample], model: Model) -> JSON:
    """Count the items for which a model finds a negative closer to the story than the right moral.

    The items for which the right moral is closer than all negatives are counted as well.

    Raises:
        FigevalError: the model can neither embed nor score pairs.
    """
    closer = closest = 0
    if model.learns:
        model.fit(examples)
    for example in examples:
        scores = _scores(example, model)
        right = scores[example.gold or 0]
        best = max(score for index, score in enumerate(scores) if index != example.gold)
        closer += best > right
        closest += best < right
    return {"items": len(examples), "negative_closer": closer, "gold_closest": closest}


def _scores(example: ChoiceExample, model: Model) -> list[float]:
    if "embed" in model.offers:
        texts = [Text(example.query, "query"), *(Text(option, "document") for option in example.options)]
        story, *options = ask(model.backend, texts).values
        return [float(score) for score in cosines(story, options)]
    if "score_pairs" not in model.offers:
        raise FigevalError(f"{model.name} can neither embed nor score pairs")
    return [float(score) for score in ask(model.backend, [TextPair(example.query, o) for o in example.options]).values]
