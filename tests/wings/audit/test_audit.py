"""`figeval audit`: blind rules on items where the answer is known beforehand, and what the command prints."""

from __future__ import annotations

import json
import random
import re

import pytest

ITEM, ALL, HALF = "the item", "all items", "the other half of the items"
OTHERS, LABELS = "items of other clusters", "the other half with its labels"
LINE = re.compile(rf"^(.*?) +({ITEM}|{ALL}|{HALF}|{OTHERS}|{LABELS}) +([.\d]+) ", re.MULTILINE)
TASK = """
name: items
type: choice
language: [en, hi, zh]
data: {test: "jsonl:items.jsonl"}
fields: {id: row.id, query: row.q, options: row.o, gold: row.g, language: row.l, meta: {word: row.w}}
cluster: word
"""


@pytest.fixture
def accuracies(cli, tmp_path):
    """Return a function that gives the accuracy of each rule, by what it knows, on items of (options, gold)."""

    def audited(items, *, clusters=None, languages=None, seed=0):
        lines = [
            {"id": f"i{i}", "q": "?", "o": options, "g": gold, "w": clusters[i] if clusters else f"w{i}", "l": language}
            for i, ((options, gold), language) in enumerate(zip(items, languages or ["en"] * len(items), strict=True))
        ]
        write(tmp_path, lines)
        done = cli("audit", "items", "--include_path", tmp_path, "--seed", seed)
        assert done.code == 0, done.err
        return {(rule, knows): float(accuracy) for rule, knows, accuracy in LINE.findall(done.out)}

    return audited


def test_position_and_length(accuracies):
    rules = accuracies([(["aa", "b", "cccc"], 2), (["bb", "b", "a"], 0), (["c", "bbb", "aa"], 1)])
    assert [rules[f"option {position}", ITEM] for position in (1, 2, 3)] == [0.333] * 3
    assert rules["longest", ITEM] == 1
    assert rules["shortest", ITEM] == 0


def test_likeness_is_by_words(accuracies):
    rules = accuracies([(["red tea", "red cup", "blue sky"], 2), (["a b", "b c", "d"], 2)])
    assert rules["least like the others", ITEM] == 1
    assert rules["most like the others", ITEM] == 0


def test_likeness_is_by_words_of_the_language(accuracies):
    options = ("कमल खिला", "काम मिला", "कमल गिरा"), ("乌龟赢了", "兔子睡觉", "乌龟慢走")
    rules = accuracies([(texts, 1) for texts in options], languages=["hi", "zh"])
    assert rules["least like the others", ITEM] == 1


def test_spelling_sees_what_words_do_not(accuracies):
    """Distractors that were chosen for one narrative share parts of words."""
    rules = accuracies([(["sailors", "sailing", "gold"], 2), (["cut", "cooking", "cooked"], 0)])
    assert rules["spelt least like any other", ITEM] == 1
    assert rules["spelt most like another", ITEM] == 0
    assert rules["least like the others", ITEM] == 0.333
    signs = accuracies([(["!", "?"], 0), ([".", "…"], 0)])
    assert signs["spelt least like any other", ITEM] == 0.5


def test_ties_count_by_expectation(accuracies):
    rules = accuracies([(["aa", "bb"], 0), (["a", "bb"], 1)])
    assert rules["longest", ITEM] == 0.75
    assert rules["shortest", ITEM] == 0.25


def test_an_option_that_is_offered_seldom_gives_itself_away(accuracies):
    """Each item has an option of its own, which is right, and two that stand everywhere."""
    rules = accuracies([([f"own {i}", "one", "two"], 0) for i in range(20)])
    assert rules["rarest", ALL] == rules["rarest", HALF] == 1
    assert rules["commonest", ALL] == rules["commonest", HALF] == 0
    assert rules["often beside the others", ALL] == 0
    assert rules["logistic regression on length and frequency", HALF] == 1


def test_options_are_the_same_whatever_their_case_and_blanks(accuracies):
    rules = accuracies([(["One", "two"], 0), ([" one ", "three"], 1), (["ONE", "four"], 1)])
    assert rules["commonest", ALL] == 0.333


def test_labels_of_the_other_half_tell_which_options_are_used_up(accuracies):
    """Each of five words is right in two of ten items, which all have the same options."""
    words = ["v", "w", "x", "y", "z"]
    rules = accuracies([(words, i % 5) for i in range(10)], clusters=words * 2)
    assert rules["rarest", ALL] == 0.2
    assert rules["right least often", LABELS] > 0.2 > rules["right most often", LABELS]
    assert rules["rarest", OTHERS] == 0.2


def test_a_cluster_is_never_in_both_halves(accuracies):
    """Each word is offered in the items of its own cluster only: those of other clusters have not met it."""
    rules = accuracies([([f"w{i % 6}", "u"], 0) for i in range(24)], clusters=[f"c{i % 6}" for i in range(24)])
    assert rules["rarest", OTHERS] == 1


def test_the_same_seed_gives_the_same_numbers(accuracies):
    items = draw_examples(40)
    assert accuracies(items, seed=3) == accuracies(items, seed=3)
    assert accuracies(items, seed=3) != accuracies(items, seed=4)


def draw_examples(n):
    generator = random.Random(0)
    return [(generator.sample("abcdefghijklmnop", 4), generator.randrange(4)) for _ in range(n)]


def write(folder, rows):
    (folder / "items.task.yaml").write_text(TASK)
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(n, **changes):
    return [
        {"id": f"i{i}", "q": "?", "o": ["no", "nay", f"yes {i}"], "g": 2, "w": f"w{i % 10}", "l": "en", **changes}
        for i in range(n)
    ]


def test_the_table_has_clustered_intervals_and_marks_what_is_off(tmp_path, cli):
    write(tmp_path, rows(40))
    done = cli("audit", "items", "--include_path", tmp_path)
    assert done.code == 0
    title, _, *lines = done.out.splitlines()
    assert title == "items, version 1: 40 examples, 10 clusters, chance .333"
    (longest,) = [line for line in lines if line.startswith("longest ")]
    assert longest.split()[3:4] == ["1.000"]
    assert longest.endswith("*")
    assert sum(line.startswith("rarest ") and line.endswith("*") for line in lines) == 3


@pytest.mark.parametrize(
    ("task", "words"),
    [("mini_pairs", "mini_pairs is a pairs task"), ("hidden", "all gold options are hidden"), ("itmes", "itmes")],
)
def test_what_cannot_be_audited_is_one_line(task, words, tmp_path, cli):
    write(tmp_path, rows(4, g=None))
    if task == "hidden":
        task = "items"
    assert words in cli("audit", task, "--include_path", tmp_path).complaint


def test_a_task_of_one_or_two_examples_or_of_one_cluster(tmp_path, cli):
    write(tmp_path, rows(1))
    assert "items: only 1 example has a gold option" in cli("audit", "items", "--include_path", tmp_path).complaint
    for number in (2, 4):
        write(tmp_path, rows(number, w="one"))
        done = cli("audit", "items", "--include_path", tmp_path)
        assert done.code == 0
        assert done.out.startswith(f"items, version 1: {number} examples, 1 cluster,")
        assert OTHERS not in done.out
