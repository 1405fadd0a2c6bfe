"""The numbers of a run one by one, and what the formats of other tools share: names of models and files, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from figeval import RecordError, RunRecord, TaskRecord
from figeval.io.text import clean_json, one_line, shown_json, valid
from figeval.records import conditions
from figeval.records.schema import SEEN_NOTES, BaselineRecord, ScoreRecord, baseline_scores

RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # names of devices on Windows
HUB_ID = re.compile(r"([\w.-]+)/([\w.-]+)")
PROPORTION = re.compile(
    r"acc|acc_\w+|balanced_acc|auc|\w*f1\w*|mrr\w*|ndcg\S*|(recall|precision|hits)@\S+|\w*(precision|recall)\w*|"
    r"exact_match\w*|parse_rate|rouge_\w+"
)
MAX_NAME_BYTES = 80


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """One number of a model.

    Attributes:
        name: name of the task, with the part in parentheses, or of a contrast.
        score: the whole score.
        value: its value.
        baselines: value of each trivial model.
        task: the task, or None for a contrast.
        part: part of the task's examples, or an empty string for all.
        notes: what a reader of the number must know: which examples it is about, and how the model was asked.
    """

    name: str
    score: ScoreRecord
    value: float
    baselines: Mapping[str, float]
    task: TaskRecord | None = None
    part: str = ""
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        return self.score.metric


def score_entries(run: RunRecord) -> Iterator[ScoreEntry]:
    """Yield every number of the run's model that has a value, in the order of the record.

    These are the scores on all examples of a task, on those in one language and on those that the model has not seen,
    and the scores of contrasts. Macro means have no uncertainty and are left to the reader.
    """
    for task in run.tasks_with_rows():
        for part, scores, baselines in task.parts_after_all():
            name = f"{task.task} ({part})" if part else task.task
            yield from _entries(run, name, scores, baselines, task, part)
    for contrast in run.contrasts:
        yield from _entries(run, contrast.name, contrast.scores, contrast.baselines)


def _entries(
    run: RunRecord,
    name: str,
    scores: Sequence[ScoreRecord],
    baselines: Sequence[BaselineRecord],
    task: TaskRecord | None = None,
    part: str = "",
) -> Iterator[ScoreEntry]:
    for score in scores:
        if score.value is None:
            continue
        trivial = {name: floor.value for name, floor in baseline_scores(baselines, score.metric).items()}
        values = {name: value for name, value in trivial.items() if value is not None}
        notes = [SEEN_NOTES[score.seen]] if score.seen else []
        if task is not None:
            notes += conditions.portion_of(run, task), conditions.without_answer(task, score, baselines)
            notes.append(conditions.describe_conditions(task))
            if task.only_label is not None:
                notes.append(f"the right answer is {task.only_label} for every example")
            notes += task.warnings
        yield ScoreEntry(name, score, score.value, values, task, part, tuple(filter(None, notes)))


def is_proportion(metric: str) -> bool:
    """Return whether a metric is known to lie between 0 and 1."""
    return PROPORTION.fullmatch(metric) is not None


# ---- names and JSON --------------------------------------------------------------------------------------------------


def developer_and_name(model: str) -> tuple[str, str]:
    """Return the two parts of a hub id; of another model `unknown` and its name, as one part of a path."""
    match = HUB_ID.fullmatch(model)
    developer, name = match.groups() if match else ("unknown", model)
    return file_name(developer), file_name(name)


def file_name(text: str) -> str:
    """Return a text as one part of a path on any system, in at most 80 bytes."""
    data = re.sub(r"[^\w.@+-]+", "__", one_line(text)).encode()[:MAX_NAME_BYTES]
    name = data.decode(errors="ignore").strip("._") or "unnamed"
    return f"_{name}" if RESERVED.fullmatch(name) else name


def unique_name(stem: str, suffix: str, names: Collection[str]) -> str:
    """Return a name that is none of these, with a number after its stem if necessary."""
    number, name = 1, stem + suffix
    while name in names:
        number += 1
        name = f"{stem}-{number}{suffix}"
    return name


def parse_time(run: RunRecord, text: str | None) -> datetime:
    """Return a time of a record, in UTC if it names no zone. Raises `RecordError` if it is none."""
    try:
        time = datetime.fromisoformat(str(text))
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except ValueError as error:
        raise RecordError(f"run {run.identity} has no valid time: {one_line(str(text), 40)!r}; run it again") from error


def dump_json(value: Any, indent: int | None = 1) -> str:
    """Return JSON, with what a terminal would obey escaped, and a final line feed."""
    text = json.dumps(clean_json(value, valid), indent=indent, ensure_ascii=False, allow_nan=False)
    return shown_json(text) + "\n"


def to_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are set as texts: numbers and structures as JSON."""
    return {
        str(name): value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
        if value is not None and value not in ("", [], {})
    }
