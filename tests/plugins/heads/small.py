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

from figeval import (
    ChoiceExample,
    Example,
    Harness,
    JointExample,
    PairExample,
    RankingExample,
    RunConfig,
    ScoredSpan,
    SpanExample,
)
from figeval.io.observer import Observer
from figeval.runs.run import run as run_pipeline
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.task_training import train_in_process
from figeval.wings.training.train_folder import Progress
from tests.plugins.tiny import BERT, make_tokenizer, save, word_pieces
from tests.wings.training.linear import Heard

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

    @property
    def trained(self) -> Path:
        return self.folder / "out"

    @property
    def harness(self) -> Harness:
        return Harness(include=(self.folder,))

    def train(self, heard: Heard | None = None, **changes: Any) -> Progress:
        """Through the very function that `figeval train` calls, chosen on what is learnt."""
        values = {"task": "small", "model": str(self.model), "output": self.trained, "device": "cpu"}
        steps = {"lr": 3e-3, "epochs": 60, "patience": None, "batch_size": 4, "evaluate_every": 20, "weight_decay": 0}
        config = TrainConfig.model_validate(
            {**values, **steps, "select_on": "test", "include_path": [self.folder], **changes}
        )
        return train_in_process(config, self.harness, heard or Heard())

    def answers(self) -> tuple[Any, list[dict[str, Any]]]:
        """The record's task and the predictions of `figeval run` on what was trained."""
        folder = self.folder / "run"
        config = RunConfig(tasks=("small",), model=str(self.trained), device="cpu", output_path=folder)
        record, _ = run_pipeline(config, self.harness, Observer())
        (task,) = record.tasks
        assert task.error is None
        lines = (folder / "predictions" / "small.jsonl").read_text("utf-8").splitlines()
        return task, [json.loads(line) for line in lines]

    def record(self) -> dict[str, Any]:
        training_record: dict[str, Any] = json.loads((self.trained / "training" / "record.json").read_text("utf-8"))
        return training_record


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


def write_network(learner: Any, network: Any, folder: Path) -> Path:
    """What the loop writes of a network."""
    folder.mkdir()
    weights = {name: value.detach().cpu() for name, value in network.state_dict().items()}
    (folder / "figeval.json").write_text(json.dumps(learner.save(network, weights, folder)))
    return folder


def assert_alike(spans: list[list[ScoredSpan]], expected: list[list[ScoredSpan]]) -> None:
    """The same spans; a score may differ in its last bit, where weights lie in memory makes that difference."""
    assert [[span.span for span in row] for row in spans] == [[span.span for span in row] for row in expected]
    scores = [[span.score for row in rows for span in row] for rows in (spans, expected)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def scores_of(task: Any) -> dict[str, float | None]:
    """Metric → score of a task's record."""
    return {score.metric: score.value for score in task.scores}


def best_of(progress: Progress) -> dict[str, float | None]:
    """The scores on dev that chose the model."""
    return next(evaluation.scores for evaluation in progress.evaluations if evaluation.step == progress.best)
