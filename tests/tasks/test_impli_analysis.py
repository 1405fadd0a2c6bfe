"""`figeval analyze impli`: flexibility of idioms, pairs matched in likeness, idioms that are never right."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from figeval import RecordError
from figeval.builtin.tasks.impli.analysis import analyze_impli, figures, flexibility, matching
from figeval.builtin.tasks.impli.analysis.answers import PairAnswer
from figeval.builtin.tasks.impli.analysis.flexibility import IdiomCount
from figeval.cli.main import main
from tests.finished_runs import finished

NUMBERS = count()
RISING_NUMBERS = list(range(10))


def answer(right: float | None = 1.0, *, entails: bool = True, **fields: Any) -> PairAnswer:
    about: dict[str, Any] = {
        "id": str(next(NUMBERS)),
        "task": "impli_idioms_gold_ent" if entails else "impli_idioms_gold_ant",
        "label": "entailment" if entails else "non-entailment",
        "score": None,
        "cluster": None,
        "idiom": "spill the beans",
        "distance": 10,
        "similarity": 0.5,
    }
    return PairAnswer(is_entailment=entails, right=right, **{**about, **fields})


@pytest.mark.parametrize(
    ("idiom", "surface", "same"),
    [
        ("spill the beans", "Spill  the\nbeans", True),
        ("spill the beans", "spilled the beans", False),
        ("spill the beans", "spill some beans", False),
        ("pull someone's leg", "pull my leg", True),
        ("pull someone's leg", "pull the old man's leg", True),
        ("pull someone's leg", "pulled my leg", False),
        ("pull someone's leg", "pull leg", False),
    ],
)
def test_the_dictionary_form_may_have_any_words_in_its_slots(idiom: str, surface: str, same: bool) -> None:
    assert flexibility.in_dictionary_form(idiom, surface) is same


def test_an_idiom_is_as_flexible_as_its_premises_are() -> None:
    idiom = "spill the beans"
    rows = [
        {"idiom": idiom, "surface": idiom, "premise_key": "1"},
        {"idiom": idiom, "surface": idiom, "premise_key": "1"},  # another hypothesis of the same premise
        {"idiom": idiom, "surface": "spilled the beans", "premise_key": "2"},
        {"idiom": idiom, "surface": "spilling the beans", "premise_key": "3"},
        {"idiom": None, "surface": None, "premise_key": "4"},
    ]
    flexibility_of_idiom = flexibility.flexibilities(rows)
    assert flexibility_of_idiom == {idiom: IdiomCount(idiom, 3, 2)}
    assert flexibility_of_idiom[idiom].flexibility == pytest.approx(2 / 3)


def test_the_rank_correlation_is_that_of_scipy_with_an_interval() -> None:
    generator = np.random.default_rng(0)
    counts = {f"i{n}": IdiomCount(f"i{n}", 10, int(generator.integers(0, 11))) for n in range(40)}
    accuracy = {name: float(generator.integers(0, 5) / 4) for name in counts} | {"no count": 1.0}
    correlation = flexibility.correlate("c", counts, accuracy)
    expected = spearmanr([counts[name].flexibility for name in counts], [accuracy[name] for name in counts])
    assert (correlation.n, correlation.r, correlation.p) == (
        40,
        pytest.approx(expected.statistic),
        pytest.approx(expected.pvalue),
    )
    assert correlation.low is not None and correlation.high is not None and correlation.r is not None
    half = 1.959964 * ((1 + correlation.r**2 / 2) / 37) ** 0.5
    assert (correlation.low, correlation.high) == (
        pytest.approx(np.tanh(np.arctanh(correlation.r) - half)),
        pytest.approx(np.tanh(np.arctanh(correlation.r) + half)),
    )


@pytest.mark.parametrize(
    ("varied", "right", "reason"),
    [
        (RISING_NUMBERS[:9], RISING_NUMBERS[:9], "fewer than 10 idioms"),
        ([2] * 10, RISING_NUMBERS, "the same flexibility"),
        (RISING_NUMBERS, [1] * 10, "the same accuracy"),
    ],
)
def test_what_has_no_correlation_says_why(varied: list[int], right: list[int], reason: str) -> None:
    correlation = correlate(varied, right)
    assert correlation.r is None
    assert reason in correlation.why


@pytest.mark.parametrize(
    ("varied", "right", "r"),
    [
        (RISING_NUMBERS, RISING_NUMBERS, 1),
        (RISING_NUMBERS, RISING_NUMBERS[::-1], -1),
        ([0] * 9 + [1], [0] * 9 + [5], 1),
    ],
)
def test_a_perfect_correlation_has_no_interval_of_no_width_and_no_p_of_zero(
    varied: list[int], right: list[int], r: int
) -> None:
    """Fisher's z is infinite there. Of the third the true p is .1: one idiom of ten is the one that is flexible."""
    correlation = correlate(varied, right)
    assert (correlation.r, correlation.p, correlation.low, correlation.high) == (r, None, None, None)
    assert correlation.why == "flexibility and accuracy rank the idioms identically or in reverse order"


def correlate(varied: list[int], right: list[int]) -> flexibility.RankCorrelation:
    counts = {f"i{n}": IdiomCount(f"i{n}", 10, variations) for n, variations in enumerate(varied)}
    return flexibility.correlate("c", counts, {f"i{n}": right_count / 10 for n, right_count in enumerate(right)})


def test_the_misprint_of_the_paper_is_told() -> None:
    """A correlation of .45 with p = .399 needs six idioms; .045 with that p needs about 350."""
    from scipy.stats import t

    def p_of(r: float, n: int) -> float:
        return float(2 * t.sf(abs(r) * ((n - 2) / (1 - r * r)) ** 0.5, n - 2))

    assert min(range(4, 400), key=lambda n: abs(p_of(0.45, n) - 0.399)) == 6
    assert 340 < min(range(4, 800), key=lambda n: abs(p_of(0.045, n) - 0.399)) < 360


