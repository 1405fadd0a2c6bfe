"""IMPLI from within: idioms, folds, flexibility, matched pairs and learning curves against other computations."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import figeval
from figeval import DataError, Harness, RecordError, TrainError
from figeval.builtin.tasks.impli import folds, idioms, impli_rows
from figeval.builtin.tasks.impli.analysis import analyze_impli, figures, flexibility, matching
from figeval.builtin.tasks.impli.analysis.answers import PairAnswer
from figeval.builtin.tasks.impli.analysis.flexibility import IdiomCount
from figeval.builtin.tasks.impli.curve import curve_impli, figure, points, results
from figeval.builtin.tasks.impli.curve.points import Curve, CurveTraining
from figeval.builtin.tasks.impli.folds import Point
from figeval.builtin.tasks.nli import union
from tests.cli.conftest import Cli
from tests.finished_runs import row as stored_row
from tests.plugins.tiny import Workshop
from tests.sources import read_rows

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/data/idioms.json").read_text(encoding="utf-8"))


def pair_row(number: int, idiom: int | None, premise: int, label: str = "entailment") -> dict[str, Any]:
    name = None if idiom is None else f"idiom {idiom}"
    return {"id": str(number), "idiom": name, "premise_key": f"p{premise}", "label": label}


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 12), st.integers(0, 30), st.booleans()), min_size=1, max_size=60
).map(lambda drawn: [pair_row(n, i, p, "entailment" if e else "non-entailment") for n, (i, p, e) in enumerate(drawn)])


def places(folds_of_rows: list[list[Any]], key: str) -> dict[str, set[int]]:
    folds_of_key: dict[str, set[int]] = {}
    for index, fold in enumerate(folds_of_rows):
        for row in fold:
            if row[key] is not None:
                folds_of_key.setdefault(row[key], set()).add(index)
    return folds_of_key


@given(ROWS, st.integers(0, 3))
def test_no_idiom_and_no_premise_is_in_two_folds(given_rows: list[Any], seed: int) -> None:
    fold_list = folds.folds(given_rows, seed)
    assert len(fold_list) == folds.FOLDS
    assert sorted((row["id"] for fold in fold_list for row in fold), key=int) == [row["id"] for row in given_rows]
    for key in ("idiom", "premise_key"):
        assert all(len(fold_indices) == 1 for fold_indices in places(fold_list, key).values())
    assert all([int(row["id"]) for row in fold] == sorted(int(row["id"]) for row in fold) for fold in fold_list)
    assert fold_list == folds.folds(given_rows, seed)


@given(ROWS)
def test_the_parts_share_no_premise_and_the_unseen_ones_no_idiom(given_rows: list[Any]) -> None:
    parts = {name: folds.part(given_rows, name) for name in ("train", "dev", "seen", "unseen")}
    assert sum(map(len, parts.values())) == len(given_rows)
    premises = {name: {row["premise_key"] for row in part} for name, part in parts.items()}
    idioms = {name: {row["idiom"] for row in part if row["idiom"]} for name, part in parts.items()}
    assert not premises["train"] & (premises["seen"] | premises["dev"] | premises["unseen"])
    assert not (idioms["train"] | idioms["seen"]) & (idioms["dev"] | idioms["unseen"])
    assert idioms["seen"] <= idioms["train"], "each of them was learned from in another sentence"


@given(ROWS, st.integers(0, 9), st.integers(0, 8), st.none() | st.integers(1, 40))
def test_fewer_folds_are_among_more(given_rows: list[Any], fold: int, train: int, pairs: int | None) -> None:
    fewer, point_after = (folds.Point(fold=fold, train=n, pairs=pairs) for n in (train, train + 1))
    ids = [[row["id"] for row in point.learned(given_rows)] for point in (fewer, point_after)]
    assert set(ids[0]) <= set(ids[1])
    held = {row["idiom"] for row in point_after.held_out(given_rows)} - {None}
    assert not held & {row["idiom"] for row in point_after.learned(given_rows)}


@given(ROWS, st.sampled_from(list(folds.REGIMES)))
def test_a_regime_learns_from_its_label_alone(given_rows: list[Any], regime: str) -> None:
    point = folds.Point(fold=0, train=9, regime=regime)
    learned, held = point.learned(given_rows), point.held_out(given_rows)
    expected = [row for row in given_rows if row not in held and folds.REGIMES[regime] in (None, row["label"])]
    assert sorted(row["id"] for row in learned) == sorted(row["id"] for row in expected)


def test_regimes_learn_from_as_many_pairs() -> None:
    many = [pair_row(n, n % 100, n, ("entailment", "non-entailment")[n // 100 % 2]) for n in range(2000)]
    sizes = [
        [len(folds.Point(fold=2, train=train, regime=regime, pairs=100).learned(many)) for train in (0, 1, 3, 9)]
        for regime in folds.REGIMES
    ]
    assert sizes == [[0, 11, 33, 100]] * 3


def test_nothing_is_learned_from_no_fold() -> None:
    assert folds.Point(fold=0, train=0).learned([pair_row(0, 1, 1)]) == []


def test_unknown_parts_get_near_names() -> None:
    with pytest.raises(DataError, match="no part 'unsen' of its idioms; did you mean 'unseen'"):
        read_rows("impli:idioms/unsen")


@pytest.mark.slow
def test_real_parts(real_data: str) -> None:
    harness = Harness()
    seen, unseen = harness.catalogue.expand(["impli_seen_unseen"])
    parts = {
        "train": list(harness.examples(seen, "train")),
        "dev": list(harness.examples(seen, "dev")),
        "seen": list(harness.examples(seen)),
        "unseen": list(harness.examples(unseen)),
    }
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 17_013,
        "dev": 2_365,
        "seen": 1_928,
        "unseen": 2_344,
    }
    idioms = {
        name: {example.meta["idiom"] for example in part if "idiom" in example.meta} for name, part in parts.items()
    }
    assert {name: len(idioms_of_part) for name, idioms_of_part in idioms.items()} == {
        "train": 755,
        "dev": 84,
        "seen": 410,
        "unseen": 92,
    }
    assert not idioms["train"] & (idioms["dev"] | idioms["unseen"])


# ---- how idioms are found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN, ids=[case["why"][:60] for case in GOLDEN])
def test_golden_idioms(case: dict[str, Any]) -> None:
    idiom = idioms.Lexicon(case["lexicon"]).idiom(case["premise"], case["hypothesis"])
    if case["idiom"] is None:
        assert idiom is None
        return
    assert idiom is not None
    assert (idiom.name, idiom.surface, idiom.confidence) == (case["idiom"], case["surface"], case["confidence"])
    assert case["premise"][idiom.start : idiom.end] == idiom.surface


def test_the_lexicon_is_sorted_and_has_every_form_once() -> None:
    lines = (ROOT / "tasks/impli/idioms.txt").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: (line.casefold(), line))
    forms = [form.strip() for line in lines for form in line.split("|")]
    assert len(forms) == len(set(forms))
    assert all(2 <= len(form) <= 60 for form in forms)


words = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "and", "hit", "roof", ",", "."]), max_size=8)


@given(before=words, left=words, right=words, after=words)
def test_the_changed_span_is_what_changed(
    before: list[str], left: list[str], right: list[str], after: list[str]
) -> None:
    premise, hypothesis = before + left + after, before + right + after
    start, end = idioms.changed_span(premise, hypothesis)
    assert 0 <= start <= end <= len(premise)
    tail = len(premise) - end
    assert premise[:start] == hypothesis[:start]
    assert premise[end:] == hypothesis[len(hypothesis) - tail :]
    assert start >= len(before) or premise == hypothesis[: len(premise)]
    assert start + tail <= min(len(premise), len(hypothesis))


@given(premise=st.text(max_size=60) | words.map(" ".join), hypothesis=st.text(max_size=60) | words.map(" ".join))
def test_offsets_are_those_of_the_surface_form_whatever_the_text(premise: str, hypothesis: str) -> None:
    idiom = idioms.Lexicon(["hit the roof", "on the mat", "sit"]).idiom(premise, hypothesis)
    if idiom is not None:
        assert premise[idiom.start : idiom.end] == idiom.surface != ""
        assert 0 <= idiom.confidence <= 1


# ---- what `figeval analyze impli` computes ---------------------------------------------------------------------------

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


# ---- learning curves -------------------------------------------------------------------------------------------------


def curve(**changes: Any) -> Curve:
    about: dict[str, Any] = {
        "points": (3, 0),
        "regimes": ("both", "entailment"),
        "held_out": range(1),
        "seeds": range(1),
        "nli": 30,
        "pairs": 20,
    }
    return Curve(**{**about, **changes})


def training(**changes: Any) -> CurveTraining:
    return CurveTraining(**{"fold": 0, "train": 3, "regime": "both", "seed": 0, "nli": 30, "pairs": 20, **changes})


def test_regimes_share_the_training_without_figurative_pairs() -> None:
    names = [training.name.removeprefix("impli_curve_") for training in curve().trainings()]
    assert names == ["fold0_train0_none_seed0", "fold0_train3_both_seed0", "fold0_train3_entailment_seed0"]
    large_curve = curve(
        points=range(10), regimes=("both", "entailment", "non-entailment"), held_out=range(10), seeds=range(5)
    )
    assert len(list(large_curve.trainings())) == (1 + 9 * 3) * 10 * 5


def test_a_task_says_what_is_learned_and_asked() -> None:
    task = training(regime="non-entailment").task({"type": "pairs", "floor": "no_query", "metrics": ["acc"]})
    assert task["name"] == "impli_curve_fold0_train3_non_entailment_seed0"
    assert task["data"] == {
        "test": "impli_curve:held_out?fold=0",
        "train": "impli_curve:train?fold=0&train=3&regime=non-entailment&nli=30&pairs=20",
    }
    assert "floor" not in task
    assert points.parse_query(task["data"]["train"].partition("?")[2]) == (
        Point(fold=0, train=3, regime="non-entailment", pairs=20),
        30,
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("fold=10", "there are folds 0 to 9"),
        ("fold=x", "fold=x is not a number"),
        ("fould=1", "has no 'fould'"),
        ("regime=neither", "has no regime 'neither'; it has both, entailment, non-entailment"),
    ],
)
def test_a_point_that_is_none_is_one_line(query: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        points.parse_query(query)


def answered_training(accuracy: float, seed: int = 0, fold: int = 0, **changes: Any) -> results.AnsweredTraining:
    """Forty pairs of a fold, ten idioms; the first `accuracy` of each label are right."""
    rows = []
    for label, gold in (("e", "entailment"), ("n", "non-entailment")):
        for number in range(20):
            right = number < 20 * accuracy
            score = 0.9 if right == (label == "e") else 0.1
            about = {
                "gold": gold,
                "metrics": {"acc": float(right)},
                "cluster": f"{fold} {number % 10}",
                "scores": [score],
            }
            rows.append(stored_row(f"{label}{number}", **about))
    return results.AnsweredTraining(training(seed=seed, fold=fold, **changes), 50, rows)  # type: ignore[arg-type]


def test_accuracies_are_those_of_all_folds_together_and_areas_means_over_them() -> None:
    numbers_of_part = {
        number.part: number
        for number in results.numbers([answered_training(0.5, fold=0), answered_training(1.0, fold=1)])
    }
    assert {part: (number.n, number.value) for part, number in numbers_of_part.items()} == {
        "all": (80, 0.75),
        "entailment": (40, 0.75),
        "non-entailment": (40, 0.75),
        "auc": (80, numbers_of_part["auc"].value),
    }
    assert numbers_of_part["all"].low is not None and numbers_of_part["all"].low < 0.75
    areas = [
        roc_auc_score(*zip(*gold_and_score(training), strict=True))
        for training in (answered_training(0.5), answered_training(1.0))
    ]
    assert numbers_of_part["auc"].value == pytest.approx(sum(areas) / 2)


def gold_and_score(training: results.AnsweredTraining) -> list[tuple[bool, float]]:
    return [(row["gold"] == "entailment", row["scores"][0]) for row in training.rows]


def test_scores_of_two_models_are_never_compared() -> None:
    """A model that gives all of its scores higher than another one loses nothing by it."""
    low, high = answered_training(1.0, fold=0), answered_training(1.0, fold=1)
    raised = [{**row, "scores": [row["scores"][0] + 5]} for row in high.rows]
    numbers = results.numbers([low, results.AnsweredTraining(high.training, 50, raised)])  # type: ignore[arg-type]
    assert {number.part: number.value for number in numbers}["auc"] == 1.0


@pytest.mark.parametrize(("seeds", "words"), [(1, "between trainings"), (2, "no bands"), (3, "idioms and seeds")])
def test_the_figure_says_what_its_bands_are(seeds: int, words: str) -> None:
    behind, bands = figure.subtitle_lines(results.numbers([answered_training(0.5, seed) for seed in range(seeds)]), "m")
    assert behind == f"m; 1 held-out fold, {seeds} seed{'s' * (seeds > 1)}"
    assert words in bands


def test_seeds_have_a_mean_a_deviation_and_from_three_on_an_interval() -> None:
    two, three = (results.numbers([answered_training(0.5 + seed / 10, seed) for seed in range(n)])[0] for n in (2, 3))
    assert (two.n, two.trainings, two.low) == (40, 2, None)
    assert two.value == pytest.approx(0.55)
    assert two.sd == pytest.approx(0.1 / 2**0.5)
    assert three.low is not None and three.high is not None
    assert three.low < 0.6 < three.high
    area = results.numbers([answered_training(0.5 + seed / 10, seed) for seed in range(3)])[-1]
    assert area.part == "auc" and area.value is not None and area.low is not None and area.high is not None
    assert area.low < area.value < area.high


def test_a_pair_that_one_seed_left_unanswered_is_left_out_for_all() -> None:
    first, other = answered_training(1.0, 0), answered_training(1.0, 1)
    silent = [{**row, "metrics": {}} if row["id"] == "e0" else row for row in other.rows]
    numbers = results.numbers([first, results.AnsweredTraining(other.training, 50, silent)])  # type: ignore[arg-type]
    assert [number.n for number in numbers] == [39, 19, 20, 39]


def test_the_figure_has_the_regimes_that_there_are_and_begins_each_with_the_shared_point() -> None:
    numbers = results.numbers(
        [
            answered_training(0.5, train=0, regime="none"),
            answered_training(0.6),
            answered_training(0.7, regime="entailment"),
        ]
    )
    assert [
        list(numbers_of_regime) and [number.folds for number in numbers_of_regime if number.part == "all"]
        for numbers_of_regime in results.regimes_of(numbers).values()
    ] == [
        [0, 3],
        [0, 3],
    ]
    chart = figure.curves(numbers, "m").to_dict()
    assert json.dumps(chart).count('"domain": ["both", "entailment"]') >= 4


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Made-up pairs of forty idioms, six of each, and thirty literal ones."""
    none = dict.fromkeys(("surface", "idiom_start", "idiom_end", "idiom_confidence", "flaw"))
    rows = [
        {
            "id": str(n),
            "premise": f"day {n} of idiom {n % 40}",
            "hypothesis": ("they spoke of it", "the cat sat down")[n // 40 % 2],
            "premise_key": str(n),
            "label": ("entailment", "non-entailment")[n // 40 % 2],
            "idiom": f"idiom {n % 40}",
            **none,
            "corpus": "manual",
            "figure": "idiom",
        }
        for n in range(240)
    ]
    labels = ("entailment", "neutral", "contradiction")
    literal = [
        {"id": n, "premise": f"{n} is even", "hypothesis": "so it is", "label": labels[n % 3]} for n in range(30)
    ]
    monkeypatch.setattr(impli_rows, "idiom_rows", lambda context: iter(rows))
    monkeypatch.setattr(union, "rows", lambda split, context: iter(literal))
    return rows


def test_a_folder_with_another_curve_is_refused(tmp_path: Path, pairs: list[dict[str, Any]]) -> None:
    curve_impli.CurveFolder(tmp_path, "b", {"lr": 1e-4}, curve(), keep_models=False).begin()
    before = curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(), keep_models=False)
    before.begin()  # nothing was trained for the other one yet
    before.save({"learned": 1}, ())
    curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(points=(0, 9)), keep_models=False).begin()
    with pytest.raises(TrainError, match="has a curve with a different model; choose another --output"):
        curve_impli.CurveFolder(tmp_path, "b", {"lr": 1e-4}, curve(), keep_models=False).begin()
    pairs[0]["label"] = "non-entailment"
    with pytest.raises(TrainError, match="has a curve of different pairs than IMPLI has now"):
        curve_impli.CurveFolder(tmp_path, "a", {"lr": 1e-4}, curve(), keep_models=False).begin()
    (tmp_path / "curve.json").write_text("[]")
    with pytest.raises(RecordError, match="is not a learning curve"):
        before.begin()


