"""Encoders that match the tokens of two texts: sparse (SPLADE) and late interaction (ColBERT). Capability: score_pairs.

A sparse encoder gives a text a weight for each word of its vocabulary; two texts are compared by the dot product of
their weights (Formal et al. 2021). A late-interaction encoder gives a vector per token; the score is the sum over the
query's tokens of the greatest product with a token of the document (Khattab and Zaharia 2020, section 3.3).

Texts are encoded by `encode_query` and `encode_document` of sentence-transformers' own classes, the left text of a pair
as the query. Of a sparse encoding, only the weights other than 0 are stored, and all encodings only up to
`MAX_STORED_BYTES`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from figeval.errors import ModelError, OptionNeeded
from figeval.models.capabilities import Outputs
from figeval.types import JSON, TextPair

from ..torch_models.batching import free_memory, run_batches
from ..torch_models.checkpoint import Checkpoint, backend_of, locate, with_declared
from ..torch_models.loading import ModelSetup, Neural, input_limit, measures, prepare, suppress_logging
from ..torch_models.settings import Configured, Settings, one_of
from ..torch_models.tokens import tokenize
from .encoder import load_library_model
from .prompts import Prompts, check_prompts, place_prompts
from .sentence_modules import check_modules

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from figeval.types import TextRole

    Weights = tuple[NDArray[Any], NDArray[Any]]  # indexes of words, and their weights

MAX_STORED_BYTES = 1 << 28
PAIRS_AT_ONCE = 4096
LOGIT_COPIES = 3  # tensors of the logits' size that are alive while they are pooled
SPLADE_POOLINGS = ("max", "sum")
E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingSettings(Settings):
    """Options of encoders that match tokens. The prompts are those of the model `encoder`.

    Attributes:
        query_prompt: prompt before queries, by its name in the checkpoint or as a text; empty for none, None for what
            the checkpoint declares.
        document_prompt: the same before what queries are compared with.
    """

    query_prompt: str | None = None
    document_prompt: str | None = None

    def __post_init__(self) -> None:
        # super() without arguments fails in a dataclass with slots, because the decorator creates a new class.
        Settings.__post_init__(self)
        check_prompts(self.prompts)

    @property
    def prompts(self) -> dict[TextRole, str | None]:
        return {"query": self.query_prompt, "document": self.document_prompt, "": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSettings(MatchingSettings):
    """Options of sparse encoders.

    Attributes:
        pooling: max or sum over the tokens of a text, for a masked language model that was saved without its pooling.
    """

    pooling: str | None = None

    def __post_init__(self) -> None:
        MatchingSettings.__post_init__(self)
        if self.pooling is not None:
            one_of("pooling", self.pooling, SPLADE_POOLINGS)


class Encoded(NamedTuple, Generic[E]):
    """The encoding of a text, its size in bytes, and whether the text was cut."""

    encoding: E
    size: int
    truncated: bool


class Encodings(Generic[E]):
    """The encodings of the texts that were compared last, by role and text."""

    def __init__(self) -> None:
        self._encodings: OrderedDict[tuple[TextRole, str], Encoded[E]] = OrderedDict()
        self._size = 0

    def get(self, role: TextRole, text: str) -> Encoded[E] | None:
        encoded = self._encodings.get((role, text))
        if encoded is not None:
            self._encodings.move_to_end((role, text))
        return encoded

    def add(self, role: TextRole, text: str, encoded: Encoded[E]) -> None:
        """Keep an encoding, and forget the least recent ones beyond `MAX_STORED_BYTES`."""
        self._encodings[role, text] = encoded
        self._size += encoded.size
        while self._size > MAX_STORED_BYTES:
            self._size -= self._encodings.popitem(last=False)[1].size


@dataclass(frozen=True, slots=True)
class MatchingNetwork:
    """A loaded model of sentence-transformers, and the most tokens of a text by role; None for any number."""

    model: Any
    limits: Mapping[TextRole, int | None]


class TokenMatcher(Neural[MatchingSettings, MatchingNetwork], Generic[E]):
    """An encoder of sentence-transformers that compares pairs of texts."""

    library_class: ClassVar[str]
    since: ClassVar[str]  # first version of the library that has the class

    def __init__(self, setup: ModelSetup[Any], prompts: Prompts) -> None:
        super().__init__(setup)
        self.prompts = prompts
        self.encodings: Encodings[E] = Encodings()
        self.warnings += prompts.warnings(setup.checkpoint.model)

    @abstractmethod
    def compare(self, lefts: Sequence[E], rights: Sequence[E]) -> NDArray[Any]:
        """Return the scores of pairs of encodings, shape (n,), float64."""

    @abstractmethod
    def encode_rows(self, texts: list[str], role: TextRole, prompt: str | None) -> list[tuple[E, int]]:
        """Return the encodings of one batch of texts with their sizes in bytes."""

    @abstractmethod
    def limit_batches(self, model: Any) -> None:
        """Lower the budget for a model whose outputs are larger than its inputs."""

    def score_pairs(self, requests: Sequence[TextPair]) -> Outputs[float]:
        """Return how well the left text, as the query, matches the right one; NaN if a text has no token to compare.

        A text that is too long loses its end.
        """
        scores: list[float] = []
        truncated: set[int] = set()
        for begin in range(0, len(requests), PAIRS_AT_ONCE):
            block = requests[begin : begin + PAIRS_AT_ONCE]
            queries = self._encode(dict.fromkeys(request.left for request in block), "query")
            documents = self._encode(dict.fromkeys(request.right for request in block), "document")
            pairs = [(queries[request.left], documents[request.right]) for request in block]
            encodings = zip(*((left.encoding, right.encoding) for left, right in pairs), strict=True)
            scores += self.compare(*encodings).tolist()
            cut = (index for index, (left, right) in enumerate(pairs, begin) if left.truncated or right.truncated)
            truncated.update(cut)
        return Outputs(scores, truncated)

    def _encode(self, texts: Mapping[str, None], role: TextRole) -> dict[str, Encoded[E]]:
        """Return the encoding of each text."""
        encoded = {text: stored for text in texts if (stored := self.encodings.get(role, text)) is not None}
        new_texts = [text for text in texts if text not in encoded]
        if not new_texts:
            return encoded
        network = self.network
        prompt = self.setup.settings.prompts[role]
        if prompt is not None:  # else the library's, which knows more ways to declare one
            prompt = self.prompts.of(role)
        full_texts = [self.prompts.of(role) + text for text in new_texts]
        tokens = tokenize(network.model.tokenizer, full_texts, network.limits[role])

        def forward(rows: list[int]) -> list[tuple[E, int]]:
            return self.encode_rows([new_texts[row] for row in rows], role, prompt)

        for index, (encoding, size) in enumerate(run_batches(tokens.lengths, forward, self.budget)):
            text = new_texts[index]
            encoded[text] = Encoded(encoding, size, index in tokens.truncated)
            self.encodings.add(role, text, encoded[text])
        return encoded

    def encode(self, texts: list[str], role: TextRole, prompt: str | None, **options: Any) -> Any:
        """Return what the library encodes in one batch."""
        model = self.network.model
        encode = model.encode_query if role == "query" else model.encode_document
        with suppress_logging("sentence_transformers"):  # it warns of queries that are cut, which are counted
            return encode(texts, prompt=prompt, batch_size=len(texts), show_progress_bar=False, **options)

    def load(self) -> MatchingNetwork:
        """Load the model by the library's class."""
        model = load_library_model(self.setup, self.library_class, self.since)
        self.limit_batches(model)
        return MatchingNetwork(model, self.limits_of(model))

    def limits_of(self, model: Any) -> dict[TextRole, int | None]:
        """Return the most tokens of queries and documents, after setting those that --model_args asks for."""
        first, max_length = next(iter(model)), self.setup.settings.max_length
        if not hasattr(first, "auto_model"):
            if max_length is not None:
                raise ModelError(
                    f"{self.setup.checkpoint.model!r} reads its texts with a {type(first).__name__}, which takes no "
                    "maximum length; leave max_length= out"
                )
            return {"query": None, "document": None}
        limit = input_limit(max_length, model.max_seq_length, first.auto_model)
        if max_length is not None:
            model.max_seq_length = max_length
        return {"query": limit, "document": limit}

    def details(self, network: MatchingNetwork) -> JSON:
        """Return the model's size, limits and similarity, and the prompts that the library read."""
        limit = network.limits["document"]
        sizes = measures(network.model, limit) | {"max_query_length": network.limits["query"]}
        return sizes | {"similarity": str(network.model.similarity_fn_name)}

    def describe(self) -> JSON:
        """Return the model's description, with its prompts."""
        return super().describe() | self.prompts.describe()

    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and tokenizer, with the prompts if there are any."""
        return self.prompts.identity(super().fingerprint())

    def close(self) -> None:
        """Release the weights and the encodings."""
        self.encodings = Encodings()
        super().close()


# ---- sparse ----------------------------------------------------------------------------------------------------------


class SparseMatcher(TokenMatcher["Weights"]):
    """An encoder with a weight for each word of its vocabulary."""

    library_class = "SparseEncoder"
    since = "5.0"

    def load(self) -> MatchingNetwork:
        """Load the model; a masked language model gets the declared pooling."""
        network = super().load()
        if pooling := getattr(self.setup.settings, "pooling", None):
            network.model[1].pooling_strategy = pooling
        return network

    def limit_batches(self, model: Any) -> None:
        """Leave room for the scores of all words at every token."""
        words = model.get_embedding_dimension() or 1
        self.budget.limit(free_memory(self.setup.device), LOGIT_COPIES * 4 * words)

    def encode_rows(self, texts: list[str], role: TextRole, prompt: str | None) -> list[tuple[Weights, int]]:
        """Return the words with a weight other than 0, and these weights."""
        import numpy as np

        options = {"convert_to_tensor": True, "convert_to_sparse_tensor": False, "save_to_cpu": True}
        rows = self.encode(texts, role, prompt, **options).float().numpy()
        words = [np.flatnonzero(row).astype(np.int32) for row in rows]
        return [((indexes, row[indexes]), 2 * indexes.nbytes) for indexes, row in zip(words, rows, strict=True)]

    def compare(self, lefts: Sequence[Weights], rights: Sequence[Weights]) -> NDArray[Any]:
        """Return the similarities that the checkpoint declares, by default dot products."""
        import numpy as np

        score = SPARSE_SIMILARITIES[str(self.network.model.similarity_fn_name)]
        left, right = _matrix(lefts), _matrix(rights)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores: NDArray[Any] = score(left, right)
        is_broken = [bool(np.isnan(a).any() or np.isnan(b).any()) for (_, a), (_, b) in zip(lefts, rights, strict=True)]
        return np.where(is_broken, np.nan, scores)


def _matrix(rows: Sequence[Weights]) -> csr_matrix:
    """Return the weights of texts as a sparse matrix (texts, words), float64."""
    import numpy as np
    from scipy.sparse import csr_matrix

    ends = np.cumsum([0, *(len(words) for words, _ in rows)])
    words, weights = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return csr_matrix((weights.astype(np.float64), words, ends), shape=(len(rows), np.iinfo(np.int32).max))


def _sums(matrix: Any) -> Any:
    """Return the sum of each row, in the order of the words, so that equal rows have equal sums."""
    import numpy as np

    return np.asarray(matrix.sum(axis=1)).ravel()


def _norms(matrix: Any) -> Any:
    return _sums(matrix.multiply(matrix)) ** 0.5


SPARSE_SIMILARITIES: dict[str, Callable[[Any, Any], Any]] = {
    "dot": lambda left, right: _sums(left.multiply(right)),
    "cosine": lambda left, right: _sums(left.multiply(right)) / (_norms(left) * _norms(right)),
    "euclidean": lambda left, right: -_norms(left - right),
    "manhattan": lambda left, right: -_sums(abs(left - right)),
}


# ---- late interaction ------------------------------------------------------------------------------------------------


class LateMatcher(TokenMatcher["NDArray[Any]"]):
    """An encoder with a vector for each token."""

    library_class = "MultiVectorEncoder"
    since = "6.0"

    def limit_batches(self, model: Any) -> None:
        """Leave the budget as it is: the vectors are as many as the tokens."""

    def limits_of(self, model: Any) -> dict[TextRole, int | None]:
        """Return the limits that the model has for either side.

        A query is expanded to a fixed length, and also cut to that, unless --model_args sets another limit.
        """
        limits, first = super().limits_of(model), next(iter(model))
        expansion = getattr(first, "query_expansion", None) or {}
        lengths = {"query": getattr(first, "query_length", None), "document": getattr(first, "document_length", None)}
        max_length = self.setup.settings.max_length
        if max_length is not None:
            first.document_length = max_length
            longest_query = max(max_length, expansion.get("length", 0))
            if expansion:
                first.query_expansion = {**expansion, "strategy": "min"}
            first.query_length = longest_query
            return {"query": longest_query, "document": max_length}
        if expansion.get("strategy") == "fixed":
            lengths["query"] = expansion["length"]
        return {role: lengths[role] or limit for role, limit in limits.items()}

    def encode_rows(self, texts: list[str], role: TextRole, prompt: str | None) -> list[tuple[NDArray[Any], int]]:
        """Return the vectors of the tokens that count, shape (tokens, d), float32."""
        import numpy as np

        vectors = [
            np.asarray(rows, dtype=np.float32) for rows in self.encode(texts, role, prompt, convert_to_numpy=True)
        ]
        return [(rows, rows.nbytes) for rows in vectors]

    def compare(self, lefts: Sequence[NDArray[Any]], rights: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return Σ over the query's tokens of the greatest product with a token of the document, or the mean."""
        import numpy as np

        is_mean = str(self.network.model.similarity_fn_name) == "meanmaxsim"
        scores = np.full(len(lefts), np.nan)
        for index, (query, document) in enumerate(zip(lefts, rights, strict=True)):
            if len(query) and len(document):
                products = (query @ document.T).max(axis=1).astype(np.float64)
                scores[index] = products.mean() if is_mean else products.sum()
        return scores


