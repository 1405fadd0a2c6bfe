"""Masked language models, zero-shot: pseudo-log-likelihood and filling of gaps. Capabilities: loglikelihood, fill.

A masked model has no probability of a text; the sum of log P(token | all other tokens) is what stands in for it
(Salazar et al. 2020, "Masked Language Model Scoring"). The vocabulary is only scored where a mask is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError
from figeval.hooks import hookimpl
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Cloze, Continuation

from ._batching import run_batches
from ._blanks import PLL, Blank, Question, cloze_part, continuation_part, fit, gap
from ._checkpoint import locate, require
from ._loading import input_limit, load_model, load_tokenizer
from ._neural import Neural, measures, prepare
from ._settings import Configured, Settings, one_of
from ._tokens import IDS, Tokens, padding_of

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar

CHUNK = 1_024  # requests expanded to masked copies at a time: bounds memory, not the batch
VOCABULARY = 1_024  # so many scores of words take about the memory of one token's way through a model


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """One name."""
    target = "figeval.builtin.plugins.masked:masked"
    register("masked", target, "masked language model, zero-shot: pseudo-log-likelihood, cloze (pll=original)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedSettings(Settings):
    """`pll`: "original" masks one token at a time, "within_word_l2r" also the later tokens of its word."""

    pll: str = "original"

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        one_of("pll", self.pll, tuple(PLL))


@dataclass(frozen=True, slots=True)
class MaskedNetwork:
    """A loaded model. `sparse`: its head can be run at the asked positions only, checked against the full forward."""

    model: Any
    tokenizer: Any
    limit: int | None
    sparse: bool


class MaskedModel(Neural[MaskedSettings, MaskedNetwork]):
    """Scores words under masks."""

    def loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        """Pseudo-log-likelihoods of the continuations; a context that is too long loses its beginning.

        Raises:
            TaskError: a continuation is empty, or alone longer than the model takes.
        """
        network = self.network
        copies = PLL[self.setup.settings.pll]
        values: list[float] = []
        truncated: set[int] = set()
        for start in range(0, len(requests), CHUNK):
            parts = [continuation_part(request) for request in requests[start : start + CHUNK]]
            fitted = fit(network.tokenizer, parts, network.limit)
            questions = [list(copies(text, network.tokenizer.mask_token_id)) for text in fitted]
            answers = iter(self._answers(list(chain.from_iterable(questions))))
            values += [sum(islice(answers, len(asked))) for asked in questions]
            truncated |= {start + index for index, text in enumerate(fitted) if text.truncated}
        return Outputs(values, frozenset(truncated))

    def fill(self, requests: Sequence[Cloze]) -> Outputs[tuple[float, ...]]:
        """Log P(word in the gap); a word of several tokens gets as many masks, and their log-probabilities add up.

        Raises:
            TaskError: a word is empty.
        """
        network = self.network
        parts = [cloze_part(request, word) for request in requests for word in request.words]
        fitted = fit(network.tokenizer, parts, network.limit)
        answers = iter(self._answers([gap(text, network.tokenizer.mask_token_id) for text in fitted]))
        cut = iter(text.truncated for text in fitted)
        values = [tuple(islice(answers, len(request.words))) for request in requests]
        truncated = [any(list(islice(cut, len(request.words)))) for request in requests]
        return Outputs(values, frozenset(index for index, was_cut in enumerate(truncated) if was_cut))

    def _answers(self, questions: Sequence[Question]) -> list[float]:
        """A number per question; questions with the same masked text share its way through the model."""
        wanted: dict[Blank, dict[tuple[int, ...], float]] = {}
        for question in questions:
            wanted.setdefault(question.blank, {})[question.targets] = float("nan")
        blanks = list(wanted)
        tokens = Tokens({IDS: [blank.ids for blank in blanks]}, padding_of(self.network.tokenizer))
        weight = self.network.model.config.vocab_size // VOCABULARY

        def forward(rows: list[int]) -> list[list[float]]:
            batch = tokens.tensors(rows, self.setup.device)
            return self._sums(batch, [blanks[row] for row in rows], [list(wanted[blanks[row]]) for row in rows])

        costs = [len(blank.ids) + weight * len(blank.positions) for blank in blanks]
        for blank, sums in zip(blanks, run_batches(costs, forward, self.budget), strict=True):
            wanted[blank] = dict(zip(wanted[blank], sums, strict=True))
        return [wanted[question.blank][question.targets] for question in questions]

    def _sums(self, batch: Any, blanks: list[Blank], targets: list[list[tuple[int, ...]]]) -> list[list[float]]:
        """`result[r][k]` = Σ_j log P(targets[r][k][j] at blanks[r].positions[j]), summed in float64."""
        import torch

        rows = [row for row, blank in enumerate(blanks) for _ in blank.positions]
        columns = [position for blank in blanks for position in blank.positions]
        firsts = accumulate((len(blank.positions) for blank in blanks), initial=0)  # of each row among all positions
        places = [first + j for first, row in zip(firsts, targets, strict=False) for t in row for j in range(len(t))]
        words = [word for row in targets for target in row for word in target]
        with torch.inference_mode():
            logits = masked_logits(self.network.model, batch, rows, columns, sparse=self.network.sparse).float()
            norms = logits.logsumexp(-1)
            logprobs = iter((logits[places, words].double() - norms[places].double()).tolist())
        return [[sum(islice(logprobs, len(target))) for target in row] for row in targets]

    def load(self) -> MaskedNetwork:
        """The model with its language-modelling head.

        Raises:
            ModelError: its tokenizer has no mask, or its weights no head.
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
        """Size, limit, the kind of pseudo-log-likelihood, and where the head is computed."""
        head = "masked positions" if network.sparse else "all positions"
        return measures(network.model, network.limit) | {"pll": self.setup.settings.pll, "head": head}