@pytest.mark.slow
@pytest.mark.usefixtures("pairs")
def test_an_interrupted_curve_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    model = Workshop(tmp_path / "models")("bert", "Model")
    flags = f"--model {model} --points 0,2 --regimes both,entailment --folds 2 --nli 12 --pairs 36 --batch_size 8 "
    flags += "--max_length 32 --lr 0.01 --epochs 4 --device cpu --no_plots"
    original_train, original_run = figeval.train, figeval.run
    calls: list[str] = []
    stopped: list[str] = []
    printed: list[str] = []

    def train(task: str, *arguments: Any, **options: Any) -> Any:
        calls.append("try" if "max_steps" in options else task.removeprefix("impli_curve_"))
        return original_train(task, *arguments, **options)

    def run(task: str, *arguments: Any, **options: Any) -> Any:
        if task == "impli_curve_fold1_train0_none_seed0" and not stopped:
            stopped.append(task)
            raise KeyboardInterrupt
        return original_run(task, *arguments, **options)

    def curve_in(folder: str) -> list[Any]:
        outcome = cli("curve", "impli", "--output", tmp_path / folder, *flags.split())
        assert outcome.code == 0
        printed.append(outcome.out)
        return json.loads((tmp_path / folder / "curve.json").read_text())["numbers"]

    monkeypatch.setattr(figeval, "train", train)
    monkeypatch.setattr(figeval, "run", run)
    assert cli("curve", "impli", "--output", tmp_path / "stopped", *flags.split()).code == 130
    assert calls == ["try", "fold0_train0_none_seed0", "fold1_train0_none_seed0"]
    stored = json.loads((tmp_path / "stopped" / "curve.json").read_text())
    assert stored["learned"] == {"impli_curve_fold0_train0_none_seed0": 12}

    del calls[:]
    gone_on = curve_in("stopped")
    other_trainings = [f"fold{fold}_train2_{regime}_seed0" for regime in ("both", "entailment") for fold in (0, 1)]
    assert calls == ["try", "fold1_train0_none_seed0", *other_trainings]
    assert "5 trainings on up to 20 pairs, each asked about" in printed[-1]
    assert [
        (number["regime"], number["folds"], number["learned"]) for number in gone_on if number["part"] == "all"
    ] == [
        ("none", 0, 12),
        ("both", 2, 20),
        ("entailment", 2, 20),
    ]

    del calls[:]
    assert curve_in("stopped") == gone_on
    assert not calls, "all is done"
    assert "all 6 trainings are done" in printed[-1]
    assert curve_in("undisturbed") == gone_on
