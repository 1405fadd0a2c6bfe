"""Joint models: the folder, the vectors, the span branch worked out by hand, and what is wrong with other folders."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import Harness, ModelError, SpanQuery, Text, load
from figeval.testing import capabilities
from tests.finished_runs import finished
from tests.plugins.headed import FILE, declare, joint_checkpoint
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

QUERIES = [
    SpanQuery(text, quotation, LINES[0]) for text in LINES[:4] for quotation in ("in time", "saves nine", "noise")
]


@pytest.fixture
def folder(workshop: Workshop, tmp_path: Path) -> Path:
    return joint_checkpoint(workshop("bert", "Model"), tmp_path / "joint")


def by_hand(folder: Path, query: SpanQuery) -> tuple[str, float]:
    """The branch as matrices, on states of a plain forward; all pairs of tokens tried."""
    from safetensors.torch import load_file
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    weights = load_file(folder / FILE)
    encoded = tokenizer(query.text, return_offsets_mapping=True, return_tensors="pt")
    offsets = encoded.pop("offset_mapping")[0, 1:-1].tolist()
    with torch.inference_mode():
        states = model(**encoded).last_hidden_state[0, 1:-1]
        vector = model(**tokenizer(query.given, return_tensors="pt")).last_hidden_state[0, 0]
    joined = torch.cat((states, vector.expand_as(states)), dim=1)
    mixed = joined @ weights["joint.weight"].T + weights["joint.bias"]
    starts, ends = (
        (mixed @ weights[f"{name}.weight"][0] + weights[f"{name}.bias"]).double().log_softmax(0).tolist()
        for name in ("start", "end")
    )
    n = len(starts)
    score, length, first = min((-(starts[s] + ends[e]), e - s, s) for s in range(n) for e in range(s, n))
    return query.text[offsets[first][0] : offsets[first + length][1]], -score


@pytest.mark.parametrize("size", [1, 64, "auto"])
def test_spans_are_those_of_the_branch_in_any_batch(size: int | str, folder: Path, open_model: Any) -> None:
    answers = open_model("joint", folder, batch_size=size).find_spans(QUERIES)
    assert not answers.truncated
    for query, (best,) in zip(QUERIES, answers.values, strict=True):
        span, score = by_hand(folder, query)
        assert query.text[best.span.start : best.span.end] == span
        assert best.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("kind", ["roberta", "mpnet", "distilbert", "albert", "deberta-v2", "electra"])
def test_other_encoders_serve_as_well(kind: str, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    checkpoint = joint_checkpoint(workshop(kind, "Model"), tmp_path / kind, pooling="mean")
    for size in (1, "auto"):
        answers = open_model("joint", checkpoint, batch_size=size).find_spans(QUERIES).values
        assert all(0 <= best.span.start < best.span.end and best.score < 0 for (best,) in answers)


def test_it_ranks_as_its_folder_declares(folder: Path, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    assert Harness().backends.locate(str(folder), {}) == ("joint", str(folder))
    backend = open_model("joint", folder)
    assert capabilities(backend) == {"embed", "dot", "find_spans"}
    alone = open_model("encoder", workshop("bert", "Model"), pooling="cls")
    requests = [Text(line) for line in LINES]
    np.testing.assert_array_equal(backend.embed(requests).values, alone.embed(requests).values)
    described = backend.describe()
    assert (described["pooling"], described["similarity"], described["max_length"]) == ("cls", "dot", 96)
    cosine = joint_checkpoint(workshop("bert", "Model"), tmp_path / "cosine", similarity="cosine", pooling="pooler")
    assert capabilities(open_model("joint", cosine)) == {"embed", "find_spans"}
    assert capabilities(open_model("joint", cosine, similarity="dot")) == {"embed", "dot", "find_spans"}


def test_long_texts_are_read_in_windows_and_long_parts_cut_and_reported(folder: Path, open_model: Any) -> None:
    answers = open_model("joint", folder).find_spans(
        [SpanQuery(LONG_TEXT, "in time", ""), SpanQuery("He knows.", LONG_TEXT, "")]
    )
    assert answers.truncated == {1}
    assert all(len(spans) == 1 for spans in answers.values)
    assert open_model("joint", folder).find_spans([SpanQuery(" ", "in time", "")]).values == [[]]


def test_its_head_is_part_of_its_fingerprint_and_it_can_be_forgotten(
    folder: Path, workshop: Workshop, open_model: Any
) -> None:
    from safetensors.torch import load_file, save_file

    backend = open_model("joint", folder)
    before, answers = backend.fingerprint(), backend.find_spans(QUERIES).values
    backend.close()
    assert not {"network", "branch"} & set(vars(backend))
    assert backend.find_spans(QUERIES).values == answers
    weights = load_file(folder / FILE)
    save_file({**weights, "start.bias": weights["start.bias"] * math.nan}, folder / FILE)
    broken = open_model("joint", folder)
    assert broken.fingerprint() != before
    assert all(math.isnan(best.score) for (best,) in broken.find_spans(QUERIES).values)


def test_a_span_may_be_bounded(folder: Path, open_model: Any) -> None:
    short = open_model("joint", folder, max_span=1).find_spans(QUERIES).values
    unbounded = open_model("joint", folder).find_spans(QUERIES).values
    assert all(best.span.end - best.span.start <= 15 for (best,) in short)
    assert all(spans[0].score <= other[0].score + 1e-9 for spans, other in zip(short, unbounded, strict=True))


def test_folders_that_are_none(folder: Path, workshop: Workshop, tmp_path: Path, open_model: Any) -> None:
    plain = str(workshop("bert", "Model"))
    with pytest.raises(ModelError, match=r"'joint' cannot use .*; use --model encoder:"):
        open_model("joint", plain)
    with pytest.raises(ModelError, match=r"'spans' cannot use .*; use --model joint:"):
        open_model("spans", folder)
    with pytest.raises(ModelError, match=r"declared as a joint model, but has no joint\.safetensors; save it again"):
        open_model("joint", declare(Path(plain), tmp_path / "headless", kind="joint", pooling="cls"))
    with pytest.raises(ModelError, match=r"declares no pooling; declare it: --model_args pooling=mean"):
        open_model("joint", joint_checkpoint(Path(plain), tmp_path / "unpooled", pooling=None))
    with pytest.raises(ModelError, match=r"figeval\.json of .*: similarity=euclid is not one of cosine, dot"):
        open_model("joint", joint_checkpoint(Path(plain), tmp_path / "euclid", similarity="euclid"))
    wide = open_model("joint", joint_checkpoint(Path(plain), tmp_path / "wide", width=20))
    with pytest.raises(
        ModelError, match=r"joint\.safetensors of .* is not a span branch of width 16: .*size mismatch"
    ) as e:
        wide.find_spans(QUERIES)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("declared", [{"pooling": "cls", "similarity": "dot"}, {"kind": "encoder", "pooling": "mean"}])
def test_a_fine_tuned_encoder_declares_itself(
    declared: dict[str, Any], workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = str(declare(workshop("roberta", "Model"), tmp_path / "tuned", **declared))
    assert Harness().backends.locate(folder, {}) == ("encoder", folder)
    backend = open_model("encoder", folder)
    declared_backend = open_model("encoder", folder, pooling="last", similarity="cosine")
    assert ("dot" in capabilities(backend)) == (declared.get("similarity") == "dot")
    assert (declared_backend.setup.settings.pooling, declared_backend.similarity) == ("last", "cosine")
    plain = open_model("encoder", workshop("roberta", "Model"), pooling=declared["pooling"])
    requests = [Text(line) for line in LINES]
    np.testing.assert_array_equal(backend.embed(requests).values, plain.embed(requests).values)


def test_a_joint_checkpoint_answers_by_its_head(folder: Path, tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_joint", model=str(folder), metrics=("span_f1_ungated",))
    (task,) = load(run).record.tasks
    assert task.settings["routes"] == {"ranking": "by_dot", "spans": "by_head"}
    scores = {score.metric: score.value for score in task.scores}
    assert 0 <= (scores["span_f1"] or 0) <= (scores["span_f1_ungated"] or 0)
    assert [baseline.baseline for baseline in task.baselines] == ["random"]
    row = json.loads((run / "predictions" / "mini_joint.jsonl").read_text().splitlines()[0])
    assert {"id", "status", "pred", "scores"} <= set(row["parts"][0])


def test_spans_that_a_broken_head_gives_are_unknown_and_counted(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / FILE)
    save_file({**weights, "joint.bias": weights["joint.bias"] * math.nan}, folder / FILE)
    run = finished(tmp_path / "run", "mini_joint", model=str(folder), baselines=False, metrics=("span_f1_ungated",))
    (task,) = load(run).record.tasks
    rows = [json.loads(line) for line in (run / "predictions" / "mini_joint.jsonl").read_text().splitlines()]
    assert task.counts["spans_unanswered"] == sum(len(row["parts"]) for row in rows)
    scores = {score.metric: score for score in task.scores}
    assert scores["acc"].n == 30
    assert scores["span_f1"].n == sum(row["metrics"]["acc"] == 0 for row in rows), "known to be nothing, all others not"
    assert (scores["span_f1_ungated"].n, scores["span_f1_ungated"].value) == (0, None)
