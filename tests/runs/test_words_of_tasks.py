"""What a word is, in runs: models of words and metrics are told, records say it, and other words are other scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError, RecordError, TaskError, compare, export
from tests.runs.conftest import Workshop

CHOICE = """
name: t
type: choice
language: {language}
data: {{test: "jsonl:t.jsonl"}}
fields: {{id: row.id, query: row.q, options: row.o, gold: row.g, language: row.l}}
metrics: [acc]
baselines: [chance, overlap]
"""
GENERATION_TASK = """
name: t
type: generation
language: {language}
data: {{test: "jsonl:t.jsonl"}}
fields: {{id: row.id, inputs: {{keywords: "[row.q]"}}, references: "[row.o[row.g]]", language: row.l}}
metrics: [rouge_l, chrf, length, leakage, distinct_1]
"""
HINDI = [("चाँद निकला", ["चांदी निकाली", "चाँद छिपा"], 1), ("नदी बहती", ["नाद बहता", "नदी सूखी"], 1)]
CHINESE = [("龟慢兔快，龟赢。", ["兔睡", "骄者败"], 0), ("狐狸说葡萄酸。", ["好甜", "葡萄"], 1)]
JIEBA = "segmenter: jieba\n"
OpenModel = Callable[[str], Any]


def write(folder: Path, rows: list[tuple[str, list[str], int]], task: str, language: str, extra: str = "") -> None:
    (folder / "t.task.yaml").write_text(task.format(language=language) + extra, "utf-8")
    lines = (
        {"id": str(number), "q": query, "o": options, "g": gold, "l": None if language != "[hi, zh]" else lang}
        for number, (query, options, gold) in enumerate(rows)
        for lang in ("hi" if query.isascii() or "\u0900" <= query[0] <= "\u097f" else "zh",)
    )
    (folder / "t.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def score_task(workshop: Workshop, model: Any, **settings: Any) -> Any:
    workshop.backend = model
    return workshop.run(fresh=True, **settings).tasks[0]


@pytest.mark.parametrize("model", ["overlap", "tfidf"])
@pytest.mark.parametrize(("rows", "language"), [(HINDI, "hi"), (CHINESE, "zh"), (HINDI + CHINESE, "[hi, zh]")])
def test_the_option_with_the_word_of_the_question_wins(
    workshop: Workshop, open_model: OpenModel, model: str, rows: list[tuple[str, list[str], int]], language: str
) -> None:
    """Words cut at vowel signs preferred the other option in Hindi; a clause as one word tied in Chinese."""
    write(workshop.folder, rows, CHOICE, language)
    task = score_task(workshop, open_model(model))
    assert [score.value for score in task.scores] == [1.0]
    assert task.words == "uax29"
    assert {baseline.baseline: baseline.scores[0].value for baseline in task.baselines}["overlap"] == 1.0


def test_a_segmenter_reaches_models_and_metrics_and_stands_in_the_record(
    workshop: Workshop, open_model: OpenModel
) -> None:
    pytest.importorskip("jieba")
    rows = [("乌龟得到了胜利", ["乌龟胜利", "得龟了乌到"], 0)]  # the same characters in other words
    write(workshop.folder, rows, CHOICE, "zh")
    assert score_task(workshop, open_model("overlap")).scores[0].value == 0.0  # five of seven characters beat four
    write(workshop.folder, rows, CHOICE, "zh", JIEBA)
    task = score_task(workshop, open_model("overlap"))
    assert task.scores[0].value == 1.0
    assert task.words.startswith("uax29 + jieba ")
    assert task.settings["segmenter"] == {"zh": "jieba"}


def test_one_segmenter_of_several_languages_is_for_its_own(workshop: Workshop) -> None:
    write(workshop.folder, HINDI + CHINESE, CHOICE, "[hi, zh]", JIEBA)
    task = workshop.harness().catalogue.tasks.get("t")
    assert task.segmenters == {"zh": "jieba"}
    assert task.reading_of("hi").segmenter == ""


@pytest.mark.parametrize(
    ("language", "segmenter", "message"),
    [
        ("zh", "segmenter: jeiba\n", "choose one of jieba"),
        ("hi", JIEBA, "is for texts in zh"),
        ("[hi, zh]", "segmenter: {th: pythainlp}\n", "th"),
    ],
)
def test_a_segmenter_that_does_not_fit_is_refused(
    workshop: Workshop, language: str, segmenter: str, message: str
) -> None:
    write(workshop.folder, CHINESE, CHOICE, language, segmenter)
    with pytest.raises(FigevalError, match=message):
        workshop.run()


def test_a_missing_library_is_refused_before_a_model_answers(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    for module in ("pythainlp", "pythainlp.tokenize"):
        monkeypatch.setitem(sys.modules, module, None)
    write(workshop.folder, [("มา", ["ม้า", "มา"], 1)], CHOICE, "th", "segmenter: pythainlp\n")
    with pytest.raises(TaskError, match=r"pip install 'figeval\[th\]'"):
        workshop.run()
    (problem,) = [line for line in cli("validate", workshop.folder).out.splitlines() if "error: " in line]
    assert "figeval[th]" in problem


class Echoing:
    """Writes the reference of its task, or something else."""

    deterministic_by_name = True

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def write(self, requests: Any) -> list[str]:
        return [self.texts[request.values[0][1][0]] for request in requests]


def values(task: Any) -> dict[str, float | None]:
    return {score.metric: score.value for score in task.scores}


def test_a_copy_in_hindi_is_a_copy_and_leakage_says_why_it_has_no_value(workshop: Workshop) -> None:
    write(workshop.folder, HINDI, GENERATION_TASK, "hi")
    task = score_task(workshop, Echoing({query: options[gold] for query, options, gold in HINDI}))
    expected = {"rouge_l": 1.0, "chrf": 1.0, "length": 2.0, "distinct_1": 1.0, "leakage": None}
    assert {name: values(task)[name] for name in expected} == expected
    (leakage,) = [score for score in task.scores if score.metric == "leakage"]
    assert "for texts in en, not in hi" in leakage.interval.reason
    assert task.settings["signatures"]["rouge_l"] == "words:uax29"
    assert "nc:6|nw:0" in task.settings["signatures"]["chrf"]


@pytest.mark.wing("comparison")
def test_scores_of_other_words_are_not_compared(workshop: Workshop, tmp_path: Path) -> None:

    pytest.importorskip("jieba")
    folders = []
    for number, line in enumerate(("", JIEBA)):
        write(workshop.folder, CHINESE, GENERATION_TASK, "zh", line)
        score_task(workshop, Echoing({query: options[gold] for query, options, gold in CHINESE}))
        folders.append(workshop.output.rename(tmp_path / f"run{number}"))
    with pytest.raises(RecordError, match="words"):
        compare(*folders, metric="length")


@pytest.mark.wing("exporters")
def test_a_run_of_an_earlier_version_goes_on_only_in_english(workshop: Workshop, open_model: OpenModel) -> None:

    for language, rows in (("en", [("a b", ["a", "c"], 0)]), ("hi", HINDI)):
        write(workshop.folder, rows, CHOICE, language)
        score_task(workshop, open_model("overlap"))
        workshop.edit_record(lambda record: record["tasks"][0].pop("words"))
        if language == "en":
            assert workshop.run().tasks[0].words == ""
            assert export([workshop.output], to="csv")
        else:
            with pytest.raises(RecordError, match="words of t changed"):
                workshop.run()
