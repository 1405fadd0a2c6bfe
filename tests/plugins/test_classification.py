"""Classification of single texts: the two task types keep to the contract, and their metrics are scikit-learn's."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from figeval import FigevalError, ModelError, Prediction, PromptContext, Reply, TaskError
from figeval.builtin.plugins.baselines.guessing import Chance, Majority, Random
from figeval.builtin.plugins.classification.classification import Classification, ClassificationExample
from figeval.builtin.plugins.classification.label_metrics import MACRO_F1, MICRO_F1, POSITIVE_F1, ROC_AUC, exact_match
from figeval.builtin.plugins.classification.multilabel import Multilabel, MultilabelExample
from figeval.builtin.plugins.classification.requests import TextLabels
from figeval.builtin.plugins.lexical.tfidf_logreg import TfidfLogreg
from figeval.cli.main import main
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.classification import balanced_accuracy, macro_f1, pair_accuracy
from figeval.metrics.statistic import as_statistic
from figeval.metrics.ties import tied_answers
from figeval.testing import CapabilityCheck, check_metric, check_model, check_task_type

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/plugins/classification.json").read_text(encoding="utf-8"))
LISTS = json.loads((Path(__file__).parents[1] / "golden/plugins/multilabel_replies.json").read_text(encoding="utf-8"))
MARKS = json.loads((Path(__file__).parents[1] / "golden/task_types/answers_marks.json").read_text(encoding="utf-8"))
LABELS = tuple(GOLDEN["labels"])
TWO_LABELS = ("sarcastic", "earnest")
METRICS_OF_LABELS = {"f1": POSITIVE_F1, "macro_f1": macro_f1, "balanced_acc": balanced_accuracy, "acc": pair_accuracy}
METRICS_OF_SETS = {"exact_match": exact_match, "micro_f1": MICRO_F1, "macro_f1": MACRO_F1}
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


def total(metric: Any, cases: Sequence[tuple[Any, Prediction]], labels: tuple[str, ...] = LABELS) -> float | None:
    """The score of a metric over cases."""
    statistic = as_statistic(metric, labels)
    aggregator = MetricAggregator("metric", statistic)
    for example, prediction in cases:
        features = statistic.features(example, prediction)
        if features is not None:
            aggregator.add(None, features)
    return aggregator.score(0).value


def label_case(gold: str | None, predicted: Sequence[str] | None, labels: tuple[str, ...] = LABELS) -> Any:
    """An example, and a prediction that ties between these labels."""
    example = ClassificationExample(id="1", text="t", label=gold)
    if predicted is None:
        return example, Prediction(example_id="1", value=None, labels=labels, status="unparseable")
    scores = tuple(float(label in predicted) for label in labels)
    return example, Prediction(example_id="1", value=predicted[0], scores=scores, labels=labels, tied=len(predicted))


def set_case(gold: Sequence[str], predicted: Sequence[str], either: Sequence[str] = ()) -> Any:
    """An example with a set of labels, and a set that is predicted."""
    example = MultilabelExample(id="1", text="t", labels=frozenset(gold))
    tied = 2 ** len(either)
    return example, Prediction(
        example_id="1", value=frozenset(predicted), labels=LABELS, tied_labels=tuple(either), tied=tied
    )


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-12)


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_one_label_keeps_to_the_contract() -> None:
    replies = ["Sarcastic.", "It is earnest", "sarcastic or earnest", "**earnest**"]
    check_task_type(Classification, QUIPS, labels=list(TWO_LABELS), replies=replies)


def test_several_labels_keep_to_the_contract() -> None:
    replies = ["Patience, greed.", "none", "- greed\n- patience", "1. greed", "greed, rain", "patience and greed"]
    check_task_type(Multilabel, SAYINGS, labels=["patience", "greed"], replies=replies)


@pytest.mark.parametrize("metric", list(METRICS_OF_LABELS.values()))
def test_metrics_of_one_label_keep_to_the_contract(metric: Any) -> None:
    check_metric(
        metric, [label_case("sarcastic", ["sarcastic"]), label_case("earnest", ["sarcastic", "earnest"])], labels=LABELS
    )


@pytest.mark.parametrize("metric", list(METRICS_OF_SETS.values()))
def test_metrics_of_several_labels_keep_to_the_contract(metric: Any) -> None:
    check_metric(
        metric, [set_case(["sarcastic"], ["sarcastic"]), set_case(["earnest"], [], ["earnest"])], labels=LABELS
    )


# ---- replies ---------------------------------------------------------------------------------------------------------


def read_labels(text: str, finish: Any = "stop") -> Prediction:
    """What a reply to a multilabel task amounts to."""
    context = PromptContext(
        block=lambda *_: "", labels=tuple(LISTS["labels"]), verbalizer={"satire": ("satire", "mockery")}
    )
    example = MultilabelExample(id="1", text="t", labels=None)
    (route,) = (route for route in Multilabel.routes if route.name == "by_list")
    assert route.reader is not None
    return route.reader.read(example, context, Reply(text=text, finish=finish))


@pytest.mark.parametrize("case", LISTS["cases"], ids=lambda case: case["why"])
def test_lists_of_labels(case: dict[str, Any]) -> None:
    reading = read_labels(case["reply"], case.get("finish", "stop"))
    assert reading.status == case["status"]
    assert reading.value == (None if case["value"] is None else frozenset(case["value"]))


@pytest.mark.parametrize("case", MARKS["lists"], ids=lambda case: case["why"])
def test_lists_in_other_scripts(case: dict[str, Any]) -> None:
    context = PromptContext(block=lambda *_: "", labels=tuple(case["labels"]))
    example = MultilabelExample(id="1", text="t", labels=None, language=case["language"])
    (route,) = (route for route in Multilabel.routes if route.name == "by_list")
    assert route.reader is not None
    prediction = route.reader.read(example, context, Reply(text=case["reply"]))
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


# ---- metrics: cases by hand, and scikit-learn ------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["single"], ids=lambda case: case["why"])
@pytest.mark.parametrize("name", list(METRICS_OF_LABELS))
def test_golden_metrics_of_one_label(case: dict[str, Any], name: str) -> None:
    cases = [label_case(gold, predicted) for gold, predicted in zip(case["gold"], case["predicted"], strict=True)]
    assert total(METRICS_OF_LABELS[name], cases) == near(case[name]), case["why"]


@pytest.mark.parametrize("case", GOLDEN["several"], ids=lambda case: case["why"])
@pytest.mark.parametrize("name", list(METRICS_OF_SETS))
def test_golden_metrics_of_several_labels(case: dict[str, Any], name: str) -> None:
    cases = [set_case(*row) for row in zip(case["gold"], case["predicted"], case["open"], strict=True)]
    assert total(METRICS_OF_SETS[name], cases) == near(case[name]), case["why"]


def area(gold: Sequence[int], scores: Sequence[float]) -> float | None:
    """The area under the ROC curve of P(sarcastic), by way of stored rows."""
    assert ROC_AUC.family is not None
    rows = [
        {"gold": TWO_LABELS[0] if right else TWO_LABELS[1], "pred": TWO_LABELS[0], "scores": [score, 1 - score]}
        for right, score in zip(gold, scores, strict=True)
    ]
    aggregator = MetricAggregator("roc_auc", ROC_AUC)
    for features in ROC_AUC.family(rows, ["roc_auc"], {"labels": TWO_LABELS})["roc_auc"]:
        if features is not None:
            aggregator.add(None, features)
    return aggregator.score(0).value


@pytest.mark.parametrize("case", GOLDEN["area"], ids=lambda case: case["why"])
def test_golden_areas(case: dict[str, Any]) -> None:
    assert area(case["gold"], case["scores"]) == near(case["value"]), case["why"]


golds = st.lists(st.sampled_from(LABELS), min_size=1, max_size=12)
sets = st.sets(st.sampled_from(LABELS))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30))
def test_scores_of_one_label_are_those_of_scikit_learn(answers: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*answers, strict=True)
    cases = [label_case(right, [predicted]) for right, predicted in answers]
    every = sklearn_metrics.f1_score(gold, predicted, labels=LABELS, average=None, zero_division=0)
    assert total(POSITIVE_F1, cases) == near(every[0] if LABELS[0] in gold else None)
    assert total(macro_f1, cases) == near(sklearn_metrics.f1_score(gold, predicted, average="macro", zero_division=0))
    assert total(pair_accuracy, cases) == near(sklearn_metrics.accuracy_score(gold, predicted))
    recalls = [
        np.mean([predicted == label for right, predicted in answers if right == label])
        for label in LABELS
        if label in gold
    ]
    assert total(balanced_accuracy, cases) == near(np.mean(recalls))


@pytest.mark.slow
@given(st.lists(st.tuples(sets, sets), min_size=1, max_size=20))
def test_scores_of_sets_are_those_of_scikit_learn(answers: list[tuple[set[str], set[str]]]) -> None:
    cases = [set_case(sorted(right), sorted(predicted)) for right, predicted in answers]
    sides = zip(*answers, strict=True)
    gold, predicted = (np.array([[label in each for label in LABELS] for each in side]) for side in sides)
    used = gold.any(axis=0) | predicted.any(axis=0)
    assert total(exact_match, cases) == near(sklearn_metrics.accuracy_score(gold, predicted))
    if not used.any():
        assert total(MICRO_F1, cases) is total(MACRO_F1, cases) is None
        return
    each = sklearn_metrics.f1_score(gold, predicted, average=None, zero_division=0)
    assert total(MICRO_F1, cases) == near(sklearn_metrics.f1_score(gold, predicted, average="micro", zero_division=0))
    assert total(MACRO_F1, cases) == near(each[used].mean())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=30))
def test_the_area_is_that_of_scikit_learn(answers: list[tuple[bool, int]]) -> None:
    """Scores are eighths, so that differences are exact and ties stay ties."""
    gold, scores = zip(*((right, score / 8) for right, score in answers), strict=True)
    expected = sklearn_metrics.roc_auc_score(gold, scores) if len(set(gold)) == 2 else None
    assert area(gold, scores) == near(expected)


@given(st.lists(st.tuples(st.sampled_from(TWO_LABELS), st.sampled_from(TWO_LABELS)), min_size=1, max_size=8))
def test_ties_are_the_mean_over_fair_draws_of_accuracy(answers: list[tuple[str, str]]) -> None:
    cases = [label_case(gold, list(TWO_LABELS), TWO_LABELS) for gold, _ in answers]
    assert total(pair_accuracy, cases, TWO_LABELS) == 0.5
    assert all(set(tied_answers(prediction)) == set(TWO_LABELS) for _, prediction in cases)


def test_the_interval_of_an_area_is_that_of_delong() -> None:
    """The standard error of the two samples' placements, DeLong et al. (1988), against that of the bootstrap."""
    generator = np.random.default_rng(0)
    gold = generator.random(600) < 0.3
    scores = np.round(np.clip(generator.normal(np.where(gold, 0.6, 0.4), 0.2), 0, 1), 3)
    assert ROC_AUC.family is not None
    rows = [
        {"gold": TWO_LABELS[0] if right else TWO_LABELS[1], "pred": TWO_LABELS[0], "scores": [float(score), 0.5]}
        for right, score in zip(gold, scores, strict=True)
    ]
    aggregator = MetricAggregator("roc_auc", ROC_AUC)
    for features in ROC_AUC.family(rows, ["roc_auc"], {"labels": TWO_LABELS})["roc_auc"]:
        assert features is not None
        aggregator.add(None, features)
    above = (scores[gold][:, None] > scores[~gold]) + 0.5 * (scores[gold][:, None] == scores[~gold])
    variances = above.mean(axis=1).var(ddof=1) / gold.sum(), above.mean(axis=0).var(ddof=1) / (~gold).sum()
    assert aggregator.score(0).stderr == pytest.approx(math.sqrt(sum(variances)), rel=0.08)


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


