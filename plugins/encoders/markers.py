"""Models that read a text together with all of its options, each behind a marker token. Capability: score_options.

As in Guan et al. (2022, STORAL). An encoder reads the options first and the text last,

    [CLS] [MASK] option [MASK] option … [P] text [SEP]

and the score of an option is the dot product of the last states at its mask and at [P]. An encoder-decoder reads the
text with its encoder and the options with its decoder, which sees what is on the left only, so the marker follows:

    option <extra_id_1> option <extra_id_2> … <mask>

Here the score is the dot product of the decoder's states at the marker and at <mask>. A text that is too long loses
its end. Options that leave no room for the text have no scores: their authors' code scored all of them 0, and so
answered with the first.

The markers are placed, not searched for, so a text that contains "[MASK]" does no harm. Scores depend on the order of
the options, since the state of a marker depends on what stands around it; `--orders` shows by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, ClassVar

from figeval.errors import CapabilityError
from figeval.models.capabilities import Outputs
from figeval.prompts import PromptContext
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.routes import Dialogue, Route, decide
from figeval.types import JSON

from .batching import run_batches
from .checkpoint import locate, require, with_declared
from .loading import Neural, input_limit, load_model, load_tokenizer, measures, prepare
from .settings import Configured, Settings
from .tokens import IDS, LEAST, Tokens, bare_ids, padded, padding_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TEXT = "[P]"  # stands before the text
ASKING = "<mask>"  # stands behind the options that a decoder reads, where the tokenizer has no mask token of its own
MARKER = "<extra_id_{}>"  # stands behind an option that a decoder reads, numbered from 1 on
MOST = 99  # options that a decoder can read: T5 has markers up to <extra_id_99>
WRITTEN = "decoder_input_ids"
QUERY, MARKERS = "query_place", "marker_places"  # in a batch: (rows,), and (rows, options) filled up with -1
POOLER = "pooler"  # nothing reads it


# ---- the question and the route ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OptionList:
    """A text and all options at once.

    `model.score_options(requests)` returns a tuple per request with one float for each option, higher is better; the
    tuple is empty where the options leave no room for the text.
    """

    capability: ClassVar[str] = "score_options"
    query: str
    options: tuple[str, ...]


def by_markers(example: ChoiceExample, _context: PromptContext) -> Dialogue:
    """Scores of all options, read together with the query. Raises `CapabilityError` where they leave no room for it."""
    (scores,) = yield [OptionList(example.query, example.options)]
    if not scores:
        raise CapabilityError(
            f"the {len(example.options)} options of {example.id!r} fill the model's input and leave no room for the "
            "query; raise max_length, or leave the example out"
        )
    return decide(example.id, scores)


BY_MARKERS = Route(
    name="by_markers",
    start=by_markers,
    requests=(OptionList,),
    metrics_of_orders=("consistency", "position_bias"),
)


# ---- questions as token ids ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkedTokens:
    """Questions as token ids, `read` by the encoder and `written` before the decoder, if there is one.

    `queries[i]` is the place of the token that stands for the text in question i, `markers[i]` are those of its
    options; with a decoder they count in `written`. Questions in `full` have no room for their text.
    """

    read: Tokens
    queries: Sequence[int]
    markers: Sequence[Sequence[int]]
    written: Sequence[Sequence[int]] = ()
    full: frozenset[int] = field(default_factory=frozenset)

    @property
    def lengths(self) -> list[int]:
        """Tokens per question, those of both sides."""
        written = map(len, self.written) if self.written else [0] * len(self.queries)
        return [one + other for one, other in zip(self.read.lengths, written, strict=True)]

    def tensors(self, rows: Sequence[int], device: torch.device | str) -> dict[str, Tensor]:
        """The rows as tensors. What pads a decoder's input stands behind all that counts, so it needs no mask."""
        import torch

        batch = self.read.tensors(rows, device)
        if self.written:
            batch[WRITTEN], _ = padded([self.written[row] for row in rows], self.read.padding, device)
        batch[QUERY] = torch.tensor([self.queries[row] for row in rows], device=device)
        batch[MARKERS], _ = padded([self.markers[row] for row in rows], -1, device)
        return batch


