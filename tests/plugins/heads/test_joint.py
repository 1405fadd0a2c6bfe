"""Proverbs and spans by one encoder: the loss is that of the plain formula, and what was trained is what is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from figeval import FigevalError, JointExample, Setup, Span, SpanExample, SpanQuery, Text
from tests.learners import head, write_network
from tests.plugins.headed import declare, joint_checkpoint
from tests.plugins.heads.small import Small, assert_alike, examples_of, scores_of, small
from tests.plugins.tiny import LINES, Workshop

joint, ranking = head("joint", "joint"), head("ranking", "biencoder")
FILE = "joint.safetensors"
CANDIDATES = (*LINES, "yes", "no, it is not")


def example(number: int, query: str, *parts: str) -> JointExample:
    spans = [Span(query.index(part), query.index(part) + len(part)) for part in parts]
    quotations = ("in time", "saves nine", "the bucket")
    rows = [
        SpanExample(id=f"j{number}S{n}", text=query, given=quotations[n], known=LINES[0], gold=span)
        for n, span in enumerate(spans)
    ]
    return JointExample(
        id=f"j{number}", query=query, candidates=CANDIDATES, relevant=frozenset({number}), parts=tuple(rows)
    )


EXAMPLES = [
    example(0, LINES[1], "leaked for a month", "look at it."),
    example(1, LINES[0], "A stitch"),
    example(2, LINES[2], "Maybe", "Yes, it does", "follow"),
]


def setup(folder: Path, **changes: Any) -> Setup:
    options = {"pooling": "mean", **changes.pop("options", {})}
    return Setup(model=str(folder), options=options, **{"tokens_per_batch": 90, **changes})


def losses(learner: Any, network: Any, batches: list[list[int]]) -> torch.Tensor:
    features = learner.features(EXAMPLES)
    rows = [row for batch in batches for row in batch]
    step_losses: torch.Tensor = network([features.batch(batch, 0) for batch in batches], features.beside(rows))
    return step_losses


def plain(network: Any, learner: Any, row: int) -> torch.Tensor:
    """Losses of one example (proverb, start, end), one text at a time, without padding."""
    tokenizer, example = learner.ranker.base.tokenizer, EXAMPLES[row]

    def states(text: str) -> torch.Tensor:
        encoded = tokenizer(text, return_tensors="pt")
        token_states: torch.Tensor = network.encoder(**{k: v for k, v in encoded.items() if k in ("input_ids",)})[0][0]
        return token_states

    read = states(example.query)
    logits = torch.stack([states(text).mean(0) @ read.mean(0) for text in CANDIDATES])
    offsets = tokenizer(example.query, return_offsets_mapping=True, return_special_tokens_mask=True)
    mapped, special = offsets["offset_mapping"], offsets["special_tokens_mask"]
    text_tokens = [n for n, (a, b) in enumerate(mapped) if not special[n] and example.query[a:b].strip()]
    step_losses = [functional.cross_entropy(logits, torch.tensor(row))]
    sides: list[list[torch.Tensor]] = [[], []]
    for part in example.parts:
        assert part.gold is not None
        vector = states(part.given).mean(0)
        hidden = network.branch["joint"](torch.cat((read, vector.expand_as(read)), dim=-1)).tanh()
        pointed = torch.cat([network.branch[side](hidden) for side in ("start", "end")], dim=-1)[text_tokens]
        text_offsets = [mapped[n] for n in text_tokens]
        hit = [k for k, (a, b) in enumerate(text_offsets) if a < part.gold.end and b > part.gold.start]
        for side, target in enumerate((hit[0], hit[-1])):
            sides[side].append(functional.cross_entropy(pointed[:, side], torch.tensor(target)))
    return torch.stack([*step_losses, *(torch.stack(side).mean() for side in sides)])


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "distilbert", "deberta"])
def test_losses_are_those_of_the_plain_formula_whatever_stands_beside(kind: str, workshop: Workshop) -> None:
    learner = joint(setup(workshop(kind, "Model"), options={"similarity": "dot", "weights": "1+0.5+2"}))
    network = learner.network().eval()
    with torch.inference_mode():
        weights = torch.tensor([1, 0.5, 2])
        expected = torch.stack([(plain(network, learner, row) * weights).sum() for row in range(3)])
        for batches in ([[0, 1, 2]], [[0], [1], [2]], [[0, 1], [2]]):
            torch.testing.assert_close(losses(learner, network, batches), expected, rtol=1e-4, atol=1e-4)


def test_activations_computed_twice_give_the_same_gradient(workshop: Workshop) -> None:
    """With dropout, and with a branch that is not in the encoder."""
    gradients = []
    for caching in ("off", "on"):
        learner = joint(setup(workshop("bert", "Model"), options={"caching": caching}))
        torch.manual_seed(3)
        network = learner.network().train()
        torch.manual_seed(5)
        losses(learner, network, [[0, 1], [2]]).sum().backward()
        gradients.append({name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None})
    assert {name for name in gradients[0] if name.startswith("branch")} == {
        f"branch.{layer}.{kind}" for layer in ("joint", "start", "end") for kind in ("weight", "bias")
    }
    assert gradients[0].keys() == gradients[1].keys()
    for name in gradients[0]:
        torch.testing.assert_close(gradients[0][name], gradients[1][name], msg=name)


def test_a_weight_of_nought_leaves_the_span_branch_alone(workshop: Workshop) -> None:
    learner = joint(setup(workshop("bert", "Model"), options={"weights": "1+0+0"}))
    network = learner.network().eval()
    losses(learner, network, [[0, 1, 2]]).sum().backward()
    assert all((weight.grad == 0).all() for weight in network.branch.parameters())
    alone = ranking(setup(workshop("bert", "Model")))
    features = alone.features(EXAMPLES)
    expected = alone.network().eval()([features.batch([0, 1, 2], 0)], features.beside([0, 1, 2]))
    torch.testing.assert_close(losses(learner, network, [[0, 1, 2]]), expected)


def test_it_begins_where_a_biencoder_ended(workshop: Workshop, tmp_path: Path) -> None:
    """Pooling and similarity come from figeval.json, as the encoder's weights come from its file."""
    first = ranking(setup(workshop("roberta", "Model"), options={"pooling": "cls", "similarity": "dot"}))
    network = first.network()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.01)
    folder = write_network(first, network, tmp_path / "biencoder")
    learner = joint(Setup(model=str(folder)))
    described = learner.describe()
    assert (described["pooling"], described["similarity"], described["fresh_branch"]) == ("cls", "dot", True)
    assert described["activation"] == "tanh"
    for name, weight in learner.network().encoder.state_dict().items():
        torch.testing.assert_close(weight, network.encoder.state_dict()[name], msg=name)
    joint_learner = joint(Setup(model=str(folder), options={"similarity": "cosine"}))
    assert joint_learner.describe()["similarity"] == "cosine"


