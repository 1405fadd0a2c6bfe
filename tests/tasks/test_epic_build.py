"""`figeval build epic-mcq`: properties of the choice on invented scores, and the frozen files on the real data."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from figeval.backends.models import Model
from figeval.builtin.tasks.epic import build, distractors
from figeval.builtin.tasks.epic.build import Material
from figeval.data.formats import read_jsonl
from figeval.errors import CapabilityError, FigevalError, ModelError

FROZEN = files("figeval.builtin.tasks.epic")
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
    found = distractors.probabilities(np.array([[1.0, np.nan, 3.0], [np.nan] * 3]))
    assert np.isnan(found).tolist() == [[False, True, False], [True] * 3]
    assert found[0, [0, 2]].sum() == pytest.approx(1)


def test_a_nan_of_one_scorer_is_answered_by_the_others():
    one, two = np.array([[1.0, 2.0, np.nan]]), np.array([[5.0, 5.0, 5.0]])
    mean = distractors.averaged({"one": one, "two": two})
    assert mean[0, 2] == pytest.approx(1 / 3)
    assert mean[0, :2] == pytest.approx((distractors.probabilities(one)[0, :2] + 1 / 3) / 2)
    with pytest.raises(ModelError, match=r"all scorers \(one\) give NaN for 1 pairs"):
        distractors.averaged({"one": one})


def test_two_of_the_highest_and_two_closest_to_the_gold():
    probability = np.array([0.30, 0.20, 0.15, 0.10, 0.09, 0.06, 0.05, 0.05])
    assert distractors.adversarial(probability, 4, np.eye(8, dtype=bool)) == [0, 1, 3, 5]
    assert distractors.adversarial(probability, 0, np.eye(8, dtype=bool)) == [1, 2, 3, 4]


def test_near_duplicates_of_gold_and_of_each_other_are_passed_over():
    probability = np.array([0.30, 0.20, 0.15, 0.10, 0.09, 0.06, 0.05, 0.05])
    alike = distractors.alike_matrix("abcdefgh", ["ea", "bc", "cd"])
    assert distractors.adversarial(probability, 4, alike) == [1, 3, 5, 6]  # not a: like e; not c: like b


@st.composite
def problems(draw):
    size = draw(st.integers(8, 20))
    names = [f"Q{i}" for i in range(size)]
    groups = draw(st.lists(st.lists(st.sampled_from(names[:3]), min_size=2, max_size=3, unique=True), max_size=3))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5]), min_size=size, max_size=size))
    return np.array([scores]), draw(st.integers(0, size - 1)), distractors.alike_matrix(names, groups)


@given(problems(), st.integers())
def test_four_different_admissible_distractors(problem, seed):
    scores, gold, alike = problem
    probability = distractors.probabilities(scores)[0]
    for wrong in (
        distractors.adversarial(probability, gold, alike),
        distractors.uniform(random.Random(seed), gold, alike),
    ):
        together = [gold, *wrong]
        assert len(set(together)) == 5
        assert alike[np.ix_(together, together)].sum() == 5  # each is like itself only
    high = distractors.adversarial(probability, gold, alike)[0]
    assert probability[high] == max(p for p, near in zip(probability, alike[gold], strict=True) if not near)


def test_gold_picked_counts_ties_by_expectation_and_nan_as_not_picked():
    scores = np.array([[3.0, 1, 2], [1, 1, 0], [0, 5, 1], [np.nan, 0, 0]])
    assert distractors.gold_picked(scores, [[0, 1, 2]] * 4, [0, 1, 2, 1]) == (1.5 / 4, 1)


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
    monkeypatch.setattr(build, "listed", lambda: {"groups": [["Q0", "Q26"], ["Q1", "Q2", "Q3"]]})
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
        assert record["seed"] == 7
        assert record["scorers"] == [
            {"name": "letters", "fingerprint": "letters"},
            {"name": "shared", "fingerprint": ""},
        ]
        shares = [share["gold_picked"] for share in record["audit"]["scorers"].values()]
        assert record["audit"]["mean"] == pytest.approx(sum(shares) / 2, abs=1e-6) and record["audit"]["chance"] == 0.2
        for line, key in zip(map(json.loads, content.decode().splitlines()), invented.ids, strict=True):
            assert set(line) == {"id", "options", "gold"} and line["id"] == key
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
    one, other = ([json.loads(line) for line in f["mcq_items.jsonl"].splitlines()] for f in (a, c))
    assert [set(x["options"]) for x in one] == [set(x["options"]) for x in other]  # the seed moves no distractor
    assert [x["options"] for x in one] != [x["options"] for x in other]


def test_an_item_does_not_depend_on_the_others(invented):
    """Adding a narrative later must not reshuffle the items before it."""
    wrong = [[(gold + step) % 40 for step in (1, 2, 3, 4)] for gold in invented.gold]
    fewer = Material(invented.ids[50:], invented.narratives[50:], invented.gold[50:], invented.proverb_ids, ())
    assert build.items(invented, wrong, 7)[50:] == build.items(fewer, wrong[50:], 7)


def test_scorers_are_fitted_to_the_narratives(invented):
    model = build.open_scorer("letters")
    assert build.score_all(model, invented).shape == (200, 40)
    assert model.backend.fitted == 200


def test_what_the_user_can_mend(invented, tmp_path):
    with pytest.raises(CapabilityError, match=r"mute can neither embed nor score pairs; leave it out of --scorers"):
        run(tmp_path, "--scorers", "mute")
    with pytest.raises(FigevalError, match="--scorers names no model"):
        run(tmp_path, "--scorers", " , ")
    (tmp_path / "file").write_text("")
    with pytest.raises(FigevalError, match=r"cannot write .* choose another --output"):
        run(tmp_path / "file", "--scorers", "letters")


# ---- the frozen files ----------------------------------------------------------------------------------------------


def frozen(kind):
    return list(read_jsonl(FROZEN / f"{kind}_items.jsonl")), json.loads((FROZEN / f"{kind}_items.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_are_what_their_record_says(kind):
    lines, record = frozen(kind)
    assert hashlib.sha256((FROZEN / f"{kind}_items.jsonl").read_bytes()).hexdigest() == record["sha256"]
    assert len(lines) == record["items"] == 1000
    assert len({line["id"] for line in lines}) == 1000
    assert [scorer["name"] for scorer in record["scorers"]] == ["tfidf", "glove", "minilm"]
    for line in lines:
        check(line)


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_items_hold_no_two_near_duplicates(kind):
    groups = [set(group) for group in build.listed()["groups"]]
    for line in frozen(kind)[0]:
        assert all(len(group & set(line["options"])) <= 1 for group in groups), line


@pytest.mark.parametrize("kind", KINDS)
def test_the_gold_option_stands_everywhere_alike(kind):
    places = Counter(line["gold"] for line in frozen(kind)[0])
    assert sum((places[place] - 200) ** 2 / 200 for place in range(5)) < 18.5  # chi-squared, 4 degrees, p = .001


def test_both_kinds_ask_about_the_same_narratives():
    assert [line["id"] for line in frozen("mcq")[0]] == [line["id"] for line in frozen("mcq_random")[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_ids_are_those_of_the_seen_test_split(kind, real_data):
    material = build.read_material()
    lines = frozen(kind)[0]
    assert [line["id"] for line in lines] == list(material.ids)
    assert {name for line in lines for name in line["options"]} <= set(material.proverb_ids)
    assert len(material.proverbs) == 250 and not any("link to proverb" in text for text in material.proverbs)


def test_the_audit_can_be_recomputed(real_data):
    """With the two scorers that need no network; the mean of three is not theirs to give."""
    material = build.read_material()
    scores = {name: build.score_all(build.open_scorer(name), material) for name in ("tfidf", "glove")}
    for kind in KINDS:
        lines, record = frozen(kind)
        found = build.audit(scores, material, lines)
        for name in scores:
            assert found["scorers"][name] == record["audit"]["scorers"][name]


def test_the_random_items_can_be_rebuilt(real_data):
    """They depend on the seed alone."""
    material = build.read_material()
    lines, record = frozen("mcq_random")
    flat = {"none": np.zeros((len(material.ids), len(material.proverbs)))}
    wrong = build.choose(material, flat, record["seed"])["mcq_random"]
    assert build.items(material, wrong, record["seed"]) == lines


def test_proverbs_that_share_their_words_are_listed_as_near_duplicates(real_data):
    """The list is made by reading; this finds what an eye may miss: the content of one is within that of the other."""
    from figeval.builtin.plugins._words import words

    material = build.read_material()
    alike = distractors.alike_matrix(material.proverb_ids, build.listed()["groups"])
    stems = [{word[:5] for word in words(text) if len(word) > 3} for text in material.proverbs]
    for i, left in enumerate(stems):
        for j, right in enumerate(stems[:i]):
            within = min(len(left), len(right)) >= 2 and (left <= right or right <= left)
            assert not within or alike[i, j], (material.proverb_ids[i], material.proverb_ids[j])


def test_near_duplicates_name_proverbs_that_exist(real_data):
    content = build.listed()
    names = {name for group in content["groups"] for name in group}
    assert names <= set(build.read_material().proverb_ids)
    assert all(len(group) == len(set(group)) >= 2 for group in content["groups"])
    assert any({"Q24", "Q125"} <= set(group) for group in content["groups"])
