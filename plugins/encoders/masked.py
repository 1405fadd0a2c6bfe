"""Zero-shot scoring with masked language models. Capabilities: loglikelihood, fill, score_words.

A masked model defines no probability of a text; its pseudo-log-likelihood, the sum of log P(token | all other tokens),
is used instead (Salazar et al. 2020, "Masked Language Model Scoring"). The vocabulary is scored at masks only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import ModelError
from figeval.io.text import pluralize
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Cloze, Continuation

from ..torch_models.alone import Piece, encode_alone, encode_bare
from ..torch_models.checkpoint import locate, require
from ..torch_models.loading import LoadedModel, Neural, input_limit, load_model, load_tokenizer, measures, prepare
from ..torch_models.overlapping import Copy
from ..torch_models.settings import Configured, Settings, one_of
from ..torch_models.tokens import IDS, Tokens, padding_of
from .hidden_words import HiddenWords, outputs_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.utils.generic import ModelOutput

    from ..surprisal.requests import WordScores

MAX_CHUNK_REQUESTS = 1_024  # requests expanded to masked copies at a time: bounds memory, not the batch
WORDS_PER_TOKEN = 1_024  # scoring this many words takes about the memory of one token's forward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedSettings(Settings):
    """Settings of masked models.

    Attributes:
        pll: "original" masks one token at a time, "within_word_l2r" also the later tokens of its word.
    """

    pll: str = "original"

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        one_of("pll", self.pll, tuple(PLL))


TARGET_KEYS = ("rows", "columns", "places", "words")  # entries of a batch that are not the model's
Indexes: TypeAlias = "Sequence[int] | Tensor"

# ---- texts with blanks: what is asked, and at which tokens -----------------------------------------------------------

Part = tuple[str, slice]  # a text, and the slice of its characters to be scored


@dataclass(frozen=True, slots=True)
class Blank:
    """Token ids with masks, and the positions at which words are scored. Equal ones are computed once."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question for Σ_j log P(targets[j] at blank.positions[j])."""

    blank: Blank
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FittedText:
    """A text's token ids, including special ones and truncated to the model's limit.

    Attributes:
        ids: ids of the tokens.
        words: number of the word that each token belongs to.
        scored: positions of the tokens to be scored; empty if there is none, or if they exceed the model's limit.
        truncated: whether the text lost a part.
        straddling: whether a token would have joined characters to be scored and others, so that they were encoded
            apart.
    """

    ids: tuple[int, ...]
    words: tuple[int | None, ...]
    scored: range
    truncated: bool = False
    straddling: bool = False


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A text in tokens: special ones, those of the text itself (`body`), and special ones again."""

    opening: list[int]
    body: Piece
    closing: list[int]

    @classmethod
    def of(cls, encoding: BatchEncoding, index: int) -> _Encoded:
        ids, special = encoding["input_ids"][index], encoding["special_tokens_mask"][index]
        body = [position for position, is_special in enumerate(special) if not is_special]
        first, end = (body[0], body[-1] + 1) if body else (len(ids), len(ids))
        offsets, words = encoding["offset_mapping"][index], encoding.word_ids(index)
        return cls(ids[:first], Piece(ids[first:end], offsets[first:end], words[first:end]), ids[end:])

    def overlapping(self, characters: slice) -> range:
        """Return the positions in the body from the first token to the last that holds one of these characters."""
        positions = [
            position
            for position, (begin, end) in enumerate(self.body.offsets)
            if end > characters.start and begin < characters.stop
        ]
        return range(positions[0], positions[-1] + 1) if positions else range(0)


def fit_texts(tokenizer: PreTrainedTokenizerBase, parts: Sequence[Part], limit: int | None) -> list[FittedText]:
    """Tokenize texts and find the tokens to be scored; a text that is too long loses its beginning first.

    A text is tokenized as a whole, so that a word gets its leading blank if the tokenizer uses one. Only where a token
    would join characters to be scored and others are they encoded apart.
    """
    texts = [text for text, _ in parts]
    encoding = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    return [_fit_one(tokenizer, _Encoded.of(encoding, index), part, limit) for index, part in enumerate(parts)]


def _fit_one(tokenizer: PreTrainedTokenizerBase, text_tokens: _Encoded, part: Part, limit: int | None) -> FittedText:
    text, characters = part
    borders = _straddled_ends(text_tokens, text, characters)
    if borders:
        text_tokens = replace(text_tokens, body=_encode_pieces(tokenizer, text, borders))
    body, scored = text_tokens.body, text_tokens.overlapping(characters)
    size, around = len(body.ids), len(text_tokens.opening) + len(text_tokens.closing)
    room = size if limit is None else limit - around
    if len(scored) > room or not text[characters].strip():
        scored = range(size, size)
    start, stop = window(0, size, scored, room)
    first = len(text_tokens.opening) - start
    return FittedText(
        ids=(*text_tokens.opening, *body.ids[start:stop], *text_tokens.closing),
        words=(*(None for _ in text_tokens.opening), *body.words[start:stop], *(None for _ in text_tokens.closing)),
        scored=range(scored.start + first, scored.stop + first),
        truncated=stop - start < size,
        straddling=bool(borders),
    )


def _straddled_ends(text_tokens: _Encoded, text: str, characters: slice) -> list[int]:
    """Return the ends of the wanted characters that a token straddles; a blank before a word belongs to its token."""
    offsets = [text_tokens.body.offsets[position] for position in text_tokens.overlapping(characters)]
    ends = (characters.start, characters.stop)
    return [
        end
        for end in ends
        if any(begin < end < stop and text[begin:end].strip() and text[end:stop].strip() for begin, stop in offsets)
    ]


def _encode_pieces(tokenizer: PreTrainedTokenizerBase, text: str, borders: Sequence[int]) -> Piece:
    """Return the tokens of a text whose parts between some places are encoded apart."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    words: list[int | None] = []
    for begin, end in pairwise((0, *borders, len(text))):
        piece = encode_alone(tokenizer, text[begin:end]) if begin else encode_bare(tokenizer, text[begin:end])
        shift = 1 + max((word for word in words if word is not None), default=-1)
        ids += piece.ids
        offsets += [(begin + first, begin + last) for first, last in piece.offsets]
        words += [None if word is None else word + shift for word in piece.words]
    return Piece(ids, offsets, words)


