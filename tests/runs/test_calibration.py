"""Contextual calibration: a liking for a word is measured with inputs that say nothing, and taken away."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import figeval
from figeval import (
    CapabilityError,
    ChoiceExample,
    Continuation,
    PairExample,
    Route,
    hookimpl,
)
from figeval.testing.fakes import FakeLanguageModel, FakeMaskFiller, FakePairScorer
from tests.runs.conftest import write_task
from tests.runs.test_contrasts import write_suite

CONTENT_FREE = ("N/A", "[MASK]", "")
FLOOR = 1e-6
PAIR = PairExample(id="1", left="it rained", right="it was wet", label="yes")
CHOICE = ChoiceExample(id="1", query="asked", options=("wrong", "right", "silly"), gold=1)
LOGITS = st.floats(-5, 5)
FEW_EXAMPLES = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def answer(folder: Path, model: Any, example: Any = PAIR, **options: Any) -> Any:
    """Ask a model about one example with calibration, and return the row of its answer."""
    task_type = "pairs" if isinstance(example, PairExample) else "choice"
    labels = {"labels": ("yes", "no"), "verbalizer": {"yes": "yes", "no": "no"}} if task_type == "pairs" else {}

    @figeval.task(name="single", type=task_type, metrics=("acc",), baselines=(), **labels)
    def single():  # type: ignore[no-untyped-def]
        yield example

    run = figeval.run(single, model, calibrate=True, output_path=folder / "run", fresh=True, **options)
    (row,) = run.rows("single")
    return row


def log_shares(share: Callable[[str], float]) -> FakeLanguageModel:
    """A model for which `yes` has this share in a context, and `no` the rest."""

    def logprob(context: str, word: str) -> float:
        probability = share(context) if word == " yes" else 1 - share(context)
        return math.log(probability) if probability else -math.inf

    return FakeLanguageModel(function=logprob)


@FEW_EXAMPLES
@given(LOGITS, LOGITS, LOGITS)
def test_a_bias_for_a_word_does_not_change_the_answer(
    tmp_path: Path, for_yes: float, for_no: float, bias: float
) -> None:
    """A word's log-probability is what the text says of it, nothing for content-free ones, plus a bias."""

    def logprob(context: str, word: str) -> float:
        for_word = 0.0 if "rained" not in context else for_yes if word == " yes" else for_no
        return for_word + (bias if word == " yes" else 0.0)

    expected = math.exp(for_yes) / (math.exp(for_yes) + math.exp(for_no))
    row = answer(tmp_path, FakeLanguageModel(function=logprob))
    assert row["scores"] == pytest.approx((expected, 1 - expected))


def test_priors_are_mean_shares_over_the_content_free_inputs(tmp_path: Path) -> None:
    """Zhao et al. 2021, section 4: p̂ is averaged over "N/A", "[MASK]" and the empty string, then W = diag(p̂)⁻¹."""
    shares = {"N/A": 0.9, "[MASK]": 0.6, "rained": 0.7}

    def logprob(context: str, word: str) -> float:
        share = next((share for text, share in shares.items() if text in context), 0.3)
        return math.log(share if word == " yes" else 1 - share) - 7  # as rare as words are

    yes, no = 0.7 / 0.6, 0.3 / 0.4
    row = answer(tmp_path, FakeLanguageModel(function=logprob))
    assert row["scores"] == pytest.approx((yes / (yes + no), no / (yes + no)))


def test_words_in_a_gap_are_calibrated_too(tmp_path: Path) -> None:
    def likes_yes(word: str, before: str, after: str) -> float:
        return (word.strip() == "yes") * 3.0 + ("rained" in before + after) * (word.strip() == "no")

    model = FakeMaskFiller(function=likes_yes)
    assert answer(tmp_path, model)["pred"] == "no"
    assert len(model.batches) == 1, "one round"


def test_letters_are_calibrated_in_every_order_of_the_options(tmp_path: Path) -> None:
    def likes_a(context: str, letter: str) -> float:
        return 4.0 * (letter.strip() == "A") + float(f"{letter.strip()}. right" in context)

    options = {"routes": {"choice": "by_letter_likelihood"}, "orders": "cyclic"}
    row = answer(tmp_path, FakeLanguageModel(function=likes_a), CHOICE, **options)
    assert [reply["pred"] for reply in row["answers"]] == [1, 1, 1]
    assert row["scores"] == [0.0, 1.0, 0.0]


