"""Further training on unlabelled text: what is hidden, what it costs, and what the trained model is a base for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from figeval import FigevalError, Harness, PairExample, Setup
from figeval.builtin.plugins.heads.biencoder import ranking
from figeval.builtin.plugins.heads.cross_encoder import pairs
from figeval.builtin.plugins.heads.noise import Holes, Masks, Sentinels, SpanSampler, TextPiece
from figeval.builtin.plugins.heads.posttraining import infill, mlm, pieces_of, texts_in
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.task_training import train_in_process
from tests.plugins.tiny import KINDS, LINES, LONG_TEXT, Workshop, save
from tests.trainings import read_evaluations
from tests.wings.training.linear import Heard

GENERATION_HEAD = "ForConditionalGeneration"
EXAMPLES = [PairExample(id=str(n), left=LINES[n], right=LINES[0], label="yes") for n in range(6)]
PIECE = TextPiece([1, *range(100, 140), 2], 1, 41, "x")
START = 7


def setup(folder: Path | str, **options: Any) -> Setup:
    return Setup(model=str(folder), options=options, tokens_per_batch=200)


# ---- noise ---------------------------------------------------------------------------------------------------------


def test_masks_hide_a_fixed_share_and_are_mostly_masks() -> None:
    noise, counts = Masks(0.15, 4, range(100, 140)), Counter[str]()
    for draw in range(400):
        row = noise(PIECE, Random(draw))
        hidden = [index for index, label in enumerate(row["labels"]) if label != -100]
        assert len(hidden) == 6  # .15 of 40
        assert all(row["labels"][index] == PIECE.ids[index] for index in hidden)
        assert all(row["input_ids"][index] == PIECE.ids[index] for index in range(42) if index not in hidden)
        assert {0, 41}.isdisjoint(hidden)
        for index in hidden:
            seen = row["input_ids"][index]
            counts["mask" if seen == 4 else "kept" if seen == PIECE.ids[index] else "other"] += 1
    shares = {name: count / 2400 for name, count in counts.items()}
    assert shares == pytest.approx({"mask": 0.8, "kept": 0.1, "other": 0.1}, abs=0.03)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 13, 40])
def test_spans_under_sentinels_give_the_text_together_with_the_target(length: int) -> None:
    piece = TextPiece([*range(100, 100 + length), 2], 0, length, "x")
    sentinels = range(50, 60)
    sizes = set()
    for draw in range(50):
        row = Sentinels(SpanSampler(0.15, 3.0), sentinels, START)(piece, Random(draw))
        read, target = list(row["input_ids"]), list(row["labels"])
        assert read.pop() == target.pop() == 2
        assert row["decoder_input_ids"] == [START, *target]
        assert [token for token in read if token in sentinels] == [token for token in target if token in sentinels]
        assert restore_text(read, target, sentinels) == list(range(100, 100 + length))
        sizes.add((len(read), len(target)))
    assert len(sizes) == 1, "the weights of a step are known before anything is drawn"


def restore_text(read: list[int], target: list[int], sentinels: range) -> list[int]:
    """What was kept, with every sentinel replaced by what the target has after it."""
    spans: dict[int, list[int]] = {}
    for token in target:
        if token in sentinels:
            spans[token] = []
        else:
            spans[list(spans)[-1]].append(token)
    return [word for token in read for word in spans.get(token, [token])]


def test_holes_are_masks_in_a_text_that_is_the_whole_target() -> None:
    for draw in range(20):
        row = Holes(SpanSampler(0.3, 3.0), 4, START)(PIECE, Random(draw))
        assert list(row["labels"]) == list(PIECE.ids)
        assert list(row["input_ids"]).count(4) == 4  # 12 tokens in spans of about 3
        assert len(row["input_ids"]) == 42 - 12 + 4
        visible_tokens = [token for token in row["input_ids"] if token != 4]
        assert visible_tokens == [*sorted(visible_tokens[:-1]), 2]


def test_noise_depends_on_draw_and_row_alone(workshop: Workshop) -> None:
    features = mlm(setup(workshop("bert"))).features(EXAMPLES)
    assert len(features.lengths) == 6  # the same hypothesis five times over is one text
    alone, together = features.batch([3], 11), features.batch([5, 3], 11)
    width = features.lengths[3]
    for name in ("input_ids", "labels"):
        assert together[name][1, :width].equal(alone[name][0])
    assert not features.batch([3], 12)["labels"].equal(alone["labels"])
    for draw in range(5):
        batch = features.batch(range(6), draw)
        assert (batch["labels"] != -100).sum(1).tolist() == features.weights
        assert batch["input_ids"].shape[1] == max(features.lengths)


# ---- texts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta", "t5"])
def test_long_texts_are_split_and_nothing_is_lost(kind: str, workshop: Workshop) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(workshop(kind, "Model"))
    all_tokens = tokenizer(LONG_TEXT, add_special_tokens=False, verbose=False)["input_ids"]
    pieces = pieces_of(tokenizer, {LONG_TEXT: "long", LINES[1]: "short"}, 24)
    assert max(len(piece.ids) for piece in pieces) == 24
    tokens_of_text = [
        token for piece in pieces if piece.origin == "long" for token in piece.ids[piece.first : piece.end]
    ]
    assert tokens_of_text == all_tokens
    assert {piece.origin for piece in pieces} == {"long", "short"}


def test_texts_of_files(tmp_path: Path, workshop: Workshop) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\none\n")
    assert texts_in(tmp_path / "a.txt") == {"one": "line 1", "two": "line 3"}
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"texts": "two"}\n')
    with pytest.raises(FigevalError, match="line 2 has no field 'text'"):
        texts_in(tmp_path / "a.jsonl")
    with pytest.raises(FigevalError, match="cannot be read"):
        texts_in(tmp_path / "b.txt")
    learner = mlm(setup(workshop("bert"), texts=str(tmp_path / "a.txt")))
    assert learner.features(EXAMPLES).ids == ["line 1", "line 3"]
    assert len(learner.held_out(EXAMPLES).ids) == 6


# ---- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "distilbert", "albert", "deberta-v2"])
def test_losses_are_those_of_transformers(kind: str, workshop: Workshop) -> None:
    learner = mlm(setup(workshop(kind)))
    network, features = learner.network().eval(), learner.features(EXAMPLES)
    assert network.sparse
    same_as_own(network, features)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_losses_of_infilling_are_those_of_transformers(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    learner = infill(setup(with_tokens(workshop(kind, GENERATION_HEAD), tmp_path / kind, kind)))
    same_as_own(learner.network().eval(), learner.features(EXAMPLES))


def same_as_own(network: Any, features: Any) -> None:
    """One text at a time."""
    with torch.inference_mode():
        losses = network([features.batch([4, 1, 2], 9)], [])
        for row, loss in zip([4, 1, 2], losses, strict=True):
            batch = features.batch([row], 9)
            torch.testing.assert_close(loss / features.weights[row], network.model(**batch).loss)


def with_tokens(folder: Path, target: Path, kind: str) -> Path:
    """The same model with sentinels (T5) or a mask (BART)."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    if kind == "bart":
        tokenizer.add_special_tokens({"mask_token": "<mask>"})
    else:
        tokenizer.add_tokens([f"<extra_id_{number}>" for number in range(4)], special_tokens=True)
    torch.manual_seed(0)  # the new rows are drawn
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    save(model, tokenizer, target)
    return target


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.fixture
def reading(tmp_path: Path) -> Path:
    rows = [{"id": n, "left": LINES[n % 6], "right": f"saying {n}", "label": ("yes", "no")[n % 2]} for n in range(12)]
    (tmp_path / "read.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "read.task.yaml").write_text(
        "name: read\ntype: pairs\nlabels: [yes_, no_]\n"
        "data: {test: 'jsonl:read.jsonl', train: 'jsonl:read.jsonl'}\n"
        "fields: {id: row.id, left: row.left, right: row.right, label: \"row.label ~ '_'\"}\nmetrics: [acc]\n"
    )
    return tmp_path


