"""`figeval build epic-mcq`: properties of the choice on invented scores, and the frozen files on the real data."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from figeval import CapabilityError, DataError, FigevalError, Harness, Model, ModelError
from figeval.builtin.tasks.epic import build, distractors
from figeval.builtin.tasks.epic.build import Material
from figeval.data.row_files import read_rows

EPIC_FOLDER = files("figeval.builtin.tasks.epic")
KINDS = ("mcq", "mcq_random")


# ---- the arithmetic ------------------------------------------------------------------------------------------------


def test_probabilities_do_not_depend_on_a_scorers_scale():
    scores = np.array([[0.1, 0.5, 0.9, 0.2]])
    assert distractors.probabilities(scores) == pytest.approx(distractors.probabilities(scores * 0.01 + 7))
    z = (scores - scores.mean()) / scores.std()
    assert distractors.probabilities(scores) == pytest.approx(np.exp(z) / np.exp(z).sum())


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -5e8])
def test_a_scorer_without_preference_is_uniform(value):
    assert distractors.probabilities(np.full((2, 7), value)).tolist() == [[1 / 7] * 7] * 2


def test_nan_stays_nan_and_the_others_share_the_rest():
    shares = distractors.probabilities(np.array([[1.0, np.nan, 3.0], [np.nan] * 3]))
    assert np.isnan(shares).tolist() == [[False, True, False], [True] * 3]
    assert shares[0, [0, 2]].sum() == pytest.approx(1)


def test_a_nan_of_one_scorer_is_answered_by_the_others():
    first, second = np.array([[1.0, 2.0, np.nan]]), np.array([[5.0, 5.0, 5.0]])
    mean = distractors.average_probabilities({"one": first, "two": second})
    assert mean[0, 2] == pytest.approx(1 / 3)
    assert mean[0, :2] == pytest.approx((distractors.probabilities(first)[0, :2] + 1 / 3) / 2)
    with pytest.raises(ModelError, match=r"all scorers \(one\) give NaN for 1 pairs"):
        distractors.average_probabilities({"one": first})


PROBABILITY = np.array([[0.30, 0.20, 0.15, 0.10, 0.09, 0.06, 0.05, 0.05]])


def test_what_is_probable_or_as_probable_as_the_gold_one_is_cheap():
    high, again, close, too = distractors.adversarial(PROBABILITY, np.array([4]))
    assert (np.argsort(high[0], kind="stable") == np.arange(8)).all()
    assert np.argsort(close[0], kind="stable")[:3].tolist() == [4, 3, 5]  # itself, then .10 and .06 around .09
    assert (high == again).all() and (close == too).all()


def test_random_costs_of_a_narrative_depend_on_its_name_alone():
    first, other = distractors.uniform(7, ["a", "b"], 9), distractors.uniform(7, ["b"], 9)
    assert all((row[1] == alone[0]).all() for row, alone in zip(first, other, strict=True))
    assert len({row.tobytes() for cost in first for row in cost}) == 2 * distractors.SLOTS


def test_in_each_block_every_proverb_is_right_once():
    gold = np.array([2, 0, 1, 1, 2, 0])
    assert [block.tolist() for block in distractors.blocks(gold)] == [[1, 2, 0], [5, 3, 4]]
    with pytest.raises(DataError, match="proverbs have 1 to 2 narratives"):
        distractors.blocks(np.array([0, 0, 1]))


@st.composite
def problems(draw):
    """Scores of two narratives for each of 20 to 24 proverbs, some of which are near-duplicates."""
    size = draw(st.integers(20, 24))
    groups = draw(st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=3, unique=True), max_size=2))
    gold = np.array(draw(st.permutations([*range(size), *range(size)])))
    seed = draw(st.integers(0, 2**32 - 1))
    scores = np.random.default_rng(seed).choice([0.0, 0.1, 0.2, 0.5], (2 * size, size))
    return scores, gold, distractors.alike_matrix("abcdefghijklmnopqrstuvwx"[:size], groups)


@pytest.mark.slow
@given(problems())
def test_every_proverb_is_offered_equally_often_wherever_it_is_right(problem):
    scores, gold, alike = problem
    wrong = distractors.assign_distractors(
        distractors.adversarial(distractors.probabilities(scores), gold), gold, alike
    )
    for right, wrong_options in zip(gold, wrong, strict=True):
        together = [right, *wrong_options]
        assert len(set(together)) == 5
        assert alike[np.ix_(together, together)].sum() == 5  # each is like itself only
    for block in distractors.blocks(gold):
        for slot in range(distractors.SLOTS):
            assert sorted(wrong[narrative][slot] for narrative in block) == sorted(range(len(alike)))


def test_the_cheapest_assignment_is_taken():
    """Each narrative likes one proverb, another one for each: all get what they like."""
    size = 9
    likes = [(np.arange(size) + shift) % size for shift in (1, 2, 3, 4)]
    costs = [np.where(np.arange(size) == preferred[:, None], 0.0, 1.0) for preferred in likes]
    wrong = distractors.assign_distractors(costs, np.arange(size), np.eye(size, dtype=bool))
    assert wrong == [[(right + shift) % size for shift in (1, 2, 3, 4)] for right in range(size)]


def test_too_many_near_duplicates_are_one_line():
    with pytest.raises(DataError, match="too many proverbs are near-duplicates"):
        distractors.assign_distractors([np.zeros((3, 3))] * 4, np.arange(3), np.ones((3, 3), dtype=bool))


def test_gold_picked_counts_ties_by_expectation_and_nan_as_not_picked():
    scores = np.array([[3.0, 1, 2], [1, 1, 0], [0, 5, 1], [np.nan, 0, 0]])
    assert distractors.share_picked(scores, [[0, 1, 2]] * 4, [0, 1, 2, 1]) == (1.5 / 4, 1)


# ---- the command ---------------------------------------------------------------------------------------------------


class Embedder:
    """Unit vectors by the first letter of a text; counts what it was fitted to."""

    def fit(self, examples):
        self.fitted = sum(1 for _ in examples)

    def embed(self, requests):
        return np.eye(26)[[ord(request.text[0]) - ord("a") for request in requests]] + 0.01

    def fingerprint(self):
        return "letters"


class Scorer:
    """Shared letters."""

    def score_pairs(self, requests):
        return [len(set(request.left) & set(request.right)) for request in requests]

    def fingerprint(self):
        return "shared letters"


@pytest.fixture
def invented(monkeypatch):
    """Forty proverbs with five narratives each, two fake scorers and one that can do neither."""
    proverbs = tuple(f"{chr(97 + i % 26)}{i}" for i in range(40))
    ids = tuple(f"Q{i}N{n}" for i in range(40) for n in range(5))
    narratives = tuple(f"{proverbs[i][0]} story {n}" for i in range(40) for n in range(5))
    gold = tuple(i for i in range(40) for _ in range(5))
    material = Material(ids, narratives, gold, tuple(f"Q{i}" for i in range(40)), proverbs)
    models = {"letters": Embedder(), "shared": Scorer(), "mute": object()}
    monkeypatch.setattr(build, "read_material", lambda: material)
    monkeypatch.setattr(build, "read_lists", lambda: {"groups": [["Q0", "Q26"], ["Q1", "Q2", "Q3"]]})
    monkeypatch.setattr(build, "open_scorer", lambda name: Model(name, name, models[name]))
    return material


def run(folder, *options):
    return CliRunner().invoke(build.epic_mcq, ["--output", str(folder), *options], catch_exceptions=False)


def test_the_command_writes_items_and_records(invented, tmp_path):
    result = run(tmp_path / "new", "--scorers", "letters, shared", "--seed", "7")
    assert result.exit_code == 0 and "mcq_random_items.jsonl  200 items" in result.output
    for kind in KINDS:
        content = (tmp_path / "new" / f"{kind}_items.jsonl").read_bytes()
        record = json.loads((tmp_path / "new" / f"{kind}_items.json").read_text())
        assert record["sha256"] == hashlib.sha256(content).hexdigest() and record["items"] == 200
        assert (record["seed"], record["version"]) == (7, 2)
        assert record["scorers"] == [
            {"name": "letters", "fingerprint": "letters"},
            {"name": "shared", "fingerprint": "shared letters"},
        ]
        shares = [share["gold_picked"] for share in record["audit"]["scorers"].values()]
        assert record["audit"]["mean"] == pytest.approx(sum(shares) / 2, abs=1e-6) and record["audit"]["chance"] == 0.2
        lines = list(map(json.loads, content.decode().splitlines()))
        assert sorted(line["id"] for line in lines) == sorted(invented.ids)
        for line in lines:
            assert set(line) == {"id", "options", "gold"}
            check(line)
            assert not {"Q0", "Q26"} <= set(line["options"]) and len({"Q1", "Q2", "Q3"} & set(line["options"])) <= 1


def check(line):
    """Five different proverbs, the narrative's own exactly once and where `gold` says."""
    assert len(set(line["options"])) == 5
    assert line["options"].index(line["id"].partition("N")[0]) == line["gold"]


