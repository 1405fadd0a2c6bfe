"""Heads by the names under which `figeval train --head` finds them, and the folders that they write."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from figeval import Harness, Setup
from figeval.wings.training.learners import Learners, load_learners


def head(task_type: str, name: str | None) -> Callable[[Setup], Any]:
    """Return the factory of a head, by default that of the task type; it is looked up when a learner is made."""

    def make_learner(setup: Setup) -> Any:
        _, factory = registered_heads().choose(task_type, name)
        return factory(setup)

    return make_learner


@cache
def registered_heads() -> Learners:
    return load_learners(Harness().manager)


def write_network(learner: Any, network: Any, folder: Path) -> Path:
    """Write what the training loop writes of a network, and return the folder."""
    folder.mkdir(exist_ok=True)
    weights = {name: value.detach().cpu() for name, value in network.state_dict().items()}
    (folder / "figeval.json").write_text(json.dumps(learner.save(network, weights, folder)))
    return folder