def figeval(*arguments: object) -> Any:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def run(folder: Path, model: str) -> tuple[Any, dict[str, Any]]:
    out = folder / f"run-{model}"
    code = figeval("run", "--include_path", folder, "--tasks", "quips", "--model", model, "--output_path", out)
    return code, json.loads((out / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "ironic"}, "row 2 of 'jsonl:quips.jsonl', field 'label': 'ironic' is not among the labels"),
        ({"text": "  "}, "row 2 of 'jsonl:quips.jsonl', field 'text': the text is empty"),
        ({"text": 3}, "field 'text': 3 is not a string"),
    ],
)
def test_bad_rows_are_one_line(
    change: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [QUIPS[0], {**QUIPS[1], **change}]
    folder_of(tmp_path, rows)
    assert figeval("run", "--include_path", tmp_path, "--tasks", "quips", "--model", "chance") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


@pytest.mark.parametrize("labels", ["[sarcastic]", "[]"])
def test_labels_have_to_be_declared(labels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path, QUIPS, TASK.replace("[sarcastic, earnest]", labels))
    assert figeval("validate", tmp_path / "quips.task.yaml") != 0
    assert "must list its labels, the positive one first" in " ".join("".join(capsys.readouterr()).split())


def test_texts_of_one_class_are_warned_of_and_f1_is_no_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of(tmp_path, [{**QUIPS[1], "id": str(number)} for number in range(12)])
    figeval("validate", tmp_path / "quips.task.yaml")
    output = " ".join("".join(capsys.readouterr()).split())
    assert "12 gold answers are 'earnest', so a constant answer is always right" in output
    code, record = run(tmp_path, "random")
    values = {score["metric"]: score["value"] for score in record["tasks"][0]["scores"]}
    assert code == 0
    assert values["f1"] is values["roc_auc"] is None
    assert values["acc"] is not None


def test_chance_and_majority_are_exact(tmp_path: Path) -> None:
    folder_of(tmp_path, [*QUIPS, {**QUIPS[0], "id": "5"}])
    _, record = run(tmp_path, "chance")
    task = record["tasks"][0]
    assert {score["metric"]: score["value"] for score in task["scores"]}["acc"] == 0.5
    baselines = {
        baseline["baseline"]: {score["metric"]: score["value"] for score in baseline["scores"]}
        for baseline in task["baselines"]
    }
    assert baselines["majority"] == {"acc": 0.6, "f1": 0.75, "macro_f1": 0.375, "roc_auc": 0.5}


def test_figeval_labels_agrees_with_macro_f1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path, QUIPS)
    _, record = run(tmp_path, "random")
    capsys.readouterr()
    assert figeval("labels", tmp_path / "run-random", "--json") == 0
    lines = json.loads(capsys.readouterr().out)["quips"]
    assert [(line["label"], line["gold"]) for line in lines] == [("sarcastic", 2), ("earnest", 2)]
    scores = {score["metric"]: score["value"] for score in record["tasks"][0]["scores"]}
    assert np.mean([line["f1"]["value"] for line in lines]) == pytest.approx(scores["macro_f1"])
    assert figeval("labels", tmp_path / "run-random") == 0
    assert "precision" in capsys.readouterr().out


