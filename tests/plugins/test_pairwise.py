"""Pairwise preference: the contract of a task type, votes and ties, both orders, and what cannot be scored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import log_loss

import figeval
from figeval import Harness, load
from figeval.testing import check_task_type
from figeval.testing.fakes import FakeEncoder, FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "plugins" / "pairwise.json").read_text("utf-8"))
PAIRWISE = Harness().task_types.get("pairwise")
METRICS = ("agreement", "vote_agreement", "manhattan", "jsd", "log_loss", "kendall")
TEXTS = ("The crow sang.", "A bird made music!", "It rained.")
TASK = """\
name: preferred
description: Which sentence do people prefer?
type: pairwise
data: {test: "jsonl:preferred.jsonl"}
fields: {id: row.id, query: row.query, options: row.options, votes: row.votes, tie: row.tie}
metrics: [agreement, vote_agreement, manhattan, jsd, log_loss, kendall]
"""


def preference_row(number: int, votes: Any, options: Sequence[str] = TEXTS[:2], **fields: Any) -> dict[str, Any]:
    shared = {"options": list(options), "query": "Say it.", "tie": "They are equally good."}
    return {"id": str(number), "votes": votes, **shared, **fields}


ROWS = [preference_row(1, [6, 1, 1]), preference_row(2, [1, 5, 2])]


def write_task(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """A task of these rows; the path of its folder."""
    (folder / "preferred.task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "preferred.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


def preferences(folder: Path, rows: Sequence[Mapping[str, Any]], model: Any, route: str = "") -> Any:
    """The finished task of these rows, answered by a model."""
    options: Any = {"include_path": (write_task(folder, rows),), "output_path": folder / "out", "baselines": False}
    run = figeval.run("preferred", model, **options, routes={"pairwise": route} if route else {})
    (task,) = run.record.tasks
    assert task.status == "done", task.error
    return task


def questions(model: Any) -> list[str]:
    """What a model was asked."""
    return [prompt.messages[-1].content for prompt in model.asked]


def values(task: Any) -> dict[str, Any]:
    """The values of its scores, by metric."""
    return {score.metric: score.value for score in task.scores}


def given_scores(rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The scores of another system."""
    with TemporaryDirectory() as folder:
        include = (write_task(Path(folder), rows),)
        numbered = [{"id": row["id"], **answer} for row, answer in zip(rows, answers, strict=True)]
        run = figeval.score(
            "preferred", numbered, name="s", include_path=include, output_path=Path(folder) / "out", baselines=False
        )
        return values(run.record.tasks[0])


# ---- the contract, and the metrics -----------------------------------------------------------------------------------


def test_the_task_type_keeps_to_the_contract() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "1", "query": "Say it.", "options": TEXTS[:2], "votes": [3, 1, 1]},
        {"id": "2", "query": "Say that.", "options": TEXTS[1:], "votes": [0, 2]},
        {"id": "3", "query": "Tell.", "options": TEXTS, "votes": "tie"},
        {"id": "4", "query": "Sing.", "options": TEXTS, "votes": None},
    ]
    check_task_type(type(PAIRWISE), rows, replies=["A", "B.", "C", "They are equally good.", "The crow sang."])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
def test_golden_cases(case: dict[str, Any]) -> None:
    answer: dict[str, Any] = {name: case[name] for name in ("prediction", "scores") if name in case}
    scores = given_scores([preference_row(1, case["votes"], TEXTS[: case.get("options", 2)])], [answer])
    for name, value in case["scores_of"].items():
        assert scores[name] == (value if value is None else pytest.approx(value, abs=1e-12)), name


counts = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@settings(max_examples=10)
@given(st.lists(st.tuples(counts.filter(any), counts.map(lambda row: [n + 1 for n in row])), min_size=1, max_size=12))
def test_metrics_are_those_of_scipy_and_scikit_learn(pairs: list[tuple[list[int], list[int]]]) -> None:
    shares = [[weight / sum(row) for weight in row] for _, row in pairs]
    rows = [preference_row(n, votes, TEXTS) for n, (votes, _) in enumerate(pairs)]
    scores = given_scores(rows, [{"scores": row} for row in shares])
    losses = [
        log_loss(range(4), [share] * 4, sample_weight=votes, labels=range(4))
        for (votes, _), share in zip(pairs, shares, strict=True)
    ]
    assert scores["log_loss"] == pytest.approx(math.fsum(losses) / len(losses), abs=1e-9)
    taus = [
        stats.kendalltau(share[:3], votes[:3]).statistic
        for (votes, _), share in zip(pairs, shares, strict=True)
        if len(set(share[:3])) > 1 and len(set(votes[:3])) > 1
    ]
    assert scores["kendall"] == (pytest.approx(math.fsum(taus) / len(taus)) if taus else None)


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        ([1], "[1] has another form than votes"),
        ([1, 2, 3, 4], "[1, 2, 3, 4] has another form than votes"),
        ([0, 0, 0], "there are no votes; write null if they are hidden"),
        ([1, -1], "-1 is not a number of votes"),
        ([1, True], "True is not a number of votes"),
        ([1, 10**400], "is not a number of votes"),
        (2, "2 is out of range for 2 texts (0 to 1); a tie is written 'tie'"),
        ("A", "'A' has another form than votes"),
        ({"0": 1}, "has another form than votes"),
    ],
)
def test_votes_that_are_none_are_one_line(votes: Any, words: str, tmp_path: Path, cli: Cli) -> None:
    folder = write_task(tmp_path, [preference_row(1, votes)])
    done = cli("run", "--include_path", folder, "--tasks", "preferred", "--model", "chance", "--output_path", "out")
    assert done.code == 2
    (line,) = (line for line in done.err.splitlines() if words in line)
    assert "row 1" in line
    assert "field 'votes'" in line


