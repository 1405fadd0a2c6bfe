"""Windows of long texts, and the search for the best span: against brute force, on inputs of all shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import ModelError, Span
from figeval.builtin.plugins.encoders.span_finder import best_pair, best_span, log_softmax
from figeval.builtin.plugins.torch_models.tokens import MIN_WINDOW_TOKENS, Passages, passages
from tests.plugins.tiny import BERT, make_tokenizer, word_pieces

TOKENIZER = make_tokenizer(word_pieces, BERT)
WORDS = st.lists(st.sampled_from(["the", "bucket", "kicked", "he", "noise", "!", "unbelievable", "東京"]), max_size=80)
SMALL_LOGITS = st.integers(-3, 3).map(float)  # few different values, so that there are ties


def window_outputs(windows: Passages) -> list[Any]:
    """Per window what a model might return of its tokens: their ids, and how much stands around each of them."""
    return [
        np.array(
            [
                (windows.tokens.fields["input_ids"][row][w.at + index], min(index, w.count - 1 - index))
                for index in range(w.count)
            ]
        )
        for row, w in enumerate(windows.windows)
    ]


@settings(max_examples=60)
@given(texts=st.lists(WORDS.map(" ".join), min_size=1, max_size=3), limit=st.integers(24, 60), side=st.integers(0, 1))
def test_windows_fit_and_show_every_token(texts: list[str], limit: int, side: int) -> None:
    question = ["he knows"] * len(texts)
    windows = passages(TOKENIZER, [texts, question] if side == 0 else [question, texts], side, limit)
    assert all(length <= limit for length in windows.tokens.lengths)
    for text, offsets, output in zip(texts, windows.offsets, windows.join(window_outputs(windows)), strict=True):
        alone = TOKENIZER(text, add_special_tokens=False, return_offsets_mapping=True)
        assert offsets == alone["offset_mapping"]
        assert output[:, 0].tolist() == alone["input_ids"] if offsets else output.shape[0] == 0


def test_a_token_is_judged_where_most_stands_around_it() -> None:
    text = " ".join(["bucket"] * 100)
    n = len(TOKENIZER(text, add_special_tokens=False)["input_ids"])
    windows = passages(TOKENIZER, [[text]], 0, 42)
    assert len(windows.windows) > 2
    assert [window.count for window in windows.windows] == [40] * len(windows.windows)
    (joined,) = windows.join(window_outputs(windows))
    around = [
        max(min(t - w.first, w.first + w.count - 1 - t) for w in windows.windows if w.first <= t < w.first + w.count)
        for t in range(n)
    ]
    assert joined[:, 1].tolist() == around
    assert min(around[10:-10]) >= 9, "half a window overlaps: inner tokens have a quarter of it on both sides"


def test_inputs_that_fit_are_those_of_the_tokenizer() -> None:
    texts, questions = ["He kicked the bucket.", "Empty vessels"], ["noise", "the quiet ones"]
    plain = TOKENIZER(questions, texts)
    windows = passages(TOKENIZER, [questions, texts], 1, None)
    assert windows.tokens.fields["input_ids"] == plain["input_ids"]
    assert windows.tokens.fields["token_type_ids"] == plain["token_type_ids"]


def test_no_room_beside_the_question_is_an_error_in_one_line() -> None:
    question, text = " ".join(["bucket"] * 40), " ".join(["noise"] * 40)
    taken = len(TOKENIZER(question, "he")["input_ids"]) - 1
    with pytest.raises(
        ModelError, match=f"has {taken} tokens beside its text, which leaves room for {MIN_WINDOW_TOKENS - 1} of"
    ):
        passages(TOKENIZER, [[question], [text]], 1, taken + MIN_WINDOW_TOKENS - 1)
    assert passages(TOKENIZER, [[question], [text]], 1, taken + MIN_WINDOW_TOKENS).windows
    assert passages(TOKENIZER, [[question], ["he"]], 1, taken + 2).windows, "a short text needs little room"


@given(
    logits=st.lists(st.tuples(SMALL_LOGITS, SMALL_LOGITS), min_size=1, max_size=12),
    longest=st.none() | st.integers(1, 14),
)
def test_the_best_pair_is_that_of_brute_force(logits: list[tuple[float, float]], longest: int | None) -> None:
    starts, ends = np.array(logits).T
    pairs = [
        (-(starts[s] + ends[e]), e - s, s)
        for s in range(len(starts))
        for e in range(s, len(ends))
        if longest is None or e - s < longest
    ]
    score, length, first = min(pairs)  # the best, then the shortest, then the first
    assert best_pair(starts, ends, longest) == (first, first + length, -score)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9))
def test_log_softmax_sums_to_one(logits: list[float]) -> None:
    assert math.isclose(np.exp(log_softmax(np.array(logits))).sum(), 1, rel_tol=1e-12)


def test_a_span_has_no_white_space_at_its_ends_and_is_never_white_space() -> None:
    text = " a  b "
    offsets = [(0, 2), (2, 4), (3, 5), (5, 6)]  # as byte-level tokenizers see it: blanks belong to what follows
    logits = [(0.0, 0.0), (9.0, 9.0), (5.0, 5.0), (9.0, 9.0)]
    (span,) = best_span(text, offsets, logits, None)
    assert span.span == Span(4, 5)
    assert best_span("   ", [(0, 3)], [(0.0, 0.0)], None) == []


def test_logits_that_are_no_numbers_give_a_score_that_is_none() -> None:
    for bad in (math.nan, math.inf):
        (span,) = best_span("a b", [(0, 1), (2, 3)], [(bad, 0.0), (bad, 1.0)], None)
        assert math.isnan(span.score)
