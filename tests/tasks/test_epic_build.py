"""The frozen questions of ePiC: the files, their records, what their page says of them, and how they are built."""

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


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_have_the_version_of_their_items(kind):
    task = Harness().catalogue.tasks.get(f"epic_{kind}")
    assert task.version == frozen(kind)[1]["version"]


# ---- the page ------------------------------------------------------------------------------------------------------


PAGE = (EPIC_FOLDER / "MCQ.md").read_text(encoding="utf-8").splitlines()


def rows_of(heading):
    """The cells of each row of the table on MCQ.md that begins with these cells."""
    start = next(number for number, line in enumerate(PAGE) if line.startswith(f"| {heading}"))
    for line in PAGE[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_strength_on_the_page_is_that_of_the_record():
    averaged = frozen("mcq")[1]["audit"]["averaged"]
    text = " ".join(PAGE)
    assert f"{averaged['best_two_among_ten']:.0%}".replace("%", " %") + " are among the ten most probable" in text
    assert f"have a median rank of {averaged['median_rank']:g};" in text
    assert f"pick the right proverb for {averaged['gold_picked']:.3f}".replace("0.", ".") in text


def test_the_models_on_the_page_are_those_of_the_records():
    cells_of_model = {name.partition(" ")[0]: cells for name, *cells in rows_of("model | version 1")}
    for kind, column in zip(KINDS, (1, 3), strict=True):
        for name, share in frozen(kind)[1]["audit"]["scorers"].items():
            assert cells_of_model[name][column] == f"{share['gold_picked']:.3f}".removeprefix("0"), (kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_are_what_their_record_says(kind):
    lines, record = frozen(kind)
    assert hashlib.sha256((EPIC_FOLDER / f"{kind}_items.jsonl").read_bytes()).hexdigest() == record["sha256"]
    assert len(lines) == record["items"] == 1000
    assert len({line["id"] for line in lines}) == 1000
    assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", "glove", "minilm"]
    for line in lines:
        check(line)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_hold_no_two_near_duplicates(kind):
    groups = near_duplicates()
    for line in frozen(kind)[0]:
        assert all(len(group & set(line["options"])) <= 1 for group in groups), line


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_of_the_file_is_balanced(kind):
    """Each proverb is right once and wrong four times in each quarter, and gold stands at each place equally often."""
    lines = frozen(kind)[0]
    for start in range(0, 1000, 250):
        block = lines[start : start + 250]
        assert set(Counter(line["options"][line["gold"]] for line in block).values()) == {1}
        assert set(Counter(name for line in block for name in line["options"]).values()) == {5}
        assert Counter(line["gold"] for line in block) == dict.fromkeys(range(5), 50)


def test_both_kinds_ask_about_the_same_narratives():
    assert [line["id"] for line in frozen("mcq")[0]] == [line["id"] for line in frozen("mcq_random")[0]]


@pytest.mark.parametrize("kind", KINDS)
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
    outcome = cli("build", "epic-mcq", "--scorers", "tfidf, glove", "--seed", seed, "--output", tmp_path / "new")
    assert outcome.code == 0 and "mcq_random_items.jsonl  1000 items" in outcome.out
    new = built(tmp_path / "new")
    assert new["mcq_random"][0] == before[0]
    for name in ("tfidf", "glove"):
        assert new["mcq_random"][1]["audit"]["scorers"][name] == before[1]["audit"]["scorers"][name]
    for kind, (lines, record) in new.items():
        content = (tmp_path / "new" / f"{kind}_items.jsonl").read_bytes()
        assert record["sha256"] == hashlib.sha256(content).hexdigest() and record["items"] == 1000
        assert (str(record["seed"]), record["version"]) == (seed, 2)
        assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", "glove"]
        shares = [share["gold_picked"] for share in record["audit"]["scorers"].values()]
        assert record["audit"]["mean"] == pytest.approx(sum(shares) / 2, abs=1e-6) and record["audit"]["chance"] == 0.2
        assert {line["id"] for line in lines} == {line["id"] for line in before[0]}
        for line in lines:
            assert set(line) == {"id", "options", "gold"}
            check(line)
            assert all(len({*group} & {*line["options"]}) <= 1 for group in groups)


@pytest.mark.slow
def test_another_seed_gives_other_orders_of_the_same_distractors(real_data, tmp_path, cli):
    for seed in "78":
        assert cli("build", "epic-mcq", "--scorers", "tfidf", "--seed", seed, "--output", tmp_path / seed).code == 0
    first, other = ({line["id"]: line["options"] for line in built(tmp_path / seed)["mcq"][0]} for seed in "78")
    assert {key: {*options} for key, options in first.items()} == {key: {*options} for key, options in other.items()}
    assert first != other


def test_what_the_user_can_mend(real_data, tmp_path, cli):
    (tmp_path / "file").write_text("")
    for scorers, output, words in (
        ("echo", "new", "echo can neither embed nor score pairs; leave it out of --scorers"),
        (" , ", "new", "--scorers is empty"),
        ("tfidf", "file", "choose another --output"),
    ):
        assert words in cli("build", "epic-mcq", "--scorers", scorers, "--output", tmp_path / output).complaint


TELLING_RULE = "spelt least like any other"  # in adversarial items: the page says by how much
MAY_BE_WORSE = ("most like the others", "spelt most like another", "logistic regression on length and frequency")
AUDITED = re.compile(r"(.+?)  +(.+?)  +(\.\d+)  +(\.\d+) to (\.\d+) *(\*?)")


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 1], ids=KINDS)
def test_the_audit_is_that_of_the_page_and_no_rule_that_reads_options_only_beats_chance(column, real_data, cli):
    """But for the spelling of adversarial options, and for rules that know which proverbs are used up."""
    lines = cli("audit", f"epic_{KINDS[column]}").out.splitlines()
    findings = [found.groups() for line in lines if (found := AUDITED.fullmatch(line))]
    table_rows = list(rows_of("blind rule | what it knows"))
    assert [row[:2] for row in table_rows] == [[rule, knows] for rule, knows, *_ in findings]
    floors = 0
    for row, (rule, knows, *numbers, off) in zip(table_rows, findings, strict=True):
        value, low, high = map(float, numbers)
        printed = [float(number) for number in re.findall(r"\.\d+", row[2 + column])]
        assert printed[0] == pytest.approx(value, abs=1e-9), rule
        assert printed[1:] == pytest.approx([low, high], abs=0.0101), rule
        if knows in ("the item", "all items", "the other half of the items"):
            floors += 1
            if column == 0 and rule == TELLING_RULE:
                assert low > 0.2
            else:
                assert not off or (value < 0.2 and rule in MAY_BE_WORSE), rule
    assert floors == 18


@pytest.mark.slow
def test_the_recorded_audit_of_the_adversarial_items_is_what_runs_measure(real_data, tmp_path):
    """With the two scorers that need no network; the random items are audited where they are built again."""
    recorded = frozen("mcq")[1]["audit"]["scorers"]
    for model in ("tfidf", "glove"):
        run = finished(tmp_path / model, "epic_mcq", model=model, baselines=False)
        (task,) = json.loads((run / "run.json").read_text("utf-8"))["tasks"]
        assert task["scores"][0]["value"] == pytest.approx(recorded[model]["gold_picked"])
