"""Faithfulness of STORAL's texts: the pairs that a classifier learns from, what it is asked, and who may judge."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import figeval
from figeval import (
    DataError,
    FigevalError,
    GenerationExample,
    Harness,
    Inputs,
    ModelError,
    Outputs,
    PairExample,
    PairLabel,
    Prediction,
    RecordError,
    RunConfig,
    RunRecord,
    TaskError,
)
from figeval.testing import check_metric, harness
from tests.aggregated import metric_factory
from tests.fakes import FakeGenerator
from tests.finished_runs import execute, score_again, write_seen
from tests.plugins.tiny import Workshop
from tests.processes import figeval as run_figeval
from tests.runs.conftest import Heard, Models
from tests.sources import Row, read_rows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_metrics.json").read_text("utf-8"))
SPLITS = {"train": 1068, "valid": 355, "test": 356}
HELD_OUT = {"task": "storal_faithfulness_en", "split": "test", "metric": "acc"} | {
    "value": 0.75, "low": 0.7, "high": 0.8, "n": 712, "clusters": 352
}  # fmt: skip
TRAINING_NOTE = {"task": "storal_faithfulness_en", "head": "cross", "trained_from": "minilm", "held_out": HELD_OUT}
NAMES = ("faithfulness", "faithfulness_probability", "faithfulness_references")
ST2MO = """
name: morals
type: generation
data: {test: "jsonl:stories.jsonl"}
fields: {id: row.id, inputs: {story: row.story}, references: [row.moral]}
metrics: [length]
baselines: []
"""
MO2ST = """
name: tales
type: generation
data: {test: "jsonl:stories.jsonl"}
fields: {id: row.id, inputs: {moral: row.moral, beginning: row.id}, references: [row.story]}
metrics: [length]
baselines: []
"""
STORIES = [
    {"id": "a", "story": "the proud crow fell", "moral": "pride fell"},
    {"id": "b", "story": "slow and steady wins", "moral": "steady wins"},
    {"id": "c", "story": "a wolf cried wolf", "moral": "never lie"},
]


# ---- stories with their own moral and with another one ---------------------------------------------------------------


def pairs_with_other_morals(stories: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows made from a user's file of stories and morals."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder, "st2mo_data_en", "test.json")
        file.parent.mkdir()
        file.write_text(json.dumps([{"story": story, "moral": moral} for story, moral in stories]), "utf-8")
        patch.setenv("FIGEVAL_DATA_COPIES", f"storal={folder}")
        return read_rows("storal:examples_faithfulness_en_test")


PAIRS = st.lists(st.tuples(st.sampled_from("stuvwxyz"), st.sampled_from("ABCDEFGH")), min_size=2, max_size=30)


@pytest.mark.slow
@given(
    pairs=PAIRS,
    reads=st.functions(like=lambda moral: None, returns=st.sampled_from(["matched", "mismatched"]), pure=True),
)
def test_who_reads_the_moral_alone_is_right_in_half_of_the_rows(
    pairs: list[tuple[str, str]], reads: Callable[[str], str]
) -> None:
    try:
        rows = pairs_with_other_morals(pairs)
    except DataError:
        assume(False)
    assert sum(reads(row["moral"]) == row["label"] for row in rows) * 2 == len(rows)


@given(pairs=PAIRS)
def test_no_story_gets_a_moral_of_its_own(pairs: list[tuple[str, str]]) -> None:
    morals_of_story: dict[str, set[str]] = {}
    for story, moral in pairs:
        morals_of_story.setdefault(story, set()).add(moral)
    try:
        rows = pairs_with_other_morals(pairs)
    except DataError:
        assert max(len(morals_of_story[s]) for s in morals_of_story) > 1 or max(
            Counter(m for _, m in pairs).values()
        ) * 2 > len(pairs)
        return
    assert all((row["moral"] in morals_of_story[row["story"]]) == (row["label"] == "matched") for row in rows)
    assert len({row["id"] for row in rows}) == len(rows) == 2 * len(pairs)


def test_too_many_equal_morals_are_an_error() -> None:
    with pytest.raises(DataError, match="too many of the 3 morals are identical to give every story a different one"):
        pairs_with_other_morals([("s", "Be kind."), ("t", "be kind"), ("u", "Run.")])


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_the_pairs_of_storal(split: str, real_data: str) -> None:
    rows = read_rows(f"storal:faithfulness_en_{split}")
    assert Counter(row["label"] for row in rows) == {"matched": SPLITS[split], "mismatched": SPLITS[split]}
    morals = {label: Counter(r["moral"] for r in rows if r["label"] == label) for label in ("matched", "mismatched")}
    assert morals["matched"] == morals["mismatched"]
    assert all(row["moral_of"].startswith(f"{split}-") for row in rows)
    assert {row["same_moral"] for row in rows} == {r["same_moral"] for r in read_rows(f"storal:st2mo_en_{split}")}


def test_the_pairs_of_the_published_chinese_rows(real_data: str) -> None:
    rows = read_rows("storal:examples_faithfulness_zh_test")
    assert Counter(row["label"] for row in rows) == {"matched": 5, "mismatched": 5}
    with pytest.raises(DataError, match="has 5 of the 421 published rows"):
        read_rows("storal:published_faithfulness_zh_test")


def test_the_tasks_are_not_in_the_suite() -> None:
    catalogue = Harness().catalogue
    suites = [task.name for suite in ("storal", "storal_zh") for task in catalogue.expand([suite])]
    assert not [name for name in suites if "faithfulness" in name]
    for language in ("en", "zh"):
        task = catalogue.tasks.get(f"storal_faithfulness_{language}")
        assert (task.labels, task.cluster, task.floor) == (("matched", "mismatched"), "moral", "no_query")


# ---- the metric ------------------------------------------------------------------------------------------------------


@dataclass
class Overlap:
    """A classifier whose probability of "matched" is the share of the moral's words that the story has."""

    folder: Path
    longest: int = 100
    calls: list[int] = field(default_factory=list)
    deterministic_by_name = True

    def source(self) -> str:
        return str(self.folder)

    def label_pairs(self, requests: Sequence[PairLabel]) -> Outputs[dict[str, float]]:
        self.calls.append(len(requests))
        shares = [self.share(request.left.split(), request.right.split()) for request in requests]
        cut = frozenset(index for index, pair in enumerate(requests) if len(pair.left.split()) > self.longest)
        return Outputs([{"matched": share, "mismatched": 1 - share} for share in shares], cut)

    def share(self, story: list[str], moral: list[str]) -> float:
        return float("nan") if "nan" in moral else sum(word in story for word in moral) / len(moral)


