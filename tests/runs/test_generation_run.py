"""A generation task from end to end: routes, statuses, metrics that depend on all texts, and what the record says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from figeval import FigevalError, Inputs, ModelError, Reply, TaskError
from figeval.testing import harness
from figeval.testing.fakes import FakeGenerator, FakePairScorer
from tests.runs.conftest import Workshop

TASK = """
name: tell
type: generation
data: {test: "jsonl:tell.jsonl", train: "jsonl:tell.train.jsonl"}
fields:
  id: row.id
  inputs: {saying: row.saying, keywords: row.words}
  references: [row.told]
  meta: {saying: row.saying}
cluster: saying
max_new_tokens: 99
metrics: [bleu4, corpus_bleu, rouge_l, leakage, distinct_1, length, cut_off]
baselines: [echo, random, overlap]
"""
REPLIES = {
    "s0": "the dog ran home",
    "s1": Reply(text="The Dog ran", finish="length"),
    "s2": "I'm sorry, but I can't help with that.",
    "s3": "<think>no keywords here</think>",
}


def row(number: int, text: str = "the dog ran home", words: tuple[str, ...] = ("dog",)) -> dict[str, Any]:
    return {"id": f"r{number}", "saying": f"s{number}", "words": words, "told": text}


@pytest.fixture
def telling(workshop: Workshop) -> Workshop:
    """Four rows, the last one without keywords, and two training texts."""
    rows = [row(0), row(1), row(2), row(3, words=())]
    trained = [row(8, "a cat sat down"), row(9, "some dog or other")]
    (workshop.folder / "tell.task.yaml").write_text(TASK, encoding="utf-8")
    for name, lines in (("tell", rows), ("tell.train", trained)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (workshop.folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    workshop.backend = FakeGenerator(
        function=lambda question: REPLIES[question.splitlines()[0].removeprefix("Saying: ")]
    )
    return workshop


def values(scores: Any) -> dict[str, float | None]:
    return {score.metric: score.value for score in scores}


def test_texts_are_scored_and_what_is_none_is_left_out(telling: Workshop) -> None:
    (task,) = telling.run("tell").tasks
    assert (task.route, task.status) == ("by_decoding", "done")
    assert task.counts == {"ok": 2, "refusal": 1, "empty": 1}
    scores = values(task.scores)
    assert {score.metric: score.n for score in task.scores}["rouge_l"] == 2
    assert scores["parse_rate"] == 0.5
    assert scores["bleu4"] == 0.5  # 1 and, with three words, 0
    assert scores["leakage"] == 0.0
    assert scores["cut_off"] == 0.5
    assert scores["distinct_1"] == pytest.approx(4 / 7)
    assert next(score for score in task.scores if score.metric == "distinct_1").interval.reason.startswith("depends")
    assert [line["pred"] for line in telling.rows("tell")] == ["the dog ran home", "The Dog ran", None, None]
    assert (task.settings["max_new_tokens"], task.template) == (512, "_default/generation.jinja")
    assert task.settings["signatures"]["corpus_bleu"].startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp")


def test_baselines_write_or_take_a_training_text(telling: Workshop) -> None:
    (task,) = telling.run("tell").tasks
    by_name = {baseline.baseline: values(baseline.scores) for baseline in task.baselines}
    assert set(by_name) == {"echo", "random", "overlap"}
    assert (by_name["echo"]["leakage"], by_name["echo"]["length"]) == (0.0, 1.0)
    assert by_name["overlap"]["length"] == 4.0  # every text of the training split has four words
    assert by_name["echo"]["distinct_1"] == pytest.approx(1 / 3)


def test_a_model_that_cannot_write_takes_a_training_text(telling: Workshop) -> None:
    telling.backend = FakePairScorer()
    (task,) = telling.run("tell").tasks
    assert task.route == "by_retrieval_score"
    assert "parse_rate" not in values(task.scores)
    first = telling.rows("tell")[0]
    assert (first["pred"], first["scores"]) == ("r9", [1.0])
    assert values(task.scores)["length"] == 4.0  # of the text, of which the row keeps the id
    assert "some dog" not in json.dumps(telling.rows("tell"))


def test_stored_texts_can_be_read_again(telling: Workshop) -> None:
    (before,) = telling.run("tell").tasks
    (read,) = telling.rescore()
    assert (read.changed, read.answers) == (0, 4)
    record = json.loads((telling.path / "run" / "run.json").read_text())
    again = {score["metric"]: score["value"] for score in record["tasks"][0]["scores"]}
    assert again == values(before.scores)


def test_solved_examples_are_told_before_the_question(telling: Workshop) -> None:
    telling.run("tell", num_fewshot=2)
    prompt = telling.backend.asked[0]  # type: ignore[attr-defined]
    assert [message.role for message in prompt.messages] == ["user", "assistant"] * 2 + ["user"]
    assert {message.content for message in prompt.messages if message.role == "assistant"} == {
        " a cat sat down",
        " some dog or other",
    }


def test_without_a_train_split_nothing_can_be_taken(telling: Workshop) -> None:
    file = telling.folder / "tell.task.yaml"
    file.write_text(TASK.replace(', train: "jsonl:tell.train.jsonl"', ""), encoding="utf-8")
    telling.backend = FakePairScorer()  # type: ignore[assignment]
    with pytest.raises(TaskError, match="no train split"):
        telling.run("tell")


def test_bertscore_without_the_extra_is_refused_before_anything_is_asked(
    telling: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bert_score", None)  # as if it were not installed
    with pytest.raises(FigevalError, match=r"figeval\[bertscore\]"):
        telling.run("tell", metrics=("bertscore",), harness=telling.harness("encoders"))
    assert not telling.backend.asked
    assert not (telling.path / "run" / "predictions").exists()


def test_every_metric_of_texts_says_in_which_direction_it_is_better() -> None:
    metrics = harness().metrics
    worse = {metric.name for metric in metrics if metric.task_types == {"generation"} and not metric.higher_is_better}
    assert worse == {"leakage", "repetition_4", "cut_off"}


def test_echo_writes_its_lists(open_model: Callable[..., Any]) -> None:
    requests = [Inputs((("saying", "s"), ("keywords", ("dog", "ran home")))), Inputs((("keywords", ()),)), Inputs(())]
    assert open_model("echo").write(requests) == ["dog ran home", "", ""]
    with pytest.raises(ModelError, match="takes nothing after the colon"):
        open_model("echo:loud")
