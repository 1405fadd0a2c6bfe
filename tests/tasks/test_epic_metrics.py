"""ePiC's metrics: spans scored as its code does, and keywords that occur in a text, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import figeval

GOLDEN = Path(__file__).parents[1] / "golden"
SPANS = json.loads((GOLDEN / "spans" / "found.json").read_text("utf-8"))["cases"]
TEXTS = json.loads((GOLDEN / "texts" / "metrics.json").read_text("utf-8"))
PUBLISHED = {"published_precision", "published_recall", "published_f1", "span_recall"}
KEYWORDS = {"keyword_recall", "keyword_recall_lemma"}
TASK = {
    "epic_published_spans": """
fields: {id: row.id, text: row.text, given: "'g'", known: "'k'", gold: row.gold, reference: row.reference}
metrics: [published_precision, published_recall, published_f1, span_recall]
""",
    "generation": """
fields: {id: row.id, inputs: {keywords: row.keywords}, references: ["'none'"]}
metrics: [keyword_recall, keyword_recall_lemma]
""",
}


@pytest.fixture
def values(tmp_path: Path) -> Any:
    """Return a function that scores one prediction: `values(task_type, prediction, **fields)` → values by metric."""

    def score(task_type: str, prediction: Any, **fields: Any) -> dict[str, float | None]:
        head = f"name: probe\ntype: {task_type}\ndata: {{test: 'jsonl:probe.jsonl'}}"
        (tmp_path / "probe.task.yaml").write_text(head + TASK[task_type])
        (tmp_path / "probe.jsonl").write_text(json.dumps({"id": "1", "reference": None, **fields}))
        options = {"include_path": tmp_path, "output_path": tmp_path / "run", "baselines": False, "fresh": True}
        run = figeval.score("probe", [{"id": "1", "prediction": prediction}], name="system", **options)
        scores = {score.metric: score.value for score in run.record.tasks[0].scores}
        return {name: scores[name] for name in (PUBLISHED if task_type == "epic_published_spans" else KEYWORDS)}

    return score


@pytest.mark.parametrize("case", SPANS, ids=lambda c: c["why"])
def test_spans_by_hand(case: dict[str, Any], values: Any) -> None:
    fields = {name: case.get(name) for name in ("text", "gold", "reference")}
    scores = values("epic_published_spans", case["found"], **fields)
    for name in PUBLISHED & case["expect"].keys():
        assert scores[name] == pytest.approx(case["expect"][name]), name


@pytest.mark.parametrize(
    ("text", "gold", "prediction", "expected"),
    [
        pytest.param("a — b", [0, 1], [1, 2], 0.0, id="white space alone"),
        pytest.param("a b c d", [0, 1], [[0, 1], [4, 5]], 0.5, id="a tie"),
        pytest.param("a b c d", [], [], 1.0, id="no span, and none is right"),
        pytest.param("a b c d", [], [0, 3], 0.0, id="a span where none is right"),
        pytest.param("a b c d", [0, 3], [], 0.0, id="no span where one is right"),
        pytest.param("a b c d", None, [0, 3], None, id="hidden is not absent"),
    ],
)
def test_spans_that_tie_or_are_none(text: str, gold: Any, prediction: Any, expected: float | None, values: Any) -> None:
    scores = values("epic_published_spans", prediction, text=text, gold=gold)
    assert scores == dict.fromkeys(PUBLISHED, expected)


@pytest.mark.parametrize("case", [case for case in TEXTS if KEYWORDS & case["expected"].keys()], ids=lambda c: c["why"])
def test_keywords_by_hand(case: dict[str, Any], values: Any) -> None:
    scores = values("generation", case["text"], keywords=case["keywords"])
    assert scores == {name: case["expected"][name] for name in KEYWORDS}


def test_what_stands_in_a_text_is_found_there(values: Any) -> None:
    tokens = ["And", "then", "the", "cat", "sat", "on", "a", "mat,", "went", "home.", "Again!"]
    keywords = [" ".join(tokens[start : start + 2]) for start in range(len(tokens))]
    assert values("generation", " ".join(tokens), keywords=keywords) == dict.fromkeys(KEYWORDS, 1.0)
