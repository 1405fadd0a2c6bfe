"""BERTScore with a tiny model made on the spot: the library's numbers, by our way of asking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import GenerationExample, ModelError
from tests.plugins.tiny import Workshop

VARIABLE = "FIGEVAL_BERTSCORE_MODEL"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("bert_score")
    folder = Workshop(tmp_path)("roberta")
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@figeval.task(name="telling", type="generation", metrics=["bertscore"])
def telling() -> Any:
    yield GenerationExample(id="1", inputs={}, references=("The roof leaked.", "He kicked the bucket."))


def bertscore(text: str, folder: Path) -> tuple[float, str]:
    """Return the score of a text, and the signature of the metric."""
    rows = [{"id": "1", "prediction": text}]
    done = figeval.score(telling, rows, name="a system", baselines=False, output_path=folder)
    (task,) = done.record.tasks
    (value,) = (score.value for score in task.scores if score.metric == "bertscore")
    return value, task.settings["signatures"]["bertscore"]


@pytest.mark.slow
def test_it_is_the_librarys_number_on_lower_cased_texts(model: Path, tmp_path: Path) -> None:
    from bert_score import BERTScorer

    of_library = BERTScorer(model_type=str(model), num_layers=2).score(
        ["a stitch in time"], [["the roof leaked.", "he kicked the bucket."]]
    )
    assert bertscore("A stitch in time", tmp_path / "run")[0] == pytest.approx(float(of_library[2][0]), abs=1e-6)


def test_the_reference_itself_scores_one(model: Path, tmp_path: Path) -> None:
    assert bertscore("he kicked the bucket.", tmp_path / "run")[0] == pytest.approx(1.0, abs=1e-5)


def test_the_signature_names_model_and_layer_and_no_folder(model: Path, tmp_path: Path) -> None:
    _, signature = bertscore("Yes.", tmp_path / "run")
    assert re.match(
        rf"model:{model.name}@[0-9a-f]{{12}}\|layer:2\|idf:no\|rescaled:no\|case:lc\|bert_score:", signature
    )
    assert str(model.parent) not in signature
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert bertscore("Yes.", tmp_path / "changed")[1] != signature


def test_a_model_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match="set FIGEVAL_BERTSCORE_MODEL to another model") as caught:
        bertscore("Yes.", tmp_path / "run")
    assert "\n" not in str(caught.value)
