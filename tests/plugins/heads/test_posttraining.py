"""Further training on unlabelled text: what is hidden, what it costs, and what the trained model is a base for."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import figeval
from figeval import FigevalError, PairExample, Setup
from tests.learners import head
from tests.plugins.tiny import KINDS, LINES, LONG_TEXT, Workshop, save
from tests.trainings import read_losses, train

mlm, infill = head("pairs", "mlm"), head("pairs", "infill")
ranking, pairs = head("ranking", "biencoder"), head("pairs", "cross")
GENERATION_HEAD = "ForConditionalGeneration"
EXAMPLES = [PairExample(id=str(n), left=LINES[n], right=LINES[0], label="yes") for n in range(6)]


def setup(folder: Path | str, **options: Any) -> Setup:
    return Setup(model=str(folder), options=options, tokens_per_batch=200)


# ---- noise ---------------------------------------------------------------------------------------------------------


def features_of(learner: Any, text: str) -> tuple[Any, list[int]]:
    """The features of one text, and its token ids."""
    return learner.features([replace(EXAMPLES[0], left=text, right=text)]), learner.base.tokenizer(text)["input_ids"]


def test_masks_hide_a_fixed_share_and_are_mostly_masks(workshop: Workshop) -> None:
    learner = mlm(setup(workshop("bert")))
    mask, counts = learner.base.tokenizer.mask_token_id, Counter[str]()
    features, ids = features_of(learner, f"{LINES[0]} {LINES[1]}")
    hidden_tokens = round(0.15 * (len(ids) - 2))
    for draw in range(400):
        row = {name: tensor[0].tolist() for name, tensor in features.batch([0], draw).items()}
        hidden = [index for index, label in enumerate(row["labels"]) if label != -100]
        assert len(hidden) == hidden_tokens
        assert all(row["labels"][index] == ids[index] for index in hidden)
        assert all(row["input_ids"][index] == ids[index] for index in range(len(ids)) if index not in hidden)
        assert {0, len(ids) - 1}.isdisjoint(hidden)
        for index in hidden:
            seen = row["input_ids"][index]
            counts["mask" if seen == mask else "kept" if seen == ids[index] else "other"] += 1
    shares = {name: count / counts.total() for name, count in counts.items()}
    assert shares == pytest.approx({"mask": 0.8, "kept": 0.1, "other": 0.1}, abs=0.03)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 13, 40])
def test_spans_under_sentinels_give_the_text_together_with_the_target(
    length: int, workshop: Workshop, tmp_path: Path
) -> None:
    learner = infill(setup(with_tokens(workshop("t5", GENERATION_HEAD), tmp_path / "t5", "t5")))
    tokenizer = learner.base.tokenizer
    sentinels = tokenizer.convert_tokens_to_ids([f"<extra_id_{number}>" for number in range(4)])
    features, ids = features_of(learner, tokenizer.decode(tokenizer(LONG_TEXT)["input_ids"][1 : 1 + length]))
    sizes = set()
    for draw in range(50):
        row = {name: tensor[0].tolist() for name, tensor in features.batch([0], draw).items()}
        read, target = row["input_ids"], row["labels"]
        assert row["decoder_input_ids"] == [learner.base.config.decoder_start_token_id, *target[:-1]]
        assert read.pop() == target.pop() == tokenizer.eos_token_id
        assert [token for token in read if token in sentinels] == [token for token in target if token in sentinels]
        assert restore_text(read, target, sentinels) == ids[:-1]
        sizes.add((len(read), len(target)))
    assert len(sizes) == 1, "the weights of a step are known before anything is drawn"


def restore_text(read: list[int], target: list[int], sentinels: list[int]) -> list[int]:
    """What was kept, with every sentinel replaced by what the target has after it."""
    spans: dict[int, list[int]] = {}
    for token in target:
        if token in sentinels:
            spans[token] = []
        else:
            spans[list(spans)[-1]].append(token)
    return [word for token in read for word in spans.get(token, [token])]


def test_holes_are_masks_in_a_text_that_is_the_whole_target(workshop: Workshop, tmp_path: Path) -> None:
    folder = with_tokens(workshop("bart", GENERATION_HEAD), tmp_path / "bart", "bart")
    learner = infill(setup(folder, share=0.3))
    mask = learner.base.tokenizer.mask_token_id
    features, ids = features_of(learner, LINES[1])
    hidden = round(0.3 * (len(ids) - 2))
    for draw in range(20):
        row = {name: tensor[0].tolist() for name, tensor in features.batch([0], draw).items()}
        assert row["labels"] == ids
        assert row["input_ids"].count(mask) == round(hidden / 3)
        assert len(row["input_ids"]) == len(ids) - hidden + round(hidden / 3)
        rest = iter(ids)
        assert all(token in rest for token in row["input_ids"] if token != mask), "in the order of the text"


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
def test_long_texts_are_split_and_nothing_is_lost(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    architecture = {"bert": "ForMaskedLM", "roberta": "ForMaskedLM", "t5": GENERATION_HEAD}[kind]
    folder = workshop(kind, architecture)
    if kind == "t5":
        folder = with_tokens(folder, tmp_path / kind, kind)
    (tmp_path / "texts.txt").write_text(f"{LONG_TEXT}\n{LINES[1]}\n", encoding="utf-8")
    options = {"texts": str(tmp_path / "texts.txt")}
    learner = (infill if kind == "t5" else mlm)(Setup(model=str(folder), options=options, max_length=24))
    all_tokens = learner.base.tokenizer(LONG_TEXT, add_special_tokens=False, verbose=False)["input_ids"]
    pieces = learner.features(EXAMPLES).pieces
    assert max(len(piece.ids) for piece in pieces) == 24
    tokens_of_text = [
        token for piece in pieces if piece.origin == "line 1" for token in piece.ids[piece.first : piece.end]
    ]
    assert tokens_of_text == all_tokens
    assert {piece.origin for piece in pieces} == {"line 1", "line 2"}


@pytest.fixture
def learner_of(tmp_path: Path, workshop: Workshop) -> Any:
    return lambda path, **options: mlm(setup(workshop("bert"), texts=str(tmp_path / path), **options))


def test_texts_of_a_text_file(tmp_path: Path, learner_of: Any) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\none\n")
    learner = learner_of("a.txt")
    assert learner.texts(EXAMPLES) == {"one": "line 1", "two": "line 3"}
    assert learner.features(EXAMPLES).ids == ["line 1", "line 3"]
    assert len(learner.held_out(EXAMPLES).ids) == 6
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(FigevalError, match="no text to learn from"):
        learner_of("blank.txt").features(EXAMPLES)
    with pytest.raises(FigevalError, match="cannot be read"):
        learner_of("b.txt").features(EXAMPLES)


STORIES = ["A fox,  so they say.", "狐狸和葡萄。", "A crow"]
LAYOUTS = {
    "lines.txt": "\n".join(STORIES),
    "stories.source": "\n".join(STORIES) + "\n",
    "texts.jsonl": "".join(json.dumps({"text": story, "story": "no"}) + "\n" for story in STORIES),
    "lines.json": "".join(json.dumps({"story": story}) + "\n" for story in STORIES),
    "strings.json": json.dumps(STORIES),
    "objects.json": json.dumps([{"id": 1, "story": story} for story in STORIES], indent=1),
    "nested.json": json.dumps({"version": 1, "data": [{"text": story} for story in STORIES]}),
    "one.json": json.dumps({"data": STORIES}),
    "table.tsv": "id\tstory\n" + "".join(f"{number}\t{story}\n" for number, story in enumerate(STORIES)),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_texts_of_all_layouts(name: str, packed: bool, tmp_path: Path, learner_of: Any) -> None:
    content = LAYOUTS[name].encode()
    file = tmp_path / (f"{name}.gz" if packed else name)
    file.write_bytes(gzip.compress(content) if packed else content)
    texts = learner_of(file.name).texts(EXAMPLES)
    assert [" ".join(text.split()) for text in texts] == [" ".join(story.split()) for story in STORIES]


def test_a_folder_is_read_with_all_its_text_files(tmp_path: Path, learner_of: Any) -> None:
    folder = tmp_path / "unlabelled"
    (folder / "zh").mkdir(parents=True)
    (folder / "en.txt").write_text("A fox\nA crow\n")
    (folder / "zh" / "train.json").write_text(json.dumps({"story": "狐狸"}) + "\n" + json.dumps({"story": "A crow"}))
    (folder / ".DS_Store").write_bytes(b"\0\1")
    (folder / "figure.png").write_bytes(b"\x89PNG")
    learner = learner_of("unlabelled")
    assert learner.texts(EXAMPLES) == {
        "A fox": "en.txt, line 1",
        "A crow": "en.txt, line 2",
        "狐狸": "zh/train.json, row 1",
    }
    before = learner.describe()["sha256"]
    (folder / "zh" / "train.json").rename(folder / "zh" / "valid.json")
    assert learner.describe()["sha256"] != before
    (tmp_path / "none").mkdir()
    with pytest.raises(FigevalError, match="no text files"):
        learner_of("none").texts(EXAMPLES)


@pytest.mark.parametrize("row", [{"texts": "two"}, {"text": 3}, {"story": None}])
def test_a_row_without_a_text_is_named(row: Any, tmp_path: Path, learner_of: Any) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "one", "fable": "two"}}\n{json.dumps(row)}\n')
    with pytest.raises(FigevalError, match=r"a\.jsonl:2: has no text in 'text' or 'story'; name the field: field=NAME"):
        learner_of("a.jsonl").features(EXAMPLES)
    with pytest.raises(FigevalError, match=r":2: has no text in 'fable'"):
        learner_of("a.jsonl", field="fable").features(EXAMPLES)


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


def train_model(folder: Path, model: Path, name: str, **changes: Any) -> figeval.Training:
    values = {"output": folder / "out", "head": name, "include_path": folder, "evaluate": ()}
    further = {"epochs": 6, "lr": 5e-3, "batch_size": 4, "max_length": 20}
    return train("read", model, **values | further | changes)


@pytest.mark.slow
def test_a_masked_model_learns_and_is_a_base_for_other_heads(reading: Path, workshop: Workshop) -> None:
    from transformers import AutoModel

    trained = train_model(reading, workshop("bert"), "mlm", select_on="test", epochs=16, lr=1e-2, evaluate_every=4)
    output, evaluations = trained.path, [evaluation.scores for evaluation in trained.record.evaluations]
    losses = [evaluation["loss"] for evaluation in evaluations]
    assert losses[-1] < 0.9 * losses[0], losses
    assert all(set(evaluation) == {"loss"} for evaluation in evaluations), "masked words are no score of the task"
    body = AutoModel.from_pretrained(output, add_pooling_layer=False).state_dict()
    before = AutoModel.from_pretrained(workshop("bert"), add_pooling_layer=False).state_dict()
    assert not body["encoder.layer.0.output.dense.weight"].equal(before["encoder.layer.0.output.dense.weight"])
    encoder = ranking(setup(output, pooling="mean")).network().encoder
    classifier = pairs(Setup(model=str(output), labels=("yes_", "no_"))).network().model.base_model
    for name in body:
        assert encoder.state_dict()[name].equal(body[name]), name
        assert classifier.state_dict()[name].equal(body[name]), name
    with pytest.raises(FigevalError, match="declares no pooling"):
        ranking(setup(output))


@pytest.mark.slow
def test_infilling_learns(reading: Path, workshop: Workshop) -> None:
    model = with_tokens(workshop("bart", GENERATION_HEAD), reading / "bart", "bart")
    trained = train_model(reading, model, "infill", select_on="none")
    first, *_, last = read_losses(trained.path)
    assert last < 0.9 * first


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
    ("kind", "architecture", "factory", "options", "words"),
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
    kind: str, architecture: str, factory: Any, options: dict[str, Any], words: str, workshop: Workshop
) -> None:
    assert kind in KINDS
    with pytest.raises(FigevalError, match=words) as error:
        factory(setup(workshop(kind, architecture), **options))
    assert "\n" not in str(error.value)
