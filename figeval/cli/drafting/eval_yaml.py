"""Tasks from the `eval.yaml` of a data set on the hub, which Inspect reads.

The keys are those of Inspect's reader: each task has a `config`, a `split`, a `field_spec` that names the columns of
input, target and choices, `solvers` and `scorers`. Nothing in the file is run; what figeval has no word for is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from figeval.cli.drafting.columns import Column, sample_columns
from figeval.cli.drafting.shapes import Draft, Sheet, find_choice
from figeval.cli.drafting.task_text import with_common_fields
from figeval.data.hub import open_hub
from figeval.data.hub_cache import REACH_SECONDS, HubAddress, cached_folder, parse_address
from figeval.data.readers import DataContext, copies, fetch
from figeval.errors import DataError, FigevalError
from figeval.io.files import read_text
from figeval.io.text import one_line
from figeval.io.validation import first_problem
from figeval.io.yaml_files import InvalidYAML, parse_yaml

FILE = "eval.yaml"
MAX_TASKS = 200
SOLVERS = {"generate", "prompt_template", "system_message", "user_message", "chain_of_thought", "multiple_choice"}
WORDED = {"prompt_template", "system_message", "user_message", "chain_of_thought"}  # their texts are not taken over
SCORERS = {"choice", "match", "exact", "includes", "answer", "f1"}
LITERAL = "literal:"


class Step(BaseModel):
    """A solver or a scorer."""

    model_config = ConfigDict(extra="ignore")

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class FieldSpec(BaseModel):
    """Columns of a sample."""

    model_config = ConfigDict(extra="ignore")

    input: str
    target: str
    choices: str | list[str] | None = None
    id: str | None = None
    input_image: str | None = None


class HubTask(BaseModel):
    """A task of `eval.yaml`."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    config: str = "default"
    split: str = "test"
    field_spec: FieldSpec
    solvers: list[Step] = Field(min_length=1)
    scorers: list[Step] = Field(min_length=1)
    epochs: int = 1
    shuffle_choices: bool | None = None


def hub_drafts(name: str, source: str, warn: Callable[[str], None]) -> list[tuple[str, Draft, dict[str, str]]]:
    """Return (task name, draft, data) of the tasks in the `eval.yaml` of a data set; none if it has no such file.

    Args:
        name: name of the task, or the beginning of the names of several.
        source: the address `hub:OWNER/NAME`; one with a split means its rows, whatever `eval.yaml` says.
        warn: receives a line for each task that is left out or changed.

    Raises:
        DataError: the file is no list of tasks, or none of them can be expressed.
    """
    address = parse_address(source.partition(":")[2])
    file = None if address.split else _find_file(address)
    if file is None:
        return []
    tasks = list(_read_tasks(file))
    drafts = []
    for number, values in enumerate(tasks, 1):
        identity = one_line(str(values.get("id") or number), 60) if isinstance(values, dict) else str(number)
        try:
            draft, data, remarks = _convert(values, address)
        except FigevalError as error:
            warn(f"{FILE}, task {identity}: left out, {one_line(str(error), 300)}")
            continue
        for remark in remarks:
            warn(f"{FILE}, task {identity}: {remark}")
        suffix = re.sub(r"[^a-z0-9]+", "_", identity.lower()).strip("_") or str(number)
        drafts.append((name if len(tasks) == 1 else f"{name}_{suffix}"[:100], draft, data))
    names = [task for task, *_ in drafts]
    if not drafts or len(set(names)) < len(names):
        problem = "two tasks have one id" if drafts else "no task of it can be expressed"
        raise DataError(f"{address}: {FILE}: {problem}; name a split, as in {address}#test, to make a task of its rows")
    return drafts


def _find_file(address: HubAddress) -> Path | None:
    """Return the `eval.yaml` of a data set, from a copy of the user's, the hub's cache, or the hub."""
    users_copies = copies(address.name)
    for folder in users_copies or filter(None, [cached_folder(address)]):
        if (folder / FILE).is_file():
            return folder / FILE
    if users_copies:
        return None
    from huggingface_hub import HfApi, constants, hf_hub_download

    if constants.HF_HUB_OFFLINE:
        return None
    try:
        info = HfApi().dataset_info(address.name, revision=address.revision or None, timeout=REACH_SECONDS)
        if FILE not in [sibling.rfilename for sibling in info.siblings or ()]:
            return None
        return Path(hf_hub_download(address.name, FILE, repo_type="dataset", revision=info.sha))
    except Exception:  # whatever the hub's client raises without a network; then the rows decide, or say what is wrong
        return None


