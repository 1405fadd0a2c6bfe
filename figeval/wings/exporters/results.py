"""The numbers of a run one by one, and what the formats of other tools share: names of models and files, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from figeval.errors import RecordError
from figeval.io.text import cleaned, one_line, shown_json, valid
from figeval.records import conditions
from figeval.records.schema import SEEN_NOTES, BaselineRecord, RunRecord, ScoreRecord, TaskRecord

RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # names of devices on Windows
HUB_ID = re.compile(r"([\w.-]+)/([\w.-]+)")
PROPORTION = re.compile(
    r"acc|acc_\w+|balanced_acc|auc|\w*f1\w*|mrr\w*|ndcg\S*|(recall|precision|hits)@\S+|\w*(precision|recall)\w*|"
    r"exact_match\w*|parse_rate|rouge_\w+"
)


@dataclass(frozen=True, slots=True)
class Result:
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


def results(run: RunRecord) -> Iterator[Result]:
    """Yield every number of the run's model that has a value, in the order of the record.

    These are the scores on all examples of a task, on those in one language and on those that the model has not seen,
    and the scores of contrasts. Macro means have no uncertainty and are left to the reader.
    """
    for task in run.tasks_with_rows():
        parts = [("", task.scores, task.baselines)]
        parts += [(one.language, one.scores, one.baselines) for one in task.languages]
        if task.overlap is not None:
            parts.append(("remaining", task.overlap.scores, task.overlap.baselines))
        for part, scores, trivial in parts:
            name = f"{task.task} ({part})" if part else task.task
            yield from _of(run, name, scores, trivial, task, part)
    for contrast in run.contrasts:
        yield from _of(run, contrast.name, contrast.scores, contrast.baselines)


def _of(
    run: RunRecord,
    name: str,
    scores: Sequence[ScoreRecord],
    trivial: Sequence[BaselineRecord],
    task: TaskRecord | None = None,
    part: str = "",
) -> Iterator[Result]:
    for score in scores:
        if score.value is None:
            continue
        known = {
            one.baseline: other.value
            for one in trivial
            for other in one.scores
            if other.metric == score.metric and other.value is not None
        }
        about = [SEEN_NOTES[score.seen]] if score.seen else []
        if task is not None:
            about += conditions.portion_of(run, task), conditions.without_answer(task, score, trivial)
            about.append(conditions.described(task))
            if task.only_label is not None:
                about.append(f"the right answer is {task.only_label} for every example")
            about += task.warnings
        yield Result(name, score, score.value, known, task, part, tuple(filter(None, about)))


def is_proportion(metric: str) -> bool:
    """Return whether a metric is known to lie between 0 and 1."""
    return PROPORTION.fullmatch(metric) is not None


def developer_and_name(model: str) -> tuple[str, str]:
    """Return the two parts of a hub id; of another model `unknown` and its name, as one part of a path."""
    found = HUB_ID.fullmatch(model)
    developer, name = found.groups() if found else ("unknown", model)
    return file_name(developer), file_name(name)


def file_name(text: str) -> str:
    """Return a text as one part of a path on any system, in at most 80 bytes."""
    found = re.sub(r"[^\w.@+-]+", "__", one_line(text)).encode()[:80].decode(errors="ignore").strip("._") or "unnamed"
    return f"_{found}" if RESERVED.fullmatch(found) else found


def unique(stem: str, suffix: str, taken: Collection[str]) -> str:
    """Return a name that is not taken, with a number after its stem if necessary."""
    number, found = 1, stem + suffix
    while found in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    return found


def moment(run: RunRecord, text: str | None) -> datetime:
    """Return a time of a record, in UTC if it names no zone. Raises `RecordError` if it is none."""
    try:
        found = datetime.fromisoformat(str(text))
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except ValueError as error:
        raise RecordError(f"run {run.identity} has no valid time: {one_line(str(text), 40)!r}; run it again") from error


def as_json(value: Any, indent: int | None = 1) -> str:
    """Return JSON, with what a terminal would obey escaped, and a final line feed."""
    mended = cleaned(value, valid)
    return shown_json(json.dumps(mended, indent=indent, ensure_ascii=False, allow_nan=False)) + "\n"


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are set as texts: numbers and structures as JSON."""
    return {
        str(name): one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
        for name, one in values.items()
        if one is not None and one not in ("", [], {})
    }