def with_markers(tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig) -> PreTrainedTokenizerBase:
    """The tokenizer with the tokens that such questions need: what is missing is added behind its vocabulary."""
    if not config.is_encoder_decoder:
        wanted = [TEXT]
    else:
        wanted = [MARKER.format(number) for number in range(1, MOST + 1)]
        if tokenizer.mask_token is None:
            tokenizer.add_special_tokens({"mask_token": ASKING})
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([name for name in wanted if name not in known], special_tokens=True)
    return tokenizer


def marked(
    tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, questions: Sequence[OptionList], limit: int | None
) -> MarkedTokens:
    """Questions as a model of this configuration reads them, at most `limit` tokens on each side.

    Raises:
        CapabilityError: there are more options than markers.
    """
    texts = bare_ids(tokenizer, [one.query.strip() for one in questions])
    names = dict.fromkeys(option for one in questions for option in one.options)
    known = dict(zip(names, bare_ids(tokenizer, [name.strip() for name in names]), strict=True))
    options = [[known[option] for option in one.options] for one in questions]
    encoded = tokenizer("a")
    own = [place for place, side in enumerate(encoded.sequence_ids(0)) if side is not None]
    around = encoded[IDS][: own[0]], encoded[IDS][own[-1] + 1 :]
    if config.is_encoder_decoder:
        return _apart(tokenizer, config.decoder_start_token_id, options, _Frame(*around, limit), texts)
    return _together(tokenizer, options, _Frame(*around, limit), texts)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the tokenizer puts around a text, and how long all of it may be."""

    before: Sequence[int]
    after: Sequence[int]
    limit: int | None

    def inputs(self, heads: Sequence[Sequence[int]], texts: Sequence[Sequence[int]], padding: int) -> Tokens:
        """Texts behind their heads, within the frame; what is too long loses the end of its text."""
        around = len(self.before) + len(self.after)
        rows: list[Sequence[int]] = []
        cut = set()
        for row, (head, text) in enumerate(zip(heads, texts, strict=True)):
            room = len(text) if self.limit is None else max(0, self.limit - around - len(head))
            rows.append([*self.before, *head, *text[:room], *self.after])
            if room < len(text):
                cut.add(row)
        return Tokens({IDS: rows}, padding, frozenset(cut))

    def is_full(self, head: Sequence[int], text: Sequence[int]) -> bool:
        """Whether a head leaves too little room for a text."""
        taken = len(self.before) + len(head) + len(self.after)
        return self.limit is not None and self.limit - taken < min(len(text), LEAST)


def _together(
    tokenizer: PreTrainedTokenizerBase,
    options: Sequence[Sequence[Sequence[int]]],
    frame: _Frame,
    texts: Sequence[Sequence[int]],
) -> MarkedTokens:
    """For an encoder: every option behind a mask, then the text behind [P]."""
    mask, asking = tokenizer.mask_token_id, tokenizer.convert_tokens_to_ids(TEXT)
    heads, markers = [], []
    for own in options:
        pieces = [[mask, *option] for option in own]
        heads.append([*chain.from_iterable(pieces), asking])
        markers.append(list(accumulate(map(len, pieces[:-1]), initial=len(frame.before))))
    queries = [len(frame.before) + len(head) - 1 for head in heads]
    full = frozenset(row for row, head in enumerate(heads) if frame.is_full(head, texts[row]))
    return MarkedTokens(frame.inputs(heads, texts, padding_of(tokenizer)), queries, markers, full=full)


def _apart(
    tokenizer: PreTrainedTokenizerBase,
    start: int,
    options: Sequence[Sequence[Sequence[int]]],
    frame: _Frame,
    texts: Sequence[Sequence[int]],
) -> MarkedTokens:
    """For an encoder-decoder: the text for the encoder; for the decoder every option with its marker behind it."""
    most = max(map(len, options), default=0)
    if most > MOST:
        raise CapabilityError(f"an example has {most} options, but there are markers for {MOST}; use an encoder")
    marks = tokenizer.convert_tokens_to_ids([MARKER.format(number) for number in range(1, most + 1)])
    written, markers = [], []
    for own in options:
        pieces = [[*option, mark] for option, mark in zip(own, marks, strict=False)]
        written.append([start, *chain.from_iterable(pieces), tokenizer.mask_token_id])
        markers.append(list(accumulate(map(len, pieces))))
    full = frozenset(row for row, ids in enumerate(written) if frame.limit is not None and len(ids) > frame.limit)
    read = frame.inputs([()] * len(texts), texts, padding_of(tokenizer))
    return MarkedTokens(read, [len(ids) - 1 for ids in written], markers, written, full)


# ---- the backend ---------------------------------------------------------------------------------------------------


def marker_scores(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    """Scores of the options (rows, options) in float32, -inf where a row has fewer; `batch` as `MarkedTokens` has it.

    Not a matrix product, which automatic mixed precision would compute in half.
    """
    import torch

    inputs: dict[str, Tensor | bool] = {name: batch[name] for name in (IDS, "attention_mask")}
    if WRITTEN in batch:
        inputs |= {WRITTEN: batch[WRITTEN], "use_cache": False}
    states = model(**inputs).last_hidden_state.float()
    rows = torch.arange(len(states), device=states.device)
    places = batch[MARKERS]
    options, text = states[rows.unsqueeze(1), places.clamp_min(0)], states[rows, batch[QUERY]]
    return (options * text.unsqueeze(1)).sum(-1).masked_fill(places < 0, float("-inf"))


@dataclass(frozen=True, slots=True)
class MarkerNetwork:
    """A loaded model whose tokenizer has the markers."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    limit: int | None


