"""Heads that read two texts at once: NLI classifiers and cross-encoders. Capabilities: label_pairs or score_pairs.

The meaning of a class is read from the checkpoint's config and never guessed: a model with classes named LABEL_0 …
needs `labels=`. A pair that is too long loses tokens of its longer text and is reported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError, OptionNeeded
from figeval.models.capabilities import Outputs
from figeval.types import JSON, PairLabel, TextPair

from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.loading import LoadedModel, ModelSetup, Neural, load_with_tokenizer, measures, prepare
from ..torch_models.overlapping import Copy, fetched_rows
from ..torch_models.reading import ModelTexts
from ..torch_models.settings import Configured, Settings, one_of
from ..torch_models.tokens import Floats
from .label_order import label_order_warnings, may_be_mixed_up
from .prompts import Prompts, check_prompts, place_pair_prompt

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings(Settings):
    """Settings of pair models.

    Attributes:
        labels: meanings of the classes if the config gives none: `entailment:2;non-entailment:0+1`.
        decision: how several classes make one label. "argmax" takes the label of the most probable class, as is usual
            when a three-way NLI model is scored on two labels; the label's score is that of its best class. "sum" adds
            up the probabilities, so that the threshold between two labels is one half.
        query_prompt: prompt before the first text of a pair, by its name in the checkpoint or as a text; None for the
            default prompt that the checkpoint declares.
    """

    labels: str | None = None
    decision: str = "argmax"
    query_prompt: str | None = None

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        one_of("decision", self.decision, tuple(DECISIONS))
        check_prompts({"query": self.query_prompt})


# ---- what the classes mean, and how several of them make one label ---------------------------------------------------

# Spellings of class names, letters only, and their meanings. "not_entailment" comes before "entail…".
MEANINGS = (
    (re.compile(r"(not?|non)entail\w*"), "non-entailment"),
    (re.compile(r"entail\w*"), "entailment"),
    (re.compile(r"contradict\w*"), "contradiction"),
    (re.compile(r"neutral\w*"), "neutral"),
)
SPLIT_LABELS = {"non-entailment": ("neutral", "contradiction")}  # a label that three-way models split
NAMELESS = re.compile(r"label_?\d+", re.IGNORECASE)  # written by transformers if the classes have no names

Classes = Mapping[str, tuple[int, ...]]  # meaning → class numbers


def meaning(name: str) -> str:
    """Return a class or label in its common spelling: lower case, and one word for each NLI relation."""
    letters = re.sub(r"[\W_]+", "", name.lower())
    return next((common for spelt, common in MEANINGS if spelt.fullmatch(letters)), letters)


def classes_of(config: JSON) -> dict[int, str]:
    """Return the names of a classifier's classes by number; transformers' default is two unnamed classes."""
    names = config.get("id2label") or {}
    count = len(names) or int(config.get("num_labels", 2))
    return {number: str(names.get(str(number), f"LABEL_{number}")) for number in range(count)}


def parse_labels(option: str | None, names: Mapping[int, str], model: str) -> dict[str, tuple[int, ...]]:
    """Return the class numbers of each meaning, from `labels=entailment:2;non-entailment:0+1` or else from the config.

    Raises:
        ModelError: the config gives no names, two classes mean the same, or `labels` cannot be parsed.
    """
    if option:
        return dict(_parse_one(part.strip(), names) for part in re.split("[;,]", str(option)) if part.strip())
    if any(NAMELESS.fullmatch(name) for name in names.values()):
        example = "entailment:2;neutral:1;contradiction:0" if len(names) == 3 else "entailment:1;non-entailment:0"
        raise OptionNeeded(
            f"{model!r} names its classes {', '.join(names.values())}, which have no meaning",
            f"say what they mean: --model_args 'labels={example}'",
        )
    classes: dict[str, tuple[int, ...]] = {meaning(name): (number,) for number, name in names.items()}
    if len(classes) < len(names):
        raise ModelError(
            f"{model!r} has several classes with the same meaning ({', '.join(names.values())}); give labels="
        )
    return classes


def _parse_one(part: str, names: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = part.rpartition(":")
    if not name or not re.fullmatch(r"\d+(\+\d+)*", numbers):
        raise ModelError(f"labels: {part!r} must have the form name:number or name:number+number")
    classes = tuple(int(number) for number in numbers.split("+"))
    if not set(classes) <= set(names):
        raise ModelError(f"labels: {part!r} names a class that the model does not have; it has {sorted(names)}")
    return meaning(name), classes


def classes_for(classes: Classes, labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the class numbers of each requested label.

    Raises:
        ModelError: no class means the label, or two labels share a class.
    """
    numbers_by_label: dict[str, tuple[int, ...]] = {}
    for label in labels:
        label_meaning = meaning(label)
        parts = (label_meaning,) if label_meaning in classes else SPLIT_LABELS.get(label_meaning, (label_meaning,))
        if not all(part in classes for part in parts):
            raise ModelError(f"no class of the model means {label!r} (it has {', '.join(classes)}); give labels=")
        numbers_by_label[label] = tuple(number for part in parts for number in classes[part])
    numbers = [number for class_numbers in numbers_by_label.values() for number in class_numbers]
    if len(set(numbers)) < len(numbers):
        raise ModelError(f"the model's classes ({', '.join(classes)}) cannot distinguish {' and '.join(labels)}")
    return numbers_by_label


Probability = float | tuple[float, ...]  # of a label, or of each of its classes

