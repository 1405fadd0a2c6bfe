"""The frozen questions of ePiC: the files, their records, what they give away, and how they are built."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from figeval import Harness
from tests.finished_runs import finished
from tests.sources import read_rows

EPIC_FOLDER = Path(__file__).parents[2] / "tasks" / "epic"

KINDS = ("mcq", "mcq_random")
FROZEN = (*KINDS, "mcq_v2")


def check(line):
    """Five different proverbs, the narrative's own exactly once and where `gold` says."""
    assert len(set(line["options"])) == 5
    assert line["options"].index(line["id"].partition("N")[0]) == line["gold"]


# ---- the frozen files ----------------------------------------------------------------------------------------------


def frozen(kind):
    lines = (EPIC_FOLDER / f"{kind}_items.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((EPIC_FOLDER / f"{kind}_items.json").read_text())


def near_duplicates():
    return [set(group) for group in json.loads((EPIC_FOLDER / "near_duplicates.json").read_text("utf-8"))["groups"]]


def proverbs():
    """Proverbs of the seen test split by id."""
    return {row["proverb_id"]: row["proverb_lower"] for row in read_rows("epic:retrieval_seen_test")}


@pytest.mark.parametrize("kind", FROZEN)
def test_the_tasks_have_the_version_of_their_items(kind):
    task = Harness().catalogue.tasks.get(f"epic_{kind}")
    assert task.version == frozen(kind)[1]["version"]


@pytest.mark.parametrize("kind", FROZEN)
def test_frozen_items_are_what_their_record_says(kind):
    lines, record = frozen(kind)
    assert hashlib.sha256((EPIC_FOLDER / f"{kind}_items.jsonl").read_bytes()).hexdigest() == record["sha256"]
    assert len(lines) == record["items"] == 1000
    assert len({line["id"] for line in lines}) == 1000
    overlap = [] if kind == "mcq_v2" else ["overlap"]
    assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", *overlap, "glove", "minilm"]
    for line in lines:
        check(line)


@pytest.mark.parametrize("kind", FROZEN)
def test_frozen_items_hold_no_two_near_duplicates(kind):
    groups = near_duplicates()
    for line in frozen(kind)[0]:
        assert all(len(group & set(line["options"])) <= 1 for group in groups), line


@pytest.mark.parametrize("kind", FROZEN)
def test_every_block_of_the_file_is_balanced(kind):
    check_blocks(frozen(kind)[0])


def check_blocks(lines):
    """Each proverb is right once and wrong four times in each quarter, and gold stands at each place equally often."""
    for start in range(0, 1000, 250):
        block = lines[start : start + 250]
        assert set(Counter(line["options"][line["gold"]] for line in block).values()) == {1}
        assert set(Counter(name for line in block for name in line["options"]).values()) == {5}
        assert Counter(line["gold"] for line in block) == dict.fromkeys(range(5), 50)


def test_all_kinds_ask_about_the_same_narratives():
    ids = [[line["id"] for line in frozen(kind)[0]] for kind in FROZEN]
    assert ids[0] == ids[1] == ids[2]


@pytest.mark.parametrize("kind", FROZEN)
def test_frozen_ids_are_those_of_the_seen_test_split(kind, real_data):
    lines, texts = frozen(kind)[0], proverbs()
    assert sorted(line["id"] for line in lines) == sorted(row["id"] for row in read_rows("epic:retrieval_seen_test"))
    assert {name for line in lines for name in line["options"]} <= set(texts)
    assert len(texts) == 250 and not any("link to proverb" in text for text in texts.values())


def test_proverbs_that_share_their_words_are_listed_as_near_duplicates(real_data):
    """The list is made by reading; this finds what an eye may miss: the content of one is within that of the other."""
    texts, groups = proverbs(), near_duplicates()
    stems = {key: {word[:5] for word in re.findall(r"\w+", text) if len(word) > 3} for key, text in texts.items()}
    for left, right in combinations(stems, 2):
        first, second = stems[left], stems[right]
        within = min(len(first), len(second)) >= 2 and (first <= second or second <= first)
        assert not within or any({left, right} <= group for group in groups), (left, right)


def test_near_duplicates_name_proverbs_that_exist(real_data):
    groups = near_duplicates()
    assert set().union(*groups) <= set(proverbs())
    assert all(len(group) >= 2 for group in groups)
    assert any({"Q24", "Q125"} <= group for group in groups)


# ---- the command ---------------------------------------------------------------------------------------------------


def built(folder):
    """Items and record by kind."""
    return {
        kind: (
            [json.loads(line) for line in (folder / f"{kind}_items.jsonl").read_text().splitlines()],
            json.loads((folder / f"{kind}_items.json").read_text()),
        )
        for kind in KINDS
    }


@pytest.mark.slow
def test_the_command_writes_items_and_records(real_data, tmp_path, cli):
    """With the scorers that need no network; the random items, which depend on the seed alone, are the frozen ones."""
    groups = json.loads((EPIC_FOLDER / "near_duplicates.json").read_text("utf-8"))["groups"]
    before, seed = frozen("mcq_random"), str(frozen("mcq")[1]["seed"])
    outcome = cli(
        "benchmark",
        "build",
        "epic-mcq",
        "--scorers",
        "tfidf, glove",
        "--seed",
        seed,
        "--steps",
        "2",
        "--output",
        tmp_path / "new",
    )
    assert outcome.code == 0 and "mcq_random_items.jsonl  1000 items" in outcome.out
    new = built(tmp_path / "new")
    assert new["mcq_random"][0] == before[0]
    for name in ("tfidf", "glove"):
        assert new["mcq_random"][1]["audit"]["scorers"][name] == before[1]["audit"]["scorers"][name]
    for kind, (lines, record) in new.items():
        content = (tmp_path / "new" / f"{kind}_items.jsonl").read_bytes()
        assert record["sha256"] == hashlib.sha256(content).hexdigest() and record["items"] == 1000
        assert (str(record["seed"]), record["steps"], record["version"]) == (seed, 2, frozen(kind)[1]["version"])
        assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", "glove"]
        assert record["audit"]["chance"] == 0.2
        assert {line["id"] for line in lines} == {line["id"] for line in before[0]}
        for line in lines:
            assert set(line) == {"id", "options", "gold"}
            check(line)
            assert all(len({*group} & {*line["options"]}) <= 1 for group in groups)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_items_and_another_one_others(real_data, tmp_path, cli):
    for number, seed in enumerate("778"):
        command = ("benchmark", "build", "epic-mcq", "--scorers", "tfidf", "--seed", seed, "--steps", "2")
        assert cli(*command, "--output", tmp_path / str(number)).code == 0
    first, again, other = (built(tmp_path / str(number))["mcq"][0] for number in range(3))
    assert first == again != other


@pytest.mark.slow
def test_the_search_brings_a_scorer_to_chance_at_either_end_and_keeps_the_balance(real_data, tmp_path, cli):
    distances = []
    for steps in (1, 100):
        command = ("benchmark", "build", "epic-mcq", "--scorers", "tfidf", "--steps", steps)
        assert cli(*command, "--output", tmp_path / str(steps)).code == 0
        lines, record = built(tmp_path / str(steps))["mcq"]
        check_blocks(lines)
        share = record["audit"]["scorers"]["tfidf"]
        distances.append(max(abs(share[end] - 0.2) for end in ("lowest", "highest")))
    assert distances[1] < 0.04
    assert distances[0] > 0.08


def test_what_the_user_can_mend(real_data, tmp_path, cli):
    (tmp_path / "file").write_text("")
    for scorers, output, words in (
        ("echo", "new", "echo can neither embed nor score pairs; leave it out of --scorers"),
        (" , ", "new", "--scorers is empty"),
        ("tfidf", "file", "choose another place with --output"),
    ):
        assert (
            words
            in cli("benchmark", "build", "epic-mcq", "--scorers", scorers, "--output", tmp_path / output).complaint
        )


USED_UP = ("items of other clusters", "right least often", "right most often")  # no items of this split are without it
LIKENESS_RULES = ("least like the question", "most like the question", "logistic regression on ranks", "rated ")
AUDITED = re.compile(r"(.+?)  +(.+?)  +(\.\d+)  +(\.\d+) to (\.\d+) *(\*?)")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Return a function that audits a kind of items: rule, what it knows, numbers and mark of each finding."""
    audits = {}

    def audited(kind, cli):
        if kind not in audits:
            folder = tmp_path_factory.mktemp("audit")
            runs = [
                finished(folder / model, f"epic_{kind}", model=model, baselines=False) for model in ("tfidf", "glove")
            ]
            done = cli("audit", f"epic_{kind}", *(part for run in runs for part in ("--run", run)))
            audits[kind] = [match.groups() for line in done.out.splitlines() if (match := AUDITED.fullmatch(line))]
        return audits[kind]

    return audited


@pytest.mark.slow
def test_nothing_but_knowing_which_proverbs_are_used_up_tells_the_right_option(findings, real_data, cli):
    """Of version 3; likeness told it in version 2, and a rule that is below chance is right when it is inverted."""
    off = {rule for rule, knows, *_, mark in findings("mcq", cli) if mark and not {rule, knows} & set(USED_UP)}
    assert off <= {"seldom beside the others"}  # which is below chance, and its inverse does not beat it
    off = {rule for rule, knows, *_, mark in findings("mcq_v2", cli) if mark and rule.startswith(LIKENESS_RULES)}
    assert {"least like the question, by TF-IDF", "least like the question, by words"} <= off


@pytest.mark.slow
@pytest.mark.parametrize("model", ["tfidf", "glove"])
def test_the_recorded_audit_is_what_runs_measure(model, findings, real_data, cli):
    recorded = frozen("mcq")[1]["audit"]["scorers"][model]
    measured = {rule: float(value) for rule, _, value, *_ in findings("mcq", cli)}
    for end in ("lowest", "highest"):
        assert measured[f"rated {end} by {model}"] == pytest.approx(recorded[end], abs=0.00051)
