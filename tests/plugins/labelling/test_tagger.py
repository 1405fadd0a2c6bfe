"""Token classification: the loss is that of the plain formula, words have the label of their first piece, long texts
are read in windows, and what was trained is what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from figeval import FigevalError, Harness, ModelError, Setup
from figeval.testing import CapabilityCheck, check_learner, check_model
from tests import learners, trainings
from tests.learners import write_network
from tests.plugins.heads.small import scores_of
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

HARNESS = Harness()
LabellingExample = HARNESS.task_types.get("labelling").Example
(LabelWords,) = next(route for route in HARNESS.routes.of("labelling") if route.name == "by_tagger").requests
head = learners.head("labelling", "tagger")
HEAD = "ForTokenClassification"
LABELS = ("B-FIG", "I-FIG", "O")
LABEL_CONFIG = {"id2label": dict(enumerate(LABELS)), "label2id": {label: n for n, label in enumerate(LABELS)}}
LONG_CONTEXT = {"max_position_embeddings": 400}
KINDS = ("bert", "roberta", "mpnet", "distilbert", "deberta-v2", "electra")


def example(number: int, text: str) -> Any:
    words = tuple(text.split())
    tags = tuple(LABELS[(number + index) % 3] for index in range(len(words)))
    return LabellingExample(id=str(number), tokens=words, tags=tags)


EXAMPLES = [example(number, line) for number, line in enumerate(LINES[:4])]
LONG_EXAMPLE = example(9, LONG_TEXT)


def requests(examples: list[Any]) -> list[Any]:
    return [LabelWords(example.tokens, LABELS) for example in examples]


def setup(folder: Path, **changes: Any) -> Setup:
    return Setup(model=str(folder), **{"labels": LABELS, **changes})


def plain(model: Any, tokenizer: Any, example: Any) -> torch.Tensor:
    """The loss of one example, straight through transformers, its words found by their characters."""
    text = " ".join(example.tokens)
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    logits = model(**encoded).logits[0]
    loss, start = torch.tensor(0.0), 0
    for word, tag in zip(example.tokens, example.tags or (), strict=True):
        end = start + len(word)
        first = next(n for n, (a, b) in enumerate(offsets) if b > a and b > start and b <= end and text[a:b].strip())
        loss = loss + functional.cross_entropy(logits[first], torch.tensor(LABELS.index(tag)))
        start = end + 1
    return loss


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_the_plain_formula_whatever_stands_beside(kind: str, workshop: Workshop) -> None:
    learner = head(setup(workshop(kind, "Model", **LONG_CONTEXT), max_length=300))
    network, features = learner.network().eval(), learner.features(EXAMPLES)
    with torch.inference_mode():
        expected = torch.stack([plain(network.model, learner.base.tokenizer, example) for example in EXAMPLES])
        together = network([features.batch(range(4), 0)], [])
        other_batches = network([features.batch([row], 0) for row in range(4)], [])
    torch.testing.assert_close(together, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other_batches, expected, rtol=1e-4, atol=1e-4)
    assert features.weights == [float(len(example.tokens)) for example in EXAMPLES]


def test_all_words_of_a_long_text_are_learnt_once_and_where_they_are_read(workshop: Workshop) -> None:
    """The loss is that of the probabilities which the backend has for its words."""
    learner = head(setup(workshop("bert", "Model", **LONG_CONTEXT), max_length=60))
    network, features = learner.network().eval(), learner.features([EXAMPLES[0], LONG_EXAMPLE])
    assert len(features.windows[1]) > 2
    assert features.truncated == 0
    assert features.weights[1] == len(LONG_EXAMPLE.tokens)
    with torch.inference_mode():
        loss = network([features.batch([0, 1], 0)], [])[1]
    (words,) = learner.backend(network).label_words(requests([LONG_EXAMPLE]))
    expected = -sum(torch.tensor(word[tag]).log() for word, tag in zip(words, LONG_EXAMPLE.tags or (), strict=True))
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)


def test_it_is_a_learner(workshop: Workshop) -> None:
    folder = workshop("bert", "Model", **LONG_CONTEXT)
    check_learner(head, setup(folder, max_length=40), [*EXAMPLES, LONG_EXAMPLE], tolerance=1e-4)


def wrong(request: Any, words: Any) -> str:
    return "" if len(words) == len(request.words) and all(set(word) <= set(LABELS) for word in words) else "not so"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_checkpoint_labels_words(kind: str, workshop: Workshop, open_model: Callable[..., Any]) -> None:
    folder = workshop(kind, HEAD, **LONG_CONTEXT, **LABEL_CONFIG)
    assert HARNESS.backends.locate(str(folder), {})[0] == "tagger"
    check = CapabilityCheck("label_words", requests(EXAMPLES), wrong, LabelWords(LONG_EXAMPLE.tokens * 9, LABELS))
    check_model(lambda: open_model(folder, device="cpu"), checks=[check], tolerance=1e-4)


def test_a_word_without_pieces_is_outside(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    model = open_model(workshop("bert", HEAD, **LONG_CONTEXT, **LABEL_CONFIG), device="cpu")
    assert model.label_words([LabelWords(("\u200b",), LABELS)]) == [[{"O": 1.0}]]
    ((word, nothing),) = model.label_words([LabelWords(("It", "\u200b"), LABELS)])
    assert set(word) == set(LABELS)
    assert nothing == {"O": 1.0}


def test_labels_that_are_not_the_models(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    model = open_model(workshop("bert", HEAD, **LONG_CONTEXT, **LABEL_CONFIG), device="cpu")
    with pytest.raises(ModelError, match=r"has the labels B-FIG, I-FIG, O, and none of the task's, B-PUN, O; train"):
        model.label_words([LabelWords(("a",), ("B-PUN", "O"))])
    ((word,),) = model.label_words([LabelWords(("a",), ("B-FIG", "B-PUN", "O"))])
    assert set(word) == {"B-FIG", "O"}


def test_a_head_for_the_same_labels_is_kept_and_another_is_fresh(workshop: Workshop) -> None:
    from transformers import AutoModelForTokenClassification

    folder = workshop("bert", HEAD, **LONG_CONTEXT, **LABEL_CONFIG)
    weights = AutoModelForTokenClassification.from_pretrained(folder).classifier.weight
    learner = head(setup(folder))
    torch.testing.assert_close(learner.network().model.classifier.weight, weights)
    assert learner.describe()["fresh_head"] is False
    other = head(setup(folder, labels=("MET", "O")))
    assert other.network().model.classifier.out_features == 2
    assert other.describe()["fresh_head"] is True


def test_what_was_saved_answers_as_the_network_did(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    learner = head(setup(workshop("roberta", "Model", **LONG_CONTEXT), max_length=70))
    network = learner.network().eval()
    word_requests = requests([*EXAMPLES, LONG_EXAMPLE])
    loaded = open_model(write_network(learner, network, tmp_path / "out"), device="cpu")
    for ours, other_words in zip(
        learner.backend(network).label_words(word_requests), loaded.label_words(word_requests), strict=True
    ):
        for word, other in zip(ours, other_words, strict=True):
            assert word == pytest.approx(other, rel=1e-4)
    loaded.label_words(word_requests)
    assert loaded.describe()["labels"] == list(LABELS)
    assert loaded.describe()["max_length"] == 70


@pytest.mark.parametrize(
    ("changes", "words"), [({"options": {"fre": "x"}}, "no such option"), ({"options": {"freeze": "enc"}}, "no such")]
)
def test_bad_options(changes: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words):
        head(setup(workshop("bert", "Model", **LONG_CONTEXT), **changes)).network()


def test_hidden_labels_teach_nothing(workshop: Workshop) -> None:
    hidden = LabellingExample(id="7", tokens=("a",), tags=None)
    with pytest.raises(FigevalError, match="7 has no labels to learn from"):
        head(setup(workshop("bert", "Model", **LONG_CONTEXT))).features([hidden])


def test_a_checkpoint_without_such_a_head_is_refused(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="'tagger' cannot use"):
        open_model(f"tagger:{workshop('bert', 'ForQuestionAnswering')}", device="cpu")


@pytest.mark.slow
@pytest.mark.wing("training")
def test_it_learns_and_answers_as_it_did_in_training(workshop: Workshop, tmp_path: Path) -> None:
    task = {"name": "small", "type": "labelling", "labels": LABELS, "metrics": ["span_f1", "token_acc"]}
    task |= {"data": {"train": "jsonl:rows.jsonl", "test": "jsonl:rows.jsonl"}}
    task |= {"fields": {"id": "row.id", "tokens": "row.tokens", "tags": "row.tags"}}
    (tmp_path / "small.task.yaml").write_text(json.dumps(task), encoding="utf-8")
    rows = [{"id": example.id, "tokens": example.tokens, "tags": example.tags} for example in EXAMPLES]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    steps = {"lr": 3e-3, "epochs": 60, "patience": None, "batch_size": 4, "evaluate_every": 30, "weight_decay": 0}
    model = workshop("bert", "Model", **LONG_CONTEXT, **still)
    options = {"select_on": "test", "include_path": tmp_path, **steps}
    run = trainings.train("small", model, tmp_path / "out", **options).run
    assert scores_of(run) == {"span_f1": 1.0, "token_acc": 1.0}
    assert run.record.tasks[0].route == "by_tagger"
