"""STORAL from within: outlines, antonyms, topics, negatives, splits and sign tests against other computations."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataError
from figeval.builtin.tasks.storal.building import antonyms, negatives, outlines, topics
from figeval.builtin.tasks.storal.building.items import preference
from figeval.builtin.tasks.storal.building.versions import versions
from figeval.builtin.tasks.storal.pairs import Pair, draw_splits
from figeval.builtin.tasks.storal.preference.sign_test import sign_test

FOLDER = Path(__file__).parents[1] / "golden" / "tasks"
BUILD, PREFERENCE = (
    json.loads((FOLDER / f"storal_{name}.json").read_text("utf-8")) for name in ("build", "preference")
)


@pytest.fixture
def wordnet(real_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK with its tagger and a WordNet, which lies in a root of its own."""
    import nltk

    for package in ("lemminflect", "RAKE", "jieba"):
        pytest.importorskip(package)
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, f"{real_data}/oewn/nltk_root"])
    try:
        nltk.data.find("corpora/wordnet.zip")
        nltk.data.find("taggers/averaged_perceptron_tagger_eng")
    except LookupError as error:
        pytest.skip(f"no NLTK data: {error}")


texts = st.text(alphabet="ab *+?[](){}^$\\|.,:!\"' -\n\t\u00a0İß1é", max_size=200)


@given(texts)
def test_any_text_has_a_beginning_and_an_outline_within_its_rest(text):
    end, start = outlines.beginning(text, "en")
    assert 0 <= end <= start <= len(text)
    outline = outlines.outline(text, "en", ("a",))
    assert len(outline) <= 8
    for left, right in outline:
        assert start <= left < right <= len(text)
        assert text[left:right] == text[left:right].strip() != ""


def test_a_phrase_that_takes_exponential_time_as_a_pattern_is_searched_for_as_a_text():
    quantifiers = "_*" * 30 + "yeti"
    text = f"Once upon a time there was a crow, a yeti, {quantifiers} here, and {'_' * 120} zebra. " + "the crow " * 200
    assert quantifiers in [text[start:end] for start, end in outlines.outline(text, "en")]


# ---- antonyms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", BUILD["antonyms"], ids=lambda case: case["why"])
def test_antonyms(wordnet, case):
    replaced = {
        (case["moral"][replacement.start : replacement.end], replacement.apply(case["moral"]))
        for word in antonyms.WordNetAntonyms().replacements(case["moral"])
        for replacement in word
    }
    if case["replaced"] is None:
        assert not {replaced for word, replaced in replaced if word == case["word"]}
    else:
        assert (case["word"], case["replaced"]) in replaced


def test_stop_words_are_replaced_only_where_no_other_word_has_an_antonym(wordnet):
    source = antonyms.WordNetAntonyms()
    drawn = {
        antonyms.draw_replacement("Go in, wise one.", source, str(seed)).apply("Go in, wise one.") for seed in range(20)
    }
    assert drawn == {"Go in, foolish one."}
    assert not isinstance(antonyms.draw_replacement("Come in.", source, "0"), antonyms.Dropped)


def test_morals_without_an_antonym_say_why(wordnet):
    source = antonyms.WordNetAntonyms()
    assert antonyms.draw_replacement("42 — 43", source, "0") == antonyms.NO_WORDS
    assert antonyms.draw_replacement("Zebras eat grass.", source, "0") == antonyms.NO_ANTONYM


def test_antonyms_of_a_list(tmp_path):
    file = tmp_path / "antonyms.tsv"
    file.write_text("诚实\t虚伪\n\ngut\tschlecht\n", encoding="utf-8")
    chinese = antonyms.draw_replacement("做人要诚实。", antonyms.read_antonyms(file, "zh"), "0")
    german = antonyms.draw_replacement("Ende Gut, alles klar", antonyms.read_antonyms(file, "de"), "0")
    assert (chinese.apply("做人要诚实。"), german.apply("Ende Gut, alles klar")) == (
        "做人要虚伪。",
        "Ende Schlecht, alles klar",
    )


# ---- topics and negatives --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_topics_is_the_smallest_specific_one():
    words = [
        [f"{kind}{number}" for number in range(40)] for kind in ("fox", "crow", "lion", "wolf", "goat", "frog", "hare")
    ]
    generator = random.Random(0)
    morals = [" ".join(generator.sample(words[number % len(words)], 6)) for number in range(300)]
    plain = [re.sub(r"\d", lambda digit: "abcdefghij"[int(digit.group())], moral) for moral in morals]
    learned = topics.learn(plain, "en", 0)
    assert learned.by_rule and min(learned.specificity) > 0.5
    assert learned.count >= 8
    fewer = [topics.learn(plain, "en", 0, count=number) for number in range(8, learned.count)]
    assert all(min(other.specificity) <= 0.5 for other in fewer)
    again = topics.learn(plain, "en", 0, count=learned.count)
    assert again.specificity == learned.specificity
    assert again.of(plain).tolist() == learned.of(plain).tolist()
    assert max(Counter(learned.of(plain[::7] * 3).tolist()).values()) <= 22  # a sixth of 129 morals


def test_too_few_morals_for_topics_are_refused():
    with pytest.raises(DataError, match=r"fewer stories \(3\) than --topics 24"):
        topics.learn(["the wise fox", "the wise crow", "a wise lion"], "en", 0, count=24)
    with pytest.raises(DataError, match="no content words in common"):
        topics.learn(["fox", "crow", "lion"], "en", 0, count=2)


