"""Soft labels: distances beside scipy's, errors per annotator, and votes that cannot be read."""

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
from scipy.spatial.distance import cityblock, jensenshannon

import figeval
from figeval import Harness, load
from figeval.testing.fakes import FakeEncoder, FakeGenerator
from tests.cli.conftest import Cli

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "plugins" / "soft_labels.json").read_text("utf-8"))
LABELS = ("yes", "no")
SCALE = ("1", "2", "4")
METRICS = (
    *("manhattan", "jsd", "soft_cross_entropy"),
    *("annotator_error", "majority_acc", "annotator_acc", "least_annotator_error"),
)
TASK_TYPES = Harness().task_types
TASK = """\
name: ironic
description: Is the sentence ironic?
type: classification
labels: ["yes", "no"]
data: {test: "jsonl:ironic.jsonl"}
fields: {id: row.id, text: row.text, label: row.label, meta: {votes: %s}}
metrics: [acc, majority_acc, manhattan]
"""


def columns(**values: Any) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in values.items() if value is not None}


def soft_task(kind: str, meta: Sequence[Mapping[str, str]]) -> Any:
    """A task with one example for each mapping of columns."""
    fields: dict[str, Any] = {
        "classification": {"text": "Lovely weather.", "label": "yes"},
        "pairs": {"left": "Lovely weather.", "right": "It rains.", "label": "yes"},
        "rating": {"left": "Lovely weather.", "right": "It rains.", "grade": 2.0},
    }
    labels = SCALE if kind == "rating" else LABELS
    examples = [TASK_TYPES.get(kind).Example(id=str(n), meta=row, **fields[kind]) for n, row in enumerate(meta)]
    return figeval.task(name="soft", type=kind, labels=labels)(lambda: iter(examples))


def scored(kind: str, meta: Sequence[Mapping[str, str]], rows: Sequence[Any], metrics: Sequence[str]) -> dict[str, Any]:
    """The scores of predictions by another system, by name."""
    numbered = [{"id": str(n), **row} for n, row in enumerate(rows)]
    with TemporaryDirectory() as folder:
        run = figeval.score(
            soft_task(kind, meta), numbered, name="s", metrics=metrics, output_path=folder, baselines=False
        )
        return {score.metric: score.value for score in run.record.tasks[0].scores}


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
@pytest.mark.parametrize("kind", ["classification", "pairs"])
def test_golden_cases(kind: str, case: dict[str, Any]) -> None:
    meta = columns(votes=case.get("votes"), annotators=case.get("annotators"))
    row = {name: case[name] for name in ("prediction", "scores") if name in case}
    scores = scored(kind, [meta], [row], METRICS)
    for name, value in case["scores_of"].items():
        assert scores[name] == (value if value is None else pytest.approx(value, abs=1e-12)), name


weights = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@settings(max_examples=10)
@given(st.lists(st.tuples(weights, weights), min_size=1, max_size=20))
def test_distances_are_those_of_scipy(pairs: list[tuple[list[int], list[int]]]) -> None:
    gold, predicted = ([[weight / sum(row) for weight in row] for row in side] for side in zip(*pairs, strict=True))
    meta = [columns(votes=dict(zip(SCALE, votes, strict=True))) for votes, _ in pairs]
    names = ("manhattan", "jsd", "soft_cross_entropy", "wasserstein")
    scores = scored("rating", meta, [{"scores": row} for row in predicted], names)
    rows = list(zip(gold, predicted, strict=True))
    points = [*map(float, SCALE)]
    oracles = {
        "manhattan": [cityblock(p, q) for p, q in rows],
        "jsd": [jensenshannon(p, q, base=2) ** 2 for p, q in rows],
        "soft_cross_entropy": [
            stats.entropy(p, [max(share, 1e-12) for share in q]) + stats.entropy(p) for p, q in rows
        ],
        "wasserstein": [stats.wasserstein_distance(points, points, p, q) for p, q in rows],
    }
    for name, values in oracles.items():
        assert scores[name] == pytest.approx(math.fsum(values) / len(values), abs=1e-6), name


