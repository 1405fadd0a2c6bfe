"""Heads that point: the loss is that of the plain formula, targets are found by characters, and what was trained is
what is asked.
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

from figeval import FigevalError, Setup, Span, SpanExample, SpanQuery
from tests.learners import head, write_network
from tests.plugins.headed import QA, declare
from tests.plugins.heads.small import assert_alike, examples_of, scores_of, small
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

NO_SPAN = Span(0, 0)
span = head("spans", "span")
KINDS = ("bert", "roberta", "mpnet", "distilbert", "albert", "deberta-v2", "electra")
LONG_CONTEXT = {"max_position_embeddings": 400}


def example(number: int, text: str, part: str) -> SpanExample:
    start = text.index(part)
    return SpanExample(id=f"s{number}", text=text, given="in time", known=LINES[0], gold=Span(start, start + len(part)))


EXAMPLES = [
    example(0, LINES[1], "leaked for a month"),
    example(1, LINES[0], "A stitch"),
    example(2, f"{LINES[4]} {LINES[3]}", "the bucket rolled back."),
    example(3, LINES[2], "Maybe it is unrelated"),
]


def setup(folder: Path, **changes: Any) -> Setup:
    return Setup(model=str(folder), **changes)


def queries(examples: list[SpanExample]) -> list[SpanQuery]:
    return [SpanQuery(example.text, example.given, example.known) for example in examples]


def plain(model: Any, tokenizer: Any, example: SpanExample, text: str, question: str) -> torch.Tensor:
    """The loss of one example, straight through transformers, without padding."""
    other_texts = {"full": f"{example.known}{tokenizer.sep_token}{example.given}", "given": example.given}.get(question)
    sides = (
        (example.text,)
        if other_texts is None
        else (example.text, other_texts)
        if text == "first"
        else (other_texts, example.text)
    )
    encoded = tokenizer(*sides, return_tensors="pt", return_offsets_mapping=True)
    offsets, sequence_ids = encoded.pop("offset_mapping")[0].tolist(), encoded.sequence_ids(0)
    side = sides.index(example.text)
    searched = [n for n, (a, b) in enumerate(offsets) if sequence_ids[n] == side and example.text[a:b].strip()]
    assert example.gold is not None
    hit = [k for k, n in enumerate(searched) if offsets[n][0] < example.gold.end and offsets[n][1] > example.gold.start]
    output = model(**encoded)
    losses = [
        functional.cross_entropy(logits[0, searched], torch.tensor(target))
        for logits, target in ((output.start_logits, hit[0]), (output.end_logits, hit[-1]))
    ]
    return losses[0] + losses[1]


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_the_plain_formula_whatever_stands_beside(kind: str, workshop: Workshop) -> None:
    learner = span(setup(workshop(kind, "Model", **LONG_CONTEXT), max_length=300))
    network, features = learner.network().eval(), learner.features(EXAMPLES)
    with torch.inference_mode():
        expected = torch.stack(
            [plain(network.model, learner.base.tokenizer, example, "second", "full") for example in EXAMPLES]
        )
        together = network([features.batch(range(4), 0)], [])
        other_batches = network([features.batch([row], 0) for row in range(4)], [])
    torch.testing.assert_close(together, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other_batches, expected, rtol=1e-4, atol=1e-4)
    assert features.lengths == [len(batch["input_ids"][0]) for batch in (features.batch([n], 0) for n in range(4))]


@pytest.mark.parametrize(("text", "question"), [("first", "full"), ("second", "given"), ("second", "none")])
def test_the_text_may_stand_first_or_alone(
    text: str, question: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    """In training as when it is asked, as figeval.json says."""
    learner = span(setup(workshop("bert", "Model"), options={"text": text, "question": question}))
    network, features = learner.network().eval(), learner.features(EXAMPLES)
    with torch.inference_mode():
        expected = torch.stack(
            [plain(network.model, learner.base.tokenizer, example, text, question) for example in EXAMPLES]
        )
        torch.testing.assert_close(network([features.batch(range(4), 0)], []), expected, rtol=1e-4, atol=1e-4)
    saved = write_network(learner, network, tmp_path / "out")
    loaded = open_model(saved)
    assert_alike(loaded.find_spans(queries(EXAMPLES)), learner.backend(network).find_spans(queries(EXAMPLES)))
    described = loaded.describe()
    assert (described["text"], described["question"]) == (text, question)


def test_a_stretch_is_found_by_its_characters(workshop: Workshop) -> None:
    """Tokens of white space are no answers; a token that juts out of the stretch counts."""
    text = "time    saves"
    rows = [
        SpanExample(id=f"s{n}", text=text, given="x", known="y", gold=Span(*stretch))
        for n, stretch in enumerate([(0, 4), (3, 6), (6, 13), (5, 7)])
    ]
    learner = span(setup(workshop("roberta", "Model", **LONG_CONTEXT), max_length=60))
    with pytest.raises(FigevalError, match="s3: no token overlaps"):
        learner.features(rows)
    time, end_of_time, saves = learner.features(rows[:3]).answers
    tokens = learner.features(rows[:3]).batch([0], 0)["input_ids"][0, time.first : saves.last + 1]
    assert learner.base.tokenizer.decode(tokens) == text
    assert (end_of_time.first, end_of_time.last) == (time.last, time.last)
    assert saves.first > time.last + 1


def test_of_a_long_text_the_window_with_most_around_the_stretch_is_read(workshop: Workshop) -> None:
    text = f"{LONG_TEXT} {LONG_TEXT}"
    start = text.index("rolled back", len(LONG_TEXT))
    far = SpanExample(id="far", text=text, given="a", known="b", gold=Span(start, start + len("rolled back")))
    learner = span(setup(workshop("bert", "Model", **LONG_CONTEXT), max_length=60))
    features = learner.features([far, replace(EXAMPLES[1], known="b")])
    assert features.truncated == 1
    batch, answer = features.batch([0], 0), features.answers[0]
    assert answer.lost == 0
    ids = batch["input_ids"][0, answer.first : answer.last + 1]
    assert ids.tolist() == learner.base.tokenizer("rolled back", add_special_tokens=False)["input_ids"]
    window = features.passages.windows[features.rows[0]]
    around = min(answer.first - window.at, window.at + window.count - 1 - answer.last)
    assert around >= window.count // 4 - 2  # neighbours share half
    assert batch["searched"].sum() == window.count


def test_of_a_stretch_longer_than_any_window_the_most_is_learnt(workshop: Workshop) -> None:
    long = SpanExample(id="long", text=LONG_TEXT, given="a", known="b", gold=Span(0, len(LONG_TEXT)))
    learner = span(setup(workshop("bert", "Model", **LONG_CONTEXT), max_length=60))
    features = learner.features([long])
    (answer,) = features.answers
    window = features.passages.windows[features.rows[0]]
    assert (answer.first, answer.last) == (window.at, window.at + window.count - 1)
    assert answer.lost == len(features.passages.offsets[0]) - window.count
    assert torch.isfinite(learner.network()([features.batch([0], 0)], [])).all()


def test_a_head_that_is_there_is_kept_and_a_classifier_gets_a_fresh_one(workshop: Workshop) -> None:
    from transformers import AutoModelForQuestionAnswering

    folder = workshop("bert", QA)
    learner = span(setup(folder))
    weights = AutoModelForQuestionAnswering.from_pretrained(folder).qa_outputs.weight
    torch.testing.assert_close(learner.network().model.qa_outputs.weight, weights)
    assert learner.describe()["fresh_head"] is False
    three = span(setup(workshop("bert", "ForSequenceClassification", id2label={0: "a", 1: "b", 2: "c"})))
    assert three.network().model.qa_outputs.out_features == 2
    assert three.describe()["fresh_head"] is True


def test_what_a_checkpoint_declares_of_its_input_is_kept(workshop: Workshop, tmp_path: Path) -> None:
    folder = declare(workshop("bert", QA), tmp_path / "declared", kind="spans", text="first", max_span=7)
    assert span(setup(folder)).settings_record() == {"text": "first", "question": "full", "max_span": 7}
    assert span(setup(folder, options={"text": "second"})).settings_record()["text"] == "second"


def test_dropout_is_on_frozen_weights_stay_and_the_rest_gets_a_gradient(workshop: Workshop) -> None:
    learner = span(setup(workshop("roberta", "Model", **LONG_CONTEXT), options={"freeze": "roberta.embeddings"}))
    network, features = learner.network(), learner.features(EXAMPLES)
    batch = features.batch(range(4), 0)
    gradients = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        gradients.append(network([batch], []))
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])
    gradients[0].sum().backward()
    for name, weight in network.named_parameters():
        assert (weight.grad is None) == ("embeddings" in name), name


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_what_was_saved_answers_as_the_network_did(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    learner = span(setup(workshop(kind, "Model", **LONG_CONTEXT), max_length=70, options={"max_span": 5}))
    network = learner.network().eval()
    requests = queries([*EXAMPLES, replace(EXAMPLES[0], text=LONG_TEXT)])
    loaded = open_model(write_network(learner, network, tmp_path / "out"))
    assert_alike(loaded.find_spans(requests), learner.backend(network).find_spans(requests))
    assert (loaded.describe()["max_length"], loaded.describe()["max_span"]) == (70, 5)


@pytest.mark.slow
def test_it_learns_and_answers_as_it_did_in_training(tmp_path: Path) -> None:
    ground = small(tmp_path / "ground", "spans", examples_of("mini_alignment", 8))
    trained = ground.train(epochs=150, patience=2, lr=1e-2)
    run, scores = trained.run, scores_of(trained.run)
    assert run.record.tasks[0].route == "by_head"
    assert scores == pytest.approx(trained.best)
    assert (scores["span_f1"] or 0) > 0.9
    assert (scores["exact_match"] or 0) > 0.8
    assert len({tuple(row["pred"]) for row in run.rows("small")}) > 4
    assert trained.to_dict()["head"]["question"] == "full"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"txt": "first"}, "no such option.*text"),
        ({"text": "third"}, "text=third is not one of first, second"),
        ({"question": "all"}, "question=all is not one of full, given, none"),
        ({"max_span": 0}, "max_span=0"),
        ({"freeze": "enc"}, "no such module"),
    ],
)
def test_wrong_options_are_one_line(changes: dict[str, Any], words: str, workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match=words) as raised:
        span(setup(workshop("bert", "Model"), options=changes)).network()
    assert "\n" not in str(raised.value)


def test_examples_without_a_stretch_are_refused(workshop: Workshop) -> None:
    learner = span(setup(workshop("bert", "Model")))
    with pytest.raises(FigevalError, match="s0 has no span to learn from"):
        learner.features([replace(EXAMPLES[0], gold=None)])
    with pytest.raises(FigevalError, match=r"s0: no span is right, .* --head_args null_score=true"):
        learner.features([replace(EXAMPLES[0], gold=NO_SPAN)])
    with pytest.raises(FigevalError, match="s0: no token overlaps"):
        learner.features([replace(EXAMPLES[0], gold=Span(3, 3))])
    with pytest.raises(FigevalError, match="s0: no token overlaps"):
        learner.features([replace(EXAMPLES[0], text="", gold=Span(0, 1))])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_that_no_span_is_right_is_learnt_and_said_by_the_first_token(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Callable[..., Any]
) -> None:
    mixed = [replace(example, gold=NO_SPAN) if n % 2 else example for n, example in enumerate(EXAMPLES)]
    learner = span(setup(workshop(kind, "Model", **LONG_CONTEXT), max_length=300, options={"null_score": True}))
    network, features = learner.network().eval(), learner.features(mixed)  # without dropout: as few steps as possible
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(300):
        optimizer.zero_grad()
        loss = network([features.batch(range(4), 0)], []).sum()
        if loss < 0.5:
            break
        loss.backward()
        optimizer.step()
    saved = write_network(learner, network, tmp_path / "saved")
    declared = json.loads((saved / "figeval.json").read_text())
    assert declared["null_score"] is True
    answers = learner.backend(network).find_spans(queries(mixed))
    assert [spans_of_example[0].span for spans_of_example in answers] == [example.gold for example in mixed]
    assert all(
        len(spans_of_example) == 2 and spans_of_example[0].score > spans_of_example[1].score
        for spans_of_example in answers
    )
    (saved / "figeval.json").write_text(json.dumps({**declared, "null_score": False}))
    always = open_model(saved).find_spans(queries(mixed))
    assert NO_SPAN not in {span.span for spans_of_example in always for span in spans_of_example}


def test_a_model_that_carries_no_such_head_is_refused(workshop: Workshop) -> None:
    with pytest.raises(FigevalError, match="cannot be loaded with a head of AutoModelForQuestionAnswering") as raised:
        span(setup(workshop("mamba", "ForCausalLM"))).network()
    assert "\n" not in str(raised.value)


def test_questions_that_leave_no_room_are_named(workshop: Workshop) -> None:
    """A training refuses or skips them before it loads weights."""
    learner = span(setup(workshop("bert", "Model", **LONG_CONTEXT), max_length=60))
    crowded = replace(EXAMPLES[0], id="crowded", known=LONG_TEXT)
    assert learner.overlong(EXAMPLES) == {}
    (reason,) = learner.overlong([EXAMPLES[1], crowded]).values()
    assert "the question of 'crowded' leaves no room" in reason
    assert list(learner.overlong([EXAMPLES[1], crowded])) == [1]