def test_every_text_is_replaced(tmp_path: Path) -> None:
    model = FakeLanguageModel()
    answer(tmp_path, model, CHOICE, routes={"choice": "by_letter_likelihood"})
    question, *contexts = sorted(
        {request.context for request in model.asked}, key=lambda context: "asked" not in context
    )
    assert len(contexts) == len(CONTENT_FREE)
    for context in contexts:
        assert not any(text in context for text in (CHOICE.query, *CHOICE.options))
    assert sorted(context.count("N/A") for context in contexts) == [0, 0, 4]
    assert all(text in question for text in (CHOICE.query, *CHOICE.options))


@pytest.mark.parametrize(("times", "yes"), [(0.5, 1 / 3), (2.0, 2 / 3)])
def test_a_word_wins_by_its_rarity_only_if_the_text_makes_it_more_probable_than_the_floor(
    tmp_path: Path, times: float, yes: float
) -> None:
    """A quotient has no bound where the prior is 0: the smallest rounding error of p would be the answer."""
    row = answer(tmp_path, log_shares(lambda context: FLOOR * times if "rained" in context else 0.0))
    assert row["scores"] == pytest.approx((yes, 1 - yes), abs=1e-5)


@FEW_EXAMPLES
@given(st.floats(0, 1), st.floats(0, 1))
def test_no_word_gains_more_than_a_million(tmp_path: Path, prior: float, probability: float) -> None:
    row = answer(tmp_path, log_shares(lambda context: probability if "rained" in context else prior))
    for after, before in zip(row["scores"], (probability, 1 - probability), strict=True):
        assert after * FLOOR * (1 - before) <= before * (1 - after) + 1e-9


def test_an_impossible_word_stays_impossible_and_nan_stays_nan(tmp_path: Path) -> None:
    assert answer(tmp_path, log_shares(lambda _context: 0.0))["scores"] == [0.0, 1.0]
    for hidden in ("rained", "N/A"):

        def logprob(context: str, _word: str, hidden: str = hidden) -> float:
            return math.nan if hidden in context else 0.0

        assert answer(tmp_path, FakeLanguageModel(function=logprob))["status"] == "nan"


class Twice:
    """A route of two rounds that says that it compares words."""

    @hookimpl
    def register_routes(self, register: Callable[[str, Route], None]) -> None:
        def start(_example: Any, _context: Any) -> Any:
            yield [Continuation("a", " b")]
            yield [Continuation("a", " c")]

        register("choice", Route(name="twice", start=start, needs=frozenset({"loglikelihood"}), compares_words=True))


def test_a_route_of_two_rounds_is_refused(workshop: Any) -> None:
    write_task(workshop.folder, "t")
    workshop.backend = FakeLanguageModel()
    (task,) = workshop.run(harness=workshop.harness(Twice()), routes={"choice": "twice"}, calibrate=True).tasks
    assert "more than one round" in task.error


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


def test_content_free_inputs_stand_behind_the_solved_examples_of_the_question(workshop: Any) -> None:
    """Which ones are shown depends on the question, and a prior belongs to its prompt."""
    write_task(workshop.folder, "t")
    workshop.backend = FakeLanguageModel()
    workshop.run(calibrate=True, num_fewshot=1, routes={"choice": "by_letter_likelihood"})
    questions_by_shot = defaultdict[str, set[str]](set)
    for request in workshop.backend.asked:
        shot, _, question = request.context.rpartition("\n\n")
        questions_by_shot[shot].add(question)
    assert len(questions_by_shot) > 1
    for questions in questions_by_shot.values():
        assert len({question for question in questions if "word" not in question}) == len(CONTENT_FREE)
        assert any("word" in question for question in questions)


@pytest.mark.parametrize("model", [FakePairScorer(), FakeLanguageModel()])
def test_a_run_on_another_route_is_refused_in_one_line(workshop: Any, model: Any) -> None:
    write_task(workshop.folder, "t")
    workshop.backend = model
    with pytest.raises(CapabilityError, match=r"by_\w+, which does not compare the probabilities of words"):
        workshop.run(calibrate=True)
