"""NLI heads and cross-encoders: what classes mean, and which label wins."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from figeval import ModelError, PairLabel, TextPair
from figeval.testing import capabilities
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

HEAD = "ForSequenceClassification"
MNLI = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
TWO_WAY, THREE_WAY = ("entailment", "non-entailment"), ("entailment", "neutral", "contradiction")
PAIRS = [(left, right) for left in LINES[:4] for right in LINES]


def requests_of(labels: tuple[str, ...]) -> list[PairLabel]:
    return [PairLabel(left, right, labels) for left, right in PAIRS]


def plain_logits(folder: Path) -> Any:
    """One pair at a time, straight through transformers, shape (pairs, classes)."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = [model(**tokenizer(left, right, return_tensors="pt")).logits[0].double() for left, right in PAIRS]
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "deberta-v2"])
def test_probabilities_are_those_of_a_plain_forward_in_any_batch(
    kind: str, workshop: Workshop, open_model: Any
) -> None:
    folder = workshop(kind, HEAD, id2label=MNLI)
    expected = plain_logits(folder).softmax(-1).numpy()
    for size in (1, 64, "auto"):
        probabilities = open_model("pairs", folder, batch_size=size).label_pairs(requests_of(THREE_WAY)).values
        table = [[row["contradiction"], row["neutral"], row["entailment"]] for row in probabilities]
        np.testing.assert_allclose(table, expected, atol=1e-5, err_msg=f"{size}")


def test_a_decoder_with_a_head_reads_its_last_token_in_any_batch(workshop: Workshop, open_model: Any) -> None:
    """GPT-2 has no padding token; the head must not sit on a padded place."""
    folder = workshop("gpt2", HEAD, id2label=MNLI, pad_token_id=0)
    expected = plain_logits(folder).softmax(-1).numpy()
    for size in (1, 64):
        probabilities = open_model("pairs", folder, batch_size=size).label_pairs(requests_of(THREE_WAY)).values
        np.testing.assert_allclose([row["entailment"] for row in probabilities], expected[:, 2], atol=1e-5)


def test_a_two_way_label_follows_the_three_way_arg_max_or_the_sum(workshop: Workshop, open_model: Any) -> None:
    folder = workshop("bert", HEAD, id2label=MNLI)
    expected = plain_logits(folder).softmax(-1).numpy()
    best = open_model("pairs", folder).label_pairs(requests_of(TWO_WAY)).values
    assert [row["entailment"] > max(row["non-entailment"]) for row in best] == (expected.argmax(1) == 2).tolist()
    np.testing.assert_allclose([row["non-entailment"] for row in best], expected[:, 1::-1], atol=1e-5)  # neutral first
    summed = open_model("pairs", folder, decision="sum").label_pairs(requests_of(TWO_WAY)).values
    np.testing.assert_allclose([row["entailment"] for row in summed], expected[:, 2], atol=1e-5)
    assert all(math.isclose(row["entailment"] + sum(row["non-entailment"]), 1) for row in best)
    assert all(math.isclose(sum(row.values()), 1) for row in summed)


def answer_with(backend: Any, logits: list[float], labels: tuple[str, ...]) -> dict[str, Any]:
    """The answer about any pair if the head gives these logits."""
    head = backend.network.model.classifier
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor(logits))
    (answer,) = backend.label_pairs([PairLabel("a", "b", labels)]).values
    return dict(answer)


