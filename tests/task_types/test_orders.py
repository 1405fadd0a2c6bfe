"""One question in several orders of its options: which orders, asked together, and folded into one prediction."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import CapabilityError, ChoiceExample, Continuation, Reply, Route, RunConfig, decide, hookimpl
from figeval.testing import harness
from tests.fakes import FakeGenerator, FakeLanguageModel
from tests.finished_runs import execute
from tests.runs.conftest import Models

OPTIONS = ("wrong", "right", "silly")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """`ask(model, orders, options)`: the stored row of a question with these options, the second of which is right."""

    def row(model: Any, orders: str, options: Sequence[str] = OPTIONS, **changes: Any) -> dict[str, Any]:
        settings = {"route": "by_letter", "name": "1", "seed": 0, **changes}

        @figeval.task(name="ordered", type="choice", metrics=("acc",))
        def ordered() -> Any:
            yield ChoiceExample(id=settings["name"], query="q", options=tuple(options), gold=1)

        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        options_of_run = {"routes": {"choice": settings["route"]}, "seed": settings["seed"], "baselines": False}
        figeval.run(ordered, model, name="model", orders=orders, output_path=folder, **options_of_run)
        return row_in(folder)

    return row


def row_in(folder: Path) -> dict[str, Any]:
    (line,) = (folder / "predictions" / "ordered.jsonl").read_text("utf-8").splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


def shown(prompt: str) -> list[str]:
    """The options of a prompt, in its order."""
    return [line[3:] for line in prompt.splitlines() if line[1:3] == ". "]


def letter_of_right(prompt: str) -> str:
    """The reply of a model that knows the right option wherever it stands."""
    return LETTERS[shown(prompt).index("right")]


def orders_of(row: dict[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(answer["order"]) for answer in row["answers"]]


# ---- which orders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 5, 26])
def test_in_cyclic_orders_every_option_stands_everywhere_once(n: int, ask: Ask) -> None:
    orders = orders_of(ask(FakeGenerator(), "cyclic", LETTERS[:n].lower()))
    assert len(orders) == n
    assert orders[0] == tuple(range(n))
    for index in range(n):
        assert sorted(order[index] for order in orders) == list(range(n))


def test_all_orders_of_five_options_and_of_no_more(ask: Ask) -> None:
    assert len(set(orders_of(ask(FakeGenerator(), "all", "abcde")))) == math.factorial(5)
    with pytest.raises(CapabilityError, match="--orders all: 6 options have 720 orders; use cyclic or a number"):
        ask(FakeGenerator(), "all", "abcdef")


def test_drawn_orders_differ_and_depend_on_seed_and_example(ask: Ask) -> None:
    def drawn(**changes: Any) -> list[tuple[int, ...]]:
        return orders_of(ask(FakeGenerator(), "20", "abcde", **changes))

    orders = drawn(seed=1)
    assert len(set(orders)) == 20
    assert orders == drawn(seed=1)
    assert orders != drawn(seed=2)
    assert orders != drawn(seed=1, name="2")
    three_options = [orders_of(ask(FakeGenerator(), number)) for number in ("100", "all")]
    assert sorted(three_options[0]) == sorted(three_options[1]), "there are only six"


# ---- asked together --------------------------------------------------------------------------------------------------


def test_all_orders_go_in_one_round_and_a_model_that_reads_is_consistent(ask: Ask) -> None:
    model = FakeGenerator(function=letter_of_right)
    row = ask(model, "cyclic")
    assert len(model.batches) == 1
    assert [shown(prompt.messages[-1].content) for prompt in model.asked] == [
        ["wrong", "right", "silly"],
        ["right", "silly", "wrong"],
        ["silly", "wrong", "right"],
    ]
    assert (row["pred"], row["scores"], row["tied"]) == (1, [0.0, 1.0, 0.0], 1)
    assert [answer["raw"] for answer in row["answers"]] == ["B", "A", "C"]
    assert [answer["pred"] for answer in row["answers"]] == [1, 1, 1]


def test_a_liking_for_a_place_chooses_every_option_equally_often(ask: Ask) -> None:
    row = ask(FakeGenerator(function=lambda _: "A"), "cyclic")
    assert [answer["pred"] for answer in row["answers"]] == [0, 1, 2]
    assert (row["scores"], row["tied"]) == ([1 / 3, 1 / 3, 1 / 3], 3)


def test_scores_are_told_in_terms_of_the_options(ask: Ask) -> None:
    scores = dict(zip(OPTIONS, (-2.0, -1.0, -3.0), strict=True))
    model = FakeLanguageModel(
        function=lambda prompt, letter: scores[shown(prompt)[LETTERS.index(letter.strip())]],
    )
    row = ask(model, "all", route="by_letter_likelihood")
    assert [answer["scores"] for answer in row["answers"]] == [[-2.0, -1.0, -3.0]] * 6
    assert row["pred"] == 1


def test_dialogues_of_different_length_keep_their_own_outputs(tmp_path: Path) -> None:
    def until_right(example: Any, _context: Any) -> Any:
        scores = dict.fromkeys(example.options, -9.0)
        for option in example.options:
            (scores[option],) = yield [Continuation("q", option)]
            if option == "right":
                break
        return decide(example.id, list(scores.values()))

    class Plugin:
        @hookimpl
        def register_routes(self, register: Any) -> None:
            needs, orders = frozenset({"loglikelihood"}), ("consistency",)
            register("choice", Route(name="until_right", start=until_right, needs=needs, metrics_of_orders=orders))

        @hookimpl
        def register_tasks(self, register: Any) -> None:
            @figeval.task(name="ordered", type="choice", metrics=("acc",))
            def ordered() -> Any:
                yield ChoiceExample(id="1", query="q", options=OPTIONS, gold=1)

            register(ordered)

    model = FakeLanguageModel(function=lambda _, option: {"wrong": -2.0, "right": -1.0, "silly": -3.0}[option])
    settings: dict[str, Any] = {"routes": {"choice": "until_right"}, "orders": "all", "baselines": False}
    config = RunConfig(tasks=("ordered",), model="model", output_path=tmp_path / "run", **settings)
    execute(config, harness(Plugin(), Models(model=model)))
    answers = row_in(tmp_path / "run")["answers"]
    before_right = {tuple(answer["order"][: answer["order"].index(1)]): answer["scores"] for answer in answers}
    assert before_right == {
        (): [-9.0, -1.0, -9.0],
        (0,): [-2.0, -1.0, -9.0],
        (2,): [-9.0, -1.0, -3.0],
        (0, 2): [-2.0, -1.0, -3.0],
        (2, 0): [-2.0, -1.0, -3.0],
    }


def test_a_route_that_shows_one_option_at_a_time_is_refused(ask: Ask) -> None:
    words = "shows no list of options; leave out --orders, or give --route choice=by_letter"
    with pytest.raises(CapabilityError, match=words):
        ask(FakeLanguageModel(), "cyclic", route="by_loglikelihood")


# ---- one answer from several -----------------------------------------------------------------------------------------

REFUSAL = Reply(text="", finish="refusal")


@pytest.mark.parametrize(
    ("replies", "value", "status", "scores"),
    [
        ((1, 1, 0), 1, "ok", [1 / 3, 2 / 3, 0.0]),
        ((1, REFUSAL, 0, 1), 1, "ok", [1 / 3, 2 / 3, 0.0]),
        (("", REFUSAL, REFUSAL), None, "refusal", []),
        ((1, Reply(text="", finish="error", error="timeout"), 1), None, "error", []),
    ],
    ids=["majority", "of those that answered", "no answer", "an error in one order is an error of the whole"],
)
def test_folding(replies: Sequence[Any], value: int | None, status: str, scores: list[float], ask: Ask) -> None:
    remaining = iter(replies)

    def reply(prompt: str) -> Any:
        answer = next(remaining)
        return LETTERS[shown(prompt).index(OPTIONS[answer])] if isinstance(answer, int) else answer

    row = ask(FakeGenerator(function=reply), str(len(replies)))
    assert (row["pred"], row["status"], row["scores"]) == (value, status, scores)
    assert [answer["pred"] for answer in row["answers"]] == [r if isinstance(r, int) else None for r in replies]
    if status == "error":
        assert row["error"] == "timeout"


def test_a_tie_is_half_a_vote_for_each(ask: Ask) -> None:
    def likelihood(prompt: str, letter: str) -> float:
        option = shown(prompt)[LETTERS.index(letter.strip())]
        return -1.0 if option == "right" or (option == "wrong" and shown(prompt)[0] == "wrong") else -2.0

    row = ask(FakeLanguageModel(function=likelihood), "cyclic", route="by_letter_likelihood")
    assert row["scores"] == pytest.approx([0.5 / 3, 2.5 / 3, 0.0])