class MarkerScorer(Neural[Settings, MarkerNetwork]):
    """Scores all options of a question together."""

    capabilities = ("score_options",)

    def score_options(self, requests: Sequence[OptionList]) -> Outputs[tuple[float, ...]]:
        """Per request the dot product of each option's marker with that of the text, as in training; empty where the
        options leave no room for the text.
        """
        network = self.network
        tokens = marked(network.tokenizer, network.model.config, requests, network.limit)
        asked = [row for row in range(len(requests)) if row not in tokens.full]
        lengths = tokens.lengths

        def forward(rows: list[int]) -> list[tuple[float, ...]]:
            import torch

            chosen = [asked[row] for row in rows]
            with torch.inference_mode():
                scores = marker_scores(network.model, tokens.tensors(chosen, self.setup.device)).tolist()
            return [tuple(own[: len(tokens.markers[row])]) for row, own in zip(chosen, scores, strict=True)]

        found = run_batches([lengths[row] for row in asked], forward, self.budget)
        values = dict(zip(asked, found, strict=True))
        return Outputs([values.get(row, ()) for row in range(len(requests))], tokens.read.truncated - tokens.full)

    def load(self) -> MarkerNetwork:
        """The model without a head."""
        from transformers import AutoModel

        setup = self.setup
        tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
        model = load_model(AutoModel, setup, spare=POOLER)
        return MarkerNetwork(
            model, tokenizer, input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
        )

    def details(self, network: MarkerNetwork) -> JSON:
        """Size and limit."""
        return measures(network.model, network.limit)


def open_marker(settings: Settings) -> MarkerScorer:
    """A model that was trained with `--head marker`, from a folder or hub id.

    Raises:
        ModelError: no such model, none that was trained so, or what `prepare` refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "marker")
    return MarkerScorer(prepare(with_declared(settings, checkpoint), checkpoint))


marker = Configured(Settings, open_marker)
