"""`figeval report` on real runs, and the page in a real browser."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

import figeval
from tests.browser import elements_of
from tests.cli.conftest import Cli
from tests.devtools import browsing
from tests.finished_runs import finished, over_seeds, run, store, task
from tests.wings.report.pages import contents


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    tasks = ("mini_fables", "mini_retrieval", "mini_pairs")
    return finished(folder / "overlap", *tasks), finished(folder / "random", *tasks, model="random", limit=15)


@pytest.mark.wing("comparison")
def test_a_report_on_two_runs(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = cli("report", *runs, "-o", "page.html", "--no_plots", "--by", "idiom")
    assert done.code == 0
    assert re.fullmatch(r"page\.html \(2 runs, 0\.[12] MB\)\n", done.out)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for shown in ("Paired comparisons", "exact McNemar", "Position bias", "mini_pairs by idiom", "chance 0.20"):
        assert shown in page
    documents = contents(page)
    assert list(documents) == ["mini_fables", "mini_retrieval", "mini_pairs"]
    fables = documents["mini_fables"]
    assert len(fables["ids"]) == 20
    assert fables["options"] == "options"
    assert all(isinstance(text, str) for text in fables["fields"]["query"])
    assert [run_content["status"].count("ok") for run_content in fables["runs"]] == [20, 15]
    assert len(documents["mini_retrieval"]["lists"]) == 1, "candidates that all examples share are stored once"
    assert "label" not in documents["mini_pairs"]["fields"]


def test_texts_can_be_left_out(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", runs[0], "--no_texts", "--no_plots")
    documents = contents((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not any(document["fields"] for document in documents.values())


def test_missing_data_are_a_notice(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    lines = ({"q": "a b", "o": ["b", "c"], "g": 0}, {"q": "d", "o": ["e", "d"], "g": 1})
    (tmp_path / "own" / "rows.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    task = ("name: own", "description: Mine", "type: choice", "data: {test: 'jsonl:rows.jsonl'}")
    fields = "fields: {id: row.q, query: row.q, options: row.o, gold: row.g}"
    (tmp_path / "own" / "own.task.yaml").write_text("\n".join((*task, fields)))
    ran = cli("run", "--tasks", "own", "--model", "overlap", "--include_path", "own", "--output_path", "run")
    assert ran.code == 0, ran.err
    assert "own are left out" not in cli("report", "run", "--include_path", "own", "--no_plots").out
    assert "The texts of own are left out: " in cli("report", "run", "--no_plots").out


@pytest.mark.wing("comparison")
def test_all_comparisons_are_one_family(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    majority = finished(tmp_path / "majority", "mini_pairs", model="majority", baselines=False)
    cli("report", *runs, majority, "--no_plots", "--no_texts")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("s correction over 4 tests") == 2, "three tasks against random, and one against majority"
    assert "mini_fables, mini_retrieval not compared: only in A<" in page


@pytest.mark.wing("comparison")
def test_comparisons_say_what_compare_says(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs, "--no_plots", "--no_texts")
    page = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    lines = cli("compare", *runs).out.splitlines()
    heads, *rows = (re.split("  +", line) for line in lines[1:5])
    assert "detectable" in heads
    for cell in (*heads, *(cell for row in rows for cell in row)):
        assert f">{cell}</t" in page
    notes = [line.strip() for line in lines[5:]]
    assert "mini_fables: left out 5 only in A" in notes
    for note in notes:
        assert f"<li>{note}</li>" in page
    assert "<li>exact McNemar: " in page
    assert "<li>sign flip: " in page
    assert "<li>permutation: " not in page, "no comparison used it"


@pytest.mark.wing("comparison")
def test_several_metrics_are_one_family(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs, "--no_plots", "--no_texts", "--metric", "mrr,acc")
    page = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    tables = dict(re.findall(r"<h3>A = .*?</span>: (\w+)</h3>(.*?)(?=<h3>|</section>)", page, re.DOTALL))
    assert list(tables) == ["mrr", "acc"]
    assert page.count("s correction over 4 tests") == 2, "acc of three tasks, and mrr of one"
    documents = contents(page)
    judged = {name: document["metric"] for name, document in documents.items()}
    assert judged == {"mini_fables": "acc", "mini_retrieval": "mrr", "mini_pairs": "acc"}
    assert {name: document["binary"] for name, document in documents.items()} == {
        name: metric == "acc" for name, metric in judged.items()
    }
    explored = {metric: set(re.findall(r'data-task="(\w+)" data-judged', text)) for metric, text in tables.items()}
    assert explored == {"mrr": set(), "acc": {"mini_fables", "mini_pairs"}}, "the explorer judges retrieval by mrr"


def test_one_reason_for_missing_texts_is_one_notice(cli: Cli, tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", "mini_fables", "mini_pairs", baselines=False)
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for stored in record["tasks"]:
        stored["examples_sha256"] = "0" * 64
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    out = cli("report", "run", "--no_plots").out
    assert "The texts of mini_fables, mini_pairs are left out: examples changed since this run was made; run it" in out


@pytest.mark.wing("comparison")
def test_a_score_that_is_no_mean_has_no_better_examples(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs, "--no_plots", "--no_texts", "--metric", "macro_f1")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<li>permutation and t: " in page
    assert "where A is better" not in page


def cells(page: str, label: str) -> list[list[str]]:
    """The rows of the score table that a run with this label has, without tags."""
    rows = re.findall(r'<tr[^>]* class="([^"]*)">\s*<th scope="row"(.*?)</tr>', page, re.DOTALL)
    texts = [(classes, re.sub(r"<[^>]*>", "|", row)) for classes, row in rows]
    return [[classes, *filter(None, row.split("|"))] for classes, row in texts if f"|{label}|" in row]


@pytest.mark.wing("comparison")
def test_a_folder_of_seeds_is_one_run_with_the_seeds_behind_it(
    cli: Cli, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    seeds = over_seeds(tmp_path / "seeds", "mini_fables", "mini_pairs", baselines=False)
    done = cli("report", "seeds", runs[0], "--no_plots", "--by", "idiom")
    assert done.out.startswith("report.html (4 runs, "), "three seeds and another run"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    means = {
        score.metric: score
        for task in figeval.load(seeds).record.tasks
        for score in task.scores
        if task.task == "mini_fables"
    }
    title = "random on mini, 3 seeds"
    first = next(row for row in cells(page, title) if "mini_fables" in " ".join(row))
    acc = means["acc"]
    assert acc.low is not None
    assert f"sd {acc.sd:.4f}" in " ".join(first)
    assert f"{acc.value:.2f}" in first
    assert f"{acc.low:.2f} to {acc.high:.2f}" in first
    assert "seed" not in first[0]
    for label in ("random", "random (seed=1)", "random (seed=2)"):
        assert {"seed" in row[0] for row in cells(page, label)} == {True}
    compared = cli("compare", "seeds", runs[0]).out
    assert "t over 3 and 1 seeds" in compared
    (line,) = [line for line in compared.splitlines() if line.startswith("mini_fables ")]
    assert all(f">{cell}</td>" in page for cell in re.split("  +", line))
    fables = contents(page)["mini_fables"]
    assert [run_content["run"] for run_content in fables["runs"]] == [2, 3, 4, 1], "the mean, run 0, has no answers"
    assert "mini_pairs by idiom" in page, "breakdowns are those of single seeds"


@pytest.mark.wing("comparison")
def test_examples_are_better_over_seeds_by_their_mean(tmp_path: Path) -> None:
    seeds = over_seeds(tmp_path / "seeds", "mini_fables", baselines=False)
    other = finished(tmp_path / "overlap", "mini_fables", baselines=False)
    rows = [
        {row["id"]: row["metrics"]["acc"] for row in figeval.load(folder).rows("mini_fables")}
        for folder in sorted(seeds.glob("seed-*"))
    ]
    alone = {row["id"]: row["metrics"]["acc"] for row in figeval.load(other).rows("mini_fables")}
    means = {example: sum(run[example] for run in rows) / 3 for example in rows[0]}
    a_better = [example for example, mean in means.items() if mean > alone[example]]
    b_better = [example for example, mean in means.items() if mean < alone[example]]
    written = figeval.report([seeds, other], output=tmp_path / "report.html", plots=False, texts=False)
    page = written.path.read_text(encoding="utf-8")
    assert a_better and b_better
    assert f"{len(a_better)} examples where A is better" in page and f"{len(b_better)} where B is better" in page
    assert set(re.findall(r'href="#item=mini_fables/(\w+)"', page)) == {*a_better, *b_better}


@pytest.mark.slow
def test_a_folder_of_seeds_has_all_its_trainings(cli: Cli, tmp_path: Path) -> None:
    seeds = Path(__file__).resolve().parents[3] / "results" / "measured" / "minilm-seen"
    assert cli("report", seeds, "--no_texts", "--no_plots").out.startswith("report.html (3 runs, ")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for seed in range(3):
        assert f"minilm on epic_retrieval_seen with biencoder, seed {seed}" in page
    assert "minilm on epic_retrieval_seen, 3 seeds" in page


@pytest.mark.slow
def test_texts_for_non_commercial_use_need_consent(cli: Cli, tmp_path: Path, real_data: str) -> None:
    finished(tmp_path / "run", "id10m_en", model="no_label", limit=2, baselines=False)
    for flags, n in (([], 0), (["--allow_noncommercial"], 2)):
        done = cli("report", "run", "--no_plots", *flags)
        assert ("the licence of id10m excludes commercial use" in done.out) == (n == 0)
        (document,) = contents((tmp_path / "report.html").read_text(encoding="utf-8")).values()
        assert len(document["fields"].get("tokens", [])) == n


def test_without_the_wing_that_compares_the_page_says_so(
    cli: Cli, runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figeval, "__all__", [name for name in figeval.__all__ if name != "compare"])
    assert "not compared" not in cli("report", runs[0], "--no_plots").out
    done = cli("report", *runs, "--no_plots")
    assert "The runs are not compared: figeval/wings/comparison is not installed." in done.out
    assert "Paired comparisons" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_refusals_have_a_cure(cli: Cli, runs: tuple[Path, Path]) -> None:
    assert "give a run folder" in cli("report", "nowhere").complaint
    assert "did you mean 'idiom'" in cli("report", runs[0], "--by", "idio").complaint
    assert "--output" in cli("report", runs[0], "--no_plots", "-o", "no/such/folder/page.html").complaint


@pytest.mark.system
def test_tables_are_sorted_with_the_keyboard_and_fit_a_phone(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs, "--no_plots", "--no_texts")
    values = (
        "[...document.querySelectorAll('#score-table tbody tr')].filter((row) => row.offsetParent)"
        ".map((row) => row.querySelector('.value').dataset.value).map(Number)"
    )
    head = "document.querySelector('#score-table th.number')"
    with browsing(tmp_path / "profile") as page:
        page.open((tmp_path / "report.html").as_uri())
        page.until("document.documentElement.dataset.ready")
        as_written = page.script(values)
        orders = []
        for _ in range(3):
            page.script(f"{head}.querySelector('button').focus()")
            page.press("Enter")
            orders.append((page.script(f"{head}.getAttribute('aria-sort')"), page.script(values)))
        assert orders == [
            ("descending", sorted(as_written, reverse=True)),
            ("ascending", sorted(as_written)),
            ("none", as_written),
        ]
        page.click("#tasks summary")
        page.click("#tasks li:last-child a")
        assert page.script("document.querySelector('tr:target').id") == "task-mini_pairs"
        assert not page.script("document.querySelector('#tasks').open")
        page.look(tmp_path / "phone.png", width=400)
        lines = (
            "[...document.querySelectorAll('#score-table tbody tr')].filter((row) => row.offsetParent).map((row) =>"
            " ['.who', '.value', '.limits'].map((cell) => row.querySelector(cell).getBoundingClientRect()))"
            ".map((boxes) => Math.max(...boxes.map((box) => box.top)) < Math.min(...boxes.map((box) => box.bottom))"
            " && boxes.every((box) => box.right <= innerWidth))"
        )
        assert set(page.script(lines)) == {True}, "name, value and interval of a run stand beside each other"
        assert page.script("document.documentElement.scrollWidth <= innerWidth")
        assert page.violations == []


@pytest.mark.system
def test_a_browser_runs_the_page(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs)
    dump = elements_of(tmp_path / "report.html", "#item=mini_fables/F02")
    assert 'data-ready="true"' in dump
    assert "data-error" not in dump
    assert "20 of 20 samples" in dump
    assert re.search(r'aria-selected="true"[^>]*>.*?F02', dump)
    images, links = (re.findall(rf'{name}="(data:image/svg[^"]*)"', dump) for name in ("src", "href"))
    assert images == links, "each chart can be downloaded"
    assert len(images) >= 2


# Works through the filters and the keyboard as a reader does, and leaves what was found in the page.
READER = """
<script>
const pause = () => new Promise((done) => setTimeout(done, 50));
const found = () => document.getElementById("match-count").textContent;
const send = (target, event) => target.dispatchEvent(event);
setTimeout(async () => {
  const seen = {};
  const [list, search] = [document.getElementById("list"), document.querySelector("input[type=search]")];
  search.value = "f07";
  send(search, new Event("input", { bubbles: true }));
  seen.search = found();
  document.querySelector("button[data-judged]").click();
  await pause();
  seen.button = found();
  [...document.querySelectorAll("#filters button")].pop().click();
  for (const key of ["End", "ArrowUp"]) send(list, new KeyboardEvent("keydown", { key }));
  seen.selected = document.querySelector("#item .id").textContent;
  document.querySelector("#item .steps button:last-child").click();
  seen.next = document.querySelector("#item .id").textContent;
  seen.isLast = document.querySelector("#item .steps button:last-child").disabled;
  await new Promise((done) => setTimeout(done, 500));
  seen.address = location.hash;
  document.body.dataset.seen = JSON.stringify(seen);
}, 500);
</script>"""


@pytest.mark.wing("comparison")
@pytest.mark.system
def test_filters_and_keyboard(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    cli("report", *runs, "--no_plots")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    button = re.search(r"A is better \((\d+)\) <button", page)
    assert button is not None
    copy = tmp_path / "copy.html"  # the policy would not allow another script
    copy.write_text(
        re.sub(r"<meta http-equiv[^>]*>", "", page).replace("</body>", f"{READER}</body>"), encoding="utf-8"
    )
    (seen,) = re.findall(r'data-seen="([^"]*)"', elements_of(copy))
    assert json.loads(unescape(seen)) == {
        "search": "1 of 20 samples",
        "button": f"{button[1]} of 20 samples",
        "selected": "F19",
        "next": "F20",
        "isLast": True,
        "address": "#item=mini_fables/F20",
    }


def test_every_address_in_the_page_is_of_one_row(tmp_path: Path) -> None:
    without_scores = run(task("late", status="running", scores=[]))
    page = figeval.report(
        [store(tmp_path / name, without_scores, {}) for name in "ab"], output=tmp_path / "report.html", plots=False
    ).path
    ids = re.findall(r'<tr id="(task-[^"]+)"', page.read_text(encoding="utf-8"))
    assert ids == ["task-late"]
