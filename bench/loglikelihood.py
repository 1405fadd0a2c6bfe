"""Compare figeval's log-likelihoods with those of lm-eval's own `hf` model: their speed and their values.

    python bench/loglikelihood.py [--model gpt2|smollm2] [--only NAME …] [--share S] [--resume] [--threads T]

Both score the same requests with the same weights in one process, taking turns, on real narratives and proverbs of
ePiC: random weights in GPT-2's shape (12 layers, 768 wide, a vocabulary of 50,257), or the real weights of
SmolLM2-135M-Instruct (30 layers, 576 wide, nine heads that share keys and values in threes, a vocabulary of 49,152).
lm-eval's batch size is the best of 8, 16 and 32, tried on a part of the requests. The time covers everything from texts
to numbers: tokenisation, planning and forward passes. The speed-up is compared with the ratio of multiply-adds: those
for the tokens that lm-eval forwards to those for the tokens that figeval forwards, in the layers, in attention and,
where it is computed, in the output layer. That ratio is not an upper bound: activation functions and softmax take time,
too, and figeval computes less of both.

What bounds an implementation is the arithmetic that it cannot do without: each side's multiply-adds, at the rate at
which this machine multiplies 512 tokens with the model's own matrices, which is measured before each workload. The
share of that bound is what figeval is judged by where requests have little in common; where they have much, by the
speed-up.

Time is also given in seconds of processor time, which other programs on the machine affect less.

With real weights, a few requests are also scored in double precision, by lm-eval alone and by lm-eval in batches: the
differences between the two implementations are rounding if neither is further from double precision than the other.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from peak import Memory
from rounding import Answers, rounding
from store import FOLDER, store

TEMPLATE = "epic/proverb.en.jinja"
BATCH_SIZES = (8, 16, 32)
TRIAL_REQUESTS = 32  # requests on which batch sizes are tried
MAX_DIFFERENCE = {
    "gpt2": 1e-4,
    "smollm2": 5e-4,
}  # nats per request; real weights: see rounding.py
ROUNDING_DOCUMENTS = 4  # documents whose requests are also scored in double precision
SHOTS = 4
ROWS = 512  # tokens in a product of matrices: those of the engine's batches
PRODUCTS = 5  # of all matrices, of which the fastest counts
MIN_SHARE = 0.6  # of the bound; .67 on two quiet cores
LAYERS, WIDTH, VOCABULARY = 12, 768, 50_257


@dataclass(frozen=True)
class Workload:
    """A number of documents with their options, and what figeval has to reach.

    Attributes:
        name: name of the workload.
        task: task whose test examples are the documents.
        documents: number of documents.
        shots: number of solved examples before each.
        bar: how many times faster than lm-eval figeval has to be; None if its share of the bound counts instead.
        turns: number of parts in which the two take turns.
    """

    name: str
    task: str
    documents: int
    shots: int
    bar: float | None
    turns: int = 1


WORKLOADS = (
    Workload("5 choices", "epic_mcq", 64, 0, None, turns=2),
    Workload("5 choices, 4-shot", "epic_mcq", 24, SHOTS, 15, turns=2),
    Workload("250 candidates", "epic_retrieval_seen", 3, 0, 12, turns=3),
    Workload("250 candidates, 4-shot", "epic_retrieval_seen", 1, SHOTS, 25),
)
Texts = tuple[str, str]


# ---- requests and the model ------------------------------------------------------------------------------------------


def options(example: Any) -> tuple[str, ...]:
    return example.options if hasattr(example, "options") else example.candidates


def requests(workload: Workload) -> list[Texts]:
    """Return (context, continuation) of every option of every document; all show the same solved examples."""
    from figeval.prompts import load_template
    from figeval.runs import Harness

    template, harness = load_template(TEMPLATE), Harness()

    def render(block: str, **variables: Any) -> str:
        return template.render(block, variables)

    (train,) = harness.catalogue.expand(["epic_retrieval_seen"])
    solved = [
        render("context", query=shot.query) + render("continuation", option=shot.candidates[min(shot.relevant)])
        for shot in islice(harness.examples(train, "train"), 0, 100 * workload.shots, 100)
    ]
    before = "".join(f"{shot}\n\n" for shot in solved)
    (task,) = harness.catalogue.expand([workload.task])
    documents = islice(harness.examples(task), 0, 13 * workload.documents, 13)
    return [
        (before + render("context", query=example.query), render("continuation", option=option))
        for example in documents
        for option in options(example)
    ]


def tokenizer_for(texts: Iterator[str]) -> Any:
    """Train a byte-level tokenizer of at most GPT-2's size on the narratives, since GPT-2's own is not available."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    end = "<|endoftext|>"
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[end], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, model_max_length=1024)