def test_the_same_seed_gives_the_same_files_and_another_seed_other_orders(invented, tmp_path):
    for folder, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        run(tmp_path / folder, "--scorers", "letters,shared", "--seed", seed)
    a, b, c = ({path.name: path.read_bytes() for path in (tmp_path / f).iterdir()} for f in "abc")
    assert a == b and a.keys() == c.keys()
    first, other = (
        {line["id"]: line["options"] for line in map(json.loads, f["mcq_items.jsonl"].splitlines())} for f in (a, c)
    )
    assert {key: set(options) for key, options in first.items()} == {
        key: set(options) for key, options in other.items()
    }
    assert first != other  # the seed moves no distractor, only their order


def test_scorers_are_fitted_to_the_narratives(invented):
    model = build.open_scorer("letters")
    assert build.score_all(model, invented).shape == (200, 40)
    assert model.backend.fitted == 200


def test_what_the_user_can_mend(invented, tmp_path):
    with pytest.raises(CapabilityError, match=r"mute can neither embed nor score pairs; leave it out of --scorers"):
        run(tmp_path, "--scorers", "mute")
    with pytest.raises(FigevalError, match="--scorers is empty"):
        run(tmp_path, "--scorers", " , ")
    (tmp_path / "file").write_text("")
    with pytest.raises(FigevalError, match=r"cannot write .* choose another --output"):
        run(tmp_path / "file", "--scorers", "letters")


