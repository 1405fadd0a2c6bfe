"""Writing from named inputs: the loss is the model's own, and a trained model is asked as it was trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import FigevalError, GenerationExample, Harness, Inputs, Setup
from figeval.testing import capabilities
from tests.learners import head, write_network
from tests.plugins.heads.small import scores_of
from tests.plugins.tiny import LINES, Workshop, change_config
from tests.trainings import read_losses, train

seq2seq, causal = head("generation", "seq2seq"), head("generation", "causal")
GENERATION_HEAD = "ForConditionalGeneration"
MODELS = [("t5", GENERATION_HEAD, seq2seq), ("bart", GENERATION_HEAD, seq2seq), ("gpt2", "LMHeadModel", causal)]
SPREAD = {"bart": {"init_std": 0.06}}  # so that inputs matter


def example(n: int, words: int = 2) -> GenerationExample:
    keywords = tuple(LINES[n % 6].split()[3 : 3 + words])
    return GenerationExample(
        id=str(n), inputs={"proverb": LINES[n % 6][: 12 + n], "keywords": keywords}, references=(LINES[(n + 1) % 6],)
    )


EXAMPLES = [example(n) for n in range(6)]


def setup(folder: Path | str, **options: Any) -> Setup:
    return Setup(model=str(folder), options=options, tokens_per_batch=200)


def inputs_of(examples: Sequence[GenerationExample]) -> list[Inputs]:
    return [Inputs(tuple(example.inputs.items())) for example in examples]


@pytest.mark.parametrize(("kind", "architecture", "factory"), MODELS)
def test_losses_are_those_of_transformers(kind: str, architecture: str, factory: Any, workshop: Workshop) -> None:
    """One example at a time, with the labels that transformers shifts itself."""
    learner = factory(setup(workshop(kind, architecture)))
    network, features = learner.network().eval(), learner.features(EXAMPLES)
    with torch.inference_mode():
        for rows in ([0], [4, 1], [5, 0, 3, 2]):
            losses = network([features.batch(rows, 0)], [])
            for row, loss in zip(rows, losses, strict=True):
                torch.testing.assert_close(loss / features.weights[row], own_loss(network.model, features.rows[row]))


def own_loss(model: Any, row: Any) -> torch.Tensor:
    """The mean over targets."""
    labels, read = list(row["labels"]), list(row["input_ids"])
    if not model.config.is_encoder_decoder:
        read, labels = [*read, labels[-1]], [-100, *labels]
    return model(input_ids=torch.tensor([read]), labels=torch.tensor([labels])).loss  # type: ignore[no-any-return]


def test_the_form_is_that_of_the_paper_with_the_tokenizers_own_tokens(workshop: Workshop) -> None:
    learner = seq2seq(setup(workshop("t5", GENERATION_HEAD)))
    tokenizer, row = learner.base.tokenizer, learner.features(EXAMPLES).rows[0]
    assert tokenizer.unk_token_id not in row["input_ids"]
    assert list(row["input_ids"]).count(tokenizer.eos_token_id) == 3  # proverb, two keywords
    assert list(row["input_ids"]) == tokenizer("A stitch in </s>time</s>saves")["input_ids"]
    assert list(row["labels"]) == tokenizer(EXAMPLES[0].references[0])["input_ids"]
    assert list(row["decoder_input_ids"]) == [learner.base.config.decoder_start_token_id, *row["labels"][:-1]]


def test_a_causal_model_learns_the_text_and_not_its_inputs(workshop: Workshop) -> None:
    learner = causal(setup(workshop("gpt2", "LMHeadModel")))
    tokenizer, features = learner.base.tokenizer, learner.features(EXAMPLES)
    row = features.rows[2]
    targets = [token for token in row["labels"] if token != -100]
    assert tokenizer.decode(targets) == EXAMPLES[2].references[0] + tokenizer.eos_token
    assert features.weights[2] == len(targets)
    before = list(row["input_ids"])[: len(row["input_ids"]) - len(targets) + 1]
    assert before == learner.prompts([EXAMPLES[2].inputs]).fields["input_ids"][0]
    assert tokenizer.decode(before).endswith(2 * tokenizer.eos_token)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "architecture", "factory"), MODELS)
def test_what_is_too_long_is_cut_as_when_it_is_asked(
    kind: str, architecture: str, factory: Any, workshop: Workshop
) -> None:
    """A causal model's inputs have half of its positions, so that there is room for a text."""
    long = [GenerationExample(id="0", inputs={"words": tuple(LINES)}, references=(" ".join(LINES * 2),)), EXAMPLES[0]]
    long[1] = GenerationExample(id="1", inputs={"words": ("time",)}, references=("saves nine",))
    learner = factory(setup(workshop(kind, architecture), max_target=20))
    features = learner.features(long)
    assert features.truncated == 1
    assert len(features.rows[0]["input_ids"]) <= 96
    assert features.weights[0] == 20
    assert features.rows[0]["labels"][-1] == learner.base.tokenizer.eos_token_id
    backend = learner.backend(learner.network().eval())
    written = backend.write(inputs_of(long))
    assert written.truncated == {0}
    tokens = backend.network.prompts(inputs_of(long)).fields["input_ids"]
    for ids, row in zip(tokens, features.rows, strict=True):
        assert list(ids) == list(row["input_ids"])[: len(ids)]


