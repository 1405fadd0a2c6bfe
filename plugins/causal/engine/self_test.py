"""The self-test, which finds the best strategy for a model on a small sample before the first request.

Nothing is assumed about an architecture: the first strategy that gives the same log-likelihoods as plain rows is used.
A model that supports none of them is read in plain rows, and the record says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...encoders.batching import free_memory
from ...encoders.loading import one_line, positions
from .bodies import bytes_per_token, fuse_activations, head, last_feed_forward, only_at
from .packed import PLAIN, Answer, Engine
from .prefix_tree import TokenRequest
from .reading_plan import Shape
from .views import LONGEST_TRIED, ReadStrategy, strategies_for, windows

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module
    from transformers import PretrainedConfig, PreTrainedModel

TOLERANCE = 1e-4  # nats per request, in single precision
HALF_TOLERANCE = 0.05  # nats per token in half precision; a wrong mask costs tenths or more
REFUSALS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError)
CONTEXT = 24
# Most tokens per batch: on a CPU, the activations of a larger one leave the caches, which costs up to a fifth.
MOST = {"cpu": 512}


def settle(engine: Engine) -> Engine:
    """Set the engine to the best strategy that its model supports, within free memory."""
    engine.budget.limit(free_memory(str(engine.device)), bytes_per_token(engine.model))
    engine.budget.tokens = min(engine.budget.tokens, MOST.get(engine.device.type, engine.budget.tokens))
    fuse_activations(engine.model)
    engine.body = separable_body(engine.model, engine.device)
    engine.last = separable_last(engine.body, engine.device)
    failures = []
    for strategy in strategies_for(engine.model.config, Shape.on(engine.device.type)):
        failure = difference(engine, strategy)
        if not failure:
            engine.strategy = strategy
            break
        failures.append(f"{strategy.name}: {failure}")
    if not engine.strategy.shape.trees:
        engine.reason = "; ".join(failures)
    engine.forget()
    return engine


def difference(engine: Engine, strategy: ReadStrategy) -> str:
    """Return what is wrong with a strategy, or "" if nothing is."""
    import torch

    sample = sample_for(engine.model.config, positions(engine.model))
    tight = replace(strategy, shape=replace(strategy.shape, branches=12, width=24))  # because the sample is small
    plain = engine.score_by(PLAIN, sample)
    try:
        values = engine.score_by(tight, sample)
    except REFUSALS as error:
        return f"{type(error).__name__}: {one_line(error)[:120]}"
    apart = gaps(plain, values)
    single = next(engine.model.parameters()).dtype in (torch.float32, torch.float64)
    allowed = [TOLERANCE if single else HALF_TOLERANCE * request.predicted for request in sample]
    agree = all(gap <= limit for gap, limit in zip(apart, allowed, strict=True))
    return "" if agree else f"differs by {max(apart):.2g} nats"


def gaps(left: Sequence[Answer], right: Sequence[Answer]) -> list[float]:
    """Return the differences of two sets of log-likelihoods; infinite if one of a pair is NaN."""
    differences = [abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True)]
    return [math.inf if math.isnan(difference) else difference for difference in differences]


def separable_body(model: PreTrainedModel, device: torch.device) -> Module | None:
    """Return the module whose states give the head the same scores, tested on a few tokens; None if there is none."""
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


def separable_last(body: Module | None, device: torch.device) -> Module | None:
    """Return the feed-forward part of a body's last layer if it can be run at chosen tokens only, else None.

    That is so if the states at those tokens stay the same.
    """
    import torch

    if body is None or (last := last_feed_forward(body)) is None:
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


def alike(part: Tensor, whole: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding."""
    import torch

    tolerance = 1e-4 if whole.dtype in (torch.float32, torch.float64) else 2e-2
    same = part.shape == whole.shape and torch.allclose(part.float(), whole.float(), rtol=tolerance, atol=tolerance)
    return bool(same)


def sample_for(config: PretrainedConfig, limit: int | None) -> list[TokenRequest]:
    """Return texts that differ where it matters.

    Two contexts begin alike, they have one or several continuations that begin alike, and they are longer than every
    window that can be tested.
    """
    tried = [window for window in windows(config) if window <= LONGEST_TRIED]
    context = min(max([CONTEXT, *(window + 8 for window in tried)]), (limit or LONGEST_TRIED * 2) - 12)
    some = np.random.default_rng(0).integers(5, min(config.vocab_size, 4_096), size=(8, context + 12)).tolist()
    shared_prefix, ends = some[0][: context // 2], [line[: context - context // 2] for line in some[1:4]]
    continuations = [some[4][:1], some[4][:5], some[4][:3] + some[5][:4], some[6][:7], some[7][:2]]
    return [TokenRequest((*shared_prefix, *end, *words), len(words)) for end in ends for words in continuations]
