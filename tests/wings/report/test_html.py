"""The page of `figeval report`: what it shows, and that nothing in it can act or be fetched."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from figeval import Grid, RunRecord
from figeval.io.text import clean
from figeval.records.schema import BreakdownRecord, GroupRecord, ModelRecord
from figeval.wings.report.content import ReportContent
from figeval.wings.report.html.page import pack, report_page
from tests.browser import elements_of
from tests.finished_runs import run, score, task

HOSTILE_TEXT = "</script><script>alert('x')</script>\x1b[31m\u202e"


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


def samples(n: int = 2, text: str = "a text") -> dict[str, Any]:
    rows: dict[str, Any] = {"status": ["ok"] * n, "pred": [0] * n, "value": [1.0] * n, "reply": [text] * n}
    about: dict[str, Any] = {"task": "proverbs", "metric": "acc", "labels": [], "lists": [], "options": "options"}
    ids = [f"x{number}" for number in range(n)]
    fields = {"query": [text] * n, "options": [["one", "two"]] * n}
    return {
        **about,
        "passage": "",
        "ids": ids,
        "gold": [0] * n,
        "meta": {},
        "fields": fields,
        "runs": [{"run": 0, **rows}],
    }


def pair(task: str = "proverbs", **changes: Any) -> dict[str, Any]:
    """A comparison of the runs 0 and 1, as `figeval.wings.report.api` makes it."""
    head = ("task", "A − B", "95 % interval", "p (Holm)", "detectable", "n", "clusters", "test")
    grid = Grid(head, [(task, "+0.2500", "+0.100 to +0.400", "0.0600", "0.1200", "8", "4 (3 eff.)", "sign flip")])
    counts = {"both_right": 3, "both_wrong": 4, "is_binary": True}
    differing = {"task": task, "a_better": ["x1"], "b_better": [], **counts, **changes}
    notes = ["proverbs: left out 2 only in A", "pairs not compared: only in A"]
    return {"a": 0, "b": 1, "metric": "acc", "grid": grid, "notes": notes, "changes": [differing]}


def page_of(
    *runs: RunRecord, title: str = "A report", downloads: Mapping[str, str] = {"scores.csv": "a,b\n"}, **panels: Any
) -> str:
    content = ReportContent(runs=list(runs) or [run(task())], **panels)
    return report_page(title, content, downloads, draw=False)


# ---- what it shows --------------------------------------------------------------------------------------------------


def test_scores_have_intervals_counts_and_baselines() -> None:
    text = page_of()
    for shown in ("0.2500", "0.100 to 0.500", "chance 0.200 · overlap 0.125", 'class="floor"', "a-model"):
        assert shown in text
    assert "Paired comparisons" not in text, "one run has nothing to be compared with"
    assert base64.b64encode(b"a,b\n").decode() in text


def test_runs_are_told_apart_and_can_be_repeated() -> None:
    first, second = run(task(), command=["run", "--tasks", "a b", "--model", "x"]), run(task(), identity="89abcdef")
    text = page_of(first, second)
    assert "figeval run --tasks &#39;a b&#39; --model x" in text
    assert "a-model [1]" in text
    assert "a-model [2]" in text


def test_a_comparison_names_the_examples_that_differ() -> None:
    text = page_of(run(task()), run(task()), comparisons=[pair()], tests=["sign flip: as coins"])
    for shown in ("+0.2500", "+0.100 to +0.400", "0.1200", "4 (3 eff.)", 'href="#item=proverbs/x1"', "only in A"):
        assert shown in text
    assert "<li>sign flip: as coins</li>" in text
    assert "1 example where A is better, 0 where B is better" in text


def test_runs_that_differ_nowhere_have_no_list_of_examples() -> None:
    text = page_of(run(task()), run(task()), comparisons=[pair(a_better=[])])
    assert "+0.2500" in text
    assert "where A is better" not in text


def test_breakdowns_calibration_positions_and_statuses() -> None:
    breakdown = BreakdownRecord(by="idiom", groups=[GroupRecord(value="spill the beans", scores=[score()])])
    record = run(task(breakdowns=[breakdown], counts={"ok": 38, "unparseable": 2}))
    about = {"task": "proverbs", "run": 0}
    numbers = {
        "n": 40,
        "accuracy": 0.5,
        "ece": 0.125,
        "calibrated_ece": 0.0875,
        "calibrated_ece_high": 0.1625,
        "brier": 0.75,
        "bins": [],
        "origin": "probabilities",
    }
    calibration = {**about, **numbers, "selective": [(0.5, 0.625), (0.8, 0.55)]}
    positions = {**about, "positions": [{"position": 1, "chosen": 30, "right": 8, "n": 38}]}
    text = page_of(record, calibration=[calibration], positions=[positions])
    for shown in (
        "proverbs by idiom: acc",
        "spill the beans",
        "0.625",
        "0.087 (to 0.163)",
        "Position bias",
        "unparseable",
    ):
        assert shown in text


def test_every_run_has_its_own_n_in_a_breakdown() -> None:
    """A run of fewer examples must not seem to rest on those of another; a run without any has none."""
    groups = [GroupRecord(value="spill the beans", scores=[score(n=n)]) for n in (28, 2)]
    rare = GroupRecord(value="break the ice", scores=[score(n=11)])
    many = run(task(breakdowns=[BreakdownRecord(by="idiom", groups=[groups[0], rare])]))
    limited = run(task(breakdowns=[BreakdownRecord(by="idiom", groups=[groups[1]])]))
    text = page_of(many, limited)
    section = text[text.index('id="breakdowns"') :]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", section, re.DOTALL)]
    cells_of_run = {row[0]: (row[3], row[4], row[6]) for row in rows if len(row) == 7}
    assert cells_of_run["idiom"][::2] == ("n", "n")
    assert (cells_of_run["spill the beans"][0], cells_of_run["spill the beans"][2]) == ("28", "2")
    assert cells_of_run["break the ice"] == ("11", "–", "")


def test_the_samples_are_compressed_json() -> None:
    text = page_of(samples=[samples(text=HOSTILE_TEXT)])
    (script,) = [script for script in Elements(text).inside["script"] if script.startswith('"')]
    content = json.loads(gzip.decompress(base64.b64decode(json.loads(script))))
    assert content["fields"]["query"] == [HOSTILE_TEXT] * 2


# ---- what it cannot do ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile() -> str:
    """A page in which every text from outside is hostile."""
    model = ModelRecord(
        name=HOSTILE_TEXT, backend=HOSTILE_TEXT, description={"device": HOSTILE_TEXT}, options={"path": HOSTILE_TEXT}
    )
    group = GroupRecord(value=HOSTILE_TEXT, scores=[score()])
    hostile_task = task(
        HOSTILE_TEXT.replace("/", "|").replace("\x1b", ""),
        warnings=[HOSTILE_TEXT],
        breakdowns=[BreakdownRecord(by=HOSTILE_TEXT, groups=[group])],
    )
    record = run(
        hostile_task,
        model=model,
        command=["run", HOSTILE_TEXT],
        config={"tasks": [HOSTILE_TEXT]},
        warnings=[HOSTILE_TEXT],
    )
    compared = {**pair(HOSTILE_TEXT, b_better=[HOSTILE_TEXT]), "notes": [HOSTILE_TEXT]}
    panels = {
        "comparisons": [compared],
        "tests": [HOSTILE_TEXT],
        "notices": [HOSTILE_TEXT],
        "samples": [{**samples(text=HOSTILE_TEXT), "task": HOSTILE_TEXT}],
    }
    return page_of(record, record, title=HOSTILE_TEXT, **panels, downloads={HOSTILE_TEXT: HOSTILE_TEXT})


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
    script = (files("figeval.wings.report.html") / "report.js").read_text(encoding="utf-8")
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|fetch\(|XMLHttp", script
    )


@pytest.mark.system
def test_a_browser_shows_hostile_texts_as_text(hostile: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(hostile, encoding="utf-8")
    dump = elements_of(tmp_path / "page.html", f"#item={quote(clean(HOSTILE_TEXT), safe='')}/x1")
    assert 'data-ready="true"' in dump
    assert "data-error" not in dump
    assert dump.count("<dd>&lt;/script&gt;&lt;script&gt;alert('x')&lt;/script&gt;") == 1
    assert "<script>alert" not in dump


@pytest.mark.slow
def test_many_samples_stay_below_ten_megabytes() -> None:
    generator = random.Random(0)
    words = ["".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(5_000)]
    n = 26_124
    content = samples(n)
    content["fields"] = {
        name: [" ".join(generator.choices(words, k=14)) for _ in range(n)] for name in ("left", "right")
    }
    answers = {
        "status": ["ok"] * n,
        "pred": generator.choices(["entailment", "non-entailment"], k=n),
        "value": [1.0] * n,
    }
    scores = [
        [round(probability, 4), round(1 - probability, 4)] for probability in (generator.random() for _ in range(n))
    ]
    content["runs"] = [{"run": number, **answers, "scores": scores} for number in range(2)]
    assert len(pack(content)) < 9_000_000
