"""A checkpoint is scored with all weights that it has, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import Cloze, Continuation, ModelError, Request, Text, TextPair
from figeval.testing import ask
from tests.plugins.tiny import Workshop

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")


def with_layers(folder: Path, target: Path, n: int) -> str:
    """A copy whose config says that there are n layers, wherever it says so; there are two."""
    shutil.copytree(folder, target)
    for file in target.rglob("config.json"):
        config = json.loads(file.read_text())
        if any(name in config for name in LAYERS):
            file.write_text(json.dumps({**config, **{name: n for name in LAYERS if name in config}}))
    return str(target)


# backend → the kind and head of a checkpoint for it, and a question
CALL_OF_MODEL: dict[str, tuple[str, str, Request]] = {
    "encoder": ("bert", "ForMaskedLM", Text("a")),
    "masked": ("roberta", "ForMaskedLM", Cloze("a ", " b", ("c",))),
    "pairs": ("distilbert", "ForSequenceClassification", TextPair("a", "b")),
    "causal": ("gpt2", "LMHeadModel", Continuation("a", " b")),
    "seq2seq": ("t5", "ForConditionalGeneration", Continuation("a", " b")),
}


@pytest.mark.parametrize("backend", CALL_OF_MODEL)
@pytest.mark.parametrize(
    ("n", "reason"), [(1, "does not account for: .*unexpected.*correct config.json"), (3, "no weights for")]
)
def test_layers_that_the_config_does_not_count(
    backend: str, n: int, reason: str, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    kind, head, request = CALL_OF_MODEL[backend]
    options = {"pooling": "cls"} if backend == "encoder" else {}
    folder = workshop(kind, head, **({"num_labels": 1} if backend == "pairs" else {}))
    ask(open_model(backend, folder, **options), [request])
    with pytest.raises(ModelError, match=reason) as caught:
        ask(open_model(backend, with_layers(folder, tmp_path / "copy", n), **options), [request])
    assert "\n" not in str(caught.value)
    assert "lm-eval" not in str(caught.value)


def test_sentence_transformers_are_no_exception(sentence_folder: Path, tmp_path: Path, open_model: Any) -> None:
    open_model("encoder", sentence_folder).embed([Text("a")])
    with pytest.raises(ModelError, match="does not account for"):
        open_model("encoder", with_layers(sentence_folder, tmp_path / "copy", 1)).embed([Text("a")])


def test_heads_and_poolers_may_be_left_over(workshop: Workshop, open_model: Any) -> None:
    open_model("encoder", workshop("bert", "ForSequenceClassification"), pooling="mean").embed([Text("a")])
    open_model("encoder", workshop("gpt2", "LMHeadModel"), pooling="last").embed([Text("a")])


def test_torch_computes_attention_by_kernels_that_need_no_plan_for_every_shape(
    workshop: Workshop, open_model: Any
) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    open_model("encoder", workshop("bert", "ForMaskedLM"), pooling="cls")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_nobody_who_did_not_ask_for_lm_eval_hears_of_it(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workshop("gpt2", "LMHeadModel"), folder)
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="copy' cannot be loaded: ") as caught:
        open_model("causal", folder).loglikelihood([Continuation("a", " b")])
    assert "lm-eval" not in str(caught.value)


def test_a_configuration_without_heads_is_an_error_of_the_checkpoint(
    workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workshop("bert", "ForMaskedLM"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 0}))
    with pytest.raises(ModelError, match=r"cannot be loaded by .*ZeroDivisionError"):
        open_model("encoder", folder, pooling="cls").embed([Text("a")])
