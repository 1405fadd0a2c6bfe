"""Both texts together: the loss is that of the plain formula, heads are kept or made anew by what they mean, and what
was trained is what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from figeval import ChoiceExample, FigevalError, PairExample, PairLabel, RankingExample, Setup, TextPair
from tests.learners import head, write_network
from tests.plugins.headed import declare
from tests.plugins.heads.small import examples_of, scores_of, small
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

pairs, choice, ranking = head("pairs", "cross"), head("choice", "cross"), head("ranking", "cross")
HEAD = "ForSequenceClassification"
KINDS = ("bert", "roberta", "mpnet", "distilbert", "albert", "deberta-v2", "electra", "gpt2")
LABELS = ("entailment", "neutral", "contradiction")
TWO_LABELS = ("entailment", "non-entailment")
SHORT_OPTIONS = ("yes", "no, it does not", "The roof leaked for a month")
PAIRS = [PairExample(id=f"p{n}", left=LINES[n], right=SHORT_OPTIONS[n % 3], label=LABELS[n % 3]) for n in range(6)]
CHOICES = [
    ChoiceExample(id="c0", query=LINES[0], options=("yes", LINES[1], "no, it is not"), gold=1),
    ChoiceExample(id="c1", query="Maybe.", options=("yes", "no"), gold=1),
    ChoiceExample(id="c2", query=LINES[2], options=(LINES[3][:30], "no", "a", "the bucket", LINES[5][:20]), gold=0),
]
CANDIDATES = (*(line[:20] for line in LINES), "yes", "no, it is not")
RANKINGS = [
    RankingExample(id=f"r{n}", query=LINES[n % 6], candidates=CANDIDATES, relevant=frozenset(gold))
    for n, gold in enumerate(({0}, {1, 6}, {7}, {3}))
]  # fmt: skip


def setup(folder: Path | str, **changes: Any) -> Setup:
    return Setup(model=str(folder), **{"labels": LABELS, "max_length": 90, **changes})


def plain(network: Any, tokenizer: Any, left: str, right: str) -> torch.Tensor:
    """The logits of one pair, straight through transformers, without padding."""
    logits: torch.Tensor = network.model(**tokenizer(left, right, return_tensors="pt")).logits[0]
    return logits


# ---- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_pairs_are_cross_entropies_whatever_stands_beside(kind: str, workshop: Workshop) -> None:
    learner = pairs(setup(workshop(kind, "Model")))
    network, features = learner.network().eval(), learner.features(PAIRS)
    tokenizer = learner.base.tokenizer
    with torch.inference_mode():
        expected = torch.stack(
            [
                functional.cross_entropy(plain(network, tokenizer, example.left, example.right), torch.tensor(n % 3))
                for n, example in enumerate(PAIRS)
            ]
        )
        together = network([features.batch(range(6), 0)], [])
        other_batches = network([features.batch([0, 5, 1], 0), features.batch([2], 0), features.batch([3, 4], 0)], [])
    torch.testing.assert_close(together, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other_batches, expected[[0, 5, 1, 2, 3, 4]], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_options_of_an_example_share_a_softmax(kind: str, workshop: Workshop) -> None:
    """Three examples of three, two and five options."""
    learner = choice(setup(workshop(kind, "Model")))
    network, features = learner.network().eval(), learner.features(CHOICES)
    tokenizer = learner.base.tokenizer
    with torch.inference_mode():
        expected = torch.stack(
            [
                -torch.cat(
                    [plain(network, tokenizer, example.query, option) for option in example.options]
                ).log_softmax(0)[example.gold]
                for example in CHOICES
            ]
        )
        for rows in ([0, 1, 2], [2, 0], [1]):
            torch.testing.assert_close(network([features.batch(rows, 0)], []), expected[rows], rtol=1e-4, atol=1e-4)
    inputs = features.batch([0, 1, 2], 0)["input_ids"]
    assert inputs.shape[0] == 10
    assert features.lengths == [
        len(example.options) * features.batch([n], 0)["input_ids"].shape[1] for n, example in enumerate(CHOICES)
    ]


def test_candidates_are_told_from_some_that_depend_on_draw_and_row_alone(workshop: Workshop) -> None:
    learner = ranking(setup(workshop("bert", "Model"), options={"negatives": 3}))
    features = learner.features(RANKINGS)
    assert learner.select_by == "loss"
    assert features.draw_candidates(1, 5) == learner.features(RANKINGS).draw_candidates(1, 5)
    assert {tuple(features.draw_candidates(1, draw)) for draw in range(20)} > {tuple(features.draw_candidates(1, 5))}
    assert {tuple(features.draw_candidates(row, 5)[1:]) for row in (0, 2, 3)} != {
        tuple(features.draw_candidates(0, 5)[1:])
    }
    for draw in range(20):
        first, second, *other_draws = features.draw_candidates(1, draw)
        assert (first, second) == (1, 6)
        assert len(set(other_draws)) == 3
        assert not {1, 6} & set(other_draws)
    near = replace(RANKINGS[0], near=frozenset(range(1, 6)))
    assert {n for draw in range(9) for n in learner.features([near]).draw_candidates(0, draw)} == {0, 6, 7}


def test_losses_of_drawn_candidates_are_those_of_the_plain_formula(workshop: Workshop) -> None:
    learner = ranking(setup(workshop("roberta", "Model"), options={"negatives": 4}))
    network, features = learner.network().eval(), learner.features(RANKINGS)
    with torch.inference_mode():
        expected = []
        for row, example in enumerate(RANKINGS):
            numbers = features.draw_candidates(row, 8)
            scores = [plain(network, learner.base.tokenizer, example.query, CANDIDATES[n]) for n in numbers]
            expected.append(-torch.cat(scores).softmax(0)[: len(example.relevant)].sum().log())
        step_losses = network([features.batch(range(4), 8)], [])
        alone = network([features.batch([row], 8) for row in range(4)], [])
    torch.testing.assert_close(step_losses, torch.stack(expected), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(alone, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_lengths_of_pairs_not_yet_made_are_those_of_the_longest(workshop: Workshop) -> None:
    for kind in ("bert", "roberta", "gpt2"):
        learner = ranking(setup(workshop(kind, "Model"), options={"negatives": 7}))
        features = learner.features(RANKINGS)
        for row in (0, 3):  # all candidates are drawn: one is right, the seven others are not
            assert features.lengths[row] == features.batch([row], 0)["input_ids"].numel(), kind
        assert features.truncated == 0
    short = ranking(setup(workshop("bert", "Model"), max_length=30, options={"negatives": 7})).features(RANKINGS)
    assert short.truncated == 4
    assert short.lengths[0] == short.batch([0], 0)["input_ids"].numel() == 8 * 30


# ---- heads ---------------------------------------------------------------------------------------------------------


def test_a_head_of_the_same_meaning_is_kept_its_classes_found_by_name(
    workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    folder = workshop("bert", HEAD, id2label={0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
    learner = pairs(setup(folder))
    assert learner.describe()["fresh_head"] is False
    assert learner.describe()["classes"] == ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
    network, features = learner.network().eval(), learner.features(PAIRS)
    assert features.batch([0, 1, 2], 0)["classes"].tolist() == [2, 1, 0]
    requests = [PairLabel(example.left, example.right, LABELS) for example in PAIRS]
    probabilities = open_model(f"pairs:{folder}").label_pairs(requests).values
    expected = -torch.tensor([row[str(example.label)] for row, example in zip(probabilities, PAIRS, strict=True)]).log()
    with torch.inference_mode():
        torch.testing.assert_close(network([features.batch(range(6), 0)], []), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "names",
    [
        {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"},
        {0: "LABEL_0", 1: "LABEL_1"},
        {0: "sarcasm", 1: "no sarcasm"},
        {0: "closeness"},
    ],
)
def test_another_head_makes_place_for_a_fresh_one(
    names: dict[int, str], workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    folder = workshop("bert", HEAD, id2label=names)
    learner = pairs(setup(folder, labels=TWO_LABELS))
    assert learner.describe()["fresh_head"] is True
    model = learner.network().model
    assert model.config.id2label == {0: "entailment", 1: "non-entailment"}
    assert model.classifier.out_features == 2
    network = open_model(f"pairs:{folder}", **({} if len(names) != 2 else {"labels": "a:0;b:1"})).network.model
    assert not torch.equal(model.classifier.weight[0], network.classifier.weight[0])
    for name, weight in network.bert.state_dict().items():
        assert torch.equal(weight, model.bert.state_dict()[name]), name


def test_a_cross_encoder_keeps_its_output_and_a_classifier_does_not(workshop: Workshop) -> None:
    assert choice(setup(workshop("bert", HEAD, num_labels=1))).fresh is False
    three = choice(setup(workshop("bert", HEAD, id2label={0: "a", 1: "b", 2: "c"})))
    assert three.fresh is True
    assert three.network().model.classifier.out_features == 1


@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta"])
def test_masked_models_without_a_pooler_get_one(kind: str, workshop: Workshop) -> None:
    learner = pairs(setup(workshop(kind, "ForMaskedLM")))
    assert learner.fresh is True
    assert torch.isfinite(learner.network()([learner.features(PAIRS).batch(range(6), 0)], [])).all()


def test_a_sentence_transformer_is_a_base(sentence_folder: Path) -> None:
    """Of its modules only the encoder is taken."""
    learner = choice(setup(sentence_folder, max_length=80))
    assert torch.isfinite(learner.network()([learner.features(CHOICES).batch([0, 1], 0)], [])).all()
    assert learner.describe()["max_length"] == 80


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_dropout_is_on_frozen_weights_stay_and_the_rest_gets_a_gradient(kind: str, workshop: Workshop) -> None:
    learner = pairs(setup(workshop(kind, "Model"), options={"freeze": f"{kind}.embeddings+classifier"}))
    network, features = learner.network(), learner.features(PAIRS)
    gradients = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        gradients.append(network([features.batch(range(6), 0)], []))
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])
    gradients[0].sum().backward()
    for name, weight in network.named_parameters():
        assert (weight.grad is None) == ("embeddings" in name or "classifier" in name), name


def test_dropout_of_a_fresh_head_is_what_was_asked_for(workshop: Workshop) -> None:
    network = pairs(setup(workshop("bert", "Model"), dropout=0.0)).network()
    assert {module.p for module in network.modules() if isinstance(module, torch.nn.Dropout)} == {0.0}


def test_activations_computed_twice_give_the_same_gradient(workshop: Workshop) -> None:
    gradients = []
    for twice in (False, True):
        learner = pairs(setup(workshop("bert", "Model"), gradient_checkpointing=twice))
        torch.manual_seed(1)
        network = learner.network()
        assert any(getattr(module, "gradient_checkpointing", False) for module in network.modules()) is twice
        network([learner.features(PAIRS).batch(range(6), 0)], []).sum().backward()
        gradients.append([weight.grad for weight in network.parameters()])
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right)


# ---- what was trained is what is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_what_was_saved_answers_as_the_network_did(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """Also where a pair is too long."""
    learner = pairs(setup(workshop(kind, "Model")))
    network = learner.network().eval()
    label_requests = [
        PairLabel(example.left, example.right, LABELS) for example in [*PAIRS, replace(PAIRS[0], right=LONG_TEXT)]
    ]
    answers = open_model(write_network(learner, network, tmp_path / "labels")).label_pairs(label_requests)
    for row, other in zip(answers.values, learner.backend(network).label_pairs(label_requests).values, strict=True):
        assert row == pytest.approx(other, rel=1e-5)
    assert answers.truncated == {6}
    scorer = choice(setup(workshop(kind, "Model")))
    network = scorer.network().eval()
    pair_requests = [TextPair(request.left, request.right) for request in label_requests]
    scores = open_model(write_network(scorer, network, tmp_path / "closeness")).score_pairs(pair_requests)
    assert scores.values == pytest.approx(scorer.backend(network).score_pairs(pair_requests).values, rel=1e-5)


def test_how_a_model_came_about_is_in_the_record(
    workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    about = {"task": "mini_pairs", "selected_on": "test"}
    folder = workshop("bert", HEAD, num_labels=1)
    assert open_model(declare(folder, tmp_path / "said", kind="pairs", about=about)).describe()["about"] == about
    assert "about" not in open_model(f"pairs:{folder}").describe()
    with pytest.raises(FigevalError, match="unknown key 'knd'"):
        open_model(declare(folder, tmp_path / "odd", knd="pairs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task_type", "task", "changes"),
    [
        ("pairs", "mini_pairs", {}),
        ("choice", "mini_proverbs", {"epochs": 24, "evaluate_every": 8}),
        (
            "ranking",
            "mini_retrieval",
            {"head": "cross", "select_by": "acc", "epochs": 80, "evaluate_every": 16, "patience": 2},
        ),
    ],
)
def test_it_learns_and_answers_as_it_did_in_training(
    task_type: str, task: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    ground = small(tmp_path / "ground", task_type, shorten_rankings(examples_of(task, 8)))
    trained = ground.train(**changes)
    run, scores = trained.run, scores_of(trained.run)
    assert run.record.tasks[0].route == {"pairs": "by_head"}.get(task_type, "by_pair_score")
    assert scores == pytest.approx(trained.best, rel=1e-6)
    assert (scores["acc"] or 0) > 0.8
    assert len({json.dumps(row["pred"]) for row in run.rows("small")}) > 1
    assert trained.to_dict()["head"]["fresh_head"] is True


def shorten_rankings(examples: list[Any]) -> list[Any]:
    """Ranking examples with the candidates that are right for one of them."""
    if not isinstance(examples[0], RankingExample):
        return examples
    numbers = sorted({min(example.relevant) for example in examples})
    candidates = tuple(examples[0].candidates[n] for n in numbers)
    return [
        replace(example, candidates=candidates, relevant=frozenset({numbers.index(min(example.relevant))}))
        for example in examples
    ]


# ---- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "changes", "words"),
    [
        (pairs, {"options": {"negatives": 3}}, "no such option.*freeze"),
        (ranking, {"options": {"negatives": 0}}, "negatives=0"),
        (ranking, {"options": {"negative": 3}}, "no such option.*negatives"),
        (pairs, {"options": {"freeze": "head"}}, "no such module"),
        (pairs, {"labels": ("LABEL_0", "LABEL_1")}, "rename them"),
        (pairs, {"labels": ("not_entailment", "non-entailment")}, "rename them"),
    ],
)
def test_wrong_options_are_one_line(make: Any, changes: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        make(setup(workshop("bert", "Model"), **changes)).network()
    assert "\n" not in str(raised.value)


def test_examples_without_an_answer_are_refused(workshop: Workshop) -> None:
    folder = workshop("bert", "Model")
    with pytest.raises(FigevalError, match="p0 has no label to learn from"):
        pairs(setup(folder)).features([replace(PAIRS[0], label=None)])
    with pytest.raises(FigevalError, match="c0 has no right option"):
        choice(setup(folder)).features([replace(CHOICES[0], gold=None)])
    with pytest.raises(FigevalError, match="r0 has no right candidate"):
        ranking(setup(folder)).features([replace(RANKINGS[0], relevant=frozenset())])


def test_a_model_that_carries_no_classifier_is_refused(workshop: Workshop) -> None:
    with pytest.raises(
        FigevalError, match="cannot be loaded with a head of AutoModelForSequenceClassification"
    ) as raised:
        pairs(setup(workshop("mamba", "ForCausalLM"))).network()
    assert "\n" not in str(raised.value)