def test_grades_of_annotators_are_at_a_distance_on_the_scale() -> None:
    meta = [columns(annotators={"a1": 1, "a2": "4", "a3": 2.0, "a4": None})]
    assert scored("rating", meta, [{"prediction": 4}], ["annotator_distance"])["annotator_distance"] == pytest.approx(
        (3 + 0 + 2) / 3 / 3
    )


def test_closeness_is_no_probability(tmp_path: Path) -> None:
    task = soft_task("classification", [columns(votes={"yes": 3, "no": 2})])
    run = figeval.run(
        task, FakeEncoder(), metrics=("manhattan", "annotator_error"), baselines=False, output_path=tmp_path
    )
    (record,) = run.record.tasks
    assert record.route == "by_cosine"
    assert {"annotator_error"} == {score.metric for score in record.scores} & {"manhattan", "annotator_error"}


def write_task(folder: Path, votes: str, rows: Sequence[Any], train: Sequence[Any] = ()) -> None:
    """A task file with this expression for the votes, and its rows."""
    text = TASK % votes
    if train:
        text = text.replace('"jsonl:ironic.jsonl"', '"jsonl:ironic.jsonl", train: "jsonl:train.jsonl"')
    (folder / "ironic.task.yaml").write_text(text, encoding="utf-8")
    for name, part in (("ironic", rows), ("train", train)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part), encoding="utf-8")


def ironic_row(number: int, votes: Any, label: str = "yes") -> dict[str, Any]:
    return {"id": str(number), "text": f"Text {number}.", "label": label, "votes": votes}


def test_the_floors_are_uniform_and_the_distribution_of_the_training_split(tmp_path: Path, cli: Cli) -> None:
    train = [ironic_row(10 + number, None, "yes" if number else "no") for number in range(4)]
    write_task(tmp_path, '"(row.votes | tojson) if row.votes else none"', [ironic_row(1, {"yes": 1, "no": 3})], train)
    for model, distance in (("chance", 0.5), ("majority", 1.0)):
        out = tmp_path / model
        assert (
            cli("run", "--include_path", tmp_path, "--tasks", "ironic", "--model", model, "--output_path", out).code
            == 0
        )
        scores = {score.metric: score.value for score in load(out).record.tasks[0].scores}
        assert scores["manhattan"] == pytest.approx(distance)


def test_rescoring_needs_no_model_and_changes_nothing(tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, '"row.votes | tojson"', [ironic_row(number, {"yes": number, "no": 2}) for number in range(4)])
    model = FakeGenerator(function=lambda question: "yes" if "3" in question else "no")
    figeval.run("ironic", model, include_path=(str(tmp_path),), output_path=tmp_path / "out")
    before = load(tmp_path / "out").record.tasks[0].scores
    done = cli("rescore", tmp_path / "out", "--include_path", tmp_path)
    assert done.code == 0, done.err
    assert load(tmp_path / "out").record.tasks[0].scores == before
    assert {score.metric: score.n for score in before}["majority_acc"] == 3  # two to two is no majority


# ---- every annotator -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "annotators", "rows", "errors"),
    [
        (
            "classification",
            [{"a": "yes", "b": "no"}, {"a": "no"}, {"b": "no", "c": None}],
            [{"prediction": "yes"}, {"scores": [0.5, 0.5]}, {"prediction": "yes"}],
            {"a": (2, 0.25), "b": (2, 1.0)},
        ),
        (
            "rating",
            [{"a": 1, "b": "4"}, {"a": 4.0}],
            [{"prediction": 4}, {"prediction": 2}],
            {"a": (2, 5 / 6), "b": (1, 0)},
        ),
    ],
)
def test_the_error_of_every_annotator(
    kind: str, annotators: Sequence[Any], rows: Sequence[Any], errors: dict[str, Any], tmp_path: Path, cli: Cli
) -> None:
    task = soft_task(kind, [columns(annotators=labels) for labels in annotators])
    numbered = [{"id": str(n), **row} for n, row in enumerate(rows)]
    figeval.score(task, numbered, name="s", output_path=tmp_path / "run", baselines=False)
    (lines,) = json.loads(cli("show", tmp_path / "run", "--annotators", "--json").out).values()
    assert {line["annotator"]: (line["n"], line["error"]) for line in lines} == {
        name: (n, pytest.approx(error)) for name, (n, error) in errors.items()
    }


