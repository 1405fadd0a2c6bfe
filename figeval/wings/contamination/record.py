"""The record of `figeval contamination`, `contamination.json`: numbers, ids and digests, but no text of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from figeval import RecordError
from figeval.io.files import cure, replace_text
from figeval.io.json_files import read_model
from figeval.records.schema import ModelRecord, ScoreRecord, Stored

FILE = "contamination.json"
LABEL: Literal["evidence, not proof"] = "evidence, not proof"
SHOWS = {  # measure → what its number is, and what else than contamination may be behind it
    "recall": "share of well-known texts whose last word the model ranks first among ten, or writes; floor: with the "
    "other words shuffled. A model may know a saying from anywhere",
    "rewrites": "share of rewrites that are less likely per character than the well-known text; floor: the same for "
    "openings of the task's other texts. Every model prefers natural wording",
    "order": "log-likelihood of the file's order of clusters minus that of random orders, in nats per shard; p by "
    "permutation. An order with a system, such as by topic, may be preferred unseen",
    "min_k": "area under the curve of Min-K% between the task's texts and rewrites of them. Natural wording alone "
    "lifts it above .5: compare with a model from before the data",
    "min_k_plus": "the same of Min-K%++, which relates each token to the others that could stand there",
    "accuracy": "score on examples whose well-known text was recalled minus that on the others. Such texts may be "
    "easier for other reasons",
}


class FindingRecord(Stored):
    """One measure of one task."""

    measure: str
    label: Literal["evidence, not proof"] = LABEL
    score: ScoreRecord | None = Field(default=None, description="null if it could not be measured")
    floor: ScoreRecord | None = Field(default=None, description="the same where nothing can be remembered")
    p: float | None = Field(default=None, description="of the order test, or of the difference from the floor")
    parts: dict[str, ScoreRecord] = Field(default={}, description="the numbers of which the score is the difference")
    unavailable: str = Field(default="", description="why there is no score")
    note: str = ""
    settings: dict[str, Any] = Field(default={}, description="how it was measured")
    values: dict[str, float | None] = Field(
        default={}, description="by the id of the first example of a cluster; null: no answer"
    )


class TaskFindings(Stored):
    """The measures of one task."""

    task: str
    version: int
    examples_sha256: str = Field(description="as in the record of a run")
    n: int = Field(description="examples that were used")
    units: int = Field(description="clusters among them; an example without one counts as a cluster")
    findings: list[FindingRecord]


class ContaminationRecord(Stored):
    """Record of what one model may remember of some tasks."""

    schema_version: str = "1.0"
    label: Literal["evidence, not proof"] = LABEL
    status: Literal["running", "complete"] = "running"
    started: str
    finished: str | None = None
    command: list[str]
    config: dict[str, Any]
    model: ModelRecord
    tasks: list[TaskFindings] = Field(default=[], description="in the order of --tasks")
    provenance: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Replace the record in a folder. Raises `RecordError` if it cannot be written."""
        with cure(folder):
            replace_text(folder / FILE, self.model_dump_json(indent=1) + "\n")


def read_contamination(folder: Path) -> ContaminationRecord | None:
    """Return the record in a folder, or None. Raises `RecordError` if the file is not such a record."""
    file = folder / FILE
    return read_model(file, ContaminationRecord, RecordError) if file.is_file() else None
