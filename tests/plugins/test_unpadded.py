"""Encoders that read rows without padding: the same states and gradients, models that cannot do it, and faults."""

from __future__ import annotations

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from figeval import Text
from figeval.builtin.plugins.encoders import encoder as sentence_encoder
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

    def scores() -> Any:
        def choose(_module: Any, _inputs: Any, output: Any) -> Any:
            output["last_hidden_state"] = output["last_hidden_state"][[3, 4], [11, 2]].unsqueeze(1)
            return output

        hook = model.base_model.register_forward_hook(choose)
        with torch.inference_mode():
            logits = model(**batch(), return_dict=True).logits
        hook.remove()
        return logits

    expected = scores()
    read_without_padding(model, ON_CPU)
    close([scores()], [expected])
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.parametrize("pooling", ["mean", "", "cls"])
def test_vectors_of_backends(
    pooling: str, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    """Of raw encoders, and of sentence-transformers, which calls the method `forward` without the hooks of a module."""
    from sentence_transformers import SentenceTransformer

    model = str(workshop("bert", "Model"))
    if not pooling:
        SentenceTransformer(model).save(str(tmp_path))
        model = str(tmp_path)
    requests = [Text(text) for text in (*LINES, "a", LONG_TEXT)]
    settings = {"pooling": pooling} if pooling else {}
    expected = open_model("encoder", model, **settings).embed(requests)
    monkeypatch.setitem(rows.KERNELS, "cpu", (by_row,))
    for module in (loading, sentence_encoder):
        monkeypatch.setattr(module, "is_accelerator", lambda _device: True)
    backend = open_model("encoder", model, **settings)
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
@pytest.mark.parametrize(
    ("kernel", "checkpointing"),
    [(by_row, True), (by_jagged, False), pytest.param(by_row, False, marks=pytest.mark.slow)],
)
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


# ---- faults after the trial or in it, and threads that share a model ------------------------------------------------


class Failing:
    """A kernel that raises an error in some of its calls; three calls, one for each layer, are a pass."""

    def __init__(self, error: type[Exception], first: int, last: int = 10**9) -> None:
        self.error, self.first, self.last = error, first, last
        self.calls = 0

    def __call__(self, *states: Any) -> Any:
        self.calls += 1
        if self.first <= self.calls <= self.last:
            raise self.error("too many rows")
        return by_row(*states)


TRIAL = 3  # calls of a kernel in a trial without gradients


def test_a_kernel_that_fails_in_a_later_batch_is_not_used_any_more() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    kernel = Failing(RuntimeError, TRIAL + 5)
    read_without_padding(model, {"cpu": (kernel,)})
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}
    for _ in range(3):
        close(states(model, batch()), expected, atol=0)
    assert kernel.calls == TRIAL + 5
    assert "too many rows" in describe_padding(model)["padding"]


def test_an_input_that_no_reading_accepts_says_nothing_about_the_kernel() -> None:
    model = build("Bert", SIZES)
    read_without_padding(model, ON_CPU)
    states(model, batch())
    with pytest.raises(IndexError):
        states(model, {**batch(), "input_ids": batch()["input_ids"] + WORDS})
    assert describe_padding(model) == {"padding": "none"}


def test_memory_that_runs_out_in_a_later_batch_is_a_matter_of_its_size() -> None:
    model = build("Bert", SIZES)
    read_without_padding(model, {"cpu": (Failing(torch.OutOfMemoryError, TRIAL + 5, TRIAL + 5),)})
    states(model, batch())
    with pytest.raises(torch.OutOfMemoryError):
        states(model, batch())
    states(model, batch())
    assert describe_padding(model) == {"padding": "none"}


def test_memory_that_runs_out_in_a_trial_decides_nothing() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, {"cpu": (Failing(torch.OutOfMemoryError, 1, 1), broken)})
    close(states(model, batch()), expected, atol=0)
    assert "memory" in describe_padding(model)["padding"]
    close(states(model, batch()), expected)
    assert describe_padding(model) == {"padding": "none"}


def test_trials_that_never_fit_become_rare() -> None:
    model = build("Bert", SIZES)
    kernel = Failing(torch.OutOfMemoryError, 1)
    read_without_padding(model, {"cpu": (kernel,)})
    for _ in range(20):
        states(model, batch())
    assert kernel.calls == len([0, 1, 2, 4, 8, 16])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32])
