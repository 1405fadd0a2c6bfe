"""The embedded sample keeps what its README promises: balance, no give-away words, resolvable ids, no repetition."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from fractions import Fraction
from importlib.resources import files
from itertools import combinations
from statistics import mean
from typing import Any

import pytest

Rows = list[dict[str, Any]]
MINI = files("figeval.builtin.tasks.mini")
FILES = ("proverbs", "narratives", "pairs", "fables", "situations")
TRAIN = ("train_proverbs", "train_narratives", "train_pairs", "train_fables")
FIELDS = {
    "proverbs": ["id", "proverb"],
    "narratives": ["id", "proverb_id", "narrative", "options", "gold"],
    "pairs": ["id", "premise", "hypothesis", "label", "figure", "expression", "pair"],
    "fables": ["id", "fable", "moral", "options", "gold"],
    "situations": ["id", "proverb_id", "situation", "split"],
}

LEAKED_WORDS = 0  # content words that a narrative may share with its proverb, or a fable with its moral

# Sharing one of these tells nothing about the answer.
FUNCTION_WORDS = """
    a all an and are as at be before but by can can't could did do does don't for from had has have he her him his
    how i if in into is isn't it it's its me more most my no not of off on one only or other out over own put she
    should shouldn't so some such than that the their them then there they this those to too until up us very was
    wasn't we were what when where which while who whom whose will with would you your
