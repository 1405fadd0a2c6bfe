"""Backends for bidirectional models: encoders, masked language models and the heads on them.

| module | contents |
|---|---|
| `encoder` `masked` `pair_model` `classifier` `pair_encoder` | one backend each |
| `span_finder` `joint_encoder` `markers` `pipeline` | one backend each |
| `token_matching` | `sparse` and `late_interaction`: SPLADE, ColBERT and their kind |
| `option_lists` | the question that `markers` answers, and its route |
| `prompts` | what sentence encoders read before a text, by its role |
| `sentence_modules` | whether a checkpoint needs code that comes with it |
| `label_order` | the check of what the classes of an NLI head mean |
| `extra_layers` | layers on an encoder that are saved in a file of their own |
| `bertscore` | the metric of that name |

Files, weights and batches are those of the family `torch_models`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar, MetricRegistrar, RouteRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one backend per module; `minilm` is the one small model that needs no hub."""
    summary = (
        "sentence vectors: sentence-transformers, or a raw encoder with pooling= (query_prompt=, document_prompt=, "
        "instruction=)"
    )
    register("encoder", f"{__name__}.encoder:encoder", summary)
    summary = "weights of words: SPLADE and others that sentence-transformers calls sparse"
    register("sparse", f"{__name__}.token_matching:sparse", summary)
    summary = "a vector per token: ColBERT and others that sentence-transformers calls multi-vector"
    register("late_interaction", f"{__name__}.token_matching:late_interaction", summary)
    summary = "all-MiniLM-L6-v2 from the extra `offline`, else from the model hub"
    register("minilm", f"{__name__}.encoder:minilm", summary)
    summary = "masked language model, zero-shot: pseudo-log-likelihood, cloze (pll=original)"
    register("masked", f"{__name__}.masked:masked", summary)
    summary = "NLI head (labels from its config, or labels=) or cross-encoder"
    register("pairs", f"{__name__}.pair_model:pairs", summary)
    summary = "labels of single texts: any sequence classifier (labels from its config, or labels=)"
    register("classifier", f"{__name__}.classifier:classifier", summary)
    summary = "labels of pairs, with the texts encoded separately (--head biencoder)"
    register("pair_encoder", f"{__name__}.pair_encoder:pair_encoder", summary)
    summary = "extractive head: a question-answering checkpoint (text=first, max_span=)"
    register("spans", f"{__name__}.span_finder:spans", summary)
    summary = "one encoder that ranks by its vectors and finds spans with a separate branch"
    register("joint", f"{__name__}.joint_encoder:joint", summary)
    summary = "all options read together with the text, each after a marker (--head marker)"
    register("marker", f"{__name__}.markers:marker", summary)
    register("pipeline", f"{__name__}.pipeline:pipeline", "two models as one: ranker=MODEL,spans=MODEL")


@hookimpl
def register_routes(register: RouteRegistrar) -> None:
    """Register the route for models that score the options of a question together."""
    from .option_lists import BY_MARKERS

    register("choice", BY_MARKERS)


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register the metric for --metrics; no task selects it by default."""
    register("bertscore", f"{__name__}.bertscore:bertscore", True, ["generation"])


@hookimpl
def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """Return the backend for a folder or hub id, chosen by the architecture that its config names."""
    from ..torch_models import checkpoint

    return checkpoint.resolve_backend(model, options)