def train_model(folder: Path, model: Path, head: str, **changes: Any) -> tuple[Path, Heard]:
    values = {"task": "read", "model": str(model), "output": folder / "out", "head": head, "include_path": [folder]}
    further = {"epochs": 6, "lr": 5e-3, "batch_size": 4, "device": "cpu", "max_length": 20}
    heard = Heard()
    config = TrainConfig.model_validate({**values, **further, **changes})
    train_in_process(config, Harness(include=(folder,)), heard)
    return config.output, heard


@pytest.mark.slow
def test_a_masked_model_learns_and_is_a_base_for_other_heads(reading: Path, workshop: Workshop) -> None:
    from transformers import AutoModel

    output, _ = train_model(reading, workshop("bert"), "mlm", select_on="test", epochs=16, lr=1e-2, evaluate_every=4)
    evaluations = read_evaluations(output)
    losses = [evaluation["loss"] for evaluation in evaluations]
    assert losses[-1] < 0.9 * losses[0], losses
    assert all(set(evaluation) == {"loss"} for evaluation in evaluations), "masked words are no score of the task"
    body = AutoModel.from_pretrained(output, add_pooling_layer=False).state_dict()
    before = AutoModel.from_pretrained(workshop("bert"), add_pooling_layer=False).state_dict()
    assert not body["encoder.layer.0.output.dense.weight"].equal(before["encoder.layer.0.output.dense.weight"])
    encoder = ranking(setup(output, pooling="mean")).network().encoder
    head = pairs(Setup(model=str(output), labels=("yes_", "no_"))).network().model.base_model
    for name in body:
        assert encoder.state_dict()[name].equal(body[name]), name
        assert head.state_dict()[name].equal(body[name]), name
    with pytest.raises(FigevalError, match="declares no pooling"):
        ranking(setup(output))


