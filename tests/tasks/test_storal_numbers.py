"""Numbers of STORAL: outlines of any text, antonyms, topics, negatives, splits, versions and sign tests."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Cli
from tests.finished_runs import row, run, score, store, task

FOLDER = Path(__file__).parents[1] / "golden" / "tasks"
GOLDEN, PREFERENCE = (
    json.loads((FOLDER / f"storal_{name}.json").read_text("utf-8")) for name in ("build", "preference")
)
COPIES = 30  # of a moral, for each of which a word is drawn anew

Build = Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]
Values = Sequence[tuple[float, str | None]]


@pytest.fixture
def build(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """`build("mopref", pairs, "--seed", 1)`: the rows of the training split, or of all pairs, and the report.

    Its audit leaves out the network, which takes nearly all of the time of a build.
    """
    for package in ("lemminflect", "RAKE", "jieba"):
        pytest.importorskip(package)
    monkeypatch.setattr("figeval.builtin.tasks.storal.building.builder.SCORERS", ("tfidf",))

    def built(kind: str, pairs: Iterable[tuple[str, str]], *options: Any, split: str = "train") -> Any:
        rows = [{"story": story, "moral": moral} | ({"split": split} if split else {}) for story, moral in pairs]
        (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        outcome = cli(
            "benchmark",
            "build",
            "storal",
            "--pairs",
            "in.jsonl",
            "--output",
            "out",
            "--tasks",
            kind,
            *map(str, options),
        )
        assert outcome.code == 0, outcome.err
        files = sorted((tmp_path / "out").glob(f"{kind}_*.jsonl"))
        lines = [json.loads(line) | {"split": file.stem} for file in files for line in file.read_text().splitlines()]
        return lines, json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))

    return built


@pytest.fixture
def wordnet(real_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK with its tagger and a WordNet, which lies in a root of its own."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, f"{real_data}/oewn/nltk_root"])
    try:
        nltk.data.find("corpora/wordnet.zip")
        nltk.data.find("taggers/averaged_perceptron_tagger_eng")
    except LookupError as error:
        pytest.skip(f"no NLTK data: {error}")


def fables(morals: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"Once upon a time there were {number} crows.", moral) for number, moral in enumerate(morals)]


# ---- outlines --------------------------------------------------------------------------------------------------------


def test_any_text_has_a_beginning_and_an_outline_within_its_rest(build: Build, tmp_path: Path) -> None:
    generator = random.Random(0)
    texts = ["".join(generator.choices("ab *+?[](){}^$\\|.,:!\"' -\n\t\u00a0İß1é", k=n)) for n in range(10, 200)]
    stories = dict(enumerate((f"b a {text} b".strip() for text in texts), 1))
    (tmp_path / "stop.txt").write_text("a\n")
    rows, _ = build("mo2st", [(text, "Be wise.") for text in stories.values()], "--stopwords", "stop.txt")
    assert len(rows) > 100
    for row_ in rows:
        story, rest = stories[int(row_["id"])], row_["story"]
        assert story.startswith(row_["beginning"]) and story.endswith(rest)
        assert len(row_["beginning"]) + len(rest) <= len(story)
        assert len(row_["outline"]) <= 8
        assert all(phrase in rest.lower() and phrase == phrase.strip() != "" for phrase in row_["outline"])


def test_a_phrase_that_takes_exponential_time_as_a_pattern_is_searched_for_as_a_text(build: Build) -> None:
    quantifiers = "_*" * 30 + "yeti"
    text = f"Once upon a time there was a crow, a yeti, {quantifiers} here, and {'_' * 120} zebra. " + "the crow " * 200
    ((row_,), _) = build("mo2st", [(text, "Be wise.")])
    assert quantifiers in row_["outline"]


# ---- antonyms --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("wordnet")
def test_antonyms(build: Build) -> None:
    without_antonym = {"Go in, wise one.", "Come in.", "Zebras eat grass."}
    rows, report = build("mopref", fables([*(case["moral"] for case in GOLDEN["antonyms"]), *without_antonym] * COPIES))
    replaced = {(row_["options"][row_["gold"]], row_["replaced"], row_["options"][1 - row_["gold"]]) for row_ in rows}
    for case in GOLDEN["antonyms"]:
        if case["replaced"] is None:
            assert not any((moral, word) == (case["moral"], case["word"]) for moral, word, _ in replaced), case["why"]
        else:
            assert (case["moral"], case["word"], case["replaced"]) in replaced, case["why"]
    # Stop words are replaced only where no other word has an antonym.
    assert {other for moral, _, other in replaced if moral == "Go in, wise one."} == {"Go in, foolish one."}
    assert "Come in." in {moral for moral, *_ in replaced}
    assert report["mopref"]["train"] == {"no word with an antonym": 2 * COPIES}


@pytest.mark.parametrize(
    ("language", "moral", "other"),
    [("zh", "做人要诚实。", "做人要虚伪。"), ("de", "Ende Gut, alles klar", "Ende Schlecht, alles klar")],
)
def test_antonyms_of_a_list(language: str, moral: str, other: str, build: Build, tmp_path: Path) -> None:
    (tmp_path / "antonyms.tsv").write_text("诚实\t虚伪\n\ngut\tschlecht\n", encoding="utf-8")
    ((row_,), _) = build("mopref", fables([moral]), "--antonyms", "antonyms.tsv", "--language", language)
    assert row_["options"][1 - row_["gold"]] == other


# ---- topics and negatives --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_topics_is_the_smallest_specific_one(build: Build) -> None:
    words = [
        [f"{kind}{number}" for number in range(40)] for kind in ("fox", "crow", "lion", "wolf", "goat", "frog", "hare")
    ]
    generator = random.Random(0)
    morals = [" ".join(generator.sample(words[number % len(words)], 6)) for number in range(300)]
    plain = [re.sub(r"\d", lambda digit: "abcdefghij"[int(digit.group())], moral) for moral in morals]
    learned = build("mocpt", fables(plain))[1]["mocpt"]
    assert learned["by_rule"] and min(learned["specificity"]) > 0.5
    assert learned["count"] >= 8
    assert max(learned["shares"]) <= 1 / 6 + 1 / 300
    for number in range(8, learned["count"]):
        assert min(build("mocpt", fables(plain), "--topics", number)[1]["mocpt"]["specificity"]) <= 0.5
    again = build("mocpt", fables(plain), "--topics", learned["count"])[1]["mocpt"]
    assert (again["specificity"], again["shares"]) == (learned["specificity"], learned["shares"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_negatives_are_balanced_and_of_other_topics(seed: int, build: Build) -> None:
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(60)]
    morals = [" ".join(generator.choices(words, k=5)) for _ in range(generator.randint(30, 60))]
    morals += [morals[0], f"{morals[1].upper()}!"]
    rows, report = build("mocpt", fables(morals), "--topics", 6 + 3 * seed, "--seed", seed)
    golds = Counter(row_["gold"] for row_ in rows)
    assert max(golds.values()) - min(golds[position] for position in range(5)) <= 1
    (rule,) = report["mocpt"]["rules"]["train"]
    for row_ in rows:
        gold, topics = row_["gold"], row_["topics"]
        assert row_["option_ids"][gold] == row_["id"]
        assert len({re.sub(r"\W+", " ", option.lower()).strip() for option in row_["options"]}) == 5
        if "share" in rule:
            assert topics[gold] not in topics[:gold] + topics[gold + 1 :]
        if rule == "no two options share a topic":
            assert len(set(topics)) == 5
    if "as negatives" not in rule:
        assert set(Counter(option for row_ in rows for option in row_["option_ids"]).values()) == {5}


@pytest.mark.slow
@pytest.mark.parametrize(("language", "sizes"), [("en", [1068, 355, 356]), ("zh", [3368, 420, 421])])
def test_splits_have_the_papers_proportions_and_equal_stories_are_in_one(
    language: str, sizes: list[int], build: Build
) -> None:
    stories = fables(["Be wise."] * sum(sizes))
    _, report = build("st2mo", stories, "--language", language, "--seed", 7, split="")
    assert list(report["sizes"]["st2mo"].values()) == sizes
    rows, _ = build("st2mo", [stories[number % 41] for number in range(400)], "--language", language, split="")
    assert len({(row_["story"], row_["split"]) for row_ in rows}) == 41


# ---- versions of a moral ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("wordnet")
def test_versions(build: Build) -> None:
    cases = PREFERENCE["versions"]
    rows, report = build("preference", fables([case["moral"] for case in cases] * COPIES))
    texts = [
        {columns["version"]: option for columns, option in zip(row_["versions"], row_["options"], strict=True)}
        for row_ in rows
    ]
    versions = {(text["moral"], text["synonym"], text["antonym"]) for text in texts}
    for case in cases:
        if "dropped" in case:
            assert case["moral"] not in {moral for moral, *_ in versions}, case["why"]
        else:
            assert (case["moral"], case["synonym"], case["antonym"]) in versions, case["why"]
    dropped = Counter(case["dropped"] for case in cases if "dropped" in case)
    assert report["preference"]["train"] == {reason: n * COPIES for reason, n in dropped.items()}
    orders = Counter(tuple(columns["version"] for columns in row_["versions"]) for row_ in rows)
    assert len(orders) == 6 and max(orders.values()) - min(orders.values()) <= 1


# ---- the sign test ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sign_tests(cli: Cli, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """`sign_tests(values, …)`: what `benchmark analyze preference` says of tasks with these values and clusters."""

    def tests(*tasks: Values, metric: str = "win_antonym") -> list[dict[str, Any]]:
        names = [f"task{number}" for number in range(len(tasks))]
        rows = {
            name: [row(str(n), metrics={metric: share}, cluster=cluster) for n, (share, cluster) in enumerate(values)]
            for name, values in zip(names, tasks, strict=True)
        }
        shared = {"scores": [score(metric)], "baselines": []}
        record = run(*(task(name, n=len(rows[name]), available=len(rows[name]), **shared) for name in names))
        folder = store(tmp_path / "run", record, rows)
        outcome = cli("benchmark", "analyze", "preference", folder, "--format", "json")
        assert outcome.code == 0, outcome.err
        lines = json.loads(outcome.out)
        return [line["test"] for line in lines if not line["minus"]]

    return tests


@pytest.mark.parametrize("case", PREFERENCE["sign_tests"], ids=lambda case: case["why"])
def test_sign_tests(case: dict[str, Any], sign_tests: Any) -> None:
    wins, ties, losses, p = case["expected"]
    (test,) = sign_tests(case["values"], metric="win_antonym" if "no_preference" not in case else "win_difference")
    assert test == {"wins": wins, "ties": ties, "losses": losses, "p": None if p is None else pytest.approx(p)}


def count_wins(values: Values) -> tuple[int, int, float | None]:
    """Wins, losses and p by another way: whole halves, and the sum over the tails of the binomial distribution."""
    signs = []
    clusters = {cluster for _, cluster in values if cluster is not None}
    groups = [[share for share, cluster_of_value in values if cluster_of_value == cluster] for cluster in clusters]
    for group in groups + [[share] for share, cluster in values if cluster is None]:
        signs.append(sum(round(2 * share) - 1 for share in group))
    wins, losses = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    n = wins + losses
    far = sum(math.comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(wins - losses))
    return wins, losses, far / 2**n if n else None


def test_the_sign_test_agrees_with_an_independent_computation(sign_tests: Any) -> None:
    generator = random.Random(0)
    tasks = [
        [(generator.choice([0.0, 0.5, 1.0]), generator.choice([None, *"abcde"])) for _ in range(n)]
        for n in range(1, 41)
    ]
    mirrored = [[(1 - share, cluster) for share, cluster in values] for values in tasks]
    tests = sign_tests(*tasks, *mirrored)
    for values, test, other in zip(tasks, tests, tests[len(tasks) :], strict=False):
        wins, losses, p = count_wins(values)
        assert (test["wins"], test["losses"]) == (wins, losses)
        assert test["p"] == (None if p is None else pytest.approx(p))
        assert other == test | {"wins": losses, "losses": wins}


@pytest.mark.slow
def test_p_is_not_too_small_when_morals_repeat(sign_tests: Any) -> None:
    """Forty morals with five stories each, and no preference overall: a moral's stories mostly agree."""
    generator = np.random.default_rng(0)
    trials, clustered, single = 300, [], []
    for _ in range(trials):
        inclined = generator.choice([0.1, 0.9], size=40)
        wins = generator.random((40, 5)) < inclined[:, None]
        clustered.append([(float(win), f"moral {n}") for n, wins_of_moral in enumerate(wins) for win in wins_of_moral])
        single.append([(share, None) for share, _ in clustered[-1]])
    below = [
        sum(test["p"] <= 0.05 for test in sign_tests(*tasks) if test["p"]) / trials for tasks in (clustered, single)
    ]
    assert below[0] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert below[1] > 0.2  # what the clusters are for