class Echo:
    """Writes the first words of its first input; nothing for a wolf."""

    deterministic_by_name = True

    def write(self, requests: Sequence[Inputs]) -> list[str]:
        texts = [str(request.values[0][1]) for request in requests]
        return ["" if "wolf" in text else " ".join(text.split()[:2]) for text in texts]


class Bench:
    """Tasks, a classifier `judge` with a figeval.json, and a model `model` that writes."""

    def __init__(self, path: Path) -> None:
        self.path, self.judged = path, path / "judge"
        (path / "tasks").mkdir()
        self.judged.mkdir()
        self.classifier = Overlap(self.judged)
        self.model: Any = Echo()
        for name, text in {"morals": ST2MO, "tales": MO2ST}.items():
            (path / "tasks" / f"{name}.task.yaml").write_text(text)
        (path / "tasks" / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in STORIES))
        self.declare()

    def declare(self, **changes: Any) -> None:
        """Say something else of the classifier; None takes an entry out."""
        about = {key: value for key, value in {**TRAINING_NOTE, **changes}.items() if value is not None}
        (self.judged / "figeval.json").write_text(json.dumps({"kind": "pairs", "about": about}))
        write_seen(self.judged)

    def harness(self) -> Harness:
        modules = ("figeval.builtin.tasks.storal", "figeval.builtin.plugins.baselines", "figeval.wings.exporters")
        models = Models(judge=self.classifier, model=self.model)
        return harness(*modules, models, include=(self.path / "tasks",))

    def run(
        self, *tasks: str, metrics: Sequence[str] = ("faithfulness=judge",), observer: Any = None, **extra_metrics: Any
    ) -> RunRecord:
        settings = {"model": "model", "output_path": self.path / "run", "metrics": tuple(metrics), **extra_metrics}
        config = RunConfig(tasks=tasks or ("morals",), **settings)
        return execute(config, self.harness(), observer)

    def statistic(self, name: str, task: str = "morals") -> Any:
        """The metric by this classifier, as runs get it."""
        registries = self.harness()
        metric = registries.metrics.get(f"{name}=judge", "generation")
        context = registries.metric_models.context(metric, registries.catalogue.tasks.get(task), None)
        return metric_factory(name, "generation")(context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def value(record: RunRecord, metric: str = "faithfulness", task: int = 0) -> tuple[float | None, int]:
    (score,) = (score for score in record.tasks[task].scores if score.metric == metric)
    return score.value, score.n


@pytest.mark.parametrize("case", GOLDEN["faithfulness"], ids=[case["why"][:50] for case in GOLDEN["faithfulness"]])
def test_golden(case: dict[str, Any], bench: Bench) -> None:
    example = GenerationExample(id="1", inputs=case["inputs"], references=(case["reference"],))
    prediction = Prediction(example_id="1", value=case["text"], status=case.get("status", "ok"))
    for name, expected in case["expected"].items():
        check_metric(bench.statistic(name), [(example, prediction, expected), GOOD_CASE])


GOOD_CASE = (
    GenerationExample(id="g", inputs={"story": "a b"}, references=("a",)),
    Prediction(example_id="g", value="a"),
)


def test_a_text_is_judged_with_its_story_and_a_story_with_its_moral(bench: Bench) -> None:
    record = bench.run("morals", "tales", metrics=[f"{name}=judge" for name in NAMES])
    # "the proud" and "slow and" stand in their stories; nothing was written for the wolf
    assert [value(record, name) for name in NAMES] == [(1.0, 2), (1.0, 2), (0.75, 2)]
    # behind the beginnings "a", "b" and "c" stand two words of the moral, so all of it
    assert value(record, "faithfulness_probability", 1) == (pytest.approx((1 + 1 + 1) / 3), 3)


def test_a_task_file_names_the_classifier_and_a_command_may_name_the_same(bench: Bench) -> None:
    file = bench.path / "tasks" / "morals.task.yaml"
    file.write_text(ST2MO.replace("[length]", "[length, faithfulness=judge]"))
    assert value(bench.run("morals", metrics=())) == (1.0, 2)
    assert value(bench.run("morals", metrics=["faithfulness=judge"], fresh=True)) == (1.0, 2)
    with pytest.raises(TaskError, match="'faithfulness' is requested with judge and with another; leave one out"):
        bench.run("morals", metrics=["faithfulness=another"], fresh=True)


def test_texts_are_judged_in_batches_and_each_once(bench: Bench) -> None:
    bench.run("morals", metrics=["faithfulness=judge", "faithfulness_probability=judge"])
    assert bench.classifier.calls == [2]


@pytest.mark.wing("comparison")
def test_the_record_and_every_report_say_who_judged(bench: Bench) -> None:
    record = bench.run("morals", metrics=["faithfulness=judge", "faithfulness_probability=judge"])
    metric_arguments = record.tasks[0].settings["metric_arguments"]
    assert list(metric_arguments) == ["faithfulness", "faithfulness_probability"]
    assert metric_arguments["faithfulness"]["trained_on"] == "storal_faithfulness_en"
    assert metric_arguments["faithfulness"]["held_out"] == {key: HELD_OUT[key] for key in HELD_OUT if key != "clusters"}
    assert metric_arguments["faithfulness"]["fingerprint"].startswith("judge:")
    right = "which is right in 75.0% [70.0%, 80.0%] of 712 held-out pairs (test)"
    note = f"judged by judge, trained on storal_faithfulness_en, {right}"
    run = figeval.load(bench.path / "run")
    assert f"morals: faithfulness, faithfulness_probability: {note}" in " ".join(str(run).split())
    for name in ("csv", "json", "latex", "markdown"):
        assert note in re.sub(r"\\([%_\[\]])", r"\1", figeval.export(run, to=name)), name
    notes = list(figeval.compare(bench.path / "run", bench.path / "run", metric="faithfulness").notes())
    assert f"faithfulness: {note}" in notes


@pytest.mark.wing("comparison")
def test_scores_by_different_classifiers_are_not_compared(bench: Bench) -> None:
    bench.run()
    bench.declare(held_out={**HELD_OUT, "value": 0.6})
    bench.run(output_path=bench.path / "other")
    with pytest.raises(RecordError, match=r"^morals: A and B computed the metric with different models"):
        figeval.compare(bench.path / "run", bench.path / "other", metric="faithfulness")


def test_texts_that_were_cut_and_pairs_that_were_learned_are_counted(bench: Bench) -> None:
    bench.classifier.longest = 3
    learned = PairExample(id="", left=STORIES[1]["story"], right=STORIES[1]["moral"], label=None)
    write_seen(bench.judged, learned)
    counts = bench.run("morals").tasks[0].counts
    assert counts["texts cut to the length of the classifier"] == 2
    assert counts["pairs that the classifier was trained on"] == 1


def test_no_number_is_no_value(bench: Bench) -> None:
    class Nan(Echo):
        def write(self, requests: Sequence[Inputs]) -> list[str]:
            return ["nan" for _ in requests]

    bench.model = Nan()
    record = bench.run("morals")
    assert value(record) == (None, 0)
    assert record.tasks[0].counts["texts for which the classifier gives no number"] == 3
    assert "has no text to judge" in record.tasks[0].scores[-1].interval.reason


def test_a_run_that_was_cut_short_and_rescore_give_the_same(bench: Bench) -> None:
    bench.model = FakeGenerator(function=lambda prompt: "steady wins" if "steady" in prompt else "the crow")
    uninterrupted = bench.run("morals", output_path=bench.path / "whole")
    with pytest.raises(KeyboardInterrupt):
        bench.run("morals", observer=Heard(stop_after=1))
    resumed = bench.run("morals")
    assert resumed.tasks[0].scores == uninterrupted.tasks[0].scores
    rows_of = [(bench.path / name / "predictions" / "morals.jsonl").read_bytes() for name in ("run", "whole")]
    assert rows_of[0] == rows_of[1]
    score_again(bench.path / "run", bench.harness())
    assert (bench.path / "run" / "predictions" / "morals.jsonl").read_bytes() == rows_of[0]
    bench.declare(held_out={**HELD_OUT, "n": 3})
    with pytest.raises(RecordError, match=r"what faithfulness of morals is made from \(judge\) changed since"):
        score_again(bench.path / "run", bench.harness())
    with pytest.raises(RecordError, match=r"settings\.metric_arguments of morals changed"):
        bench.run("morals")


def test_a_breakdown_of_stored_values_needs_no_classifier(bench: Bench) -> None:
    file = bench.path / "tasks" / "morals.task.yaml"
    file.write_text(ST2MO.replace("references: [row.moral]", "references: [row.moral], meta: {kind: row.id}"))
    record = bench.run("morals", by=("kind",))
    (breakdown,) = record.tasks[0].breakdowns
    scores = {
        group.value: score.value
        for group in breakdown.groups
        for score in group.scores
        if score.metric == "faithfulness"
    }
    assert scores == {"a": 1.0, "b": 1.0, "c": None}


@pytest.mark.slow
def test_a_real_classifier_in_two_processes_says_what_it_says_in_one(tmp_path: Path, warm: Path) -> None:
    labels = {"id2label": {0: "matched", 1: "mismatched"}, "num_labels": 2}
    folder = Workshop(tmp_path / "models")("bert", "ForSequenceClassification", **labels)
    (folder / "figeval.json").write_text(json.dumps({"kind": "pairs", "about": TRAINING_NOTE}))
    (tmp_path / "tasks").mkdir()
    task = ST2MO.replace('test: "jsonl:stories.jsonl"', 'test: "mini:retrieval", train: "mini:retrieval"')
    task = task.replace("row.story", "row.narrative").replace("row.moral", "'row.candidates[row.relevant]'")
    (tmp_path / "tasks" / "morals.task.yaml").write_text(task)
    arguments = ("run", "--tasks", "morals", "--include_path", "tasks", "--model", "tfidf", "--no_baselines")
    for n in ("1", "2"):
        more_arguments = ("--metrics", f"faithfulness={folder},faithfulness_probability={folder}", "--processes", n)
        run_figeval(*arguments, *more_arguments, "--output_path", n, cwd=tmp_path, python=warm / "python")
    first, second = (
        [json.loads(line) for line in (tmp_path / n / "predictions" / "morals.jsonl").read_text().splitlines()]
        for n in ("1", "2")
    )
    assert len(first) == 60
    for row, other in zip(first, second, strict=True):
        assert row["metrics"] == pytest.approx(other["metrics"], abs=1e-6)
        assert row.get("remarks") == other.get("remarks")
    probabilities = {row["metrics"]["faithfulness_probability"] for row in first}
    assert len(probabilities) > 30
    assert all(0 <= probability <= 1 for probability in probabilities)


# ---- who may judge ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": None}, "was not trained by figeval and is not a classifier of stories and morals; `figeval train"),
        ({"task": "mini_pairs"}, "it was trained on mini_pairs and is not a classifier"),
        ({"task": "storal_faithfulness_zh"}, "it was trained on storal_faithfulness_zh, and morals is in 'en'; `"),
        ({"probe": "no_query"}, "it was trained with --probe, so it expects different inputs"),
        ({"augment": {"add": "concepts"}}, "it was trained with --augment"),
        ({"held_out": None}, "no held-out accuracy, .*; run its `figeval train` command again, which adds it"),
        ({"held_out": {**HELD_OUT, "metric": "macro_f1"}}, "no held-out accuracy"),
        ({"held_out": {**HELD_OUT, "value": None}}, "no held-out accuracy"),
        ({"held_out": [0.75]}, "`about.held_out` of its figeval.json: .*; run its `figeval train` command again"),
        ({"held_out": {**HELD_OUT, "value": float("nan")}}, "figeval.json: value must be a finite number; run"),
        ({"held_out": {**HELD_OUT, "value": 1.7}}, "value must be at most 1; run"),
        ({"held_out": {**HELD_OUT, "value": "\x1b[31m.9"}}, "value must be a number; run"),
        ({"held_out": {**HELD_OUT, "value": True}}, "value must be a number"),
        ({"held_out": {**HELD_OUT, "low": "*"}}, "low must be a number"),
        ({"held_out": {**HELD_OUT, "n": "712 | \x1b[2J"}}, "n must be an integer"),
        ({"held_out": {**HELD_OUT, "split": "test\x1b[2J"}}, "split must be 'test' or 'dev'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_who_may_not(changes: dict[str, Any], message: str, bench: Bench) -> None:
    bench.declare(**changes)
    with pytest.raises(ModelError, match=f"^metric faithfulness=judge: .*{message}") as raised:
        bench.run()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["faithfulness"], "metric 'faithfulness' needs the folder of a classifier .*; write faithfulness=…"),
        (["faithfulness="], "metric 'faithfulness' needs"),
        (["length=3"], "metric 'length' takes no argument; write length without =3"),
        (["faithfulness=judge", "faithfulness=model"], "is requested with judge and with model; leave one out"),
        (["faithfulness=nowhere/f"], "metric faithfulness=nowhere/f: .*nowhere/f"),
        (["faithfulnes=judge"], "unknown metric 'faithfulnes'; did you mean 'faithfulness"),
        (["faithfulness=model"], "metric faithfulness=model: it was not trained by figeval"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_an_argument_that_is_no_good(metrics: list[str], message: str, bench: Bench) -> None:
    with pytest.raises(FigevalError, match=message):
        bench.run(metrics=metrics)


def test_a_folder_is_refused_before_anything_is_opened(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "config.json").write_text('{"model_type": "bert"}')
    for name in ("runs", "raw"):
        with pytest.raises(ModelError, match=r"was not trained by figeval and .*`figeval train --task storal_faithf"):
            bench.run(metrics=[f"faithfulness={tmp_path / name}"])


def test_a_head_that_cannot_label(bench: Bench) -> None:
    bench.classifier.label_pairs = None  # type: ignore[assignment, method-assign]
    with pytest.raises(ModelError, match="its head cannot label pairs; `figeval train --task storal_faithfulness_en"):
        bench.run()


def test_a_task_without_a_story(bench: Bench) -> None:
    file = bench.path / "tasks" / "morals.task.yaml"
    file.write_text(ST2MO.replace("{story: row.story}", "{proverb: row.story}"))
    with pytest.raises(
        TaskError, match="for a `story`, or for a `moral` and a `beginning`; example 'a' has the inputs proverb"
    ):
        bench.run()


@pytest.mark.parametrize("language", ["de", "[en, zh]"])
def test_a_language_without_a_classifier(language: str, bench: Bench) -> None:
    file = bench.path / "tasks" / "morals.task.yaml"
    text = ST2MO + f"language: {language}\n"
    file.write_text(
        text.replace("references", "language: \"'en' if row.id == 'a' else 'zh'\", references")
        if "[" in language
        else text
    )
    with pytest.raises(ModelError, match="classifiers exist for en and zh, not for"):
        bench.run()


def test_a_classifier_that_is_no_better_than_chance_is_said_to_be(bench: Bench) -> None:
    bench.declare(held_out={**HELD_OUT, "value": 0.52, "low": 0.48, "high": 0.56})
    remark = bench.run().tasks[0].settings["metric_arguments"]["faithfulness"]["remark"]
    assert remark.endswith("of 712 held-out pairs (test): no better than chance")
    bench.declare(held_out={**HELD_OUT, "split": "dev", "low": None, "high": None})
    remark = bench.run(fresh=True).tasks[0].settings["metric_arguments"]["faithfulness"]["remark"]
    assert remark.endswith("which is right in 75.0% of 712 held-out pairs (dev), without an interval")