def test_the_documented_rules_on_any_logits(workshop: Workshop, open_model: Any) -> None:
    folder = workshop("bert", HEAD, id2label=MNLI)
    argmax, summing = open_model("pairs", folder), open_model("pairs", folder, decision="sum")

    @given(logits=st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3))
    def check(logits: list[float]) -> None:
        contradiction, neutral, entailment = np.exp(logits) / np.exp(logits).sum()
        best = answer_with(argmax, logits, TWO_WAY)
        assert best["entailment"] == pytest.approx(entailment)
        assert best["non-entailment"] == pytest.approx((neutral, contradiction))
        assert answer_with(summing, logits, TWO_WAY)["non-entailment"] == pytest.approx(contradiction + neutral)
        two = answer_with(argmax, logits, ("entailment", "contradiction"))
        expected = entailment / (contradiction + entailment)
        assert two["entailment"] == pytest.approx(expected), "nobody asked about neutral"

    check()


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ({0: "entailment", 1: "neutral", 2: "contradiction"}, {"Entails": 0, "NOT_ENTAILMENT": (1, 2)}),
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, {"entailment": 2, "non-entailment": (1, 0)}),
        ({0: "entailment", 1: "not_entailment"}, {"entailment": 0, "no-entailment": 1}),
        ({0: "Non-Entailment", 1: "Entailment"}, {"Entails": 1, "NOT_ENTAILMENT": 0}),
        ({0: "Contradicts", 1: "Entails", 2: "Neutral"}, {"entailment": 1, "non-entailment": (2, 0)}),
        ({0: "Contradictory", 1: "entails", 2: "neutral"}, {"ENTAILMENT": 1, "contradiction": 0}),
        ({0: "literal", 1: "figurative"}, {"Figurative": 1, "Literal": 0}),
        ({0: "is a proverb", 1: "other"}, {"Is-a-proverb": 0, "Other": 1}),
    ],
)
def test_class_names_in_any_spelling(
    names: dict[int, str], classes: dict[str, int | tuple[int, ...]], workshop: Workshop, open_model: Any
) -> None:
    backend = open_model("pairs", workshop("bert", HEAD, id2label=names))
    logits = [float(number) for number in names]
    answer = answer_with(backend, logits, tuple(classes))
    numbers = [number for value in classes.values() for number in (value if isinstance(value, tuple) else (value,))]
    shares = np.exp(logits) / sum(math.exp(logits[number]) for number in numbers)
    expected = {label: tuple(shares[list(v)]) if isinstance(v, tuple) else shares[v] for label, v in classes.items()}
    assert answer == {label: pytest.approx(share) for label, share in expected.items()}


@pytest.mark.parametrize(
    ("labels", "parsed"),
    [
        ("entailment:2;non-entailment:0+1", {"entailment": (2,), "non-entailment": (0, 1)}),
        ("entailment:2, neutral:1, contradiction:0", {"entailment": (2,), "neutral": (1,), "contradiction": (0,)}),
    ],
)
def test_labels_can_be_given(
    labels: str, parsed: dict[str, tuple[int, ...]], workshop: Workshop, open_model: Any
) -> None:
    folder = workshop("bert", HEAD, num_labels=3)
    backend = open_model("pairs", folder, labels=labels)
    assert len(backend.label_pairs(requests_of(TWO_WAY)).values) == len(PAIRS)
    described = backend.describe()
    assert described["classes"] == {name: list(ids) for name, ids in parsed.items()}
    assert described["decision"] == "argmax"
    json.dumps(described)


@pytest.mark.parametrize("labels", ["entailment", "entailment:x", "entailment:7", "entailment:1-2", ":1"])
def test_labels_that_cannot_be_read(labels: str, workshop: Workshop, open_model: Any) -> None:
    with pytest.raises(ModelError, match="labels:"):
        open_model("pairs", workshop("bert", HEAD, num_labels=3), labels=labels)