"""
STEM_OF_FORM = {
    "bitten": "bite", "built": "build", "caught": "catch", "cried": "cry", "crying": "cry", "fallen": "fall",
    "fed": "feed", "fell": "fall", "grew": "grow", "grown": "grow", "lain": "lie", "leapt": "leap", "life": "live",
    "lying": "lie", "made": "make", "mice": "mouse", "slept": "sleep", "speech": "speak", "spilt": "spill",
    "spoke": "speak", "spoken": "speak", "struck": "strike", "taught": "teach", "threw": "throw", "thrown": "throw",
}  # fmt: skip

# Proverbs that would both fit: never offered against each other.
NEAR_SYNONYMS = [("P01", "P04"), ("P01", "P08"), ("P04", "P08"), ("P05", "P25"), ("P03", "P15"), ("P09", "P15")]


def read_rows(name: str) -> Rows:
    text = MINI.joinpath(f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


PROVERBS, NARRATIVES, PAIRS, FABLES, SITUATIONS = map(read_rows, FILES)
PROVERB = {row["id"]: row["proverb"] for row in PROVERBS}
MORAL = {row["id"]: row["moral"] for row in FABLES}
TRAIN_PROVERBS, TRAIN_NARRATIVES, TRAIN_PAIRS, TRAIN_FABLES = map(read_rows, TRAIN)
TRAIN_PROVERB = {row["id"]: row["proverb"] for row in TRAIN_PROVERBS}
TRAIN_MORAL = {row["id"]: row["moral"] for row in TRAIN_FABLES}
TEST_CHOICES = [*((row, "narrative", PROVERB) for row in NARRATIVES), *((row, "fable", MORAL) for row in FABLES)]
CHOICES = [
    *TEST_CHOICES,
    *((row, "narrative", TRAIN_PROVERB) for row in TRAIN_NARRATIVES),
    *((row, "fable", TRAIN_MORAL) for row in TRAIN_FABLES),
]


def minimal_pairs(rows: Rows) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    return {a["pair"]: (a, b) for a, b in combinations(rows, 2) if a["pair"] == b["pair"]}


MINIMAL_PAIRS = minimal_pairs(PAIRS)
TRAIN_MINIMAL = minimal_pairs(TRAIN_PAIRS)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower().replace("’", "'"))


STOP = frozenset(words(FUNCTION_WORDS))


def stem(word: str) -> str:
    """A crude stem: enough to see feed in feeding and bite in bitten."""
    word = word.removesuffix("'s")
    word = STEM_OF_FORM.get(word, word)
    for suffix in ("ings", "ing", "ers", "ed", "er", "est", "es", "s", "ly", "en"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix)
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def content(text: str) -> set[str]:
    return {stem(word) for word in words(text) if word not in STOP}


def words_begun(text: str, short: str) -> set[str]:
    """Words of `text` that a content word of `short` begins (hand → handover), from four letters up."""
    heads = [word for word in words(short) if word not in STOP and len(word) >= 4]
    return {word for word in words(text) if any(word.startswith(head) for head in heads)}


def overlap(left: str, right: str) -> Fraction:
    a, b = set(words(left)), set(words(right))
    return Fraction(len(a & b), len(a | b))


def sentences(text: str) -> list[str]:
    return [" ".join(words(part)) for part in re.split(r"(?<=[.!?])['’]?\s+", text)]


def count(text: str) -> int:
    return len(text.split())


# ---- shape ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, *TRAIN])
def test_every_row_has_exactly_its_fields_and_no_stray_blanks(name: str) -> None:
    for row in read_rows(name):
        assert list(row) == FIELDS[name.removeprefix("train_")]
        for value in row.values():
            assert not isinstance(value, str) or (value and value == " ".join(value.split()))


def test_counts_and_unique_ids() -> None:
    all_rows = (*map(read_rows, FILES), *map(read_rows, TRAIN))
    assert [len(rows) for rows in all_rows] == [30, 60, 60, 20, 120, 10, 10, 20, 5]
    ids = [row["id"] for rows in all_rows for row in rows]
    assert len(set(ids)) == len(ids)


def test_ids_resolve_and_gold_is_the_answer() -> None:
    for row, answer, right_texts in [
        *((row, row["proverb_id"], PROVERB) for row in NARRATIVES),
        *((row, row["id"], MORAL) for row in FABLES),
        *((row, row["proverb_id"], TRAIN_PROVERB) for row in TRAIN_NARRATIVES),
        *((row, row["id"], TRAIN_MORAL) for row in TRAIN_FABLES),
    ]:
        assert len(set(row["options"])) == 5
        assert set(row["options"]) <= set(right_texts)
        assert type(row["gold"]) is int
        assert row["gold"] in range(5)
        assert row["options"][row["gold"]] == answer


def test_lengths() -> None:
    assert all(40 <= count(row["narrative"]) <= 80 for row in NARRATIVES + TRAIN_NARRATIVES)
    assert all(60 <= count(row["fable"]) <= 110 for row in FABLES + TRAIN_FABLES)
    assert all(count(row["moral"]) <= 20 and len(sentences(row["moral"])) == 1 for row in FABLES + TRAIN_FABLES)


def test_train_and_test_share_no_proverb_expression_or_moral() -> None:
    for name, rows, training_rows in [
        ("proverb", PROVERBS, TRAIN_PROVERBS),
        ("expression", PAIRS, TRAIN_PAIRS),
        ("moral", FABLES, TRAIN_FABLES),
    ]:
        test_texts = {" ".join(words(row[name])) for row in rows}
        assert test_texts.isdisjoint(" ".join(words(row[name])) for row in training_rows)


def test_aligned_words_of_train_are_in_their_narratives() -> None:
    narrative_of_id = {row["id"]: row for row in TRAIN_NARRATIVES}
    for row in read_rows("train_alignments"):
        narrative, proverb = (
            narrative_of_id[row["id"]]["narrative"],
            TRAIN_PROVERB[narrative_of_id[row["id"]]["proverb_id"]],
        )
        assert all(narrative.count(part["words"]) == 1 and part["given"] in proverb for part in row["parts"])
        assert set(row["keywords"]) <= set(re.findall(r"\w+", narrative))


# ---- balance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "each"), [(NARRATIVES, 12), (FABLES, 4), (TRAIN_NARRATIVES, 2), (TRAIN_FABLES, 1)])
def test_gold_stands_equally_often_at_every_position(rows: Rows, each: int) -> None:
    assert Counter(row["gold"] for row in rows) == dict.fromkeys(range(5), each)


@pytest.mark.parametrize(("rows", "each"), [(NARRATIVES, 10), (FABLES, 5), (TRAIN_NARRATIVES, 5), (TRAIN_FABLES, 5)])
def test_every_option_is_offered_equally_often(rows: Rows, each: int) -> None:
    """Otherwise the options without the query would tell the answer."""
    assert set(Counter(option for row in rows for option in row["options"]).values()) == {each}


def test_two_narratives_for_every_proverb() -> None:
    assert Counter(row["proverb_id"] for row in NARRATIVES) == dict.fromkeys(PROVERB, 2)


def test_three_situations_to_train_on_for_every_proverb_and_one_for_dev() -> None:
    situation_counts = Counter((row["proverb_id"], row["split"]) for row in SITUATIONS)
    assert situation_counts == {(name, split): n for name in PROVERB for split, n in (("train", 3), ("dev", 1))}


def test_pairs_are_balanced_over_label_and_figure() -> None:
    cells = Counter((row["figure"], row["label"]) for row in PAIRS)
    assert cells == {(f, label): 15 for f in ("idiom", "metaphor") for label in ("entailment", "non-entailment")}


def test_minimal_pairs() -> None:
    assert len(MINIMAL_PAIRS) == 30
    assert len(TRAIN_MINIMAL) == 10
    assert Counter(row["pair"] for row in PAIRS) == dict.fromkeys(MINIMAL_PAIRS, 2)
    for first, second in (*MINIMAL_PAIRS.values(), *TRAIN_MINIMAL.values()):
        assert {first["label"], second["label"]} == {"entailment", "non-entailment"}
        assert all(first[key] == second[key] for key in ("premise", "expression", "figure"))


def test_a_hypothesis_is_the_premise_with_its_expression_replaced() -> None:
    for row in PAIRS + TRAIN_PAIRS:
        assert row["premise"].count(row["expression"]) == 1
        before, after = row["premise"].split(row["expression"])
        assert row["hypothesis"].startswith(before)
        assert row["hypothesis"].endswith(after)
        assert row["hypothesis"] != row["premise"]


# ---- no give-away --------------------------------------------------------------------------------------------------


def test_the_leak_check_sees_inflected_words() -> None:
    assert content("The mice slept, biting") == content("A mouse sleeps; bitten")
    assert words_begun("She took the handover", "Many hands, hand") == {"handover"}


def test_the_answers_words_are_not_in_the_text() -> None:
    for row, field, texts_of_ids in CHOICES:
        text, answer = row[field], texts_of_ids[row["options"][row["gold"]]]
        leaked = (content(text) & content(answer)) | words_begun(text, answer)
        assert len(leaked) <= LEAKED_WORDS, (row["id"], leaked)


def test_a_situation_shares_no_content_word_with_its_proverb() -> None:
    for row in SITUATIONS:
        text, answer = row["situation"], PROVERB[row["proverb_id"]]
        assert not (content(text) & content(answer)) | words_begun(text, answer), row["id"]


def test_no_offered_proverb_shares_content_words_with_its_narrative() -> None:
    for row in NARRATIVES + TRAIN_NARRATIVES:
        proverbs = PROVERB | TRAIN_PROVERB
        assert not any(content(row["narrative"]) & content(proverbs[option]) for option in row["options"]), row["id"]


def test_near_synonyms_are_not_offered_against_the_answer() -> None:
    for row in NARRATIVES:
        for pair in NEAR_SYNONYMS:
            assert row["proverb_id"] not in pair or not set(pair) <= set(row["options"]), row["id"]


@pytest.mark.parametrize(("field", "right"), [("narrative", 0.16), ("fable", 0.15)])
def test_word_overlap_is_no_better_than_chance(field: str, right: float) -> None:
    """Ties count by expectation, so an option that shares nothing is not a lucky first."""
    chances = []
    for row, name, texts_of_ids in TEST_CHOICES:
        if name == field:
            scores = [overlap(row[field], texts_of_ids[option]) for option in row["options"]]
            best = [i for i, score in enumerate(scores) if score == max(scores)]
            chances.append((row["gold"] in best) / len(best))
    assert mean(chances) == pytest.approx(right, abs=5e-4)


def test_overlap_does_not_tell_the_labels_of_a_minimal_pair_apart() -> None:
    gaps = [
        overlap(a["premise"], a["hypothesis"]) - overlap(b["premise"], b["hypothesis"])
        for a, b in MINIMAL_PAIRS.values()
    ]
    assert sum(gap == 0 for gap in gaps) >= 29
    assert all(abs(gap) <= 0.03 for gap in gaps)


# ---- no repetition -------------------------------------------------------------------------------------------------


def test_no_sentence_is_shared_between_items() -> None:
    """The premise of a minimal pair is one sentence, counted once."""
    owners: dict[str, set[str]] = defaultdict(set)
    texts = [
        *((row["id"], row["proverb"]) for row in PROVERBS + TRAIN_PROVERBS),
        *((row["id"], row["narrative"]) for row in NARRATIVES + TRAIN_NARRATIVES),
        *((row["id"], row["situation"]) for row in SITUATIONS),
        *((row["id"], row[part]) for row in FABLES + TRAIN_FABLES for part in ("fable", "moral")),
        *((row["id"], row["hypothesis"]) for row in PAIRS + TRAIN_PAIRS),
        *((row["pair"], row["premise"]) for row in PAIRS + TRAIN_PAIRS),
    ]
    for owner, text in texts:
        for sentence in sentences(text):
            owners[sentence].add(owner)
    assert [sentence for sentence, shared in owners.items() if len(shared) > 1] == []


def test_no_item_occurs_twice() -> None:
    texts = [
        row[key] for rows, key in ((PROVERBS, "proverb"), (NARRATIVES, "narrative"), (FABLES, "fable")) for row in rows
    ]
    texts += [f"{row['premise']} {row['hypothesis']}" for row in PAIRS]
    assert len({tuple(words(text)) for text in texts}) == len(texts)
