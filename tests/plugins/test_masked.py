"""Pseudo-log-likelihood and cloze against loops that are too plain to be wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import Cloze, Continuation, ModelError
from figeval.builtin.plugins.encoders import masked as module
from figeval.builtin.plugins.encoders.masked import masked, window
from figeval.models.capabilities import capabilities
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


def plain(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()


def logprobs(model: Any, ids: list[int]) -> Any:
    """Log P of every word at every position, float64, shape (length, vocabulary); one text, no padding."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)


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
    """One text at a time, one mask at a time, all of the head."""
    tokenizer, model = plain(folder)
    text = request.context + request.continuation
    ids, positions, words = scored_positions(tokenizer, text, len(request.context.rstrip()), len(text))
    total = 0.0
    for position in positions:
        masked_ids = list(ids)
        for other in positions:
            if other == position or (whole_words and other > position and words[other] == words[position]):
                masked_ids[other] = tokenizer.mask_token_id
        total += float(logprobs(model, masked_ids)[position, ids[position]])
    return total


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODERS)
def test_pll_is_the_naive_loop_in_any_batch(kind: str, workshop: Workshop) -> None:
    folder = workshop(kind)
    expected = [naive_pll(folder, request) for request in REQUESTS]
    for size in (1, 64, "auto"):
        backend = masked(str(folder), batch_size=size)
        np.testing.assert_allclose(backend.loglikelihood(REQUESTS).values, expected, rtol=1e-5, err_msg=f"{size}")
    assert backend.describe()["head"] == "masked positions"
    assert max(expected) - min(expected) > 1, "a test in which all scores are alike shows nothing"


@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta-v2"])
def test_within_word_l2r_masks_the_rest_of_the_word_too(kind: str, workshop: Workshop) -> None:
    folder = workshop(kind)
    scores = masked(str(folder), pll="within_word_l2r").loglikelihood(REQUESTS).values
    np.testing.assert_allclose(
        scores, [naive_pll(folder, request, whole_words=True) for request in REQUESTS], rtol=1e-5
    )
    split = 1  # "Unforgivingly" is several tokens everywhere
    assert abs(scores[split] - masked(str(folder)).loglikelihood(REQUESTS).values[split]) > 1e-3


@pytest.mark.parametrize("kind", ENCODERS)
def test_fill_masks_all_tokens_of_a_word_at_once(kind: str, workshop: Workshop) -> None:
    folder = workshop(kind)
    tokenizer, model = plain(folder)
    answers = masked(str(folder)).fill(GAPS).values
    for request, values in zip(GAPS, answers, strict=True):
        for word, value in zip(request.words, values, strict=True):
            text, begin = request.before + word + request.after, len(request.before)
            ids, positions, _ = scored_positions(tokenizer, text, begin, begin + len(word))
            hidden = [tokenizer.mask_token_id if p in positions else token for p, token in enumerate(ids)]
            table = logprobs(model, hidden)
            assert value == pytest.approx(sum(float(table[p, ids[p]]) for p in positions), rel=1e-5), (word, kind)


def test_words_get_their_leading_blank(workshop: Workshop) -> None:
    """RoBERTa knows "Yes" at the beginning of a text and "ĠYes" after a blank as two words."""
    folder = workshop("roberta")
    tokenizer, model = plain(folder)
    (value,) = masked(str(folder)).fill([Cloze("Does it follow? ", ", it does.", ("it",))]).values[0]
    parts = ("Does it follow?", ", it does.")
    before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in parts)
    (word,) = tokenizer.convert_tokens_to_ids(["Ġit"])
    assert word != tokenizer.unk_token_id
    ids = [tokenizer.cls_token_id, *before, tokenizer.mask_token_id, *after, tokenizer.sep_token_id]
    assert value == pytest.approx(float(logprobs(model, ids)[1 + len(before), word]), rel=1e-5)


def test_words_of_equal_length_share_a_row(workshop: Workshop) -> None:
    backend = masked(str(workshop("bert")))
    backend.fill(GAPS)
    rows = []
    forward = backend.network.model.forward
    backend.network.model.forward = lambda **batch: rows.append(len(batch["input_ids"])) or forward(**batch)
    backend.fill([Cloze("Does it ", "?", ("a", "i", "e", "u", "y"))])
    assert sum(rows) == 1


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_long_context_loses_its_beginning_and_is_reported(kind: str, workshop: Workshop) -> None:
    folder = workshop(kind)
    backend = masked(str(folder))
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
    gap = backend.fill([Cloze(LONG_TEXT, LONG_TEXT, (" Yes", " No")), GAPS[0]])
    assert gap.truncated == {0}
    assert all(math.isfinite(value) for value in gap.values[0])


