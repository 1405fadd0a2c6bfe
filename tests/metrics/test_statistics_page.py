"""The code on docs/statistics.md runs and computes what the page says, and its figures are those of the simulation."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import (
    ChoiceExample,
    GenerationExample,
    Measured,
    MetricAggregator,
    MetricContext,
    ModelError,
    Prediction,
    RankingExample,
    mean_of,
)
from figeval.metrics.differences import MAX_FALSE_ALARMS
from tests.aggregated import count_in
from tests.measured import table

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"


def defined_on_the_page() -> dict[str, Any]:
    """What the page's code defines, all of it run in order."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
        exec(block, names)
    return names


def test_the_metrics_of_the_page_work() -> None:
    names = defined_on_the_page()
    generator = np.random.default_rng(0)
    scores, gold = generator.random((60, 3)), generator.integers(0, 3, 60)
    bold = MetricAggregator("bold", mean_of(names["bold"]))
    confidence = MetricAggregator("confidence", names["confidence"])
    for row, answer in zip(scores, gold, strict=True):
        example = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=int(answer))
        prediction = Prediction(example_id="e", value=int(row.argmax()), scores=tuple(map(float, row)))
        count_in(bold, example, prediction)
        count_in(confidence, example, prediction)
    right = scores.argmax(axis=1) == gold
    ordered = np.sort(scores, axis=1)
    assert bold.score().value == pytest.approx(np.mean(ordered[:, 2] - ordered[:, 1] > 0.1))
    assert confidence.score().value == pytest.approx(np.corrcoef(scores.max(axis=1), right)[0, 1])
    assert confidence.score().interval.method == "bootstrap"
    assert (confidence.score().low or 0.0) < 0  # a correlation is not clipped to [0, 1]


def test_chance_has_the_right_value_under_the_metrics_of_the_page() -> None:
    names = defined_on_the_page()
    chosen = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=1)
    chance = Prediction(example_id="e", value=0, scores=(0.0,) * 3, tied=3)
    assert names["near_miss"](chosen, chance) == pytest.approx(2 / 3)
    assert names["near_miss"](replace(chosen, gold=None), chance) is None
    candidates = tuple(map(str, range(50)))
    ranked = RankingExample(
        id="e", query="q", candidates=candidates, relevant=frozenset({40}), near=frozenset({0, 1, 2})
    )
    tied = Prediction(example_id="e", value=0, scores=(0.0,) * 50, tied=50)
    assert names["right_before_near"](ranked, tied) == pytest.approx(1 / 4, abs=5 * 0.005)
    assert names["right_before_near"](replace(ranked, near=frozenset()), tied) is None
    auroc = names["confidence_auroc"]
    rows = [{"status": "ok", "scores": [0.0] * 3, "metrics": {"acc": 1 / 3}} for _ in range(5)]
    assert float(auroc.combine(np.array(auroc.family(rows, ["x"], {})["x"]).sum(axis=0))) == pytest.approx(0.5)


def test_the_auroc_of_the_page_is_that_of_all_pairs_of_rows() -> None:
    names = defined_on_the_page()
    generator = np.random.default_rng(1)
    confident, right = generator.integers(0, 9, 40) / 9, generator.integers(0, 2, 40)
    rows = [
        {"status": "ok", "scores": [float(score), -1.0], "metrics": {"acc": float(hit)}}
        for score, hit in zip(confident, right, strict=True)
    ]
    rows.append({"status": "refusal", "scores": [], "metrics": {}})
    *answered_rows, refused = names["auroc"](rows, ["x"], {})["x"]
    pairs = confident[right == 1][:, None] - confident[right == 0]
    expected = np.mean((pairs > 0) + (pairs == 0) / 2)
    assert refused is None
    assert float(names["confidence_auroc"].combine(np.array(answered_rows).sum(axis=0))) == pytest.approx(expected)


# ---- figures --------------------------------------------------------------------------------------------------------

MIN_SHARE = 0.93 - 2 * (0.93 * 0.07 / 4000) ** 0.5


