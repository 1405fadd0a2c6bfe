"""The heads that read are learners as `figeval.testing` wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from figeval import Setup
from figeval.testing import check_learner
from tests.learners import head
from tests.plugins.heads.small import examples_of, small

HEADS = [
    ("pairs", "cross", "mini_pairs"),
    ("pairs", "biencoder", "mini_pairs"),
    ("choice", "cross", "mini_fables"),
    ("choice", "biencoder", "mini_fables"),
    ("choice", "marker", "mini_fables"),
    ("ranking", "cross", "mini_retrieval"),
    ("ranking", "biencoder", "mini_retrieval"),
    ("spans", "span", "mini_alignment"),
    ("joint", "joint", "mini_joint"),
]


@pytest.mark.parametrize(("task_type", "name", "task"), HEADS)
def test_a_head_is_a_learner(task_type: str, name: str, task: str, tmp_path: Path) -> None:
    examples = examples_of(task, 6)
    labels = ("entailment", "non-entailment") if task_type == "pairs" else ()
    model = small(tmp_path, task_type, examples).model
    options = {"pooling": "mean"} if name in ("biencoder", "joint") else {}
    setup = Setup(model=str(model), labels=labels, options=options)
    check_learner(head(task_type, name), setup, examples, tolerance=1e-4)
