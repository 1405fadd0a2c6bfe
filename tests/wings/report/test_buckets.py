"""Scores by length and overlap in reports, and the spans and kinds of options that the sample explorer shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import ChoiceExample, GenerationExample, Harness, PairExample, RunConfig
from figeval.io.observer import Observer
from figeval.records.schema import BreakdownRecord
from figeval.runs.run import run as run_pipeline
from figeval.wings.report.buckets import measure_texts, quartiles
from figeval.wings.report.content import ReportContent, report_content
from figeval.wings.report.example_texts import ExampleTexts
from tests.finished_runs import finished


def content(*folders: Path, metric: str = "acc") -> ReportContent:
    return report_content(folders, ExampleTexts(), metrics=[metric])


def breakdowns(report: ReportContent, name: str) -> dict[str, BreakdownRecord]:
    (task,) = [task_content for task_content in report.runs[0].tasks if task_content.task == name]
    return {breakdown.by: breakdown for breakdown in task.breakdowns}


# ---- what is measured -----------------------------------------------------------------------------------------------


def test_the_input_is_compared_with_the_right_option() -> None:
    example = ChoiceExample(id="x", query="A bird in the hand", options=("a fish", "The bird, the bush"), gold=1)
    measures = measure_texts(example, "options", "gold")
    assert measures.length == 5
    assert measures.overlap == pytest.approx(2 / 6), "bird, the of a, bird, in, the, hand, bush"


def test_an_example_without_a_right_option_has_a_length_only() -> None:
    example = ChoiceExample(id="x", query="A bird", options=("a", "b"), gold=None)
    assert measure_texts(example, "options", "gold")[:2] == (2, None)


def test_the_two_texts_of_a_pair_are_compared() -> None:
    example = PairExample(id="x", left="He spilled it.", right="He told it", label="entailment")
    assert measure_texts(example, "", "label") == (6, 0.5, "overlap of the two texts")


def test_the_inputs_of_a_generation_task_are_compared_with_the_first_reference() -> None:
    example = GenerationExample(id="x", inputs={"title": "a b", "words": ("c", "d")}, references=("a b x y", "a b c d"))
    assert measure_texts(example, "", "references")[:2] == (4, pytest.approx(2 / 6))


def test_quartiles_are_named_by_their_limits_in_ascending_order() -> None:
    buckets = quartiles({f"x{number}": number for number in range(8, 0, -1)}, 0)
    assert list(dict.fromkeys(buckets.values())) == ["1 to 2", "3 to 4", "5 to 6", "7 to 8"]
    assert buckets["x3"] == "3 to 4"


def test_equal_values_are_never_divided() -> None:
    assert quartiles(dict.fromkeys("abcdefgh", 3.0), 0) == {}
    assert quartiles({"a": 1, "b": 2}, 0) == {}, "too few examples"
    buckets = quartiles({**dict.fromkeys("abcdefg", 3.0), "h": 9.0}, 0)
    assert buckets == {**dict.fromkeys("abcdefg", "3"), "h": "9"}


@given(st.lists(st.integers(0, 20), min_size=8, max_size=60))
def test_every_example_is_in_the_bucket_that_has_its_value(values: list[int]) -> None:
    buckets = quartiles({str(number): value for number, value in enumerate(values)}, 0)
    assert set(buckets) in ({str(number) for number in range(len(values))}, set())
    for number, label in buckets.items():
        low, _, high = label.partition(" to ")
        assert int(low) <= values[int(number)] <= int(high or low)
    assert len(set(buckets.values())) <= 4


# ---- in a report ----------------------------------------------------------------------------------------------------


def test_the_scores_of_the_buckets_add_up_to_the_score_of_the_task(tmp_path: Path) -> None:
    report = content(finished(tmp_path / "run", "mini_fables", baselines=False))
    (task,) = report.runs[0].tasks
    task_breakdowns = breakdowns(report, "mini_fables")
    assert set(task_breakdowns) == {"words of the input", "overlap of input and right answer"}
    for breakdown in task_breakdowns.values():
        scores = [group.scores[0] for group in breakdown.groups]
        assert sum(score.n for score in scores) == task.n == 20
        total = sum((score.value or 0) * score.n for score in scores)
        assert total / task.n == pytest.approx(task.scores[0].value)


def test_overlap_finds_the_examples_that_word_overlap_solves(tmp_path: Path) -> None:
    """The model `overlap` chooses the option with the highest overlap, so it is best where that of the gold is high."""
    report = content(finished(tmp_path / "run", "mini_fables", baselines=False))
    groups = breakdowns(report, "mini_fables")["overlap of input and right answer"].groups
    values = [group.scores[0].value or 0 for group in groups]
    assert values[0] < values[-1]


def test_without_texts_there_are_no_buckets(tmp_path: Path) -> None:
    report = report_content([finished(tmp_path / "run", "mini_fables", baselines=False)], None)
    assert not report.runs[0].tasks[0].breakdowns


def test_joint_examples_have_the_spans_of_their_parts(tmp_path: Path) -> None:
    report = content(finished(tmp_path / "run", "mini_joint", model="tfidf", baselines=False))
    (task,) = report.samples
    index = task["ids"].index("P01N1")
    assert task["passage"] == "query"
    text = task["fields"]["query"][index]
    assert [text[start:end] for start, end in task["spans"][index]] == [
        "quoted forty pounds",
        "The bill that reached Mr Penhallow came to eleven thousand",
    ]
    assert all(0 <= start < end <= len(text) for start, end in task["runs"][0]["spans"][index])


def test_options_have_their_kinds(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"q": f"a {number}", "o": ["b", "a"], "k": [{"figure": "antonym"}, {"figure": "right"}]} for number in range(3)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = (
        *("name: kinds", "description: Mine", "type: choice", "data: {test: 'jsonl:rows.jsonl'}"),
        "fields: {id: row.q, query: row.q, options: row.o, gold: 1, option_meta: row.k}",
    )
    (tmp_path / "kinds.task.yaml").write_text("\n".join(lines))
    config = RunConfig(model="overlap", tasks=("kinds",), output_path=tmp_path / "run", baselines=False)
    run_pipeline(config, Harness(include=(tmp_path,)), Observer())
    (task,) = report_content([tmp_path / "run"], ExampleTexts((tmp_path,))).samples
    assert task["kinds"] == {"figure": [["antonym", "right"]] * 3}


def test_lists_that_one_example_has_are_stored_with_it(tmp_path: Path) -> None:
    report = content(finished(tmp_path / "run", "mini_retrieval", baselines=False))
    (task,) = report.samples
    assert len(task["lists"]) == 1
    assert set(task["fields"]["candidates"]) == {0}