def narratives() -> Iterator[str]:
    from figeval.runs import Harness

    harness = Harness()
    (task,) = harness.catalogue.expand(["epic_retrieval_all"])
    for example in harness.examples(task):
        yield example.query


def model_of_gpt2s_shape() -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=LAYERS, n_embd=WIDTH, vocab_size=VOCABULARY)).eval()


def smollm2() -> tuple[Any, Any]:
    """Return the model, in single precision, and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from figeval.builtin.plugins.causal.packaged import SMOLLM2

    folder = SMOLLM2.folder()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(folder)


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "gpt2": lambda: (model_of_gpt2s_shape(), tokenizer_for(narratives())),
    "smollm2": smollm2,
}


# ---- the two ---------------------------------------------------------------------------------------------------------


def timed(
    ask: Callable[[list[Any]], Any], instances: list[Any]
) -> tuple[float, float, float, list[tuple[float, bool]]]:
    """Return the seconds, the seconds of processor time, the MiB and the answers of one call."""
    with Memory() as memory:
        began, worked = time.perf_counter(), time.process_time()
        answers = ask(instances)
        seconds, processor = time.perf_counter() - began, time.process_time() - worked
    return seconds, processor, memory.grown, answers


def instances_of(texts: list[Texts]) -> list[Any]:
    from figeval.builtin.plugins.lm_eval_bridge.releases import instances

    return instances("loglikelihood", texts)


@dataclass
class OperationCount:
    """Number of operations of one way to process some requests."""

    tokens: int = 0
    attended: int = 0  # pairs of a token and one that it attends to
    predicted: int = 0  # positions whose vocabulary is scored

    def of(self, model: Any) -> float:
        """Return the multiply-adds in a model's layers, in attention and in its output layer."""
        config, head = model.config, model.get_output_embeddings().weight
        weights = sum(matrix.numel() for matrix in matrices(model))
        attention = 2 * config.num_hidden_layers * config.hidden_size * self.attended
        return float(weights * self.tokens + attention + head.numel() * self.predicted)


def matrices(model: Any) -> list[Any]:
    """Return the matrices of a model's layers."""
    layers = [
        parameter
        for name, parameter in model.base_model.named_parameters()
        if parameter.dim() == 2 and ".weight" in name
    ]
    vectors = {id(module.weight) for module in model.modules() if type(module).__name__ == "Embedding"}
    return [layer for layer in layers if id(layer) not in vectors]


def product_rate(model: Any) -> float:
    """Return the multiply-adds per second of processor time in products of some tokens with a model's matrices."""
    import torch

    weights = matrices(model)
    states = {width: torch.randn(ROWS, width) for weight in weights for width in weight.shape}
    times = []
    with torch.inference_mode():
        for _ in range(PRODUCTS):
            began = time.process_time()
            for weight in weights:
                torch.nn.functional.linear(states[weight.shape[1]], weight)
            times.append(time.process_time() - began)
    return ROWS * sum(weight.numel() for weight in weights) / min(times)


