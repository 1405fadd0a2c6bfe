"""Models that read a text together with all of its options, each with a marker token. Capability: score_options.

The method is that of Guan et al. (2022, STORAL). An encoder reads the options first and the text last,

    [CLS] [MASK] option [MASK] option … [P] text [SEP]

and the score of an option is the dot product of the last states at its mask and at [P]. An encoder-decoder reads the
text with its encoder and the options with its decoder, which attends only to the left, so the marker follows:

    option <extra_id_1> option <extra_id_2> … <mask>

Here the score is the dot product of the decoder's states at the marker and at <mask>. A text that is too long loses its
end. Options that leave no room for the text have no scores: the authors' code scored all of them 0 and so answered with
the first.

Markers are found by position, not by search, so a text that contains "[MASK]" does no harm. Scores depend on the order
of the options, since the state of a marker depends on its context; `--orders` measures by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from figeval.errors import CapabilityError
from figeval.models.capabilities import Outputs
from figeval.types import JSON

from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.loading import LoadedModel, Neural, load_with_tokenizer, measures, prepare
from ..torch_models.overlapping import Copy
from ..torch_models.settings import Configured, Settings
from ..torch_models.tokens import IDS, MIN_WINDOW_TOKENS, Tokens, bare_ids, pad, padding_of
from .option_lists import OptionList

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TEXT = "[P]"  # precedes the text
QUERY_MASK = "<mask>"  # follows the options that a decoder reads, if the tokenizer has no mask token of its own
MARKER = "<extra_id_{}>"  # follows an option that a decoder reads, numbered from 1
MAX_OPTIONS = 99  # most options that a decoder can read: T5 has markers up to <extra_id_99>
DECODER_IDS = "decoder_input_ids"
QUERY, MARKERS = "query_place", "marker_places"  # keys of a batch: (rows,), and (rows, options) padded with -1
POOLER = "pooler"  # nothing reads it


# ---- questions as token ids ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkedTokens:
    """Tokenized questions: `read` by the encoder and, if there is a decoder, `written` as its input.

    `queries[i]` is the position of the token that represents the text of question i, `markers[i]` are those of its
    options; with a decoder they are positions in `written`. Questions in `full` have no room for their text.
    """

    read: Tokens
    queries: Sequence[int]
    markers: Sequence[Sequence[int]]
    written: Sequence[Sequence[int]] = ()
    full: frozenset[int] = field(default_factory=frozenset)

    @property
    def lengths(self) -> list[int]:
        """Tokens per question, those of encoder and decoder together."""
        decoder_lengths = map(len, self.written) if self.written else [0] * len(self.queries)
        return [
            encoder_length + decoder_length
            for encoder_length, decoder_length in zip(self.read.lengths, decoder_lengths, strict=True)
        ]

    def tensors(self, rows: Sequence[int], device: torch.device | str) -> dict[str, Tensor]:
        """Return the rows as tensors. A decoder's padding follows all tokens that matter, so it needs no mask."""
        import torch

        batch = self.read.tensors(rows, device)
        if self.written:
            batch[DECODER_IDS], _ = pad([self.written[row] for row in rows], self.read.padding, device)
        batch[QUERY] = torch.tensor([self.queries[row] for row in rows], device=device)
        batch[MARKERS], _ = pad([self.markers[row] for row in rows], -1, device)
        return batch


