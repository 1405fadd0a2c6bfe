"""`figeval score` for the task types of plugins: which forms of a prediction they read, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import figeval

FIGURES = ("irony", "satire", "simile")
TAGS = ("O", "B-IDIOM", "I-IDIOM")
EXAMPLES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "classification": ({"text": "Lovely weather.", "label": "irony"}, FIGURES),
    "multilabel": ({"text": "Lovely weather.", "labels": frozenset({"irony"})}, FIGURES),
    "labelling": ({"tokens": ("spill", "beans"), "tags": TAGS[1:]}, TAGS),
    "rating": ({"left": "a", "right": "b", "grade": 2.0}, ("1", "2", "3", "4")),
}


def stored_rows(
    task_type: str,
    labels: tuple[str, ...],
    fields: dict[str, Any],
    predictions: list[dict[str, Any]],
    folder: Path,
) -> list[dict[str, Any]]:
    """Return the rows that are stored for what a file says about the examples of a task, which are all alike."""
    example_type = figeval.Harness().task_types.get(task_type).Example
    examples = [example_type(id=str(number), **fields) for number in range(len(predictions))]
    task = figeval.task(name="one", type=task_type, labels=labels)(lambda: iter(examples))
    rows = [{"id": str(number), **prediction} for number, prediction in enumerate(predictions)]
    run = figeval.score(task, rows, name="system", output_path=folder / "run", baselines=False)
    assert run.complete, run.warnings
    return [json.loads(line) for line in (run.path / "predictions" / "one.jsonl").read_text("utf-8").splitlines()]


def stored_row(task_type: str, row: dict[str, Any], folder: Path) -> dict[str, Any]:
    fields, labels = EXAMPLES[task_type]
    (answer_row,) = stored_rows(task_type, labels, fields, [row], folder)
    return answer_row


def test_a_label_may_be_called_none(tmp_path: Path) -> None:
    labels = ("None", "irony", "pun; play", "pun")
    cells = [{"prediction": cell} for cell in ("none", "[]", "irony; None", "pun; play", "pun")]
    stored = stored_rows("multilabel", labels, {"text": "x", "labels": frozenset()}, cells, tmp_path)
    assert [row["pred"] for row in stored] == [["None"], [], ["None", "irony"], ["pun; play"], ["pun"]]


@pytest.mark.parametrize(
    ("task_type", "row", "pred"),
    [
        ("classification", {"prediction": "satire"}, "satire"),
        ("classification", {"prediction": " SATIRE"}, "satire"),
        ("classification", {"scores": [0.1, 0.2, 0.7]}, "simile"),
        ("classification", {"scores": {"satire": 2, "irony": 1, "simile": 0}}, "satire"),
        ("multilabel", {"prediction": ["satire", "irony"]}, ["irony", "satire"]),
        ("multilabel", {"prediction": '["satire"]'}, ["satire"]),
        ("multilabel", {"prediction": "satire; irony"}, ["irony", "satire"]),
        ("multilabel", {"prediction": "Satire ;irony"}, ["irony", "satire"]),
        ("multilabel", {"prediction": "none"}, []),
        ("multilabel", {"prediction": "None"}, []),
        ("multilabel", {"prediction": []}, []),
        ("labelling", {"prediction": ["B-IDIOM", "I-IDIOM"]}, ["B-IDIOM", "I-IDIOM"]),
        ("labelling", {"prediction": "O B-IDIOM"}, ["O", "B-IDIOM"]),
        ("rating", {"prediction": 3}, 3),
        ("rating", {"prediction": "3"}, 3),
        ("rating", {"prediction": " 3.0"}, 3),
        ("rating", {"scores": 0.71}, None),
        ("rating", {"scores": [0.1, 0.2, 0.6, 0.1]}, 3),
    ],
)
def test_forms_of_a_prediction(task_type: str, row: dict[str, Any], pred: Any, tmp_path: Path) -> None:
    answer_row = stored_row(task_type, row, tmp_path)
    assert (answer_row["status"], answer_row["pred"]) == ("ok", pred)


@pytest.mark.parametrize(
    ("task_type", "row", "message"),
    [
        (
            "classification",
            {"prediction": "iron"},
            "not among the labels irony, satire, simile; write one of the labels",
        ),
        ("multilabel", {"prediction": "irony, satire"}, "'irony, satire' is not among the labels"),
        ("multilabel", {"scores": [1, 2, 3]}, "scores alone decide no labels; write a list of labels"),
        ("labelling", {"prediction": "O"}, "does not have a tag for each of 2 words; write a list with a tag"),
        ("labelling", {"prediction": [["O", ["O"]], "O"]}, "cannot be an answer|is not among|another form"),
        ("rating", {"prediction": 2.5}, "2.5 is not a point of the scale 1, 2, 3, 4; write a point of the scale"),
        ("rating", {"prediction": True}, "True is not a number"),
        ("multilabel", {"prediction": [["irony"]]}, "not among the labels"),
        ("rating", {"prediction": "much"}, "'much' is not a number"),
        ("rating", {"scores": [1, 2]}, "there are 2 scores; write one, or a probability for each"),
    ],
)
def test_refused(task_type: str, row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(figeval.DataError, match=message):
        stored_row(task_type, row, tmp_path)
