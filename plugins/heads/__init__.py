"""Trainable heads, one module each; the training loop depends only on their common contract (`figeval.Learner`).

A module holds the options of a head, its features, its network and its learner. Shared modules are `base_model` (the
model that a training starts from), `inputs` (batches of heads on encoders), `language` and `noise` (rows of language
models). The modules import torch, so they are imported only when a training begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import LearnerRegistrar


@hookimpl
def register_learners(register: LearnerRegistrar) -> None:
    """Register heads by task type; the first head of a task type is its default."""
    about = "query and candidates encoded separately, all candidates in every step"
    register("ranking", "biencoder", f"{__name__}.biencoder:ranking", about)
    register("generation", "seq2seq", f"{__name__}.writing:seq2seq", "an encoder-decoder that writes from the inputs")
    register("generation", "causal", f"{__name__}.writing:causal", "a causal model that writes after the inputs")
    register("*", "mlm", f"{__name__}.posttraining:mlm", "unlabelled text: words under masks (texts=FILE)")
    register(
        "*", "infill", f"{__name__}.posttraining:infill", "unlabelled text: spans, for encoder-decoders (texts=FILE)"
    )
    register(
        "ranking",
        "cross",
        f"{__name__}.cross_encoder:ranking",
        "query and candidate together, with some wrong candidates per step",
    )
    register(
        "choice", "cross", f"{__name__}.cross_encoder:choice", "query and option together, softmax over the options"
    )
    register(
        "choice",
        "biencoder",
        f"{__name__}.biencoder:choice",
        "query and options encoded separately, softmax over the options",
    )
    register(
        "choice", "marker", f"{__name__}.marker:marker", "query and all options together, each after a marker token"
    )
    register("pairs", "cross", f"{__name__}.cross_encoder:pairs", "both texts together, a class for each label")
    register(
        "pairs",
        "biencoder",
        f"{__name__}.pair_biencoder:pairs",
        "both texts encoded separately, a class for each label",
    )
    register("classification", "classifier", f"{__name__}.classifier:single_label", "a text, a class for each label")
    register("multilabel", "classifier", f"{__name__}.classifier:multilabel", "a text, a sigmoid for each label")
    register("labelling", "tagger", f"{__name__}.tagger_head:tagger", "a class for each word")
    register(
        "spans", "span", f"{__name__}.span_head:span", "start and end of the span, read together with what is given"
    )
    register("joint", "joint", f"{__name__}.joint_head:joint", "one encoder for proverbs and spans")
