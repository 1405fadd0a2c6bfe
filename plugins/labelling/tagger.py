"""Token classification: any `…ForTokenClassification` checkpoint of transformers. Capability: label_words.

The words are joined by blanks. A word has the probabilities of its first piece (Devlin et al. 2019, section 5.3), as
such heads are trained. A text that is too long is read in windows that overlap by half, and each word's probabilities
come from the window with most context, so that nothing is truncated. A word that the tokenizer drops is outside.

The model's own labels are those of its `id2label`. It need not have all labels of a task: a model trained on one-word
metaphors has no `I-METAPHOR`. A model that shares no label but `O` is rejected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.types import JSON

from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.loading import LoadedModel, Neural, load_with_tokenizer, measures, prepare
from ..torch_models.overlapping import Copy, fetched_rows
from ..torch_models.settings import Configured, Settings
from ..torch_models.tokens import Floats, Passages, passages
from .requests import LabelWords
from .tags import OUTSIDE

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

RULE = "the first token of a word has its label; of several windows, the one with the most context counts"


@dataclass(frozen=True, slots=True)
class WordPieces:
    """Texts as inputs of a model; `first[i][w]` is the first piece of word w of text i, or -1 if it has none."""

    passages: Passages
    first: list[list[int]]


def word_pieces(texts: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, limit: int | None) -> WordPieces:
    """Return words as inputs of at most `limit` tokens, with the first piece of each word."""
    windows = passages(tokenizer, [[" ".join(words) for words in texts]], 0, limit)
    return WordPieces(
        windows, [first_pieces(*text_and_offsets) for text_and_offsets in zip(texts, windows.offsets, strict=True)]
    )


def first_pieces(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return the first piece of each word, or -1 for a word without one.

    `offsets` are the characters of the pieces in the joined words. A piece may begin with the blank before its word, as
    in SentencePiece, so its end decides; a piece of blanks alone belongs to no word.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    first = [-1] * len(words)
    for piece, (start, end) in enumerate(offsets):
        word = bisect_left(starts, end) - 1
        if end > start and 0 <= word < len(words) and end <= starts[word] + len(words[word]) and first[word] < 0:
            first[word] = piece
    return first


class Tagger(Neural[Settings, LoadedModel]):
    """A model that labels each word of a text."""

    capabilities = ("label_words",)

    def label_words(self, requests: Sequence[LabelWords]) -> list[list[dict[str, float]]]:
        """Return, per request and word, the probability of each label that both the task and the model have.

        Raises:
            ModelError: model and task share no label but `O`.
        """
        network = self.network
        label_names: Mapping[int, str] = network.model.config.id2label
        for labels in {request.labels for request in requests}:
            require_shared_labels(self.setup.settings.model, list(label_names.values()), labels)
        pieces = word_pieces([request.words for request in requests], network.tokenizer, network.limit)

        def start(batch: dict[str, Tensor], _rows: list[int]) -> Copy:
            import torch

            with torch.inference_mode():
                return Copy(network.model(**batch).logits.float().softmax(dim=-1))

        def fetch(copy: Copy, rows: list[int]) -> list[Floats]:
            return pieces.passages.crop(fetched_rows(copy, rows), rows)

        outputs = self.read_batches(pieces.passages.tokens.lengths, pieces.passages.tokens.on_host, start, fetch)
        rows_of_texts = zip(requests, pieces.passages.join(outputs), pieces.first, strict=True)
        return [
            [probabilities(label_names, table[piece] if piece >= 0 else None, request.labels) for piece in first]
            for request, table, first in rows_of_texts
        ]

    def load(self) -> LoadedModel:
        """Load the model with its head."""
        from transformers import AutoModelForTokenClassification

        return load_with_tokenizer(AutoModelForTokenClassification, self.setup)

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size, limit and labels, and the rule for labelling words."""
        labels = list(network.model.config.id2label.values())
        return measures(network.model, network.limit) | {"labels": labels, "words": RULE}


def probabilities(label_names: Mapping[int, str], row: Floats | None, labels: Sequence[str]) -> dict[str, float]:
    """Return the probability of each of the task's labels that the model has."""
    if row is None:
        return {OUTSIDE: 1.0}
    return {label: float(row[number]) for number, label in label_names.items() if label in labels}


def require_shared_labels(model: str, model_labels: Sequence[str], labels: Sequence[str]) -> None:
    """Raise `ModelError` if a model has none of a task's labels but `O`."""
    if not (set(model_labels) & set(labels)) - {OUTSIDE}:
        raise ModelError(
            f"{model!r} has the labels {', '.join(map(str, model_labels))}, and none of the task's, "
            f"{', '.join(labels)}; train one by figeval train --head tagger, or rename id2label in its config.json"
        )


def open_tagger(settings: Settings) -> Tagger:
    """Open a token-classification model from a folder or hub id.

    Raises:
        ModelError: no such model, no such head, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "tagger")
    return Tagger(prepare(with_declared(settings, checkpoint), checkpoint))


tagger = Configured(Settings, open_tagger)
