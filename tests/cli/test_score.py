"""Command `figeval score`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.processes import figeval

FABLES = "id,prediction\nF01,E\nF02,\n"


@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
def test_scored_predictions_are_read_like_any_run(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("\ufeffid;prediction;note\nF01;E;x\nF02;2;y\nF03;;z\n", encoding="utf-8")
    done = figeval("score", "-t", "mini_fables", "-p", "ours.csv", "--limit", "3", "-o", "ours", cwd=tmp_path)
    assert "ours (predictions)" in done.stdout
    assert "1 of 3 examples has no prediction; it counts as an empty answer, not as a wrong one" in done.stdout
    record = json.loads((tmp_path / "ours" / "run.json").read_text(encoding="utf-8"))
    assert [baseline["baseline"] for baseline in record["tasks"][0]["baselines"]] == ["chance", "overlap"]
    figeval("run", "-t", "mini_fables", "-m", "overlap", "--limit", "3", "-o", "overlap", cwd=tmp_path)
    assert (
        "left out 1 without a valid answer"
        in figeval("compare", "ours", "overlap", "--metric", "acc", cwd=tmp_path).stdout
    )
    table = figeval("export", "ours", "overlap", "--to", "csv", cwd=tmp_path).stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {(row["model"], row["backend"]) for row in rows if row["kind"] == "model"} == {
        ("ours", "predictions"),
        ("overlap", "overlap"),
    }
    again = figeval("score", "-t", "mini_fables", "-p", "ours.csv", "--limit", "3", "-o", "ours", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert "3 of 3 answers kept" in again.stderr


def test_several_seeds_print_mean_and_spread(cli: Cli) -> None:
    lines = [{"id": f"F{n:02}", "answer": (n + seed) % 5, "seed": seed} for n in range(1, 21) for seed in (1, 2, 3)]
    Path("system.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    flags = ("--columns", "prediction=answer", "--no_baselines", "-o", "seeds")
    done = cli("score", "-t", "mini_fables", "-p", "system.jsonl", *flags)
    assert done.code == 0, done.err
    assert "system on mini_fables, 3 seeds" in done.out
    table = list(csv.DictReader(io.StringIO(cli("export", "seeds", "--to", "csv").out)))
    assert table[0]["sd"]


def test_control_characters_do_not_reach_the_terminal(cli: Cli) -> None:
    row = {"id": "F01\x1b[31m", "prediction": "\x1b]0;x\x07"}
    Path("p.jsonl").write_text(json.dumps(row), encoding="utf-8")
    outcome = cli("score", "-t", "mini_fables", "-p", "p.jsonl")
    assert "\x1b" not in outcome.complaint
    Path("q.jsonl").write_text(json.dumps({"id": "F01", "prediction": 0}), encoding="utf-8")
    flags = ("--limit", "1", "--no_baselines", "-o", "run")
    outcome = cli("score", "-t", "mini_fables", "-p", "q.jsonl", "--name", "a\x1b[31mb", *flags)
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "F01", "prediction": 0, "prediction": 1}', "the key 'prediction' is given twice"),
        ('{"id": "F01", "scores": [1' + "0" * 400 + ", 0, 0, 0, 0]}", "is not a number"),
    ],
)
def test_a_row_that_two_readers_understand_differently(line: str, message: str, cli: Cli) -> None:
    Path("p.jsonl").write_text(f"{line}\n", encoding="utf-8")
    assert message in cli("score", "-t", "mini_fables", "-p", "p.jsonl", "--limit", "1").complaint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --predictions, or --write_template"),
        (["-p", "a.csv", "--write_template", "new.csv"], "give either --predictions, or --write_template"),
        (["-p", "a.csv", "--seeds", "2"], "--seeds needs --write_template"),
        (["--write_template", "a.csv"], "a.csv exists and may have been filled in"),
        (["--write_template", "a.txt"], "the name must end in .csv, .tsv, .jsonl, .json"),
        (
            ["--write_template", "new.csv", "--by", "idiom", "--sample", "5", "--stratify", "mood"],
            "--stratify mood: none of these tasks",
        ),
        (["-p", "none.csv"], "there is no file none.csv"),
        (["-p", "empty.csv"], "empty.csv: there are no rows"),
        (["-p", "a.csv", "-p", "b.csv"], "give one FILE, or TASK=FILE once for each task"),
        (["-p", "mini_fables=a.csv", "-p", "mini_fables=a.csv"], "give one FILE, or TASK=FILE once for each task"),
        (["-p", "mini_pairs=a.csv", "-p", "mini_fables=b.csv"], "give that of the system that made them with --name"),
        (["-p", "a.csv", "--name", "\x1b[31m"], "give that of the system that made them with --name"),
        (["-p", "a.csv", "--name", " "], "give that of the system that made them with --name"),
        (["-p", "mini_fabels=a.csv"], "there is no task 'mini_fabels'; did you mean 'mini_fables'?"),
        (["-p", "mini_pairs=a.csv"], "there are no predictions for mini_fables"),
        (["-p", "a.csv", "--columns", "predicton=x"], "write FIELD=NAME, such as prediction=answer"),
        (["-p", "a.csv", "-t", "mini_pairs"], "it names no task; add a column `task`"),
        (["-p", "a.csv", "--by", "idiom"], "--by idiom: none of these tasks has it"),
        (["-p", "a.csv", "--temperature", "2"], "--set temperature=2"),
        (["-p", "a.csv", "--set", "temperature=2"], "there is no setting 'temperature'"),
    ],
)
def test_refused(arguments: list[str], message: str, cli: Cli) -> None:
    for name, text in {"a.csv": FABLES, "b.csv": FABLES, "empty.csv": "id,prediction\n"}.items():
        Path(name).write_text(text, encoding="utf-8")
    assert message in cli("score", "-t", "mini_fables", *arguments).complaint
    assert not Path("results").exists()


def test_predictions_of_other_tasks_are_left_out_with_a_notice(cli: Cli) -> None:
    Path("all.csv").write_text("id,prediction,task\nF01,E,mini_fables\nI01E,entailment,mini_pairs\n", encoding="utf-8")
    done = cli("score", "-t", "mini_fables", "-p", "all.csv", "--limit", "1", "--no_baselines", "-o", "run")
    assert done.code == 0
    assert "left out, since --tasks does not name them: predictions for mini_pairs" in done.err


ANSWERS = {"mini_pairs": "entailment", "mini_fables": "A"}


def fill_template(file: Path) -> str:
    """Return the content of a template with the same prediction for all examples of a task."""
    text = file.read_text(encoding="utf-8")
    if file.suffix in (".csv", ".tsv"):
        rows = list(csv.DictReader(io.StringIO(text), delimiter="," if file.suffix == ".csv" else "\t"))
    else:
        rows = json.loads(text) if file.suffix == ".json" else list(map(json.loads, text.splitlines()))
    for row in rows:
        assert not row["prediction"]
        row["prediction"] = ANSWERS[row["task"]]
    if file.suffix in (".json", ".jsonl"):
        return json.dumps(rows) if file.suffix == ".json" else "\n".join(map(json.dumps, rows))
    template = io.StringIO()
    writer = csv.DictWriter(template, rows[0], delimiter="," if file.suffix == ".csv" else "\t")
    writer.writeheader()
    writer.writerows(rows)
    return template.getvalue()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json"])
def test_a_template_has_a_row_for_every_example_that_is_scored(suffix: str, cli: Cli) -> None:
    arguments = ("-t", "mini_pairs,mini_fables", "--sample", "5")
    file = Path(f"new/given.{suffix}")
    written = cli("score", *arguments, "--write_template", str(file), "--seeds", "3,8")
    assert written.code == 0, written.err
    assert "20 rows" in written.out
    assert "mini_pairs: 5 examples; write one of the labels: entailment, non-entailment" in written.out
    assert "mini_fables: 5 examples; write the index of an option" in written.out
    assert "there are no predictions for mini_pairs" in cli("score", *arguments, "-p", str(file)).err
    both = cli("score", *arguments, "--limit", "5", "--write_template", f"two.{suffix}")
    assert (both.code, "give only one of them" in both.err) == (2, True)
    file.write_text(fill_template(file), encoding="utf-8")
    done = cli("score", *arguments, "-p", str(file), "--no_baselines", "-o", "run")
    assert done.code == 0, done.err
    for seed in (3, 8):
        record = json.loads(Path(f"run/seed-{seed}/run.json").read_text(encoding="utf-8"))
        assert [(task["n"], task["counts"]) for task in record["tasks"]] == [(5, {"ok": 5})] * 2
