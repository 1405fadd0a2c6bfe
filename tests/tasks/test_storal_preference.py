"""Value preference: versions of a moral, win rates and their sign test, and the command on real runs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import ChoiceExample, DataContext, Prediction, RecordError
from figeval.builtin.tasks.storal import storal_rows
from figeval.builtin.tasks.storal.building.antonyms import Dropped
from figeval.builtin.tasks.storal.building.items import preference
from figeval.builtin.tasks.storal.building.versions import versions
from figeval.builtin.tasks.storal.pairs import Pair
from figeval.builtin.tasks.storal.preference import win_rates
from figeval.builtin.tasks.storal.preference.options import KINDS
from figeval.builtin.tasks.storal.preference.sign_test import preferences, sign_test
from figeval.cli.main import main
from figeval.data.cache import fetch
from figeval.language import nltk_data, tagging
from figeval.testing import check_metric
from figeval.testing.fakes import FakePairScorer
from tests.finished_runs import finished

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_preference.json").read_text("utf-8"))
NAMES = ("win_antonym", "win_synonym", "win_difference")
SIZES = {"train": 656, "valid": 243, "test": 223}
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=3, max_size=3)
VALUES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.none() | st.sampled_from(["a", "b", "c", "d", "e"])), max_size=40
)


@pytest.fixture
def wordnet(real_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK with its tagger and a WordNet, which lies in a root of its own."""
    import nltk

    pytest.importorskip("lemminflect")
    pytest.importorskip("RAKE")
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, f"{real_data}/oewn/nltk_root"])
    if not nltk_data.has(tagging.PACKAGES):
        pytest.skip("no NLTK data: set NLTK_DATA to a folder with punkt_tab and averaged_perceptron_tagger_eng")


def example(kinds: Sequence[str | None]) -> ChoiceExample:
    """A question whose options are of these kinds."""
    columns = tuple({} if kind is None else {"version": kind} for kind in kinds)
    options = tuple(f"option {number}" for number in range(len(kinds)))
    return ChoiceExample(id="1", query="a story", options=options, gold=0, option_meta=columns)


def answer(scores: Sequence[float], **fields: Any) -> Prediction:
    """The answer that these scores amount to."""
    value = max(range(len(scores)), key=scores.__getitem__, default=0) if scores else 0
    return Prediction(**{"example_id": "1", "value": value, "scores": tuple(scores), **fields})


def value(name: str, example: ChoiceExample, prediction: Prediction) -> float | None:
    features = getattr(win_rates, name).features(example, prediction)
    return None if features is None else features[0]


# ---- versions of a moral ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["versions"], ids=lambda case: case["why"])
def test_versions(wordnet: None, case: dict[str, str]) -> None:
    replacements = versions(case["moral"], "0")
    if "dropped" in case:
        assert replacements == Dropped(case["dropped"])
        return
    assert not isinstance(replacements, Dropped)
    replaced = replacements.synonym.apply(case["moral"]), replacements.antonym.apply(case["moral"])
    assert replaced == (case["synonym"], case["antonym"])


def test_all_orders_are_equally_frequent_and_morals_without_versions_are_counted(wordnet: None) -> None:
    pairs = [Pair(f"test-{n}", "A story.", "Friends help." if n % 3 else "The crow.", "test") for n in range(37)]
    rows = preference(pairs, 0)
    assert len(rows.items) == 24
    assert sorted(Counter(tuple(item["order"]) for item in rows.items).values()) == [4] * 6
    assert rows.notes == {"no word with a synonym and an antonym of one sense": 13}
    assert preference(pairs, 0) == rows != preference(pairs, 1)


