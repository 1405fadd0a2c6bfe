"""The sample explorer of a report in a real browser: spans are coloured, kinds of options can be filtered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import figeval
from figeval.testing.fakes import FakeEncoder
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


def test_votes_stand_beside_the_texts_and_samples_are_counted(tmp_path: Path) -> None:
    """The gold answer of a preference is votes, which are no indexes of texts."""

    class Letters:
        do_sample = deterministic_by_name = True

        def generate(self, requests: list[figeval.Prompt]) -> list[str]:
            return ["ABC?"[request.sample % 4] for request in requests]

    (tmp_path / "rows.jsonl").write_text('{"id": "1", "texts": ["a whale", "a fish"], "votes": [0, 1, 3]}\n')
    (tmp_path / "better.task.yaml").write_text(
        "name: better\ntype: pairwise\ndata: {test: 'jsonl:rows.jsonl'}\nroute: by_letter\n"
        "fields: {id: row.id, options: row.texts, votes: row.votes}\n"
    )
    run = figeval.run("better", Letters(), include_path=tmp_path, samples=4, output_path=tmp_path / "run")
    page = figeval.report([run], output=tmp_path / "report.html", plots=False, include_path=tmp_path).path
    shown = sample_shown(page, "better", "1")
    assert "<dt>preferred</dt><dd>They are equally good.</dd><dt>votes</dt><dd>1: 0 · 2: 1 · tie: 3</dd>" in shown
    assert "samples: 1. a whale ×2 · They are equally good. · no answer" in shown


def test_words_stand_beside_their_bits(tmp_path: Path) -> None:
    """The text is what a model expects or not, and reading times are neither votes nor an answer."""
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "1", "text": "Er biss ins Gras.", "literal": "Er starb.", "times": [300.5, 210.0, 400.0, 120.0]}\n'
    )
    (tmp_path / "idioms.task.yaml").write_text(
        "name: idioms\ntype: surprisal\nlanguage: de\ndata: {test: 'jsonl:rows.jsonl'}\n"
        "fields: {id: row.id, text: row.text, contrast: row.literal, measures: row.times}\n"
    )
    run = figeval.run("idioms", "uniform_bytes", include_path=tmp_path, output_path=tmp_path / "run")
    page = figeval.report([run], output=tmp_path / "report.html", plots=False, include_path=tmp_path).path
    shown = sample_shown(page, "idioms", "1")
    assert "<dt>text</dt><dd>Er biss ins Gras.</dd>" in shown
    assert "<dt>votes</dt>" not in shown
    assert "Er 16.0 · biss 40.0 · ins 32.0 · Gras 40.0 / Er 16.0 · starb 48.0" in shown


def test_a_retrieved_text_is_shown_and_not_its_id(tmp_path: Path) -> None:
    """Models that embed answer with a training text, of which a run has the id."""
    for split, lines in {
        "train": [("train-1", "a fox", "Pride comes before a fall."), ("train-2", "a hare", "Haste makes waste.")],
        "test": [("test-1", "Haste lost the race.", "Slow and steady wins the race.")],
    }.items():
        rows = [{"id": key, "story": story, "moral": moral} for key, story, moral in lines]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "morals.task.yaml").write_text(
        "name: morals\ntype: generation\ndata: {test: 'jsonl:test.jsonl', train: 'jsonl:train.jsonl'}\n"
        "fields: {id: row.id, inputs: {story: row.story}, references: [row.moral]}\n"
    )
    run = figeval.run("morals", "tfidf", include_path=tmp_path, output_path=tmp_path / "run", baselines=False)
    assert [row["pred"] for row in run.rows("morals")] == ["train-2"]
    page = figeval.report([run], output=tmp_path / "report.html", plots=False, include_path=tmp_path).path
    shown = sample_shown(page, "morals", "test-1")
    assert "Haste makes waste." in shown
    assert "train-2" not in shown


def test_a_label_is_shown_as_itself_though_a_training_example_has_its_name(
    tmp_path: Path, install: Callable[..., None]
) -> None:
    plugin = ModuleType("lengths")

    @figeval.hookimpl
    def register_backends(register: Callable[..., None]) -> None:
        register("lengths", lambda model="": FakeEncoder())

    plugin.register_backends = register_backends  # type: ignore[attr-defined]
    install(plugin)
    for split, labels in {"train": {"yes": "no", "no": "yes"}, "test": {"1": "yes"}}.items():
        rows = [
            {"id": key, "left": f"A text of {split}: {key}", "right": "A fish.", "label": label}
            for key, label in labels.items()
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "labels.task.yaml").write_text(
        "name: labels\ntype: pairs\ndata: {test: 'jsonl:test.jsonl', train: 'jsonl:train.jsonl'}\n"
        "fields: {id: row.id, left: row.left, right: row.right, label: row.label}\nlabels: ['yes', 'no']\n"
    )
    augment = {"add": "neighbours", "k": 2, "retriever": "lengths"}
    folders = {"include_path": tmp_path, "output_path": tmp_path / "run"}
    run = figeval.run("labels", "tfidf", augment=augment, baselines=False, **folders)
    (row,) = run.rows("labels")
    assert {row["pred"]} < set(row["retrieved"]) == {"yes", "no"}
    page = figeval.report([run], output=tmp_path / "report.html", plots=False, include_path=tmp_path).path
    shown = sample_shown(page, "labels", "1")
    assert "<dt>right answer</dt><dd>yes</dd>" in shown
    assert f"<div>{row['pred']}</div>" in shown
