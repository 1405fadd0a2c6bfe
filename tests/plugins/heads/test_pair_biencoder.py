"""Both texts of a pair apart: the loss is that of the plain formula, the linear layer is kept or made anew by what it
means, and what was trained is what is asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from figeval import FigevalError, Harness, PairExample, PairLabel, Setup, Text
from figeval.testing import capabilities, check_model
from tests.learners import head, write_network
from tests.plugins.headed import declare
from tests.plugins.heads.small import examples_of, scores_of, small
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

pairs = head("pairs", "biencoder")
FILE = "pair_encoder.safetensors"
LABELS = ("entailment", "neutral", "contradiction")
SHORT_TEXTS = ("yes", "no, it does not", "The roof leaked for a month")
PAIRS = [PairExample(id=f"p{n}", left=LINES[n], right=SHORT_TEXTS[n % 3], label=LABELS[n % 3]) for n in range(6)]


def setup(folder: Path | str, **changes: Any) -> Setup:
    options = {"pooling": "mean", **changes.pop("options", {})}
    return Setup(model=str(folder), options=options, **{"labels": LABELS, **changes})


def requests_of(*examples: PairExample, labels: tuple[str, ...] = LABELS) -> list[PairLabel]:
    return [PairLabel(example.left, example.right, labels) for example in examples]


def train_folder(workshop: Workshop, folder: Path, **changes: Any) -> Path:
    """A folder as the loop writes it; the fresh layer is made larger, so that labels differ."""
    learner = pairs(setup(workshop("bert", "Model"), **changes))
    torch.manual_seed(3)
    network = learner.network()
    with torch.no_grad():
        network.head.weight.mul_(8)
    return write_network(learner, network, folder)


def test_both_texts_get_the_prompt_of_texts_of_one_kind(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """In training and from the saved model, as if the prompt were part of the texts."""
    prompt = "does it follow: "
    learner = pairs(setup(workshop("bert", "Model"), options={"text_prompt": prompt}))
    plain = pairs(setup(workshop("bert", "Model")))
    spelt = [replace(example, left=prompt + example.left, right=prompt + example.right) for example in PAIRS]
    features, expected = learner.features(PAIRS), plain.features(spelt)
    assert (features.left.fields, features.right.fields) == (expected.left.fields, expected.right.fields)
    with_prompt = open_model(train_folder(workshop, tmp_path / "prompted", options={"text_prompt": prompt}))
    without = open_model(train_folder(workshop, tmp_path / "plain"))
    assert with_prompt.describe()["prompts"]["text"] == prompt
    assert "prompts" not in without.describe()
    for row, other in zip(
        with_prompt.label_pairs(requests_of(*PAIRS)).values,
        without.label_pairs(requests_of(*spelt)).values,
        strict=True,
    ):
        assert row == pytest.approx(other)


# ---- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "deberta-v2"])
def test_losses_are_those_of_the_plain_formula(kind: str, product: bool, workshop: Workshop) -> None:
    """One text at a time, straight through transformers, without padding."""
    from transformers import AutoModel, AutoTokenizer

    folder = workshop(kind, "Model")
    learner = pairs(setup(folder, options={"product": product}))
    network, features = learner.network().eval(), learner.features(PAIRS)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vector(text: str) -> torch.Tensor:
        states: torch.Tensor = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        return states

    with torch.inference_mode():
        expected = []
        for number, example in enumerate(PAIRS):
            u, v = vector(example.left), vector(example.right)
            joined = torch.cat([u, v, (u - v).abs(), *([u * v] if product else [])])
            logits = network.head.weight @ joined + network.head.bias
            expected.append(functional.cross_entropy(logits, torch.tensor(number % 3)))
        together = network([features.batch(range(6), 0)], [])
        other_batches = network([features.batch([0, 5, 1], 0), features.batch([2], 0), features.batch([3, 4], 0)], [])
    expected_losses = torch.stack(expected)
    torch.testing.assert_close(together, expected_losses, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other_batches, expected_losses[[0, 5, 1, 2, 3, 4]], rtol=1e-4, atol=1e-4)


def test_the_fresh_layer_is_drawn_from_the_seed(workshop: Workshop) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(pairs(setup(workshop("bert", "Model"))).network().head.weight)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_long_text_loses_its_end_and_the_pair_is_counted_once(workshop: Workshop) -> None:
    features = pairs(setup(workshop("bert", "Model"), max_length=30)).features(
        [replace(PAIRS[0], left="Maybe."), replace(PAIRS[1], left=LONG_TEXT, right=LONG_TEXT)]
    )
    assert features.truncated == 1
    assert features.batch([1], 0)["input_ids"].shape == features.batch([1], 0)["right.input_ids"].shape == (1, 30)
    assert features.lengths[1] == 60


def test_what_is_frozen_has_no_gradient(workshop: Workshop) -> None:
    network = pairs(setup(workshop("bert", "Model"), options={"freeze": "embeddings"})).network()
    network([pairs(setup(workshop("bert", "Model"))).features(PAIRS).batch(range(6), 0)], []).sum().backward()
    without = {name for name, weight in network.named_parameters() if weight.grad is None}
    assert without
    assert all("embeddings" in name or "pooler" in name for name in without)


# ---- what was trained is what is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pooling", "product"), [("bert", "mean", False), ("roberta", "cls", True), ("gpt2", "last", False)]
)
def test_what_was_saved_answers_as_the_network_did(
    kind: str, pooling: str, product: bool, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """Also where a text is too long, or stands in several pairs, on either side."""
    learner = pairs(setup(workshop(kind, "Model"), max_length=60, options={"pooling": pooling, "product": product}))
    network, features = learner.network().eval(), learner.features(PAIRS)
    requests = requests_of(
        *PAIRS, replace(PAIRS[0], right=LONG_TEXT), replace(PAIRS[1], left=SHORT_TEXTS[1], right=LINES[1])
    )
    expected = learner.backend(network).label_pairs(requests)
    folder = write_network(learner, network, tmp_path / "out")
    assert Harness().backends.locate(str(folder), {})[0] == "pair_encoder"
    for size in (1, "auto"):
        model = open_model(folder, batch_size=size)
        loaded_answers = model.label_pairs(requests)
        for row, other in zip(loaded_answers.values, expected.values, strict=True):
            assert row == pytest.approx(other, rel=1e-4)
        assert loaded_answers.truncated == expected.truncated == {6}
    logits = torch.tensor([row[str(example.label)] for row, example in zip(loaded_answers.values, PAIRS, strict=False)])
    with torch.inference_mode():
        torch.testing.assert_close(network([features.batch(range(6), 0)], []), -logits.log(), rtol=1e-3, atol=1e-4)
    described = model.describe()
    assert described["classes"] == {"entailment": [0], "neutral": [1], "contradiction": [2]}
    assert (described["product"], described["pooling"], described["max_length"]) == (product, pooling, 60)


def test_its_vectors_are_those_of_the_encoder_and_every_text_is_read_once(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    model = open_model(train_folder(workshop, tmp_path / "out"))
    assert capabilities(model) == {"embed", "label_pairs"}
    plain = open_model(workshop("bert", "Model"), pooling="mean")
    texts = [Text(line) for line in LINES]
    torch.testing.assert_close(*(torch.tensor(embedder.embed(texts).values) for embedder in (model, plain)))
    rows: list[int] = []
    hook = model.network.model.register_forward_pre_hook(
        lambda _module, _inputs, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    model.label_pairs(
        requests_of(*(PairExample(id="x", left=left, right=two, label=None) for left in LINES for two in LINES))
    )
    hook.remove()
    assert sum(rows) == len(LINES)


def test_labels_are_asked_by_their_meaning(workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]) -> None:
    folder = train_folder(workshop, tmp_path / "out")
    three = open_model(folder).label_pairs(requests_of(*PAIRS)).values
    two = requests_of(*PAIRS, labels=("Entails", "not_entailment"))
    for row, best in zip(three, open_model(folder).label_pairs(two).values, strict=True):
        assert best == {
            "Entails": pytest.approx(row["entailment"]),
            "not_entailment": pytest.approx((row["neutral"], row["contradiction"])),
        }
    for row, summed in zip(three, open_model(folder, decision="sum").label_pairs(two).values, strict=True):
        assert summed["not_entailment"] == pytest.approx(row["neutral"] + row["contradiction"])
    renamed = open_model(folder, labels="yes:0;no:1+2").label_pairs(requests_of(*PAIRS, labels=("yes", "no"))).values
    assert [row["yes"] for row in renamed] == pytest.approx([row["entailment"] for row in three])
    with pytest.raises(FigevalError, match="no class of the model means 'sarcasm'"):
        open_model(folder).label_pairs(requests_of(PAIRS[0], labels=("sarcasm", "neutral")))


def test_it_keeps_to_what_is_wanted_of_models(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    folder = train_folder(workshop, tmp_path / "out")
    check_model(lambda: open_model(folder, device="cpu"), tolerance=1e-4)


def test_the_layer_is_part_of_its_fingerprint_and_can_be_forgotten(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    folder = train_folder(workshop, tmp_path / "out")
    model = open_model(folder)
    before, first_answers = model.fingerprint(), model.label_pairs(requests_of(*PAIRS)).values
    model.close()
    assert not {"network", "head"} & set(vars(model))
    assert model.label_pairs(requests_of(*PAIRS)).values == first_answers
    weights = load_file(folder / FILE)
    save_file({**weights, "bias": weights["bias"] + 1}, folder / FILE)
    assert open_model(folder).fingerprint() != before


# ---- a training that goes on from one ------------------------------------------------------------------------------


def test_a_layer_of_the_same_meaning_is_kept_its_classes_found_by_name(workshop: Workshop, tmp_path: Path) -> None:
    folder = train_folder(workshop, tmp_path / "out", options={"product": True})
    again = pairs(Setup(model=str(folder), labels=("Contradictory", "Entails", "neutral")))
    assert (again.fresh, again.pooling, again.options.product) == (False, "mean", True)
    network = again.network()
    for name, weight in load_file(folder / FILE).items():
        assert torch.equal(network.head.state_dict()[name], weight)
    rows = [replace(PAIRS[0], label="Entails"), replace(PAIRS[1], label="Contradictory")]
    assert again.features(rows).batch([0, 1], 0)["classes"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("labels", "options"), [(("literal", "figurative"), {}), (LABELS, {"product": True})], ids=["labels", "product"]
)
def test_another_layer_makes_place_for_a_fresh_one(
    labels: tuple[str, ...], options: dict[str, Any], workshop: Workshop, tmp_path: Path
) -> None:
    folder = train_folder(workshop, tmp_path / "out")
    learner = pairs(Setup(model=str(folder), labels=labels, options=options))
    assert learner.describe()["fresh_head"] is True
    saved = write_network(learner, learner.network(), tmp_path / "again")
    assert json.loads((saved / "config.json").read_text())["id2label"] == {
        str(n): label for n, label in enumerate(labels)
    }
    weights = load_file(saved / FILE)
    assert weights["weight"].shape == (len(labels), (4 if options else 3) * 16)


def test_classes_of_a_cross_encoder_are_none_of_its_own(workshop: Workshop) -> None:
    folder = workshop("bert", "ForSequenceClassification", id2label=dict(enumerate(LABELS)))
    assert pairs(setup(folder)).fresh is True


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_learns_and_answers_as_it_did_in_training(tmp_path: Path) -> None:
    ground = small(tmp_path / "ground", "pairs", examples_of("mini_pairs", 8))
    trained = ground.train(head="biencoder", head_args={"pooling": "mean"}, epochs=30, evaluate_every=10)
    run, scores = trained.run, scores_of(trained.run)
    assert run.record.tasks[0].route == "by_head"
    assert scores == pytest.approx(trained.best, rel=1e-6)
    assert (scores["acc"] or 0) > 0.8
    assert len({row["pred"] for row in run.rows("small")}) == 2
    declared = json.loads((trained.path / "figeval.json").read_text())
    assert (declared["kind"], declared["pooling"], declared["product"]) == ("pair_encoder", "mean", False)
    assert trained.to_dict()["head"]["fresh_head"] is True


# ---- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"pooling": None}}, "declares no pooling"),
        ({"options": {"pooling": "max"}}, "pooling=max is not one of"),
        ({"options": {"product": "maybe"}}, "product=maybe must be true or false"),
        ({"options": {"poling": "cls"}}, "no such option.*pooling"),
        ({"options": {"freeze": "head"}}, "no such module"),
        ({"labels": ("LABEL_0", "LABEL_1")}, "rename them"),
        ({"labels": ("not_entailment", "non-entailment")}, "rename them"),
    ],
)
def test_wrong_options_are_one_line(changes: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        pairs(setup(workshop("bert", "Model"), **changes)).network()
    assert "\n" not in str(raised.value)


def test_examples_that_cannot_be_learnt_from_are_refused(workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match="p0 has no label to learn from"):
        pairs(setup(workshop("bert", "Model"))).features([replace(PAIRS[0], label=None)])
    with pytest.raises(FigevalError, match="p1 has a text without tokens"):
        pairs(setup(workshop("gpt2", "Model"))).features([PAIRS[0], replace(PAIRS[1], right="")])


def test_a_text_without_a_token_has_unknown_probabilities(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    learner = pairs(setup(workshop("gpt2", "Model")))
    model = open_model(write_network(learner, learner.network(), tmp_path / "out"))
    unknown, known_row = model.label_pairs(requests_of(replace(PAIRS[1], right=""), PAIRS[1])).values
    assert all(map(math.isnan, unknown.values()))
    assert sum(known_row.values()) == pytest.approx(1)


def test_folders_that_are_none(workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]) -> None:
    plain = workshop("bert", "Model")
    with pytest.raises(FigevalError, match=r"'pair_encoder' cannot use .*; use --model encoder:"):
        open_model(f"pair_encoder:{plain}")
    bare = {"kind": "pair_encoder", "pooling": "mean"}
    with pytest.raises(FigevalError, match=r"declared as a pair encoder, but has no pair_encoder\.safetensors"):
        open_model(declare(workshop("bert", "Model", id2label={0: "a", 1: "b"}), tmp_path / "headless", **bare))
    folder = train_folder(workshop, tmp_path / "out")
    with pytest.raises(FigevalError, match=r"names its classes LABEL_0, LABEL_1"):
        save_file(load_file(folder / FILE), declare(plain, tmp_path / "nameless", **bare) / FILE)
        open_model(tmp_path / "nameless")
    declared = json.loads((folder / "figeval.json").read_text())
    (folder / "figeval.json").write_text(json.dumps({**declared, "product": True}))
    wide = open_model(folder)
    with pytest.raises(FigevalError, match=r"is not a linear layer for 3 labels, which sees 64.*size") as raised:
        wide.label_pairs(requests_of(*PAIRS))
    assert "\n" not in str(raised.value)
