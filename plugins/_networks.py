"""Two kinds of encoder made alike: a batch of token ids in, a vector per row out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figeval.errors import ModelError

from ._loading import check_weights, input_limit, load_errors, load_model, load_tokenizer, one_line, quiet
from ._neural import Setup
from ._settings import Settings, one_of

COSINE = "cosine"
# (states (rows, length, d), mask (rows, length), model output) → (rows, d)
Pooling = Callable[[Any, Any, Any], Any]


def first_token(states: Any, _mask: Any, _output: Any) -> Any:
    """The state of the first token."""
    return states[:, 0]


def mean_token(states: Any, mask: Any, _output: Any) -> Any:
    """The mean of the states of all tokens that are no padding, in float32."""
    weights = mask.unsqueeze(-1).float()
    return (states.float() * weights).sum(1) / weights.sum(1)


def last_token(states: Any, mask: Any, _output: Any) -> Any:
    """The state of the last token that is no padding."""
    import torch

    return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]


def pooler_output(_states: Any, _mask: Any, output: Any) -> Any:
    """What the model's own pooling layer returns.

    Raises:
        ModelError: it has none.
    """
    pooled = getattr(output, "pooler_output", None)
    if pooled is None:
        raise ModelError("pooling=pooler: this model has no pooling layer; declare cls, mean or last")
    return pooled


POOLINGS: dict[str, Pooling] = {"cls": first_token, "mean": mean_token, "pooler": pooler_output, "last": last_token}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings(Settings):
    """`pooling` (cls, mean, pooler, last) is for raw encoders and needed there.

    `normalize` scales vectors to length 1 (True), keeps them from being scaled (False), or leaves it to the
    checkpoint (None). `similarity` is how they are compared: "cosine" (also None) or "dot".
    """

    pooling: str | None = None
    normalize: bool | None = None
    similarity: str | None = None

    def __post_init__(self) -> None:
        # super() without arguments fails in a dataclass with slots: the decorator makes the class anew.
        Settings.__post_init__(self)
        if self.pooling is not None:
            one_of("pooling", self.pooling, tuple(POOLINGS))
        if self.similarity is not None:
            one_of("similarity", self.similarity, (COSINE, "dot"))


@dataclass(frozen=True, slots=True)
class EncoderNetwork:
    """A loaded encoder: `vectors(batch)` maps input_ids and attention_mask (rows, length) to vectors (rows, d).

    Where sentence-transformers has no token ids to give (static word vectors, a default prompt), `tokenizer` is None
    and `encode(texts, rows)` does all.
    """

    model: Any
    tokenizer: Any
    limit: int | None
    pooling: str
    vectors: Callable[[dict[str, Any]], Any]
    encode: Callable[[list[str], int], Any] | None = None


def raw_network(setup: Setup[EncoderSettings]) -> EncoderNetwork:
    """An encoder without pooling of its own, and the pooling that was declared."""
    from transformers import AutoModel

    declared = setup.settings.pooling or ""
    tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
    model = load_model(AutoModel, setup, spare="" if declared == "pooler" else "pooler")
    if model.config.is_encoder_decoder:
        model = model.get_encoder()

    def vectors(batch: dict[str, Any]) -> Any:
        output = model(**batch, return_dict=True)
        return POOLINGS[declared](output.last_hidden_state, batch["attention_mask"], output)

    limit = input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
    return EncoderNetwork(model, tokenizer, limit, declared, vectors)


def sentence_network(setup: Setup[EncoderSettings]) -> EncoderNetwork:
    """A sentence-transformers checkpoint with its own modules, run in their order."""
    settings = setup.settings
    model = load_sentence_transformer(setup)
    # By name: the library has moved its modules from place to place.
    unwanted = "Normalize" if settings.normalize is False else None
    modules = [module for module in model if type(module).__name__ != unwanted]
    pooling = "+".join(type(module).__name__ for module in modules[1:])

    def vectors(batch: dict[str, Any]) -> Any:
        features = {**batch, "modality": "text"}
        for module in modules:
            features = module(features)
        return features["sentence_embedding"]

    def encode(texts: list[str], rows: int) -> Any:
        return model.encode(texts, batch_size=rows, show_progress_bar=False)

    first = modules[0]
    if hasattr(first, "auto_model") and not model.default_prompt_name:
        limit = input_limit(settings.max_length, model.max_seq_length, first.auto_model)
        return EncoderNetwork(model, first.tokenizer, limit, pooling, vectors)
    if settings.max_length is not None:
        raise ModelError(f"{setup.checkpoint.model!r} settles lengths itself; leave max_length= out")
    return EncoderNetwork(model, None, None, pooling, vectors, encode)


def load_sentence_transformer(setup: Setup[EncoderSettings]) -> Any:
    """The SentenceTransformer in evaluation mode.

    Raises:
        ModelError: the library cannot load it.
    """
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = getattr(torch, setup.dtype)
    try:
        with quiet():
            model = SentenceTransformer(
                str(setup.checkpoint.folder_here()),
                device=setup.device,
                trust_remote_code=setup.settings.trust_remote_code,
                model_kwargs={"dtype": dtype},
            )
    except load_errors() as error:
        reason = one_line(error)
        raise ModelError(f"sentence-transformers cannot load {setup.checkpoint.model!r}: {reason}") from error
    _check(model, setup)
    return model.to(dtype).eval()  # its dense layers come as they were stored


def _check(model: Any, setup: Setup[EncoderSettings]) -> None:
    """Read once more which weights of the transformer found a place, since the library does not say; no weight is read.

    Raises:
        ModelError: some are missing or left over.
    """
    inner = getattr(next(iter(model), None), "auto_model", None)
    if inner is None or not Path(inner.name_or_path).is_dir():
        return
    options = {"device_map": "meta", "trust_remote_code": setup.settings.trust_remote_code}
    try:
        with quiet():
            again, report = type(inner).from_pretrained(inner.name_or_path, output_loading_info=True, **options)
    except load_errors():  # it could be loaded, which is what counts
        return
    checkpoint = setup.checkpoint
    check_weights(again, report, checkpoint.model, checkpoint.architecture or "something else", "pooler")
