"""Tokens written per second by figeval's `hf`, beside `generate` of transformers in its best batch, and vLLM if it is
installed: greedily, with the same weights.
"""

from __future__ import annotations

import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .machine import Machine
from .shapes import LLAMA, llama, texts, tokenizer

NUMBER = {"cuda": 128, "cpu": 4}  # prompts
WRITTEN = {"cuda": 128, "cpu": 8}  # tokens of an answer
WORDS = 100
BATCHES = (1, 4)  # of transformers: all prompts in one batch, or in four


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return the figures for a shape of `LLAMA`."""
    prompts = texts(NUMBER[machine.kind], WORDS, LLAMA[shape]["vocab_size"])
    with tempfile.TemporaryDirectory() as folder:
        model = llama(shape, machine.device, machine.dtype)
        words = tokenizer(LLAMA[shape]["vocab_size"])
        figures: dict[str, Any] = {"prompts": len(prompts), "tokens_each": WRITTEN[machine.kind]}
        figures["figeval"] = by_figeval(machine, model, words, prompts)
        figures["transformers"] = by_transformers(machine, model, words, prompts)
        if find_spec("vllm") is None:
            return figures | {"vllm": "not installed"}
        model.save_pretrained(folder)
        words.save_pretrained(folder)
        del model
        return figures | {"vllm": by_vllm(machine, Path(folder), prompts)}


def by_figeval(machine: Machine, model: Any, words: Any, prompts: list[str]) -> dict[str, float]:
    from figeval.builtin.plugins.causal.figeval_hf import FigevalHF
    from figeval.builtin.plugins.lm_eval_bridge.releases import instances

    lm = FigevalHF(pretrained=model, tokenizer=words, batch_size=len(prompts))
    options = {"until": [], "max_gen_toks": WRITTEN[machine.kind], "do_sample": False}
    asked = instances("generate_until", [(prompt, dict(options)) for prompt in prompts])
    lm.generate_until(asked[:2], disable_tqdm=True)
    return rate(machine, len(prompts), machine.seconds(lambda: lm.generate_until(asked, disable_tqdm=True)))


def by_transformers(machine: Machine, model: Any, words: Any, prompts: list[str]) -> dict[str, float]:
    """Return the rate in the best of some batch sizes; prompts are sorted by length, so there is little padding."""
    words.padding_side = "left"
    ordered = sorted(prompts, key=len)

    def write(size: int) -> None:
        for start in range(0, len(ordered), size):
            inputs = words(ordered[start : start + size], return_tensors="pt", padding=True).to(machine.device)
            model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                max_new_tokens=WRITTEN[machine.kind], do_sample=False, pad_token_id=words.pad_token_id,
            )  # fmt: skip

    sizes = [len(prompts) // number for number in BATCHES]
    write(min(sizes))
    return rate(machine, len(prompts), min(machine.seconds(partial(write, size)) for size in sizes))


def by_vllm(machine: Machine, folder: Path, prompts: list[str]) -> dict[str, float]:
    from vllm import LLM, SamplingParams

    model = LLM(model=str(folder), dtype=str(machine.dtype).removeprefix("torch."), gpu_memory_utilization=0.5)
    options = SamplingParams(temperature=0, max_tokens=WRITTEN[machine.kind], ignore_eos=True)
    model.generate(prompts[:2], options, use_tqdm=False)
    return rate(machine, len(prompts), machine.seconds(lambda: model.generate(prompts, options, use_tqdm=False)))


def rate(machine: Machine, prompts: int, seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "tokens_per_second": prompts * WRITTEN[machine.kind] / seconds}