def test_the_metric_that_asks_a_model_asks_it_once_for_all_and_counts_what_was_cut() -> None:
    class Classifier:
        capabilities = frozenset({"label_pairs"})
        fingerprint = "a-digest"

        def __init__(self) -> None:
            self.asked: list[int] = []
            self.about: dict[str, Any] = {"held_out": {"value": 0.8125, "n": 16}}

        def answer(self, pairs: Any) -> list[Any]:
            self.asked.append(len(pairs))
            return [
                ({"entailment": 0.75 if pair.left == pair.right else (0.125, 0.25)}, "long" in pair.left)
                for pair in pairs
            ]

    model = Classifier()
    context = MetricContext("follows", "models/f", "task", ("en",), lambda _name: model, dict)  # type: ignore[arg-type,return-value]
    metric = defined_on_the_page()["follows"](context)
    examples = [GenerationExample(id=text, inputs={"story": text}, references=("x",)) for text in ("a", "b", "long c")]
    texts = ["a", "", "other"]
    cases = [
        (example, Prediction(example_id=example.id, value=text)) for example, text in zip(examples, texts, strict=True)
    ]
    cut = Measured(0.25, ("texts cut to the length of the classifier",))
    assert metric.batch(cases) == [Measured(0.75), Measured(None), cut]
    assert model.asked == [2]
    assert metric.describe()["remark"] == "judged by models/f, which is right in 81.2% of 16 held-out pairs"
    model.about = {}
    with pytest.raises(ModelError, match="follows=models/f: it is no classifier of pairs with a held-out accuracy"):
        defined_on_the_page()["follows"](context)


