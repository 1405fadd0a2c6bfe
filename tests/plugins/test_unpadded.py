"""Encoders that read rows without padding: the same states and gradients, and models that cannot do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from figeval import Text
from figeval.builtin.plugins.encoders import encoder as sentence_encoder
from figeval.builtin.plugins.encoders.encoder import encoder
from figeval.builtin.plugins.encoders.masked import masked_logits
from figeval.builtin.plugins.torch_models import loading, rows
from figeval.builtin.plugins.torch_models.rows import Layout, by_efficient, by_flash, by_jagged, by_row
from figeval.builtin.plugins.torch_models.unpadded import describe_padding, read_without_padding
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

# On a CPU, nested tensors are computed by a prototype.
pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")

ON_CPU = {"cpu": (by_row,)}
WORDS, LENGTHS = 100, [20, 7, 1, 13, 4]
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
}
NARROW_SIZES = {**SIZES, "embedding_size": 16}
DISTIL_SIZES = {
    "vocab_size": WORDS,
    "dim": 32,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 40,
}
UNPADDED_CONFIGS = {
    "Bert": SIZES,
    "Roberta": SIZES,
    "XLMRoberta": SIZES,
    "DistilBert": {**DISTIL_SIZES, "pad_token_id": 1},
    "Electra": NARROW_SIZES,
    "Albert": NARROW_SIZES,
}
RELATIVE_SIZES = {**SIZES, "relative_attention": True, "pos_att_type": "p2c|c2p"}
PADDED_CONFIGS = {
    "MPNet": (SIZES, "attention of its own"),
    "DebertaV2": (RELATIVE_SIZES, "attention of its own"),
    "ModernBert": (SIZES, "no module of their own"),
    "Llama": (SIZES, "no module of their own"),
}


def build(name: str, options: dict[str, Any], auto: str = "AutoModel", **further: Any) -> Any:
    """A model with weights large enough that tokens matter to one another."""
    import transformers

    torch.manual_seed(0)
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 2)
    config = getattr(transformers, f"{name}Config")(**{**special, **options, **further})
    model = getattr(transformers, auto).from_config(config).float().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.2)
    return model


def batch(lengths: list[int] = LENGTHS) -> dict[str, Any]:
    """Rows of random tokens, padded with 1 as RoBERTa's are, from which it counts its positions."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)).long()
    ids = torch.randint(5, WORDS, mask.shape, generator=torch.Generator().manual_seed(1))
    return {"input_ids": torch.where(mask.bool(), ids, 1), "attention_mask": mask}


def states(model: Any, inputs: dict[str, Any]) -> list[Any]:
    """States of the tokens, and the pooled ones if there are any."""
    with torch.inference_mode():
        output = model(**inputs)
    pooled = getattr(output, "pooler_output", None)
    return [output.last_hidden_state[inputs["attention_mask"].bool()], *([] if pooled is None else [pooled])]


def close(tensors: list[Any], expected: list[Any], atol: float = 1e-5) -> None:
    for tensor, other in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor, other, atol=atol, rtol=1e-4)


@pytest.mark.parametrize("kernel", [by_row, by_jagged])
@pytest.mark.parametrize("name", UNPADDED_CONFIGS)
def test_states_are_those_of_padded_rows(name: str, kernel: rows.Kernel) -> None:
    model = build(name, UNPADDED_CONFIGS[name])
    expected = states(model, batch())
    assert read_without_padding(model, {"cpu": (kernel,)}) == ""
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.parametrize("name", UNPADDED_CONFIGS)
def test_layers_see_no_padding(name: str) -> None:
    model = build(name, UNPADDED_CONFIGS[name])
    read_without_padding(model, ON_CPU)
    seen = set()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.in_features == 64:  # of every layer
            module.register_forward_pre_hook(lambda _module, inputs: seen.add(tuple(inputs[0].shape[:2])))
    model(**batch())
    seen.clear()
    model(**batch())
    assert seen == {(1, sum(LENGTHS))}


@pytest.mark.parametrize("name", PADDED_CONFIGS)
def test_models_that_cannot_be_read_so_are_padded_and_say_why(name: str) -> None:
    options, reason = PADDED_CONFIGS[name]
    model = build(name, options)
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    close(states(model, batch()), expected, atol=0)
    assert describe_padding(model)["padding"].startswith("to the longest (")
    assert reason.split()[-1] in describe_padding(model)["padding"]


def neighbours(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
    """A kernel whose rows begin one token too late."""
    shifted = [layout.lengths[0] + 1, layout.lengths[1] - 1, *layout.lengths[2:]]
    wrong = Layout(layout.shape, shifted, layout.indexes, layout.offsets, by_row)
    return by_row(query, key, value, wrong, dropout, scale)


def broken(*_: object) -> Any:
    raise RuntimeError("no kernel image is available")


@pytest.mark.parametrize(("kernel", "reason"), [(neighbours, "differ"), (broken, "no kernel image")])
@pytest.mark.parametrize("half", [False, True])
def test_a_kernel_that_is_wrong_or_fails_is_not_used(kernel: rows.Kernel, reason: str, half: bool) -> None:
    model = build("Roberta", SIZES).to(torch.bfloat16 if half else torch.float32)
    expected = states(model, batch())
    read_without_padding(model, {"cpu": (kernel,)})
    close(states(model, batch()), expected, atol=0)
    assert reason in describe_padding(model)["padding"]


def test_the_next_kernel_takes_the_place_of_one_that_fails() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, {"cpu": (broken, neighbours, by_row)})
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}