def test_a_cross_encoder_gives_its_raw_output(workshop: Workshop, open_model: Any) -> None:
    folder = workshop("roberta", HEAD, num_labels=1)
    backend = open_model("pairs", folder)
    assert capabilities(backend) == {"score_pairs"}
    expected = plain_logits(folder)[:, 0].numpy()
    for size in (1, 64, "auto"):
        scores = open_model("pairs", folder, batch_size=size).score_pairs([TextPair(*pair) for pair in PAIRS]).values
        np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_cross_encoder_that_sentence_transformers_saved(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    from sentence_transformers import CrossEncoder

    cross_encoder = CrossEncoder(str(workshop("roberta", HEAD, num_labels=1)), device="cpu")
    cross_encoder.save_pretrained(str(tmp_path))
    scores = open_model("pairs", tmp_path).score_pairs([TextPair(*pair) for pair in PAIRS]).values
    expected = cross_encoder.predict(PAIRS, activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_classifier_labels_and_does_not_score(workshop: Workshop, open_model: Any) -> None:
    assert capabilities(open_model("pairs", workshop("bert", HEAD, id2label=MNLI))) == {"label_pairs"}


def test_what_is_too_long_is_cut_and_reported(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("pairs", workshop("bert", HEAD, id2label=MNLI))
    output = backend.label_pairs([PairLabel("Yes.", LONG_TEXT, TWO_WAY), PairLabel("Yes.", "No.", TWO_WAY)])
    assert output.truncated == {0}


def test_weights_that_are_no_numbers_give_scores_that_are_none(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("pairs", workshop("bert", HEAD, id2label=MNLI))
    with torch.no_grad():
        backend.network.model.classifier.bias.fill_(float("nan"))
    for row in backend.label_pairs(requests_of(TWO_WAY)).values:
        assert np.isnan([row["entailment"], *row["non-entailment"]]).all()


def test_refusals_are_one_line_with_the_cure(workshop: Workshop, open_model: Any) -> None:
    nameless = str(workshop("bert", HEAD, num_labels=3))
    with pytest.raises(ModelError, match=r"LABEL_0, LABEL_1, LABEL_2.*labels=entailment:2;neutral:1"):
        open_model("pairs", nameless)
    with pytest.raises(ModelError, match="use --model masked:"):
        open_model("pairs", workshop("bert"))
    with pytest.raises(ModelError, match="not one of argmax, sum"):
        open_model("pairs", workshop("bert", HEAD, id2label=MNLI), decision="mean")
    two_way = open_model("pairs", workshop("bert", HEAD, id2label={0: "entailment", 1: "not_entailment"}))
    with pytest.raises(ModelError, match="no class of the model means 'neutral'"):
        two_way.label_pairs(requests_of(THREE_WAY))
    three_way = open_model("pairs", workshop("bert", HEAD, id2label=MNLI))
    with pytest.raises(ModelError, match="cannot distinguish neutral and non-entailment"):
        three_way.label_pairs(requests_of(("neutral", "non-entailment")))
    twice = str(workshop("bert", HEAD, id2label={0: "entails", 1: "entailment", 2: "neutral"}))
    with pytest.raises(ModelError, match="several classes with the same meaning"):
        open_model("pairs", twice)


def head_that_says(folder: Path, number: int) -> Path:
    """Make a head give one class to every pair."""
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.zero_()
        model.classifier.bias[number] = 100.0
    model.save_pretrained(folder)
    return folder


def copy_classifier(workshop: Workshop, target: Path, names: dict[int, str]) -> Path:
    return Path(shutil.copytree(workshop("bert", HEAD, id2label=names), target))


@pytest.mark.parametrize(
    ("names", "index", "warns"),
    [
        (MNLI, 2, False),
        (MNLI, 0, True),
        (MNLI, 1, True),
        ({0: "not_entailment", 1: "entailment"}, 1, False),
        ({0: "not_entailment", 1: "entailment"}, 0, True),
        ({0: "paraphrase", 1: "other"}, 1, False),
        ({0: "entailment", 1: "irony", 2: "metaphor"}, 2, False),
    ],
)
def test_a_head_by_which_no_sentence_entails_itself_may_have_its_labels_mixed_up(
    names: dict[int, str], index: int, warns: bool, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = head_that_says(copy_classifier(workshop, tmp_path / "head", names), index)
    backend = open_model("pairs", folder)
    assert "warnings" not in backend.describe(), "nothing is asked before it is needed"
    backend.label_pairs([PairLabel("a", "b", (names[0], names[1]))])
    warnings = backend.describe().get("warnings", [])
    assert len(warnings) == warns
    if warns:
        assert "labels=" in warnings[0]
        backend = open_model("pairs", folder, labels=f"non-entailment:{(index + 1) % len(names)};entailment:{index}")
        backend.label_pairs([PairLabel("a", "b", TWO_WAY)])
        assert "warnings" not in backend.describe()


def test_a_trained_head_is_asked_only_if_its_config_was_changed(
    workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    """It may have learnt from a task in which a text does not entail itself."""
    folder = head_that_says(copy_classifier(workshop, tmp_path / "head", {0: "entailment", 1: "non-entailment"}), 1)
    (folder / "figeval.json").write_text(json.dumps({"kind": "pairs", "about": {"task": "t", "head": "cross"}}))

    def warnings() -> list[str]:
        backend = open_model("pairs", folder)
        backend.label_pairs([PairLabel("a", "b", TWO_WAY)])
        return list(backend.describe().get("warnings", []))

    assert not warnings()
    (folder / "training").mkdir()
    for classes, count in ((["entailment", "non-entailment"], 0), (["non-entailment", "entailment"], 1)):
        (folder / "training" / "record.json").write_text(json.dumps({"head": {"classes": classes}}))
        assert len(warnings()) == count