def test_names_of_annotators_are_cleaned_and_runs_without_any_say_so(tmp_path: Path, cli: Cli) -> None:
    task = soft_task("pairs", [columns(annotators={"\u202e\x1b[31m" + "a" * 99: "yes"})])
    figeval.score(task, [{"id": "0", "prediction": "yes"}], name="s", output_path=tmp_path / "run", baselines=False)
    printed = cli("show", tmp_path / "run", "--annotators").out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert cli("show", tmp_path / "run", "--annotators", "--task", "sofd").complaint.endswith("it has soft")
    plain = soft_task("pairs", [{}])
    figeval.score(plain, [{"id": "0", "prediction": "yes"}], name="s", output_path=tmp_path / "plain", baselines=False)
    assert "no answers beside labels of annotators" in cli("show", tmp_path / "plain", "--annotators").complaint


# ---- votes that cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        ({"perhaps": 1}, "'perhaps' is not among the labels yes, no"),
        ({"yes": -1}, "-1 is not a number of votes"),
        ({"yes": "3"}, "'3' is not a number of votes"),
        ({"yes": True}, "True is not a number of votes"),
        ({"yes": 10**400}, "is not a number of votes"),
        ([3, 2], "name the label"),
        ("\u202eyes\n", "is not a JSON object"),
        ({"yes": {"yes": 1}}, "is not a number of votes"),
    ],
)
def test_votes_that_are_none_are_one_line(votes: Any, words: str, tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, '"row.votes | tojson"', [ironic_row(1, votes)])
    done = cli("run", "--include_path", tmp_path, "--tasks", "ironic", "--model", "chance", "--output_path", "out")
    assert done.code == 2
    (line,) = (line for line in done.err.splitlines() if words in line)
    assert "example '1', column 'votes' of meta" in line


def test_votes_that_python_writes_are_refused_with_a_cure(tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, "row.votes", [ironic_row(1, {"yes": 1})])
    done = cli("run", "--include_path", tmp_path, "--tasks", "ironic", "--model", "chance", "--output_path", "out")
    assert "write `votes: row.votes | tojson`" in done.err


def test_validate_reads_the_columns_of_every_row(tmp_path: Path, cli: Cli) -> None:
    """A run reads those of the first row before it starts, and the others when it scores."""
    write_task(tmp_path, '"row.votes | tojson"', [ironic_row(1, {"yes": 1}), ironic_row(2, {"maybe": 1})])
    task = tmp_path / "ironic.task.yaml"
    assert "row 2: example '2', column 'votes' of meta: 'maybe'" in cli("validate", task).out
    write_task(
        tmp_path, "\"row.votes | tojson\", annotators: \"{'ann': 'perhaps'} | tojson\"", [ironic_row(1, {"yes": 1})]
    )
    assert "row 1: example '1', column 'annotators' of meta: 'perhaps'" in cli("validate", task).out


def test_without_a_majority_the_reason_is_not_that_votes_are_missing() -> None:
    with TemporaryDirectory() as folder:
        task = soft_task("classification", [columns(votes={"yes": 1, "no": 1})])
        rows = [{"id": "0", "prediction": "yes"}]
        run = figeval.score(task, rows, name="s", metrics=["majority_acc"], output_path=folder, baselines=False)
    (score,) = (score for score in run.record.tasks[0].scores if score.metric == "majority_acc")
    assert score.interval.reason.endswith("no label has the most votes")