# ---- opening ---------------------------------------------------------------------------------------------------------


def open_sparse(settings: SparseSettings) -> SparseMatcher:
    """Open a sparse encoder, or a masked language model with a pooling.

    Raises:
        ModelError: no such model, one of another kind, code of its own, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    if settings.pooling is not None and checkpoint.sentence_class:
        raise ModelError(f"{settings.model!r} brings its own pooling; leave pooling= out")
    if not checkpoint.sentence_class and checkpoint.architecture.endswith("ForMaskedLM"):
        if settings.pooling is None:
            cure = "declare it: --model_args pooling=max (SPLADE from 2021 on), or sum"
            raise OptionNeeded(f"{settings.model!r} declares no pooling", cure)
    elif backend_of(checkpoint) != "sparse":
        raise _other_kind(checkpoint, "sparse")
    return SparseMatcher(*_prepare(settings, checkpoint))


def open_late(settings: MatchingSettings) -> LateMatcher:
    """Open a late-interaction encoder.

    Raises:
        ModelError: no such model, one of another kind, code of its own, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    if backend_of(checkpoint) != "late_interaction":
        raise _other_kind(checkpoint, "late_interaction")
    return LateMatcher(*_prepare(settings, checkpoint))


def _other_kind(checkpoint: Checkpoint, name: str) -> ModelError:
    kind = checkpoint.sentence_class or checkpoint.architecture or "model without an architecture"
    backend = backend_of(checkpoint)
    cure = f"use --model {quote(f'{backend}:{checkpoint.model}')}" if backend else "no built-in backend is for that"
    return ModelError(f"{name!r} cannot use {checkpoint.model!r}, which is a {kind}; {cure}")


def _prepare(settings: MatchingSettings, checkpoint: Checkpoint) -> tuple[ModelSetup[Any], Prompts]:
    check_modules(checkpoint, trusted=settings.trust_remote_code)
    settings = with_declared(settings, checkpoint)
    return prepare(settings, checkpoint), place_prompts(checkpoint, settings.prompts)


sparse = Configured(SparseSettings, open_sparse)
late_interaction = Configured(MatchingSettings, open_late)