@pytest.mark.slow
@given(st.integers(30, 60), st.integers(6, 20), st.integers(0, 10**6))
def test_negatives_are_balanced_and_of_other_topics(n, k, seed):
    generator = random.Random(seed)
    morals = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz ", k=40)) for _ in range(n - 2)]
    morals += [morals[0], f"{morals[1].upper()}!"]
    of_topics = np.array([generator.randrange(k) for _ in range(n)])
    items = negatives.choose(morals, of_topics, str(seed))
    assert max(Counter(items.gold).values()) - min(Counter(items.gold)[position] for position in range(5)) <= 1
    for index, (options, gold) in enumerate(zip(items.options, items.gold, strict=True)):
        assert options[gold] == index
        assert len({negatives.normalize(morals[option]) for option in options}) == 5
        if items.rules[0] < 2:
            wrong_options = [option for option in options if option != index]
            assert all(of_topics[other] != of_topics[index] for other in wrong_options)
        if items.rules[0] == 0:
            assert len({of_topics[option] for option in options}) == 5
    if items.rules[0] < 3:
        assert set(Counter(option for options in items.options for option in options).values()) == {5}
    assert items == negatives.choose(morals, of_topics, str(seed))


def test_a_split_with_too_few_different_morals_is_refused():
    with pytest.raises(DataError, match="has only 2 others in its split"):
        negatives.choose(["Be wise.", "be WISE", "Trust nobody.", "Slow wins."], np.arange(4), "0")


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), min_size=1, max_size=60), st.integers())
def test_equal_stories_come_into_one_split(stories, seed):
    drawn = draw_splits(stories, "en", seed)
    assert len({*zip(stories, drawn, strict=True)}) == len({*stories})


@pytest.mark.parametrize(("language", "sizes"), [("en", [1068, 355, 356]), ("zh", [3368, 420, 421])])
def test_splits_are_drawn_in_the_papers_proportions(language, sizes):
    drawn = Counter(draw_splits([str(number).encode() for number in range(sum(sizes))], language, 7))
    assert [drawn["train"], drawn["valid"], drawn["test"]] == sizes


VALUES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.none() | st.sampled_from(["a", "b", "c", "d", "e"])), max_size=40
)


# ---- versions of a moral ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", PREFERENCE["versions"], ids=lambda case: case["why"])
def test_versions(wordnet: None, case: dict[str, str]) -> None:
    replacements = versions(case["moral"], "0")
    if "dropped" in case:
        assert replacements == antonyms.Dropped(case["dropped"])
        return
    assert not isinstance(replacements, antonyms.Dropped)
    replaced = replacements.synonym.apply(case["moral"]), replacements.antonym.apply(case["moral"])
    assert replaced == (case["synonym"], case["antonym"])


def test_all_orders_are_equally_frequent_and_morals_without_versions_are_counted(wordnet: None) -> None:
    pairs = [Pair(f"test-{n}", "A story.", "Friends help." if n % 3 else "The crow.", "test") for n in range(37)]
    rows = preference(pairs, 0)
    assert len(rows.items) == 24
    assert sorted(Counter(tuple(item["order"]) for item in rows.items).values()) == [4] * 6
    assert rows.notes == {"no word with a synonym and an antonym of one sense": 13}
    assert preference(pairs, 0) == rows != preference(pairs, 1)


# ---- the sign test ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", PREFERENCE["sign_tests"], ids=lambda case: case["why"])
def test_sign_tests(case: dict[str, Any]) -> None:
    wins, ties, losses, p = case["expected"]
    test = sign_test([(value, cluster) for value, cluster in case["values"]], case.get("no_preference", 0.5))
    assert (test.wins, test.ties, test.losses) == (wins, ties, losses)
    assert test.p == (None if p is None else pytest.approx(p))


def count_wins(values: Sequence[tuple[float, str | None]]) -> tuple[int, int, float | None]:
    """Wins, losses and p by another way: whole halves, and the sum over the tails of the binomial distribution."""
    signs = []
    clusters = {cluster for _, cluster in values if cluster is not None}
    groups = [[value for value, cluster_of_value in values if cluster_of_value == cluster] for cluster in clusters]
    for group in groups + [[value] for value, cluster in values if cluster is None]:
        signs.append(sum(round(2 * value) - 1 for value in group))
    wins, losses = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    n = wins + losses
    far = sum(math.comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(wins - losses))
    return wins, losses, far / 2**n if n else None


@given(VALUES)
def test_the_sign_test_agrees_with_an_independent_computation(values: list[tuple[float, str | None]]) -> None:
    test = sign_test(values, 0.5)
    wins, losses, p = count_wins(values)
    assert (test.wins, test.losses) == (wins, losses)
    assert test.p == (None if p is None else pytest.approx(p))
    mirrored = sign_test([(1 - value, cluster) for value, cluster in values], 0.5)
    assert (mirrored.wins, mirrored.ties, mirrored.losses) == (test.losses, test.ties, test.wins)
    assert mirrored.p == (None if p is None else pytest.approx(p))


@pytest.mark.slow
def test_p_is_not_too_small_when_morals_repeat() -> None:
    """Forty morals with five stories each, and no preference overall: a moral's stories mostly agree."""
    generator = np.random.default_rng(0)
    runs, below = 1000, Counter[str]()
    for _ in range(runs):
        inclined = generator.choice([0.1, 0.9], size=40)
        wins = generator.random((40, 5)) < inclined[:, None]
        values = [(float(win), f"moral {number}") for number, wins_of_moral in enumerate(wins) for win in wins_of_moral]
        for name, rows_ in (("clusters", values), ("questions", [(value, None) for value, _ in values])):
            p = sign_test(rows_, 0.5).p
            below[name] += p is not None and p <= 0.05
    assert below["clusters"] / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert below["questions"] / runs > 0.2  # what the clusters are for
