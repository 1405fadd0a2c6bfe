"""Heads that read two texts at once: NLI classifiers and cross-encoders. Capabilities: label_pairs or score_pairs.

What a class means is read from the checkpoint's config and never guessed: a model that calls its classes LABEL_0 …
needs `labels=`. A pair that is too long loses tokens of its longer text, and is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figeval.hooks import hookimpl
from figeval.models.capabilities import Outputs
from figeval.types import JSON, PairLabel, TextPair

from ._batching import run_batches
from ._checkpoint import locate, require
from ._declared import with_declared
from ._labels import DECISIONS, Probability, classes_of, label_scores, parse_labels, prescribed
from ._loading import input_limit, load_model, load_tokenizer
from ._neural import Neural, Setup, measures, prepare
from ._settings import Configured, Settings, one_of
from ._tokens import tokenize

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """One name."""
    target = "figeval.builtin.plugins.pairs:pairs"
    register("pairs", target, "NLI head (labels from its config, or labels=) or cross-encoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings(Settings):
    """`labels` says what classes mean where the config does not: `entailment:2;non-entailment:0+1`.

    `decision` is how several classes make one label. "argmax": the label of the most probable class, as a three-way
    NLI model is usually scored on two labels and as words are compared, too; the label's score is its best class.
    "sum": probabilities are added up, so two labels are parted at one half.
    """

    labels: str | None = None
    decision: str = "argmax"

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        one_of("decision", self.decision, tuple(DECISIONS))


@dataclass(frozen=True, slots=True)
class PairNetwork:
    """A loaded classifier."""

    model: Any
    tokenizer: Any
    limit: int | None


class PairModel(Neural[PairSettings, PairNetwork]):
    """A sequence classifier on pairs; what its outputs mean is the subclasses' matter."""

    def logits(self, pairs: Sequence[TextPair | PairLabel]) -> Outputs[Any]:
        """The head's raw outputs as an array (n, classes), float64."""
        import numpy as np

        network = self.network
        lefts, rights = [pair.left for pair in pairs], [pair.right for pair in pairs]
        tokens = tokenize(network.tokenizer, lefts, network.limit, rights)

        def forward(rows: list[int]) -> Any:
            import torch

            with torch.inference_mode():
                return network.model(**tokens.tensors(rows, self.setup.device)).logits.double().cpu().numpy()

        rows: Any = np.stack(run_batches(tokens.lengths, forward, self.budget))
        return Outputs(rows, tokens.truncated)

    def load(self) -> PairNetwork:
        """The classifier with its head."""
        from transformers import AutoModelForSequenceClassification

        setup = self.setup
        tokenizer = with_padding(load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code))
        model = load_model(AutoModelForSequenceClassification, setup)
        model.config.pad_token_id = tokenizer.pad_token_id  # decoders with a head find the last token by it
        limit = input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
        return PairNetwork(model, tokenizer, limit)

    def details(self, network: PairNetwork) -> JSON:
        """Size and limit."""
        return measures(network.model, network.limit)


class PairScorer(PairModel):
    """A cross-encoder: one output, higher is closer."""

    def score_pairs(self, requests: Sequence[TextPair]) -> Outputs[float]:
        """The raw output, not its sigmoid: that rounds the best candidates to the same 1."""
        outputs = self.logits(requests)
        return Outputs([float(row[0]) for row in outputs.values], outputs.truncated)


class PairLabeller(PairModel):
    """A classifier whose classes have names."""

    def __init__(self, setup: Setup[PairSettings], classes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__(setup)
        self.classes = classes

    def label_pairs(self, requests: Sequence[PairLabel]) -> Outputs[dict[str, Probability]]:
        """Probabilities of the requested labels' classes, summing to 1; with decision=sum one for each label.

        Raises:
            ModelError: the classes do not tell the requested labels apart.
        """
        asked = {labels: prescribed(self.classes, labels) for labels in {request.labels for request in requests}}
        outputs = self.logits(requests)
        decide = DECISIONS[self.setup.settings.decision]
        rows = zip(outputs.values, requests, strict=True)
        values = [label_scores(logits, asked[request.labels], decide) for logits, request in rows]
        return Outputs(values, outputs.truncated)

    def details(self, network: PairNetwork) -> JSON:
        """Size, limit, what the classes were taken for, and how they make labels."""
        classes = {name: list(ids) for name, ids in self.classes.items()}
        return super().details(network) | {"classes": classes, "decision": self.setup.settings.decision}


def with_padding(tokenizer: Any) -> Any:
    """The tokenizer; one without padding, as GPT-2's, pads with what ends a text."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def open_pairs(settings: PairSettings) -> PairLabeller | PairScorer:
    """A cross-encoder where the head has one output, a labeller otherwise.

    Raises:
        ModelError: no such model, no classifier, classes without meaning, or what `prepare` refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "pairs")
    settings = with_declared(settings, checkpoint)
    names = classes_of(checkpoint.config)
    if len(names) == 1:
        return PairScorer(prepare(settings, checkpoint))
    return PairLabeller(prepare(settings, checkpoint), parse_labels(settings.labels, names, checkpoint.model))


pairs = Configured(PairSettings, open_pairs)
