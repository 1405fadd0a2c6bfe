"""`figeval board`: which runs are on one leaderboard, and which files of a site are replaced."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Harness
from tests.cli.conftest import Cli
from tests.finished_runs import finished, run, score, store, task
from tests.runs.conftest import write_task

MEASURED_FOLDER = Path(__file__).resolve().parents[3] / "results" / "measured"
HOSTILE_TEXT = "<script>alert('x')</script>\x1b[31m"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on all examples, and one on the first five."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("overlap", "random", "chance"):
        finished(folder / "deep" / model, "mini_fables", "mini_pairs", model=model)
    finished(folder / "limited", "mini_fables", model="random", limit=5)
    return folder


def boards(site: Path, name: str) -> list[dict[str, Any]]:
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    return [leaderboard for leaderboard in content["leaderboards"] if leaderboard["name"] == name]


def models(board: dict[str, Any]) -> list[str]:
    return [row["model"] for row in board["rows"] if row["kind"] == "run"]


# ---- what is ranked with what ---------------------------------------------------------------------------------------


@pytest.mark.wing("comparison")
def test_runs_on_the_same_examples_are_ranked_as_compare_ranks_them(cli: Cli, runs: Path, tmp_path: Path) -> None:
    done = cli("board", runs, "-o", "site")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("site/index.html (4 runs, ")
    over_all, limited = boards(tmp_path / "site", "mini_fables")
    folders = [runs / "deep" / name for name in ("overlap", "random", "chance")]
    ranks = {
        folders[rank.run].name: (rank.rank, rank.best, rank.worst)
        for rank in figeval.compare(*folders).result.ranks
        if rank.task == "mini_fables"
    }
    shown = {row["model"]: (row["rank"], row["best"], row["worst"]) for row in over_all["rows"] if row["kind"] == "run"}
    assert {name: rank_of_name[0] for name, rank_of_name in shown.items()} == {
        name: rank_of_name[0] for name, rank_of_name in ranks.items()
    }
    for name, (_, best, worst) in shown.items():
        # `compare` corrects over the pairs of runs on all tasks, a leaderboard over those on its own.
        assert ranks[name][1] <= best <= worst <= ranks[name][2]
    assert over_all["apart"] == ""
    assert limited["apart"] == "--limit 5: the first 5 of 20 examples"
    assert models(limited) == ["random (limit=5)"]
    trivial = [{row["model"] for row in part["rows"] if row["kind"] == "baseline"} for part in (over_all, limited)]
    assert trivial[0] == set(), "trivial models that were run are no baselines, too"
    assert {"chance", "overlap"} <= trivial[1]


def test_without_the_wing_that_compares_ranks_have_no_sets(
    cli: Cli, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figeval, "__all__", [name for name in figeval.__all__ if name != "compare"])
    assert cli("board", runs, "-o", "site").code == 0
    complete, _ = boards(tmp_path / "site", "mini_fables")
    ranked = [row for row in complete["rows"] if row["kind"] == "run"]
    assert {row["note"] for row in ranked} == {"figeval/wings/comparison, which tests ranks, is not installed"}
    assert {row["best"] for row in ranked} == {None}
    assert min(row["rank"] for row in ranked) == 1


def test_other_data_are_ranked_apart_and_the_page_says_why(cli: Cli, tmp_path: Path) -> None:
    template = {"template": "plain", "template_sha256": "a" * 64}
    changes: dict[str, Any] = {
        "usual": template,
        "same": template,
        "without": {},
        "version": {"version": 0},
        "examples": {"examples_sha256": "b" * 64},
        "prompt": {"template": "loud", "template_sha256": "c" * 64},
        "schema": {},
    }
    for name, fields in changes.items():
        record = run(task(**fields), model={"name": name, "backend": "encoder"}, identity=name[:8])
        store(tmp_path / "runs" / name, record.model_copy(update={"schema_version": "1.4"} if name == "schema" else {}))
    cli("board", "runs", "-o", "site")
    models_apart = {
        leaderboard["apart"]: set(models(leaderboard)) for leaderboard in boards(tmp_path / "site", "proverbs")
    }
    assert models_apart == {
        "": {"usual", "same", "without"},
        "version 0 of the task, not 1": {"version"},
        "other examples (sha256 bbbbbbbb…, not 00000000…)": {"examples"},
        "another prompt (loud, sha256 cccccccc…)": {"prompt"},
        "recorded with schema 1.x, not 2.x": {"schema"},
    }
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert all(f"Ranked apart: {reason}." in page for reason in models_apart if reason)
    assert "not all of these runs have stored predictions" in page


def test_runs_of_different_sizes_are_told_apart_and_notes_stand_below(cli: Cli, tmp_path: Path) -> None:
    for n in (15, 100):
        sized_task = task(n=n, available=200, only_label="yes", warnings=["punished by construction"])
        sized_task.scores = [score(n=n)]
        both = {"suite": "s", "contrast": "c", "tasks": [sized_task.task], "label": "yes", "positive": n, "negative": n}
        contrast = {**both, "scores": [score("auc", n=2 * n)]}
        store(
            tmp_path / "runs" / str(n),
            run(sized_task, model={"name": f"m{n}", "backend": "given"}, identity=f"{n:08}", contrasts=[contrast]),
        )
    cli("board", "runs", "-o", "site")
    for name in ("proverbs", "s:c"):
        leaderboards = boards(tmp_path / "site", name)
        assert [models(leaderboard) for leaderboard in leaderboards] == [["m100"], ["m15"]]
    (row, *_) = (row for row in boards(tmp_path / "site", "proverbs")[0]["rows"] if row["kind"] == "run")
    assert row["rank"] is None, "one answer is right for every example"
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "(n = 15)" in page
    for note in ("the right answer is yes for every example of proverbs", "proverbs: punished by construction"):
        assert f"<li>{note}</li>" in page
        assert note in (tmp_path / "site" / "board.csv").read_text(encoding="utf-8")


def test_an_overview_of_models_and_benchmarks_for_each_part_of_the_examples(
    cli: Cli, runs: Path, tmp_path: Path
) -> None:
    for model in ("overlap", "random"):
        finished(tmp_path / "limited" / model, "mini_fables", "mini_pairs", model=model, limit=5)
    cli("board", runs, "limited", "-o", "site")
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    tables = re.findall(r"<summary>All tasks(.*?)</summary>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    shown = {title: re.findall(r"<a href[^>]*>([^<]*)</a>", body) for title, body in tables}
    assert set(shown) == {"", ", --limit 5"}
    assert set(shown[""]) == {"overlap", "random", "chance"}
    assert "overlap (limit=5)" in shown[", --limit 5"]


def test_ties_share_a_rank_and_seen_examples_have_none(cli: Cli, tmp_path: Path) -> None:
    scores = {
        "a": score(value=0.5),
        "b": score(value=0.5),
        "c": score(value=0.25),
        "d": score(value=1.0, seen="trained"),
    }
    for name, value in scores.items():
        record = run(task(scores=[value]), model={"name": name, "backend": "encoder"})
        store(tmp_path / "runs" / name, record)
    cli("board", "runs", "-o", "site")
    (board,) = boards(tmp_path / "site", "proverbs")
    ranks = {row["model"]: row["rank"] for row in board["rows"] if row["kind"] == "run"}
    assert ranks == {"a": 1, "b": 1, "c": 3, "d": None}
    assert "no rank: the model has seen some of these examples" in (tmp_path / "site" / "index.html").read_text()


def test_a_model_by_two_names_is_named_and_ranked_once(cli: Cli, tmp_path: Path) -> None:
    """Its repeated scores would be tied, and push all others down."""
    models = {"minilm": "sha256:aa", "all-MiniLM-L6-v2": "sha256:aa", "other": "sha256:bb", "unknown": ""}
    scores = {"first": 0.5, "second": 0.25}
    for (name, fingerprint), hour in zip(models.items(), range(9, 0, -1), strict=False):
        value = 0.125 if name in ("other", "unknown") else 0.5
        tasks = [task(task_name, scores=[score(value=min(value, highest))]) for task_name, highest in scores.items()]
        tasks[1].scores[0].value = {"minilm": 0.25, "all-MiniLM-L6-v2": 0.2}.get(name, 0.125)
        model = {"name": name, "backend": "encoder", "fingerprint": fingerprint}
        record = run(*tasks, model=model, started=f"2026-01-01T0{hour}:00:00Z")
        store(tmp_path / "runs" / name, record)
    cli("board", "runs", "-o", "site")
    (same,), (differing,) = (boards(tmp_path / "site", name) for name in scores)
    rows = [{row["model"]: row for row in leaderboard["rows"]} for leaderboard in (same, differing)]
    ranks = [{name: row["rank"] for name, row in row_of_model.items() if row["kind"] == "run"} for row_of_model in rows]
    assert ranks[0] == {"minilm": 1, "all-MiniLM-L6-v2": None, "other": 2, "unknown": 2}
    assert rows[0]["all-MiniLM-L6-v2"]["note"] == "the same model with the same scores as minilm"
    assert ranks[1] == {"minilm": 1, "all-MiniLM-L6-v2": 2, "other": 3, "unknown": 3}
    assert {name: row["same_as"] for name, row in rows[1].items() if row["same_as"]} == {"all-MiniLM-L6-v2": "minilm"}
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert page.count("no rank: the same model with the same scores as minilm") == 1
    assert page.count(">the same model as minilm<") == 1


def test_why_there_is_no_confidence_set_stands_below_its_table(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        tasks = (task("both"), *([task("alone")] if name == "a" else []))
        store(tmp_path / "runs" / name, run(*tasks, model={"name": name, "backend": "encoder"}))
    cli("board", "runs", "-o", "site")
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r'<section class="board" data-name="(\w+)">(.*?)</section>', page, re.DOTALL))
    assert set(sections) == {"both", "alone"}
    assert "No 95 % set of ranks: not all of these runs have stored predictions." in sections["both"]
    assert page.count("No 95 % set of ranks") == 1


def test_a_lower_score_can_be_better(cli: Cli, tmp_path: Path) -> None:
    for name, value in (("far", 0.5), ("near", 0.25)):
        distance = score("distance", value, higher_is_better=False)
        record = run(task(scores=[distance], baselines=[]), model={"name": name, "backend": "encoder"})
        store(tmp_path / "runs" / name, record)
    cli("board", "runs", "-o", "site")
    (board,) = boards(tmp_path / "site", "proverbs")
    assert [(row["model"], row["rank"]) for row in board["rows"]] == [("near", 1), ("far", 2)]


@pytest.mark.slow
def test_several_seeds_are_one_entry(cli: Cli, tmp_path: Path) -> None:
    assert cli("board", MEASURED_FOLDER / "minilm-seen", "-o", "site").out.startswith("site/index.html (1 run, ")
    (board,) = boards(tmp_path / "site", "epic_retrieval_seen")
    (row,) = [row for row in board["rows"] if row["kind"] == "run"]
    assert (row["seeds"], row["scores"][0]["value"]) == (3, pytest.approx((0.165 + 0.154 + 0.167) / 3))


def test_tasks_without_a_score_are_listed(cli: Cli, tmp_path: Path) -> None:
    tasks = (
        task("one"),
        task("two", status="failed", error="Traceback\nValueError: no"),
        task("three", status="running"),
    )
    store(tmp_path / "runs", run(*tasks))
    cli("board", "runs", "-o", "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<li>two of a-model failed</li><li>three of a-model is not finished</li>" in page


# ---- what is found --------------------------------------------------------------------------------------------------


def test_a_damaged_run_is_skipped_with_one_warning(cli: Cli, runs: Path, tmp_path: Path) -> None:
    record = (runs / "limited" / "run.json").read_text(encoding="utf-8")
    for name in ("good", "cut", "foreign"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "good" / "run.json").write_text(record)
    (tmp_path / "runs" / "cut" / "run.json").write_text(record[: len(record) // 2])
    (tmp_path / "runs" / "foreign" / "run.json").write_text('{"schema_version": "9.0"}')
    done = cli("board", "runs", "-o", "site")
    assert done.code == 0
    assert done.out.startswith("site/index.html (1 run, ")
    warnings = done.err.splitlines()
    assert [line.split(": ")[2] for line in warnings] == ["runs/cut is skipped", "runs/foreign is skipped"]


def test_changed_predictions_are_damage_and_copies_count_once(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "runs" / "a", "mini_fables", baselines=False)
    finished(tmp_path / "runs" / "b", "mini_fables", baselines=False, model="random")
    with (tmp_path / "runs" / "b" / "predictions" / "mini_fables.jsonl").open("a") as stream:
        stream.write("{}\n")
    store(tmp_path / "runs" / "copy", figeval.load(tmp_path / "runs" / "a").record)
    done = cli("board", "runs", "runs/a", "-o", "site")
    assert done.out.startswith("site/index.html (1 run, ")
    assert "runs/b is skipped: " in done.err
    assert "runs/copy is skipped: it is a copy of runs/a" in done.err


def test_nothing_to_show_is_an_error_with_a_cure(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "give a folder in which runs are stored" in cli("board", "empty").complaint
    assert "nowhere does not exist" in cli("board", "nowhere").complaint


# ---- the site -------------------------------------------------------------------------------------------------------


def test_a_rebuilt_site_replaces_only_its_own_files(cli: Cli, runs: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    cli("board", runs, "-o", "site")
    pages = {file.name for file in (site / "runs").iterdir()}
    assert len(pages) == 4
    (site / "notes.txt").write_text("mine")
    (site / "runs" / "mine.html").write_text("mine")
    assert cli("board", runs / "limited", "-o", "site").code == 0
    assert len({file.name for file in (site / "runs").iterdir()}) == 2, "the page of the run, and a foreign one"
    assert (site / "notes.txt").read_text() == (site / "runs" / "mine.html").read_text() == "mine"
    (site / "index.html").write_text("mine")
    assert "index.html was not written by `figeval board`" in cli("board", runs, "-o", "site").complaint
    assert (site / "index.html").read_text() == "mine"


def test_a_manifest_cannot_name_files_outside_the_site(cli: Cli, runs: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.html"
    victim.write_text("")
    (tmp_path / "site").mkdir()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    names = ("../victim.html", "runs/../../victim.html", str(victim))
    manifest = {"files": {name: [empty] for name in names}}
    (tmp_path / "site" / "figeval-board.json").write_text(json.dumps(manifest))
    assert cli("board", runs / "limited", "-o", "site").code == 0
    assert victim.exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(cli: Cli, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "runs").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in cli("board", runs / "limited", "-o", "site").complaint
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_site_is_not_put_within_a_run(cli: Cli, runs: Path, tmp_path: Path) -> None:
    finished(tmp_path / "own", "mini_fables", baselines=False)
    assert "is in a folder of the run" in cli("board", runs, "-o", "own/predictions").complaint
    assert {file.suffix for file in (tmp_path / "own" / "predictions").iterdir()} == {".jsonl"}


def test_names_from_outside_are_text(cli: Cli, tmp_path: Path) -> None:
    model = {"name": HOSTILE_TEXT, "backend": HOSTILE_TEXT}
    store(tmp_path / "runs" / "a", run(task("=cmd()"), model=model, identity=HOSTILE_TEXT))
    assert cli("board", "runs", "-o", "site", "--title", HOSTILE_TEXT).code == 0
    pages = [file.read_text(encoding="utf-8") for file in (tmp_path / "site").rglob("*.html")]
    assert len(pages) == 2
    for page in pages:
        assert "<script>alert" not in page
        assert "\x1b" not in page
        assert "default-src &#39;none&#39;; script-src &#39;sha256-" in page
    lines = list(csv.DictReader(io.StringIO((tmp_path / "site" / "board.csv").read_text(encoding="utf-8"))))
    assert {line["leaderboard"] for line in lines} == {"'=cmd()"}
    assert "\x1b" not in (tmp_path / "site" / "board.csv").read_text()


def test_the_benchmark_of_a_task_file_is_its_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "kettles").mkdir()
    write_task(tmp_path / "kettles", "own")
    (tmp_path / "kettles" / "both.suite.yaml").write_text("name: both\ndescription: x\ntasks: [own]\n")
    command = ("run", "--tasks", "both", "--model", "overlap", "-o", "runs/a", "--include_path", "kettles")
    assert cli(*command).code == 0
    assert cli("board", "runs", "-o", "site", "--include_path", "kettles").code == 0
    lines = list(csv.DictReader(io.StringIO((tmp_path / "site" / "board.csv").read_text(encoding="utf-8"))))
    assert {(line["benchmark"], line["leaderboard"]) for line in lines} == {("kettles", "own"), ("kettles", "both")}


@pytest.mark.slow
def test_a_site_has_no_texts_of_benchmarks(cli: Cli, runs: Path, tmp_path: Path) -> None:
    assert cli("board", runs, "-o", "site", "--reports").code == 0
    harness = Harness()
    spec = harness.catalogue.tasks.get("mini_fables")
    texts = [example.query for example in harness.examples(spec)]  # type: ignore[attr-defined]
    assert len(texts) == 20
    for file in (tmp_path / "site").rglob("*"):
        if file.is_file():
            content = file.read_text(encoding="utf-8")
            assert not [text for text in texts if text in content], file
    assert (tmp_path / "site" / "runs").is_dir()


def test_a_program_can_write_a_site(runs: Path, tmp_path: Path) -> None:
    site = figeval.board(runs, output=tmp_path / "site")
    assert (site.path, site.runs) == (tmp_path / "site", 4)
    assert site.bytes == sum(file.stat().st_size for file in site.path.rglob("*.*") if "figeval-" not in file.name)
    with pytest.raises(figeval.OptionError, match="folders is empty"):
        figeval.board([])


def test_a_program_can_write_a_report(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    page = figeval.report([runs / "deep" / "overlap", runs / "limited"], output=file, by="idiom", plots=False)
    assert (page.path, page.runs, page.bytes) == (file, 2, file.stat().st_size)
    with pytest.raises(figeval.OptionError, match="runs is empty"):
        figeval.report([])
    with pytest.raises(figeval.RecordError, match="give a run folder"):
        figeval.report("nowhere", output=file)
