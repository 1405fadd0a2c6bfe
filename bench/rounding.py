"""How far log-likelihoods in single precision are from those in double precision, for figeval and for lm-eval."""

from __future__ import annotations

import copy
from typing import Any

Answers = list[tuple[float, bool]]
SIZES = (1, 32)  # batches of lm-eval


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

    alone, batched = (of_lm_eval(theirs, size) for size in SIZES)
    packed = list(ours.loglikelihood(instances, disable_tqdm=True))
    double = HFLM(pretrained=copy.deepcopy(theirs.model).double(), tokenizer=theirs.tokenizer, softmax_dtype="float64")
    exact = of_lm_eval(double, 1)
    figures = {
        "requests": len(instances),
        "lm_eval_1_and_32": apart(alone, batched),
        "figeval_and_double": apart(packed, exact),
        "lm_eval_1_and_double": apart(alone, exact),
        "lm_eval_32_and_double": apart(batched, exact),
    }
    print("\nlargest differences in nats: " + ", ".join(f"{name} {value:.2g}" for name, value in figures.items()))
    return figures


def apart(left: Answers, right: Answers) -> float:
    """Return the largest difference of two sets of log-likelihoods."""
    return max(abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True))
