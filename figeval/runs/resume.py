"""Begins a run or resumes an interrupted one: restores its record and its usable predictions.

A run is resumed only if it asks the same questions of the same model (`begin`). The predictions of a finished task are
compared with the digest in its record. Those of an unfinished task are checked row by row (`resume`): the first of
several rows for an example is kept; rows for examples that the task does not have are dropped with a warning; rows
without a reply are dropped, and their examples are asked again. Rows that worker processes of earlier versions left in
their own folders are merged.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import RecordError
from figeval.io import frontend
from figeval.io.text import one_line
from figeval.language.words import notion_of
from figeval.models.batching import digest_of
from figeval.models.model import Model
from figeval.records import conditions, provenance
from figeval.records.ids import Ids, digests_of
from figeval.records.predictions import PredictionRow, answers_of
from figeval.records.rows_file import is_own
from figeval.records.run_folder import SEEDS, RunFolder, own_folder
from figeval.records.schema import LineageRecord, RunRecord, TaskRecord
from figeval.runs.evaluate import has_no_reply
from figeval.runs.lineage import model_record
from figeval.runs.plan import Plan, template_file
from figeval.runs.rescore import reply_of
from figeval.runs.score import MetricSet
from figeval.runs.task_metrics import descriptions
from figeval.types import KeptReply, Reply

ELSEWHERE = "choose another --output_path, or start over with --fresh"
UNCHANGED_FIELDS = (
    "version",
    "route",
    "n",
    "examples_sha256",
    "sample_sha256",
    "template_sha256",
)  # must be equal for a task to be resumed
BORDERS_KEPT = (2, 3)  # schema version since which options are encoded apart from prompts where a token straddles both
SCORED_BY_TOKENS = frozenset({"loglikelihood", "fill"})  # capabilities whose numbers changed then
SHARDS, LOGS = "shards", "logs"  # folders of worker processes in the folder of a run


# ---- the record of a run ---------------------------------------------------------------------------------------------


def begin(
    folder: RunFolder, config: RunConfig, model: Model, plans: list[Plan], lineage: LineageRecord | None = None
) -> RunRecord:
    """Return a new record of the run, with the stored tasks and contrasts of the same run if there are any.

    With `config.fresh`, an earlier run in the folder is moved into its subfolder `earlier`. So is one with fewer
    samples of each answer; the samples that it has are kept for the new one.

    Raises:
        RecordError: the folder holds another run, or data, prompts, route or weights have changed.
    """
    fresh = RunRecord(
        identity=config.identity(),
        status="running",
        started=provenance.now(),
        command=frontend.command(),
        config=config.record(),
        model=model_record(model, lineage),
        provenance=provenance.collect(),
    )
    if config.fresh:
        folder.put_aside()
    if (folder.path / SEEDS).exists():  # tables would show its means instead of this run
        raise RecordError(f"{folder.path} contains runs of several seeds; {ELSEWHERE}")
    stored = folder.read()
    if stored is None and folder.has_rows:
        raise RecordError(
            f"{folder.path} has predictions of a run whose run.json is missing; restore it, or {ELSEWHERE}"
        )
    if stored is None:
        fresh.tasks = [task_record(plan) for plan in plans]
        folder.write(fresh)
        return fresh
    if has_fewer_samples(stored, config, fresh.model.fingerprint):
        replies = {plan.name: stored_replies(folder, plan) for plan in plans}
        folder.put_aside()
        fresh.tasks = [task_record(plan) for plan in plans]
        folder.write(fresh)
        for name, of_task in replies.items():
            folder.keep_replies(name, of_task)
        return fresh
    _check_same(folder.path, stored, config, model.name, fresh.model.fingerprint)
    _check_scoring(folder, stored, plans)
    fresh.started = stored.started
    stored_tasks = {task.task: task for task in stored.tasks}
    fresh.tasks = [_resume_task(folder.path, stored_tasks.get(plan.name), task_record(plan)) for plan in plans]
    fresh.contrasts = stored.contrasts
    return fresh


def check_unchanged(path: Path, stored: RunRecord, config: RunConfig, model: Model, plans: Sequence[Plan]) -> None:
    """Check in a worker that it has the data, prompts, routes and weights of the run.

    Raises:
        RecordError: something differs from the record.
    """
    _check_same(path, stored, config, model.name, model.fingerprint())
    stored_tasks = {task.task: task for task in stored.tasks}
    for plan in plans:
        if plan.name in stored_tasks or not plan.is_reserve:  # a reserve may have been dropped from the record
            _resume_task(path, stored_tasks[plan.name], task_record(plan))


def has_fewer_samples(stored: RunRecord, config: RunConfig, fingerprint: str) -> bool:
    """Return whether a stored run asked the same model the same, but for fewer samples of each answer."""
    n_before, n_now = config.changed(stored.config).get("samples", (0, 0))
    is_same = [*config.changed(stored.config)] == ["samples"] and stored.model.fingerprint == fingerprint
    return is_same and isinstance(n_before, int) and n_before < n_now


def stored_replies(folder: RunFolder, plan: Plan) -> dict[str, KeptReply]:
    """Return the replies behind the rows of a task, by the digest of their request under the plan, and all kept ones.

    They are those of routes that ask once. What makes another answer than the stored one is left out.
    """
    replies = folder.replies(plan.name)
    rows = {row["id"]: row for row in folder.rows(plan.name)} if plan.route.reader is not None else {}
    for example in plan.examples() if rows else ():
        row = rows.get(example.id)
        if row is None or row["status"] == "unasked":
            continue
        answers = answers_of(row)
        dialogue = plan.route.begin(plan.asked(example), plan.context)
        requests = next(dialogue)
        outputs = [reply_of(answer) for answer in answers]
        try:
            dialogue.send([*outputs, *[Reply(text="", finish="error")] * (len(requests) - len(outputs))])
        except StopIteration as end:
            again = [answer for sample in end.value.samples for answer in sample.answers or (sample,)]
            for request, output, read in zip(requests, outputs, again, strict=False):
                if output.finish != "error" and read.raw == output.text:
                    replies[digest_of(request)] = KeptReply(output, row["truncated"])
    return replies


def _check_same(path: Path, stored: RunRecord, config: RunConfig, model: str, fingerprint: str) -> None:
    if stored.identity != config.identity():
        difference = (
            _changes(config.changed(stored.config)) or f"its identity is {stored.identity}, not {config.identity()}"
        )
        raise RecordError(f"{path} contains another run ({difference}); {ELSEWHERE}")
    if stored.model.fingerprint != fingerprint:
        before, after = _from_difference(stored.model.fingerprint, fingerprint)
        difference = f"{_show_value(before)} before, {_show_value(after)} now"
        raise RecordError(f"{path}: the weights of {model} have changed since ({difference}); {ELSEWHERE}")


def _from_difference(*fingerprints: str) -> list[str]:
    """Return fingerprints from the word before the first difference on; that of an adapter ends with its base's."""
    words = [fingerprint.split() for fingerprint in fingerprints]
    shared_words = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False)))
    return [" ".join(part[max(0, shared_words - 1) :]) for part in words]


