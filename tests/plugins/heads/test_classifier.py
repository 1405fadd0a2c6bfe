"""One text, a class for each label: losses are those of the plain formulas, and what was trained is what is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from figeval import CapabilityError, FigevalError, Harness, Setup
from figeval.testing import CapabilityCheck, check_learner, check_model
from tests.learners import head, write_network
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

HARNESS = Harness()
CLASSIFICATION, MULTILABEL = HARNESS.task_types.get("classification"), HARNESS.task_types.get("multilabel")
(TextLabels,) = CLASSIFICATION.routes[0].requests
single_label, multilabel = head("classification", "classifier"), head("multilabel", "classifier")

LABELS = ("sarcastic", "not_sarcastic")
TYPES = ("irony", "satire", "question")
TEXTS = [CLASSIFICATION.Example(id=f"t{n}", text=line, label=LABELS[n % 2]) for n, line in enumerate(LINES)]
SETS = [MULTILABEL.Example(id=f"s{n}", text=line, labels=frozenset(TYPES[: n % 4])) for n, line in enumerate(LINES)]
KINDS = ("bert", "roberta", "distilbert", "gpt2")


def setup_of(folder: Path | str, **changes: Any) -> Setup:
    return Setup(model=str(folder), **{"labels": LABELS, "max_length": 90, **changes})


def many(folder: Path | str) -> Setup:
    return setup_of(folder, labels=TYPES)


def plain(network: Any, tokenizer: Any, text: str) -> torch.Tensor:
    """The logits of one text, straight through transformers, without padding."""
    logits: torch.Tensor = network.model(**tokenizer(text, return_tensors="pt")).logits[0]
    return logits


@pytest.mark.parametrize(("factory", "setup", "examples"), [(single_label, setup_of, TEXTS), (multilabel, many, SETS)])
def test_both_are_learners(factory: Any, setup: Any, examples: Any, workshop: Workshop) -> None:
    check_learner(factory, setup(workshop("bert", "Model")), examples, tolerance=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_the_plain_formulas(kind: str, workshop: Workshop) -> None:
    learner = single_label(setup_of(workshop(kind, "Model")))
    network, tokenizer = learner.network().eval(), learner.base.tokenizer
    with torch.inference_mode():
        expected = [
            functional.cross_entropy(plain(network, tokenizer, text.text), torch.tensor(n % 2))
            for n, text in enumerate(TEXTS)
        ]
        step_losses = network([learner.features(TEXTS).batch(range(len(TEXTS)), 0)], [])
    torch.testing.assert_close(step_losses, torch.stack(expected), rtol=1e-4, atol=1e-4)
    learner = multilabel(many(workshop(kind, "Model")))
    network = learner.network().eval()
    with torch.inference_mode():
        logits = torch.stack([plain(network, tokenizer, text.text) for text in SETS])
        step_losses = network([learner.features(SETS).batch(range(len(SETS)), 0)], [])
    holds = torch.tensor([[label in (text.labels or ()) for label in TYPES] for text in SETS])
    signed = torch.where(holds, logits, -logits)
    torch.testing.assert_close(step_losses, -functional.logsigmoid(signed).mean(dim=1), rtol=1e-4, atol=1e-4)


def save_learner(learner: Any, folder: Path) -> Path:
    return write_network(learner, learner.network(), folder)


@pytest.mark.parametrize("manner", ["single", "several"])
def test_what_was_trained_is_what_is_asked(
    manner: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """The backend of the network in training and the saved folder give the same probabilities."""
    folder = workshop("bert", "Model")
    learner = single_label(setup_of(folder)) if manner == "single" else multilabel(many(folder))
    torch.manual_seed(3)
    network = learner.network().eval()
    out = write_network(learner, network, tmp_path / "model")
    assert HARNESS.backends.locate(str(out), {})[0] == "classifier"
    requests = [TextLabels(line, learner.labels, several=manner == "several") for line in LINES]
    trained = learner.backend(network).label_texts(requests).values
    read = open_model(out, device="cpu").label_texts(requests).values
    for before, after in zip(trained, read, strict=True):
        assert before == pytest.approx(after, abs=1e-5)
        assert (sum(after.values()) == pytest.approx(1)) == (manner == "single")


def test_a_trained_classifier_is_a_model(workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]) -> None:
    folder = save_learner(single_label(setup_of(workshop("bert", "Model"))), tmp_path / "model")
    requests = [TextLabels(line, LABELS) for line in LINES]
    check = CapabilityCheck("label_texts", requests, lambda request, answer: "", TextLabels(LONG_TEXT, LABELS))
    check_model(lambda: open_model(folder, device="cpu"), checks=[check], tolerance=1e-4)


def test_one_label_is_not_taken_for_several(workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]) -> None:
    model = open_model(save_learner(single_label(setup_of(workshop("bert", "Model"))), tmp_path / "one"), device="cpu")
    with pytest.raises(CapabilityError, match="gives one label to a text"):
        model.label_texts([TextLabels("t", LABELS, several=True)])
    model = open_model(save_learner(multilabel(many(workshop("bert", "Model"))), tmp_path / "many"), device="cpu")
    with pytest.raises(CapabilityError, match="a probability of its own to each label"):
        model.label_texts([TextLabels("t", TYPES)])


def test_a_head_is_kept_only_if_it_means_the_same_in_the_same_way(workshop: Workshop, tmp_path: Path) -> None:
    folder = save_learner(multilabel(many(workshop("bert", "Model"))), tmp_path / "many")
    assert not multilabel(many(folder)).fresh
    assert single_label(many(folder)).fresh
    assert multilabel(setup_of(folder)).fresh


def test_other_peoples_classifiers_need_names(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    folder = workshop("bert", "ForSequenceClassification")
    with pytest.raises(FigevalError, match="labels="):
        open_model(f"classifier:{folder}", device="cpu")
    model = open_model(f"classifier:{folder}", device="cpu", labels="sarcastic:1;not_sarcastic:0")
    (probabilities,) = model.label_texts([TextLabels(LINES[0], LABELS)]).values
    assert sum(probabilities.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("factory", "setup", "hidden"),
    [
        (single_label, setup_of, CLASSIFICATION.Example(id="t9", text="t", label=None)),
        (multilabel, many, MULTILABEL.Example(id="t9", text="t", labels=None)),
    ],
)
def test_hidden_labels_are_no_lesson(factory: Any, setup: Any, hidden: Any, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match="t9 has no label"):
        factory(setup(workshop("bert", "Model"))).features([hidden])
