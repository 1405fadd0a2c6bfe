"""Files of a judge next to the key of the items: `judge_NAME.jsonl`, a row for each question (item and
criterion), and `judge_NAME.json`, the record of which model was asked how, and what it cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from figeval.errors import DataError
from figeval.io.json_files import InvalidJSON, parse_json, read_model
from figeval.types import Status
from figeval.wings.annotation.sheets import Key

MIN_ANSWERS = 5  # fewer equal answers may be right
PREFIX = "judge_"
SELF_PREFERENCE = "models tend to prefer their own texts and those of relatives"
CURE = "remove both files of the judge, and judge again"


class JudgeRow(BaseModel):
    """Answer of a judge to one question. There is a label only if `status` is `ok`.

    `raw` is a reply in words. `probabilities` are those of the labels, given that the answer is one of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    criterion: str
    label: str | None
    status: Status
    raw: str | None = None
    probabilities: dict[str, float | None] = {}
    truncated: bool = False

    @model_validator(mode="after")
    def _label_if_ok(self) -> JudgeRow:
        if (self.label is None) is (self.status == "ok"):
            raise ValueError("there must be a label if the status is ok, and only then")
        return self


class JudgeRecord(BaseModel):
    """Which model judged, how it was asked, and what it cost.

    Attributes:
        model: the model as it was requested.
        options: its options.
        fingerprint: text that changes whenever an answer could.
        description: what the model says about itself; for models behind an API, with tokens and cost of all sessions.
        template, template_sha256: the prompt.
        texts_sha256: digest of the texts and criteria that are judged.
        method: whether labels were compared by probability, or a reply was read.
        readers: version of the readers of replies.
        seed: random seed that the model was given.
        figeval: version of figeval.
        started, updated: times of the first question and the last change, in UTC.
        items: number of items that were to be judged, attention checks included.
        questions: number of questions about them, one for each criterion.
        statuses: number of answers by status.
        truncated: number of questions of which the model did not see the whole text.
        checks: attention checks that were answered as requested, and all that were asked.
        judges_itself: judged systems that are the judge, in records from before there was `kinship`.
        kinship: judged systems that are the judge or related to it, with a clause that says how.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    options: dict[str, Any]
    fingerprint: str
    description: dict[str, Any] = {}
    template: str
    template_sha256: str
    texts_sha256: str
    method: Literal["loglikelihood", "generate"]
    readers: str
    seed: int
    figeval: str | None
    started: str
    updated: str
    items: int
    questions: int
    statuses: dict[str, int] = {}
    truncated: int = 0
    checks: tuple[int, int] = (0, 0)
    judges_itself: tuple[str, ...] = ()
    kinship: dict[str, str] = {}

    def kin(self) -> Iterator[str]:
        """Yield a sentence about each judged system that is the judge, or related to it."""
        for system in self.judges_itself:  # of records from before there was kinship
            yield f"{system}, whose texts it judges, is the judge itself; {SELF_PREFERENCE}"
        for system, how in self.kinship.items():
            yield f"{system}, whose texts it judges, {how}; {SELF_PREFERENCE}"


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers of one judge.

    Attributes:
        name: name of its files.
        record: its record.
        rows: all answers that are stored.
        failed: number of questions that were asked in vain.
        items: ids of the items of this call, which --limit may bound; `rows` also has answers about others.
    """

    name: str
    record: JudgeRecord
    rows: tuple[JudgeRow, ...]
    failed: int = 0
    items: frozenset[str] = frozenset()


def constant_labels(rows: Iterable[JudgeRow]) -> dict[str, tuple[str, int]]:
    """Return the criteria for which all answers with a label have the same one: that label, and how many answers."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        if row.label is not None:
            labels.setdefault(row.criterion, []).append(row.label)
    return {
        name: (values[0], len(values))
        for name, values in labels.items()
        if len(values) >= MIN_ANSWERS and len(set(values)) == 1
    }


def describe_constant(criterion: str, label: str, answers: int) -> str:
    """Return a sentence about a judge that always gives the same label."""
    return (
        f"{criterion}: always {label!r} ({answers} answers), so it tells no text from another and is useless as a judge"
    )


def read_judges(folder: Path, key: Key) -> tuple[Judged, ...]:
    """Read the answers of all judges in a folder.

    Raises:
        DataError: a file is damaged, or does not belong to the key.
    """
    found = []
    for file in sorted(folder.glob(f"{PREFIX}*.json")):
        record = read_model(file, JudgeRecord, DataError, cure=CURE)
        rows_file = file.with_suffix(".jsonl")
        rows = tuple(stored_rows(rows_file))
        scales = {one.name: one.labels for one in key.judged}
        for row in rows:
            known = row.item in key.items or row.item in key.checks
            if not known or row.label not in (*scales.get(row.criterion, ()), None) or row.criterion not in scales:
                raise DataError(
                    f"{rows_file}: item {row.item!r:.40}, {row.criterion!r:.40}: {row.label!r:.40} does not fit the "
                    f"key; {CURE}"
                )
        found.append(Judged(file.stem.removeprefix(PREFIX), record, rows))
    return tuple(found)


def stored_rows(file: Path) -> Iterator[JudgeRow]:
    """Yield the rows of a file, without an incomplete last line; no file has no rows."""
    try:
        if file.exists() and not file.is_file():  # reading a pipe may never end
            raise DataError(f"{file} is not a regular file; remove it")
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); make it readable") from error
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            yield JudgeRow.model_validate(parse_json(line))
        except (InvalidJSON, ValidationError) as error:
            raise DataError(f"{file}:{number} is damaged; {CURE}") from error
