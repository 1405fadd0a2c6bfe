"""Store of the answers of a judge, next to the key of the items, so that no question is asked twice.

`judge_NAME.jsonl` has a row for each question (item and criterion), and `judge_NAME.json` is the record of which model
was asked how, and what it cost. Rows are only appended, so the same command continues after a kill. A question that
failed has no row and is asked again.

    store = JudgeStore(folder, "gpt-4o-mini", key)
    with store.lock():
        judged = store.collect(record, questions, respondent)  # asks what is not stored yet
    read_judges(folder, key)
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from figeval import DataError, OptionError, Status
from figeval.errors import FolderInUse
from figeval.io.files import cure, locked, replace_text
from figeval.io.frontend import notice, warn
from figeval.io.json_files import InvalidJSON, parse_json, read_model
from figeval.records import provenance
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.items import Key
from figeval.wings.annotation.journal import open_stored, read_stored, write_bytes

MIN_ANSWERS = 5  # fewer equal answers may be right
PREFIX = "judge_"
SELF_PREFERENCE = "models tend to prefer their own texts and those of relatives"
CURE = "remove both files of the judge, and judge again"
IDENTITY = ("fingerprint", "options", "method", "readers", "seed", "template_sha256", "texts_sha256")


class JudgeRow(BaseModel):
    """PageAnswer of a judge to one question. There is a label only if `status` is `ok`.

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
        for system, clause in self.kinship.items():
            yield f"{system}, whose texts it judges, {clause}; {SELF_PREFERENCE}"


@dataclass(frozen=True, slots=True)
class JudgeAnswers:
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


Question: TypeAlias = tuple[str, Criterion]  # item number and criterion


class Respondent(Protocol):
    """Model or program that answers questions, at most `batch_size` at a time."""

    @property
    def batch_size(self) -> int:
        """Number of questions that are asked, and stored, together."""

    def answer(self, questions: Sequence[Question]) -> list[JudgeRow]:
        """Return a row for each question; one with the status `error` is not stored, so the next call asks again."""

    def estimate(self, questions: Sequence[Question]) -> str:
        """Return what the answers will cost, in words; empty if that is not known."""

    def description(self) -> dict[str, Any]:
        """Return what is known about the model after it was asked."""