# ---- the frozen files ----------------------------------------------------------------------------------------------


def frozen(kind):
    return list(read_rows(EPIC_FOLDER / f"{kind}_items.jsonl")), json.loads(
        (EPIC_FOLDER / f"{kind}_items.json").read_text()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_have_the_version_of_their_items(kind):
    task = Harness().catalogue.tasks.get(f"epic_{kind}")
    assert task.version == frozen(kind)[1]["version"] == build.VERSION


# ---- the page ------------------------------------------------------------------------------------------------------

PAGE = (EPIC_FOLDER / "MCQ.md").read_text(encoding="utf-8").splitlines()


def rows_of(heading):
    """The cells of each row of the table on MCQ.md that begins with these cells."""
    start = next(number for number, line in enumerate(PAGE) if line.startswith(f"| {heading}"))
    for line in PAGE[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 1], ids=KINDS)
@pytest.mark.wing("audit")
def test_the_audit_on_the_page_is_that_of_the_items(column, real_data):
    from figeval.wings.audit.audit import audit

    harness = Harness()
    item_audit = audit(harness.catalogue.tasks.get(f"epic_{KINDS[column]}"), harness)
    table_rows = list(rows_of("blind rule | what it knows"))
    assert [(row[0], row[1]) for row in table_rows] == [
        (finding.rule.name, finding.rule.knows) for finding in item_audit.findings
    ]
    for row, finding in zip(table_rows, item_audit.findings, strict=True):
        numbers = [float(number) for number in re.findall(r"\.\d+", row[2 + column])]
        assert numbers[0] == pytest.approx(finding.score.value, abs=5.1e-4), finding.rule.name
        assert numbers[1:] == pytest.approx([finding.score.low, finding.score.high], abs=0.01), finding.rule.name


