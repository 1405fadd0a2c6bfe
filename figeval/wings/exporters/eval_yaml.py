"""Tasks as data sets of the Hugging Face Hub: `eval.yaml`, which Inspect reads, rows and a card.

Keys and names are those of Inspect's reader (`inspect_ai/_eval/task/hf.py`): a task has a `config`, a `split`, a
`field_spec` with the columns of input, target and choices, `solvers` and `scorers`. A label is asked for as one of the
options, so that scores are the accuracy that figeval reports for the answers that a model writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, TypeAlias

from figeval import Example, FigevalError, Harness, OptionError, TaskSpec
from figeval.io.text import one_line
from figeval.io.yaml_files import yaml_text
from figeval.runs.task_info import LocalFiles

FRAMEWORK = "inspect-ai"
SPLIT = "test"
CHOOSE = {"solvers": [{"name": "multiple_choice"}], "scorers": [{"name": "choice"}]}
WRITE = {"solvers": [{"name": "generate"}], "scorers": [{"name": "f1"}]}
CC = ("by", "by-sa", "by-nd", "by-nc", "by-nc-sa", "by-nc-nd")
LICENCES = {"mit", "apache-2.0", "cc0-1.0", *(f"cc-{terms}-{version}" for terms in CC for version in ("3.0", "4.0"))}
UNCLEAR = ("none stated", "differs", "several", "terms of their own")  # in a licence under which no texts are passed on
# In a licence under which only the original may be passed on.
UNCHANGED = re.compile(r"\bND\b|no[ -]?deriv", re.IGNORECASE)
Scalar: TypeAlias = str | int | float  # a truth value is an int
COLUMNS = ("id", "input", "choices", "target", "references", "cluster", "language")  # of rows; others are of `meta`


def package_tasks(
    names: Sequence[str], *, title: str, licence: str = "", permitted: bool = False, include: tuple[Path, ...] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the files of a data set with these tasks, by their paths, and remarks for the user.

    Args:
        names: names of tasks and suites.
        title: name of the data set.
        licence: licence of the rows; by default that of the benchmark they come from.
        permitted: whether rows may be passed on although no licence says so.
        include: further folders with task files.

    Raises:
        OptionError: `eval.yaml` has no counterpart of a task's type, or no row has an answer.
        FigevalError: the rows cannot be read, or their licence does not permit to pass them on.
    """
    local_files = LocalFiles()
    harness, sources = Harness(include=include, fetch=local_files), dict[str, Any]()
    entries, files, remarks = [], {}, []
    tasks = harness.catalogue.expand(names)
    for task in tasks:
        if task.type not in LAYOUTS:
            raise OptionError(f"eval.yaml has no counterpart of the type {task.type} of {task.name}; leave it out")
        lay_out, steps, columns = LAYOUTS[task.type]
        examples, hidden = [], 0
        local_files.benchmarks.clear()
        for example in harness.examples(task):
            row = lay_out(task, example)
            hidden += row is None
            examples += [] if row is None else [(example, row)]
        sources |= _permitted(local_files.sources(task.owner.rpartition(".")[2]), permitted)
        if not examples:
            raise OptionError(f"{task.name} has no row with a right answer that is not hidden; leave it out")
        if hidden:
            remarks.append(f"{task.name}: {hidden:,} rows whose answer is hidden are left out")
        shared, left_out = _shared_columns(task, [example for example, _ in examples])
        rows = ({"id": example.id, **row, **values} for (example, row), values in zip(examples, shared, strict=True))
        files[f"data/{task.name}.jsonl"] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        spec = {"input": "input", "target": "target", **columns, "metadata": ["id", *shared[0]]}
        if left_out:
            remarks.append(f"{task.name}: left out, as eval.yaml has no counterpart: {', '.join(left_out)}")
        entries.append({"id": task.name, "config": task.name, "split": SPLIT, "field_spec": spec, **steps})
    if not licence and not sources:
        remarks.append("the card names no licence; give one with --licence, such as --licence cc-by-4.0")
    listing = {"name": title, "description": _summary(tasks), "evaluation_framework": FRAMEWORK, "tasks": entries}
    card = _card(tasks, title, licence, sources)
    return {"README.md": card, "eval.yaml": yaml_text(listing, width=1000), **files}, remarks


def _permitted(sources: Mapping[str, Any], permitted: bool) -> Mapping[str, Any]:
    """Return the sources of a task. Raises `FigevalError` if their licence does not let anybody pass rows on."""
    for benchmark, source in sources.items():
        if not permitted and UNCHANGED.search(source.licence):
            raise FigevalError(
                f"the texts of {benchmark} can be passed on only as their authors published them "
                f"({one_line(source.licence, 200)}), and the rows are laid out anew; add --permitted if they allow it"
            )
        if not permitted and any(words in source.licence.lower() for words in UNCLEAR):
            raise FigevalError(
                f"the texts of {benchmark} cannot be passed on, as no licence permits it "
                f"({one_line(source.licence, 200)}); add --permitted if their authors have allowed it"
            )
    return sources