def test_figeval_labels_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path, QUIPS, TASK.replace("[acc, f1, macro_f1, roc_auc]", "[acc]"))
    run(tmp_path, "chance")
    capsys.readouterr()
    assert figeval("labels", tmp_path / "run-chance") == 2
    assert "has no task with the metric macro_f1" in capsys.readouterr().err
    assert figeval("labels", tmp_path / "run-chance", "--task", "quip") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


# ---- models ----------------------------------------------------------------------------------------------------------

REQUESTS = [TextLabels(row["text"], TWO_LABELS) for row in QUIPS]
ASKED_SEVERAL = [TextLabels(row["text"], TWO_LABELS, several=True) for row in QUIPS]


def examples() -> list[ClassificationExample]:
    return [ClassificationExample(**row) for row in QUIPS]


def test_trivial_models_answer_both_kinds_of_requests() -> None:
    assert Chance().label_texts([REQUESTS[0], ASKED_SEVERAL[0]]) == [dict.fromkeys(TWO_LABELS, 0.5)] * 2
    majority = Majority()
    majority.fit([*examples(), ClassificationExample(id="5", text="t", label="sarcastic")])
    assert majority.label_texts(REQUESTS[:1]) == [{"sarcastic": 0.6, "earnest": 0.4}]
    sayings = [MultilabelExample(id=row["id"], text=row["text"], labels=frozenset(row["labels"])) for row in SAYINGS]
    majority.fit(sayings)
    (guess,) = majority.label_texts([TextLabels("t", ("patience", "greed"), several=True)])
    assert guess == pytest.approx({"patience": 2 / 3, "greed": 1 / 3})
    assert sum(Random().label_texts(REQUESTS[:1])[0].values()) == pytest.approx(1)