TELLING_RULE = "spelt least like any other"  # in adversarial items: the page says by how much
MAY_BE_WORSE = ("most like the others", "spelt most like another", "logistic regression on length and frequency")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.wing("audit")
def test_no_rule_that_reads_options_only_beats_chance(kind, real_data):
    """But for the spelling of adversarial options, and for rules that know which proverbs are used up."""
    from figeval.wings.audit.audit import audit
    from figeval.wings.audit.blind_rules import ALL, HALF, ITEM

    harness = Harness()
    item_audit = audit(harness.catalogue.tasks.get(f"epic_{kind}"), harness)
    floors = [finding for finding in item_audit.findings if finding.rule.knows in (ITEM, ALL, HALF)]
    assert len(floors) == 18
    for floor in floors:
        if kind == "mcq" and floor.rule.name == TELLING_RULE:
            assert floor.score.low > 0.2
            continue
        worse = floor.score.value < 0.2 and floor.rule.name in MAY_BE_WORSE
        assert worse or not floor.is_off, floor.rule.name


def test_the_strength_on_the_page_is_that_of_the_record():
    averaged = frozen("mcq")[1]["audit"]["averaged"]
    text = " ".join(PAGE)
    assert f"{averaged['best_two_among_ten']:.0%}".replace("%", " %") + " are among the ten most probable" in text
    assert f"have a median rank of {averaged['median_rank']:g};" in text
    assert f"pick the right proverb for {averaged['gold_picked']:.3f}".replace("0.", ".") in text


def test_strength_is_measured_by_ranks():
    strengths = distractors.strength(
        np.linspace(1, 0, 20)[None].repeat(2, 0), [[0, 1, 2, 12, 13], [3, 0, 11, 12, 19]], [0, 3]
    )
    assert strengths == {"median_rank": (8 + 12.5) / 2, "best_two_among_ten": 0.75}


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
    groups = [set(group) for group in build.read_lists()["groups"]]
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
    material = build.read_material()
    lines = frozen(kind)[0]
    assert sorted(line["id"] for line in lines) == sorted(material.ids)
    assert {name for line in lines for name in line["options"]} <= set(material.proverb_ids)
    assert len(material.proverbs) == 250 and not any("link to proverb" in text for text in material.proverbs)


@pytest.mark.slow
def test_the_audit_can_be_recomputed(real_data):
    """With the two scorers that need no network; the mean of three is not theirs to give."""
    material = build.read_material()
    scores = {name: build.score_all(build.open_scorer(name), material) for name in ("tfidf", "glove")}
    for kind in KINDS:
        lines, record = frozen(kind)
        recomputed = build.audit(scores, material, lines)
        for name in scores:
            assert recomputed["scorers"][name] == record["audit"]["scorers"][name]


def test_the_random_items_can_be_rebuilt(real_data):
    """They depend on the seed alone."""
    material = build.read_material()
    lines, record = frozen("mcq_random")
    flat = {"none": np.zeros((len(material.ids), len(material.proverbs)))}
    wrong = build.choose_distractors(material, flat, record["seed"])["mcq_random"]
    assert build.items(material, wrong, record["seed"]) == lines


def test_proverbs_that_share_their_words_are_listed_as_near_duplicates(real_data):
    """The list is made by reading; this finds what an eye may miss: the content of one is within that of the other."""
    from figeval.language.words import split_words

    material = build.read_material()
    alike = distractors.alike_matrix(material.proverb_ids, build.read_lists()["groups"])
    stems = [{word[:5] for word in split_words(text) if len(word) > 3} for text in material.proverbs]
    for i, left in enumerate(stems):
        for j, right in enumerate(stems[:i]):
            within = min(len(left), len(right)) >= 2 and (left <= right or right <= left)
            assert not within or alike[i, j], (material.proverb_ids[i], material.proverb_ids[j])


def test_near_duplicates_name_proverbs_that_exist(real_data):
    content = build.read_lists()
    names = {name for group in content["groups"] for name in group}
    assert names <= set(build.read_material().proverb_ids)
    assert all(len(group) == len(set(group)) >= 2 for group in content["groups"])
    assert any({"Q24", "Q125"} <= set(group) for group in content["groups"])
