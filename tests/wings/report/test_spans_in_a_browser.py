"""The sample explorer of a report in a real browser: spans are coloured, kinds of options can be filtered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import figeval
from tests.browser import elements_of
from tests.finished_runs import finished

pytestmark = pytest.mark.system


def sample_shown(page: Path, task: str, example: str) -> str:
    """The selected sample, without attributes that only style it."""
    dump = elements_of(page, f"#item={task}/{example}").replace("\n", " ")
    assert 'data-ready="true"' in dump
    assert "data-error" not in dump
    (item,) = re.findall(r'<article id="item".*?</article>', dump)
    return str(re.sub(r' (?:style|title)="[^"]*"', "", item))


def test_spans_are_coloured_in_the_text(tmp_path: Path) -> None:
    runs = [finished(tmp_path / "tfidf", "mini_alignment", "mini_joint", model="tfidf", baselines=False)]
    runs.append(finished(tmp_path / "last", "mini_alignment", model="last_sentence", baselines=False))
    page = figeval.report(runs, output=tmp_path / "report.html", plots=False, metric="span_f1").path
    alignment = sample_shown(page, "mini_alignment", "P01N1S1")
    assert "<mark>quoted forty pounds</mark>" in alignment
    assert "<mark>A stitch in time</mark> saves nine" in alignment
    assert '<span class="span run-1">The bill that reached Mr Penhallow came to eleven thousand.</span>' in alignment
    assert "<mark>The bill that reached Mr Penhallow" in sample_shown(page, "mini_joint", "P01N1")