def test_masks_of_any_type(dtype: torch.dtype) -> None:
    model = build("Bert", SIZES)
    inputs = {**batch(), "attention_mask": (3 * batch()["attention_mask"]).to(dtype)}
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    for _ in range(2):
        close(states(model, inputs), expected)
    assert describe_padding(model) == {"padding": "none"}


def test_lengths_of_a_mask_that_was_modified_are_forgotten() -> None:
    mask = rows.with_lengths(batch()["attention_mask"], [0])
    assert rows.lengths_of(mask) == [0]
    mask[:, 5:] = 0
    assert rows.lengths_of(mask) == [5, 5, 1, 5, 4]
    with torch.inference_mode():  # torch does not count modifications
        assert rows.lengths_of(rows.with_lengths(batch()["attention_mask"].clone(), [0])) == LENGTHS


def test_threads_do_not_disturb_one_another() -> None:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.0005)  # another thread's turn
        return by_row(*arguments)

    model = build("Bert", SIZES)
    batches = [batch(chosen) for chosen in (LENGTHS, [15] * 4, [9, 3], [20, 19, 18])]
    expected = [states(model, inputs) for inputs in batches]
    read_without_padding(model, {"cpu": (slow,)})
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            for states_of_batch, right in zip(
                threads.map(lambda inputs: states(model, inputs), batches), expected, strict=True
            ):
                close(states_of_batch, right)


def test_a_copied_model_is_read_without_padding() -> None:
    model = build("Bert", SIZES)
    expected = states(model, batch())
    read_without_padding(model, ON_CPU)
    twin = copy.deepcopy(model)
    close(states(twin, batch()), expected)
    assert (describe_padding(model), describe_padding(twin)) == ({}, {"padding": "none"})


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_kernel_without_dropout_is_used_without_it(is_frozen: bool) -> None:
    def without_dropout(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        return broken() if dropout else by_row(query, key, value, layout, dropout, scale)

    model = build("Bert", SIZES).requires_grad_(not is_frozen)
    read_without_padding(model, {"cpu": (without_dropout,)})
    for _ in range(2):
        states(model, batch())
        states(model.train(), batch())
        model.eval()
    assert describe_padding(model) == {"padding": "none"}


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("kernel", [by_row, broken])
def test_trainings_are_told_whether_rows_are_padded(is_frozen: bool, kernel: rows.Kernel) -> None:
    model = build("Bert", SIZES, "AutoModelForSequenceClassification").train()
    model.bert.requires_grad_(not is_frozen)
    read_without_padding(model, {"cpu": (kernel,)})
    model(**batch())
    assert model.bert.reads_without_padding == (kernel is by_row)


def test_a_kernel_that_fails_in_a_later_step_is_told_to_trainings() -> None:
    model = build("Bert", SIZES, "AutoModelForSequenceClassification")
    labels = torch.tensor([0, 1, 1, 0, 1])
    expected = gradients(model, labels)
    kernel = Failing(RuntimeError, TRIAL + 5)
    read_without_padding(model, {"cpu": (kernel,)})
    for without_padding in (True, False):
        unpadded = gradients(model, labels)
        close([unpadded[key] for key in expected], list(expected.values()), atol=1e-4)
        assert model.bert.reads_without_padding == without_padding


def test_a_kernel_that_fails_between_checkpoints() -> None:
    """As with gradient caching: a batch is computed again as it was at first, though the verdict has changed."""
    model = build("Bert", SIZES)
    batches = [batch(), batch([9, 3, 12]), batch([4, 11])]

    def gradient() -> Any:
        model.zero_grad()
        inputs = [dict(each, attention_mask=each["attention_mask"].clone()) for each in batches]
        outputs = [checkpoint(lambda x: model(**x).last_hidden_state, each, use_reentrant=False) for each in inputs]
        masks = [each["attention_mask"].bool() for each in batches]
        sum(output[mask].square().mean() for output, mask in zip(outputs, masks, strict=True)).backward()
        return model.encoder.layer[0].attention.self.value.weight.grad.clone()

    def many_rows(query: Any, key: Any, value: Any, layout: Layout, dropout: float, scale: float | None) -> Any:
        if layout.lengths == [9, 3, 12]:
            calls.append(layout)
            if len(calls) % 3 == 2:  # in the second layer
                calls.append(layout)
                broken()
        return by_row(query, key, value, layout, dropout, scale)

    calls: list[Layout] = []
    expected = gradient()
    read_without_padding(model, {"cpu": (many_rows,)})
    close([gradient(), gradient()], [expected, expected])
    assert "no kernel image" in describe_padding(model)["padding"]
