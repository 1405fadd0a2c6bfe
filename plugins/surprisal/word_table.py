"""`figeval export RUN --to surprisals`: a line of CSV per word, for mixed models and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from figeval import Column, Table

if TYPE_CHECKING:
    from figeval import RunRecord, StoredAnswer, StoredRun

    from .surprisal import TextSurprisals

COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("model"),
    Column("task"),
    Column("id"),
    Column("version"),
    Column("word", "Int64"),
    Column("start", "Int64"),
    Column("end", "Int64"),
    Column("bits", "float64"),
    Column("measure", "float64"),
    Column("text"),
)


def write_word_table(runs: Sequence[RunRecord], stored: Sequence[StoredRun]) -> str:  # noqa: ARG001
    """Return the words of all surprisal tasks with their number from 1, their place in the text and their surprisal.

    `version` is `text` or `contrast`; `text` is empty without --include_text.
    """
    rows = [
        {"model": run.record.model.name, "task": task.task, **row}
        for run in stored
        for task in run.record.tasks
        if task.task_type == "surprisal"
        for answer in run.answers(task)
        for row in _word_rows(answer)
    ]
    return Table(COLUMNS, rows).to_csv()


def _word_rows(answer: StoredAnswer) -> Iterator[dict[str, Any]]:
    """Yield a row for each word of the text and of its other version."""
    from .surprisal import SurprisalType

    value = SurprisalType().from_json(answer.row["pred"])
    if value is None:
        return
    gold: Any = answer.row["gold"]
    measures = gold or []
    yield from _rows_of(answer, "text", value.text, measures)
    if value.contrast is not None:
        yield from _rows_of(answer, "contrast", value.contrast, [])


def _rows_of(
    answer: StoredAnswer, version: str, surprisals: TextSurprisals, measures: Sequence[float | None]
) -> Iterator[dict[str, Any]]:
    text = (answer.fields or {}).get(version)
    for number, word in enumerate(surprisals.words, start=1):
        yield {
            "id": answer.row["id"],
            "version": version,
            "word": number,
            "start": word.start,
            "end": word.end,
            "bits": word.bits,
            "measure": measures[number - 1] if number <= len(measures) else None,
            "text": text[word.start : word.end] if isinstance(text, str) else None,
        }