def window(first: int, end: int, keep: range, room: int | None) -> tuple[int, int]:
    """Return the part of [first, end) that holds `keep`, which fits `room`: cut on the left, then on the right."""
    if room is None or end - first <= room:
        return first, end
    start = min(keep.start, end - room)
    return start, start + room


def hide(ids: Sequence[int], hidden: Sequence[int], positions: Sequence[int], mask: int) -> MaskedQuestion:
    """Return the question for the tokens at `positions`, with all of `hidden` masked."""
    masked_ids = list(ids)
    for position in hidden:
        masked_ids[position] = mask
    return MaskedQuestion(Blank(tuple(masked_ids), tuple(positions)), tuple(ids[position] for position in positions))


def gap(text: FittedText, mask: int) -> MaskedQuestion:
    """Return the question that masks all tokens of the word at once, so that they are filled independently."""
    return hide(text.ids, text.scored, text.scored, mask)


def masked_copies(text: FittedText, mask: int, *, later: bool) -> Iterator[MaskedQuestion]:
    """Yield one copy of the text per scored token, with that token masked (Salazar et al. 2020).

    With `later`, the later tokens of its word are masked too, since they would give it away (Kauf and Ivanova 2023).
    """
    for position in text.scored:
        behind = range(position + 1, text.scored.stop) if later else ()
        hidden = [
            position,
            *(later_position for later_position in behind if text.words[later_position] == text.words[position]),
        ]
        yield hide(text.ids, hidden, [position], mask)


PLL = {"original": partial(masked_copies, later=False), "within_word_l2r": partial(masked_copies, later=True)}


# ---- the backend -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MaskedNetwork(LoadedModel):
    """A loaded model. `sparse`: its head can run at the asked positions only, as checked against a full forward."""

    sparse: bool


