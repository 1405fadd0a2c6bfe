"""`figeval benchmark diagnose` on real runs of trivial models."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.finished_runs import finished
from tests.sources import read_rows

# ---- real runs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(real_data: str, tmp_path: Path) -> tuple[Path, Path]:
    """`random` and `chance` on the first narratives."""
    tasks, options = ("epic_retrieval_seen", "epic_mcq_random"), {"limit": 60, "baselines": False}
    a = finished(tmp_path / "a", *tasks, model="random", **options)
    b = finished(tmp_path / "b", *tasks, model="chance", **options)
    return a, b


@pytest.mark.slow
def test_the_command_on_real_runs(runs: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    outcome = cli("benchmark", "diagnose", *runs, "--output", out)
    printed = outcome.out
    assert outcome.code == 0
    assert "Our interpretation of Figure 5" in printed
    assert "correlation of accuracies over proverbs: undefined" in printed
    for task in ("epic_retrieval_seen", "epic_mcq_random"):
        png, svg, page = (out / task / f"heat_map.{ending}" for ending in ("png", "svg", "html"))
        assert png.read_bytes().startswith(b"\x89PNG") and svg.stat().st_size > 1_000
        assert page.stat().st_size > 100_000 and "Neither model gets a narrative right for " in page.read_text("utf-8")
        record = json.loads((out / task / "diagnosis.json").read_text(encoding="utf-8"))
        for letter in "AB":
            stored = json.loads((runs["AB".index(letter)] / "run.json").read_text(encoding="utf-8"))
            (acc,) = (stored_task for stored_task in stored["tasks"] if stored_task["task"] == task)
            plain = record["runs"][letter]["accuracy"]["plain"]["score"]
            assert plain["value"] == pytest.approx(acc["scores"][0]["value"])  # the run's own accuracy
            assert sum(record["runs"][letter]["proverbs_by_narratives_right"]) == pytest.approx(
                record["versus"]["proverbs"]
            )
        assert sum(map(sum, record["versus"]["cells"])) == pytest.approx(record["versus"]["proverbs"])
    seen = json.loads((out / "epic_retrieval_seen" / "diagnosis.json").read_text(encoding="utf-8"))["runs"]["B"]
    for name, shares in seen["accuracy"].items():
        assert shares["score"]["value"] == pytest.approx(shares["chance"]), name  # all tie: the model is its own floor
    with (out / "epic_mcq_random" / "confusion.csv").open(encoding="utf-8", newline="") as stream:
        pairs = list(csv.DictReader(stream))
    assert pairs and not any(pair["paraphrase"] == "True" for pair in pairs)  # the items exclude them


@pytest.mark.slow
def test_a_run_of_version_2_is_diagnosed_with_its_own_options(real_data: str, tmp_path: Path, cli: Cli) -> None:
    """The right option stands at the same place in version 3, so a wrong answer would be taken for another proverb."""
    run = finished(tmp_path / "run", "epic_mcq_v2", model="random", limit=60, baselines=False)
    record = json.loads((run / "run.json").read_text("utf-8"))
    record["tasks"][0]["task"] = "epic_mcq"
    (run / "run.json").write_text(json.dumps(record))
    (run / "predictions" / "epic_mcq_v2.jsonl").rename(run / "predictions" / "epic_mcq.jsonl")
    assert cli("benchmark", "diagnose", run, "--no_plots", "--output", tmp_path).code == 0
    options = {(row["proverb_id"], option) for row in read_rows("epic:mcq_v2") for option in row["option_ids"]}
    with (tmp_path / "epic_mcq" / "confusion.csv").open(encoding="utf-8", newline="") as stream:
        pairs = {(row["gold"], row["predicted"]) for row in csv.DictReader(stream)}
    assert pairs and pairs <= options


@pytest.mark.slow
def test_what_the_user_can_mend(runs: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    unknown = cli("benchmark", "diagnose", runs[0], "--task", "epic_mcq_rando", "--output", tmp_path / "o")
    assert "did you mean 'epic_mcq_random'?" in unknown.complaint
    assert "nowhere: cannot be read" in cli("benchmark", "diagnose", tmp_path / "nowhere").complaint
    other = finished(tmp_path / "mini", "mini_pairs", baselines=False)
    assert "nothing to diagnose: it has mini_pairs" in cli("benchmark", "diagnose", other).complaint
    (tmp_path / "file").write_text("")
    assert "--output" in cli("benchmark", "diagnose", runs[0], "--output", tmp_path / "file").complaint
