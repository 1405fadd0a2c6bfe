"""Options read together, each behind a marker: where markers stand, what they score, what is learnt and kept.

What is invariant: the scores of a question do not depend on the questions beside it, nor on what its texts contain;
they do depend on the order of the options, because a marker's state depends on what stands around it. In a decoder it
depends on what stands on its left alone. A model that has learnt the task finds the right option wherever it stands.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

import figeval
from figeval import ChoiceExample, FigevalError, Harness, Setup
from tests.cli.conftest import Cli
from tests.learners import head, write_network
from tests.plugins.heads.small import Small, examples_of, scores_of, small
from tests.plugins.tiny import (
    KINDS,
    LINES,
    LONG_TEXT,
    POSITIONS,
    Marks,
    Workshop,
    make_tokenizer,
    save,
    spread,
    word_pieces,
)
from tests.trainings import optimizer_steps, train

marker = head("choice", "marker")
(OptionList,) = next(route for route in Harness().routes.of("choice") if route.name == "by_markers").requests
MARKERS = "marker_places"
ENCODERS = ("bert", "roberta", "mpnet", "distilbert", "albert", "deberta", "deberta-v2", "electra")
ENCODER_DECODERS = ("t5", "bart")
CHOICES = [
    ChoiceExample(id="c0", query=LINES[0], options=("yes", LINES[1][:30], "no, it is not"), gold=1),
    ChoiceExample(id="c1", query="Maybe.", options=("yes", "no"), gold=1),
    ChoiceExample(id="c2", query=LINES[2], options=("the roof", "no", "a", "the bucket", "Does it follow?"), gold=0),
]


def setup(folder: Path | str, **changes: Any) -> Setup:
    return Setup(model=str(folder), **changes)


def questions(examples: Sequence[ChoiceExample]) -> list[Any]:
    return [OptionList(example.query, example.options) for example in examples]


def folder_of(kind: str, workshop: Workshop, folder: Path) -> Path:
    """A model of a kind; a T5 whose tokenizer has its markers, as real ones do, after the words."""
    if kind != "t5":
        return workshop(kind, "Model")
    from transformers import T5ForConditionalGeneration

    checkpoint = KINDS[kind]
    tokenizer = make_tokenizer(checkpoint.tokenizer, checkpoint.marks)
    tokenizer.add_tokens([f"<extra_id_{number}>" for number in range(100)], special_tokens=True)
    torch.manual_seed(20)
    model = T5ForConditionalGeneration(
        checkpoint.build_config(len(tokenizer) + 20, pad_token_id=tokenizer.pad_token_id)
    )
    spread(model)
    save(model, tokenizer, folder / "t5")
    return folder / "t5"


# ---- where the markers stand ---------------------------------------------------------------------------------------


def test_an_encoder_reads_the_input_of_the_authors(workshop: Workshop) -> None:
    """[MASK]option [MASK]option … [P]text within what the tokenizer puts around a text."""
    learner = marker(setup(workshop("bert", "Model")))
    features, tokenizer = learner.features(CHOICES), learner.tokenizer
    for row, example in enumerate(CHOICES):
        batch = features.batch([row], 0)
        text = "".join(f"[MASK]{option} " for option in example.options) + f"[P]{example.query}"
        ids = tokenizer(text)["input_ids"]
        assert batch["input_ids"].tolist() == [ids]
        assert batch["attention_mask"].all()
        assert batch[MARKERS].tolist() == [[n for n, token in enumerate(ids) if token == tokenizer.mask_token_id]]
        assert ids[batch["query_place"]] == tokenizer.convert_tokens_to_ids("[P]")
    assert features.lengths == [features.batch([row], 0)["input_ids"].shape[1] for row in range(3)]


def test_the_mask_of_roberta_takes_the_place_of_the_one_of_bert(workshop: Workshop) -> None:
    learner = marker(setup(workshop("roberta", "Model")))
    (ids,) = learner.features(CHOICES[1:2]).batch([0], 0)["input_ids"].tolist()
    assert learner.tokenizer.decode(ids) == "<s><mask>yes<mask>no[P]Maybe.</s>"


def test_a_decoder_reads_the_options_and_the_encoder_the_text(workshop: Workshop, tmp_path: Path) -> None:
    learner = marker(setup(folder_of("t5", workshop, tmp_path)))
    tokenizer, batch = learner.tokenizer, learner.features(CHOICES).batch([1], 0)
    assert batch["input_ids"].tolist() == [tokenizer(CHOICES[1].query)["input_ids"]]
    (ids,) = batch["decoder_input_ids"].tolist()
    assert tokenizer.convert_ids_to_tokens([ids[position] for position in batch[MARKERS][0]]) == [
        "<extra_id_1>",
        "<extra_id_2>",
    ]
    assert (ids[0], ids[batch["query_place"]]) == (0, tokenizer.convert_tokens_to_ids("<mask>"))
    assert batch["query_place"].tolist() == [len(ids) - 1]
    assert tokenizer.decode(ids[1:], skip_special_tokens=True).split() == ["yes", "no"]


@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_tokens_that_a_text_spells_out_are_no_markers(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    learner = marker(setup(folder_of(kind, workshop, tmp_path)))
    options = ("[MASK] yes <extra_id_2>", "no [P]", "<mask>")
    forged = ChoiceExample(id="forged", query="[P] [MASK] <mask> it", options=options, gold=0)
    assert len(learner.features([forged]).batch([0], 0)[MARKERS][0]) == 3
    (scores,) = learner.backend(learner.network().eval()).score_options(questions([forged])).values
    assert len(scores) == 3


def test_only_what_is_missing_is_added_to_the_vocabulary(workshop: Workshop, tmp_path: Path) -> None:
    """[P] to BERT's; <mask> to T5's, for which it has room; markers and nothing else to BART's, which has a mask."""
    sizes = {}
    for kind in ("bert", "t5"):
        learner = marker(setup(folder_of(kind, workshop, tmp_path)))
        before = len(learner.base.tokenizer)
        network = learner.network()
        sizes[kind] = (len(learner.tokenizer) - before, network.model.get_input_embeddings().num_embeddings - before)
    assert sizes == {"bert": (1, 1), "t5": (1, 20)}
    learner = marker(setup(workshop("bart", "Model")))
    before = len(learner.base.tokenizer)
    assert len(learner.tokenizer) - before == 99 + 1
    again = marker(setup(write_network(learner, learner.network(), tmp_path / "again")))
    assert len(again.base.tokenizer) == before + 100 == len(again.tokenizer)


