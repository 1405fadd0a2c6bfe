"""How can this model be read? Tried on a small sample against plain rows, before the first request.

Nothing is assumed of an architecture: the first way that gives the same log-likelihoods is taken. A model that honours
none of them is read in plain rows, and the record says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._batching import free_memory
from ._bodies import bytes_per_token, fuse_activations, head, last_feed_forward, only_at
from ._loading import one_line, positions
from ._packed import PLAIN, Answer, Engine
from ._views import Way, sample_for, ways_for

TOLERANCE = 1e-4  # nats per request, in single precision
HALF_TOLERANCE = 0.05  # nats per token in half precision; a wrong mask costs tenths or more
REFUSALS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError)


def settle(engine: Engine) -> Engine:
    """The engine with the best way that its model can be read, within free memory."""
    engine.budget.limit(free_memory(str(engine.device)), bytes_per_token(engine.model))
    fuse_activations(engine.model)
    engine.body = separable_body(engine.model, engine.device)
    engine.last = separable_last(engine.body, engine.device)
    failures = []
    for way in ways_for(engine.model.config):
        failure = difference(engine, way)
        if not failure:
            engine.way = way
            break
        failures.append(f"{way.name}: {failure}")
    if not engine.way.shape.trees:
        engine.reason = "; ".join(failures)
    engine.forget()
    return engine


def difference(engine: Engine, way: Way) -> str:
    """What is wrong with a way, empty if nothing is."""
    sample = sample_for(engine.model.config, positions(engine.model))
    tight = replace(way, shape=replace(way.shape, branches=12, width=24))  # the sample is small
    plain = engine.score_by(PLAIN, sample)
    try:
        values = engine.score_by(tight, sample)
    except REFUSALS as error:
        return f"{type(error).__name__}: {one_line(error)[:120]}"
    apart = gaps(plain, values)
    allowed = [TOLERANCE if is_single(engine.model) else HALF_TOLERANCE * request.predicted for request in sample]
    agree = all(gap <= limit for gap, limit in zip(apart, allowed, strict=True))
    return "" if agree else f"differs by {max(apart):.2g} nats"


def gaps(left: Sequence[Answer], right: Sequence[Answer]) -> list[float]:
    """The differences of two sets of log-likelihoods; infinite where one is NaN."""
    differences = [abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True)]
    return [math.inf if math.isnan(difference) else difference for difference in differences]


def is_single(model: Any) -> bool:
    """Whether a model's weights have single precision, or better."""
    import torch

    return next(model.parameters()).dtype in (torch.float32, torch.float64)


def separable_body(model: Any, device: Any) -> Any:
    """The module whose states make the head give the same scores, tried on a few tokens; None if none does."""
    import torch

    ids = torch.tensor([[5, 6, 7, 8]], device=device)
    with torch.inference_mode():
        whole = model(input_ids=ids).logits[0, 1:3]
        for body in (model.base_model, model.get_decoder()):
            try:
                output = body(input_ids=ids)
                part = head(model, body, output, output.last_hidden_state[0, 1:3])
            except REFUSALS:
                continue
            if alike(part, whole):
                return body
    return None


def separable_last(body: Any, device: Any) -> Any:
    """The feed-forward part of a body's last layer, if the states at some tokens are the same where it is run for
    these only; else None.
    """
    import torch

    last = None if body is None else last_feed_forward(body)
    if last is None:
        return None
    ids = torch.tensor([[5, 6, 7, 8], [8, 7, 6, 5]], device=device)
    at = (torch.tensor([0, 1, 1]), torch.tensor([3, 0, 2]))
    with torch.inference_mode():
        whole = body(input_ids=ids).last_hidden_state[at]
        try:
            with only_at(last, *at):
                part = body(input_ids=ids).last_hidden_state[at]
        except REFUSALS:
            return None
    return last if alike(part, whole) else None


def alike(part: Any, whole: Any) -> bool:
    """Whether two tensors are the same but for rounding."""
    import torch

    tolerance = 1e-4 if whole.dtype in (torch.float32, torch.float64) else 2e-2
    same = part.shape == whole.shape and torch.allclose(part.float(), whole.float(), rtol=tolerance, atol=tolerance)
    return bool(same)