class MaskedModel(Neural[MaskedSettings, MaskedNetwork]):
    """A masked language model that scores words under masks."""

    capabilities = ("score_words",)
    unscored = 0  # options and words that had no token, or more than the model takes

    def loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        """Return the pseudo-log-likelihoods of the continuations; a context that is too long loses its beginning.

        A continuation without a token, or one that alone exceeds the model's limit, gets NaN.
        """
        network = self.network
        copies = PLL[self.setup.settings.pll]
        values: list[float] = []
        truncated: set[int] = set()
        straddling: set[int] = set()
        for start in range(0, len(requests), MAX_CHUNK_REQUESTS):
            chunk = [
                (request.context, request.context + request.continuation)
                for request in requests[start : start + MAX_CHUNK_REQUESTS]
            ]
            # Blanks at the end of the context belong to the continuation.
            parts = [(text, slice(len(context.rstrip()), len(text))) for context, text in chunk]
            fitted_texts = fit_texts(network.tokenizer, parts, network.limit)
            self.unscored += sum(not text.scored for text in fitted_texts)
            questions = [list(copies(text, network.tokenizer.mask_token_id)) for text in fitted_texts]
            answers = iter(self._answers(list(chain.from_iterable(questions))))
            values += [sum(islice(answers, len(rows))) if rows else math.nan for rows in questions]
            truncated |= {start + index for index, text in enumerate(fitted_texts) if text.truncated}
            straddling |= {start + index for index, text in enumerate(fitted_texts) if text.straddling}
        return Outputs(values, truncated, straddling)

    def fill(self, requests: Sequence[Cloze]) -> Outputs[tuple[float, ...]]:
        """Return log P(word in the gap), summed over the tokens of a word, each of which gets a mask.

        A word without a token, or one that alone exceeds the model's limit, gets NaN.
        """
        network = self.network
        parts = [
            (request.before + word + request.after, slice(len(request.before), len(request.before + word)))
            for request in requests
            for word in request.words
        ]
        fitted_texts = fit_texts(network.tokenizer, parts, network.limit)
        self.unscored += sum(not text.scored for text in fitted_texts)
        answers = iter(
            self._answers([gap(text, network.tokenizer.mask_token_id) for text in fitted_texts if text.scored])
        )
        logprobs = iter([next(answers) if text.scored else math.nan for text in fitted_texts])
        values = [tuple(islice(logprobs, len(request.words))) for request in requests]
        owners = [index for index, request in enumerate(requests) for _ in request.words]
        facts = list(zip(owners, fitted_texts, strict=True))
        truncated = frozenset(index for index, text in facts if text.truncated)
        return Outputs(values, truncated, frozenset(index for index, text in facts if text.straddling))

    def score_words(self, requests: Sequence[WordScores]) -> Outputs[list[float]]:
        """Return log P of each word from all others; its tokens are predicted one by one, the later ones masked.

        A word without a token, or one that alone exceeds the model's limit, gets NaN.
        """
        network = self.network
        texts = [HiddenWords.of(network.tokenizer, request, network.limit) for request in requests]
        self.unscored += sum(not word.positions for text in texts for word in text.words)
        questions = [
            hide(word.ids, range(position, word.positions.stop), [position], network.tokenizer.mask_token_id)
            for text in texts
            for word in text.words
            for position in word.positions
        ]
        return outputs_of(texts, iter(self._answers(questions) if questions else ()))

    def _answers(self, questions: Sequence[MaskedQuestion]) -> list[float]:
        """Return one number per question; questions with the same masked text share one forward pass."""
        sums_by_blank: dict[Blank, dict[tuple[int, ...], float]] = {}
        for question in questions:
            sums_by_blank.setdefault(question.blank, {})[question.targets] = float("nan")
        blanks = list(sums_by_blank)
        tokens = Tokens({IDS: [blank.ids for blank in blanks]}, padding_of(self.network.tokenizer))
        weight = self.network.model.config.vocab_size // WORDS_PER_TOKEN

        targets = [list(sums_by_blank[blank]) for blank in blanks]

        def prepare(rows: list[int]) -> dict[str, Tensor]:
            return tokens.on_host(rows) | target_tensors([blanks[row] for row in rows], [targets[row] for row in rows])

        def fetch(copy: Copy, rows: list[int]) -> list[list[float]]:
            logprobs = iter(copy.values.tolist())
            return [[sum(islice(logprobs, len(target))) for target in targets[row]] for row in rows]

        costs = [len(blank.ids) + weight * len(blank.positions) for blank in blanks]
        for blank, sums in zip(blanks, self.read_batches(costs, prepare, self._logprobs, fetch), strict=True):
            sums_by_blank[blank] = dict(zip(sums_by_blank[blank], sums, strict=True))
        return [sums_by_blank[question.blank][question.targets] for question in questions]

    def _logprobs(self, batch: dict[str, Tensor], _rows: list[int]) -> Copy:
        """Return the log-probabilities (n,) of the words that `target_tensors` lists, in float64."""
        import torch

        rows, columns, positions, words = (batch.pop(name) for name in TARGET_KEYS)
        with torch.inference_mode():
            logits = masked_logits(self.network.model, batch, rows, columns, sparse=self.network.sparse).float()
            norms = logits.logsumexp(-1)
            return Copy(logits[positions, words].double() - norms[positions].double())

    def load(self) -> MaskedNetwork:
        """Load the model with its language-modelling head.

        Raises:
            ModelError: the tokenizer has no mask token, or the checkpoint no head.
        """
        from transformers import AutoModelForMaskedLM

        setup = self.setup
        tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
        if tokenizer.mask_token_id is None:
            raise ModelError(f"the tokenizer of {setup.checkpoint.model!r} has no mask token; use a masked model")
        model = load_model(AutoModelForMaskedLM, setup)
        limit = input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
        return MaskedNetwork(model, tokenizer, limit, has_separable_head(model, tokenizer.mask_token_id))

    def details(self, network: MaskedNetwork) -> JSON:
        """Return the model's size and limit, the kind of pseudo-log-likelihood, and the positions of the head."""
        details = measures(network.model, network.limit) | {"pll": self.setup.settings.pll}
        if self.unscored:
            reason = "without a token, or longer than the model takes: NaN, not a score"
            details["warnings"] = [f"{pluralize(self.unscored, 'text')} {reason}"]
        return details | {"head": "masked positions" if network.sparse else "all positions"}