@pytest.mark.slow
def test_infilling_learns(reading: Path, workshop: Workshop) -> None:
    model = with_tokens(workshop("bart", GENERATION_HEAD), reading / "bart", "bart")
    _, heard = train_model(reading, model, "infill", select_on="none")
    assert heard.losses[-1] < 0.9 * heard.losses[0]


def test_a_bare_encoder_gets_a_fresh_head(workshop: Workshop) -> None:
    from transformers import AutoModel

    folder = workshop("bert", "Model")
    learner = mlm(setup(folder))
    network = learner.network()
    assert learner.describe()["fresh_head"]
    assert network.fresh == ["cls"]
    body, trained_body = AutoModel.from_pretrained(folder).state_dict(), network.model.base_model.state_dict()
    assert all(trained_body[name].equal(body[name]) for name in trained_body)


@pytest.mark.parametrize(
    ("kind", "head", "factory", "options", "words"),
    [
        ("gpt2", "LMHeadModel", mlm, {}, "has no mask token"),
        ("bert", "ForMaskedLM", infill, {}, "is a BertForMaskedLM; infill needs an encoder-decoder"),
        ("t5", GENERATION_HEAD, infill, {}, "neither <extra_id_0> nor a mask token"),
        ("bert", "ForMaskedLM", mlm, {"share": 1.5}, "share=1.5"),
        ("bert", "ForMaskedLM", mlm, {"text": "a"}, "no such option.*texts"),
        ("bart", GENERATION_HEAD, infill, {"mean_span": 0}, "mean_span=0"),
    ],
)
def test_wrong_models_and_options_are_one_line(
    kind: str, head: str, factory: Any, options: dict[str, Any], words: str, workshop: Workshop
) -> None:
    assert kind in KINDS
    with pytest.raises(FigevalError, match=words) as error:
        factory(setup(workshop(kind, head), **options))
    assert "\n" not in str(error.value)