def test_a_model_that_goes_by_likeness_alone_is_at_chance_on_matched_pairs() -> None:
    generator = np.random.default_rng(1)
    answers = []
    for n in range(2000):
        entails = bool(generator.random() < 0.5)
        similarity = float(generator.beta(4, 2) if entails else generator.beta(2, 4))
        says = generator.random() < similarity
        answers.append(answer(float(says == entails), entails=entails, similarity=similarity, cluster=f"c{n % 300}"))
    (accuracies,) = matching.matched_accuracies(answers)
    assert accuracies.plain.value is not None and accuracies.plain.value > 0.6
    assert accuracies.matched.value == pytest.approx(0.5, abs=0.04)
    assert accuracies.matched.low is not None and accuracies.matched.low < accuracies.matched.value
    assert (accuracies.group, accuracies.deciles, accuracies.left_out) == ("idioms, gold", 10, 0)


def test_a_model_that_knows_is_right_on_matched_pairs_too() -> None:
    answers = [answer(entails=bool(n % 2), similarity=n / 200) for n in range(200)]
    (accuracies,) = matching.matched_accuracies(answers)
    assert (accuracies.plain.value, accuracies.matched.value) == (1.0, 1.0)


def test_deciles_with_one_kind_of_pairs_are_left_out() -> None:
    answers = [answer(entails=n >= 50, similarity=n / 100) for n in range(100)]
    answers += [answer(0.0, entails=False, similarity=0.99, cluster=f"c{n}") for n in range(5)]
    (accuracies,) = matching.matched_accuracies(answers)
    assert accuracies.deciles == 2
    assert accuracies.left_out + accuracies.matched.n == 105
    assert matching.matched_accuracies([pair for pair in answers if pair.is_entailment]) == []


def test_a_decile_weighs_its_pairs_of_the_rarer_kind() -> None:
    """Of deciles with 9 + 1 and 5 + 5 pairs, the second weighs five times as much: one pair says hardly anything."""
    answers = []
    for decile in range(10):
        rare = 1 if decile % 2 else 5
        for n in range(10):
            right = float(decile % 2 == 0)
            answers.append(answer(right, entails=n >= rare, similarity=decile + n / 100))
    (accuracies,) = matching.matched_accuracies(answers)
    assert accuracies.matched.value == pytest.approx(5 / 6)


def test_a_pair_that_two_tasks_ask_counts_once() -> None:
    answers = [answer(entails=bool(n % 2), similarity=n / 50, distance=n) for n in range(50)]
    twice = [*answers, *(replace(pair, task=f"{pair.task}_clean") for pair in answers[:30])]
    assert matching.matched_accuracies(twice) == matching.matched_accuracies(answers)
    assert figures.parts(twice) == figures.parts(answers)


def test_idioms_seen_and_unseen_are_matched_each_for_themselves() -> None:
    answers = [
        answer(entails=bool(n % 2), similarity=n / 50, task=f"impli_idioms_{name}")
        for name in ("seen", "unseen")
        for n in range(50)
    ]
    assert [matched.group for matched in matching.matched_accuracies(answers)] == ["idioms, seen", "idioms, unseen"]


def test_pairs_of_other_sets_may_have_the_same_ids() -> None:
    answers = [answer(task=task, id="1") for task in ("nli_snli", "nli_mnli", "impli_idioms_gold_ent")]
    assert sum(map(len, figures.parts(answers).values())) == 3


def test_histograms_share_out_ties_and_leave_out_what_has_no_answer() -> None:
    histogram = matching.histogram([answer(1.0, distance=4), answer(0.5, distance=5), answer(None)], 5)
    assert histogram == {("entailment", True): {0: 1.0, 5: 0.5}, ("entailment", False): {5: 0.5}}


def test_idioms_that_are_never_right_are_those_with_five_pairs() -> None:
    task = "impli_idioms_gold_ent"
    answers = [answer(0.0, idiom=name) for name, n in (("often", 6), ("five", 5), ("few", 4)) for _ in range(n)]
    accuracy = flexibility.accuracies([*answers, answer(1.0, idiom="right")])[task]
    assert analyze_impli.never_right(task, accuracy, answers) == [("often", 6), ("five", 5)]


@pytest.mark.slow
def test_a_run_is_analyzed(real_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = ("impli_idioms_gold_ent", "impli_idioms_gold_ant", "impli_idioms_silver_adv")
    run = finished(tmp_path / "run", *tasks, model="overlap", limit=60, baselines=False)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "impli", str(run), "--output", str(tmp_path / "out")])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "the printed r = .45 must be .045" in printed
    assert "idioms, gold" in printed
    content = json.loads((tmp_path / "out" / "analysis.json").read_text(encoding="utf-8"))
    assert [column["column"] for column in content["flexibility"]] == list(tasks)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("analysis.json", "idioms.csv", "distances.csv"),
        *(f"{name}.{ending}" for name in ("distances", "flexibility") for ending in ("png", "svg", "html")),
    }
    idioms = (tmp_path / "out" / "idioms.csv").read_text(encoding="utf-8").splitlines()
    assert len(idioms) > 700, "flexibility is that of all rows of the data, whatever was asked"
    rows = (tmp_path / "out" / "distances.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert sum(float(row.rsplit(",", 1)[1]) for row in rows) == 180


def test_a_run_without_impli_is_refused_in_one_line(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_pairs", model="overlap", limit=5, baselines=False)
    with pytest.raises(RecordError, match=r"has no finished task of IMPLI .it has mini_pairs.; run --tasks impli"):
        analyze_impli.analyze_run(run)
