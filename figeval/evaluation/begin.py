"""The record of a run: a new one, or that of the same run cut short, provided that it asked the same questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from figeval import frontend
from figeval.config import RunConfig
from figeval.errors import RecordError
from figeval.evaluation.plan import Plan
from figeval.evaluation.scoring import Measures
from figeval.models.model import Model
from figeval.records import provenance
from figeval.records.folder import RunFolder
from figeval.records.schema import LineageRecord, ModelRecord, RunRecord, TaskRecord
from figeval.spec import TaskSpec
from figeval.text import one_line

ELSEWHERE = "choose another --output_path, or start over with --fresh"


def begin(
    folder: RunFolder, config: RunConfig, model: Model, plans: list[Plan], lineage: LineageRecord | None = None
) -> RunRecord:
    """The record to go on with: a new one, or the stored one of the same run.

    With `config.fresh` an earlier run in the folder is put aside into its subfolder `earlier`.

    Raises:
        RecordError: the folder holds another run, or data, prompts, route or weights have changed since.
    """
    fresh = RunRecord(
        identity=config.identity(),
        status="running",
        started=provenance.now(),
        command=frontend.command(),
        config=config.record(),
        model=ModelRecord(
            name=model.name,
            backend=model.backend_name,
            options=dict(model.options),
            capabilities=sorted(model.offers),
            fingerprint=model.fingerprint(),
            lineage=lineage,
        ),
        provenance=provenance.collect(),
    )
    if config.fresh:
        folder.put_aside()
    stored = folder.read()
    if stored is None and folder.has_rows:
        raise RecordError(f"{folder.path} has predictions of a run whose run.json is gone; restore it, or {ELSEWHERE}")
    if stored is None:
        fresh.tasks = [_task_record(plan) for plan in plans]
        folder.write(fresh)
        return fresh
    _check_same(folder.path, stored, fresh, config)
    fresh.started = stored.started
    known = {task.task: task for task in stored.tasks}
    fresh.tasks = [_resumed(folder.path, known.get(plan.name), _task_record(plan)) for plan in plans]
    return fresh


def _check_same(path: Path, stored: RunRecord, fresh: RunRecord, config: RunConfig) -> None:
    if stored.identity != fresh.identity:
        what = _told(config.changed(stored.config)) or f"its identity is {stored.identity}, not {fresh.identity}"
        raise RecordError(f"{path} holds another run ({what}); {ELSEWHERE}")
    if stored.model.fingerprint != fresh.model.fingerprint:
        what = f"{_shown(stored.model.fingerprint)} before, {_shown(fresh.model.fingerprint)} now"
        raise RecordError(f"{path}: the weights of {fresh.model.name} changed since ({what}); {ELSEWHERE}")


def _told(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """`limit was 20, is 50; seed was 0, is 1`."""
    return "; ".join(f"{name} was {_shown(old)}, is {_shown(new)}" for name, (old, new) in changed.items())


def _shown(value: Any) -> str:
    """A value of a setting, in short."""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 32) or "empty"


def _task_record(plan: Plan) -> TaskRecord:
    return TaskRecord(
        task=plan.name,
        kind=plan.variant.kind,
        of=plan.task.name if plan.variant.name else None,
        variant=plan.variant.name or None,
        version=plan.task.version,
        task_type=plan.task.type,
        route=plan.route.name,
        status="running",
        n=plan.n,
        available=plan.available.n,
        only_label=plan.task.only_label,
        hidden=plan.available.hidden,
        examples_sha256=plan.available.sha256,
        template=plan.template.name if plan.template else None,
        template_sha256=plan.template.sha256 if plan.template else None,
        extractor=plan.extractor,
        settings=plan.settings,
        predictions=f"predictions/{plan.name}.jsonl",
        warnings=_warnings(plan),
    )


def _warnings(plan: Plan) -> list[str]:
    """What a reader of the number has to know."""
    found = []
    own = plan.task.template
    if own is not None and plan.template is not None and plan.template.name != own:
        blocks = " and ".join(repr(block) for block in sorted(plan.route.renders))
        found.append(f"{own} has not the block {blocks} of {plan.route.name}; asked with {plan.template.name}")
    if plan.n < plan.available.n and Measures(plan.metrics, plan.task.labels).collective:
        found.append(f"some metrics depend on all {plan.available.n} examples, and --limit leaves {plan.n}: no results")
    return found


def warnings_of_run(plans: list[Plan], left_out: list[TaskSpec], config: RunConfig) -> Iterator[str]:
    """What a reader of all the numbers has to know."""
    cut = {plan.task.name for plan in plans if plan.n < plan.available.n}
    if cut:
        tasks = {plan.task.name for plan in plans}
        yield f"--limit {config.limit}: the first examples of {len(cut)} of {len(tasks)} tasks, not a random sample"
    if left_out:
        names = ", ".join(task.name for task in left_out)
        yield f"left out, since such a model cannot answer them: {names}; name one in --tasks to hear why"


SAME = ("version", "route", "n", "examples_sha256", "template_sha256")


def _resumed(path: Path, stored: TaskRecord | None, fresh: TaskRecord) -> TaskRecord:
    """The stored record of a task, provided that it asked the same question."""
    if stored is None:
        return fresh
    if stored.extractor != fresh.extractor:
        raise RecordError(f"{path}: the answers to {fresh.task} were read by an older extractor; `figeval rescore` it")
    changed = {key.removesuffix("_sha256"): (getattr(stored, key), getattr(fresh, key)) for key in SAME}
    changed |= {
        f"settings.{key}": (stored.settings.get(key), fresh.settings.get(key))
        for key in dict.fromkeys((*stored.settings, *fresh.settings))
    }
    changed = {key: (old, new) for key, (old, new) in changed.items() if json.dumps(old) != json.dumps(new)}
    if changed:
        what = " and ".join(changed)
        raise RecordError(
            f"{path}: {what} of {fresh.task} changed since this run began ({_told(changed)}); {ELSEWHERE}"
        )
    return stored.model_copy(update={"warnings": fresh.warnings, "error": None})