def masked_logits(
    model: Any, batch: dict[str, Any], rows: Sequence[int], columns: Sequence[int], *, sparse: bool
) -> Any:
    """`result[i]` = scores of the vocabulary at (rows[i], columns[i]), shape (i, vocabulary).

    Sparse: the states of the body are replaced by those that are wanted before the head sees them. That needs no
    knowledge of how the head of an architecture is built.
    """
    if not sparse:
        return model(**batch, return_dict=True).logits[rows, columns]
    with only_states_at(model.base_model, rows, columns):
        return model(**batch, return_dict=True).logits[:, 0]


@contextmanager
def only_states_at(body: Any, rows: Sequence[int], columns: Sequence[int]) -> Iterator[None]:
    """While this lasts, the body of a model hands on the states at (rows[i], columns[i]) only, as (i, 1, d)."""

    def keep(_module: Any, _inputs: Any, output: Any) -> Any:
        output["last_hidden_state"] = output["last_hidden_state"][rows, columns].unsqueeze(1)
        return output

    hook = body.register_forward_hook(keep)
    try:
        yield
    finally:
        hook.remove()


def has_separable_head(model: Any, mask: int) -> bool:
    """Whether the head gives the same scores when it sees only the wanted states, tried on a few tokens."""
    import torch

    ids = torch.tensor([[mask, 5, mask, 6, 7], [7, 6, mask, 5, mask]], device=model.device)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    rows, columns = [0, 0, 1], [0, 2, 4]
    with torch.inference_mode():
        full = masked_logits(model, batch, rows, columns, sparse=False)
        try:
            part = masked_logits(model, batch, rows, columns, sparse=True)
        except (RuntimeError, TypeError, KeyError, IndexError, AttributeError):
            return False  # a body that returns something else; the full forward is always right
    if part.shape != full.shape:
        return False
    tolerance = 1e-4 if full.dtype == torch.float32 else 2e-2
    difference, scale = (part - full).abs().nan_to_num().max(), full.abs().nan_to_num().max()
    return bool(difference <= tolerance * scale)


def open_masked(settings: MaskedSettings) -> MaskedModel:
    """A masked language model from a folder or hub id.

    Raises:
        ModelError: no such model, no masked one, a device that is not there, half precision on a CPU.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "masked")
    return MaskedModel(prepare(settings, checkpoint))


masked = Configured(MaskedSettings, open_masked)
