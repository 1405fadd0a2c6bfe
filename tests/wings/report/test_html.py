"""The page of `figeval report`: what it shows, and that nothing in it can act or be fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import figeval
from figeval import RunRecord
from tests.browser import elements_of
from tests.finished_runs import row, run, score, store, task
from tests.wings.report.pages import contents, tables

HOSTILE_TEXT = "</script><script>alert('x')</script>\x1b[31m\u202e"
CLEAN_TEXT = "</script><script>alert('x')</script>"


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._open in self.inside:
            self.inside[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def page_of(*folders: Path, **options: Any) -> str:
    output = folders[0].parent / "report.html"
    return figeval.report(folders, output=output, plots=False, **options).path.read_text(encoding="utf-8")


def store_answers(folder: Path, *values: float, **changes: Any) -> Path:
    """Store a run on the examples x0, x1 …, with this accuracy for each."""
    rows = [row(f"x{number}", metrics={"acc": value}) for number, value in enumerate(values)]
    return store(folder, run(task(n=len(rows), available=len(rows)), **changes), {"proverbs": rows})


# ---- what it shows --------------------------------------------------------------------------------------------------


def test_scores_have_intervals_counts_and_baselines(tmp_path: Path) -> None:
    folder = store(tmp_path / "run", run(task()))
    text = page_of(folder)
    for shown in ("0.25", "0.10 to 0.50", "chance 0.20 · overlap 0.12", 'class="floor"', "a-model"):
        assert shown in text
    assert "Paired comparisons" not in text, "one run has nothing to be compared with"
    assert base64.b64encode(str(figeval.export(folder, to="csv")).encode()).decode() in text


def test_runs_are_told_apart_and_can_be_repeated(tmp_path: Path) -> None:
    command = ["run", "--tasks", "a b", "--model", "x"]
    text = page_of(store_answers(tmp_path / "a", 1.0, command=command), store_answers(tmp_path / "b", 1.0))
    assert "figeval run --tasks &#39;a b&#39; --model x" in text
    assert "a-model [1]" in text
    assert "a-model [2]" in text


@pytest.mark.wing("comparison")
def test_a_comparison_names_the_examples_that_differ(tmp_path: Path) -> None:
    better, other = (1.0, 1.0, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0)
    text = page_of(store_answers(tmp_path / "a", *better), store_answers(tmp_path / "b", *other))
    assert "+0.2500" in text and 'href="#item=proverbs/x1"' in text
    assert "1 example where A is better, 0 where B is better" in text
    same = page_of(store_answers(tmp_path / "c", *better), store_answers(tmp_path / "d", *better))
    assert "where A is better" not in same, "runs that differ nowhere have no list of examples"


def test_breakdowns_calibration_positions_and_statuses(tmp_path: Path) -> None:
    answers = [([0.95, 0.05], 0), ([0.93, 0.07], 1), ([0.35, 0.65], 1), ([0.62, 0.38], 0)]
    rows = [
        row(f"x{n}", gold=gold, pred=scores.index(max(scores)), scores=scores, meta={"idiom": "spill the beans"})
        for n, (scores, gold) in enumerate(answers)
    ]
    rows.append(row("x4", status="unparseable", pred=None, metrics={}, meta={"idiom": "break the ice"}))
    record = run(task(n=5, available=5, counts={"ok": 4, "unparseable": 1}))
    text = page_of(store(tmp_path / "run", record, {"proverbs": rows}), by="idiom")
    for shown in ("proverbs by idiom: acc", "spill the beans", "Position bias", "unparseable", "probabilities"):
        assert shown in text
    ((_, calibration),) = (item for item in tables(text, "calibration").items())
    head, numbers = calibration
    shown_numbers = dict(zip(head, numbers, strict=True))
    assert (shown_numbers["answers"], shown_numbers["at 80 %"]) == ("4", "0.667")
    assert shown_numbers["accuracy"] == "0.750 (0.301 to 0.954)", "Wilson's interval of 3 of 4"
    assert float(shown_numbers["ECE"].split()[0]) == pytest.approx((abs(1 - 0.635) + abs(0.5 - 0.94)) / 2, abs=1e-3)


def test_calibration_is_of_models_and_tasks_that_can_be_calibrated(tmp_path: Path) -> None:
    """A trivial model has no confidence, and one label that is always right gives an accuracy of nothing."""
    rows = [row(f"x{n}", gold=n % 2, scores=[0.9, 0.1]) for n in range(4)]
    for name, backend, only_label in (("model", "encoder", None), ("trivial", "chance", None), ("one", "encoder", "a")):
        record = run(task(n=4, available=4, only_label=only_label), model={"name": name, "backend": backend})
        page = page_of(store(tmp_path / name, record, {"proverbs": rows}))
        assert bool(tables(page, "calibration")) == (name == "model")


def test_every_sample_counts_in_the_calibration(tmp_path: Path) -> None:
    sample = {"status": "ok", "tied": 1}
    answers = [
        {**sample, "pred": 0, "metrics": {"acc": 1.0}, "scores": [0.8, 0.2]},
        {**sample, "pred": 1, "metrics": {"acc": 0.0}, "scores": [0.4, 0.6]},
    ]
    rows = [row(f"x{n}", scores=answers[0]["scores"], metrics={"acc": 0.5}, samples=answers) for n in range(3)]
    page = page_of(store(tmp_path / "run", run(task(n=3, available=3)), {"proverbs": rows}))
    ((head, numbers),) = tables(page, "calibration").values()
    shown = dict(zip(head, numbers, strict=True))
    assert shown["answers"] == "6"
    assert shown["accuracy"].startswith("0.500 (")


def test_every_run_has_its_own_n_in_a_breakdown(tmp_path: Path) -> None:
    """A run of fewer examples must not seem to rest on those of another; a run without any has none."""
    folders = []
    for name, idioms in (("many", ["spill the beans"] * 28 + ["break the ice"] * 11), ("few", ["spill the beans"] * 2)):
        rows = [row(f"x{number}", meta={"idiom": idiom}) for number, idiom in enumerate(idioms)]
        record = run(task(n=len(rows), available=39, counts={"ok": len(rows)}))
        folders.append(store(tmp_path / name, record, {"proverbs": rows}))
    (cells,) = (rows for title, rows in tables(page_of(*folders, by="idiom"), "breakdowns").items() if "acc" in title)
    assert [(line[0], line[3], line[6]) for line in cells] == [
        ("idiom", "n", "n"),
        ("spill the beans", "28", "2"),
        ("break the ice", "11", ""),
    ]
    assert cells[2][4] == "–"


# ---- what it cannot do ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page in which every text from outside is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"id": f"{HOSTILE_TEXT}{n}", "q": HOSTILE_TEXT, "o": [HOSTILE_TEXT, "b"], "k": HOSTILE_TEXT} for n in (0, 1)
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in rows))
    (folder / "hostile.task.yaml").write_text(
        "name: hostile\ntype: choice\ndata: {test: 'jsonl:rows.jsonl'}\n"
        "fields: {id: row.id, query: row.q, options: row.o, gold: '0', meta: {kind: row.k}}\n"
    )
    folders = []
    for model in ("overlap", "random"):
        path = folder / model
        record = figeval.run("hostile", model, include_path=folder, output_path=path, baselines=False).record
        content = json.loads(record.model_dump_json())
        hostile_fields = {"name": HOSTILE_TEXT, "backend": HOSTILE_TEXT, "options": {"path": HOSTILE_TEXT}}
        content["model"] |= {**hostile_fields, "description": {"device": HOSTILE_TEXT}}
        breakdown = {"by": HOSTILE_TEXT, "groups": [{"value": HOSTILE_TEXT, "scores": [score().model_dump()]}]}
        other = task(
            HOSTILE_TEXT.replace("/", "|").replace("\x1b", ""), warnings=[HOSTILE_TEXT], breakdowns=[breakdown]
        )
        content["tasks"].append(json.loads(other.model_dump_json()))
        content |= {"command": ["run", HOSTILE_TEXT], "warnings": [HOSTILE_TEXT], "digests": {}}
        folders.append(store(path, RunRecord.model_validate(content)))
    return page_of(*folders, title=HOSTILE_TEXT, by="kind", include_path=folder)


def test_the_samples_are_compressed_json(hostile: str) -> None:
    assert contents(hostile)["hostile"]["fields"]["query"] == [CLEAN_TEXT] * 2


def test_only_its_own_style_and_script_are_allowed(hostile: str) -> None:
    elements = Elements(hostile)
    metas = [attributes for tag, attributes in elements.found if tag == "meta"]
    (policy,) = [meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    assert rules.pop("img-src") == "data:"
    types = [attributes.get("type") for tag, attributes in elements.found if tag == "script"]
    scripts = [text for text, kind in zip(elements.inside["script"], types, strict=True) if kind is None]
    for name, texts in (("script-src", scripts), ("style-src", elements.inside["style"])):
        (text,) = texts
        assert rules.pop(name) == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert not rules


def test_texts_from_outside_are_text(hostile: str) -> None:
    elements = Elements(hostile)
    assert "alert('x')" in elements.inside["title"][0]
    assert "<script>alert" not in hostile
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag


def test_nothing_is_fetched(hostile: str) -> None:
    assert not re.findall(r"https?://|url\(|@import", hostile)
    for tag, attributes in Elements(hostile).found:
        for name in ("src", "href", "action", "srcset", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), tag
        assert tag not in {"link", "iframe", "object", "embed", "base"}


def test_the_script_makes_no_html_of_texts() -> None:
    scripts = (files("figeval.wings.report.html") / name for name in ("report.js", "sorting.js", "board.js"))
    script = "".join(file.read_text(encoding="utf-8") for file in scripts)
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|fetch\(|XMLHttp", script
    )


@pytest.mark.system
def test_a_browser_shows_hostile_texts_as_text(hostile: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(hostile, encoding="utf-8")
    dump = elements_of(tmp_path / "page.html", f"#item=hostile/{quote(f'{HOSTILE_TEXT}0', safe='')}")
    assert 'data-ready="true"' in dump
    assert "data-error" not in dump
    assert dump.count("&lt;/script&gt;&lt;script&gt;alert('x')&lt;/script&gt;") >= 1
    assert "<script>alert" not in dump


@pytest.mark.slow
def test_many_samples_take_little_room(tmp_path: Path) -> None:
    """Sixteen times as many, those of the largest task, would stay below ten megabytes."""
    generator = random.Random(0)
    words = ["".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(5_000)]
    texts = ({side: " ".join(generator.choices(words, k=14)) for side in ("left", "right")} for _ in range(1_633))
    lines = (json.dumps({"id": f"x{number}", **pair}) for number, pair in enumerate(texts))
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    (tmp_path / "many.task.yaml").write_text(
        "name: many\ntype: pairs\nlabels: [entailment, non-entailment]\ndata: {test: 'jsonl:rows.jsonl'}\n"
        "fields: {id: row.id, left: row.left, right: row.right, label: \"'entailment'\"}\n"
    )
    folders = [tmp_path / name for name in ("a", "b")]
    for seed, folder in enumerate(folders):
        figeval.run("many", "random", include_path=tmp_path, output_path=folder, seed=seed, baselines=False)
    assert len(page_of(*folders, include_path=tmp_path)) < 625_000