def test_half_precision_is_judged_by_single_precision() -> None:
    model = build("Roberta", SIZES)
    model.encoder.register_buffer("scale", torch.ones(1))
    model = model.bfloat16()
    weights = {name: (id(tensor), tensor.clone()) for name, tensor in model.named_parameters()}
    read_without_padding(model, ON_CPU)
    assert all(part.dtype == torch.bfloat16 for part in states(model, batch()))
    assert describe_padding(model) == {"padding": "none"}
    for name, tensor in model.named_parameters():
        assert id(tensor) == weights[name][0]
        assert torch.equal(tensor, weights[name][1])
    assert model.encoder.scale.dtype == torch.bfloat16


def test_without_a_kernel_for_the_device_nothing_changes() -> None:
    model = build("Roberta", SIZES)
    expected = states(model, batch())
    assert read_without_padding(model) == ""
    close(states(model, batch()), expected, atol=0)
    assert describe_padding(model) == {}
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("lengths", [[6, 6, 6], [3], [1, 1], [30, 1]])
def test_rows_of_any_lengths(lengths: list[int]) -> None:
    model = build("Roberta", SIZES)
    expected = [states(model, batch(chosen)) for chosen in (lengths, LENGTHS, lengths)]
    read_without_padding(model, ON_CPU)
    for chosen, states_of_lengths in zip((lengths, LENGTHS, lengths), expected, strict=True):
        close(states(model, batch(chosen)), states_of_lengths)


def test_padding_on_the_left() -> None:
    model = build("Bert", SIZES)
    inputs = {name: tensor.flip(1) for name, tensor in batch().items()}
    expected = states(model, inputs)[:1]  # the pooled state is that of a padding
    read_without_padding(model, ON_CPU)
    states(model, batch())
    close(states(model, inputs)[:1], expected)


def test_states_of_all_layers_are_padded() -> None:
    model = build("Bert", SIZES)
    expected = model(**batch(), output_hidden_states=True).hidden_states
    read_without_padding(model, ON_CPU)
    model(**batch())
    for layer, other in zip(model(**batch(), output_hidden_states=True).hidden_states, expected, strict=True):
        close([layer[batch()["attention_mask"].bool()]], [other[batch()["attention_mask"].bool()]])


