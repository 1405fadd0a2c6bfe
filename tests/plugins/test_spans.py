"""Extractive heads: the span of a plain forward and a search over all pairs, in any batch, in windows, or refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import ModelError, PromptContext, ScoredSpan, Span, SpanExample, SpanQuery
from figeval.builtin.plugins.encoders.encoder import encoder
from figeval.builtin.plugins.encoders.pair_model import pairs
from figeval.builtin.plugins.encoders.span_finder import spans
from figeval.models.capabilities import capabilities
from figeval.task_types.spans import by_head
from tests.plugins.headed import QA, declare
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop, save

KINDS = ("bert", "roberta", "mpnet", "distilbert", "albert", "deberta-v2", "electra")
LONG_CONTEXT = {"max_position_embeddings": 400}  # for tokenizers that know few words
QUERIES = [
    SpanQuery(text, quotation, proverb)
    for text in (*LINES[:3], LINES[1] + " " + LINES[4], "Zwölf Boxkämpfer jagen 東京")
    for quotation, proverb in (("in time", LINES[0]), ("empty vessels", LINES[3]))
]


def brute_force(folder: Path, queries: list[SpanQuery], side: int, **options: Any) -> list[ScoredSpan]:
    """One query at a time, straight through transformers, every pair of tokens that are no white space tried."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    best_spans = []
    for query in queries:
        question = query.known + (tokenizer.sep_token or "") + query.given
        sides = (question, query.text) if side else (query.text, question)
        encoded = tokenizer(*sides, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            output = model(**encoded)
        tokens_of_text = [
            index
            for index, sequence in enumerate(encoded.sequence_ids(0))
            if sequence == side and query.text[slice(*offsets[index])].strip()
        ]
        starts, ends = (
            values[0, tokens_of_text].double().log_softmax(-1).tolist()
            for values in (output.start_logits, output.end_logits)
        )
        longest = options.get("longest", len(tokens_of_text))
        every = [
            (-(starts[s] + ends[e]), e - s, s)
            for s in range(len(tokens_of_text))
            for e in range(s, min(s + longest, len(tokens_of_text)))
        ]
        score, length, first = min(every)
        start, end = offsets[tokens_of_text[first]][0], offsets[tokens_of_text[first + length]][1]
        inside = query.text[start:end]
        span = Span(end - len(inside.lstrip()), start + len(inside.rstrip()))
        best_spans.append(ScoredSpan(span, -score))
    return best_spans


def require_spans(answers: list[list[ScoredSpan]], expected: list[ScoredSpan]) -> None:
    assert [spans_found[0].span for spans_found in answers] == [span.span for span in expected]
    assert [spans_found[0].score for spans_found in answers] == pytest.approx(
        [span.score for span in expected], abs=1e-4
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_span_of_a_plain_forward_in_any_batch(kind: str, workshop: Workshop) -> None:
    folder = workshop(kind, QA, **LONG_CONTEXT)
    expected = brute_force(folder, QUERIES, 1)
    for size in (1, 64, "auto"):
        require_spans(spans(str(folder), max_length=390, batch_size=size).find_spans(QUERIES), expected)
    assert capabilities(spans(str(folder))) == {"find_spans"}


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_text_may_stand_first_and_spans_may_be_bounded(kind: str, workshop: Workshop) -> None:
    folder = str(workshop(kind, QA, **LONG_CONTEXT))
    first = spans(folder, text="first", max_length=390).find_spans(QUERIES)
    require_spans(first, brute_force(Path(folder), QUERIES, 0))
    short = spans(folder, max_span=2, max_length=390).find_spans(QUERIES)
    require_spans(short, brute_force(Path(folder), QUERIES, 1, longest=2))


def without_context(folder: Path, target: Path) -> Path:
    """A copy whose logits for a token depend on that token alone: no layers, no positions."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(folder, num_hidden_layers=0)
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.zero_()
    save(model, AutoTokenizer.from_pretrained(folder), target)
    return target


def test_windows_find_what_a_model_finds_that_reads_all(workshop: Workshop, tmp_path: Path) -> None:
    folder = str(without_context(workshop("bert", QA, **LONG_CONTEXT), tmp_path / "local"))
    queries = [SpanQuery(LONG_TEXT[begin:], "in time", "a stitch") for begin in range(0, 200, 9)]
    expected = spans(folder, max_length=390).find_spans(queries)
    for limit in (48, 70, 120):
        backend = spans(folder, max_length=limit)
        require_spans(backend.find_spans(queries), [spans_of_query[0] for spans_of_query in expected])


def test_a_long_text_is_read_to_its_end_and_not_cut(workshop: Workshop) -> None:
    """With half the context hidden other spans win, but any place of the text can."""
    backend = spans(str(workshop("roberta", QA)))
    queries = [SpanQuery(LONG_TEXT[begin:], "time", "in time") for begin in range(0, 400, 5)]
    best_spans = [spans_of_query[0].span for spans_of_query in backend.find_spans(queries)]
    assert all(0 <= span.start < span.end <= len(query.text) for span, query in zip(best_spans, queries, strict=True))
    assert max(span.end for span in best_spans) > 300


def test_what_leaves_no_room_is_refused_in_one_line(workshop: Workshop) -> None:
    backend = spans(str(workshop("bert", QA)))
    with pytest.raises(ModelError, match=r"tokens beside its text, which leaves room for 0 of the .* max_length=96"):
        backend.find_spans([SpanQuery(LONG_TEXT, "in time", LONG_TEXT)])


def test_no_text_no_span(workshop: Workshop) -> None:
    backend = spans(str(workshop("roberta", QA)))
    assert backend.find_spans([SpanQuery("", "a", "b"), SpanQuery(" \n ", "a", "b")]) == [[], []]


def test_broken_weights_are_a_status_and_no_span(workshop: Workshop) -> None:
    backend = spans(str(workshop("bert", QA)))
    with torch.no_grad():
        backend.network.model.qa_outputs.bias.fill_(math.nan)
    example = SpanExample(id="1", text=LINES[0], given="time", known="in time", gold=None)
    dialogue = by_head(example, PromptContext(lambda *_: ""))
    with pytest.raises(StopIteration) as stopped:
        dialogue.send(backend.find_spans(next(dialogue)))
    assert (stopped.value.value.status, stopped.value.value.value) == ("nan", None)


def test_what_the_checkpoint_declares_and_what_was_asked_for(workshop: Workshop, tmp_path: Path) -> None:
    folder = declare(workshop("bert", QA), tmp_path / "first", kind="spans", text="first", about={"epochs": 3})
    backend = spans(str(folder))
    backend.find_spans(QUERIES[:1])
    assert backend.describe()["text"] == "first"
    assert backend.describe()["max_length"] == 96
    assert spans(str(folder), text="second").setup.settings.side == 1
    assert spans(str(workshop("bert", QA))).setup.settings.side == 1


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"text": "third"}, r"figeval\.json of .*: text=third is not one of first, second"),
        ({"poolin": "cls"}, r"figeval\.json of .*: unknown key 'poolin'; did you mean 'pooling'"),
        ({"kind": "span"}, r"figeval\.json of .*: kind=span is not one of .* did you mean 'spans'"),
        ({"max_span": 0}, r"figeval\.json of .*: max_span=0 is not a positive integer"),
        ({"trust_remote_code": True}, "unknown key 'trust_remote_code'"),
    ],
)
def test_declarations_that_make_no_sense(
    declared: dict[str, Any], message: str, workshop: Workshop, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        spans(str(declare(workshop("bert", QA), tmp_path / "odd", **declared)))
    assert "\n" not in str(caught.value)


def test_heads_in_the_wrong_hands(workshop: Workshop) -> None:
    folder = str(workshop("bert", QA))
    with pytest.raises(ModelError, match="which is a BertForQuestionAnswering; use --model spans:"):
        pairs(folder)
    with pytest.raises(ModelError, match=r"declare it: .*; it is a BertForQuestionAnswering, for spans:"):
        encoder(folder)
    with pytest.raises(ModelError, match="which is a BertForMaskedLM; use --model masked:"):
        spans(str(workshop("bert")))
    with pytest.raises(ModelError, match="text=middle is not one of first, second"):
        spans(folder, text="middle")
    with pytest.raises(ModelError, match="max_span=many is not a positive integer"):
        spans(folder, max_span="many")
