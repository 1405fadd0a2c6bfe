"""Differences between the releases of lm-eval: 0.4.10, later ones of 0.4, and 0.5.

Everything else in figeval is the same for all of them. Each function looks for the names that a release has, and never
compares versions. lm-eval is imported when a function is called.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import Task
    from lm_eval.config.task import TaskConfig


BYPASSED = 999  # lm-eval's score for "not computed"


# ---- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Origin of a request.

    Attributes:
        task: name of the task in lm-eval.
        document: index of the example.
        repeats: how often lm-eval sends the request.
        target: the right answer, which 0.5 copies into its samples.
    """

    task: str
    document: int
    repeats: int = 1
    target: str = ""


def instances(method: str, arguments: Iterable[tuple[object, ...]]) -> list[Instance]:
    """Return requests of no task in the form of an LM's methods."""
    return [
        instance(method, call_arguments, RequestOrigin("figeval", index))
        for index, call_arguments in enumerate(arguments)
    ]


def instance(
    method: str,
    arguments: tuple[object, ...],
    origin: RequestOrigin,
    doc: Mapping[str, object] | None = None,
    index: int = 0,
) -> Instance:
    """Return a request in the form of an LM's methods; `index` is its position among the requests of its example."""
    from lm_eval.api.instance import Instance

    common = (method, doc or {}, arguments)
    if "target" in {field.name for field in fields(Instance)}:
        source = {"task_name": origin.task, "doc_id": origin.document, "repeats": origin.repeats}
        return Instance(*common, idx=index, target=origin.target, **source)
    return Instance(*common, idx=index, metadata=(origin.task, origin.document, origin.repeats))


def origin_of(task: Task, options: Mapping[str, Any], target: str) -> RequestOrigin:
    """Return the origin of the requests that lm-eval asks a task for.

    Args:
        task: the task.
        options: keyword arguments of `construct_requests`: the whole origin as `metadata`, or since 0.5 only `doc_id`.
        target: the right answer.
    """
    match options.get("metadata"):
        case (name, document, repeats):
            return RequestOrigin(name, document, repeats, target)
    repeats = task.config.repeats if task.OUTPUT_TYPE == "generate_until" else 1
    return RequestOrigin(task.task_name, options["doc_id"], repeats, target)


# ---- tasks -----------------------------------------------------------------------------------------------------------


def first_answers() -> list[dict[str, Any]]:
    """Return the filters of a task that scores the first of repeated answers, as every task of 0.4 does by itself."""
    return [{"name": "none", "filter": [{"function": "take_first"}]}]


def construct(task: Task, config: TaskConfig) -> None:
    """Call the constructor of lm-eval's `Task` for a task that computes its metrics itself.

    Since 0.5 it requires the configuration, which older ones take for the name, and it adds metrics of lm-eval, whose
    means would replace the task's own aggregations of the same names.
    """
    from lm_eval.api.task import Task

    is_required = signature(Task.__init__).parameters["config"].default is Parameter.empty
    Task.__init__(task, **({"config": config} if is_required else {}))
    task._config = config
    for scorer in getattr(task, "scorers", ()):
        scorer.metrics = []


def leave_out_metrics(task: Task, replacement: str) -> None:
    """Make a task compute none of its metrics after lm-eval has replaced them by its `bypass`.

    Releases before 0.5 do so themselves; 0.5 would add that one to the task's own.
    """
    if hasattr(task, "scorers"):
        task.process_results = lambda *_: {replacement: BYPASSED}


def errors_of_means(task: Task) -> dict[str, float]:
    """Return lm-eval's standard errors of those metrics of an evaluated task that are means, by name (0.5 only).

    0.5 would draw 100,000 bootstrap samples for every other metric, in processes to which figeval's cannot be sent.
    """
    from lm_eval.api.metrics import mean, mean_stderr

    means = [name for name, combine in task.aggregation().items() if combine is mean]
    errors = {}
    for scorer in task.scorers:
        for name in means:
            values = [document[name] for document in scorer.reduced_docs.values() if name in document]
            if len(values) > 1:
                errors[f"{name}_stderr,{scorer.name}"] = float(mean_stderr(values))
    return errors


# ---- command line ----------------------------------------------------------------------------------------------------


@contextmanager
def without_its_tasks(arguments: Namespace) -> Iterator[None]:
    """Leave out lm-eval's own tasks when its command line runs with these arguments within this context.

    Its configuration has a setting for that since 0.5, but no flag. Older ones make a `TaskManager` with all tasks.
    """
    settings: Any = import_module("lm_eval.config.evaluate_config").EvaluatorConfig
    if "include_defaults" in {field.name for field in fields(settings)}:
        arguments.include_defaults = False
        yield
        return
    import_module("lm_eval.evaluator")  # it imports by name what is replaced here
    tasks: Any = import_module("lm_eval.tasks")
    manager = tasks.TaskManager
    tasks.TaskManager = partial(manager, include_defaults=False)
    try:
        yield
    finally:
        tasks.TaskManager = manager
