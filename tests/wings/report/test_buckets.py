"""Scores by length and overlap in reports, and the spans and kinds of options that the sample explorer shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import figeval
from tests.finished_runs import finished
from tests.wings.report.pages import contents, tables

LENGTH, OVERLAP = "words of the input", "overlap of input and right answer"
FIELDS = {
    "choice": "{id: row.id, query: row.query, options: row.options, gold: row.gold, option_meta: row.kinds}",
    "pairs": "{id: row.id, left: row.left, right: row.right, label: row.label}",
    "generation": "{id: row.id, inputs: {title: row.title, words: row.words}, references: row.references}",
}


def page_of(*folders: Path, **options: Any) -> str:
    output = folders[0].parent / "report.html"
    return figeval.report(folders, output=output, plots=False, **options).path.read_text(encoding="utf-8")


def page_of_task(folder: Path, kind: str, rows: list[dict[str, Any]], model: str = "random") -> str:
    """Return the report on a run on a task with these rows."""
    lines = (
        json.dumps({"id": f"x{number}", "kinds": [{}] * len(row.get("options", ())), **row})
        for number, row in enumerate(rows)
    )
    (folder / "rows.jsonl").write_text("\n".join(lines))
    splits = "data: {test: 'jsonl:rows.jsonl', train: 'jsonl:rows.jsonl'}"
    task = (
        f"name: t\ntype: {kind}",
        "labels: [yes, no]" if kind == "pairs" else "",
        splits,
        f"fields: {FIELDS[kind]}",
    )
    (folder / "t.task.yaml").write_text("\n".join(task).replace("[yes, no]", "['yes', 'no']"))
    figeval.run("t", model, include_path=folder, output_path=folder / "run", baselines=False)
    return page_of(folder / "run", include_path=folder)


def buckets(page: str, name: str) -> dict[str, int]:
    """Return the number of examples in each bucket."""
    return {title: int(rows[-1]) for title, *rows in lines_of(page, name)}


def lines_of(page: str, name: str) -> list[list[str]]:
    return next((rows[1:] for title, rows in tables(page, "breakdowns").items() if f" by {name}: " in title), [])


# ---- what is measured -----------------------------------------------------------------------------------------------


def test_the_input_is_compared_with_the_right_option(tmp_path: Path) -> None:
    """bird, the of a, bird, in, the, hand, bush, and hand of a, bird, in, the, hand."""
    query = "A bird in the hand"
    rows = [{"query": query, "options": ["a fish", "The bird, the bush"], "gold": 1}] * 4
    page = page_of_task(tmp_path, "choice", [*rows, *[{"query": query, "options": ["hand", "a"], "gold": 0}] * 4])
    assert buckets(page, OVERLAP) == {"0.20": 4, "0.33": 4}
    assert not lines_of(page, LENGTH), "all have five words"


def test_the_two_texts_of_a_pair_are_compared(tmp_path: Path) -> None:
    rows = [{"left": "He spilled it.", "right": right, "label": "yes"} for right in ["No"] * 7 + ["He told it"]]
    page = page_of_task(tmp_path, "pairs", rows)
    assert buckets(page, "overlap of the two texts") == {"0.00": 7, "0.50": 1}
    assert buckets(page, LENGTH) == {"4": 7, "6": 1}


def test_the_inputs_of_a_generation_task_are_compared_with_the_first_reference(tmp_path: Path) -> None:
    references = [["a b x y", "a b c d"]] * 4 + [["a b c d", "x"]] * 4
    rows = [{"title": "a b", "words": ["c", "d"], "references": texts} for texts in references]
    assert buckets(page_of_task(tmp_path, "generation", rows, "echo"), OVERLAP) == {"0.33": 4, "1.00": 4}


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        (range(8, 0, -1), {"1 to 2": 2, "3 to 4": 2, "5 to 6": 2, "7 to 8": 2}),
        ([3] * 8, {}),
        ([1, 2], {}),
        ([3] * 7 + [9], {"3": 7, "9": 1}),
        ([1, 1, 1, 2, 2, 5, 5, 5, 5, 9, 9], {"1": 3, "2 to 5": 6, "9": 2}),
    ],
    ids=["quartiles", "equal values", "few examples", "one other", "ties at an edge"],
)
def test_quartiles_have_limits_and_equal_values_are_never_divided(
    lengths: list[int], expected: dict[str, int], tmp_path: Path
) -> None:
    rows = [{"query": "word " * length, "options": ["a", "b"], "gold": 0} for length in lengths]
    page = page_of_task(tmp_path, "choice", rows)
    assert buckets(page, LENGTH) == expected
    assert list(buckets(page, LENGTH)) == list(expected)


# ---- in a report ----------------------------------------------------------------------------------------------------


def test_the_scores_of_the_buckets_add_up_to_the_score_of_the_task(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_fables", baselines=False)
    page, (task,) = page_of(run), figeval.load(run).record.tasks
    for name in (LENGTH, OVERLAP):
        scores = [(float(score), int(n)) for _, score, _, n in lines_of(page, name)]
        assert sum(n for _, n in scores) == task.n == 20
        assert sum(score * n for score, n in scores) / task.n == pytest.approx(task.scores[0].value, abs=1e-4)


def test_overlap_finds_the_examples_that_word_overlap_solves(tmp_path: Path) -> None:
    """The model `overlap` chooses the option with the highest overlap, so it is best where that of the gold is high."""
    page = page_of(finished(tmp_path / "run", "mini_fables", baselines=False))
    values = [float(score) for _, score, *_ in lines_of(page, OVERLAP)]
    assert values[0] < values[-1]


def test_without_texts_there_are_no_buckets(tmp_path: Path) -> None:
    page = page_of(finished(tmp_path / "run", "mini_fables", baselines=False), texts=False)
    assert not lines_of(page, LENGTH) and not lines_of(page, OVERLAP)


def test_joint_examples_have_the_spans_of_their_parts(tmp_path: Path) -> None:
    (task,) = contents(page_of(finished(tmp_path / "run", "mini_joint", model="tfidf", baselines=False))).values()
    index = task["ids"].index("P01N1")
    assert task["passage"] == "query"
    text = task["fields"]["query"][index]
    assert [text[start:end] for start, end in task["spans"][index]] == [
        "quoted forty pounds",
        "The bill that reached Mr Penhallow came to eleven thousand",
    ]
    assert all(0 <= start < end <= len(text) for start, end in task["runs"][0]["spans"][index])


def test_options_have_their_kinds(tmp_path: Path) -> None:
    kinds = [{"figure": "antonym"}, {"figure": "right"}]
    rows = [{"query": f"a {number}", "options": ["b", "a"], "gold": 1, "kinds": kinds} for number in range(3)]
    (task,) = contents(page_of_task(tmp_path, "choice", rows, "overlap")).values()
    assert task["kinds"] == {"figure": [["antonym", "right"]] * 3}


def test_lists_that_one_example_has_are_stored_with_it(tmp_path: Path) -> None:
    (task,) = contents(page_of(finished(tmp_path / "run", "mini_retrieval", baselines=False))).values()
    assert len(task["lists"]) == 1
    assert set(task["fields"]["candidates"]) == {0}