@cache
def coverage_rows() -> list[dict[str, str]]:
    with (PAGE.parents[1] / "bench" / "coverage.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def simulated_rows(**expected: str) -> list[dict[str, str]]:
    """Rows of `bench/coverage.csv`."""
    return [row for row in coverage_rows() if all(row[key] == value for key, value in expected.items())]


def share(row: dict[str, str], digits: int = 2) -> str:
    return f"{float(row['share']):.{digits}f}".removeprefix("0")


def worst_and_mean(rows: Iterable[dict[str, str]]) -> str:
    shares = [float(row["share"]) for row in rows]
    return ", ".join(f"{number:.2f}".removeprefix("0") for number in (min(shares), sum(shares) / len(shares)))


def counts(row: dict[str, str]) -> str:
    return f"{row['clusters']} ({float(row['effective']):.0f})"


def test_the_grid() -> None:
    rows = list(table("statistics.md", "sizes of clusters | clusters (effective) | first edition: worst, mean"))
    assert len(rows) == 10
    for sizes, clusters, before, share, widths in rows:
        new, old = (simulated_rows(study="grid", sizes=sizes, rule=rule) for rule in ("figeval", "first edition"))
        assert (clusters, before, share) == (counts(new[0]), worst_and_mean(old), worst_and_mean(new))
        ratios = [(row["p"], float(row["width"]) / float(other["width"])) for row, other in zip(new, old, strict=True)]
        means = [sum(ratio for at, ratio in ratios if at == p) / 3 for p in ("0.004", "0.05", "0.5")]
        assert widths == ", ".join(f"{mean:.2f}" for mean in means)


def test_what_the_page_says_of_the_grid() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    cells = simulated_rows(study="grid", rule="figeval")
    missed = [row for row in simulated_rows(study="grid", rule="first edition") if float(row["share"]) < MIN_SHARE]
    assert f"In all {len(cells)} cells with ten or more effective clusters coverage is at least .93" in text
    assert min(float(row["share"]) for row in cells) >= 0.93
    assert f"the first edition is below .92 in {len(missed)} of them" in text
    few_rows = simulated_rows(study="few", rule="figeval")
    assert f"(.94 or more in {len(few_rows)} cells)" in text
    assert min(float(row["share"]) for row in few_rows) > 0.935
    assert min(float(row["share"]) for row in simulated_rows(study="unit", rule="figeval")) > 0.935
    rare = [
        simulated_rows(study="harder", sizes=name, case="two-point clusters", p="0.8", rule="figeval")[0]
        for name in TWO_SIZES
    ]
    assert f"coverage is {share(rare[0])} for 10 × 25 and {share(rare[1])} for 20 × 12" in text
    alike = [
        row for row in simulated_rows(study="harder", case="Beta", rule="figeval") if float(row["effective"]) >= 10
    ]
    assert min(float(row["share"]) for row in alike) > 0.91
    (large,) = simulated_rows(
        study="harder", sizes="lognormal 200 (a)", case="sizes go with accuracies", p="0.004", rule="figeval"
    )
    assert f"it falls to {share(large)} (`lognormal 200 (a)`)" in text
    silver = simulated_rows(study="grid", sizes="impli_idioms_silver_lit", rule="figeval")[0]
    assert f"has {silver['clusters']} clusters" in text
    assert f"they are worth {float(silver['effective']):.0f}" in text


TWO_SIZES = ("10 × 25", "20 × 12")


def test_other_rules_and_other_rows() -> None:
    rows = list(table("statistics.md", "clusters × rows, p = .7, correlation .2"))
    rules = ("clusters ignored", "percentile bootstrap", "first edition", "figeval")
    for sizes, *cells in rows:
        assert cells == [share(simulated_rows(study="page", sizes=sizes, rule=rule)[0]) for rule in rules]
    ranks = list(table("statistics.md", "reciprocal ranks at chance among 250"))
    for sizes, *cells in ranks:
        selection = {"study": "unit", "sizes": sizes, "case": "reciprocal ranks at chance"}
        correlation = "0.0" if sizes.endswith("rows") else "0.2"
        shares = [share(simulated_rows(**selection, correlation=correlation, rule=rule)[0]) for rule in rules[2:]]
        assert cells == shares
    assert (len(rows), len(ranks)) == (4, 6)


def test_macro_f1() -> None:
    rows = list(table("statistics.md", "macro-F1, correlation .2"))
    assert len(rows) == len({row["sizes"] for row in simulated_rows(study="macro_f1")})
    printed = []
    for sizes, effective, *cells in rows:
        rules = ("percentile bootstrap", "expanded percentiles")
        of_sizes = [
            simulated_rows(study="macro_f1", sizes=sizes, p=p, rule=rule)[0] for p in ("0.7", "0.9") for rule in rules
        ]
        assert (effective, cells) == (f"{float(of_sizes[0]['effective']):.0f}", list(map(share, of_sizes)))
        if float(of_sizes[0]["effective"]) >= 40:
            printed += [float(row["share"]) for row in of_sizes[::2]]
    assert 0.9 < min(printed) < 0.91  # what the page says of unequal sizes


def test_numbers_of_0_or_more() -> None:
    rows = list(table("statistics.md", "numbers of 0 or more"))
    assert [row[0] for row in rows] == list(dict.fromkeys(row["case"] for row in simulated_rows(study="counts")))
    for case, *cells in rows:
        by_t, by_score = (simulated_rows(study="counts", case=case, rule=rule) for rule in ("t, cut off", "figeval"))
        assert cells == [f"{share(old)}, {share(new)}" for old, new in zip(by_t, by_score, strict=True)]
        assert all(float(new["share"]) >= float(old["share"]) - 0.005 for old, new in zip(by_t, by_score, strict=True))


def test_areas_that_err_on_the_wide_side() -> None:
    rows = list(table("statistics.md", "positive and negative examples | area .5"))
    for sizes, *cells in rows:
        areas = [simulated_rows(study="auc", sizes=sizes, p=p, rule="figeval") for p in ("0.5", "0.7", "0.9", "0.99")]
        means = [np.mean([float(row["share"]) for row in of_area]) for of_area in areas]
        assert cells == [f"{mean:.3f}".removeprefix("0") for mean in means]
    assert len(rows) == 6


def test_seeds() -> None:
    rows = list(table("statistics.md", "seeds | little of the seed: worst, mean"))
    assert [row[0] for row in rows] == ["2", "3", "5"]
    for seeds, *cells in rows:
        cases = [f"{seeds} seeds, {part} of the seed" for part in ("little", "much")]
        assert cells == [worst_and_mean(simulated_rows(study="seeds", case=case, rule="figeval")) for case in cases]


CASES = {"no": "no cluster shared", "yes, half alike": "shared, half alike", "yes, alike": "shared, alike"}


def test_languages() -> None:
    rows = list(table("statistics.md", "accuracies .05 to .98, correlations 0 to .3"))
    assert len(rows) == 9
    for sizes, shared, ignored, share in rows:
        selection = {"study": "languages", "sizes": sizes, "case": CASES[shared]}
        ignoring = simulated_rows(**selection, rule="independent languages")
        assert ignored == (worst_and_mean(ignoring) if ignoring else "–")
        assert share == worst_and_mean(simulated_rows(**selection, rule="figeval"))


def test_two_kinds() -> None:
    rows = list(table("statistics.md", "positive and negative examples | clusters of the rarer kind (effective)"))
    assert len(rows) == len({row["sizes"] for row in simulated_rows(study="auc")})
    for sizes, clusters, *cells in rows:
        expected = []
        for study in ("auc", "balanced_acc"):
            old, new = (simulated_rows(study=study, sizes=sizes, rule=rule) for rule in ("one variance", "figeval"))
            expected += [worst_and_mean(old), worst_and_mean(new)]
            if study == "auc":
                ratios = [
                    (new_row["p"], float(new_row["width"]) / float(old_row["width"]))
                    for new_row, old_row in zip(new, old, strict=True)
                ]
                at = [[ratio for p, ratio in ratios if p == area] for area in ("0.5", "0.9", "0.99")]
                expected.append(", ".join(f"{sum(ratios) / len(ratios):.2f}" for ratios in at))
                assert clusters == counts(new[0])
        assert cells == expected
    for study in ("auc", "balanced_acc"):
        assert min(float(row["share"]) for row in simulated_rows(study=study, rule="figeval")) >= 0.93


def test_false_alarms() -> None:
    rows = list(table("statistics.md", "sizes of clusters | clusters (effective) | McNemar, clusters ignored"))
    assert len(rows) == 8
    rules = ("McNemar, clusters ignored", "t(G − 1)", "t, CR2", "sign flip", "figeval")
    for sizes, clusters, *cells in rows:
        selection = {"study": "paired", "sizes": sizes, "case": "lean of clusters"}
        equal = [simulated_rows(**selection, p="0.0", rule=rule)[0] for rule in rules]
        powers = ", ".join(share(simulated_rows(**selection, p="0.05", rule=rule)[0]) for rule in rules[3:])
        assert (clusters, cells) == (counts(equal[0]), [*(share(row, 3) for row in equal), powers])
    alarms = [float(row["share"]) for row in simulated_rows(study="paired", p="0.0", rule="figeval")]
    assert max(alarms) < 0.05 + 2 * (0.05 * 0.95 / 4000) ** 0.5


EQUAL_SIZES = ("20 × 12", "30 × 12", "30 × 25", "50 × 10", "50 × 25", "200 × 5")


def test_false_alarms_of_skewed_differences() -> None:
    rows = list(table("statistics.md", "sizes of clusters | clusters (effective) | sign flip"))
    rules = ("sign flip", "figeval", "corrected for skewness")
    for sizes, clusters, *cells in rows:
        shares = {
            (effect, p): [simulated_rows(study="skewed", sizes=sizes, case=case, p=p, rule=rule)[0] for rule in rules]
            for effect in ("0.04", "0.05", "0.1")
            for case in [f"a tenth of the clusters, {effect}"]
            for p in ("0.0", "-0.05")
        }
        alarms = [
            ", ".join(share(shares[effect, "0.0"][index], 3) for effect in ("0.04", "0.05", "0.1"))
            for index in range(3)
        ]
        powers = ", ".join(share(row) for row in shares["0.04", "-0.05"])
        assert (clusters, cells) == (counts(shares["0.04", "0.0"][0]), [*alarms, powers])
    skewed_sizes = {row["sizes"] for row in simulated_rows(study="skewed")}
    noted = {"20 × 12", "30 × 12", "30 × 25", "50 × 25"}  # too many, which a note says
    assert len(rows) == 15 and skewed_sizes >= {row[0] for row in rows}
    for effect in ("0.04", "0.05"):
        case = f"a tenth of the clusters, {effect}"
        for sizes in skewed_sizes - noted:
            (row,) = simulated_rows(study="skewed", sizes=sizes, case=case, p="0.0", rule="figeval")
            assert float(row["share"]) <= 0.0603, row
        for p in ("0.05", "-0.05"):
            for sizes in EQUAL_SIZES:
                flips, row = (
                    simulated_rows(study="skewed", sizes=sizes, case=case, p=p, rule=rule)[0] for rule in rules[:2]
                )
                assert row["share"] == flips["share"], "no power is lost in clusters of equal size"


def test_false_alarms_without_a_note() -> None:
    rows = list(table("statistics.md", "clusters of equal size | false alarms | without a note"))
    highest = 0.0
    for sizes, *cells in rows:
        shares = [
            [
                simulated_rows(
                    study="skewed", sizes=sizes, case=f"a tenth of the clusters, {effect}", p="0.0", rule=rule
                )[0]
                for effect in ("0.04", "0.05", "0.1")
            ]
            for rule in ("figeval", "figeval without a note")
        ]
        assert cells == [", ".join(share(row, 3) for row in rates) for rates in shares]
        alarms, silent = ([float(row["share"]) for row in rates] for rates in shares)
        assert max(silent) <= 0.062
        highest = max(highest, *(alarms if sizes != "20 × 12" else ()), 0.0)
        (same, without) = (
            simulated_rows(study="skewed", sizes=sizes, case="a tenth of the clusters, 0.04", p="0.05", rule=rule)[0][
                "share"
            ]
            for rule in ("figeval", "figeval without a note")
        )
        assert same == without or sizes == "20 × 12", "a difference that most clusters share has no note"
    assert [sizes for sizes, *_ in rows] == list(EQUAL_SIZES)
    assert f"{highest:.0%}" == f"{MAX_FALSE_ALARMS:.0%}"


def test_false_alarms_of_unequal_numbers_of_seeds() -> None:
    (heads,) = (line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| S against S, s |"))
    cases = [cell.strip().replace(" = .", " = 0.") for cell in heads.strip("|").split("|")[1:]]
    rules = ("single training ignored", "one t test", "figeval")
    rows = list(table("statistics.md", "S against S, s"))
    for (_, *cells), rule in zip(rows, rules, strict=True):
        assert cells == [share(simulated_rows(study="unequal_seeds", case=case, rule=rule)[0], 3) for case in cases]
    assert max(float(row["share"]) for row in simulated_rows(study="unequal_seeds", rule="figeval")) < 0.06


def test_prediction_powered_means() -> None:
    rows = list(table("statistics.md", "model | 20 labels"))
    for name, *cells in rows:
        kind, judge = name.split(": ")
        judge_rows = [
            row
            for row in simulated_rows(study="powered", sizes=judge, rule="figeval")
            if row["case"].startswith("yes") == (kind == "yes or no")
        ]
        for labels, cell in zip(("20", "30", "50", "100", "200"), cells, strict=True):
            few_rows = [row for row in judge_rows if row["clusters"] == labels]
            width = sum(float(row["width"]) for row in few_rows) / len(few_rows)
            assert cell == f"{share(min(few_rows, key=lambda row: float(row['share'])))}, {width:.2f}".replace(
                ", 0.", ", ."
            )
    shares = [float(row["share"]) for row in simulated_rows(study="powered", rule="figeval")]
    assert (len(rows), len(shares), sum(share < 0.93 for share in shares)) == (15, 900, 2) and min(shares) >= 0.92
    useless = [
        row
        for judge in ("useless", "always yes")
        for row in simulated_rows(study="powered", sizes=judge, rule="figeval")
    ]
    assert min(float(row["width"]) for row in useless) >= 1, "not narrower than the labels alone"
