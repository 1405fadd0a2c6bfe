"""`figeval audit`: simple rules on items where the answer is known beforehand, and what the command prints."""

from __future__ import annotations

import json
import random
import re

import pytest

ITEM, ALL, HALF = "the item", "all items", "the other half of the items"
OTHERS, LABELS, QUESTION = (
    "items of other clusters",
    "the other half with its labels",
    "the item and its question",
)
LINE = re.compile(rf"^(.*?) +({QUESTION}|{ITEM}|{ALL}|{HALF}|{OTHERS}|{LABELS}) +([.\d]+) ", re.MULTILINE)
RANKS = "logistic regression on ranks by likeness to the question"
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

    def audited(items, *, clusters=None, languages=None, questions=None, seed=0):
        lines = [
            {
                "id": f"i{i}",
                "q": questions[i] if questions else "?",
                "o": options,
                "g": gold,
                "w": clusters[i] if clusters else f"w{i}",
                "l": languages[i] if languages else "en",
            }
            for i, (options, gold) in enumerate(items)
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


WORDS = "abcdefghijklmnopqrstuvwxyz"


def unlike_items(n):
    """Two wrong options share a word with the question and the right one shares none, as if chosen to mislead."""
    generator = random.Random(1)
    for _ in range(n):
        question, other = (word * 3 for word in generator.sample(WORDS, 2))
        options, gold = [f"the {question}", f"a {question}"], generator.randrange(3)
        yield f"{question} again", ([*options[:gold], f"an {other}", *options[gold:]], gold)


def test_the_option_least_like_the_question_gives_itself_away(accuracies):
    questions, items = zip(*unlike_items(60), strict=True)
    rules = accuracies(items, questions=questions)
    for name in ("by words", "by TF-IDF", "by spelling"):
        assert rules[f"least like the question, {name}", QUESTION] == 1
        assert rules[f"most like the question, {name}", QUESTION] == 0
    assert rules[RANKS, LABELS] == rules["logistic regression on all these ranks", LABELS] == 1


def test_words_of_a_question_are_those_of_its_language(accuracies):
    items, questions = [(("乌龟赢了", "兔子睡觉"), 0), (("कमल गिरा", "काम मिला"), 0)], ("兔子在睡觉", "काम")
    rules = accuracies(items, questions=questions, languages=["zh", "hi"])
    assert rules["least like the question, by words", QUESTION] == 1


def test_a_question_that_tells_nothing_leaves_chance(accuracies):
    rules = accuracies([(["one", "two"], i % 2) for i in range(6)])
    tied = [accuracy for (rule, _), accuracy in rules.items() if "like the question, by" in rule]
    assert tied == [0.5] * 6


def test_scores_of_a_run_are_rules_of_the_audit(tmp_path, cli):
    questions, items = zip(*unlike_items(24), strict=True)
    lines = [{**row, "q": q, "o": o, "g": g} for row, q, (o, g) in zip(rows(24), questions, items, strict=True)]
    write(tmp_path, lines)
    task = TASK.replace("[en, hi, zh]", "en")
    (tmp_path / "items.task.yaml").write_text(task)
    run = ("run", "--tasks", "items", "--include_path", tmp_path, "--model", "overlap", "--no_baselines")
    assert cli(*run, "--output_path", tmp_path / "run").code == 0
    assert cli(*run, "--limit", 5, "--output_path", tmp_path / "part").code == 0
    audit = ("audit", "items", "--include_path", tmp_path, "--run")
    done = cli(*audit, tmp_path / "run")
    rules = {rule: float(accuracy) for rule, _, accuracy in LINE.findall(done.out)}
    assert (rules["rated lowest by overlap"], rules["rated highest by overlap"]) == (1, 0)
    assert "no scores for the options of 19 of 24 examples" in cli(*audit, tmp_path / "part").complaint
    (tmp_path / "items.task.yaml").write_text(task + "version: 2\n")
    assert "is a run of version 1 of items, not of version 2" in cli(*audit, tmp_path / "run").complaint


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


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(accuracies):
    items = draw_examples(20)
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


@pytest.mark.slow
def test_a_task_of_one_or_two_examples_or_of_one_cluster(tmp_path, cli):
    write(tmp_path, rows(1))
    assert "items: only 1 example has a gold option" in cli("audit", "items", "--include_path", tmp_path).complaint
    for number in (2, 4):
        write(tmp_path, rows(number, w="one"))
        done = cli("audit", "items", "--include_path", tmp_path)
        assert done.code == 0
        assert done.out.startswith(f"items, version 1: {number} examples, 1 cluster,")
        assert OTHERS not in done.out