@pytest.mark.parametrize(("kind", "architecture", "factory"), MODELS)
def test_texts_do_not_depend_on_what_is_written_beside_them(
    kind: str, architecture: str, factory: Any, workshop: Workshop
) -> None:
    learner = factory(setup(workshop(kind, architecture, **SPREAD.get(kind, {})), max_new_tokens=12, num_beams=3))
    learner.features(EXAMPLES)
    backend = learner.backend(learner.network().eval())
    together = backend.write(inputs_of(EXAMPLES)).values
    alone = [backend.write([request]).values[0] for request in inputs_of(EXAMPLES)]
    assert [reply.text for reply in together] == [reply.text for reply in alone]
    assert len({reply.text for reply in together}) > 1
    assert {reply.finish for reply in together} <= {"stop", "length"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "architecture", "factory"), MODELS)
def test_a_trained_model_samples_as_it_declares(
    kind: str, architecture: str, factory: Any, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    sampled = {"max_new_tokens": 12, "temperature": 1.5, "top_k": 30}
    learner = factory(setup(workshop(kind, architecture, **SPREAD.get(kind, {})), **sampled))
    learner.features(EXAMPLES)
    network = learner.network()
    in_training = texts_of(learner.backend(network.eval()))
    saved = write_network(learner, network, tmp_path / "saved")
    model = open_model(saved)
    assert texts_of(model) == in_training == texts_of(open_model(saved, batch_size=1))
    assert model.describe()["sampling"] == {"temperature": 1.5, "top_k": 30, "seed": 0}
    assert texts_of(open_model(saved, seed=1)) != in_training
    greedy = texts_of(open_model(saved, temperature=0, num_beams=1))
    assert greedy != in_training
    assert greedy == texts_of(open_model(saved, temperature=1e-9)) == texts_of(open_model(saved, top_k=1))
    assert texts_of(open_model(saved, num_beams=4)) != in_training, "beams outrank what is declared"
    with pytest.raises(FigevalError, match="exclude"):
        open_model(saved, num_beams=4, temperature=0.7)
    with pytest.raises(FigevalError, match="exclude"):
        factory(setup(workshop(kind, architecture), num_beams=4, temperature=0.7))
    with pytest.raises(FigevalError, match="top_k is for sampled texts"):
        factory(setup(workshop(kind, architecture), top_k=30))
    factory(setup(workshop(kind, architecture), top_k=30, temperature=0))  # as with a preset that samples


def texts_of(backend: Any) -> list[str]:
    return [reply.text for reply in backend.write(inputs_of(EXAMPLES)).values]


def test_beams_are_those_of_transformers(workshop: Workshop) -> None:
    """A plain call for one example, with the decoder start token of the configuration."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = workshop("bart", GENERATION_HEAD, **SPREAD["bart"])
    learner = seq2seq(setup(folder, max_new_tokens=15))
    learner.features(EXAMPLES)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(
        "</s>".join([EXAMPLES[1].inputs["proverb"], *EXAMPLES[1].inputs["keywords"]]), return_tensors="pt"
    )
    ids = model.generate(**batch, num_beams=4, max_new_tokens=15, early_stopping=True, do_sample=False)[0]
    (reply,) = learner.backend(learner.network().eval()).write(inputs_of(EXAMPLES[1:2])).values
    assert reply.text == tokenizer.decode(ids, skip_special_tokens=True).strip()


# ---- a whole training ----------------------------------------------------------------------------------------------

TASK = """
name: tell
type: generation
data: {test: "jsonl:tell.jsonl", train: "jsonl:tell.jsonl"}
fields: {id: row.id, inputs: {saying: row.saying, keywords: row.words}, references: [row.told]}
metrics: [rouge_l, length]
baselines: [echo]
"""
TEXTS_TO_WRITE = ["a stitch in time saves nine", "the roof leaked", "the quiet ones know the way", "it is a long time"]
SHAPES: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "dropout_rate": 0.0, "initializer_factor": 0.3},
    "gpt2": {"n_embd": 32, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0},
}


def tell(folder: Path) -> Path:
    """The folder with four rows to be learnt by heart, and their task."""
    rows = [
        {"id": n, "saying": f"saying {n}", "words": [text.split()[-1]], "told": text}
        for n, text in enumerate(TEXTS_TO_WRITE)
    ]
    (folder / "tell.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "tell.task.yaml").write_text(TASK, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "architecture", "name"), [("t5", GENERATION_HEAD, None), ("gpt2", "LMHeadModel", "causal")]
)
def test_it_learns_and_writes_as_it_did_in_training(
    kind: str, architecture: str, name: str | None, tmp_path: Path, workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    telling = tell(tmp_path)
    trained = train(
        "tell", workshop(kind, architecture, **SHAPES[kind]), telling / "out", include_path=telling, head=name,
        head_args={"max_new_tokens": 20, "num_beams": 2}, batch_size=4, epochs=100, evaluate_every=50, patience=None,
        lr=2e-2 if name is None else 1e-2, schedule="constant", select_on="test", select_by="rouge_l",
    )  # fmt: skip
    first, *_, last = read_losses(trained.path)
    assert last < first / 10
    assert Harness().backends.locate(str(trained.path), {})[0] == "writer"
    assert "loglikelihood" in capabilities(open_model(f"{name or 'seq2seq'}:{trained.path}"))
    assert trained.run.record.tasks[0].route == "by_writing"
    best = max(evaluation.scores["rouge_l"] for evaluation in trained.record.evaluations)
    assert scores_of(trained.run)["rouge_l"] == best > 0.7
    assert trained.run.record.model.description["num_beams"] == 2


def test_a_model_that_was_trained_on_other_inputs_is_told_so(
    tmp_path: Path, workshop: Workshop, open_model: Callable[..., Any]
) -> None:
    learner = seq2seq(setup(workshop("t5", GENERATION_HEAD)))
    learner.features(EXAMPLES)
    network = learner.network()
    backend = open_model(write_network(learner, network, tmp_path / "saved"), device="cpu", max_new_tokens=5)
    in_training = learner.backend(network.eval())
    assert backend.network.form == in_training.network.form
    assert backend.network.limit == in_training.network.limit
    assert backend.write(inputs_of(EXAMPLES[:1])).values[0].finish in ("stop", "length")
    with pytest.raises(FigevalError, match="writes from proverb, keywords, but the task has no 'proverb'"):
        backend.write([Inputs((("moral", "x"),))])


@pytest.mark.parametrize(
    ("kind", "architecture", "factory", "options", "words"),
    [
        ("gpt2", "LMHeadModel", seq2seq, {}, "is a GPT2LMHeadModel; use --head causal"),
        ("t5", GENERATION_HEAD, causal, {}, "is a T5ForConditionalGeneration; use --head seq2seq"),
        ("bert", "ForMaskedLM", seq2seq, {}, "is a BertForMaskedLM; begin with an encoder-decoder"),
        ("bart", GENERATION_HEAD, seq2seq, {"beams": 3}, "no such option.*num_beams"),
        ("bart", GENERATION_HEAD, seq2seq, {"max_target": 0}, "max_target=0"),
    ],
)
def test_wrong_models_and_options_are_one_line(
    kind: str, architecture: str, factory: Any, options: dict[str, Any], words: str, workshop: Workshop
) -> None:
    with pytest.raises(FigevalError, match=words) as error:
        factory(setup(workshop(kind, architecture), **options))
    assert "\n" not in str(error.value)


def test_a_decoder_without_a_beginning_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    folder = change_config(workshop("t5", GENERATION_HEAD), tmp_path / "t5", decoder_start_token_id=None)
    with pytest.raises(FigevalError, match="no decoder_start_token_id; add it"):
        seq2seq(setup(folder))
