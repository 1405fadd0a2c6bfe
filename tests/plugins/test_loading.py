"""A checkpoint is scored with all weights that it has, or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import Cloze, Continuation, ModelError, Text, TextPair
from figeval.builtin.plugins.causal.language_model import causal, seq2seq
from figeval.builtin.plugins.encoders.encoder import encoder
from figeval.builtin.plugins.encoders.masked import masked
from figeval.builtin.plugins.encoders.pair_model import pairs
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


CALL_OF_MODEL: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "encoder": ("bert", "ForMaskedLM", lambda path: encoder(path, pooling="cls").embed([Text("a")])),
    "masked": ("roberta", "ForMaskedLM", lambda path: masked(path).fill([Cloze("a ", " b", ("c",))])),
    "pairs": ("distilbert", "ForSequenceClassification", lambda path: pairs(path).score_pairs([TextPair("a", "b")])),
    "causal": ("gpt2", "LMHeadModel", lambda path: causal(path).loglikelihood([Continuation("a", " b")])),
    "seq2seq": ("t5", "ForConditionalGeneration", lambda path: seq2seq(path).loglikelihood([Continuation("a", " b")])),
}


@pytest.mark.parametrize("route", CALL_OF_MODEL)
@pytest.mark.parametrize(
    ("n", "reason"), [(1, "does not account for: .*unexpected.*correct config.json"), (3, "no weights for")]
)
def test_layers_that_the_config_does_not_count(
    route: str, n: int, reason: str, workshop: Workshop, tmp_path: Path
) -> None:
    kind, head, ask = CALL_OF_MODEL[route]
    folder = workshop(kind, head, **({"num_labels": 1} if route == "pairs" else {}))
    ask(str(folder))
    with pytest.raises(ModelError, match=reason) as caught:
        ask(with_layers(folder, tmp_path / "copy", n))
    assert "\n" not in str(caught.value)
    assert "lm-eval" not in str(caught.value)


def test_sentence_transformers_are_no_exception(sentence_folder: Path, tmp_path: Path) -> None:
    encoder(str(sentence_folder)).embed([Text("a")])
    with pytest.raises(ModelError, match="does not account for"):
        encoder(with_layers(sentence_folder, tmp_path / "copy", 1)).embed([Text("a")])


def test_heads_and_poolers_may_be_left_over(workshop: Workshop) -> None:
    encoder(str(workshop("bert", "ForSequenceClassification")), pooling="mean").embed([Text("a")])
    encoder(str(workshop("gpt2", "LMHeadModel")), pooling="last").embed([Text("a")])


def test_torch_computes_attention_by_kernels_that_need_no_plan_for_every_shape(workshop: Workshop) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    encoder(str(workshop("bert", "ForMaskedLM")), pooling="cls")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_nobody_who_did_not_ask_for_lm_eval_hears_of_it(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workshop("gpt2", "LMHeadModel"), folder)
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="copy' cannot be loaded: ") as caught:
        causal(str(folder)).loglikelihood([Continuation("a", " b")])
    assert "lm-eval" not in str(caught.value)


def test_a_configuration_without_heads_is_an_error_of_the_checkpoint(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workshop("bert", "ForMaskedLM"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 0}))
    with pytest.raises(ModelError, match=r"cannot be loaded by .*ZeroDivisionError"):
        encoder(str(folder), pooling="cls").embed([Text("a")])
