"""Contextual calibration: a liking for a word is measured with inputs that say nothing, and taken away."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import (
    CapabilityError,
    ChoiceExample,
    Continuation,
    PairExample,
    PluginError,
    Prediction,
    PromptContext,
    Route,
)
from figeval.models.batching import BatchScheduler
from figeval.task_types.choice import Choice
from figeval.task_types.debiasing import CONTENT_FREE, FLOOR, calibrated, content_free, in_orders, without_prior
from figeval.task_types.pairs import Pairs
from figeval.testing.fakes import FakeLanguageModel, FakeMaskFiller
from tests.runs.conftest import write_task
from tests.runs.test_contrasts import write_suite
from tests.typed import route_of

VERBALIZER, CLOZE = route_of(Pairs, "by_verbalizer"), route_of(Pairs, "by_cloze")
LETTERS = route_of(Choice, "by_letter_likelihood")
PAIR = PairExample(id="1", left="it rained", right="it was wet", label="yes")
LOGITS = st.floats(-5, 5)


def block(_name: str, example: Any, gap: str = "", **_: Any) -> str:
    texts = (example.left, example.right) if isinstance(example, PairExample) else (example.query, *example.options)
    return " | ".join((*texts, gap) if gap else texts)


def predict(route: Route, backend: Any, example: Any, **context: Any) -> Prediction:
    start = calibrated(route).start
    prompt_context = PromptContext(block, labels=("yes", "no"), **context)
    ((_, prediction),) = BatchScheduler(backend, lambda example: start(example, prompt_context)).predictions([example])
    return prediction


@given(LOGITS, LOGITS, LOGITS)
def test_a_bias_for_a_word_does_not_change_the_answer(for_yes: float, for_no: float, bias: float) -> None:
    """A word's log-probability is what the text says of it, nothing for content-free ones, plus a bias."""

    def logprob(context: str, word: str) -> float:
        for_word = 0.0 if "rained" not in context else for_yes if word == " yes" else for_no
        return for_word + (bias if word == " yes" else 0.0)

    prediction = predict(VERBALIZER, FakeLanguageModel(function=logprob), PAIR)
    expected = math.exp(for_yes) / (math.exp(for_yes) + math.exp(for_no))
    assert prediction.scores == pytest.approx((expected, 1 - expected))


def test_priors_are_mean_shares_over_the_content_free_inputs() -> None:
    """Zhao et al. 2021, section 4: p̂ is averaged over "N/A", "[MASK]" and the empty string, then W = diag(p̂)⁻¹."""
    shares = {"N/A | N/A": 0.9, "[MASK] | [MASK]": 0.6, "|": 0.3, "it rained | it was wet": 0.7}

    def logprob(context: str, word: str) -> float:
        share = shares[context.strip()]
        return math.log(share if word == " yes" else 1 - share) - 7  # as rare as words are

    prediction = predict(VERBALIZER, FakeLanguageModel(function=logprob), PAIR)
    yes, no = 0.7 / 0.6, 0.3 / 0.4
    assert prediction.scores == pytest.approx((yes / (yes + no), no / (yes + no)))


def test_words_in_a_gap_are_calibrated_too() -> None:
    backend = FakeMaskFiller(
        function=lambda word, before, _after: (word == "yes") * 3.0 + ("rained" in before) * (word == "no")
    )
    prediction = predict(CLOZE, backend, PAIR)
    assert prediction.value == "no"
    assert len(backend.batches) == 1, "one round"


def test_letters_are_calibrated_in_every_order_of_the_options() -> None:
    def likes_a(context: str, letter: str) -> float:
        options = context.split(" | ")[1:]
        return 4.0 * (letter == " A") + float("right" in options and options.index("right") == "ABC".index(letter[1]))

    example = ChoiceExample(id="1", query="q", options=("wrong", "right", "silly"), gold=1)
    route = in_orders(calibrated(LETTERS), "cyclic", 0)
    backend = FakeLanguageModel(function=likes_a)
    context = PromptContext(block)
    ((_, prediction),) = BatchScheduler(backend, lambda example: route.start(example, context)).predictions([example])
    assert [answer.value for answer in prediction.answers] == [1, 1, 1]
    assert prediction.scores == (0.0, 1.0, 0.0)


def test_every_text_is_replaced_and_nothing_else() -> None:
    example = ChoiceExample(id="7", query="q", options=("a", "b"), gold=1, cluster="c", meta={"idiom": "x"})
    free = content_free(example, "N/A")
    assert (free.query, free.options) == ("N/A", ("N/A", "N/A"))
    assert (free.id, free.gold, free.cluster, free.meta) == ("7", 1, "c", {"idiom": "x"})


