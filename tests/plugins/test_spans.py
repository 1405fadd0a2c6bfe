"""Extractive heads: the span of a plain forward and a search over all pairs, in any batch, in windows, or refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import Harness, ModelError, ScoredSpan, Span, SpanExample, SpanQuery
from figeval.testing import capabilities, predict
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
def test_the_span_of_a_plain_forward_in_any_batch(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind, QA, **LONG_CONTEXT)
    expected = brute_force(folder, QUERIES, 1)
    for size in (1, "auto"):
        require_spans(open_model("spans", folder, max_length=390, batch_size=size).find_spans(QUERIES), expected)
    assert capabilities(open_model("spans", folder)) == {"find_spans"}


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_text_may_stand_first_and_spans_may_be_bounded(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = str(workshop(kind, QA, **LONG_CONTEXT))
    first = open_model("spans", folder, text="first", max_length=390).find_spans(QUERIES)
    require_spans(first, brute_force(Path(folder), QUERIES, 0))
    short = open_model("spans", folder, max_span=2, max_length=390).find_spans(QUERIES)
    require_spans(short, brute_force(Path(folder), QUERIES, 1, longest=2))


def integer_head(folder: Path, target: Path) -> tuple[str, Any]:
    """A copy whose logits for a token are two small integers that depend on that token alone, and their table.

    It has neither layers nor positions. Each vector is of ones and minus ones and adds up to 0, so that normalisation
    leaves it as it is; the head adds up its first and its second quarter.
    """
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(folder, num_hidden_layers=0)
    embeddings, head = model.bert.embeddings, model.qa_outputs
    n = len(embeddings.word_embeddings.weight)
    starts = torch.arange(n) % 3 + 1
    tokenizer = AutoTokenizer.from_pretrained(folder)
    starts[tokenizer.convert_tokens_to_ids(["he", "!"])] = torch.tensor([4, 0])  # the best start, the best end
    counts = torch.stack((starts, 4 - starts), dim=1)
    signs = torch.where(torch.arange(4) < counts.unsqueeze(2), 1.0, -1.0).reshape(n, 8)
    with torch.no_grad():
        for part in (
            embeddings.position_embeddings.weight,
            embeddings.token_type_embeddings.weight,
            *head.parameters(),
        ):
            part.zero_()
        embeddings.word_embeddings.weight.copy_(torch.cat((signs, -signs), dim=1))
        embeddings.LayerNorm.weight.fill_(1)
        embeddings.LayerNorm.bias.zero_()
        head.weight[0, :4] = head.weight[1, 4:8] = 1
    save(model, tokenizer, target)
    return str(target), (2 * counts - 4).tolist()


WORDS = st.lists(st.sampled_from(["the", "bucket", "kicked", "he", "noise", "!", "unbelievable", "東京"]), max_size=80)


@pytest.mark.parametrize(("limit", "text", "longest"), [(24, "second", None), (37, "first", 3), (60, "second", 1)])
def test_windows_show_every_token_and_of_equals_the_shortest_and_first_span_wins(
    limit: int, text: str, longest: int | None, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder, logits_of_token = integer_head(workshop("bert", QA, **LONG_CONTEXT), tmp_path / "integers")
    model = open_model("spans", folder, max_length=limit, text=text, max_span=longest)
    tokenizer = model.network.tokenizer

    def check_span(words: str, best: ScoredSpan) -> None:
        """Two spans are equals only if both of their logits are: roundings may decide between other equal sums."""
        encoded = tokenizer(words, add_special_tokens=False, return_offsets_mapping=True)
        logits, offsets = [logits_of_token[token] for token in encoded["input_ids"]], encoded["offset_mapping"]
        bounds = {
            (first, last): (logits[first][0], logits[last][1])
            for first in range(len(logits))
            for last in range(first, min(len(logits), first + (longest or len(logits))))
        }
        (chosen,) = ((s, e) for s, e in bounds if (offsets[s][0], offsets[e][1]) == (best.span.start, best.span.end))
        totals = np.log(np.exp(np.array(logits)).sum(axis=0)).sum()
        assert best.score == pytest.approx(sum(bounds[chosen]) - totals)
        assert sum(bounds[chosen]) == max(map(sum, bounds.values()))
        equals = [pair for pair in bounds if bounds[pair] == bounds[chosen]]
        assert chosen == min(equals, key=lambda pair: (pair[1] - pair[0], pair[0]))

    @settings(max_examples=20)
    @given(texts=st.lists(WORDS.map(" ".join), min_size=1, max_size=3))
    def check(texts: list[str]) -> None:
        answers = model.find_spans([SpanQuery(words, "he", "the") for words in texts])
        for words, spans in zip(texts, answers, strict=True):
            assert bool(spans) == bool(words)
            for best in spans:
                check_span(words, best)

    check()


def test_a_token_is_judged_where_most_stands_around_it(
    workshop: Workshop, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logit of the only bucket is the number of tokens on the nearer side of it, that of all others is 0."""
    model = open_model("spans", workshop("bert", QA), max_length=48)
    tokenizer, word = model.network.tokenizer, "he"
    (filler,), (bucket,) = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (word, "bucket"))
    around: list[int] = []

    def forward(input_ids: Any, **_: Any) -> Any:
        logits = torch.zeros(input_ids.shape)
        for row, column in (input_ids == bucket).nonzero().tolist():
            tokens = input_ids[row].tolist()
            first = tokens.index(tokenizer.sep_token_id, tokens.index(tokenizer.sep_token_id) + 1) + 1
            last = max(index for index, token in enumerate(tokens) if token in (filler, bucket))
            around.append(min(column - first, last - column))
            logits[row, column] = around[-1]
        return SimpleNamespace(start_logits=logits, end_logits=logits)

    monkeypatch.setattr(model.network.model, "forward", forward)
    for index in range(0, 100, 3):
        around.clear()
        words = [word] * index + ["bucket"] + [word] * (99 - index)
        ((best,),) = model.find_spans([SpanQuery(" ".join(words), "noise", "noise")])
        assert best.score == pytest.approx(2 * (max(around) - math.log(math.exp(max(around)) + 99)))
        assert min(index, 99 - index) < 10 or max(around) >= 9, "half a window overlaps"


