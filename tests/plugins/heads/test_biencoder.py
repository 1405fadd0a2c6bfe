"""Proverbs and narratives apart: the loss is that of the plain formula, and what was trained is what is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from figeval import ChoiceExample, FigevalError, RankingExample, Setup, Text
from tests.learners import head, write_network
from tests.plugins.heads.small import scores_of
from tests.plugins.tiny import LINES, Workshop
from tests.trainings import read_losses, train

choice, ranking, joint = head("choice", "biencoder"), head("ranking", "biencoder"), head("joint", "joint")
CANDIDATES = (*LINES, "yes", "no, it is not", LINES[0] + " " + LINES[3])


def example(n: int) -> RankingExample:
    """The fourth one has two right candidates."""
    relevant = {n % 9} | ({(n + 4) % 9} if n == 3 else set())
    query = f"{LINES[n % 6]} {'and so on ' * (n % 4)}"
    return RankingExample(id=str(n), query=query, candidates=CANDIDATES, relevant=frozenset(relevant))


EXAMPLES = [example(n) for n in range(12)]


def setup(folder: Path | str, **changes: Any) -> Setup:
    options = {"pooling": "mean", **changes.pop("options", {})}
    return Setup(model=str(folder), options=options, **{"tokens_per_batch": 60, **changes})


def losses(learner: Any, rows: Sequence[int], network: Any = None, per_call: int = 12) -> torch.Tensor:
    """As the loop asks for them, in batches of `per_call` rows."""
    network = network or learner.network().eval()
    features = learner.features(EXAMPLES)
    batches = [features.batch(rows[start : start + per_call], 0) for start in range(0, len(rows), per_call)]
    step_losses: torch.Tensor = network(batches, features.beside(rows))
    return step_losses


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "distilbert", "albert", "deberta-v2"])
def test_losses_are_those_of_the_plain_formula(kind: str, workshop: Workshop) -> None:
    """One text at a time, no padding: positions of RoBERTa and MPNet must not depend on what stands beside a text."""
    from transformers import AutoModel, AutoTokenizer

    folder = workshop(kind, "Model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vector(text: str) -> torch.Tensor:
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        return functional.normalize(states, dim=0)

    with torch.inference_mode():
        rows = [0, 5, 7, 11]
        candidates = torch.stack([vector(text) for text in CANDIDATES])
        logits = torch.stack([vector(EXAMPLES[row].query) for row in rows]) @ candidates.T / 0.05
        golds = torch.tensor([min(EXAMPLES[row].relevant) for row in rows])
        expected = functional.cross_entropy(logits, golds, reduction="none")
        learner = ranking(setup(folder))
        network = learner.network().eval()
        for per_call in (1, 3, 12):
            torch.testing.assert_close(losses(learner, rows, network, per_call), expected, rtol=1e-4, atol=1e-4)


def test_of_several_right_candidates_any_will_do(workshop: Workshop) -> None:
    learner = ranking(setup(workshop("bert", "Model"), options={"similarity": "dot"}))
    network = learner.network().eval()
    with torch.inference_mode():
        (loss,) = losses(learner, [3], network)
        features = learner.features(EXAMPLES)
        query = network.vectors(features.batch([3], 0))
        order = torch.cat([batch["columns"] for batch in features.beside([3])])
        logits = (query @ torch.cat([network.vectors(batch) for batch in features.beside([3])]).T)[0]
        right = logits.softmax(-1)[(order == 3) | (order == 7)].sum()
    torch.testing.assert_close(loss, -right.log())


def test_activations_computed_twice_give_the_same_gradient(workshop: Workshop) -> None:
    """With dropout: the second time with the random numbers of the first."""
    gradients = []
    for caching in ("off", "on"):
        learner = ranking(setup(workshop("bert", "Model"), options={"caching": caching}))
        network = learner.network().train()
        torch.manual_seed(5)
        losses(learner, list(range(12)), network, 4).sum().backward()
        gradients.append([weight.grad for weight in network.parameters() if weight.grad is not None])
    assert len(gradients[0]) > 20
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "albert", "t5"])
def test_one_lookup_for_all_batches_gives_the_gradient_of_many(kind: str, workshop: Workshop) -> None:
    """Beside the same network whose batches look their words up themselves, as with activations computed twice."""
    head = "ForConditionalGeneration" if kind == "t5" else "Model"
    gradients = []
    for caching in ("off", "on"):
        learner = ranking(setup(workshop(kind, head), options={"caching": caching}, dropout=0.0))
        network = learner.network().train()
        losses(learner, list(range(12)), network, 5).sum().backward()
        gradients.append({name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None})
    assert any("embed" in name for name in gradients[0])
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-4, atol=1e-5)


def test_candidates_of_a_batch_and_its_hard_negatives(workshop: Workshop) -> None:
    learner = ranking(setup(workshop("bert", "Model"), options={"candidates": "batch"}))
    features = learner.features(EXAMPLES)
    assert columns(features.beside([0, 9, 1])) == [0, 1]
    assert columns(features.beside([3])) == [3, 7]
    mined = ranking(setup(workshop("bert", "Model"), options={"candidates": "batch", "hard": 2})).features(EXAMPLES)
    assert len(columns(mined.beside([0]))) == 3
    assert 0 in columns(mined.beside([0]))


def columns(batches: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(torch.cat([batch["columns"] for batch in batches]).tolist())


def test_batches_of_candidates_keep_to_the_budget_and_hold_little_padding(workshop: Workshop) -> None:
    features = ranking(setup(workshop("bert", "Model"))).features(EXAMPLES)
    for batch in features.beside([0]):
        assert batch["input_ids"].numel() <= 60 or len(batch["input_ids"]) == 1
        assert batch["attention_mask"].any(dim=0).all()


def test_what_is_frozen_has_no_gradient_and_temperature_may_be_learnt(workshop: Workshop) -> None:
    options = {"freeze": "embeddings", "learn_temperature": True, "temperature": 0.2}
    network = ranking(setup(workshop("bert", "Model"), options=options)).network()
    trainable = {name for name, weight in network.named_parameters() if weight.requires_grad}
    assert "log_temperature" in trainable
    assert not any("embeddings" in name for name in trainable)
    assert network.log_temperature.exp().item() == pytest.approx(0.2)


# ---- options of questions ------------------------------------------------------------------------------------------


QUESTIONS = [
    ChoiceExample(id="a", query=LINES[0], options=(LINES[1], LINES[2], LINES[3]), gold=1),
    ChoiceExample(id="b", query=LINES[4], options=(LINES[2], LINES[5]), gold=1),
]


@pytest.mark.parametrize("candidates", ["own", "batch"])
def test_options_are_held_against_those_of_their_question_or_of_the_step(candidates: str, workshop: Workshop) -> None:
    """An option of both questions is one candidate; the right option of a question is never a wrong one of its own."""
    learner = choice(setup(workshop("bert", "Model"), options={"candidates": candidates, "temperature": 0.5}))
    network = learner.network().eval()
    with torch.inference_mode():
        features = learner.features(QUESTIONS)
        step_losses = network([features.batch([0], 0), features.batch([1], 0)], features.beside([0, 1]))
        backend = learner.backend(network)
        embedded = {text: torch.tensor(backend.embed([Text(text)]).values[0]) for text in LINES}
        vectors = {text: functional.normalize(vector, dim=-1) for text, vector in embedded.items()}
        expected = []
        for question in QUESTIONS:
            every = dict.fromkeys(option for question in QUESTIONS for option in question.options)
            candidates_of_question = every if candidates == "batch" else question.options
            logits = torch.stack([vectors[question.query] @ vectors[other] for other in candidates_of_question]) / 0.5
            gold = [*candidates_of_question].index(question.options[question.gold or 0])
            expected.append(functional.cross_entropy(logits, torch.tensor(gold)))
    torch.testing.assert_close(step_losses, torch.stack(expected), rtol=1e-4, atol=1e-4)
    assert columns(features.beside([1])) == [1, 3]


def test_choice_tasks_have_no_candidates_for_all(workshop: Workshop) -> None:
    for options, message in (
        ({"candidates": "all"}, "candidates=all is not one of own, batch"),
        ({"hard": 2}, "--head_args hard: no such option"),
    ):
        with pytest.raises(FigevalError, match=message):
            choice(setup(workshop("bert", "Model"), options=options))
    hidden = ChoiceExample(id="x", query="a", options=("b", "c"), gold=None)
    with pytest.raises(FigevalError, match="x has no right option to learn from"):
        choice(setup(workshop("bert", "Model"))).features([hidden])


# ---- prompts -------------------------------------------------------------------------------------------------------


E5 = {"query": "does it follow: ", "document": "the answer: "}


@pytest.fixture
def checkpoint_with_prompts(workshop: Workshop, tmp_path: Path) -> Callable[..., Path]:
    """Make a checkpoint of sentence-transformers with mean pooling and these prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    def make(prompts: dict[str, str], **pooling: Any) -> Path:
        body = Transformer(str(workshop("bert", "Model")), max_seq_length=48)
        modules = [body, Pooling(16, pooling_mode="mean", **pooling), Normalize()]
        folder = tmp_path / "-".join([*prompts, "model"])
        SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save_pretrained(
            str(folder), create_model_card=False
        )
        return folder

    return make


