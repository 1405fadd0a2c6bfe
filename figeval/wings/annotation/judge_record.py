"""Files of a judge next to the key of the items: its record `judge_NAME.json`, and its answers.

`judge_NAME.jsonl` has a row for each question (item and criterion), and the record says which model was asked how, and
what it cost. Rows are only appended, so the same command continues after a kill. A question that failed has no row and
is asked again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from figeval import AnswerFile, DataError, Example, OptionError, Prediction, Status
from figeval.io.files import replace_text
from figeval.io.json_files import read_model
from figeval.io.text import clean
from figeval.records import provenance
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.items import Key

MIN_ANSWERS = 5  # fewer equal answers may be right
PREFIX = "judge_"
SELF_PREFERENCE = "models tend to prefer their own texts and those of relatives"
CURE = "remove both files of the judge, and judge again"
IDENTITY = ("fingerprint", "options", "method", "readers", "seed", "template_sha256", "texts_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestion(Example):
    """A question to a judge: what label has this item by this criterion?"""

    item: str
    criterion: Criterion
    swapped: bool = False


def question_id(item: str, criterion: str, *, swapped: bool = False) -> str:
    """Return the id of the question about an item by a criterion; numbers of items have no space and no ~."""
    return f"{item}{'~' if swapped else ''} {criterion}"


class JudgeRow(BaseModel):
    """Answer of a judge to one question. There is a label only if `status` is `ok`.

    `raw` is a reply in words. `probabilities` are those of the labels, given that the answer is one of them. If the
    texts of a battle were `swapped`, A was its second text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    criterion: str
    label: str | None
    status: Status
    raw: str | None = None
    probabilities: dict[str, float | None] = {}
    truncated: bool = False
    swapped: bool = False

    @model_validator(mode="after")
    def _label_if_ok(self) -> JudgeRow:
        if (self.label is None) is (self.status == "ok"):
            raise ValueError("there must be a label if the status is ok, and only then")
        return self

    @property
    def question(self) -> str:
        """The id of the question."""
        return question_id(self.item, self.criterion, swapped=self.swapped)

    @classmethod
    def of(cls, question: JudgeQuestion, prediction: Prediction) -> JudgeRow:
        """Return the row of an answer; there is no label if several are the most probable."""
        status: Status = "ambiguous" if prediction.tied > 1 else prediction.status
        shares = zip(prediction.labels, prediction.scores, strict=False)  # a reply in words has none
        return cls(
            item=question.item,
            criterion=question.criterion.name,
            label=prediction.value if status == "ok" else None,
            status=status,
            raw=None if prediction.raw is None else clean(prediction.raw),
            probabilities={label: None if math.isnan(share) else share for label, share in shares},
            truncated=prediction.truncated,
            swapped=question.swapped,
        )


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


@dataclass(frozen=True, slots=True)
class JudgeFiles:
    """The files of one judge, by its name, in the folder of the items with this key."""

    folder: Path
    name: str
    key: Key

    @property
    def answers(self) -> AnswerFile[JudgeRow]:
        return AnswerFile(self.folder / f"{PREFIX}{self.name}.jsonl", JudgeRow, argument="ITEMS", remedy=CURE)

    @property
    def record_file(self) -> Path:
        return self.folder / f"{PREFIX}{self.name}.json"

    def continue_record(self, record: JudgeRecord) -> JudgeRecord:
        """Return the record of an earlier call that this one continues, or the new one.

        Raises:
            OptionError: the files are from another judge, another prompt or other texts.
            DataError: the record is damaged.
        """
        if not self.record_file.exists():
            if self.answers.path.exists():
                raise OptionError(f"{self.answers.path} has no record beside it; remove it, or give another --name")
            return record
        earlier = read_model(self.record_file, JudgeRecord, DataError, cure=CURE)
        if changed := [name for name in IDENTITY if getattr(earlier, name) != getattr(record, name)]:
            raise OptionError(
                f"{self.record_file} is from another judge or other texts ({', '.join(changed)} changed); give another "
                "--name, or remove both files of that judge"
            )
        larger = {name: max(getattr(earlier, name), getattr(record, name)) for name in ("items", "questions")}
        return earlier.model_copy(update=larger)

    def write_record(self, record: JudgeRecord, rows: Collection[JudgeRow]) -> JudgeRecord:
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


def read_judges(folder: Path, key: Key) -> tuple[JudgeAnswers, ...]:
    """Read the answers of all judges in a folder.

    Raises:
        DataError: a record is damaged, or an answer does not belong to the key.
        RecordError: an answer is damaged.
    """
    judges = []
    for file in sorted(folder.glob(f"{PREFIX}*.json")):
        files = JudgeFiles(folder, file.stem.removeprefix(PREFIX), key)
        record = read_model(file, JudgeRecord, DataError, cure=CURE)
        answers = files.answers
        rows = tuple(answers.rows())
        scales = {criterion.name: (*criterion.labels, None) for criterion in key.all_criteria}
        for row in rows:
            is_item = row.item in key.items or row.item in key.checks
            if not is_item or row.label not in scales.get(row.criterion, ()):
                raise DataError(
                    f"{answers.path}: item {row.item!r:.40}, {row.criterion!r:.40}: {row.label!r:.40} does not fit "
                    f"the key; {CURE}"
                )
        judges.append(JudgeAnswers(files.name, record, rows))
    return tuple(judges)


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
