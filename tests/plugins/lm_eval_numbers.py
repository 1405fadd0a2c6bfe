"""What lm-eval's own `hf` computes, to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from figeval import Continuation


def lm_eval_loglikelihoods(
    folder: str, requests: Sequence[Continuation], *, batch_size: int = 4, **options: Any
) -> list[float]:
    """Return the log-likelihood of each continuation by lm-eval's model with these options."""
    import lm_eval.models  # noqa: F401
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import get_model

    settings = {"batch_size": batch_size, "device": "cpu"}
    lm = get_model("hf").create_from_arg_obj({"pretrained": folder, **options}, settings)
    pairs = [(request.context, request.continuation) for request in requests]
    required = signature(Instance).parameters.keys() & {"doc_id"}  # by 0.5
    instances = [
        Instance("loglikelihood", {}, pair, index, **dict.fromkeys(required, index)) for index, pair in enumerate(pairs)
    ]
    return [logprob for logprob, _ in lm.loglikelihood(instances, disable_tqdm=True)]