def with_prompts(prompts: dict[str, str]) -> tuple[list[RankingExample], list[ChoiceExample]]:
    """The examples with the prompts as part of their texts."""
    ask, say = prompts["query"], prompts["document"]
    candidates = tuple(say + text for text in CANDIDATES)
    ranked = [replace(example, query=ask + example.query, candidates=candidates) for example in EXAMPLES]
    chosen = [
        replace(example, query=ask + example.query, options=tuple(say + text for text in example.options))
        for example in QUESTIONS
    ]
    return ranked, chosen


def test_texts_are_trained_with_the_prompts_that_evaluation_reads(
    checkpoint_with_prompts: Callable[..., Path], workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """Token for token as if the prompts were part of the texts; the checkpoint declares them."""
    options = {"pooling": None, "candidates": "batch", "hard": 2}
    folder, bare = checkpoint_with_prompts(E5), workshop("bert", "Model")
    ranked, chosen = with_prompts(E5)
    for make, examples, spelt, further in (
        (ranking, EXAMPLES, ranked, options),
        (choice, QUESTIONS, chosen, {"pooling": None}),
    ):
        learner = make(setup(folder, options=further, max_length=48))
        plain = make(setup(bare, options={**further, "pooling": "mean"}, max_length=48))
        features, expected = learner.features(examples), plain.features(spelt)
        assert features.queries.fields == expected.queries.fields
        assert features.candidates.fields == expected.candidates.fields
        assert features.hard == expected.hard

        network = learner.network().eval()
        saved_folder = write_network(learner, network, tmp_path / type(examples[0]).__name__)
        saved, trained = open_model(saved_folder), learner.backend(network)
        assert saved.prompts.by_role == learner.describe()["prompts"] == {**E5, "text": E5["query"]}
        texts = [Text(text, role) for text in LINES for role in ("query", "document", "")]
        np.testing.assert_allclose(saved.embed(texts).values, trained.embed(texts).values, atol=1e-6)
        again = make(setup(saved_folder, options={"pooling": None}))
        assert again.prompts_by_role == saved.prompts.by_role  # a training from the trained model


@pytest.mark.parametrize(
    ("declared", "options_given", "read"),
    [
        (E5, {"query_prompt": "", "document_prompt": ""}, ("", "", "")),
        (E5, {"query_prompt": "ask: "}, ("ask: ", E5["document"], "ask: ")),
        ({"query": "q", "document": ""}, {}, ("q", "", "")),  # a text that looks like a name
        ({"s2p": "find: "}, {"query_prompt": "s2p", "document_prompt": ""}, ("find: ", "", "")),
    ],
)
def test_the_trained_model_keeps_the_prompts_that_were_given(
    declared: dict[str, str],
    options_given: dict[str, str],
    read: Sequence[str],
    checkpoint_with_prompts: Callable[..., Path],
    tmp_path: Path,
    open_model: Callable[..., Any],
) -> None:
    learner = ranking(setup(checkpoint_with_prompts(declared), options={"pooling": None, **options_given}))
    saved_folder = write_network(learner, learner.network(), tmp_path / "out")
    about = json.loads((saved_folder / "figeval.json").read_text()) | {"about": {"head": "biencoder"}}
    (saved_folder / "figeval.json").write_text(json.dumps(about))
    saved = open_model(saved_folder)
    assert (saved.prompts.query, saved.prompts.document, saved.prompts.text) == tuple(read)
    assert "warnings" not in saved.describe()


def test_a_model_without_prompts_is_trained_and_declared_as_ever(
    checkpoint_with_prompts: Callable[..., Path], tmp_path: Path
) -> None:
    learner = ranking(setup(checkpoint_with_prompts({}), options={"pooling": None}))
    write_network(learner, learner.network(), tmp_path / "out")
    assert set(json.loads((tmp_path / "out" / "figeval.json").read_text())) == {"kind", "pooling", "similarity"}
    assert "prompts" not in learner.describe()


def test_prompts_that_cannot_be_placed_or_trained_are_one_line(checkpoint_with_prompts: Callable[..., Path]) -> None:
    odd = checkpoint_with_prompts({"s2p": "find: "})
    (warning,) = ranking(setup(odd, options={"pooling": None})).warnings
    assert "--head_args query_prompt=NAME,document_prompt=NAME" in warning
    skips = checkpoint_with_prompts(E5, include_prompt=False)
    for make, folder, options_given, message in (
        (ranking, odd, {"query_prompt": "s2q"}, "no prompt of this name .*did you mean 's2p'"),
        (joint, odd, {"query_prompt": "s2p"}, "a joint model reads its texts without prompts"),
        (choice, skips, {}, "--head_args query_prompt=,document_prompt=,text_prompt="),
    ):
        with pytest.raises(FigevalError, match=message) as raised:
            make(setup(folder, options={"pooling": None, **options_given}))
        assert "\n" not in str(raised.value)
    off = dict.fromkeys(("query_prompt", "document_prompt", "text_prompt"), "")
    assert choice(setup(skips, options={"pooling": None, **off})).prompts.query == ""


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder_of_tasks(tmp_path: Path) -> Path:
    """A ranking task whose narratives repeat their proverbs: there is something to learn."""
    tasks_folder = tmp_path / "tasks"
    tasks_folder.mkdir()
    rows = [
        {"id": f"{n}", "query": f"{LINES[n % 6]} {LINES[(n + 1) % 6]}", "gold": [n % 6], "proverb": f"Q{n % 6}"}
        for n in range(30)
    ]
    for name, part in (("train", rows[:24]), ("test", rows[24:])):
        lines = [json.dumps({**row, "candidates": LINES}) for row in part]
        (tasks_folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (tasks_folder / "lines.task.yaml").write_text(
        "name: lines\ntype: ranking\ndata: {train: 'jsonl:train.jsonl', test: 'jsonl:test.jsonl'}\n"
        "fields: {id: row.id, query: row.query, candidates: row.candidates, relevant: row.gold,"
        " meta: {proverb: row.proverb}}\ncluster: proverb\nmetrics: [acc, mrr]\n"
    )
    return tasks_folder


@pytest.mark.slow
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_it_learns_and_answers_as_it_did_in_training(
    similarity: str, folder_of_tasks: Path, workshop: Workshop, tmp_path: Path
) -> None:
    trained = train(
        "lines", workshop("bert", "Model"), tmp_path / "out", include_path=folder_of_tasks,
        head_args={"pooling": "mean", "similarity": similarity}, select_on="test",
        lr=3e-3, epochs=8, patience=None, batch_size=8,
    )  # fmt: skip
    first, *_, last = read_losses(trained.path)
    assert last < first
    assert (trained.best["acc"] or 0) > 0.4  # chance is a sixth
    assert trained.run.record.tasks[0].route == {"cosine": "by_cosine", "dot": "by_dot"}[similarity]
    assert scores_of(trained.run) == pytest.approx(trained.best)
    declared = json.loads((trained.path / "figeval.json").read_text())
    assert declared["about"]["selected_on"] == "test"
    assert (trained.record.train.n, trained.record.dev.source) == (24, "the test split")


# ---- what cannot be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": None}, "declares no pooling"),
        ({"poling": "cls"}, "no such option.*pooling"),
        ({"similarity": "dots"}, "similarity=dots"),
        ({"hard": 3}, "candidates=batch"),
        ({"temperature": 0}, "temperature"),
        ({"freeze": "poler"}, "no such module.*pooler"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        ranking(setup(workshop("bert", "Model"), options=options)).network()
    assert "\n" not in str(raised.value)


def test_pickles_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = workshop("bert", "Model")
    for file in folder.iterdir():
        if file.name != "model.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with pytest.raises(FigevalError, match="--allow_pickle"):
        ranking(setup(tmp_path))
    assert ranking(setup(tmp_path, allow_pickle=True)).network() is not None


def test_examples_with_other_candidates_are_refused(workshop: Workshop) -> None:
    learner = ranking(setup(workshop("bert", "Model")))
    odd = RankingExample(id="odd", query="a", candidates=("b",), relevant=frozenset({0}))
    with pytest.raises(FigevalError, match="odd has other candidates"):
        learner.features([EXAMPLES[0], odd])
    none = RankingExample(id="none", query="a", candidates=CANDIDATES, relevant=frozenset())
    with pytest.raises(FigevalError, match="none has no right candidate"):
        learner.features([none])


def test_layers_that_would_be_lost_are_refused(sentence_folder: Path) -> None:
    with pytest.raises(FigevalError, match="has a layer Dense"):
        ranking(setup(sentence_folder, options={"pooling": None}))
