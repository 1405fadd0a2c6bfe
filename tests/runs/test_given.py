"""`figeval score`: predictions of another system get the statistics of a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Harness
from tests.finished_runs import finished

Row = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes rows to a JSON Lines file."""

    def written(rows: Iterable[Row], name: str = "system.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    return written


def stored_rows(run: Path, task: str) -> list[Row]:
    """Return the rows of a run."""
    lines = (run / "predictions" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def numbers(run: figeval.Run) -> list[Any]:
    """Return scores and baselines of each task, without the metrics that only say whether there is an answer."""
    extra = {"acc_of_all", "parse_rate", "squad_f1_of_all"}
    return [
        (task.task, [score for score in task.scores if score.metric not in extra], task.baselines, task.counts)
        for task in run.record.tasks
    ]


def option(row: Row) -> Row:
    return {"prediction": row["pred"], "scores": row["scores"]}


def label(row: Row) -> Row:
    return {"prediction": row["pred"]}


def all_scores(row: Row) -> Row:
    return {"scores": row["all_scores"]}


def with_parts(row: Row) -> Row:
    spans = [part["pred"] for part in row["parts"]]
    return {"prediction": {"candidates": row["pred"], "spans": spans}, "scores": row["all_scores"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "as_given"),
    [
        ("mini_pairs", "tfidf", label),
        ("mini_fables", "tfidf", option),
        ("mini_proverbs", "tfidf", option),
        ("mini_retrieval", "tfidf", all_scores),
        ("mini_situations", "tfidf", all_scores),
        ("mini_motif", "tfidf", all_scores),
        ("mini_narrative", "echo", label),
        ("mini_alignment", "last_sentence", label),
        ("mini_joint", "random", with_parts),
    ],
)
def test_predictions_of_a_run_get_its_scores(
    task: str, model: str, as_given: Callable[[Row], Row], write: Write, tmp_path: Path
) -> None:
    before = finished(tmp_path / "before", task, model=model, log_samples=True)
    rows = stored_rows(before, task)
    assert all(row["tied"] == 1 or "scores" in as_given(row) for row in rows)
    random.Random(1).shuffle(rows)
    file = write({"id": row["id"], **as_given(row)} for row in rows)
    run = figeval.score(task, file, output_path=tmp_path / "after")
    assert numbers(run) == numbers(figeval.load(before))
    assert [row["id"] for row in stored_rows(run.path, task)] == [row["id"] for row in stored_rows(before, task)]


TWO_ROWS = [{"id": "F01", "prediction": "E"}, {"id": "F02", "prediction": 2}]


def score_rows(task: str, rows: Any, folder: Path, **options: Any) -> figeval.Run:
    return figeval.score(task, rows, name="system", output_path=folder, baselines=False, **options)


def test_order_of_the_rows_changes_nothing_but_the_digest(tmp_path: Path) -> None:
    rows = [{"id": f"F{number:02}", "prediction": number % 5} for number in range(1, 21)]
    ordered = figeval.score("mini_fables", rows, name="system", output_path=tmp_path / "one")
    other = figeval.score("mini_fables", rows[::-1], name="system", output_path=tmp_path / "other")
    name = "predictions/mini_fables.jsonl"
    assert (ordered.path / name).read_bytes() == (other.path / name).read_bytes()
    assert [task.scores for task in ordered.record.tasks] == [task.scores for task in other.record.tasks]
    assert ordered.record.model.fingerprint != other.record.model.fingerprint


def test_an_example_without_a_prediction_is_no_wrong_answer(tmp_path: Path) -> None:
    rows = [*TWO_ROWS, {"id": "F03", "prediction": " "}, {"id": "F04", "prediction": None}]
    run = score_rows("mini_fables", rows, tmp_path / "run", limit=5)
    (task,) = run.record.tasks
    scores = {score.metric: (score.n, score.value) for score in task.scores}
    assert scores == {"acc": (2, 0.5), "acc_of_all": (5, 0.2), "parse_rate": (5, 0.4)}
    assert task.counts == {"empty": 3, "ok": 2}
    assert "3 of 5 examples have no prediction" in task.warnings[0]


def test_the_record_names_the_files(write: Write, tmp_path: Path) -> None:
    import hashlib

    file = write(TWO_ROWS)
    run = figeval.score("mini_fables", file, output_path=tmp_path / "run", baselines=False)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    model = run.record.model
    assert (model.name, model.backend, model.fingerprint) == ("system", "predictions", digest)
    assert model.options == {"sha256": {"system.jsonl": digest}}
    assert run.record.tasks[0].route == "given"


def test_another_file_is_another_run(write: Write, tmp_path: Path) -> None:
    figeval.score("mini_fables", write(TWO_ROWS), output_path=tmp_path / "run", baselines=False)
    with pytest.raises(figeval.RecordError, match="contains another run"):
        figeval.score("mini_fables", write(TWO_ROWS[:1]), output_path=tmp_path / "run", baselines=False)


def test_several_tasks_in_one_file_and_in_a_file_each(write: Write, tmp_path: Path) -> None:
    pair = {"id": "I01E", "prediction": "entailment"}
    together = [*({**row, "task": "mini_fables"} for row in TWO_ROWS), {**pair, "task": "mini_pairs"}]
    first = score_rows("mini_pairs,mini_fables", together, tmp_path / "one")
    files = {"mini_fables": write(TWO_ROWS, "fables.jsonl"), "mini_pairs": write([pair], "pairs.jsonl")}
    other = score_rows("mini_pairs,mini_fables", files, tmp_path / "other")
    assert first.tasks == other.tasks == ("mini_pairs", "mini_fables")
    assert [task.scores for task in first.record.tasks] == [task.scores for task in other.record.tasks]


def test_every_seed_is_a_run(tmp_path: Path) -> None:
    rows = [{"id": f"F{n:02}", "prediction": (n + s) % 5, "seed": s} for n in range(1, 21) for s in (7, 1, 2)]
    mean = score_rows("mini_fables", rows, tmp_path / "seeds")
    seeds = json.loads((tmp_path / "seeds" / "seeds.json").read_text(encoding="utf-8"))
    assert (seeds["seeds"], seeds["runs"]) == ([1, 2, 7], {"1": "seed-1", "2": "seed-2", "7": "seed-7"})
    values = [figeval.load(tmp_path / "seeds" / run).record.tasks[0].scores[0].value for run in seeds["runs"].values()]
    assert mean.record.tasks[0].scores[0].value == pytest.approx(sum(filter(None, values)) / 3)
    again = figeval.load(tmp_path / "seeds").record
    assert (again.identity, again.tasks[0].scores) == (mean.record.identity, mean.record.tasks[0].scores)
    with pytest.raises(figeval.RecordError, match="several seeds"):
        score_rows("mini_fables", TWO_ROWS, tmp_path / "seeds")


def test_a_fresh_scoring_puts_the_other_form_aside(tmp_path: Path) -> None:
    seeds = [{"id": f"F{n:02}", "prediction": (n + s) % 5, "seed": s} for n in range(1, 21) for s in (1, 2, 3)]
    folder = tmp_path / "out"
    first = score_rows("mini_fables", seeds, folder)
    plain = score_rows("mini_fables", TWO_ROWS, folder, fresh=True)
    (earlier,) = (folder / "earlier").iterdir()
    assert figeval.load(folder).record.identity == plain.record.identity
    assert figeval.load(earlier).record.tasks[0].scores == first.record.tasks[0].scores
    assert not [*folder.glob("seed*")]
    second = score_rows("mini_fables", [row for row in seeds if row["seed"] < 3], folder, fresh=True)
    assert figeval.load(folder).record.identity == second.record.identity
    assert {file.name for file in folder.iterdir()} == {".lock", "earlier", "seed-1", "seed-2", "seeds.json"}
    assert len([*(folder / "earlier").iterdir()]) == 2
    with pytest.raises(figeval.RecordError, match="several seeds"):
        figeval.run("mini_fables", "overlap", output_path=folder, limit=2)


@pytest.mark.parametrize(
    ("task", "prediction", "stored_as"),
    [
        ("mini_fables", "b", 1),
        ("mini_fables", "(B).", 1),
        ("mini_fables", "1", 1),
        ("mini_fables", 1, 1),
        ("mini_pairs", " entailment ", "entailment"),
        ("mini_retrieval", [4, 1], 4),
        ("mini_retrieval", "[4, 1]", 4),
        ("mini_retrieval", "A stitch in time saves nine", 0),
        ("mini_alignment", [3, 8], [3, 8]),
        ("mini_alignment", [], []),
        ("mini_alignment", "[3, 8]", [3, 8]),
        ("mini_alignment", "March the surveyor", [3, 21]),
        pytest.param("mini_narrative", "[1, 2] were numbers.", "[1, 2] were numbers.", marks=pytest.mark.slow),
    ],
)
def test_forms_of_a_prediction(task: str, prediction: Any, stored_as: Any, tmp_path: Path) -> None:
    first = next(iter(figeval_ids(task)))
    run = score_rows(task, [{"id": first, "prediction": prediction}], tmp_path / "run", limit=1)
    (row,) = stored_rows(run.path, task)
    assert (row["status"], row["pred"]) == ("ok", stored_as)


def figeval_ids(task: str) -> list[str]:
    """Return the ids of a task's examples."""
    harness = Harness()
    return [example.id for example in harness.examples(harness.catalogue.tasks.get(task))]


def test_text_of_an_option_and_words_that_do_not_occur(tmp_path: Path) -> None:
    harness = Harness()
    example = next(harness.examples(harness.catalogue.tasks.get("mini_fables")))
    assert isinstance(example, figeval.ChoiceExample)
    run = score_rows("mini_fables", [{"id": example.id, "prediction": example.options[3]}], tmp_path / "a", limit=1)
    assert stored_rows(run.path, "mini_fables")[0]["pred"] == 3
    (first, *_) = figeval_ids("mini_alignment")
    run = score_rows("mini_alignment", [{"id": first, "prediction": "zebra crossing"}], tmp_path / "b", limit=1)
    assert [(row["status"], row["pred"]) for row in stored_rows(run.path, "mini_alignment")] == [("absent", None)]


def test_equal_scores_are_a_tie(tmp_path: Path) -> None:
    rows = [{"id": "F01", "scores": [0, 0, 0, 1, 1]}, {"id": "F02", "scores": "[null, 1, 2, 3, 4]"}]
    run = score_rows("mini_fables", rows, tmp_path / "run", limit=2)
    first, second = stored_rows(run.path, "mini_fables")
    assert (first["tied"], first["metrics"]["acc"], second["status"]) == (2, 0.5, "nan")
    rows = [{"id": "I01E", "scores": {"non-entailment": 1, "entailment": 1}}]
    run = score_rows("mini_pairs", rows, tmp_path / "labels", limit=1)
    assert stored_rows(run.path, "mini_pairs")[0]["metrics"]["acc"] == 0.5


def test_candidates_that_a_list_leaves_out_tie_for_the_last_place(tmp_path: Path) -> None:
    run = score_rows("mini_retrieval", [{"id": "P01N1", "prediction": [4, 1]}], tmp_path / "run", limit=1)
    (row,) = stored_rows(run.path, "mini_retrieval")
    assert row["top"][:3] == [[4, 2.0], [1, 1.0], [0, 0.0]]
    assert row["metrics"]["recall@5"] == pytest.approx(3 / 28)  # one of 28 that share the places 3 to 30


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        ("mini_fables", {"id": "F91", "prediction": 0}, "has no example 'F91'; .*; did you mean 'F19'"),
        (
            "mini_fables",
            {"id": "7", "prediction": 0},
            "no example '7'; its ids are like 'F01', and .* --write_template",
        ),
        ("mini_fables", {"id": "F02", "prediction": 0}, "row 2: 'id' is 'F02', which row 1 has already"),
        ("mini_fables", {"id": "", "prediction": 0}, "row 2: 'id' is empty"),
        (
            "mini_fables",
            {"id": "F01", "predictions": 0},
            "row 2: no field 'prediction'; the fields are 'id', 'predictions'; give its .*=NAME; did you",
        ),
        (
            "mini_fables",
            {"id": "F01", "prediction": "Z"},
            "row 2: .* none of the 5 options; write the index",
        ),
        ("mini_fables", {"id": "F01", "prediction": 5}, "5 is out of range for 5 options"),
        ("mini_fables", {"id": "F01", "prediction": True}, "neither an index nor a text"),
        ("mini_fables", {"id": "F01", "scores": [1, 2]}, "2 scores for 5 options; write one for each"),
        ("mini_fables", {"id": "F01", "scores": [1, 2, "x", 4, 5]}, "'x' is not a number"),
        ("mini_fables", {"id": "F01", "prediction": 0, "scores": [1, 2, 3, 4, 5]}, "0 does not have the best score"),
        ("mini_fables", {"id": "F01", "prediction": 0, "seed": 1}, "row 1: it has no seed, and other rows have one"),
        ("mini_fables", {"id": "F01", "prediction": 0, "seed": "a"}, "'seed' is 'a', not an integer"),
        ("mini_fables", {"id": "F01", "prediction": 0, "task": "mini_fabels"}, "no task"),
        ("mini_pairs", {"id": "I01E", "prediction": "entails"}, "not among the labels entailment, non-entailment"),
        ("mini_pairs", {"id": "I01E", "scores": {"entailment": 1}}, "write one for each of entailment"),
        ("mini_retrieval", {"id": "P01N1", "prediction": [1, 1]}, "names a candidate twice"),
        ("mini_retrieval", {"id": "P01N1", "prediction": "[]"}, "the list is empty"),
        ("mini_alignment", {"id": "P01N1:0", "prediction": [5, 3]}, r"is not a span; write \[start, end\]"),
        ("mini_alignment", {"id": "P01N1:0", "prediction": [0, 10**6]}, "is not a span .* of its text"),
        ("mini_narrative", {"id": "P01N1", "prediction": 3}, "it is not a text; write the text"),
        ("mini_motif", {"id": "P01N1", "prediction": [1, 2]}, "2 scores for 30 anchors"),
        ("mini_joint", {"id": "P01N1", "prediction": 3}, "a span for each of 2 parts"),
    ],
)
def test_refused(task: str, row: Row, message: str, tmp_path: Path) -> None:
    ids = [identity for identity in figeval_ids(task) if identity != "F01"]
    first = {
        "id": next(identity for identity in ids if task == "mini_fables" or identity != row["id"]),
        "prediction": None,
    }
    if task == "mini_alignment":
        row = {**row, "id": ids[0]}
        first["id"] = ids[1]
    with pytest.raises(figeval.DataError, match=message):
        score_rows(task, [first, row], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_several_unknown_ids_are_counted(tmp_path: Path) -> None:
    rows = [{"id": str(number), "prediction": 0} for number in range(4)]
    with pytest.raises(
        figeval.DataError, match=r"row 1: mini_fables has no example '0' \(3 more of 4 ids are unknown\)"
    ):
        score_rows("mini_fables", rows, tmp_path / "run")


def test_a_template_that_nobody_filled_in(tmp_path: Path) -> None:
    rows = [{"id": "F01", "prediction": None}, {"id": "F02", "prediction": ""}]
    with pytest.raises(figeval.DataError, match="no predictions for mini_fables; all 2 rows are empty; add them"):
        score_rows("mini_fables", rows, tmp_path / "run")


def test_ids_as_spreadsheets_get_them(tmp_path: Path) -> None:
    """`csv_cell` puts an apostrophe before an id that a spreadsheet would take for a formula."""
    examples = [
        figeval.GenerationExample(id=name, inputs={"a": "b"}, references=("b",)) for name in ("=1+1", "-2", "'3")
    ]
    task = figeval.task(name="odd", type="generation")(lambda: iter(examples))
    rows = [{"id": name, "prediction": "b"} for name in ("'=1+1", "-2", "'3")]
    run = figeval.score(task, rows, name="system", output_path=tmp_path / "run", baselines=False)
    assert [(row["id"], row["status"]) for row in stored_rows(run.path, "odd")] == [
        (example.id, "ok") for example in examples
    ]
    with pytest.raises(figeval.DataError, match="no example \"'=1"):
        figeval.score(task, [*rows, {"id": "=1+1", "prediction": "c"}], name="system", output_path=tmp_path / "no")


def test_columns_with_other_names_and_other_options(tmp_path: Path) -> None:
    rows = [{"qid": "F01", "answer": 4}]
    columns = {"id": "qid", "prediction": "answer"}
    assert score_rows("mini_fables", rows, tmp_path / "run", columns=columns, limit=1).complete
    with pytest.raises(figeval.OptionError, match="did you mean 'prediction'"):
        score_rows("mini_fables", rows, tmp_path / "run", columns={"predicton": "answer"})
    with pytest.raises(TypeError, match="no option 'num_fewshot'"):
        score_rows("mini_fables", rows, tmp_path / "run", num_fewshot=2)
    with pytest.raises(figeval.OptionError, match="need a name"):
        figeval.score("mini_fables", rows)


CORPUS = """\
name: birds
description: Which bird is it?
type: ranking
corpus: {data: "jsonl:birds.jsonl", id: row.id, text: row.text}
data: {test: "jsonl:rows.jsonl"}
fields: {id: row.id, query: row.query, relevant: row.right}
"""


def test_documents_of_a_corpus_are_named_by_their_ids(tmp_path: Path, write: Write) -> None:
    (tmp_path / "birds.task.yaml").write_text(CORPUS, encoding="utf-8")
    write(
        ({"id": id_, "text": text} for id_, text in (("7", "a crow"), ("0", "a heron"), ("d", "a duck"))), "birds.jsonl"
    )
    write([{"id": "q", "query": "It is black.", "right": ["7"]}], "rows.jsonl")
    options = {"include_path": tmp_path}
    run = score_rows("birds", [{"id": "q", "prediction": ["0", "d", 7]}], tmp_path / "run", **options)
    assert [index for index, _ in stored_rows(run.path, "birds")[0]["top"]] == [1, 2, 0]
    with pytest.raises(figeval.DataError, match="row 1: 1 is not an id of the corpus"):
        score_rows("birds", [{"id": "q", "prediction": [1]}], tmp_path / "other", **options)
