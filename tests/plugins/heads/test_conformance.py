"""The heads that read are learners as `figeval.testing` wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from figeval import Setup, plugins
from figeval.testing import check_learner
from figeval.wings.training.learners import load_learners
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


@pytest.mark.parametrize(("task_type", "head", "task"), HEADS)
def test_a_head_is_a_learner(task_type: str, head: str, task: str, tmp_path: Path) -> None:
    examples = examples_of(task, 6)
    labels = ("entailment", "non-entailment") if task_type == "pairs" else ()
    _, factory = load_learners(plugins.plugin_manager()).choose(task_type, head)
    model = small(tmp_path, task_type, examples).model
    options = {"pooling": "mean"} if head in ("biencoder", "joint") else {}
    check_learner(factory, Setup(model=str(model), labels=labels, options=options), examples, tolerance=1e-4)
