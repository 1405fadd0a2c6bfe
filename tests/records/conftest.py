"""Fixture: a small finished run of a model without weights on tasks that are part of figeval."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.finished_runs import finished


@pytest.fixture(scope="session")
def mini_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("runs") / "mini", "mini", by=("figure",), log_samples=True)