def test_one_text_is_no_comparison(tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, [preference_row(1, None, TEXTS[:1]), preference_row(2, 0)])
    done = cli("validate", tmp_path / "preferred.task.yaml")
    assert done.code == 2
    assert "there is only one text" in done.out


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("tie", " ", "write none if there is no such option"), ("options", ["a", " "], "a text is empty")],
)
def test_texts_that_are_empty_are_refused(field: str, value: Any, words: str, tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, [preference_row(1, 0, **{field: value})])
    assert words in cli("validate", tmp_path / "preferred.task.yaml").out


@pytest.mark.parametrize(("setting", "words"), [("temperature: 0", "above 0"), ("nu: -1", "at least 0")])
def test_settings_that_give_no_probabilities_are_refused(setting: str, words: str, tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, ROWS)
    file = tmp_path / "preferred.task.yaml"
    file.write_text(f"{TASK}settings: {{{setting}}}\n", encoding="utf-8")
    assert words in cli("validate", file).out


def test_ties_of_rewards_are_davidsons(tmp_path: Path) -> None:
    """For two texts, P(tie) : P(a) is ν √(π_a π_b) : π_a; a task may shuffle the texts, and the votes follow."""
    write_task(tmp_path, [preference_row(1, [3, 1, 2])])
    settings_of_task = "settings: {nu: 0.5, temperature: 2}\nshuffle_options: {seed: 4}\n"
    (tmp_path / "preferred.task.yaml").write_text(TASK + settings_of_task, encoding="utf-8")
    model = FakePairScorer(function=lambda _query, text: {TEXTS[0]: 3.0, TEXTS[1]: 1.0}[text])
    options: Any = {"include_path": (str(tmp_path),), "output_path": tmp_path / "out", "baselines": False}
    run = figeval.run("preferred", model, **options, routes={"pairwise": "by_reward"})
    a, b, tie = math.exp(1.5), math.exp(0.5), 0.5 * math.exp(1.0)
    loss = -math.fsum(n * math.log(p / (a + b + tie)) for n, p in ((3, a), (1, b), (2, tie))) / 6
    assert values(run.record.tasks[0])["log_loss"] == pytest.approx(loss)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"scores": [1.0, 2.0, 3.0]}, "the 3 scores are no probabilities"),
        ({"scores": [1.0]}, "there are 1 scores for 2 texts"),
        ({"prediction": "C"}, "'C' is none of the 2 texts"),
        ({"prediction": 2}, "2 is out of range for 2 texts"),
    ],
)
def test_predictions_of_another_form_are_refused(answer: dict[str, Any], words: str) -> None:
    with pytest.raises(figeval.DataError) as raised:
        given_scores([preference_row(1, [2, 1])], [answer])
    assert words in str(raised.value)


# ---- routes ----------------------------------------------------------------------------------------------------------


def test_a_model_that_always_takes_the_first_text_has_no_preference(tmp_path: Path, cli: Cli) -> None:
    task = preferences(tmp_path, ROWS, FakeGenerator(function=lambda _question: "A"))
    assert task.route == "by_letter"
    scores = values(task)
    assert (scores["agreement"], scores["first_rate"], scores["consistency"]) == (0.5, 1.0, 0.0)
    assert scores["log_loss"] is None
    assert cli("rescore", tmp_path / "out", "--include_path", tmp_path).code == 0
    assert values(load(tmp_path / "out").record.tasks[0]) == scores


def test_a_model_that_knows_the_text_is_the_same_in_both_orders(tmp_path: Path, cli: Cli) -> None:
    model = FakeGenerator(function=lambda question: "A" if "A. The crow" in question else "B")
    scores = values(preferences(tmp_path, ROWS, model))
    assert (scores["agreement"], scores["first_rate"], scores["consistency"]) == (0.5, 0.5, 1.0)
    assert scores["vote_agreement"] == pytest.approx((6 / 8 + 1 / 8) / 2)
    assert {question.count("\nA. The crow") for question in questions(model)} == {0, 1}
    assert cli("rescore", tmp_path / "out", "--include_path", tmp_path).code == 0
    assert values(load(tmp_path / "out").record.tasks[0]) == scores


