"""BERTScore with a tiny model made on the spot: the library's numbers, by our way of asking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from figeval import GenerationExample, ModelError, Prediction
from figeval.builtin.plugins.encoders import bertscore
from tests.plugins.tiny import Workshop

EXAMPLE = GenerationExample(id="1", inputs={}, references=("The roof leaked.", "He kicked the bucket."))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pytest.importorskip("bert_score")
    folder = Workshop(tmp_path)("roberta")
    monkeypatch.setenv(bertscore.VARIABLE, str(folder))
    yield folder
    bertscore._scorer.cache_clear()
    bertscore._layer.cache_clear()


def answer(text: str | None, status: str = "ok") -> Prediction:
    return Prediction(example_id="1", value=text, status=status)  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_is_the_librarys_number_on_lower_cased_texts(model: Path) -> None:
    from bert_score import BERTScorer

    of_library = BERTScorer(model_type=str(model), num_layers=2).score(
        ["a stitch in time"], [["the roof leaked.", "he kicked the bucket."]]
    )
    features = bertscore.bertscore.features(EXAMPLE, answer("A stitch in time"))
    assert features == (pytest.approx(float(of_library[2][0]), abs=1e-6), 1.0)


def test_the_reference_itself_scores_one(model: Path) -> None:
    assert bertscore.bertscore.features(EXAMPLE, answer("he kicked the bucket.")) == (pytest.approx(1.0, abs=1e-5), 1.0)
    assert bertscore.bertscore.features(EXAMPLE, answer(None, "refusal")) is None


def test_the_signature_names_model_and_layer_and_no_folder(model: Path) -> None:
    assert bertscore.bertscore.signature is not None
    signature = bertscore.bertscore.signature()
    assert re.match(
        rf"model:{model.name}@[0-9a-f]{{12}}\|layer:2\|idf:no\|rescaled:no\|case:lc\|bert_score:", signature
    )
    assert str(model.parent) not in signature
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert bertscore.bertscore.signature() != signature


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bertscore, "find_spec", lambda _name: None)
    bertscore._layer.cache_clear()
    assert bertscore.bertscore.signature is not None
    with pytest.raises(ModelError, match=r"pip install 'figeval\[bertscore\]'"):
        bertscore.bertscore.signature()


def test_a_model_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    monkeypatch.setenv(bertscore.VARIABLE, str(tmp_path / "nowhere"))
    assert bertscore.bertscore.signature is not None
    with pytest.raises(ModelError, match="set FIGEVAL_BERTSCORE_MODEL to another model") as caught:
        bertscore.bertscore.signature()
    assert "\n" not in str(caught.value)