@dataclass(frozen=True, slots=True)
class JudgeStore:
    """The files of one judge, by its name, in the folder of the items with this key."""

    folder: Path
    name: str
    key: Key

    @property
    def rows_file(self) -> Path:
        return self.folder / f"{PREFIX}{self.name}.jsonl"

    @property
    def record_file(self) -> Path:
        return self.folder / f"{PREFIX}{self.name}.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from writing the files.

        Raises:
            FolderInUse: another process is writing them.
            RecordError: the folder cannot be written.
        """
        refusal = FolderInUse(f"another process writes {self.rows_file}; wait until it has ended")
        with cure(self.folder, "ITEMS"), locked(self.folder / f".{PREFIX}{self.name}.lock", refusal):
            yield

    def collect(self, record: JudgeRecord, questions: Sequence[Question], respondent: Respondent) -> JudgeAnswers:
        """Ask the questions without a stored answer, store the answers, and return all that are stored.

        Args:
            record: record of a judge that has not been asked yet.
            questions: all questions of this call.
            respondent: the judge.

        Raises:
            OptionError: the files are from another judge, another prompt or other texts.
            DataError: one of them is damaged.
        """
        model, record = record.model, self._continue_record(record)
        rows = {(row.item, row.criterion): row for row in _read_rows(self.rows_file)}
        missing = [(item, criterion) for item, criterion in questions if (item, criterion.name) not in rows]
        if rows:
            notice(f"{self.rows_file}: {len(questions) - len(missing)} of {len(questions)} questions are answered")
        for sentence in record.kin():
            warn(f"judge {model}: {sentence}, so also use a judge of another family")
        record = self._write_record(record, rows.values())
        if missing and (estimate := respondent.estimate(missing)):
            notice(f"{model}: {estimate}")
        try:
            for start in range(0, len(missing), respondent.batch_size):
                answers = respondent.answer(missing[start : start + respondent.batch_size])
                answers = [row for row in answers if row.status != "error"]
                self._append(answers)
                rows |= {(row.item, row.criterion): row for row in answers}
        finally:
            if missing:
                # Without a question, an API model does not know what it has cost.
                record = record.model_copy(update={"description": respondent.description()})
            record = self._write_record(record, rows.values())
        failed = sum((item, criterion.name) not in rows for item, criterion in missing)
        return JudgeAnswers(self.name, record, tuple(rows.values()), failed, frozenset(item for item, _ in questions))

    def _continue_record(self, record: JudgeRecord) -> JudgeRecord:
        """Return the record of an earlier call that this one continues, or the new one."""
        if not self.record_file.exists():
            if self.rows_file.exists():
                raise OptionError(f"{self.rows_file} has no record beside it; remove it, or give another --name")
            return record
        earlier = read_model(self.record_file, JudgeRecord, DataError, cure=CURE)
        if changed := [name for name in IDENTITY if getattr(earlier, name) != getattr(record, name)]:
            raise OptionError(
                f"{self.record_file} is from another judge or other texts ({', '.join(changed)} changed); give another "
                "--name, or remove both files of that judge"
            )
        larger = {name: max(getattr(earlier, name), getattr(record, name)) for name in ("items", "questions")}
        return earlier.model_copy(update=larger)

    def _write_record(self, record: JudgeRecord, rows: Collection[JudgeRow]) -> JudgeRecord:
        """Count the answers, and replace the record on disk."""
        checks = [row for row in rows if row.item in self.key.checks]
        passed = sum(row.label == self.key.checks[row.item].get(row.criterion) for row in checks)
        record = record.model_copy(
            update={
                "updated": provenance.now(),
                "statuses": dict(sorted(Counter(row.status for row in rows).items())),
                "truncated": sum(row.truncated for row in rows),
                "checks": (passed, len(checks)),
            }
        )
        replace_text(self.record_file, json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")
        return record

    def _append(self, rows: Sequence[JudgeRow]) -> None:
        """Append rows in place of an incomplete last line, and wait until they are on disk."""
        lines = "".join(json.dumps(row.model_dump(mode="json")) + "\n" for row in rows)
        with open_stored(self.rows_file) as stream:
            complete = stream.readall().rfind(b"\n") + 1
            stream.truncate(complete)
            stream.seek(complete)
            write_bytes(stream.fileno(), lines.encode())
            os.fsync(stream.fileno())


def read_judges(folder: Path, key: Key) -> tuple[JudgeAnswers, ...]:
    """Read the answers of all judges in a folder.

    Raises:
        DataError: a file is damaged, or does not belong to the key.
    """
    judges = []
    for file in sorted(folder.glob(f"{PREFIX}*.json")):
        record = read_model(file, JudgeRecord, DataError, cure=CURE)
        rows_file = file.with_suffix(".jsonl")
        rows = tuple(_read_rows(rows_file))
        scales = {criterion.name: (*criterion.labels, None) for criterion in key.all_criteria}
        for row in rows:
            is_item = row.item in key.items or row.item in key.checks
            if not is_item or row.label not in scales.get(row.criterion, ()):
                raise DataError(
                    f"{rows_file}: item {row.item!r:.40}, {row.criterion!r:.40}: {row.label!r:.40} does not fit the "
                    f"key; {CURE}"
                )
        judges.append(JudgeAnswers(file.stem.removeprefix(PREFIX), record, rows))
    return tuple(judges)


def _read_rows(file: Path) -> Iterator[JudgeRow]:
    """Yield the rows of a file, without an incomplete last line; no file has no rows."""
    content = read_stored(file)
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            yield JudgeRow.model_validate(parse_json(line))
        except (InvalidJSON, ValidationError) as error:
            raise DataError(f"{file}:{number} is damaged; {CURE}") from error


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