def test_majority_tells_data_apart_that_have_the_same_counts() -> None:
    """Two of three texts or two of two: the share is another, and so is the answer."""
    first, second = Majority(), Majority()
    first.fit([MultilabelExample(id=str(n), text="t", labels=frozenset({"a"} if n else ())) for n in range(3)])
    second.fit([MultilabelExample(id=str(n), text="t", labels=frozenset({"a"})) for n in range(2)])
    assert first.fingerprint() != second.fingerprint()


def test_a_regression_learns_words_and_is_no_oracle() -> None:
    model = TfidfLogreg()
    model.fit(examples())
    new = [
        TextLabels("Lovely, a parking ticket warms the heart.", TWO_LABELS),
        TextLabels("I had to pay this morning.", TWO_LABELS),
    ]
    first, second = model.label_texts(new)
    assert first["sarcastic"] > 0.5 > second["sarcastic"]
    assert first["sarcastic"] + first["earnest"] == pytest.approx(1)
    with pytest.raises(TaskError, match="give the task a train split"):
        model.label_texts(REQUESTS)
    with pytest.raises(ModelError, match="before fit"):
        TfidfLogreg().label_texts(REQUESTS)
    with pytest.raises(FigevalError, match="no labelled example"):
        TfidfLogreg().fit([replace(example, label=None) for example in examples()])


def test_a_regression_gives_labels_probabilities_of_their_own() -> None:
    model = TfidfLogreg()
    model.fit([MultilabelExample(id=row["id"], text=row["text"], labels=frozenset(row["labels"])) for row in SAYINGS])
    (probabilities,) = model.label_texts(
        [TextLabels("Apples and rivers", ("patience", "greed", "pride"), several=True)]
    )
    assert 0 < probabilities["patience"] < 1
    assert probabilities["pride"] == 0  # no text of the train split has it


def problem_of(request: TextLabels, answer: dict[str, float]) -> str:
    """What is wrong with the probabilities of one label each."""
    fits = list(answer) == list(request.labels) and sum(answer.values()) == pytest.approx(1)
    return "" if fits else f"{answer} are no probabilities of {request.labels}"


def test_a_regression_is_a_model() -> None:
    def fitted() -> TfidfLogreg:
        model = TfidfLogreg()
        model.fit(examples())
        return model

    requests = [
        TextLabels("Lovely ticket", TWO_LABELS),
        TextLabels("I had to pay", TWO_LABELS),
        TextLabels("", TWO_LABELS),
    ]
    check_model(fitted, examples=examples(), checks=[CapabilityCheck("label_texts", requests, problem_of)])
