"""`figeval export` on real runs, and the files that no command replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.finished_runs import finished


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    overlap = finished(folder / "overlap", "mini_fables", "mini_retrieval", baselines=False)
    return overlap, finished(folder / "random", "mini_fables", "mini_pairs", model="random", limit=15, baselines=False)


@pytest.mark.parametrize(
    ("form", "begins"),
    [("csv", "run,started"), ("json", "[\n"), ("latex", r"% \usepackage{booktabs}"), ("markdown", "| task |")],
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


@pytest.mark.wing("comparison")
def test_export_in_a_layout(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    flags = ("--to", "latex", "--layout", "comparison", "--tasks", "mini_pairs,mini_fables", "--metrics", "acc")
    table = cli("export", *runs, *flags, "--examples").out
    assert table.index(r"mini\_pairs & acc") < table.index(r"mini\_fables & acc")
    assert "mini\\_retrieval &" not in table
    assert "Bold" not in table, "the runs answered different examples, so none is the best of two"
    assert "dagger" not in table
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
@pytest.mark.parametrize(
    "command",
    [
        ("export", "run", "--to", "csv"),
        pytest.param(("difficulty", "run", "run"), marks=pytest.mark.wing("comparison")),
        pytest.param(("report", "run"), marks=pytest.mark.wing("report")),
    ],
)
def test_no_output_replaces_a_part_of_a_run(command: tuple[str, ...], name: str, cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_fables", baselines=False, limit=2)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert cli(*command, "-o", name).complaint.startswith(f"figeval: --output {name} ")
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before


def test_links_below_an_output_folder_are_not_followed(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_fables", baselines=False, limit=2)
    arguments = ("export", "run", "--to", "lm_eval", "--output")
    assert cli(*arguments, "first").code == 0
    written_files = sorted(file.relative_to(tmp_path / "first") for file in (tmp_path / "first").rglob("*.json*"))
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "second" / written_files[0].parent).mkdir(parents=True)
    (tmp_path / "second" / written_files[0]).symlink_to(tmp_path / "precious")
    assert cli(*arguments, "second").code == 0
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "outside").mkdir()
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / written_files[0].parts[0]).symlink_to(tmp_path / "outside")
    assert "is a symbolic link" in cli(*arguments, "third").complaint
    assert not list((tmp_path / "outside").iterdir())