# ---- scores and losses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ENCODERS, *ENCODER_DECODERS])
def test_losses_are_cross_entropies_whatever_stands_beside(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    """Three, two and five options: dot products of states that transformers gives without padding."""
    learner = marker(setup(folder_of(kind, workshop, tmp_path)))
    network, features = learner.network().eval(), learner.features(CHOICES)
    expected = []
    with torch.inference_mode():
        for row, example in enumerate(CHOICES):
            batch = features.batch([row], 0)
            inputs = {name: batch[name] for name in ("input_ids", "decoder_input_ids") if name in batch}
            states = network.model(**inputs).last_hidden_state[0]
            scores = torch.stack([states[position] @ states[batch["query_place"][0]] for position in batch[MARKERS][0]])
            expected.append(functional.cross_entropy(scores, torch.tensor(example.gold)))
        for rows in ([0, 1, 2], [2, 0], [1]):
            expected_scores = torch.stack(expected)[rows]
            torch.testing.assert_close(network([features.batch(rows, 0)], []), expected_scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [*ENCODERS, *ENCODER_DECODERS])
def test_what_was_saved_scores_as_the_network_did(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    learner = marker(setup(folder_of(kind, workshop, tmp_path), max_length=60))
    network = learner.network().eval()
    requests = questions([*CHOICES, replace(CHOICES[0], query=LONG_TEXT)])
    expected = learner.backend(network).score_options(requests)
    loaded = open_model(write_network(learner, network, tmp_path / "out"))
    got = loaded.score_options(requests)
    assert got.truncated == expected.truncated
    assert 3 in got.truncated and 1 not in got.truncated
    for row, other in zip(got.values, expected.values, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-3)
    assert loaded.describe()["max_length"] == 60
    for row, question in zip(got.values, requests, strict=True):
        (alone,) = loaded.score_options([question]).values
        assert row == pytest.approx(alone, rel=1e-3, abs=1e-3)


def test_a_marker_of_a_decoder_knows_the_options_before_it_alone(workshop: Workshop, tmp_path: Path) -> None:
    """The state of the first marker is the same whatever follows; for an encoder it is not."""
    states = {}
    for kind in ("t5", "bert"):
        learner = marker(setup(folder_of(kind, workshop, tmp_path)))
        network = learner.network().eval()
        for last in ("no", "a"):
            example = replace(CHOICES[0], options=("yes", last))
            batch = learner.features([example]).batch([0], 0)
            inputs = {name: batch[name] for name in ("input_ids", "decoder_input_ids") if name in batch}
            with torch.inference_mode():
                states[kind, last] = network.model(**inputs).last_hidden_state[0, batch[MARKERS][0, 0]]
    torch.testing.assert_close(states["t5", "no"], states["t5", "a"], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(states["bert", "no"], states["bert", "a"], atol=1e-3)


# ---- inputs that are too long --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_a_long_text_loses_its_end(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    learner = marker(setup(folder_of(kind, workshop, tmp_path), max_length=50))
    full_marker = marker(setup(folder_of(kind, workshop, tmp_path / "whole"), max_length=POSITIONS))
    example = replace(CHOICES[1], query=f"{LINES[0]} {LINES[1]}")
    features, full = learner.features([CHOICES[1], example]), full_marker.features([example])
    assert (features.truncated, full.truncated) == (1, 0)
    (ids,), (longer,) = (
        marker_features.batch([row], 0)["input_ids"].tolist() for marker_features, row in ((features, 1), (full, 0))
    )
    assert len(ids) == 50 < len(longer)
    assert ids == [*longer[:49], longer[-1]]
    assert learner.describe()["options_read_by"] == {"bert": "encoder", "t5": "decoder"}[kind]


@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_options_that_leave_no_room_are_a_line_with_the_example(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    """In training, and when the model is asked: nobody is answered with the first option."""
    learner = marker(setup(folder_of(kind, workshop, tmp_path), max_length=40))
    crowded = replace(CHOICES[0], id="crowded", query=LONG_TEXT, options=(LINES[0], LINES[1], "yes"))
    with pytest.raises(FigevalError, match="the 3 options of 'crowded' fill the 40 tokens") as raised:
        learner.features([CHOICES[1], crowded])
    assert "\n" not in str(raised.value)
    backend = learner.backend(learner.network().eval())
    outputs = backend.score_options(questions([CHOICES[1], crowded]))
    assert [len(scores) for scores in outputs.values] == [2, 0]


CROWDED = replace(CHOICES[0], id="crowded", query=LONG_TEXT, options=(LINES[0], LINES[1], "yes"))
ROOM = 30  # tokens that two options of CHOICES have, and the options of CROWDED do not


@contextmanager
def without_weights(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if weights are loaded."""
    with monkeypatch.context() as patch:
        patch.setattr("transformers.AutoModel.from_pretrained", lambda *_, **__: pytest.fail("the weights were loaded"))
        yield


def test_a_run_leaves_out_the_example_whose_options_leave_no_room(tmp_path: Path) -> None:
    ground = small(tmp_path / "ground", "choice", [CHOICES[1], CROWDED])
    learner = marker(setup(ground.model, max_length=ROOM))
    model = write_network(learner, learner.network(), tmp_path / "model")
    run = figeval.run("small", model, include_path=ground.folder, device="cpu", output_path=tmp_path / "run")
    (task,) = run.record.tasks
    assert (task.status, task.counts["unasked"], task.scores[0].n) == ("done", 1, 1)
    rows = map(json.loads, (run.path / "predictions" / "small.jsonl").read_text("utf-8").splitlines())
    (error,) = (row["error"] for row in rows if row["status"] == "unasked")
    assert "the 3 options of 'crowded' fill the model's input" in error


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_training_refuses_or_skips_examples_without_room_before_it_loads_weights(
    split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dev is read as early as train."""
    ground = small(tmp_path / "ground", "choice", [CHOICES[1], replace(CHOICES[1], id="other")])
    rows = (ground.folder / "rows.jsonl").read_text("utf-8")
    crowded = json.dumps({"id": "crowded", "query": LONG_TEXT, "options": CROWDED.options, "gold": 0}) + "\n"
    for name in ("train", "dev"):
        (ground.folder / f"{name}.jsonl").write_text(rows + crowded * (name == split), "utf-8")
    task = next(ground.folder.glob("*.task.yaml"))
    data = "{train: 'jsonl:train.jsonl', dev: 'jsonl:dev.jsonl', test: 'jsonl:rows.jsonl'}"
    task.write_text(re.sub(r"data: \{.*?\}", f"data: {data}", task.read_text("utf-8")), "utf-8")
    options = {"include_path": ground.folder, "head": "marker", "max_length": ROOM, "max_steps": 1, "batch_size": 2}
    output = tmp_path / "model"
    with (
        without_weights(monkeypatch),
        pytest.raises(figeval.TrainError, match=r"'crowded' fill the 30 tokens.*--skip_long to leave out") as raised,
    ):
        train("small", ground.model, output, **options)
    assert "\n" not in str(raised.value)
    with pytest.warns(figeval.FigevalWarning) as warnings:
        record = figeval.train("small", ground.model, output, skip_long=True, device="cpu", **options).record
    assert any("--skip_long leaves out" in str(line.message) for line in warnings)
    skipped = {"train": record.train.skipped, "dev": record.dev.skipped}
    assert skipped == {"train": 0, "dev": 0, split: 1}
    assert (record.train.n, record.dev.n) == (2, 2)


def test_a_training_without_such_examples_does_not_change_if_they_may_be_skipped(tmp_path: Path) -> None:
    ground = small(tmp_path / "ground", "choice", [CHOICES[1], replace(CHOICES[1], id="other")])
    options = {"include_path": ground.folder, "max_steps": 1, "batch_size": 2, "select_on": "none", "evaluate": ()}
    record = train("small", ground.model, tmp_path / "model", head="marker", skip_long=True, **options).record
    assert "skipped" not in record.model_dump(exclude_unset=True)["train"]
    with pytest.raises(figeval.TrainError, match="--skip_long: the head biencoder cuts what is too long"):
        options |= {"head": "biencoder", "head_args": {"pooling": "mean"}}
        train("small", ground.model, tmp_path / "other", skip_long=True, **options)


def test_a_task_that_the_trained_model_cannot_answer_is_refused_before_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = small(tmp_path / "ground", "choice", [CHOICES[1], replace(CHOICES[1], id="other")])
    options = {"include_path": ground.folder, "head": "marker", "max_steps": 1, "batch_size": 2, "select_on": "none"}
    answerable, refused = "mini_proverbs", "mini_narrative"
    cure = f"could not answer {refused}: .*; leave {refused} out of --evaluate"
    with without_weights(monkeypatch), pytest.raises(figeval.TrainError, match=cure) as raised:
        train("small", ground.model, tmp_path / "model", evaluate=(answerable, refused), **options)
    assert "\n" not in str(raised.value)


def test_without_a_text_the_options_are_all_that_is_read(workshop: Workshop, tmp_path: Path) -> None:
    """As the floor without stories is trained, and as the probe without the query asks."""
    for kind in ("bert", "t5"):
        learner = marker(setup(folder_of(kind, workshop, tmp_path)))
        bare = [replace(example, query="") for example in CHOICES]
        losses = learner.network().eval()([learner.features(bare).batch([0, 1, 2], 0)], [])
        assert losses.isfinite().all()


# ---- what is learnt ------------------------------------------------------------------------------------------------

VERB_OF_NOUN = {"roof": "mend", "boat": "row", "bell": "ring", "song": "sing", "bread": "bake"}
SPELT_MARKS = Marks({"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}, "", "[SEP]")


def toy() -> list[ChoiceExample]:
    """What is done with a thing, among three options in any order."""
    examples = [
        ChoiceExample(id=f"{thing}{n}", query=f"the {thing}", options=options, gold=options.index(done))
        for thing, done in VERB_OF_NOUN.items()
        for n, options in enumerate(permutations(VERB_OF_NOUN.values(), 3))
        if done in options
    ]
    return random.Random(4).sample(examples, len(examples))


def small_t5(folder: Path, examples: Sequence[ChoiceExample]) -> Path:
    """An encoder-decoder that knows the words of the examples, without dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = make_tokenizer(
        partial(word_pieces, texts=[text for example in examples for text in example.texts]), SPELT_MARKS
    )
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
    torch.manual_seed(0)
    save(
        T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, **shape)),
        tokenizer,
        folder,
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "t5"])
def test_the_right_option_is_found_wherever_it_stands(kind: str, tmp_path: Path) -> None:
    """Learnt from 140 questions, asked 40 others with the same options in other orders."""
    learnt, test_examples = toy()[:140], toy()[140:]
    folder = small(tmp_path, "choice", learnt).model if kind == "bert" else small_t5(tmp_path / "t5", learnt)
    learner = marker(setup(folder))
    torch.manual_seed(1)
    network, features = learner.network(), learner.features(learnt)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    losses: list[float] = []
    while len(losses) < 1000 and (len(losses) < 10 or max(losses[-10:]) > 0.01):
        rows = random.Random(len(losses)).sample(range(len(learnt)), 32)
        loss = network([features.batch(rows, 0)], []).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    assert losses[-1] < 0.01
    assert losses[0] > 0.5
    scores = learner.backend(network.eval()).score_options(questions(test_examples)).values
    right = [
        max(range(3), key=row.__getitem__) == example.gold for row, example in zip(scores, test_examples, strict=True)
    ]
    assert sum(right) > 0.8 * len(right)


def fables(folder: Path) -> Small:
    return small(folder, "choice", examples_of("mini_fables", 8))


@pytest.mark.slow
def test_a_training_answers_as_it_did_on_dev_also_in_other_orders(tmp_path: Path) -> None:
    ground = fables(tmp_path / "ground")
    trained = ground.train(head="marker", epochs=60, evaluate_every=10)
    run, scores = trained.run, scores_of(trained.run)
    assert run.record.tasks[0].route == "by_markers"
    assert scores == pytest.approx(trained.best)
    assert (scores["acc"] or 0) >= 0.9
    assert len({row["pred"] for row in run.rows("small")}) > 1
    assert trained.to_dict()["head"]["options_read_by"] == "encoder"
    options = {"include_path": ground.folder, "device": "cpu", "output_path": ground.folder / "orders"}
    assert {"consistency", "position_bias"} <= set(scores_of(trained.evaluate("small", orders="cyclic", **options)))


@pytest.mark.slow
def test_a_training_that_was_cut_ends_with_the_same_weights(tmp_path: Path) -> None:
    ground = fables(tmp_path / "ground")
    steps = {"head": "marker", "epochs": 3, "evaluate_every": 1, "dropout": 0.1, "evaluate": ()}
    uninterrupted = load_file(ground.train(**steps).path / "model.safetensors")
    config = {"output": ground.folder / "cut", **steps}
    with optimizer_steps(3), pytest.raises(KeyboardInterrupt):
        ground.train(**config)
    ground.train(**config)
    cut = load_file(ground.folder / "cut" / "model.safetensors")
    assert set(uninterrupted) == set(cut)
    assert all(uninterrupted[name].equal(cut[name]) for name in uninterrupted)


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_a_hidden_answer_is_refused(workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match="c0 has no right option to learn from"):
        marker(setup(workshop("bert", "Model"))).features([replace(CHOICES[0], gold=None)])


def test_more_options_than_markers_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    learner = marker(setup(folder_of("t5", workshop, tmp_path), max_length=900))
    with pytest.raises(FigevalError, match="100 options, but there are markers for 99"):
        learner.features([replace(CHOICES[0], options=tuple(map(str, range(100))))])


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("gpt2", {}, "no mask token to mark options with"),
        ("bert", {"options": {"frz": "x"}}, "no such option.*freeze"),
        ("bert", {"options": {"freeze": "enc"}}, "no such module"),
        ("bert", {"max_length": POSITIONS + 1}, f"exceeds the model's {POSITIONS} positions"),
    ],
)
def test_what_cannot_be_is_one_line(kind: str, changes: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        learner = marker(setup(workshop(kind, "Model"), **changes))
        learner.network()
        learner.features(CHOICES)
    assert "\n" not in str(raised.value)


def test_it_is_a_head_for_choices_and_not_their_default(cli: Cli) -> None:
    heads = [entry["name"] for entry in json.loads(cli("ls", "heads", "--json").out) if entry["type"] == "choice"]
    assert heads[0] == "cross"
    assert "marker" in heads
    train = ("train", "--task", "mini_pairs", "--model", "minilm", "--output", "out", "--head", "marker")
    assert "pairs tasks have no such head" in cli(*train).err


def test_another_checkpoint_is_refused_with_its_own_backend(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    with pytest.raises(FigevalError, match=r"'marker' cannot use .* use --model encoder:"):
        open_model(f"marker:{workshop('bert', 'Model')}")
