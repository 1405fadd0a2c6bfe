"""Measure how far log-likelihoods in single precision are from those in double precision, for figeval and for lm-eval.

    python bench/rounding.py [--store]

This compares the two ways to turn scores into log P. `loglikelihood.py --model smollm2` compares whole requests.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

from store import store

Answers = list[tuple[float, bool]]
SIZES = (1, 32)  # batches of lm-eval
STATES, VOCABULARY, DEVIATION = 64, 49_152, 4.0  # scores like those of a trained model


def rounding(ours: Any, theirs: Any, instances: list[Any]) -> dict[str, float]:
    """Print and return largest differences in nats between ways to score the same requests.

    Args:
        ours: an `HFLM` with figeval's engine.
        theirs: lm-eval's `HFLM` with the same weights, in single precision.
        instances: the requests.
    """
    from lm_eval.models.huggingface import HFLM

    def of_lm_eval(lm: Any, size: int) -> Answers:
        lm.batch_size_per_gpu = size
        return list(lm.loglikelihood(instances, disable_tqdm=True))

    single, batched = (of_lm_eval(theirs, size) for size in SIZES)
    packed = list(ours.loglikelihood(instances, disable_tqdm=True))
    double = HFLM(pretrained=copy.deepcopy(theirs.model).double(), tokenizer=theirs.tokenizer, softmax_dtype="float64")
    exact = of_lm_eval(double, 1)
    figures = {
        "requests": len(instances),
        "lm_eval_1_and_32": largest_difference(single, batched),
        "figeval_and_double": largest_difference(packed, exact),
        "lm_eval_1_and_double": largest_difference(single, exact),
        "lm_eval_32_and_double": largest_difference(batched, exact),
    }
    print("\nlargest differences in nats: " + ", ".join(f"{name} {value:.2g}" for name, value in figures.items()))
    return figures


def summation() -> dict[str, float]:
    """Print and return how far log P of a token is from double precision, as lm-eval and as figeval compute it.

    lm-eval takes `log_softmax`, figeval `logsumexp`. Both add up the whole vocabulary in single precision, but one of
    them in fewer steps that depend on each other. The figures are largest differences in nats per token.
    """
    import torch

    scores = torch.randn(STATES, VOCABULARY, generator=torch.Generator().manual_seed(0)) * DEVIATION
    exact = scores.double().log_softmax(-1)
    ways = {
        "log_softmax": scores.log_softmax(-1),
        "logsumexp": scores - scores.logsumexp(-1, keepdim=True),
    }
    figures = {name: float((values.double() - exact).abs()[:, 0].max()) for name, values in ways.items()}
    print(
        "largest differences in nats per token: " + ", ".join(f"{name} {value:.2g}" for name, value in figures.items())
    )
    return figures


def largest_difference(left: Answers, right: Answers) -> float:
    """Return the largest difference of two sets of log-likelihoods."""
    return max(abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True))


def main() -> int:
    """Print the figures, and store them if asked."""
    figures = summation()
    if "--store" in sys.argv[1:]:
        store("rounding", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
