"""A few examples of tasks/mini as tasks with a train split, and a small model that can memorise them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import figeval
from figeval import (
    ChoiceExample,
    Example,
    Harness,
    JointExample,
    PairExample,
    RankingExample,
    ScoredSpan,
    SpanExample,
)
from tests import trainings
from tests.plugins.tiny import BERT, make_tokenizer, save, word_pieces

COMMON = "data: {train: 'jsonl:rows.jsonl', test: 'jsonl:rows.jsonl'}\nname: small\n"
TASKS = {
    "pairs": "type: pairs\nlabels: [entailment, non-entailment]\nmetrics: [acc]\n"
    "fields: {id: row.id, left: row.left, right: row.right, label: row.label}\n",
    "choice": "type: choice\nmetrics: [acc]\n"
    "fields: {id: row.id, query: row.query, options: row.options, gold: row.gold}\n",
    "ranking": "type: ranking\nmetrics: [acc, mrr]\n"
    "fields: {id: row.id, query: row.query, candidates: row.candidates, relevant: row.relevant}\n",
    "spans": "type: spans\nmetrics: [exact_match, span_f1]\n"
    "fields: {id: row.id, text: row.text, given: row.given, known: row.known, gold: row.gold}\n",
    "joint": "type: joint\nmetrics: [acc, mrr, span_f1]\nfields: {id: row.id, query: row.query, "
    "candidates: row.candidates, relevant: row.relevant, parts: row.parts}\n",
}


def examples_of(task: str, n: int) -> list[Any]:
    """The first examples of a task of tasks/mini."""
    harness = Harness()
    (task_spec,) = harness.catalogue.expand([task])
    return [example for example, _ in zip(harness.examples(task_spec), range(n), strict=False)]


def row_of(example: Example) -> dict[str, Any]:
    """An example as a row of a file."""
    match example:
        case PairExample():
            return {"id": example.id, "left": example.left, "right": example.right, "label": example.label}
        case ChoiceExample():
            return {"id": example.id, "query": example.query, "options": example.options, "gold": example.gold}
        case SpanExample():
            inputs = {"given": example.given, "known": example.known, "gold": example.answer}
            return {"id": example.id, "text": example.text, **inputs}
        case RankingExample():
            ranked = {"candidates": example.candidates, "relevant": sorted(example.relevant)}
            parts = [row_of(part) for part in example.parts] if isinstance(example, JointExample) else []
            return {"id": example.id, "query": example.query, **ranked, "parts": parts}
    raise TypeError(type(example))


def vocabulary(examples: Iterable[Example]) -> Any:
    """A tokenizer that knows the words of the examples, of 200 tokens at most."""
    texts = [text for example in examples for text in example.texts]
    tokenizer = make_tokenizer(partial(word_pieces, texts=texts, size=800), BERT)
    tokenizer.model_max_length = 200
    return tokenizer


@dataclass(frozen=True)
class Small:
    """A task with its examples in a folder, and a model without a head beside it."""

    folder: Path
    examples: Sequence[Any]

    @property
    def model(self) -> Path:
        return self.folder / "base"

    def train(self, model: Path | None = None, **changes: Any) -> figeval.Training:
        """Train in the folder `out`, chosen on the examples that are learnt, and run the task."""
        steps = {"lr": 3e-3, "epochs": 60, "patience": None, "batch_size": 4, "evaluate_every": 20, "weight_decay": 0}
        options = {"output": self.folder / "out", "select_on": "test", "include_path": self.folder}
        return trainings.train("small", model or self.model, **options | steps | changes)


def small(folder: Path, task_type: str, examples: Sequence[Any]) -> Small:
    """Write task and model."""
    from transformers import BertConfig, BertModel

    folder.mkdir(exist_ok=True)
    (folder / "small.task.yaml").write_text(COMMON + TASKS[task_type], encoding="utf-8")
    rows = "".join(json.dumps(row_of(example)) + "\n" for example in examples)
    (folder / "rows.jsonl").write_text(rows, encoding="utf-8")
    tokenizer = vocabulary(examples)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=200, initializer_range=0.1, **shape, **still)
    save(BertModel(config), tokenizer, folder / "base")
    return Small(folder, examples)


def assert_alike(spans: list[list[ScoredSpan]], expected: list[list[ScoredSpan]]) -> None:
    """The same spans; a score may differ in its last bit, where weights lie in memory makes that difference."""
    assert [[span.span for span in row] for row in spans] == [[span.span for span in row] for row in expected]
    scores = [[span.score for row in rows for span in row] for rows in (spans, expected)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def scores_of(run: figeval.Run | None) -> dict[str, float | None]:
    """Metric → score of the only task of a run."""
    assert run is not None
    (task,) = run.record.tasks
    assert task.error is None
    return {score.metric: score.value for score in task.scores}
