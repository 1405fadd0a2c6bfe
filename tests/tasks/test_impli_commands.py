"""The commands `figeval benchmark analyze impli` and `figeval benchmark curve impli`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished


@pytest.mark.slow
def test_a_run_is_analyzed(real_data: str, tmp_path: Path, cli: Cli) -> None:
    tasks = ("impli_idioms_gold_ent", "impli_idioms_gold_ant", "impli_idioms_silver_adv")
    run = finished(tmp_path / "run", *tasks, model="overlap", limit=60, baselines=False)
    outcome = cli("benchmark", "analyze", "impli", run, "--output", tmp_path / "out")
    assert outcome.code == 0
    printed = outcome.out
    assert "the printed r = .45 must be .045" in printed
    assert "idioms, gold" in printed
    content = json.loads((tmp_path / "out" / "analysis.json").read_text(encoding="utf-8"))
    assert [column["column"] for column in content["flexibility"]] == list(tasks)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("analysis.json", "idioms.csv", "distances.csv", "measured.json"),
        *(f"{name}.{ending}" for name in ("distances", "flexibility") for ending in ("png", "svg", "html")),
    }
    idioms = (tmp_path / "out" / "idioms.csv").read_text(encoding="utf-8").splitlines()
    assert len(idioms) > 700, "flexibility is that of all rows of the data, whatever was asked"
    rows = (tmp_path / "out" / "distances.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert sum(float(row.rsplit(",", 1)[1]) for row in rows) == 180
    correlation = next(row for row in content["flexibility"] if row["column"] == "impli_idioms_silver_adv")
    text = figeval.export([], to="latex", layout="impli_text", measured=tmp_path / "out")
    assert text is not None
    line = f"overlap & {{--}} & {{--}} & {correlation['r']:.3f} & {correlation['p']:.3f}"
    assert line in text.partition("{Measured}")[2]


def test_a_run_without_impli_is_refused_in_one_line(tmp_path: Path, cli: Cli) -> None:
    run = finished(tmp_path / "run", "mini_pairs", model="overlap", limit=5, baselines=False)
    complaint = cli("benchmark", "analyze", "impli", run).complaint
    assert "has no finished task of IMPLI (it has mini_pairs); run --tasks impli" in complaint


@pytest.mark.slow
def test_the_paper_trains_a_point_as_its_preset_says(real_data: str, tmp_path: Path, cli: Cli) -> None:
    flags = ("--model", "minilm", "--preset", "paper", "--no_plots", "--device", "none-such")
    outcome = cli("benchmark", "curve", "impli", "--output", tmp_path / "c", *flags)
    assert "figeval show paper:figure4-roberta-base" in outcome.out
    config = json.loads((tmp_path / "c" / "curve.json").read_text(encoding="utf-8"))["config"]
    printed = json.loads(cli("show", "paper:figure4-roberta-base", "--json").out)["printed"]
    assert printed.items() <= config.items()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--points", "0,10"), "--points: '10' is not a number from 0 to 9"),
        (("--regimes", "both,entailmnt"), "--regimes: there is no 'entailmnt'; did you mean 'entailment'"),
    ],
)
def test_what_is_no_curve_is_one_line(flags: tuple[str, ...], words: str, tmp_path: Path, cli: Cli) -> None:
    outcome = cli("benchmark", "curve", "impli", "--model", "minilm", "--output", tmp_path / "c", "--no_plots", *flags)
    assert words in outcome.complaint