def _check_scoring(folder: RunFolder, stored: RunRecord, plans: Sequence[Plan]) -> None:
    """Raise `RecordError` if rows of an earlier version, in which a part of an option may be missing, would go on."""
    if tuple(map(int, stored.schema_version.split("."))) >= BORDERS_KEPT:
        return
    recorded = {task.task: task for task in stored.tasks}
    for plan in plans:
        rows = folder.predictions_file(plan.name)
        if (
            plan.route.needs & SCORED_BY_TOKENS
            and plan.name in recorded
            and is_own(rows)
            and not is_finished(folder, recorded[plan.name])
        ):
            raise RecordError(
                f"{folder.path}: the options of {plan.name} were scored by an earlier figeval, which left out tokens "
                f"that also held a part of the prompt; {ELSEWHERE}"
            )


def _changes(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """Format changed settings, e.g. as `limit was 20, is 50; seed was 0, is 1`."""
    return "; ".join(
        f"{name} was {_show_value(old)}, is {_show_value(new)}"
        for change in changed.items()
        for name, old, new in _parts(*change)
    )


def _parts(name: str, values: tuple[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield a changed setting with its values, or the keys that differ if it is a mapping, e.g. `model_args.dtype`."""
    old, new = values
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield f"{name}.{key}", old.get(key), new.get(key)
    else:
        yield name, old, new


def _show_value(value: Any) -> str:
    if value is None or value == "":
        return "not set"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)


def task_record(plan: Plan) -> TaskRecord:
    return TaskRecord(
        task=plan.name,
        kind=plan.variant.kind,
        of=plan.task.name if plan.variant.name else None,
        variant=plan.variant.name or None,
        is_floor=plan.variant.is_floor,
        version=plan.task.version,
        task_type=plan.task.type,
        route=plan.route.name,
        status="running",
        n=plan.n,
        available=plan.available.n,
        only_label=plan.task.only_label,
        hidden=plan.available.subset.hidden,
        examples_sha256=plan.available.sha256,
        sample_sha256=plan.available.subset.sample_sha256,
        template=plan.template.name if plan.template else None,
        template_sha256=plan.template.sha256 if plan.template else None,
        extractor=plan.extractor,
        settings=plan.settings,
        words=notion_of(plan.task.segmenters.values()),
        legend=plan.route.explain(plan.context.settings, plan.context.labels),
        predictions=f"predictions/{plan.name}.jsonl",
        warnings=_warnings(plan),
    )


def _warnings(plan: Plan) -> list[str]:
    """Return the warnings about a task that are known before it is run."""
    warnings = [*plan.remarks]
    template_name = plan.task.template
    if template_name is not None and plan.template is not None and plan.template.name != template_name:
        missing = plan.route.renders - template_file(plan.task).blocks
        blocks = ("block " if len(missing) == 1 else "blocks ") + " and ".join(repr(block) for block in sorted(missing))
        warnings.append(
            f"{template_name} lacks the {blocks} of {plan.route.name}; {plan.template.name} was used instead"
        )
    column = plan.config.stratify if plan.variant.kind == "task" else None
    if column and plan.n < plan.available.n and not plan.available.subset.is_stratified:
        warnings.append(f"not stratified, since no example has a value of {column}")
    if plan.n < plan.available.n and (names := MetricSet(plan.metrics, plan.task.labels).size_dependent):
        metric_names = "all metrics" if len(names) == len(plan.metrics) > 1 else ", ".join(names)
        flags = conditions.portion(plan.config.record())
        depend = "depends" if len(names) == 1 else "depend"
        warnings.append(
            f"{metric_names} {depend} on the number of examples, so scores with {flags} are not comparable with those "
            f"on all {plan.available.n}"
        )
    metrics_by_remark: dict[str, list[str]] = {}
    for name, description in descriptions(plan.metrics).items():
        metrics_by_remark.setdefault(str(description.get("remark", "")), []).append(name)
    warnings += [f"{', '.join(names)}: {remark}" for remark, names in metrics_by_remark.items() if remark]
    if plan.floor is not None and (other := plan.floor.differences):
        warnings.append(f"{plan.floor.name} was trained with different settings from the model's: {', '.join(other)}")
    cut = len(plan.available.subset.cut)
    if cut and any(metric.name == "acc" for metric in plan.metrics):
        pairs = "a minimal pair" if cut == 1 else f"{cut} minimal pairs"
        flag = "--limit" if plan.config.sample is None else "--sample"
        warnings.append(f"{flag} splits {pairs}, which acc_strict leaves out")
    return warnings


def _resume_task(path: Path, stored: TaskRecord | None, fresh: TaskRecord) -> TaskRecord:
    """Return the stored record of a task, or else the fresh one. Raises `RecordError` if the task has changed since."""
    if stored is None:
        return fresh
    if stored.extractor != fresh.extractor:
        raise RecordError(
            f"{path}: the answers to {fresh.task} were read by an older extractor; run `figeval rescore` on it"
        )
    changed = {key.removesuffix("_sha256"): (getattr(stored, key), getattr(fresh, key)) for key in UNCHANGED_FIELDS}
    if stored.words or not is_english(fresh):  # records without words are of versions that divided English as this one
        changed["words"] = stored.words, fresh.words
    changed |= {
        f"settings.{key}": (stored.settings.get(key), fresh.settings.get(key))
        for key in dict.fromkeys((*stored.settings, *fresh.settings))
    }
    changed = {key: (old, new) for key, (old, new) in changed.items() if json.dumps(old) != json.dumps(new)}
    if changed:
        keys = " and ".join(changed)
        raise RecordError(
            f"{path}: {keys} of {fresh.task} changed since this run began ({_changes(changed)}); {ELSEWHERE}"
        )
    return stored.model_copy(update={"legend": fresh.legend, "warnings": fresh.warnings, "error": None})


def is_english(task: TaskRecord) -> bool:
    """Return whether all texts of a task are in English, as far as its record says."""
    return not task.settings.get("language") and not task.settings.get("languages")


# ---- rows of earlier sessions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Number of examples of a run, and of rows kept from earlier sessions, by task."""

    by_task: Mapping[str, int]
    examples: int

    @property
    def rows(self) -> int:
        """Number of rows of all tasks."""
        return sum(self.by_task.values())


def resume(folder: RunFolder, record: RunRecord, plans: Sequence[Plan]) -> RowCounts:
    """Check and merge the rows of earlier sessions; return how many are kept.

    Tasks whose predictions are about to change are marked as unfinished first, in the record and on disk.

    Raises:
        RecordError: the predictions of a finished task were modified, a row is damaged, or a worker process of an
            earlier session is still writing.
    """
    tasks = {task.task: task for task in record.tasks}
    again = [plan for plan in plans if not is_finished(folder, tasks[plan.name])]
    if any(tasks[plan.name].predictions_sha256 is not None for plan in again):
        for plan in again:
            tasks[plan.name].status, tasks[plan.name].predictions_sha256 = "running", None
        folder.write(record)
    merge_shards(folder, plans)
    shutil.rmtree(folder.path / LOGS, ignore_errors=True)
    rows = {
        plan.name: drop_unusable_rows(folder, plan, tasks[plan.name]) if plan in again else plan.n for plan in plans
    }
    return RowCounts(rows, sum(plan.n for plan in plans))


def is_finished(folder: RunFolder, task: TaskRecord) -> bool:
    """Return whether a task needs no further answers. Raises `RecordError` if its predictions were modified."""
    folder.check(task)
    is_done = task.status == "done" and task.predictions_sha256 is not None
    return is_done and not task.counts.get("error") and is_own(folder.predictions_file(task.task))


def drop_unusable_rows(folder: RunFolder, plan: Plan, task: TaskRecord) -> int:
    """Drop the unusable rows of an unfinished task; return the number of rows that are kept."""
    if not is_own(folder.predictions_file(plan.name)):
        return 0
    ids = Ids.of(example.id for example in plan.examples())
    sieve = Sieve(ids, bytearray(len(ids)))
    folder.drop(plan.name, sieve)
    if sieve.strange:
        first = one_line(sieve.first_strange, 80)
        rows = "1 row" if sieve.strange == 1 else f"{sieve.strange} rows"
        task.warnings.append(f"{rows} for examples that the task does not have were dropped (first: {first!r})")
    return sieve.seen.count(1)


@dataclass(slots=True)
class Sieve:
    """Predicate for the rows of an unfinished task to drop; the first row with a reply per id in `ids` is kept.

    Attributes:
        ids: ids of the task's examples.
        seen: a byte for each of them, 1 once a row is kept.
        strange: number of rows with other ids.
        first_strange: the first of these ids.
    """

    ids: Ids
    seen: bytearray
    strange: int = 0
    first_strange: str = ""

    def __call__(self, row: PredictionRow) -> bool:
        """Return whether to drop the row."""
        number = self.ids.number(row["id"])
        if number is None:
            self.first_strange = self.first_strange or row["id"]
            self.strange += 1
        elif not has_no_reply(row) and not self.seen[number]:
            self.seen[number] = 1
            return False
        return True


# ---- rows of worker processes of earlier versions --------------------------------------------------------------------


def merge_shards(folder: RunFolder, plans: Sequence[Plan]) -> None:
    """Merge the rows of all worker processes, however they ended, and remove their folders.

    Raises:
        RecordError: a worker process is still writing.
    """
    shards = [RunFolder(own_folder(path)) for path in sorted(own_folder(folder.path / SHARDS).glob("*-of-*"))]
    with ExitStack() as locks:
        for shard in shards:
            locks.enter_context(shard.locked())
        for plan in plans:
            if any(
                file(plan.name).exists() for shard in shards for file in (shard.predictions_file, shard.replies_file)
            ):
                merge(folder, plan, shards)
    for shard in shards:
        if not any(shard.predictions_file("x").parent.iterdir()):
            shutil.rmtree(shard.path)
    with suppress(OSError):  # does not exist, or is not empty
        (folder.path / SHARDS).rmdir()


def merge(folder: RunFolder, plan: Plan, shards: Sequence[RunFolder]) -> int:
    """Move the rows of a task from the shards into the run folder; return the number of rows that it then has."""
    folder.drop(plan.name, has_no_reply)
    rows = folder.arrange(plan.name, digests_of(example.id for example in plan.examples()), shards)
    for shard in shards:
        if replies := shard.replies(plan.name):
            folder.keep_replies(plan.name, replies)
            shard.forget_replies(plan.name)
        shard.predictions_file(plan.name).unlink(missing_ok=True)
    return rows
