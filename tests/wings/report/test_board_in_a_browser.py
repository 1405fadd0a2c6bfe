"""The site of `figeval board` in a real browser: sorting, filters, links to a view, and hostile names."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

import figeval
from tests.browser import elements_of
from tests.finished_runs import finished, model, run, store, task

pytestmark = pytest.mark.system

HOSTILE_TEXT = "<script>document.documentElement.dataset.error = 'x'</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    for name in ("overlap", "random", "chance"):
        finished(folder / "runs" / name, "mini_fables", "mini_pairs", model=name)
    store(folder / "runs" / "hostile", run(task(HOSTILE_TEXT.replace("/", "|")), **model(HOSTILE_TEXT)))
    return figeval.board(folder / "runs", output=folder / "site").path


def test_hostile_names_are_text_and_nothing_fails(site: Path) -> None:
    dump = elements_of(site / "index.html")
    assert 'data-ready="true"' in dump
    assert "data-error" not in dump
    assert "&lt;script&gt;document" in dump


def test_an_address_is_a_view(site: Path) -> None:
    dump = elements_of(site / "index.html", "#find=words=overlap+fables&baselines=0")
    assert "1 result on 1 leaderboard<" in dump
    rows = re.findall(r'<tr class="(\w+)"([^>]*)>', dump)
    assert [(kind, hidden) for kind, hidden in rows if not hidden and kind == "baseline"] == []


# Works with the page as a reader does, and leaves what was found in it.
READER = """
<script>
setTimeout(() => {
  const seen = {};
  const table = document.querySelector('section[data-name="mini_fables"] table');
  const column = (name) => [...table.tHead.rows[0].cells].findIndex((one) => one.textContent.trim() === name);
  const cells = (name) => [...table.tBodies[0].rows].map((row) => row.cells[column(name)].textContent.trim());
  const press = (name) => table.tHead.rows[0].cells[column(name)].querySelector("button").click();
  press("acc");
  seen.falling = cells("acc");
  press("acc");
  seen.rising = cells("acc");
  seen.sorted = table.tHead.rows[0].cells[column("acc")].getAttribute("aria-sort");
  press("rank");
  seen.ranks = cells("rank");
  document.getElementById("benchmark").value = "mini";
  document.getElementById("benchmark").dispatchEvent(new Event("input", { bubbles: true }));
  seen.found = document.getElementById("match-count").textContent;
  setTimeout(() => { seen.address = location.hash; document.body.dataset.seen = JSON.stringify(seen); }, 600);
}, 300);
</script>"""


def test_sorting_and_filters(site: Path, tmp_path: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    copy = tmp_path / "copy.html"  # the policy would not allow another script
    text = re.sub(r"<meta http-equiv[^>]*>", "", page).replace("</body>", f"{READER}</body>")
    copy.write_text(text, encoding="utf-8")
    (data_seen,) = re.findall(r'data-seen="([^"]*)"', elements_of(copy))
    seen = json.loads(unescape(data_seen))
    values = [float(number) for number in seen["falling"]]
    assert values == sorted(values, reverse=True)
    assert [float(number) for number in seen["rising"]] == sorted(values)
    assert seen["sorted"] == "ascending"
    ranks = [rank for rank in seen["ranks"] if rank]
    assert ranks == sorted(ranks)
    assert seen["ranks"][: len(ranks)] == ranks, "baselines have no rank and come last"
    assert seen["found"] == "6 results on 2 leaderboards"
    assert seen["address"] == "#find=benchmark=mini"