def _shared_columns(task: TaskSpec, examples: Sequence[Example]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the columns of cluster, language and `meta` by row, and what of the task has no column."""
    keys = list(dict.fromkeys(key for example in examples for key in example.meta))
    plain = [key for key in keys if all(isinstance(e.meta.get(key), Scalar | None) for e in examples)]
    names = {key: key if key not in COLUMNS else f"meta_{key}" for key in plain if key != task.cluster}
    shared = [{name: example.meta.get(key) for key, name in names.items()} for example in examples]
    for columns, example in zip(shared, examples, strict=True):
        columns |= {"cluster": example.cluster} if task.cluster else {}
        columns |= {"language": example.language} if len(task.languages) > 1 else {}
    left_out = [f"the split {split}" for split in task.data if split != SPLIT]
    left_out += [f"the column {key} of meta" for key in keys if key not in plain]
    left_out += ["option_meta"] if any(getattr(example, "option_meta", ()) for example in examples) else []
    left_out += ["the prompt of the task"] if task.template else []
    return shared, left_out


# ---- rows ------------------------------------------------------------------------------------------------------------

Layout = Callable[[TaskSpec, Any], Mapping[str, Any] | None]


def _choice_row(_task: TaskSpec, example: Any) -> Mapping[str, Any] | None:
    options = list(example.options)
    if example.gold is None:
        return None
    return {"input": example.query, "choices": options, "target": _letter(example.gold, example)}


def _label_row(task: TaskSpec, example: Any) -> Mapping[str, Any] | None:
    """Return a row that offers the labels as options."""
    if example.hidden:
        return None
    kind = task.task_type
    gold = getattr(example, kind.gold_fields[0])
    texts = [getattr(example, name) for name in ("text", "left", "right") if hasattr(example, name)]
    parts = texts if len(texts) == 1 else [f"Text {number}: {text}" for number, text in enumerate(texts, 1)]
    target = _letter(list(task.labels).index(gold), example)
    return {"input": "\n\n".join([kind.summary, *parts]), "choices": list(task.labels), "target": target}


def _written_row(task: TaskSpec, example: Any) -> Mapping[str, Any]:
    inputs = example.inputs.items()
    texts = [(name, text if isinstance(text, str) else ", ".join(text)) for name, text in inputs]
    parts = [texts[0][1]] if len(texts) == 1 else [f"{name}: {text}" for name, text in texts]
    question = [task.description] if task.description else []
    references = list(example.references)
    return {"input": "\n\n".join([*question, *parts]), "target": references[0], "references": references}


def _letter(index: int, example: Example) -> str:
    if index >= len(ascii_uppercase):
        raise OptionError(
            f"{example.id}: eval.yaml names options by letters, of which there are 26; leave the task out"
        )
    return ascii_uppercase[index]


WITH_CHOICES = {"choices": "choices"}
LAYOUTS: Mapping[str, tuple[Layout, Mapping[str, Any], Mapping[str, str]]] = {
    "choice": (_choice_row, CHOOSE, WITH_CHOICES),
    "classification": (_label_row, CHOOSE, WITH_CHOICES),
    "pairs": (_label_row, CHOOSE, WITH_CHOICES),
    "generation": (_written_row, WRITE, {}),
}


# ---- the card --------------------------------------------------------------------------------------------------------


def _summary(tasks: Sequence[TaskSpec]) -> str:
    return one_line("; ".join(task.description for task in tasks if task.description), 300)


def _card(tasks: Sequence[TaskSpec], title: str, licence: str, sources: Mapping[str, Any]) -> str:
    """Return the dataset card: configurations, licence and sources."""
    terms = [licence] if licence else [benchmark.licence for benchmark in sources.values()]
    names = ["-".join(text.lower().split()) for text in terms]
    ids = list(dict.fromkeys(name if name in LICENCES else licence or "other" for name in names))
    data: dict[str, Any] = {"license": ids[0]} if len(ids) == 1 else {"license": ids} if ids else {}
    data["language"] = list(dict.fromkeys(language for task in tasks for language in task.languages))
    data["configs"] = [
        {"config_name": task.name, "data_files": [{"split": SPLIT, "path": f"data/{task.name}.jsonl"}]}
        for task in tasks
    ]
    lines = [f"# {one_line(title, 100)}", "", *_task_lines(tasks), ""]
    for name, benchmark in sources.items():
        lines += [f"Rows of {name}: {benchmark.homepage}. Licence: {one_line(benchmark.licence)}.", ""]
        lines += [one_line(str(benchmark.citation)), ""]
    lines += ["The rows are laid out by figeval for readers of `eval.yaml`; labels are offered as options.", ""]
    return f"---\n{yaml_text(data, width=1000)}---\n" + "\n".join(lines)


def _task_lines(tasks: Sequence[TaskSpec]) -> Iterator[str]:
    for task in tasks:
        about = one_line(task.description, 300)
        yield f"* `{task.name}`{': ' if about else ''}{about}"
