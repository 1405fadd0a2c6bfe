"""Run folders hold ids and numbers: no string in them is a piece of a benchmark's text, on the real data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import CapabilityError, Example, GenerationExample, Harness, MissingCopy, RankingExample
from tests.fakes import FakeEncoder
from tests.finished_runs import finished

IDIOMS = Path(__file__).parents[2] / "tasks" / "impli" / "idioms.txt"
MIN_TEXT_CHARS = 20  # characters of an example that a field may not repeat; names of idioms are those of the dictionary
ROWS = 20  # of each task


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, but for names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def pieces(strings: Iterator[str], texts: Sequence[str]) -> list[str]:
    """The strings that share MIN_TEXT_CHARS characters with one of the texts."""
    idioms = known_idioms()
    long = [text for text in strings if len(text) >= MIN_TEXT_CHARS and text not in idioms]
    lower = "\0".join(text.lower() for text in texts) if long else ""
    return [text for text in long if any(part in lower for part in windows(text.lower()))]


@cache
def known_idioms() -> frozenset[str]:
    """The names of the idioms of the dictionary."""
    return frozenset(line.partition("|")[0].strip() for line in IDIOMS.read_text(encoding="utf-8").splitlines())


def windows(text: str) -> Iterator[str]:
    """Every run of LONG characters of a text."""
    return (text[start : start + MIN_TEXT_CHARS] for start in range(len(text) - MIN_TEXT_CHARS + 1))


def texts_of(example: Example) -> list[str]:
    """Every text of an example; of a ranking the query alone, since its candidates are the same for all."""
    if isinstance(example, RankingExample):
        return [example.query]
    return [*example.texts, *(example.references if isinstance(example, GenerationExample) else ())]


def test_pieces_are_found() -> None:
    row = {
        "meta": {"premise": "He hit the roof of his house."},
        "cluster": "from the cradle to the grave",
        "n": [1, None],
    }
    texts = ["yes, he hit THE ROOF of his house", "from the cradle to the grave"]
    assert pieces(strings(row), texts) == ["He hit the roof of his house."]


def run_task(folder: Path, task: str, *models: str | FakeEncoder) -> Path:
    """Return a run of the first of these models that can answer the task."""
    model, *alternatives = models
    try:
        return figeval.run(task, model, output_path=folder, limit=ROWS, baselines=False).path
    except CapabilityError:
        return run_task(folder, task, *alternatives)


@pytest.mark.slow
def test_no_task_puts_texts_into_rows(real_data: str, tmp_path: Path) -> None:
    """id, gold, meta, cluster and group of the built-in tasks, as answered by one of their trivial models.

    Of tasks that take the same fields from the same rows, the first and the last one are run.
    """
    tasks = {entry.name: Harness().catalogue.tasks.get(entry.name) for entry in Harness().catalogue.tasks}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, task in tasks.items():
        reader = str(task.data.get("test")).partition(":")[0]
        alike.setdefault((task.owner, task.type, str(task.fields), reader), []).append(name)
    checked = set()
    for name in (name for names in alike.values() for name in {names[0], names[-1]}):
        task = tasks[name]
        try:
            folder = run_task(tmp_path / name, name, *task.baselines, FakeEncoder())
        except MissingCopy:
            continue
        rows = (folder / "predictions" / f"{name}.jsonl").read_text("utf-8").splitlines()
        for example, row in zip(Harness().examples(task), rows, strict=False):
            facts = [json.loads(row)[key] for key in ("id", "gold", "meta", "cluster", "group")]
            assert not pieces(strings(facts), texts_of(example)), f"{name}, {example.id}"
        checked.add(name)
    assert len(checked) >= 44


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tasks"),
    [
        ("overlap", ("epic_mcq", "epic_motif", "impli_idioms_gold_ent", "impli_metaphors_silver_ent", "nli_med")),
        ("random", ("epic_alignment",)),
    ],
)
def test_no_text_is_in_the_folder_of_a_run(model: str, tasks: tuple[str, ...], real_data: str, tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", *tasks, model=model, limit=20, baselines=False)
    harness = Harness()
    texts = []
    for task in tasks:
        for example in islice(harness.examples(harness.catalogue.tasks.get(task)), 20):
            texts += texts_of(example)
    for file in folder.rglob("*.json*"):
        lines = file.read_text(encoding="utf-8").splitlines() if file.suffix == ".jsonl" else [file.read_text("utf-8")]
        assert lines
        for line in lines:
            assert not pieces(strings(json.loads(line)), texts), file.name