def with_markers(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> PreTrainedTokenizerBase:
    """Return the tokenizer with the markers of such questions; missing ones are appended to its vocabulary."""
    if not config.is_encoder_decoder:
        markers = [TEXT]
    else:
        markers = [MARKER.format(number) for number in range(1, MAX_OPTIONS + 1)]
        if tokenizer.mask_token is None:
            tokenizer.add_special_tokens({"mask_token": QUERY_MASK})
    vocabulary = tokenizer.get_vocab()
    tokenizer.add_tokens([name for name in markers if name not in vocabulary], special_tokens=True)
    return tokenizer


def mark_options(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, questions: Sequence[OptionList], limit: int | None
) -> MarkedTokens:
    """Tokenize questions for a model of this configuration, with at most `limit` tokens on each side.

    Raises:
        CapabilityError: there are more options than markers.
    """
    texts = bare_ids(tokenizer, [question.query.strip() for question in questions])
    names = dict.fromkeys(option for question in questions for option in question.options)
    ids_of = dict(zip(names, bare_ids(tokenizer, [name.strip() for name in names]), strict=True))
    options = [[ids_of[option] for option in question.options] for question in questions]
    encoding = tokenizer("a")
    positions = [position for position, side in enumerate(encoding.sequence_ids(0)) if side is not None]
    around = encoding[IDS][: positions[0]], encoding[IDS][positions[-1] + 1 :]
    if config.is_encoder_decoder:
        return _decoder_inputs(tokenizer, config.decoder_start_token_id, options, _Frame(*around, limit), texts)
    return _encoder_inputs(tokenizer, options, _Frame(*around, limit), texts)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The tokens that the tokenizer puts around a text, and the limit of the whole input."""

    before: Sequence[int]
    after: Sequence[int]
    limit: int | None

    def inputs(self, heads: Sequence[Sequence[int]], texts: Sequence[Sequence[int]], padding: int) -> Tokens:
        """Return the heads followed by their texts, within the frame; a text that is too long loses its end."""
        around = len(self.before) + len(self.after)
        rows: list[Sequence[int]] = []
        truncated = set()
        for row, (head, text) in enumerate(zip(heads, texts, strict=True)):
            room = len(text) if self.limit is None else max(0, self.limit - around - len(head))
            rows.append([*self.before, *head, *text[:room], *self.after])
            if room < len(text):
                truncated.add(row)
        return Tokens({IDS: rows}, padding, frozenset(truncated))

    def is_full(self, head: Sequence[int], text: Sequence[int]) -> bool:
        """Return whether a head leaves too little room for a text."""
        length = len(self.before) + len(head) + len(self.after)
        return self.limit is not None and self.limit - length < min(len(text), MIN_WINDOW_TOKENS)


def _encoder_inputs(
    tokenizer: PreTrainedTokenizerBase,
    options: Sequence[Sequence[Sequence[int]]],
    frame: _Frame,
    texts: Sequence[Sequence[int]],
) -> MarkedTokens:
    """Build the input of an encoder: every option after a mask, then the text after [P]."""
    mask, asking = tokenizer.mask_token_id, tokenizer.convert_tokens_to_ids(TEXT)
    heads, markers = [], []
    for question_options in options:
        pieces = [[mask, *option] for option in question_options]
        heads.append([*chain.from_iterable(pieces), asking])
        markers.append(list(accumulate(map(len, pieces[:-1]), initial=len(frame.before))))
    queries = [len(frame.before) + len(head) - 1 for head in heads]
    full = frozenset(row for row, head in enumerate(heads) if frame.is_full(head, texts[row]))
    return MarkedTokens(frame.inputs(heads, texts, padding_of(tokenizer)), queries, markers, full=full)


def _decoder_inputs(
    tokenizer: PreTrainedTokenizerBase,
    start: int,
    options: Sequence[Sequence[Sequence[int]]],
    frame: _Frame,
    texts: Sequence[Sequence[int]],
) -> MarkedTokens:
    """Build the input of an encoder-decoder: text for the encoder; options, each before its marker, for the decoder."""
    option_count = max(map(len, options), default=0)
    if option_count > MAX_OPTIONS:
        raise CapabilityError(
            f"an example has {option_count} options, but there are markers for {MAX_OPTIONS}; use an encoder"
        )
    marks = tokenizer.convert_tokens_to_ids([MARKER.format(number) for number in range(1, option_count + 1)])
    decoder_rows, markers = [], []
    for question_options in options:
        pieces = [[*option, mark] for option, mark in zip(question_options, marks, strict=False)]
        decoder_rows.append([start, *chain.from_iterable(pieces), tokenizer.mask_token_id])
        markers.append(list(accumulate(map(len, pieces))))
    full = frozenset(row for row, ids in enumerate(decoder_rows) if frame.limit is not None and len(ids) > frame.limit)
    encoder_rows = frame.inputs([()] * len(texts), texts, padding_of(tokenizer))
    return MarkedTokens(encoder_rows, [len(ids) - 1 for ids in decoder_rows], markers, decoder_rows, full)


# ---- the backend ---------------------------------------------------------------------------------------------------


def marker_scores(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the scores of the options (rows, options) in float32, -inf where a row has fewer.

    `batch` is that of `MarkedTokens.tensors`. Products are summed elementwise, because automatic mixed precision would
    compute a matrix product in half precision.
    """
    import torch

    inputs: dict[str, Tensor | bool] = {name: batch[name] for name in (IDS, "attention_mask")}
    if DECODER_IDS in batch:
        inputs |= {DECODER_IDS: batch[DECODER_IDS], "use_cache": False}
    states = model(**inputs).last_hidden_state.float()
    rows = torch.arange(len(states), device=states.device)
    positions = batch[MARKERS]
    options, text = states[rows.unsqueeze(1), positions.clamp_min(0)], states[rows, batch[QUERY]]
    return (options * text.unsqueeze(1)).sum(-1).masked_fill(positions < 0, float("-inf"))


class MarkerScorer(Neural[Settings, LoadedModel]):
    """A model that scores all options of a question together."""

    capabilities = ("score_options",)

    def score_options(self, requests: Sequence[OptionList]) -> Outputs[tuple[float, ...]]:
        """Return per request the dot product of each option's marker with that of the text, as in training.

        The scores are empty if the options leave no room for the text.
        """
        network = self.network
        tokens = mark_options(network.tokenizer, network.model.config, requests, network.limit)
        rows_to_read = [row for row in range(len(requests)) if row not in tokens.full]
        lengths = tokens.lengths

        def prepare(rows: list[int]) -> dict[str, Tensor]:
            return tokens.tensors([rows_to_read[row] for row in rows], "cpu")

        def start(batch: dict[str, Tensor], _rows: list[int]) -> Copy:
            import torch

            with torch.inference_mode():
                return Copy(marker_scores(network.model, batch))

        def fetch(copy: Copy, rows: list[int]) -> list[tuple[float, ...]]:
            scores = zip(rows, copy.values.tolist(), strict=True)
            return [tuple(row_scores[: len(tokens.markers[rows_to_read[row]])]) for row, row_scores in scores]

        scores_of_rows = self.read_batches([lengths[row] for row in rows_to_read], prepare, start, fetch)
        values = dict(zip(rows_to_read, scores_of_rows, strict=True))
        return Outputs([values.get(row, ()) for row in range(len(requests))], tokens.read.truncated - tokens.full)

    def load(self) -> LoadedModel:
        """Load the model without a head."""
        from transformers import AutoModel

        return load_with_tokenizer(AutoModel, self.setup, spare=POOLER)

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size and limit."""
        return measures(network.model, network.limit)


def open_marker(settings: Settings) -> MarkerScorer:
    """Open a model trained with `--head marker` from a folder or hub id.

    Raises:
        ModelError: no such model, one of another kind, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "marker")
    return MarkerScorer(prepare(with_declared(settings, checkpoint), checkpoint))


marker = Configured(Settings, open_marker)