def test_the_trial_is_hidden_from_hooks_that_know_the_batch() -> None:
    """The head of a masked model sees only some states of the batch; there are fewer in the sample."""
    model = build("Bert", SIZES, "AutoModelForMaskedLM")
    chosen = [3, 4], [11, 2]
    with torch.inference_mode():
        expected = masked_logits(model, batch(), *chosen, sparse=True)
    read_without_padding(model, ON_CPU)
    with torch.inference_mode():
        close([masked_logits(model, batch(), *chosen, sparse=True)], [expected])
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.parametrize("pooling", ["mean", "", "cls"])
def test_vectors_of_backends(pooling: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of raw encoders, and of sentence-transformers, which calls the method `forward` without the hooks of a module."""
    from sentence_transformers import SentenceTransformer

    model = str(workshop("bert", "Model"))
    if not pooling:
        SentenceTransformer(model).save(str(tmp_path))
        model = str(tmp_path)
    requests = [Text(text) for text in (*LINES, "a", LONG_TEXT)]
    settings = {"pooling": pooling} if pooling else {}
    expected = encoder(model, **settings).embed(requests)
    monkeypatch.setitem(rows.KERNELS, "cpu", (by_row,))
    for module in (loading, sentence_encoder):
        monkeypatch.setattr(module, "is_accelerator", lambda _device: True)
    backend = encoder(model, **settings)
    np.testing.assert_allclose(backend.embed(requests).values, expected.values, atol=1e-5)
    assert backend.describe()["padding"] == "none"


# ---- training --------------------------------------------------------------------------------------------------------


def gradients(model: Any, labels: Any) -> dict[str, Any]:
    """The loss of a head, and its gradients."""
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(**batch()).logits.float(), labels)
    loss.backward()
    return {
        "loss": loss.detach(),
        **{name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None},
    }


# Nested tensors of a CPU cannot be checkpointed.
@pytest.mark.parametrize(("kernel", "checkpointing"), [(by_row, False), (by_row, True), (by_jagged, False)])
@pytest.mark.parametrize("name", UNPADDED_CONFIGS)
def test_losses_and_gradients_are_those_of_padded_rows(name: str, kernel: rows.Kernel, checkpointing: bool) -> None:
    dropouts = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
    none = dict.fromkeys((*dropouts, "seq_classif_dropout", "classifier_dropout_prob"), 0.0)
    model = build(name, UNPADDED_CONFIGS[name], "AutoModelForSequenceClassification", **none).train()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.1)
    if checkpointing and model.supports_gradient_checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": False})
    labels = torch.tensor([0, 1, 1, 0, 1])
    expected = gradients(model, labels)
    read_without_padding(model, {"cpu": (kernel,)})
    unpadded = gradients(model, labels)
    assert unpadded.keys() == expected.keys()
    for key, value in expected.items():
        scale = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(unpadded[key] / scale, value / scale, atol=1e-5, rtol=1e-3)
    assert describe_padding(model) == {"padding": "none"}


def test_an_encoder_within_a_checkpoint() -> None:
    """As with gradient caching: what the trial computes is no part of what is computed again."""
    model = build("Bert", SIZES)

    def gradient() -> Any:
        model.zero_grad()
        output = checkpoint(lambda: model(**batch()).last_hidden_state, use_reentrant=False)
        output[batch()["attention_mask"].bool()].square().mean().backward()
        return model.encoder.layer[0].attention.self.value.weight.grad.clone()

    expected = gradient()
    read_without_padding(model, ON_CPU)
    close([gradient(), gradient()], [expected, expected])
    assert describe_padding(model) == {"padding": "none"}


def test_dropout_of_attention_is_drawn_in_training_only() -> None:
    dropouts = []

    def noting(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        dropouts.append(dropout)
        return by_row(query, key, value, layout, dropout, scale)

    model = build("Bert", SIZES, attention_probs_dropout_prob=0.25, hidden_dropout_prob=0.0)
    read_without_padding(model, {"cpu": (noting,)})
    for training in (False, True):
        model.train(training)(**batch())
        dropouts.clear()
        model(**batch())
        assert set(dropouts) == {0.25 if training else 0.0}


def test_the_trial_leaves_no_trace() -> None:
    """No gradients, no random numbers, no modes."""
    model = build("Bert", SIZES, "AutoModelForSequenceClassification").train()
    model.bert.embeddings.eval()
    torch.manual_seed(3)
    expected = torch.rand(1)
    read_without_padding(model, {"cpu": (broken,)})
    torch.manual_seed(3)
    with torch.no_grad():
        model.eval()
        model(**batch())
    model.train()
    model.bert.embeddings.eval()
    read_without_padding(model, ON_CPU)
    modes = [module.training for module in model.modules()]
    model.bert(**batch())
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), expected)


def test_a_kernel_that_fails_in_training_leaves_the_next_a_fair_trial() -> None:
    def without_dropout(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        return broken() if dropout else by_row(query, key, value, layout, dropout, scale)

    model = build("Bert", SIZES, hidden_dropout_prob=0.5).train()
    read_without_padding(model, {"cpu": (without_dropout, by_row)})
    model(**batch())
    assert describe_padding(model) == {"padding": "none"}
    read_without_padding(other := build("Bert", SIZES).train(), {"cpu": (without_dropout,)})
    other(**batch())
    assert "no kernel image" in describe_padding(other)["padding"]


def test_a_saved_model_knows_nothing_of_it(tmp_path: Path) -> None:
    model = build("Roberta", SIZES)
    expected = {file.name: file.read_bytes() for file in save_model(model, tmp_path / "before")}
    read_without_padding(model, ON_CPU)
    states(model, batch())
    assert {file.name: file.read_bytes() for file in save_model(model, tmp_path / "after")} == expected


def save_model(model: Any, folder: Path) -> list[Path]:
    model.save_pretrained(folder)
    return list(folder.iterdir())


def test_the_first_half_precision_step_has_gradients_of_all_weights() -> None:
    """Autocast of older versions of torch remembers weights that it cast without gradients, as in the trial."""
    model = build("Bert", SIZES, "AutoModelForSequenceClassification").train()
    for name, parameter in model.bert.named_parameters():
        parameter.requires_grad_(parameter.dim() > 1 and "pooler" not in name)
    read_without_padding(model, ON_CPU)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch()).logits.float().square().sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.bert.encoder.parameters() if parameter.requires_grad)
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.slow
def test_a_compiled_model_is_padded() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    close(states(model, batch()), expected)
    model.compile(backend="eager")
    close(states(model, batch()), expected)


@pytest.mark.parametrize("kernel", [by_flash, by_efficient])
@pytest.mark.parametrize("is_trained", [False, True])
def test_kernels_are_called_as_torch_defines_them(kernel: rows.Kernel, is_trained: bool) -> None:
    """They need a GPU; the shapes of their results do not."""
    query = torch.empty(45, 4, 8, dtype=torch.bfloat16, device="meta", requires_grad=is_trained)
    offsets = torch.empty(6, dtype=torch.int32, device="meta")
    layout = Layout((5, 20), LENGTHS, offsets, offsets, kernel)
    output = kernel(query, query, query, layout, 0.1, 0.5)
    assert (output.shape, output.requires_grad) == (query.shape, is_trained)