@pytest.mark.parametrize(
    ("arguments", "expected", "reason"),
    [
        ((1, 9, range(7, 9), 8), (1, 9), "all fits"),
        ((1, 9, range(7, 9), 4), (5, 9), "the beginning goes"),
        ((1, 9, range(2, 4), 4), (2, 6), "not what is kept; then the end goes"),
        ((1, 9, range(7, 9), None), (1, 9), "nothing bounds it"),
    ],
)
def test_window(arguments: tuple[int, int, range, int | None], expected: tuple[int, int], reason: str) -> None:
    assert window(*arguments) == expected, reason


def test_an_option_that_cannot_be_scored_costs_no_other_one_its_score(workshop: Workshop) -> None:
    backend = masked(str(workshop("bert")))
    good = backend.loglikelihood(REQUESTS[:2]).values
    bad = [Continuation("It means", option) for option in ("", "  ", " " + LONG_TEXT)]
    values = backend.loglikelihood([bad[0], REQUESTS[0], *bad[1:], REQUESTS[1]]).values
    assert [math.isnan(value) for value in values] == [True, False, True, True, False]
    assert [values[1], values[4]] == pytest.approx(good)
    ((yes, nothing),) = backend.fill([Cloze("It means ", ".", ("Yes", ""))]).values
    assert yes < 0
    assert math.isnan(nothing)
    assert backend.describe()["warnings"] == [
        "4 options without a token, or longer than the model takes: NaN, not a score"
    ]


def test_weights_that_are_no_numbers_give_scores_that_are_none(workshop: Workshop) -> None:
    backend = masked(str(workshop("bert")))
    with torch.no_grad():
        backend.network.model.cls.predictions.bias.fill_(float("nan"))
    assert all(math.isnan(value) for value in backend.loglikelihood(REQUESTS).values)
    assert all(math.isnan(value) for values in backend.fill(GAPS).values for value in values)


def test_a_head_that_cannot_be_parted_is_run_at_all_positions(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model without a body of its own to take states from: the answers stay, the record says so."""
    folder = workshop("bert")
    expected = masked(str(folder)).loglikelihood(REQUESTS).values
    backend = masked(str(folder))
    real = module.only_states_at
    monkeypatch.setattr(module, "only_states_at", lambda body, rows, columns: real(torch.nn.Identity(), rows, columns))
    np.testing.assert_allclose(backend.loglikelihood(REQUESTS).values, expected, rtol=1e-5)
    assert backend.describe()["head"] == "all positions"


def test_it_scores_and_fills_and_nothing_else(workshop: Workshop) -> None:
    assert capabilities(masked(str(workshop("bert")))) == {"loglikelihood", "fill"}


def test_refusals_are_one_line_with_the_cure(workshop: Workshop, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="use --model causal:"):
        masked(str(workshop("gpt2", "LMHeadModel")))
    with pytest.raises(ModelError, match="use --model pairs:"):
        masked(str(workshop("bert", "ForSequenceClassification")))
    with pytest.raises(ModelError, match="not one of original, within_word_l2r"):
        masked(str(workshop("bert")), pll="kauf")
    headless = change_config(workshop("bert", "Model"), tmp_path / "headless", architectures=None)
    with pytest.raises(ModelError, match="which would be random"):
        masked(str(headless)).loglikelihood(REQUESTS)
    maskless = change_config(workshop("bert"), tmp_path / "maskless")
    config = (maskless / "tokenizer_config.json").read_text().replace('"mask_token": "[MASK]"', '"mask_token": null')
    (maskless / "tokenizer_config.json").write_text(config)
    with pytest.raises(ModelError, match="has no mask token"):
        masked(str(maskless)).loglikelihood(REQUESTS)


def test_a_nameless_deberta_is_tried(workshop: Workshop, tmp_path: Path) -> None:
    """DeBERTa-v3's config names no architecture; whether it has the head is seen from its weights."""
    nameless = change_config(workshop("deberta-v2"), tmp_path / "nameless", architectures=None)
    scores = masked(str(nameless)).loglikelihood(REQUESTS).values
    np.testing.assert_allclose(scores, masked(str(workshop("deberta-v2"))).loglikelihood(REQUESTS).values)