def test_a_joint_model_keeps_its_branch(workshop: Workshop, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = joint_checkpoint(workshop("bert", "Model"), tmp_path / "joint", activation="none", max_span=4)
    learner = joint(Setup(model=str(folder)))
    assert learner.describe()["fresh_branch"] is False
    assert (learner.options.activation, learner.options.max_span) == ("none", 4)
    network = learner.network()
    for name, weight in load_file(folder / FILE).items():
        assert torch.equal(network.branch.state_dict()[name], weight)
    assert network.branch.training


@pytest.mark.parametrize(("kind", "options"), [("bert", {}), ("mpnet", {"similarity": "dot", "activation": "none"})])
def test_what_was_saved_answers_as_the_network_did(
    kind: str, options: dict[str, Any], workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    learner = joint(setup(workshop(kind, "Model"), max_length=60, options={**options, "max_span": 6}))
    network = learner.network().eval()
    loaded, expected = open_model(write_network(learner, network, tmp_path / "out")), learner.backend(network)
    texts = [Text(text) for text in (*CANDIDATES, *(example.query for example in EXAMPLES))]
    torch.testing.assert_close(*(torch.tensor(model.embed(texts).values) for model in (loaded, expected)))
    assert loaded.similarity == expected.similarity
    requests = [SpanQuery(part.text, part.given, part.known) for example in EXAMPLES for part in example.parts]
    requests.append(SpanQuery(" ".join(LINES), "in time", LINES[0]))
    assert_alike(loaded.find_spans(requests).values, expected.find_spans(requests).values)
    described = loaded.describe()
    assert (described["max_span"], described["max_length"]) == (6, 60)
    assert described["activation"] == options.get("activation", "tanh")


def test_parts_that_are_cut_off_are_not_learnt_from(workshop: Workshop) -> None:
    """Of the first example both parts, of the second none, of the third the last one."""
    long = "and so on " * 20
    far = example(3, f"{long} the roof leaked", "the roof", "leaked")
    half = example(4, f"the roof leaked {long} for a month", "the roof", "month")
    learner = joint(setup(workshop("bert", "Model"), max_length=40))
    rows = [far, EXAMPLES[1], half]
    features = learner.features(rows)
    assert learner.describe()["parts_cut_off"] == 3
    assert [[part.weight for part in parts] for parts in features.parts] == [[0.0], [1.0], [1.0]]
    network = learner.network().eval()
    step_losses = network([features.batch([0, 1, 2], 0)], features.beside([0, 1, 2]))
    alone = network([features.batch([0], 0)], features.beside([0, 1, 2]))
    ranked = learner.ranker.features(rows)
    queries = network.vectors(ranked.batch([0], 0))
    ranking_inputs = ranked.beside([0, 1, 2])
    candidates = torch.cat([network.vectors(batch) for batch in ranking_inputs])
    expected = network.ranked(queries, candidates, [ranked.batch([0], 0)], ranking_inputs)
    torch.testing.assert_close(alone, expected)
    torch.testing.assert_close(step_losses[:1], expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(FigevalError, match="all parts are cut off"):
        learner.features([far])


def test_dropout_is_on_and_frozen_weights_stay(workshop: Workshop) -> None:
    learner = joint(setup(workshop("roberta", "Model"), options={"freeze": "embeddings"}))
    network = learner.network()
    gradients = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        gradients.append(losses(learner, network, [[0, 1, 2]]))
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])
    gradients[0].sum().backward()
    without = {name for name, weight in network.named_parameters() if weight.grad is None}
    assert without
    assert all("embeddings" in name or "pooler" in name or name == "log_temperature" for name in without)


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return small(tmp_path_factory.mktemp("joint"), "joint", among_themselves(examples_of("mini_joint", 6)))


def among_themselves(examples: list[JointExample]) -> list[JointExample]:
    """With the candidates that are right for one of them."""
    numbers = [min(example.relevant) for example in examples]
    candidates = tuple(examples[0].candidates[number] for number in numbers)
    return [replace(example, candidates=candidates, relevant=frozenset({n})) for n, example in enumerate(examples)]


@pytest.mark.slow
def test_it_learns_and_answers_as_it_did_in_training(ground: Small) -> None:
    choose_holdout = {"head_args": {"pooling": "cls", "similarity": "dot"}, "batch_size": 3}
    trained = ground.train(epochs=150, patience=2, lr=1e-2, **choose_holdout)
    run, scores = trained.run, scores_of(trained.run)
    assert run.record.tasks[0].route == "at_once"
    assert scores == pytest.approx(trained.best, rel=1e-6)
    assert (scores["acc"] or 0) > 0.8
    assert (scores["span_f1"] or 0) > 0.8
    rows = [*run.rows("small")]
    assert len({tuple(part["pred"]) for row in rows for part in row["parts"]}) > len(rows)
    declared = json.loads((trained.path / "figeval.json").read_text())
    assert (declared["kind"], declared["activation"], declared["about"]["head"]) == ("joint", "tanh", "joint")
    assert run.record.model.description["about"] == declared["about"]


# ---- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": None}, "declares no pooling"),
        ({"activation": "relu"}, "activation=relu is not one of none, tanh"),
        ({"weights": "1+1"}, "not three weights"),
        ({"weights": "1+a+1"}, "not three weights"),
        ({"weights": "0+0+0"}, "not three weights"),
        ({"weights": "1+-1+1"}, "not three weights"),
        ({"weights": "nan+1+1"}, "not three weights"),
        ({"max_span": -1}, "max_span=-1"),
        ({"wights": "1+1+1"}, "no such option.*weights"),
        ({"hard": 3}, "candidates=batch"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        joint(setup(workshop("bert", "Model"), options=options)).network()
    assert "\n" not in str(raised.value)


def test_examples_that_are_no_joint_ones_are_refused(workshop: Workshop) -> None:
    learner = joint(setup(workshop("bert", "Model")))
    (part,) = EXAMPLES[1].parts
    with pytest.raises(FigevalError, match="j1S0 has no span"):
        learner.features([replace(EXAMPLES[1], parts=(replace(part, gold=None),))])
    with pytest.raises(FigevalError, match="the text of part j1S0 is not its query"):
        learner.features([replace(EXAMPLES[1], parts=(replace(part, text="A stitch."),))])
    with pytest.raises(FigevalError, match="j1 has no right candidate"):
        learner.features([replace(EXAMPLES[1], relevant=frozenset())])
    with pytest.raises(FigevalError, match="j1S0: no token overlaps"):
        learner.features([replace(EXAMPLES[1], query="", parts=(replace(part, text=""),))])


def test_a_branch_of_another_width_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    folder = joint_checkpoint(workshop("bert", "Model"), tmp_path / "joint", width=8)
    with pytest.raises(FigevalError, match="not a span branch of width 16") as raised:
        joint(Setup(model=str(folder))).network()
    assert "\n" not in str(raised.value)
    odd = declare(workshop("bert", "Model"), tmp_path / "odd", kind="joint", pooling="cls", simlarity="dot")
    with pytest.raises(FigevalError, match="simlarity"):
        joint(Setup(model=str(odd)))