def target_tensors(blanks: Sequence[Blank], targets: Sequence[Sequence[tuple[int, ...]]]) -> dict[str, Tensor]:
    """Return what is asked of a batch of texts, as the tensors `TARGET_KEYS`.

    (rows[i], columns[i]) is the i-th position with a mask; the words `targets[r][k][j]` are asked at
    `blanks[r].positions[j]`, which are the positions `positions`.
    """
    import torch

    rows = [row for row, blank in enumerate(blanks) for _ in blank.positions]
    columns = [position for blank in blanks for position in blank.positions]
    firsts = accumulate((len(blank.positions) for blank in blanks), initial=0)  # where each row's positions begin
    positions = [first + j for first, row in zip(firsts, targets, strict=False) for t in row for j in range(len(t))]
    words = [word for row in targets for target in row for word in target]
    values = map(partial(torch.tensor, dtype=torch.int64), (rows, columns, positions, words))
    return dict(zip(TARGET_KEYS, values, strict=True))


def masked_logits(
    model: PreTrainedModel, batch: Mapping[str, Tensor | bool], rows: Indexes, columns: Indexes, *, sparse: bool
) -> Tensor:
    """Return the scores of the vocabulary at (rows[i], columns[i]), shape (i, vocabulary).

    If `sparse`, the states of the body are reduced to those positions before the head sees them. This works without
    knowing how the head of an architecture is built.
    """
    if not sparse:
        return model(**batch, return_dict=True).logits[rows, columns]
    with only_states_at(model.base_model, rows, columns):
        return model(**batch, return_dict=True).logits[:, 0]


@contextmanager
def only_states_at(body: Module, rows: Indexes, columns: Indexes) -> Iterator[None]:
    """Within this context, let the body of a model return only the states at (rows[i], columns[i]), as (i, 1, d)."""

    def keep(_module: Module, _inputs: tuple[Tensor, ...], output: ModelOutput) -> ModelOutput:
        output["last_hidden_state"] = output["last_hidden_state"][rows, columns].unsqueeze(1)
        return output

    hook = body.register_forward_hook(keep)
    try:
        yield
    finally:
        hook.remove()


def has_separable_head(model: PreTrainedModel, mask: int) -> bool:
    """Return whether the head gives the same scores when it sees only the wanted states, tested on a few tokens."""
    import torch

    ids = torch.tensor([[mask, 5, mask, 6, 7], [7, 6, mask, 5, mask]], device=model.device)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    rows, columns = [0, 0, 1], [0, 2, 4]
    with torch.inference_mode():
        full = masked_logits(model, batch, rows, columns, sparse=False)
        try:
            part = masked_logits(model, batch, rows, columns, sparse=True)
        except (RuntimeError, TypeError, KeyError, IndexError, AttributeError):
            return False  # a body with another kind of output; the full forward is always right
    if part.shape != full.shape:
        return False
    tolerance = 1e-4 if full.dtype == torch.float32 else 2e-2
    difference, scale = (part - full).abs().nan_to_num().max(), full.abs().nan_to_num().max()
    return bool(difference <= tolerance * scale)


def open_masked(settings: MaskedSettings) -> MaskedModel:
    """Open a masked language model from a folder or hub id.

    Raises:
        ModelError: no such model, not a masked one, an unavailable device, or half precision on a CPU.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "masked")
    return MaskedModel(prepare(settings, checkpoint))


masked = Configured(MaskedSettings, open_masked)