def test_replies_that_call_the_texts_equal_are_the_rest_of_a_distribution(tmp_path: Path, cli: Cli) -> None:
    model = FakeGenerator(function=lambda question: "C" if "A. The crow" in question else "They are equally good.")
    scores = values(preferences(tmp_path, ROWS, model))
    assert (scores["agreement"], scores["first_rate"], scores["consistency"]) == (0.5, None, 1.0)
    assert scores["vote_agreement"] == pytest.approx((1 / 8 + 2 / 8) / 2)
    assert scores["manhattan"] == pytest.approx((7 / 4 + 6 / 4) / 2)
    assert scores["log_loss"] is None  # of two replies
    rows = load(tmp_path / "out").predictions("preferred")
    assert [(row["prediction"], row["tied"]) for row in rows.to_dict("records")] == [(2, 1), (2, 1)]
    assert cli("rescore", tmp_path / "out", "--include_path", tmp_path).code == 0
    assert values(load(tmp_path / "out").record.tasks[0]) == scores


def test_three_texts_take_every_place_once_and_a_task_may_have_no_tie(tmp_path: Path) -> None:
    model = FakeGenerator(function=lambda _question: "B")
    scores = values(preferences(tmp_path, [preference_row(1, [0, 0, 2], TEXTS, tie=None)], model))
    assert (scores["agreement"], scores["first_rate"]) == (pytest.approx(1 / 3), 0.0)
    assert len(model.asked) == 3
    assert all("D. " not in question for question in questions(model))


def test_the_preference_for_a_letter_cancels(tmp_path: Path) -> None:
    likelihoods = {" A": -0.5, " B": -1.0, " C": -3.0}
    model = FakeLanguageModel(function=lambda _context, letter: likelihoods.get(letter, -9.0))
    scores = values(preferences(tmp_path, ROWS, model, "by_letter_likelihood"))
    assert (scores["agreement"], scores["first_rate"], scores["consistency"]) == (0.5, 1.0, 0.0)
    tie = math.exp(-3) / sum(map(math.exp, likelihoods.values()))
    losses = [-((1 - t) * math.log((1 - tie) / 2) + t * math.log(tie)) for t in (1 / 8, 2 / 8)]
    assert scores["log_loss"] == pytest.approx(sum(losses) / 2)


def test_rewards_are_log_odds(tmp_path: Path) -> None:
    model = FakePairScorer(function=lambda _query, text: {TEXTS[0]: 1.5, TEXTS[1]: 0.5}[text])
    rows = [preference_row(1, [3, 1])]
    assert values(preferences(tmp_path, rows, model))["log_loss"] is None  # an order only
    (tmp_path / "reward").mkdir()
    scores = values(preferences(tmp_path / "reward", rows, model, "by_reward"))
    odds = math.e
    assert scores["log_loss"] == pytest.approx(-0.75 * math.log(odds / (1 + odds)) - 0.25 * math.log(1 / (1 + odds)))


def test_a_reward_model_scores_each_text_for_the_query(workshop: Workshop, tmp_path: Path, cli: Cli) -> None:
    folder = write_task(tmp_path, ROWS)
    model = f"pairs:{workshop('roberta', 'ForSequenceClassification', num_labels=1)}"
    options = ("--model", model, "--route", "pairwise=by_reward", "--output_path", tmp_path / "out")
    done = cli("run", "--include_path", folder, "--tasks", "preferred", *options, "--no_baselines")
    assert done.code == 0, done.err
    assert "probabilities by Bradley and Terry at temperature 1" in " ".join(done.out.split())
    rows = map(json.loads, (tmp_path / "out/predictions/preferred.jsonl").read_text("utf-8").splitlines())
    assert [math.fsum(row["scores"]) for row in rows] == [pytest.approx(1), pytest.approx(1)]


def test_a_text_is_close_to_nothing_without_a_query(tmp_path: Path) -> None:
    task = preferences(tmp_path, [preference_row(1, [3, 1], query=""), *ROWS[1:]], FakeEncoder())
    assert {score.metric: score.n for score in task.scores}["vote_agreement"] == 1
    row = json.loads((tmp_path / "out/predictions/preferred.jsonl").read_text("utf-8").splitlines()[0])
    assert row["status"] == "unasked"
    assert "has no query that a text could be close to" in row["error"]


def test_the_floors_are_chance_the_place_the_length_and_the_words(tmp_path: Path, cli: Cli) -> None:
    folder = write_task(tmp_path, [*ROWS, preference_row(3, [7, 1], query="The crow")])
    done = cli("run", "--include_path", folder, "--tasks", "preferred", "--model", "overlap", "--output_path", "out")
    assert done.code == 0, done.err
    (task,) = load(tmp_path / "out").record.tasks
    floors = {floor.baseline: floor.scores[0].value for floor in task.baselines}
    assert floors == {
        "chance": pytest.approx(1 / 2),
        "majority": pytest.approx(2 / 3),
        "longest": pytest.approx(1 / 3),
        "overlap": pytest.approx(2 / 3),
    }