DECISIONS: dict[str, Callable[[list[float]], Probability]] = {
    "argmax": lambda classes: tuple(classes) if len(classes) > 1 else classes[0],
    "sum": math.fsum,
}
"""Functions from the probabilities of a label's classes to those of the label; the highest one decides."""


def label_scores(
    logits: Floats, behind: Classes, decide: Callable[[list[float]], Probability]
) -> dict[str, Probability]:
    """Return the probability of each label, or those of its classes, from the logits (classes,) of one pair.

    All probabilities sum to 1: classes that belong to no label are left out. NaN stays NaN.
    """
    import numpy as np

    relevant = logits[[number for numbers in behind.values() for number in numbers]]
    weights = np.exp(relevant - relevant.max())
    shares = iter((weights / weights.sum()).tolist())
    return {label: decide([next(shares) for _ in numbers]) for label, numbers in behind.items()}


# ---- the backends ----------------------------------------------------------------------------------------------------


class PairModel(Neural[PairSettings, LoadedModel]):
    """A sequence classifier on pairs; subclasses interpret its outputs.

    Attributes:
        prompts: the prompt of queries is read before the first text of each pair.
    """

    prompts = Prompts()

    def logits(self, pairs: Sequence[TextPair | PairLabel]) -> Outputs[Any]:
        """Return the head's raw outputs as an array (n, classes), float64."""
        network = self.network
        lefts, rights = [self.prompts.query + pair.left for pair in pairs], [pair.right for pair in pairs]
        return self.outputs(ModelTexts(network.tokenizer, lefts, network.limit, rights))

    def outputs(self, inputs: ModelTexts) -> Outputs[Any]:
        """Return the head's raw outputs for texts or pairs, as `logits` does."""
        import numpy as np

        network = self.network

        def start(batch: dict[str, Tensor], _rows: list[int]) -> Copy:
            import torch

            with torch.inference_mode():
                return Copy(network.model(**batch).logits.double())

        outputs = self.read_texts(inputs, start, fetched_rows)
        rows: Any = np.stack([row for row in outputs.values if row is not None])  # none is left out
        return Outputs(rows, outputs.truncated)

    def describe(self) -> JSON:
        """Return the model's description, with its prompts if there are any."""
        return super().describe() | self.prompts.describe()

    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and tokenizer, with the prompts if there are any."""
        return self.prompts.identity(super().fingerprint())

    def load(self) -> LoadedModel:
        """Load the classifier with its head."""
        from transformers import AutoModelForSequenceClassification

        network = load_with_tokenizer(AutoModelForSequenceClassification, self.setup)
        # Decoders with a head need it to find the last token.
        network.model.config.pad_token_id = with_padding(network.tokenizer).pad_token_id
        return network

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size and limit."""
        return measures(network.model, network.limit)


class PairScorer(PairModel):
    """A cross-encoder with one output; higher is closer."""

    def score_pairs(self, requests: Sequence[TextPair]) -> Outputs[float]:
        """Return the raw outputs, because sigmoids would round those of the best candidates to the same 1."""
        outputs = self.logits(requests)
        return Outputs([float(row[0]) for row in outputs.values], outputs.truncated)


class PairLabeller(PairModel):
    """A classifier with named classes; if it `is_doubtful` what they mean, it is checked once the head is loaded."""

    def __init__(
        self, setup: ModelSetup[PairSettings], classes: Mapping[str, tuple[int, ...]], *, is_doubtful: bool = False
    ) -> None:
        super().__init__(setup)
        self.classes = classes
        self.is_doubtful = is_doubtful

    def label_pairs(self, requests: Sequence[PairLabel]) -> Outputs[dict[str, Probability]]:
        """Return the probabilities of the requested labels' classes, summing to 1; with decision=sum one per label.

        Raises:
            ModelError: the classes do not distinguish the requested labels.
        """
        classes_by_labels = {
            labels: classes_for(self.classes, labels) for labels in {request.labels for request in requests}
        }
        outputs = self.logits(requests)
        decide = DECISIONS[self.setup.settings.decision]
        rows = zip(outputs.values, requests, strict=True)
        values = [label_scores(logits, classes_by_labels[request.labels], decide) for logits, request in rows]
        return Outputs(values, outputs.truncated)

    def check(self) -> list[str]:
        """Return a warning if the labels may be in another order."""
        head = self.setup.checkpoint.model, self.classes, self.label_pairs
        return label_order_warnings(*head) if self.is_doubtful else []

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size and limit, the meanings of its classes, and how they are combined into labels."""
        classes = {name: list(ids) for name, ids in self.classes.items()}
        return super().details(network) | {"classes": classes, "decision": self.setup.settings.decision}


def with_padding(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer; if it has no padding token, as GPT-2's, it pads with the end-of-text token."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def open_pairs(settings: PairSettings) -> PairLabeller | PairScorer:
    """Open a cross-encoder if the head has one output, otherwise a labeller.

    Raises:
        ModelError: no such model, not a classifier, unnamed classes, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "pairs")
    settings = with_declared(settings, checkpoint)
    names = classes_of(checkpoint.config)
    model: PairLabeller | PairScorer
    if len(names) == 1:
        model = PairScorer(prepare(settings, checkpoint))
    else:
        classes = parse_labels(settings.labels, names, checkpoint.model)
        is_doubtful = may_be_mixed_up(checkpoint, names, settings.labels)
        model = PairLabeller(prepare(settings, checkpoint), classes, is_doubtful=is_doubtful)
    model.prompts = place_pair_prompt(checkpoint, settings.query_prompt)
    return model


pairs = Configured(PairSettings, open_pairs)
