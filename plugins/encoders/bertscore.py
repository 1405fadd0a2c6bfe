"""The metric BERTScore (Zhang et al. 2020), computed with the optional library bert_score.

It is the F1 of greedily matched contextual embeddings. `FIGEVAL_BERTSCORE_MODEL` names a model or folder (default:
roberta-large, the library's own for English). As by default in the library, there is no idf weighting and no rescaling;
for a model that the library does not know, the last layer is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.extras import require
from figeval.io.files import is_folder
from figeval.metrics.statistic import Statistic, ratio
from figeval.metrics.texts import lowercased_answer
from figeval.task_types.generation import GenerationExample
from figeval.types import Prediction

from ..torch_models.files import fingerprint
from ..torch_models.loading import suppress_logging

if TYPE_CHECKING:
    from bert_score import BERTScorer

VARIABLE, DEFAULT = "FIGEVAL_BERTSCORE_MODEL", "roberta-large"


def _f1(example: GenerationExample, prediction: Prediction) -> Sequence[float] | None:
    """Return the F1 against the best of several references, on lower-cased texts."""
    text = lowercased_answer(prediction)
    if text is None:
        return None
    scorer = _scorer(_model())
    *_, f1 = scorer.score([text], [[reference.lower() for reference in example.references]])
    return (float(f1[0]), 1.0)


def _model() -> str:
    return os.environ.get(VARIABLE) or DEFAULT


@cache
def _layer(model: str) -> int:
    """Return the number of the layer whose states are compared.

    Raises:
        MissingPackage: the library is not installed.
        ModelError: the model cannot be loaded.
    """
    require("bert_score", "the metric 'bertscore'")
    from bert_score.utils import model2layers
    from transformers import AutoConfig

    try:
        layers = int(AutoConfig.from_pretrained(model).num_hidden_layers)
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"bertscore cannot use {model!r} ({reason}); set {VARIABLE} to another model") from error
    return int(model2layers.get(PurePath(model).name, model2layers.get(model, layers)))


@cache
def _scorer(model: str) -> BERTScorer:
    """Return the library's scorer with the model loaded, on a GPU if there is one."""
    layer = _layer(model)
    with suppress_logging():
        from bert_score import BERTScorer

        return BERTScorer(model_type=model, num_layers=layer)


def _signature() -> str:
    """Return model, layer, options and versions. Raises as `_layer` does."""
    model = _model()
    digest = fingerprint(Path(model)).removeprefix("sha256:")[:12] if is_folder(Path(model)) else ""
    parts = (
        f"model:{PurePath(model).name}{digest and f'@{digest}'}",  # a folder's name alone does not identify a model
        f"layer:{_layer(model)}",
        "idf:no|rescaled:no|case:lc",
        f"bert_score:{version('bert_score')}|transformers:{version('transformers')}",
    )
    return "|".join(parts)


bertscore = Statistic(_f1, ratio, is_mean=True, signature=_signature)
