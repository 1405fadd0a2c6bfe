"""Pseudo-log-likelihood and cloze against loops that are too plain to be wrong."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.bert.modeling_bert import BertOnlyMLMHead

from figeval import Cloze, Continuation, ModelError
from figeval.testing import capabilities
from tests.plugins.tiny import ENCODERS, LINES, LONG_TEXT, POSITIONS, Workshop, change_config

REQUESTS = [
    Continuation("A stitch in time saves nine, as", " my grandmother used to say."),
    Continuation("The roof leaked.", " Unforgivingly"),
    Continuation("The roof leaked. ", "Unforgivingly"),  # the blank at the end of the context is the continuation's
    Continuation("Does it follow?", " Yes"),
    Continuation("", "Empty vessels make the most noise"),
    Continuation("He kicked the bucket", ", and it rolled back"),
    *(Continuation(line, " It does not follow.") for line in LINES[:3]),
]
GAPS = [
    Cloze("Does it follow? ", ", it does.", ("Yes", "No", "Unforgivingly")),
    Cloze("He kicked the ", " into the corner.", ("bucket", "vessel")),
    Cloze("", " it does.", ("Yes",)),
]


@cache
def plain(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()


def logprobs(model: Any, ids: list[int]) -> Any:
    """Log P of every word at every position, float64, shape (length, vocabulary); one text, no padding."""
    return tables(model, [ids])[0]


def tables(model: Any, texts: list[list[int]]) -> Any:
    """Those of texts of the same length."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor(texts)).logits.double().log_softmax(-1)


def scored_positions(tokenizer: Any, text: str, begin: int, end: int) -> tuple[list[int], list[int], list[int | None]]:
    encoded = tokenizer(text, return_offsets_mapping=True)
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    positions = [
        position
        for position, (first, last) in enumerate(encoded["offset_mapping"])
        if last > begin and first < end and encoded["input_ids"][position] not in special
    ]
    return encoded["input_ids"], positions, encoded.word_ids()


def naive_pll(folder: Path, request: Continuation, *, whole_words: bool = False) -> float:
    """One text at a time, a row without padding for each mask, all of the head."""
    tokenizer, model = plain(folder)
    text = request.context + request.continuation
    ids, positions, words = scored_positions(tokenizer, text, len(request.context.rstrip()), len(text))
    rows = []
    for position in positions:
        masked_ids = list(ids)
        for other in positions:
            if other == position or (whole_words and other > position and words[other] == words[position]):
                masked_ids[other] = tokenizer.mask_token_id
        rows.append(masked_ids)
    scores = tables(model, rows)
    return sum(float(table[position, ids[position]]) for table, position in zip(scores, positions, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODERS)
def test_pll_is_the_naive_loop_in_any_batch(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind)
    expected = [naive_pll(folder, request) for request in REQUESTS]
    for size in (1, 64, "auto"):
        backend = open_model("masked", folder, batch_size=size)
        np.testing.assert_allclose(backend.loglikelihood(REQUESTS).values, expected, rtol=1e-5, err_msg=f"{size}")
    assert backend.describe()["head"] == "masked positions"
    assert max(expected) - min(expected) > 1, "a test in which all scores are alike shows nothing"


@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta-v2"])
def test_within_word_l2r_masks_the_rest_of_the_word_too(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind)
    scores = open_model("masked", folder, pll="within_word_l2r").loglikelihood(REQUESTS).values
    np.testing.assert_allclose(
        scores, [naive_pll(folder, request, whole_words=True) for request in REQUESTS], rtol=1e-5
    )
    split = 1  # "Unforgivingly" is several tokens everywhere
    assert abs(scores[split] - open_model("masked", folder).loglikelihood(REQUESTS).values[split]) > 1e-3


@pytest.mark.parametrize("kind", ENCODERS)
def test_fill_masks_all_tokens_of_a_word_at_once(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind)
    tokenizer, model = plain(folder)
    answers = open_model("masked", folder).fill(GAPS).values
    for request, values in zip(GAPS, answers, strict=True):
        for word, value in zip(request.words, values, strict=True):
            text, begin = request.before + word + request.after, len(request.before)
            ids, positions, _ = scored_positions(tokenizer, text, begin, begin + len(word))
            hidden = [tokenizer.mask_token_id if p in positions else token for p, token in enumerate(ids)]
            table = logprobs(model, hidden)
            assert value == pytest.approx(sum(float(table[p, ids[p]]) for p in positions), rel=1e-5), (word, kind)


def test_words_get_their_leading_blank(workshop: Workshop, open_model: Any) -> None:
    """RoBERTa knows "Yes" at the beginning of a text and "ĠYes" after a blank as two words."""
    folder = workshop("roberta")
    tokenizer, model = plain(folder)
    (value,) = open_model("masked", folder).fill([Cloze("Does it follow? ", ", it does.", ("it",))]).values[0]
    parts = ("Does it follow?", ", it does.")
    before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in parts)
    (word,) = tokenizer.convert_tokens_to_ids(["Ġit"])
    assert word != tokenizer.unk_token_id
    ids = [tokenizer.cls_token_id, *before, tokenizer.mask_token_id, *after, tokenizer.sep_token_id]
    assert value == pytest.approx(float(logprobs(model, ids)[1 + len(before), word]), rel=1e-5)