def test_a_long_text_is_read_to_its_end_and_not_cut(workshop: Workshop, open_model: Any) -> None:
    """With half the context hidden other spans win, but any place of the text can."""
    backend = open_model("spans", workshop("roberta", QA))
    queries = [SpanQuery(LONG_TEXT[begin:], "time", "in time") for begin in range(0, 400, 5)]
    best_spans = [spans_of_query[0].span for spans_of_query in backend.find_spans(queries)]
    assert all(0 <= span.start < span.end <= len(query.text) for span, query in zip(best_spans, queries, strict=True))
    assert max(span.end for span in best_spans) > 300


def test_what_leaves_no_room_is_refused_in_one_line(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("spans", workshop("bert", QA))
    with pytest.raises(ModelError, match=r"tokens beside its text, which leaves room for 0 of the .* max_length=96"):
        backend.find_spans([SpanQuery(LONG_TEXT, "in time", LONG_TEXT)])


def test_a_question_may_leave_no_less_than_some_tokens_for_a_text(workshop: Workshop, open_model: Any) -> None:
    folder = workshop("bert", QA, **LONG_CONTEXT)
    query = SpanQuery(" ".join(["noise"] * 40), "bucket", " ".join(["bucket"] * 39))
    tokenizer = open_model("spans", folder).network.tokenizer
    around = len(tokenizer(f"{query.known}{tokenizer.sep_token}{query.given}", "he")["input_ids"]) - 1
    with pytest.raises(ModelError, match=rf"has {around} tokens beside its text, which leaves room for 15 of the"):
        open_model("spans", folder, max_length=around + 15).find_spans([query])
    assert all(open_model("spans", folder, max_length=around + 16).find_spans([query]))
    short = replace(query, text="he")
    assert all(open_model("spans", folder, max_length=around + 2).find_spans([short])), "it needs little room"


def test_no_text_no_span(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("spans", workshop("roberta", QA))
    assert backend.find_spans([SpanQuery("", "a", "b"), SpanQuery(" \n ", "a", "b")]) == [[], []]


def test_broken_weights_are_a_status_and_no_span(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("spans", workshop("bert", QA))
    with torch.no_grad():
        backend.network.model.qa_outputs.bias.fill_(math.nan)
    example = SpanExample(id="1", text=LINES[0], given="time", known="in time", gold=None)
    (by_head,) = (route for route in Harness().routes.of("spans") if route.name == "by_head")
    (prediction,) = predict(by_head, backend, [example])
    assert (prediction.status, prediction.value) == ("nan", None)


def test_what_the_checkpoint_declares_and_what_was_asked_for(
    workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = declare(workshop("bert", QA), tmp_path / "first", kind="spans", text="first", about={"epochs": 3})
    backend = open_model("spans", folder)
    backend.find_spans(QUERIES[:1])
    assert backend.describe()["text"] == "first"
    assert backend.describe()["max_length"] == 96
    for other in (open_model("spans", folder, text="second"), open_model("spans", workshop("bert", QA))):
        other.find_spans(QUERIES[:1])
        assert other.describe()["text"] == "second"


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
    declared: dict[str, Any], message: str, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        open_model("spans", declare(workshop("bert", QA), tmp_path / "odd", **declared))
    assert "\n" not in str(caught.value)


def test_heads_in_the_wrong_hands(workshop: Workshop, open_model: Any) -> None:
    folder = str(workshop("bert", QA))
    with pytest.raises(ModelError, match="which is a BertForQuestionAnswering; use --model spans:"):
        open_model("pairs", folder)
    with pytest.raises(ModelError, match=r"declare it: .*; it is a BertForQuestionAnswering, for spans:"):
        open_model("encoder", folder)
    with pytest.raises(ModelError, match="which is a BertForMaskedLM; use --model masked:"):
        open_model("spans", workshop("bert"))
    with pytest.raises(ModelError, match="text=middle is not one of first, second"):
        open_model("spans", folder, text="middle")
    with pytest.raises(ModelError, match="max_span=many is not a positive integer"):
        open_model("spans", folder, max_span="many")
