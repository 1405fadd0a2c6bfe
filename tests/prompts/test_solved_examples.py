"""Solved examples in prompts: which are shown, in which order, and that none gives an answer away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import RunConfig, TaskError, TaskSpec, hookimpl
from figeval.testing import harness
from figeval.testing.fakes import FakeGenerator
from tests.finished_runs import execute
from tests.typed import Rows

DATA = {"data": {"test": "rows:test", "train": "rows:train"}}
META = {"id": "row.id", "meta": {"c": "row.c"}}
TASK: dict[str, dict[str, Any]] = {
    "choice": {"fields": {**META, "query": "row.q", "options": "row.o", "gold": "0"}},
    "pairs": {"fields": {**META, "left": "row.q", "right": "row.o[0]", "label": "'a'"}, "labels": ["a", "b"]},
    "generation": {"fields": {**META, "inputs": {"q": "row.q", "k": "row.o"}, "references": "[row.id]"}},
    "spans": {"fields": {**META, "text": "row.q", "given": "row.o[0]", "known": "row.o[0]", "gold": "row.q"}},
}


def example(name: str, cluster: str | None = None, query: str = "", **fields: Any) -> dict[str, Any]:
    """A row; `mark` is the text by which a prompt shows that it has the example."""
    query = query or f"Question <{name}>."
    return {"id": name, "q": query, "o": ["a", "b"], "c": cluster, "mark": query, **fields}


def pool(clusters: str) -> list[dict[str, Any]]:
    return [example(str(number), cluster) for number, cluster in enumerate(clusters)]


Shown = Callable[..., list[list[str]]]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """Return `shown(questions, train, k)`: the ids of the solved examples before each question, in their order."""

    def run(questions: list[Any], train: list[Any], k: int, *, task_type: str = "choice", **config: Any) -> Any:
        model, keys = FakeGenerator(), dict(TASK[task_type])
        if any("lang" in row for row in train):
            keys["language"] = ["en", "zh"]
            keys["fields"] = {**keys["fields"], "language": "row.lang"}

        class Plugin:
            @hookimpl
            def register_tasks(self, register: Any) -> None:
                register(TaskSpec.model_validate({"name": "t", "type": task_type, "cluster": "c", **DATA, **keys}))

            @hookimpl
            def register_backends(self, register: Any) -> None:
                register("writer", lambda model: writer)

        writer = model
        options = {"num_fewshot": k, "baselines": False, "fresh": True, "output_path": tmp_path / "run", **config}
        trial = harness(Rows(test=questions, train=train), Plugin())
        execute(RunConfig(tasks=("t",), model="writer", **options), trial)
        prompts = ["\n".join(message.content for message in prompt.messages[:-1]) for prompt in model.asked]
        marks = {row["id"]: row["mark"] for row in train}
        return [
            sorted((name for name, mark in marks.items() if mark in prompt), key=lambda name: prompt.index(marks[name]))
            for prompt in prompts
        ]

    return run


def test_none_shares_the_cluster_of_the_question_and_they_are_the_same_each_time(shown: Shown) -> None:
    question = [example("q", "x")]
    (chosen,) = shown(question, pool("xxyzyz"), 3, seed=1)
    assert len(chosen) == 3 and not {"0", "1"} & set(chosen)
    assert [chosen] == shown(question, pool("xxyzyz"), 3, seed=1)
    assert any([chosen] != shown(question, pool("xxyzyz"), 3, seed=seed) for seed in range(2, 9))


@pytest.mark.parametrize("shots", ["per_example", "shared"])
def test_they_are_in_the_language_of_the_question_as_far_as_there_are_any(shots: str, shown: Shown) -> None:
    mixed = [{**row, "lang": "en" if number % 3 else "zh"} for number, row in enumerate(pool("vwxyzvwxyz"))]
    zh = {row["id"] for row in mixed if row["lang"] == "zh"}
    questions = [example("q", "a", lang="zh"), example("r", "b", lang="en")]
    chinese, english = shown(questions, mixed, 4, seed=1, shots=shots)
    assert set(chinese) == zh and not zh & set(english)
    chinese, _ = shown(questions, mixed, 6, seed=1, shots=shots)
    assert set(chinese[:4]) == zh and len(chinese) == 6


def test_too_few_are_an_error(shown: Shown) -> None:
    with pytest.raises(TaskError, match=r"--num_fewshot 2 cannot be met for .*ask for 1 at most"):
        shown([example("q", "x")], pool("xxy"), 2)


def test_shared_ones_have_one_order_without_the_cluster_of_the_question(shown: Shown) -> None:
    questions = [example(f"q{number}", cluster) for number, cluster in enumerate("xyzxw")]
    train = pool("xxyzyzxyz")
    chosen = shown(questions, train, 3, seed=1, shots="shared")
    cluster_of = {row["id"]: row["c"] for row in train}
    for question, names in zip(questions, chosen, strict=True):
        assert question["c"] not in {cluster_of[name] for name in names}
    assert chosen[0] == chosen[3]
    (order,) = shown(questions[4:], train, 9, seed=1, shots="shared")
    for names in chosen:
        indices = [order.index(name) for name in names]
        assert indices == sorted(indices), "what is left of the one order"
    assert any([chosen[4]] != shown(questions[4:], train, 3, seed=seed, shots="shared") for seed in range(2, 9))


BEANS = example("a", query="He spilled the beans.", o=["He ate.", "He told."], mark="beans")


@pytest.mark.parametrize("shots", ["per_example", "shared"])
@pytest.mark.parametrize(
    ("twin", "is_same"),
    [
        ({"q": "he SPILLED the beans ,", "o": ["He told.", "He ate"]}, True),
        ({"q": "He spilled the beans.", "o": ["he told.", "he ate."]}, True),
        ({"q": "He spilled the beans.", "o": ["He told.", "He hid."]}, True),
        ({"q": "He spilled the beans.", "o": ["He rose.", "He hid."], "gold": 0}, False),
        ({"q": "He spilled the milk.", "o": ["He told.", "He ate."]}, False),
        ({"q": "Something else.", "o": ["y", "x"], "id": "a"}, True),
    ],
)
def test_one_that_asks_the_same_is_never_shown(twin: dict[str, Any], is_same: bool, shots: str, shown: Shown) -> None:
    train = [{**BEANS, "id": "b", **twin, "mark": twin["q"]}, *pool("vwxyz")]
    question = [{**BEANS, "o": ["He told.", "He ate."]}]
    names = {name for seed in range(3) for name in shown(question, train, 5, seed=seed, shots=shots)[0]}
    assert (train[0]["id"] in names) is not is_same
    if is_same:
        with pytest.raises(TaskError, match="cannot be met"):
            shown(question, train, 6, shots=shots)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("Hello, World!", "hello world", True),
        ("ILIK su", "ılık su", True),
        ("\uff26\uff35\uff2c\uff2c", "full", True),
        ("2-3", "2 \u2013 3", True),
        ("*word*", "word", True),
        ("It ends at 3.", "It ends at 3", True),
        ("don't", "dont", True),
        ("In 1990, 12 swans left.", "In 1990 12 swans left", True),
        ("He rose at 5: 3 went", "He rose at 5. 3 went", True),
        ("2 + 3 = 5", "2 - 3 = 5", False),
        ("2 - 3", "2 * 3", False),
        ("3.14 is pi", "314 is pi", False),
        ("3:1 at noon", "31 at noon", False),
        ("50%", "50", False),
        ("👍 or 👎", "👎 or 👍", False),
        ("कि", "की", False),
        ("काम", "कम", False),
        ("über", "uber", False),
        ("!!", "??", False),
    ],
)
def test_blanks_punctuation_case_and_width_are_no_difference_and_symbols_and_marks_are(
    left: str, right: str, is_same: bool, shown: Shown
) -> None:
    train = [example("1", query=right, o=["x"], mark=right)]
    questions = [example("q", query=left, o=["x"])]
    if is_same:
        with pytest.raises(TaskError, match="cannot be met"):
            shown(questions, train, 1, task_type="pairs")
    else:
        assert shown(questions, train, 1, task_type="pairs") == [["1"]]
    train = [example("1", query=left, o=["another"], mark="another")]
    assert shown(questions, train, 1, task_type="pairs") == [["1"]], "a premise may be shared"


def test_a_probe_does_not_hide_that_one_asks_the_same(shown: Shown) -> None:
    train = [{**BEANS, "id": "b", "mark": BEANS["q"]}, *pool("vw")]
    for seed in range(5):
        prompts = shown([BEANS, example("q", "u")], train, 1, seed=seed, probes=True)
        assert len(prompts) > 4 and not any("b" in names for names in prompts[::2]), "of the question and its probes"


@pytest.mark.parametrize("task_type", ["generation", "spans"])
def test_inputs_of_a_text_and_parts_of_a_span_are_compared_together(task_type: str, shown: Shown) -> None:
    twin, other = (
        example("1", query="He ran.", o=["A!"], mark="A!"),
        example("2", query="He ran.", o=["bet"], mark="bet"),
    )
    question = example("q", query="He ran.", o=["a"])
    assert shown([question], [twin, other], 1, task_type=task_type) == [["2"]]
    with pytest.raises(TaskError, match="cannot be met"):
        shown([question], [twin], 1, task_type=task_type)
