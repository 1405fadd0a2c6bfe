"""IMPLI in numbers: idioms, folds, flexibility, matched pairs and learning curves against other computations."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import figeval
from figeval import DataError, Harness
from figeval.builtin.tasks.impli import impli_rows
from figeval.builtin.tasks.impli.analysis import analyze_impli, figures, flexibility, matching
from figeval.builtin.tasks.impli.analysis import answers as pair_answers
from figeval.builtin.tasks.impli.curve import figure, points, results
from figeval.builtin.tasks.nli import union
from tests.cli.conftest import Cli
from tests.finished_runs import row as stored_row
from tests.plugins.tiny import Workshop
from tests.sources import Row, read_rows
from tests.tasks.test_impli_rows import FILES

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/data/idioms.json").read_text(encoding="utf-8"))
REGIMES = {"both": None, "entailment": "entailment", "non-entailment": "non-entailment"}


# ---- folds -----------------------------------------------------------------------------------------------------------


def files_of(folder: Path, entailing: Iterable[tuple[str, str]], neutral: Iterable[tuple[str, str]] = ()) -> Path:
    """A folder of IMPLI whose pairs of idioms are these."""
    for file in (file for files in FILES.values() for file in files):
        path = folder / f"{file}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        pairs = {"idioms/manual_e": entailing, "idioms/manual_ne": neutral}.get(file, ())
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, "excel-tab").writerows(pairs)
    return folder


def places(parts: dict[Any, list[Row]], key: str) -> list[set[Any]]:
    """The parts in which each value of a column is."""
    values = {row[key] for rows in parts.values() for row in rows} - {None}
    return [{name for name, rows in parts.items() if value in {row[key] for row in rows}} for value in values]


@pytest.fixture(params=range(5))
def drawn(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Pairs of thirty sentences with two idioms each, of which one, the other or all is replaced."""
    generator = random.Random(request.param)
    idioms = ("break the ice", "take the biscuit", "touch and go", "rock the boat", "see the light", "ring a bell")
    pairs: tuple[set[tuple[str, str]], set[tuple[str, str]]] = (set(), set())
    for _ in range(60):
        day = generator.randrange(30)
        ends = random.Random(day + 100 * request.param).sample(idioms, 2)
        changed = [["go away", ends[1]], [ends[0], "go away"], ["x", "y"]][generator.randrange(3)]
        texts = [f"On day {day} they {left} and {right}." for left, right in (ends, changed)]
        pairs[generator.randrange(2)].add((texts[0], texts[1]))
    return files_of(tmp_path, pairs[0] - pairs[1], pairs[1] - pairs[0])


def test_no_idiom_and_no_premise_is_in_two_folds(drawn: Path) -> None:
    folds = {fold: read_rows(f"impli_curve:held_out?fold={fold}", drawn) for fold in range(10)}
    ids = [
        row["id"] for column in ("idioms_gold_ent", "idioms_gold_non") for row in read_rows(f"impli:{column}", drawn)
    ]
    assert sorted(row["id"] for rows in folds.values() for row in rows) == sorted(ids)
    for key in ("idiom", "premise_key"):
        assert all(len(places_of_value) == 1 for places_of_value in places(folds, key))
    assert all(
        [row["id"] for row in rows] == sorted((row["id"] for row in rows), key=ids.index) for rows in folds.values()
    )


def test_the_parts_share_no_premise_and_the_unseen_ones_no_idiom(drawn: Path) -> None:
    parts = {name: read_rows(f"impli:idioms/{name}", drawn) for name in ("train", "dev", "seen", "unseen")}
    assert all(
        places_of_idiom <= {"train", "seen"} or len(places_of_idiom) == 1 for places_of_idiom in places(parts, "idiom")
    )
    assert all(len(places_of_premise) == 1 for places_of_premise in places(parts, "premise_key"))
    idioms = {name: {row["idiom"] for row in rows} - {None} for name, rows in parts.items()}
    assert idioms["seen"] <= idioms["train"], "each of them was learned from in another sentence"


def learned(**point: Any) -> list[Row]:
    return read_rows("impli_curve:train?nli=0&" + "&".join(f"{name}={value}" for name, value in point.items()))


@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("regime", REGIMES)
def test_a_regime_learns_from_its_label_alone_and_fewer_folds_are_among_more(regime: str) -> None:
    assert learned(fold=2, train=0, regime=regime) == []
    held = read_rows("impli_curve:held_out?fold=2")
    everything = [row for fold in range(10) if fold != 2 for row in read_rows(f"impli_curve:held_out?fold={fold}")]
    expected = {row["id"] for row in everything if REGIMES[regime] in (None, row["label"])}
    assert {row["id"] for row in learned(fold=2, train=9, regime=regime)} == expected
    drawn = [learned(fold=2, train=train, regime=regime, pairs=100) for train in (0, 1, 3, 9)]
    assert [len(rows) for rows in drawn] == [0, 11, 33, 100]
    for fewer, larger in pairwise(drawn):
        assert {row["id"] for row in fewer} <= {row["id"] for row in larger}
    assert not {row["idiom"] for row in held} & ({row["idiom"] for row in drawn[-1]} - {None})


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


