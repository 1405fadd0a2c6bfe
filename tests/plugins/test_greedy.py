"""Greedy generation in batches: each prompt gets the text that it gets alone, and rows leave when they have ended."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch

from figeval.builtin.plugins.causal.greedy import GreedyWriter
from figeval.builtin.plugins.causal.language_model import hf
from figeval.models.capabilities import ask
from figeval.models.progress import listening
from figeval.types import Message, Prompt
from tests.plugins.architectures import build
from tests.plugins.tiny import LINES, Workshop

TEXTS = [line[:length] for line in LINES for length in (5, 24)]


def prompts(most: int = 24, stop: tuple[str, ...] = ()) -> list[Prompt]:
    return [Prompt((Message("user", text),), stop=stop, max_new_tokens=most) for text in TEXTS]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "head"), [("gpt2", "LMHeadModel"), ("llama", "ForCausalLM")])
def test_a_prompt_gets_the_same_text_alone_and_in_a_batch(kind: str, head: str, workshop: Workshop) -> None:
    folder = str(workshop(kind, head))
    alone, together = hf(folder, batch_size=1), hf(folder)
    free = alone.generate(prompts()).values
    stop = free[0].text[6:8], free[3].text[10:11]
    for asked in (prompts(), prompts(stop=stop), [*prompts(9, stop)[:5], *prompts(3)[5:]]):
        assert together.generate(asked).values == alone.generate(asked).values
    cut = together.generate(prompts(stop=stop)).values
    assert any(len(reply.text) < len(whole.text) for reply, whole in zip(cut, free, strict=True))


class Ears:
    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []

    def loading(self, model: str) -> None: ...

    def asked(self, answered: int, requests: int) -> None:
        self.heard.append((answered, requests))


def test_every_text_is_reported_when_it_ends_and_the_batch_shrinks(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    stop = tuple({reply.text[4:6] for reply in backend.generate(prompts()).values[:7]})
    model, sizes = backend.network.model, []
    forward = model.forward

    @wraps(forward)  # transformers reads its signature
    def counted(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", counted)
    ears = Ears()
    with listening(ears):
        ask(backend, prompts(stop=stop))
    counts = [answered for answered, _ in ears.heard]
    assert counts == sorted(counts)
    assert counts[-1] == len(TEXTS)
    assert len(set(counts)) > 3, "not all at the end"
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == len(TEXTS) > 2 * sizes[-1]


def test_memory_that_runs_out_halves_the_batch_and_loses_no_text(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    wanted = backend.generate(prompts()).values
    model = backend.network.model
    forward = model.forward

    @wraps(forward)  # transformers reads its signature
    def small(**inputs: Any) -> Any:
        if len(inputs["input_ids"]) > len(TEXTS) // 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", small)
    parts = list(backend.generate(prompts()).parts)
    assert len(parts) > 1
    assert sorted(row for part in parts for row in part.rows) == list(range(len(TEXTS)))
    assert {row: reply for part in parts for row, reply in zip(part.rows, part.values, strict=True)} == dict(
        enumerate(wanted)
    )
    assert backend.describe()["writing"]["halved"] == 1


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma2", "Bloom", "Mamba"])
def test_caches_of_all_kinds_go_on_after_a_pause(name: str, workshop: Workshop) -> None:
    model, tokenizer = build(name).eval(), hf(str(workshop("gpt2", "LMHeadModel"))).network.tokenizer
    length, most = 9, 24
    context = torch.randint(5, 60, (6, length), generator=torch.Generator().manual_seed(3))
    alone = [GreedyWriter(model, tokenizer, ()).write(one[None], torch.ones_like(one[None]), most) for one in context]
    stop = tuple(tokenizer.decode(one[0, length + 3]) for one in alone[:3])
    writer = GreedyWriter(model, tokenizer, stop)
    together = writer.write(context, torch.ones_like(context), most)
    for row, one in zip(together.tolist(), alone, strict=True):
        written, whole = tokenizer.decode(row[length:]), tokenizer.decode(one[0, length:])
        end = min((whole.find(text) for text in stop if text in whole), default=len(whole))
        assert written[:end] == whole[:end]