def _read_tasks(file: Path) -> Iterator[Any]:
    try:
        content = parse_yaml(read_text(file, DataError))
    except InvalidYAML as error:
        raise DataError(f"{file}: {one_line(str(error), 200)}; correct it") from error
    tasks = content.get("tasks") if isinstance(content, dict) else None
    if not isinstance(tasks, list) or not tasks:
        raise DataError(f"{file}: there is no list of tasks under the key `tasks`; add one")
    yield from islice(tasks, MAX_TASKS)


def _convert(values: Any, address: HubAddress) -> tuple[Draft, dict[str, str], list[str]]:
    """Return the draft and the data of a task, and what figeval does in another way.

    Raises:
        FigevalError: figeval cannot express the task, or its rows cannot be read.
    """
    try:
        task = HubTask.model_validate(values)
    except ValidationError as error:
        raise DataError(first_problem(error, HubTask)) from error
    _check_steps(task)
    config = "" if task.config == "default" else task.config
    rows = parse_address(str(address._replace(config=config, split=task.split)).partition(":")[2])
    columns = sample_columns(open_hub(str(rows).partition(":")[2], DataContext(Path(), fetch)), str(rows))
    sheet = Sheet(columns, {})
    has_choices = task.field_spec.choices is not None
    draft = _choice(task, sheet) if has_choices else _written(task, sheet)
    differences = {
        "its prompt is not taken over; figeval asks in its own words": any(s.name in WORDED for s in task.solvers),
        "each question is asked once": task.epochs > 1,
        "its texts are scored by rouge_l, a metric of figeval": draft.kind == "generation",
        "its options keep their order; write `shuffle_options: true` to shuffle them": bool(task.shuffle_choices),
    }
    data = {"test": str(rows)}
    return with_common_fields(draft, sheet), data, [text for text, differs in differences.items() if differs]


def _check_steps(task: HubTask) -> None:
    for role, steps, supported in (("solver", task.solvers, SOLVERS), ("scorer", task.scorers, SCORERS)):
        for step in steps:
            if step.name not in supported:
                raise DataError(f"figeval has no counterpart of the {role} {one_line(step.name, 40)!r}")
    if task.field_spec.input_image:
        raise DataError("its questions have images")


def _choice(task: HubTask, sheet: Sheet) -> Draft:
    """Return a draft with options, of which the target names the right one by its letter or index."""
    spec = task.field_spec
    choices = [spec.choices] if isinstance(spec.choices, str) else list(spec.choices or [])
    columns_of: dict[str, str | list[str]] = {"query": [spec.input], "options": choices}
    if spec.target.startswith(LITERAL):
        letter = spec.target.removeprefix(LITERAL).strip()
        index = ord(letter) - ord("A") if re.fullmatch("[A-Z]", letter) else -1
        columns = {**sheet.columns, LITERAL: Column(LITERAL, [index] * len(next(iter(sheet.columns.values())).values))}
        draft = find_choice(Sheet(columns, {**columns_of, "gold": [LITERAL]})) if index >= 0 else None
        draft = draft and Draft("choice", {**draft.fields, "gold": str(index)}, {**draft.reasons, "gold": "literal"})
    else:
        draft = find_choice(Sheet(sheet.columns, {**columns_of, "gold": [spec.target]}))
    if draft is None:
        raise DataError(f"{one_line(spec.target, 60)!r} is neither the letter nor the index of one of the choices")
    return draft


def _written(task: HubTask, sheet: Sheet) -> Draft:
    """Return a draft whose answers are written: a label if the targets are a few short texts, else a text."""
    spec = task.field_spec
    if spec.target.startswith(LITERAL):
        raise DataError("all its targets are the same")
    text, target = sheet.column(spec.input), sheet.column(spec.target)
    reasons = {"text": text.title, "label": target.title}
    exact = {step.name for step in task.scorers} <= {"exact", "match", "includes", "answer"}
    if (
        exact
        and target.is_categorical
        and len(target.distinct) > 1
        and target.mean_chars <= 30
        and not target.is_numeric
    ):
        return Draft("classification", {"text": text.expression, "label": target.as_text}, reasons, target.distinct)
    references = target.as_text if target.is_list else f"[{target.as_text}]"
    fields = {"inputs": {"input": text.expression}, "references": references}
    return Draft("generation", fields, {"inputs": text.title, "references": target.title})