def test_without_the_tagger_a_build_says_in_one_line_what_to_install(
    wordnet: None, real_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [f"{real_data}/oewn/nltk_root"])
    tagging.reader.cache_clear()
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"story": "A goat met a fox.", "moral": "Friends help."}\n', "utf-8")
    output = tmp_path / "out"
    with pytest.raises(SystemExit, match="2"):
        main(["build", "storal", "--pairs", str(pairs), "--output", str(output), "--tasks", "preference"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "run `python -m nltk.downloader punkt_tab averaged_perceptron_tagger_eng`, or set NLTK_DATA" in line
    assert not output.exists()


@pytest.mark.parametrize("split", SIZES)
def test_the_frozen_versions_replace_the_same_word(split: str, real_data: str) -> None:
    rows = list(storal_rows.open(f"preference_en_{split}", DataContext(Path(), fetch)))
    assert len(rows) == SIZES[split]
    for row in rows:
        kinds = [columns["version"] for columns in row["versions"]]
        assert sorted(kinds) == sorted(KINDS)
        texts = dict(zip(kinds, row["options"], strict=True))
        assert row["options"][row["gold"]] == texts["moral"]
        assert len({text.lower() for text in texts.values()}) == 3
        assert len({len(text.split()) for text in texts.values()}) == 1
        words = [text.split() for text in (texts["moral"], texts["synonym"], texts["antonym"])]
        changed_indices = [
            {index for index, pair in enumerate(zip(words[0], other, strict=True)) if pair[0] != pair[1]}
            for other in words[1:]
        ]
        assert changed_indices[0] & changed_indices[1]  # beside the word, an article may differ
        assert all(max(indices) - min(indices) <= 1 for indices in changed_indices)
    changed_indices = Counter(row["gold"] for row in rows)
    assert max(changed_indices.values()) - min(changed_indices.values()) <= 2


# ---- win rates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["metrics"], ids=lambda case: case["why"])
def test_win_rates(case: dict[str, Any]) -> None:
    fields = {"status": case["status"], "value": None} if "status" in case else {}
    prediction = answer([float(score) for score in case["scores"]], **fields)
    for name, expected in case["expected"].items():
        assert value(name, example(case["kinds"]), prediction) == expected, name


@given(SCORES, st.permutations(KINDS))
def test_win_rates_are_what_they_are_in_any_order(scores: list[float], order: list[str]) -> None:
    question, of = example(order), dict(zip(order, scores, strict=True))
    wins = {
        kind: 1.0 if of["moral"] > of[kind] else 0.5 if of["moral"] == of[kind] else 0.0
        for kind in ("antonym", "synonym")
    }
    rates = [value(name, question, answer(scores)) for name in NAMES]
    assert rates == [wins["antonym"], wins["synonym"], wins["antonym"] - wins["synonym"]]


def test_of_several_orders_those_with_scores_count() -> None:
    answers = (
        answer([0.9, 0.1, 0.2], order=(0, 1, 2)),
        answer([0.1, 0.5, 0.2], order=(1, 0, 2)),
        answer([], value=None, status="refusal", order=(2, 1, 0)),
    )
    folded = Prediction(example_id="1", value=0, scores=(0.5, 0.5, 0.0), answers=answers)
    assert value("win_synonym", example(KINDS), folded) == 0.5
    letters = Prediction(example_id="1", value=0, scores=(1.0, 0.0, 0.0), answers=(answer([]), answer([])))
    assert value("win_synonym", example(KINDS), letters) is None  # the scores are shares of letters


def test_metrics_keep_to_the_contract() -> None:
    cases = [(example(KINDS), answer(scores)) for scores in ([0.9, 0.1, 0.2], [0.2, 0.2, 0.2], [])]
    for name in NAMES:
        check_metric(getattr(win_rates, name), cases)


# ---- the sign test ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["sign_tests"], ids=lambda case: case["why"])
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


# ---- stored runs -----------------------------------------------------------------------------------------------------

TASK = """
name: {name}
type: choice
data: {{test: "jsonl:rows.jsonl"}}
fields:
  id: row.id
  query: row.story
  options: row.options
  gold: row.gold
  option_meta: "[{{'version': 'moral'}}, {{'version': 'synonym'}}, {{'version': 'antonym'}}]"
  meta: {{moral: row.moral}}
cluster: moral
metrics: [win_antonym, win_synonym, win_difference, acc]
baselines: []
floor: no_query
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task of eight questions, of which word overlap finds the moral closer than the antonym in six."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": str(number),
            "story": "An amber fox." if number < 6 else "A brown goat.",
            "options": ["amber fox", "amber vixen", "brown goat"],
            "gold": 0,
            "moral": f"moral {number // 2}",
        }
        for number in range(8)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "own.task.yaml").write_text(TASK.format(name="own_versions"), "utf-8")
    return tmp_path


def run_of(folder: Path, *flags: str) -> Path:
    arguments = ["run", "--tasks", "own_versions", "--model", "overlap", "--output_path", str(folder / "run")]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--include_path", str(folder), *flags])
    return folder / "run"


def test_a_run_of_any_task_with_versions_is_tested(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(folder)
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", str(run), "--format", "json"])
    preferences_of_task = {(line["task"], line["metric"]): line for line in json.loads(capsys.readouterr().out)}
    assert preferences_of_task["own_versions", "win_antonym"]["test"] == {"wins": 3, "ties": 0, "losses": 1, "p": 0.625}
    assert preferences_of_task["own_versions", "win_antonym"]["score"]["value"] == 0.75
    assert preferences_of_task["own_versions", "win_synonym"]["test"] == {"wins": 3, "ties": 1, "losses": 0, "p": 0.25}
    assert preferences_of_task["own_versions@no_query", "win_antonym"]["test"]["p"] is None
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", str(run)])
    shown = capsys.readouterr().out
    assert "no p if every cluster ties" in shown
    line = next(line for line in shown.splitlines() if "own_versions " in line and "win_antonym" in line)
    assert line.split()[-4:] == ["3", "0", "1", "0.625"]


@pytest.mark.parametrize("seen", [4, 8])
def test_questions_that_a_model_has_seen_are_left_out(folder: Path, seen: int) -> None:
    run = run_of(folder)
    file = run / "predictions" / "own_versions.jsonl"
    rows_ = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    rows_ = [row | {"seen": "trained" if index < seen else None} for index, row in enumerate(rows_)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows_), "utf-8")
    record = json.loads((run / "run.json").read_text("utf-8"))
    task = record["tasks"][0]
    task["predictions_sha256"] = None
    rest = [score | {"n": 8 - seen} for score in task["scores"]] if seen < 8 else []
    task["overlap"] = {"trained": seen, "chosen": 0, "rest": 8 - seen, "scores": rest}
    (run / "run.json").write_text(json.dumps(record), "utf-8")
    antonym, *_, beyond = preferences(run)[:4]
    assert (antonym.seen, antonym.unknown, beyond.seen, beyond.unknown) == (seen, 0, seen, 0)
    if seen == 8:
        assert (antonym.test, "no valid test exists" in antonym.why) == (None, True)
        assert (beyond.test, beyond.score.value, beyond.why) == (None, None, antonym.why)
    else:
        assert antonym.test is not None
        assert (antonym.test.wins, antonym.test.losses, antonym.score.n, antonym.why) == (1, 1, 4, "")
        assert beyond.test is not None
        assert (beyond.test.ties, beyond.test.losses, beyond.score.n, beyond.score.value) == (1, 1, 4, -0.25)


WITHOUT_STORY = {"amber fox": 1.0, "amber vixen": 2.0, "brown goat": 0.0}


def closeness(story: str, option: str) -> float:
    """Words in common; without a story the synonym is liked best, and the antonym least."""
    return float(len({*story.lower().strip(".").split()} & {*option.split()})) if story else WITHOUT_STORY[option]


def test_the_difference_is_held_against_the_one_without_the_story(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the story it is 0 in six questions and −1/2 in two, without it 1 in all eight."""
    figeval.run(
        "own_versions",
        FakePairScorer(function=closeness),
        name="close",
        include_path=(folder,),
        output_path=folder / "run",
    )
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", str(folder / "run"), "--format", "json"])
    comparisons = json.loads(capsys.readouterr().out)
    (beyond,) = [comparison for comparison in comparisons if comparison["minus"]]
    assert (beyond["task"], beyond["metric"], beyond["minus"]) == ("own_versions", "win_difference", "no_query")
    assert beyond["test"] == {"wins": 0, "ties": 0, "losses": 4, "p": 0.125}
    # Four morals of two questions with means of −1, −1, −1 and −1.5: t with three degrees of freedom is 3.182.
    score = beyond["score"]
    assert (score["value"], score["stderr"], score["n"], score["clusters"]) == (-1.125, pytest.approx(0.125), 8, 4)
    assert (score["low"], score["high"]) == pytest.approx((-1.125 - 3.1824 * 0.125, -1.125 + 3.1824 * 0.125), abs=1e-4)
    assert (score["interval"], beyond["unknown"], beyond["seen"], beyond["why"]) == ("clustered t", 0, 0, "")
    assert "too few clusters (4)" in beyond["note"]
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", str(folder / "run")])
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "win_difference − no_query  " in line]
    assert line.split()[:4] == ["close", "own_versions", "win_difference", "−"]
    assert line.split()[-4:] == ["0", "0", "4", "0.125"]
    assert any("close, own_versions, win_difference − no_query: too few clusters" in line for line in lines)


def test_without_the_floor_a_note_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(folder, "--no_baselines")
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["analyze", "preference", str(run)])
    shown = capsys.readouterr().out
    reason = "no test, the run has no answers without the story; run it without --no_baselines, or with --probes"
    assert f"overlap, own_versions, win_difference − no_query: {reason}" in shown
    beyond = preferences(run)[-1]
    assert (beyond.minus, beyond.score.value, beyond.score.n, beyond.test) == ("no_query", None, 0, None)


def test_each_task_is_held_against_its_floor_once(folder: Path) -> None:
    """Neither the floor itself nor another probe is."""
    lines = preferences(run_of(folder, "--probes"))
    assert [(line.task, line.minus) for line in lines if line.minus] == [("own_versions", "shuffled_query")]
    assert {line.task for line in lines} == {
        "own_versions",
        "own_versions@no_query",
        "own_versions@shuffled_query",
    }


def test_a_run_without_win_rates_is_refused_in_one_line(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_fables")
    with pytest.raises(RecordError, match="has no win rates: it has mini_fables; run storal_preference_en") as raised:
        preferences(run)
    assert "\n" not in str(raised.value)
