"""Classification of single texts: the two task types keep to the contract, tasks, replies and models of words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import FigevalError, Harness, ModelError, Prediction, PromptContext, Reply, TaskError
from figeval.testing import CapabilityCheck, check_model, check_task_type
from tests.cli.conftest import Cli
from tests.typed import find_route

LISTS = json.loads((Path(__file__).parents[1] / "golden/plugins/multilabel_replies.json").read_text(encoding="utf-8"))
MARKS = json.loads((Path(__file__).parents[1] / "golden/task_types/answers_marks.json").read_text(encoding="utf-8"))
TWO_LABELS = ("sarcastic", "earnest")
CLASSIFICATION, MULTILABEL = map(Harness().task_types.get, ("classification", "multilabel"))
Open = Callable[..., Any]
QUIPS = [
    {"id": "1", "text": "Lovely, the bus left a minute early again.", "label": "sarcastic"},
    {"id": "2", "text": "The bus left a minute early this morning.", "label": "earnest"},
    {"id": "3", "text": "Nothing warms the heart like a parking ticket.", "label": "sarcastic"},
    {"id": "4", "text": "I had to pay for the parking ticket.", "label": "earnest"},
]
SAYINGS = [
    {"id": "1", "text": "The slow river reaches the sea all the same.", "labels": ["patience"]},
    {"id": "2", "text": "Who counts the apples on the tree will curse the wind.", "labels": ["patience", "greed"]},
    {"id": "3", "text": "It rains on every roof.", "labels": []},
]


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_one_label_keeps_to_the_contract() -> None:
    replies = ["Sarcastic.", "It is earnest", "sarcastic or earnest", "**earnest**"]
    check_task_type(type(CLASSIFICATION), QUIPS, labels=list(TWO_LABELS), replies=replies)


def test_several_labels_keep_to_the_contract() -> None:
    replies = ["Patience, greed.", "none", "- greed\n- patience", "1. greed", "greed, rain", "patience and greed"]
    check_task_type(type(MULTILABEL), SAYINGS, labels=["patience", "greed"], replies=replies)


# ---- replies ---------------------------------------------------------------------------------------------------------


BY_LIST: Any = find_route("multilabel", "by_list").reader


def read_labels(text: str, finish: Any = "stop") -> Prediction:
    """What a reply to a multilabel task amounts to."""
    context = PromptContext(
        block=lambda *_: "", labels=tuple(LISTS["labels"]), verbalizer={"satire": ("satire", "mockery")}
    )
    example = MULTILABEL.Example(id="1", text="t", labels=None)
    return BY_LIST.read(example, context, Reply(text=text, finish=finish))


@pytest.mark.parametrize("case", LISTS["cases"], ids=lambda case: case["why"])
def test_lists_of_labels(case: dict[str, Any]) -> None:
    reading = read_labels(case["reply"], case.get("finish", "stop"))
    assert reading.status == case["status"]
    assert reading.value == (None if case["value"] is None else frozenset(case["value"]))


@pytest.mark.parametrize("case", MARKS["lists"], ids=lambda case: case["why"])
def test_lists_in_other_scripts(case: dict[str, Any]) -> None:
    context = PromptContext(block=lambda *_: "", labels=tuple(case["labels"]))
    example = MULTILABEL.Example(id="1", text="t", labels=None, language=case["language"])
    prediction = BY_LIST.read(example, context, Reply(text=case["reply"]))
    value = None if case["value"] is None else frozenset(case["value"])
    assert (prediction.status, prediction.value) == (case["status"], value)


@given(st.text(max_size=80), st.sampled_from(["stop", "length"]))
def test_any_list_is_read(text: str, finish: Any) -> None:
    reading = read_labels(text, finish)
    assert (reading.value is None) == (reading.status != "ok")


@given(
    st.sets(st.sampled_from(sorted(LISTS["labels"])), min_size=1), st.sampled_from([", ", "/", "\n- ", " and ", "; "])
)
def test_labels_with_anything_between_them_are_read(labels: set[str], joint: str) -> None:
    assert read_labels(joint.join(sorted(labels))).value == labels


# ---- examples and tasks ----------------------------------------------------------------------------------------------

TASK = """\
name: quips
type: classification
labels: [sarcastic, earnest]
data: {test: "jsonl:quips.jsonl"}
fields: {id: row.id, text: row.text, label: row.label}
metrics: [acc, f1, macro_f1, roc_auc]
baselines: [chance, majority]
"""


def folder_of(tmp_path: Path, rows: Sequence[dict[str, Any]], task: str = TASK) -> Path:
    (tmp_path / "quips.task.yaml").write_text(task, encoding="utf-8")
    for name in ("quips", "train"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def run(folder: Path, model: str) -> Any:
    """Return the record of the task."""
    output_path = folder / f"run-{model}"
    (task,) = figeval.run("quips", model, include_path=folder, output_path=output_path).record.tasks
    return task


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "ironic"}, "row 2 of 'jsonl:quips.jsonl', field 'label': 'ironic' is not among the labels"),
        ({"text": "  "}, "row 2 of 'jsonl:quips.jsonl', field 'text': the text is empty"),
        ({"text": 3}, "field 'text': 3 is not a string"),
    ],
)
def test_bad_rows_are_one_line(change: dict[str, Any], message: str, tmp_path: Path, cli: Cli) -> None:
    folder_of(tmp_path, [QUIPS[0], {**QUIPS[1], **change}])
    assert message in cli("run", "--include_path", tmp_path, "--tasks", "quips", "--model", "chance").complaint


@pytest.mark.parametrize("labels", ["[sarcastic]", "[]"])
def test_labels_have_to_be_declared(labels: str, tmp_path: Path, cli: Cli) -> None:
    folder_of(tmp_path, QUIPS, TASK.replace("[sarcastic, earnest]", labels))
    done = cli("validate", tmp_path / "quips.task.yaml")
    assert done.code != 0
    assert "must list its labels, the positive one first" in " ".join((done.out + done.err).split())


def test_texts_of_one_class_are_warned_of_and_f1_is_no_number(tmp_path: Path, cli: Cli) -> None:
    folder_of(tmp_path, [{**QUIPS[1], "id": str(number)} for number in range(12)])
    done = cli("validate", tmp_path / "quips.task.yaml")
    output = " ".join((done.out + done.err).split())
    assert "12 gold answers are 'earnest', so a constant answer is always right" in output
    values = {score.metric: score.value for score in run(tmp_path, "random").scores}
    assert values["f1"] is values["roc_auc"] is None
    assert values["acc"] is not None


def test_chance_and_majority_are_exact(tmp_path: Path) -> None:
    folder_of(tmp_path, [*QUIPS, {**QUIPS[0], "id": "5"}])
    task = run(tmp_path, "chance")
    assert {score.metric: score.value for score in task.scores}["acc"] == 0.5
    baselines = {
        baseline.baseline: {score.metric: score.value for score in baseline.scores} for baseline in task.baselines
    }
    assert baselines["majority"] == {"acc": 0.6, "f1": 0.75, "macro_f1": 0.375, "roc_auc": 0.5}


def test_figeval_labels_agrees_with_macro_f1(tmp_path: Path, cli: Cli) -> None:
    folder_of(tmp_path, QUIPS)
    scores = {score.metric: score.value for score in run(tmp_path, "random").scores}
    lines = json.loads(cli("show", tmp_path / "run-random", "--labels", "--json").out)["quips"]
    assert [(line["label"], line["gold"]) for line in lines] == [("sarcastic", 2), ("earnest", 2)]
    assert np.mean([line["f1"]["value"] for line in lines]) == pytest.approx(scores["macro_f1"])
    assert "precision" in cli("show", tmp_path / "run-random", "--labels").out


def test_figeval_labels_says_what_is_missing(tmp_path: Path, cli: Cli) -> None:
    folder_of(tmp_path, QUIPS, TASK.replace("[acc, f1, macro_f1, roc_auc]", "[acc]"))
    run(tmp_path, "chance")
    assert "has no task with the metric macro_f1" in cli("show", tmp_path / "run-chance", "--labels").complaint
    assert cli("show", tmp_path / "run-chance", "--labels", "--task", "quip").complaint


# ---- models ----------------------------------------------------------------------------------------------------------


def requests(task_type: Any, *texts: str, labels: tuple[str, ...] = TWO_LABELS) -> list[Any]:
    """Return what a model with a head is asked about these texts."""
    context = PromptContext(block=lambda *_: "", labels=labels)
    route = find_route(task_type.name, "by_head")
    golds = dict.fromkeys(task_type.gold_fields)
    examples = [task_type.Example(id=str(number), text=text, **golds) for number, text in enumerate(texts)]
    return [request for example in examples for request in next(route.begin(example, context))]


REQUESTS = requests(CLASSIFICATION, *(row["text"] for row in QUIPS))


def examples() -> list[Any]:
    return [CLASSIFICATION.Example(**row) for row in QUIPS]


def test_trivial_models_answer_both_kinds_of_requests(open_model: Open) -> None:
    both_kinds = [REQUESTS[0], *requests(MULTILABEL, "t")]
    assert open_model("chance").label_texts(both_kinds) == [dict.fromkeys(TWO_LABELS, 0.5)] * 2
    majority = open_model("majority")
    majority.fit([*examples(), CLASSIFICATION.Example(id="5", text="t", label="sarcastic")])
    assert majority.label_texts(REQUESTS[:1]) == [{"sarcastic": 0.6, "earnest": 0.4}]
    sayings = [MULTILABEL.Example(id=row["id"], text=row["text"], labels=frozenset(row["labels"])) for row in SAYINGS]
    majority.fit(sayings)
    (guess,) = majority.label_texts(requests(MULTILABEL, "t", labels=("patience", "greed")))
    assert guess == pytest.approx({"patience": 2 / 3, "greed": 1 / 3})
    assert sum(open_model("random").label_texts(REQUESTS[:1])[0].values()) == pytest.approx(1)


def test_majority_tells_data_apart_that_have_the_same_counts(open_model: Open) -> None:
    """Two of three texts or two of two: the share is another, and so is the answer."""
    first, second = open_model("majority"), open_model("majority")
    first.fit([MULTILABEL.Example(id=str(n), text="t", labels=frozenset({"a"} if n else ())) for n in range(3)])
    second.fit([MULTILABEL.Example(id=str(n), text="t", labels=frozenset({"a"})) for n in range(2)])
    assert first.fingerprint() != second.fingerprint()


def test_a_regression_learns_words_and_is_no_oracle(open_model: Open) -> None:
    model = open_model("tfidf_logreg")
    model.fit(examples())
    texts = ("Lovely, a parking ticket warms the heart.", "I had to pay this morning.")
    first, second = model.label_texts(requests(CLASSIFICATION, *texts))
    assert first["sarcastic"] > 0.5 > second["sarcastic"]
    assert first["sarcastic"] + first["earnest"] == pytest.approx(1)
    with pytest.raises(TaskError, match="give the task a train split"):
        model.label_texts(REQUESTS)
    with pytest.raises(ModelError, match="before fit"):
        open_model("tfidf_logreg").label_texts(REQUESTS)
    with pytest.raises(FigevalError, match="no labelled example"):
        open_model("tfidf_logreg").fit([replace(example, label=None) for example in examples()])


def test_a_regression_gives_labels_probabilities_of_their_own(open_model: Open) -> None:
    model = open_model("tfidf_logreg")
    model.fit([MULTILABEL.Example(id=row["id"], text=row["text"], labels=frozenset(row["labels"])) for row in SAYINGS])
    labels = ("patience", "greed", "pride")
    (probabilities,) = model.label_texts(requests(MULTILABEL, "Apples and rivers", labels=labels))
    assert 0 < probabilities["patience"] < 1
    assert probabilities["pride"] == 0  # no text of the train split has it


def problem_of(request: Any, answer: dict[str, float]) -> str:
    """What is wrong with the probabilities of one label each."""
    fits = list(answer) == list(request.labels) and sum(answer.values()) == pytest.approx(1)
    return "" if fits else f"{answer} are no probabilities of {request.labels}"


def test_a_regression_is_a_model(open_model: Open) -> None:
    def fitted() -> Any:
        model = open_model("tfidf_logreg")
        model.fit(examples())
        return model

    checked = requests(CLASSIFICATION, "Lovely ticket", "I had to pay", "")
    check_model(fitted, examples=examples(), checks=[CapabilityCheck("label_texts", checked, problem_of)])