def test_content_free_inputs_stand_behind_the_solved_examples_of_the_question() -> None:
    """Which ones are shown may depend on the text (`--fewshot_sampler nearest`), and a prior belongs to its prompt."""
    near = {"it rained": PairExample(id="2", left="it snowed", right="it was cold", label="no")}
    far = PairExample(id="3", left="they sang", right="they danced", label="yes")
    backend = FakeLanguageModel()
    predict(
        VERBALIZER,
        backend,
        PAIR,
        shots=lambda question: [near.get(question.left, far)],
        few_shot_answer=lambda _block, shot, _context: f" {shot.label}",
    )
    contexts = {request.context for request in backend.asked}
    assert len(contexts) == 1 + len(CONTENT_FREE)
    assert all(context.startswith("it snowed | it was cold no") for context in contexts)


def test_a_word_wins_by_its_rarity_only_if_the_text_makes_it_more_probable_than_the_floor() -> None:
    """A quotient has no bound where the prior is 0: the smallest rounding error of p would be the answer."""
    never = [[-math.inf, 0.0]] * len(CONTENT_FREE)
    hardly, clearly = ([math.log(FLOOR * times), 0.0] for times in (0.5, 2.0))
    assert FLOOR == 1e-6
    assert without_prior(hardly, never) == pytest.approx([math.log(0.5), 0.0], abs=1e-5)
    assert without_prior(clearly, never) == pytest.approx([math.log(2), 0.0], abs=1e-5)


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_word_gains_more_than_a_million(prior: float, probability: float) -> None:
    def logs(share: float) -> list[float]:
        return [math.log(probability) if probability else -math.inf for probability in (share, 1 - share)]

    before, after = logs(probability), without_prior(logs(probability), [logs(prior)])
    for old, new in zip(before, after, strict=True):
        assert new == old == -math.inf or old <= new <= old - math.log(FLOOR) + 1e-9


def test_an_impossible_word_stays_impossible_and_nan_stays_nan() -> None:
    content_free = [[-math.inf, 0.0]] * len(CONTENT_FREE)
    assert without_prior([-math.inf, 0.0], content_free) == [-math.inf, 0.0]
    assert math.isnan(without_prior([math.nan, 0.0], [[0.0, 0.0]])[0])
    assert all(map(math.isnan, without_prior([0.0, 0.0], [[math.nan, 0.0]])))


def test_a_route_that_compares_no_words_is_refused() -> None:
    with pytest.raises(CapabilityError, match="by_loglikelihood does not compare the probabilities of words"):
        calibrated(route_of(Choice, "by_loglikelihood"))


def test_a_route_of_two_rounds_is_refused() -> None:
    def start(_example: Any, _context: Any) -> Any:
        yield [Continuation("a", " b")]
        yield [Continuation("a", " c")]

    route = Route(name="twice", start=start, needs=frozenset({"loglikelihood"}), compares_words=True)
    with pytest.raises(PluginError, match="more than one round"):
        predict(route, FakeLanguageModel(), PAIR)


def test_a_calibrated_run_says_so_and_is_another_run(workshop: Any) -> None:
    write_suite(workshop.folder)
    workshop.backend = FakeLanguageModel(function=lambda _context, word: float(word == " Yes"))
    plain, fair = (workshop.run("s", calibrate=calibrated, fresh=True) for calibrated in (False, True))
    assert [task.scores[0].value for task in plain.tasks] == [1.0, 0.0]
    assert [task.scores[0].value for task in fair.tasks] == [0.5, 0.5], "nothing but the bias was there"
    assert fair.tasks[0].settings["calibration"] == list(CONTENT_FREE)
    assert "calibration" not in plain.tasks[0].settings
    assert plain.identity != fair.identity


@pytest.mark.parametrize(
    ("settings", "prompts"),
    [
        ({}, 24 + 3),
        ({"num_fewshot": 1, "shots": "shared"}, 24 + 3),
        ({"num_fewshot": 1}, 24 * (1 + 3)),
    ],
)
def test_what_it_costs(workshop: Any, settings: dict[str, Any], prompts: int) -> None:
    """Three prompts more for all examples, or three for each that has solved examples of its own (docs/llm.md)."""
    write_suite(workshop.folder)
    task = workshop.folder / "pos.task.yaml"
    split = '{test: "jsonl:pos.jsonl", train: "jsonl:train.jsonl"}'
    task.write_text(task.read_text(encoding="utf-8").replace('{test: "jsonl:pos.jsonl"}', split), encoding="utf-8")
    solved = [{"id": f"t{i}", "left": f"six {i}", "right": "seven", "label": "no", "idiom": None} for i in range(999)]
    (workshop.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in solved), encoding="utf-8")
    workshop.backend = FakeLanguageModel()
    workshop.run("pos", calibrate=True, **settings)
    assert len(workshop.backend.asked) == prompts * len(("Yes", "No"))


def test_a_run_on_another_route_is_refused_in_one_line(workshop: Any) -> None:
    write_task(workshop.folder, "t")
    with pytest.raises(CapabilityError, match="by_pair_score does not compare the probabilities of words"):
        workshop.run(calibrate=True)