def cost_of_rows(texts: list[Texts], encode: Callable[[str], list[int]]) -> OperationCount:
    """Return the cost of one row per request, with every position scored and without padding."""
    lengths = [len(encode(context + continuation)) - 1 for context, continuation in texts]
    return OperationCount(sum(lengths), sum(length * (length + 1) // 2 for length in lengths), sum(lengths))


def cost_of_forest(texts: list[Texts], lm: Any) -> OperationCount:
    """Return the cost of reading every token once, and of scoring the vocabulary only at predicted positions."""
    import numpy as np

    from figeval.builtin.plugins.causal.engine.prefix_tree import build_tree
    from figeval.builtin.plugins.causal.lm_eval_requests import encode_pairs, fit_request

    forest = build_tree([fit_request("causal", *pair, lm.max_length) for pair in encode_pairs(lm, texts)])
    predicted = len(np.unique(forest.asked[:, 0]))
    return OperationCount(len(forest.tokens), int((forest.depth + 1).sum()), predicted)


def best_batch(theirs: Any, instances: list[Any]) -> int:
    """Return the batch size with which lm-eval is fastest on the first requests."""
    tries = {}
    for size in BATCH_SIZES:
        theirs.batch_size_per_gpu = size
        tries[size] = timed(lambda part: theirs.loglikelihood(part, disable_tqdm=True), instances[:TRIAL_REQUESTS])[1]
    print("  lm-eval on the first requests: " + ", ".join(f"batch {size} {s:.1f} s" for size, s in tries.items()))
    return min(tries, key=tries.__getitem__)


@dataclass
class Implementation:
    """One of the two implementations, with its seconds and processor time per turn, peak memory, and answers.

    `share` is that of the bound: the time of its multiply-adds at the rate of the machine, divided by its time.
    """

    lm: Any
    share: float = 0.0
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    memory: float = 0.0
    answers: Answers = field(default_factory=list)

    def take_turn(self, instances: list[Any]) -> None:
        costs = timed(lambda part: self.lm.loglikelihood(part, disable_tqdm=True), instances)
        seconds, processor, memory, answers = costs
        self.seconds.append(seconds)
        self.processor.append(processor)
        self.memory = max(self.memory, memory)
        self.answers += answers

    def figures(self, tokens: int) -> dict[str, float]:
        seconds, processor = sum(self.seconds), sum(self.processor)
        figures = {"tokens": tokens, "seconds": seconds, "processor_seconds": processor, "memory_mib": self.memory}
        return figures | {"share_of_bound": self.share}


def compare(workload: Workload, ours: Any, theirs: Any, close: float) -> tuple[bool, dict[str, Any]]:
    """Print the figures of one workload, and return whether it reaches its bar, with the figures."""
    texts = requests(workload)
    print(f"\n{workload.name}: {workload.documents} documents, {len(texts):,} requests, {workload.turns} turns")
    instances = instances_of(texts)
    theirs.batch_size_per_gpu = best_batch(theirs, instances)
    ours.engine.tokens.read = 0
    our_side, their_side = Implementation(ours), Implementation(theirs)
    rate = product_rate(theirs.model)
    size = len(instances) // workload.turns
    for start in range(0, len(instances), size):
        for side in (our_side, their_side):
            side.take_turn(instances[start : start + size])
    rows, forest = cost_of_rows(texts, theirs.tok_encode), cost_of_forest(texts, ours)
    fewer = rows.of(theirs.model) / forest.of(theirs.model)
    for name, side, tokens, cost in (
        (f"lm-eval, batch {theirs.batch_size}", their_side, rows.tokens, rows),
        ("figeval", our_side, ours.engine.tokens.read, forest),
    ):
        seconds = sum(side.seconds)
        side.share = cost.of(theirs.model) / rate / sum(side.processor)
        print(
            f"  {name:18s} {tokens:9,} tokens {seconds:8.2f} s {side.memory:6.0f} MiB more, "
            f"{side.share:.0%} of the bound"
        )
    print(f"  fewer: tokens by {rows.tokens / forest.tokens:.1f}, multiply-adds by {fewer:.1f}")
    reached, judgement = compare_sides(workload, our_side, their_side, close)
    figures = {
        "documents": workload.documents,
        "requests": len(texts),
        "batch_size": theirs.batch_size,
        "lm_eval": their_side.figures(rows.tokens),
        "figeval": our_side.figures(ours.engine.tokens.read),
        "multiply_adds": fewer,
        **judgement,
    }
    return reached, figures


def compare_sides(
    workload: Workload, our_side: Implementation, their_side: Implementation, close: float
) -> tuple[bool, dict[str, float]]:
    """Print how the two sides' answers and times compare, and return whether the bar is reached, with the figures."""
    pairs = list(zip(our_side.answers, their_side.answers, strict=True))
    difference = max(abs(a - b) for (a, _), (b, _) in pairs)
    same = sum(a == b for (_, a), (_, b) in pairs)
    print(f"  largest difference {difference:.1e}, is_greedy the same for {same:,} of {len(pairs):,}")
    ratio = sum(their_side.seconds) / sum(our_side.seconds)
    processor = sum(their_side.processor) / sum(our_side.processor)
    turns = [b / a for a, b in zip(our_side.seconds, their_side.seconds, strict=True)]
    bar = f"{MIN_SHARE:.0%} of the bound" if workload.bar is None else f"{workload.bar:g} times"
    print(
        f"  {ratio:.1f} times as fast (turns {min(turns):.1f} to {max(turns):.1f}), {processor:.1f} in processor time; "
        f"the bar is {bar}",
        flush=True,
    )
    fast = our_side.share >= MIN_SHARE if workload.bar is None else ratio >= workload.bar
    return fast and difference <= close and same == len(pairs), {
        "ratio": ratio,
        "processor_ratio": processor,
        "lowest": min(turns),
        "highest": max(turns),
        "apart": difference,
        "greedy_same": same,
    }


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt2")
    parser.add_argument("--only", action="append", help="run only the workload of this name; may be repeated")
    parser.add_argument("--share", type=float, default=1.0, help="share of the documents of every workload to ask")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/loglikelihood[_MODEL].json")
    parser.add_argument("--resume", action="store_true", help="keep what is stored, and measure what is missing there")
    return parser.parse_args()


def chosen_workloads(only: list[str] | None, share: float) -> list[Workload]:
    """Return the workloads of these names, or all, with a share of their documents, at least one."""
    workloads = [workload for workload in WORKLOADS if not only or workload.name in only]
    sizes = [max(1, round(share * workload.documents)) for workload in workloads]
    return [
        replace(workload, documents=n, turns=min(workload.turns, n))
        for workload, n in zip(workloads, sizes, strict=True)
    ]


def stored_figures(name: str) -> dict[str, Any]:
    """Return the figures of a stored record, or none."""
    file = FOLDER / f"{name}.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))["figures"]) if file.is_file() else {}


def main() -> int:
    """Print the figures and return 1 if a bar is missed."""
    flags = arguments()
    import torch
    from lm_eval.models.huggingface import HFLM

    from figeval.builtin.plugins.causal.figeval_hf import FigevalHF

    torch.set_num_threads(flags.threads)
    model, tokenizer = MODELS[flags.model]()
    theirs = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8)
    # It replaces parts of its model, so pass a copy.
    ours = FigevalHF(pretrained=copy.deepcopy(model), tokenizer=tokenizer)
    print(f"{flags.model}, {len(tokenizer):,} words known, {ours.engine.describe()}, {flags.threads} threads")
    warm = instances_of(requests(Workload("", "epic_mcq", 2, 0, 0)))
    for lm in (ours, theirs):
        lm.loglikelihood(warm, disable_tqdm=True)
    name = "loglikelihood" if flags.model == "gpt2" else f"loglikelihood_{flags.model}"
    figures = stored_figures(name) if flags.resume else {}
    figures |= {"model": flags.model, "threads": flags.threads}
    if flags.model != "gpt2" and "rounding" not in figures:
        sample = instances_of(requests(Workload("", "epic_mcq", ROUNDING_DOCUMENTS, 0, 0)))
        figures["rounding"] = rounding(ours, theirs, sample)
    reached = True
    for workload in chosen_workloads(flags.only, flags.share):
        if workload.name in figures:
            continue
        good, figures[workload.name] = compare(workload, ours, theirs, MAX_DIFFERENCE[flags.model])
        reached &= good
        if flags.store:  # after each, since the next one may take long
            store(name, figures)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