def test_words_of_equal_length_share_a_row(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("masked", workshop("bert"))
    backend.fill(GAPS)
    rows = []
    forward = backend.network.model.forward
    backend.network.model.forward = lambda **batch: rows.append(len(batch["input_ids"])) or forward(**batch)
    backend.fill([Cloze("Does it ", "?", ("a", "i", "e", "u", "y"))])
    assert sum(rows) == 1


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_long_context_loses_its_beginning_and_is_reported(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind)
    backend = open_model("masked", folder)
    tokenizer, model = plain(folder)
    output = backend.loglikelihood([Continuation("Yes.", " No."), Continuation(LONG_TEXT, " It does follow.")])
    assert output.truncated == {1}
    ids, positions, _ = scored_positions(tokenizer, LONG_TEXT + " It does follow.", len(LONG_TEXT), len(LONG_TEXT) + 99)
    cut = len(ids) - POSITIONS
    ids, positions = [ids[0], *ids[1 + cut :]], [position - cut for position in positions]
    total = 0.0
    for position in positions:
        hidden = [tokenizer.mask_token_id if p == position else token for p, token in enumerate(ids)]
        total += float(logprobs(model, hidden)[position, ids[position]])
    assert output.values[1] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("after", [LONG_TEXT, "!"])
def test_a_long_text_around_a_gap_loses_its_beginning_and_then_its_end(
    after: str, workshop: Workshop, open_model: Any
) -> None:
    folder = workshop("bert")
    tokenizer, model = plain(folder)
    output = open_model("masked", folder).fill([Cloze(LONG_TEXT, after, (" Yes",)), GAPS[0]])
    assert output.truncated == {0}
    text = LONG_TEXT + " Yes" + after
    ids, positions, _ = scored_positions(tokenizer, text, len(LONG_TEXT), len(LONG_TEXT) + len(" Yes"))
    cut = min(positions[0] - 1, len(ids) - POSITIONS)
    hidden = [tokenizer.mask_token_id if position in positions else token for position, token in enumerate(ids)]
    table = logprobs(model, [ids[0], *hidden[1 + cut :][: POSITIONS - 2], ids[-1]])
    expected = sum(float(table[position - cut, ids[position]]) for position in positions)
    assert output.values[0] == (pytest.approx(expected, rel=1e-5),)


def test_an_option_that_cannot_be_scored_costs_no_other_one_its_score(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("masked", workshop("bert"))
    good = backend.loglikelihood(REQUESTS[:2]).values
    bad = [Continuation("It means", option) for option in ("", "  ", " " + LONG_TEXT)]
    values = backend.loglikelihood([bad[0], REQUESTS[0], *bad[1:], REQUESTS[1]]).values
    assert [math.isnan(value) for value in values] == [True, False, True, True, False]
    assert [values[1], values[4]] == pytest.approx(good)
    ((yes, nothing),) = backend.fill([Cloze("It means ", ".", ("Yes", ""))]).values
    assert yes < 0
    assert math.isnan(nothing)
    assert backend.describe()["warnings"] == [
        "4 texts without a token, or longer than the model takes: NaN, not a score"
    ]


def test_weights_that_are_no_numbers_give_scores_that_are_none(workshop: Workshop, open_model: Any) -> None:
    backend = open_model("masked", workshop("bert"))
    with torch.no_grad():
        backend.network.model.cls.predictions.bias.fill_(float("nan"))
    assert all(math.isnan(value) for value in backend.loglikelihood(REQUESTS).values)
    assert all(math.isnan(value) for values in backend.fill(GAPS).values for value in values)


def test_a_head_that_cannot_be_parted_is_run_at_all_positions(
    workshop: Workshop, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not treat each state alone: the answers stay, the record says so."""
    forward = BertOnlyMLMHead.forward

    def joining(head: Any, states: Any) -> Any:
        scores = forward(head, states)
        return scores * scores.shape[1] / 10

    monkeypatch.setattr(BertOnlyMLMHead, "forward", joining)
    folder = workshop("bert")
    backend = open_model("masked", folder, batch_size=1)
    expected = [naive_pll(folder, request) for request in REQUESTS]
    np.testing.assert_allclose(backend.loglikelihood(REQUESTS).values, expected, rtol=1e-5)
    assert backend.describe()["head"] == "all positions"


def test_it_scores_and_fills_and_nothing_else(workshop: Workshop, open_model: Any) -> None:
    assert capabilities(open_model("masked", workshop("bert"))) == {"loglikelihood", "fill", "score_words"}


def test_refusals_are_one_line_with_the_cure(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    with pytest.raises(ModelError, match="use --model causal:"):
        open_model("masked", workshop("gpt2", "LMHeadModel"))
    with pytest.raises(ModelError, match="use --model pairs:"):
        open_model("masked", workshop("bert", "ForSequenceClassification"))
    with pytest.raises(ModelError, match="not one of original, within_word_l2r"):
        open_model("masked", workshop("bert"), pll="kauf")
    headless = change_config(workshop("bert", "Model"), tmp_path / "headless", architectures=None)
    with pytest.raises(ModelError, match="which would be random"):
        open_model("masked", headless).loglikelihood(REQUESTS)
    maskless = change_config(workshop("bert"), tmp_path / "maskless")
    config = (maskless / "tokenizer_config.json").read_text().replace('"mask_token": "[MASK]"', '"mask_token": null')
    (maskless / "tokenizer_config.json").write_text(config)
    with pytest.raises(ModelError, match="has no mask token"):
        open_model("masked", maskless).loglikelihood(REQUESTS)


def test_a_nameless_deberta_is_tried(workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    """DeBERTa-v3's config names no architecture; whether it has the head is seen from its weights."""
    nameless = change_config(workshop("deberta-v2"), tmp_path / "nameless", architectures=None)
    scores = open_model("masked", nameless).loglikelihood(REQUESTS).values
    np.testing.assert_allclose(scores, open_model("masked", workshop("deberta-v2")).loglikelihood(REQUESTS).values)
