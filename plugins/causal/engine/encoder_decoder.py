"""Log-likelihoods of an encoder-decoder: a context is encoded once and shared by all its continuations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from figeval.types import JSON

from ...torch_models.batching import TokenBudget, run_batches
from ...torch_models.tokens import pad
from .packed import Answer, TokenCount, logits_at_once
from .prefix_tree import TokenRequest

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Story:
    """A context in tokens, and the requests that share it."""

    ids: tuple[int, ...]
    requests: list[int]


class EncoderDecoder:
    """An engine that scores continuations with a transformers encoder-decoder."""

    def __init__(self, model: PreTrainedModel, device: torch.device, budget: TokenBudget) -> None:
        self.model = model
        self.device = device
        self.budget = budget
        self.tokens = TokenCount()

    def score(self, requests: Sequence[TokenRequest]) -> list[Answer]:
        """Return Σ log P(token) of each continuation, in nats, and whether it is the greedy one."""
        import torch

        stories = group_by_context(requests)
        lengths = [len(story.ids) for story in stories]
        self.tokens.read += sum(lengths) + sum(request.predicted for request in requests)
        self.tokens.plain += sum(len(request.ids) for request in requests)
        with torch.inference_mode():
            pairs = run_batches(lengths, partial(self._read, requests, stories), self.budget)
        answers = {index: answer for story in pairs for index, answer in story}
        return [answers[index] for index in range(len(requests))]

    def _read(
        self, requests: Sequence[TokenRequest], stories: Sequence[Story], indices: list[int]
    ) -> list[list[tuple[int, Answer]]]:
        """Encode some contexts, then decode the continuations of each in batches of similar length."""
        ids, mask = pad([stories[index].ids for index in indices], 0, self.device)
        states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        targets = [(line, index) for line, story in enumerate(indices) for index in stories[story].requests]

        def decode(rows: list[int]) -> list[Answer]:
            lines = [targets[row][0] for row in rows]
            ends = [requests[targets[row][1]] for row in rows]
            return self._decode(states[lines], mask[lines], [end.ids[-end.predicted :] for end in ends])

        room = logits_at_once(self.model, self.device)
        budget = TokenBudget(min(self.budget.tokens, room), self.budget.rows)
        answers = run_batches([requests[index].predicted for _, index in targets], decode, budget, report=None)
        pairs: list[list[tuple[int, Answer]]] = [[] for _ in indices]
        for (line, index), answer in zip(targets, answers, strict=True):
            pairs[line].append((index, answer))
        return pairs

    def _decode(self, states: Tensor, mask: Tensor, continuations: list[tuple[int, ...]]) -> list[Answer]:
        from transformers.modeling_outputs import BaseModelOutput

        labels, _ = pad(continuations, IGNORED, self.device)
        inputs = self.model.prepare_decoder_input_ids_from_labels(labels)
        encoder_output = BaseModelOutput(last_hidden_state=states)
        logits = self.model(
            encoder_outputs=encoder_output, attention_mask=mask, decoder_input_ids=inputs
        ).logits.float()
        is_token = labels != IGNORED
        words = labels.clamp_min(0)
        logprobs = logits.gather(-1, words.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        sums = logprobs.double().masked_fill(~is_token, 0).sum(-1).tolist()
        greedy = ((logits.argmax(-1) == words) | ~is_token).all(-1).tolist()
        return list(zip(sums, greedy, strict=True))

    def describe(self) -> JSON:
        """Return the strategy, and the number of tokens that it saves."""
        description: JSON = {"scoring": "contexts encoded once"}
        return description | ({"tokens": self.tokens.describe()} if self.tokens.read else {})


def group_by_context(requests: Sequence[TokenRequest]) -> list[Story]:
    """Group requests that share a context, so that it is encoded once."""
    stories: dict[tuple[int, ...], list[int]] = {}
    for index, request in enumerate(requests):
        stories.setdefault(request.ids[: -request.predicted], []).append(index)
    return [Story(ids, indexes) for ids, indexes in stories.items()]
