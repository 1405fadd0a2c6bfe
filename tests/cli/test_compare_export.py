"""`figeval compare` and `figeval export` on real runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import figeval
from figeval.records.run_folder import RunFolder, read_run
from tests.cli.conftest import Cli
from tests.runs import finished


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    overlap = finished(folder / "overlap", "mini_fables", "mini_retrieval", baselines=False)
    return overlap, finished(folder / "random", "mini_fables", "mini_pairs", model="random", limit=15, baselines=False)


def test_compare(cli: Cli, runs: tuple[Path, Path]) -> None:
    title, head, row, *notes = cli("compare", *runs).out.splitlines()
    assert title == "acc: A = overlap, B = random"
    assert head.split()[:5] == ["task", "A", "B", "A", "−"]
    assert row.split()[0] == "mini_fables"
    assert "exact McNemar" in row
    assert [note.strip() for note in notes] == [
        "A: mini_fables: 1 tie, scored by expectation",
        "B: --limit 15: the first examples, not a random sample",
        "Holm's correction over 1 test",
        "95 % interval: Tango's score interval for independent 0/1 values",
        "detectable: the difference that p < 0.05, uncorrected, would find with probability 0.8",
        "mini_fables: left out 5 only in A",
        "mini_pairs not compared: only in B",
        "mini_retrieval not compared: only in A",
    ]


def test_compare_as_json(cli: Cli, runs: tuple[Path, Path]) -> None:
    found = json.loads(cli("compare", *runs, "--json").out)
    assert (found["metric"], found["family"], found["a"]["model"]) == ("acc", 1, "overlap")
    (one,) = found["tasks"]
    assert (one["n"], one["unmatched_a"], one["p"], one["p_adjusted"]) == (15, 5, one["p"], one["p"])


def test_a_run_with_itself_does_not_differ(cli: Cli, runs: tuple[Path, Path]) -> None:
    for one in json.loads(cli("compare", runs[0], runs[0], "--json").out)["tasks"]:
        assert (one["difference"], one["p"]) == (0, 1)


def test_several_runs_are_ranked_and_compared_in_pairs(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    third = finished(tmp_path / "tfidf", "mini_fables", model="tfidf", baselines=False)
    lines = cli("compare", *runs, third).out.splitlines()
    assert lines[0] == "acc: ranks"
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["mini_fables", name] for name in sorted(("overlap", "random", "tfidf"), key=lambda name: ranked(lines, name))
    ]
    assert any("Benjamini and Hochberg's correction over 3 tests" in line for line in lines)
    found = json.loads(cli("compare", *runs, third, "--json").out)
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    assert {one["best"] for one in found["ranks"]} == {1}, "20 examples say nothing about the order"
    assert {one["worst"] for one in found["ranks"]} == {3}


def ranked(lines: list[str], name: str) -> int:
    """Line of a run in the first table."""
    return next(place for place, line in enumerate(lines) if line.split()[1:2] == [name])


def test_planned_comparisons_have_holms_correction(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    third = finished(tmp_path / "tfidf", "mini_fables", model="tfidf", baselines=False)
    found = json.loads(cli("compare", *runs, third, "--against", third, "--equivalence", "0.9", "--json").out)
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [(0, 2), (1, 2)]
    assert (found["correction"], found["family"], found["ranks"], found["margin"]) == ("holm", 2, [], 0.9)
    assert all(one["p_equivalence"] < 0.05 < one["p"] for pair in found["pairs"] for one in pair["tasks"])


def test_the_warnings_of_the_runs_are_repeated_once(runs: tuple[Path, Path], tmp_path: Path) -> None:
    copies = []
    for place, source in enumerate(runs):
        record, _ = read_run(source)
        for task in record.tasks:
            task.warnings, task.only_label = ["punished by construction"], "yes"
        record.digests, record.warnings = {}, [f"own warning of {place}"]
        copy = tmp_path / str(place)
        shutil.copytree(source, copy)
        RunFolder(copy).write(record)
        copies.append(copy)
    notes = list(figeval.compare(copies).notes())
    assert notes.count("A and B: mini_fables: punished by construction") == 1
    assert "A and B: the right answer is yes for every example of mini_fables" in notes
    assert {"A: own warning of 0", "B: own warning of 1"} < set(notes)
    assert not any("mini_pairs: punished" in note for note in notes), "a task that was not compared"


def test_tasks_with_the_same_rows_are_one_test(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """An encoder answers a retrieval task, alone or as a part of another task, with the same rows."""
    copies = []
    for place, source in enumerate(runs):
        record, _ = read_run(source)
        (fables,) = (task for task in record.tasks if task.task == "mini_fables")
        again = fables.model_copy(
            update={"task": "again", "predictions": "predictions/again.jsonl", "predictions_sha256": None}
        )
        record.digests, record.tasks = {}, [fables, again]
        copy = tmp_path / str(place)
        shutil.copytree(source, copy)
        shutil.copy(copy / fables.predictions, copy / again.predictions)
        RunFolder(copy).write(record)
        copies.append(copy)
    found = figeval.compare(copies)
    first, repeated = found.result.pairs[0, 1].tasks
    assert (found.family, repeated.same_as) == (1, "mini_fables")
    assert repeated.p_adjusted == first.p_adjusted == first.comparison.p
    assert "again: the same rows as mini_fables in both runs, counted as one test" in found.notes()
    rows = (copies[1] / again.predictions).read_text().splitlines()
    (copies[1] / again.predictions).write_text("\n".join(rows[:-1]) + "\n")
    assert figeval.compare(copies).family == 2, "the rows differ"


def test_power_needs_no_run(cli: Cli) -> None:
    (proverbs, fables) = json.loads(cli("power", "--tasks", "mini_proverbs,mini_fables", "--json").out)
    assert (proverbs["n"], proverbs["clusters"], fables["n"], fables["clusters"]) == (60, 30, 20, 20)
    assert proverbs["effect"] == pytest.approx(1.1)
    assert fables["difference"] is None
    head, row, *_ = cli("power", "--tasks", "mini_proverbs", "--disagreement", "0.3").out.splitlines()
    assert head.split()[-1] == "detectable"
    assert 0.1 < float(row.split()[-1]) < 0.3, "a fraction, as in `figeval compare`"


def test_compare_refuses_with_a_cure(cli: Cli, runs: tuple[Path, Path]) -> None:
    assert "did you mean 'mrr'" in cli("compare", runs[0], runs[0], "--metric", "mr").complaint
    assert "give a run folder" in cli("compare", runs[0], "nowhere").complaint
    assert "give at least two runs" in cli("compare", runs[0]).err
    assert "is none of the runs" in cli("compare", *runs, "--against", "nowhere").err


@pytest.mark.parametrize(
    ("form", "begins"), [("csv", "run,started"), ("json", "[\n"), ("latex", r"\begin{table}"), ("markdown", "| task |")]
)
def test_export(form: str, begins: str, cli: Cli, runs: tuple[Path, Path]) -> None:
    out = cli("export", *runs, "--to", form).out
    assert out.startswith(begins)
    assert "mini_fables" in out.replace("\\", "")
    cli("export", *runs, "--to", form, "--output", "table")
    assert Path("table").read_text(encoding="utf-8") == out


def test_export_refuses_with_a_cure(cli: Cli, runs: tuple[Path, Path]) -> None:
    assert "unknown format 'latx'; did you mean 'latex'" in cli("export", runs[0], "--to", "latx").complaint
    assert "--output" in cli("export", runs[0], "--to", "csv", "--output", "no/such/folder").complaint
    assert "give a run folder" in cli("export", "nowhere", "--to", "csv").complaint


def test_a_table_is_replaced_as_a_whole(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run", "mini_fables", baselines=False)
    table, linked = tmp_path / "all.csv", tmp_path / "linked.csv"
    linked.symlink_to(table)
    table.write_text("old\n")
    (tmp_path / "all.csv.part").symlink_to(tmp_path / "precious")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", killed)
        assert cli("export", "run", "--to", "csv", "--output", "all.csv").code == 130
    assert table.read_text() == "old\n"
    assert cli("export", "run", "--to", "csv", "--output", "linked.csv").code == 0
    assert linked.is_symlink()
    assert table.read_text().startswith("run,")
    assert not (tmp_path / "precious").exists()
    assert cli("export", "run", "--to", "csv", "--output", "/dev/stdout").code == 0


def test_export_in_a_layout(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    flags = ("--to", "latex", "--layout", "comparison", "--tasks", "mini_pairs,mini_fables", "--metrics", "acc")
    made = cli("export", *runs, *flags, "--examples").out
    assert made.index(r"mini\_pairs & acc") < made.index(r"mini\_fables & acc")
    assert "mini\\_retrieval &" not in made
    assert "Bold" not in made, "the runs answered different examples, so none is the best of two"
    assert "dagger" not in made
    third = finished(tmp_path / "tfidf", "mini_fables", model="tfidf", baselines=False)
    both = cli("export", runs[0], third, *flags[:4], "--tasks", "mini", "--against", third).out
    assert "Bold: the best run. $\\dagger$ differs from tfidf" in both
    assert both.count("\\bfseries") == 1
    alone = cli("export", "--to", "latex", "--layout", "impli_table_4")
    assert (alone.code, alone.out.count(r"\begin{tabular}")) == (0, 1)


def test_export_in_a_layout_refuses_with_a_cure(cli: Cli, runs: tuple[Path, Path]) -> None:
    for arguments, words in (
        ((runs[0], "--layout", "epic_table_7"), "run `figeval run --tasks epic_retrieval_seen,epic_retrieval_unseen`"),
        ((runs[0], "--layout", "epic_table_77"), "epic_table_7"),
        ((runs[0], "--layout", "comparison", "--against", runs[1]), "none of the runs"),
        ((), "Missing argument"),
    ):
        done = cli("export", "--to", "latex", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["run/run.json", "run/predictions/mini_fables.jsonl", "run/training/x.csv"])
@pytest.mark.parametrize("command", [("export", "run", "--to", "csv"), ("difficulty", "run", "run"), ("report", "run")])
def test_no_output_replaces_a_part_of_a_run(command: tuple[str, ...], name: str, cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_fables", baselines=False, limit=2)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert cli(*command, "-o", name).complaint.startswith(f"figeval: --output {name} ")
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before


def test_links_below_an_output_folder_are_not_followed(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_fables", baselines=False, limit=2)
    asked = ("export", "run", "--to", "lm_eval", "--output")
    assert cli(*asked, "first").code == 0
    made = sorted(file.relative_to(tmp_path / "first") for file in (tmp_path / "first").rglob("*.json*"))
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "second" / made[0].parent).mkdir(parents=True)
    (tmp_path / "second" / made[0]).symlink_to(tmp_path / "precious")
    assert cli(*asked, "second").code == 0
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "outside").mkdir()
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / made[0].parts[0]).symlink_to(tmp_path / "outside")
    assert "is a symbolic link" in cli(*asked, "third").complaint
    assert not list((tmp_path / "outside").iterdir())


def test_only_planned_tasks_are_tested(cli: Cli, tmp_path: Path) -> None:
    """The correction covers the named tasks; a suite stands for its tasks, and names are checked."""
    models = ("overlap", "random")
    pair = [finished(tmp_path / one, "mini", model=one, baselines=False) for one in models]
    every = json.loads(cli("compare", *pair, "--json").out)
    one = json.loads(cli("compare", *pair, "--tasks", "mini_fables", "--json").out)
    assert (one["family"], [found["task"] for found in one["tasks"]]) == (1, ["mini_fables"])
    assert every["family"] > 1 and one["tasks"][0]["p"] in [found["p"] for found in every["tasks"]]
    assert json.loads(cli("compare", *pair, "--tasks", "mini", "--json").out) == every
    refused = cli("compare", *pair, "--tasks", "mini_fabels")
    assert (refused.code, refused.complaint.partition(" or ")[0]) == (
        2,
        "figeval: --tasks mini_fabels: no run has it; did you mean 'mini_fables'",
    )
    assert "no run has it; they have mini_" in cli("compare", *pair, "--tasks", "qqq").complaint
    assert figeval.compare(pair, tasks="mini_fables").family == 1