def test_golden_idioms(tmp_path: Path) -> None:
    folder = files_of(tmp_path, [(case["premise"], case["hypothesis"]) for case in GOLDEN])
    for case, row in zip(GOLDEN, read_rows("impli:idioms_gold_ent", folder), strict=True):
        assert (row["idiom"], row["surface"]) == (case["idiom"], case.get("surface")), case["why"]
        if case["idiom"] is not None:
            assert row["idiom_confidence"] == round(case["confidence"], 2), case["why"]
            assert case["premise"][row["idiom_start"] : row["idiom_end"]] == case["surface"], case["why"]


def test_the_lexicon_is_sorted_and_has_every_form_once() -> None:
    lines = (ROOT / "tasks/impli/idioms.txt").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: (line.casefold(), line))
    forms = [form.strip() for line in lines for form in line.split("|")]
    assert len(forms) == len(set(forms))
    assert all(2 <= len(form) <= 60 for form in forms)


def test_offsets_are_those_of_the_surface_form_whatever_the_text(tmp_path: Path) -> None:
    generator = random.Random(0)
    words = (
        "the",
        "cat",
        "sat",
        "on",
        "a",
        "mat",
        "and",
        "hit",
        "roof",
        ",",
        ".",
        "İß",
        "\u00a0",
        "broke",
        "ice",
        "don’t",
    )
    texts = [" ".join(generator.choices(words, k=generator.randrange(1, 12))) for _ in range(400)]
    rows = read_rows("impli:idioms_gold_ent", files_of(tmp_path, zip(texts[::2], texts[1::2], strict=True)))
    idiom_rows = [row for row in rows if row["idiom"] is not None]
    assert len(rows) == 200 and idiom_rows
    for row in idiom_rows:
        assert row["premise"][row["idiom_start"] : row["idiom_end"]] == row["surface"] != ""
        assert 0 <= row["idiom_confidence"] <= 1


# ---- what `figeval benchmark analyze impli` computes -----------------------------------------------------------------

NUMBERS = count()

RISING_NUMBERS = list(range(10))


def answer(right: float | None = 1.0, *, entails: bool = True, **fields: Any) -> pair_answers.PairAnswer:
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
    return pair_answers.PairAnswer(is_entailment=entails, right=right, **{**about, **fields})


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
    assert flexibility_of_idiom == {idiom: flexibility.IdiomCount(idiom, 3, 2)}
    assert flexibility_of_idiom[idiom].flexibility == pytest.approx(2 / 3)


def test_the_rank_correlation_is_that_of_scipy_with_an_interval() -> None:
    generator = np.random.default_rng(0)
    counts = {f"i{n}": flexibility.IdiomCount(f"i{n}", 10, int(generator.integers(0, 11))) for n in range(40)}
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
    counts = {f"i{n}": flexibility.IdiomCount(f"i{n}", 10, variations) for n, variations in enumerate(varied)}
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


def training(**changes: Any) -> points.CurveTraining:
    about = {"fold": 0, "train": 3, "regime": "both", "seed": 0, "nli": 30, "pairs": 20}
    return points.CurveTraining(**{**about, **changes})


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
        read_rows(f"impli_curve:held_out?{query}")


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


@pytest.mark.slow
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


@pytest.mark.usefixtures("pairs")
def test_a_folder_with_another_curve_is_refused(tmp_path: Path, cli: Cli) -> None:
    """Neither model exists, so each command ends before its first training."""
    file = tmp_path / "c" / "curve.json"

    def complaint(model: str, *flags: str) -> str:
        return cli(
            "benchmark", "curve", "impli", "--model", f"no/{model}", "--output", file.parent, "--no_plots", *flags
        ).complaint

    def change(**fields: Any) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))

    regimes = ("--regimes", "both,non-entailment", "--nli", "30", "--pairs", "20")
    assert "choose another" not in complaint("a", "--points", "3,0", *regimes)
    tasks = {task["name"]: task for task in map(yaml.safe_load, map(Path.read_text, tmp_path.glob("c/tasks/*")))}
    names = ("fold0_train0_none_seed0", "fold0_train3_both_seed0", "fold0_train3_non_entailment_seed0")
    assert sorted(tasks) == [f"impli_curve_{name}" for name in names], "regimes share the training without pairs"
    assert tasks[f"impli_curve_{names[2]}"]["data"] == {
        "test": "impli_curve:held_out?fold=0",
        "train": "impli_curve:train?fold=0&train=3&regime=non-entailment&nli=30&pairs=20",
    }
    assert not any("floor" in task for task in tasks.values())
    assert "choose another" not in complaint("b"), "nothing was trained for the other one yet"
    change(learned={"impli_curve_fold0_train0_none_seed0": 1})
    assert "choose another" not in complaint("b", "--points", "0,9")
    assert "has a curve with a different model; choose another --output" in complaint("a")
    change(rows="0")
    assert "has a curve of different pairs than IMPLI has now" in complaint("b")
    file.write_text("[]")
    assert "is not a learning curve" in complaint("b")


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
        outcome = cli("benchmark", "curve", "impli", "--output", tmp_path / folder, *flags.split())
        assert outcome.code == 0
        printed.append(outcome.out)
        return json.loads((tmp_path / folder / "curve.json").read_text())["numbers"]

    monkeypatch.setattr(figeval, "train", train)
    monkeypatch.setattr(figeval, "run", run)
    assert cli("benchmark", "curve", "impli", "--output", tmp_path / "stopped", *flags.split()).code == 130
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
