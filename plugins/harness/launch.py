"""lm-eval's own command line, in this process, with our tasks and models known to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from figeval.errors import ModelError, UnknownName, near

from .._lmeval import model_registry
from .stubs import PREFIX, stubs_folder


def launch(arguments: Sequence[str]) -> None:
    """`lm-eval run ARGUMENTS`; our stubs are added to its --include_path.

    lm-eval reads its 14,000 task files only where one of its own tasks is asked for: they cost seconds.

    Raises:
        UnknownName, ModelError: a task that begins like ours and is none, a model that nobody has.
    """
    registry = model_registry()
    import_module("lm_eval.evaluator")  # has its own name for what `without_its_tasks` replaces
    import_module("lm_eval.utils").setup_logging()
    command = import_module("lm_eval._cli").HarnessCLI()
    with as_arguments(["lm-eval", "run", *arguments]):
        given = command.parse_args()
    settings = _settings(given)
    model = settings.get("model")
    if isinstance(model, str) and model not in registry and not settings.get("plugins"):  # these bring models later
        raise ModelError(f"lm-eval has no model {model!r}{near(model, registry)}; it has {', '.join(sorted(registry))}")
    folder, theirs = stubs_folder(), [str(path) for path in _listed(settings.get("include_path"))]
    have_ours = any(Path(path).parent == folder.parent for path in theirs)  # of `figeval lm-eval stubs`, perhaps more
    given.include_path = [*([] if have_ours else [str(folder)]), *theirs]
    tasks = [name for text in _listed(settings.get("tasks")) for name in str(text).replace(",", " ").split()]
    if not theirs:
        _check(tasks, folder)
    if tasks and all(name.startswith(PREFIX) for name in tasks):
        with without_its_tasks():
            command.execute(given)
    else:
        command.execute(given)


def _settings(given: Any) -> dict[str, Any]:
    """The flags, over those of a --config file."""
    stored: dict[str, Any] = {}
    if getattr(given, "config", None):
        stored = import_module("lm_eval.config.evaluate_config").EvaluatorConfig.load_yaml_config(given.config)
    return {**stored, **{key: value for key, value in vars(given).items() if value}}


def _listed(value: Any) -> list[Any]:
    if not value:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _check(tasks: Sequence[str], folder: Path) -> None:
    known = [file.stem for file in folder.glob("*.yaml")]
    for name in tasks:
        if name.startswith(PREFIX) and name not in known and not set(name) & set("*?["):
            raise UnknownName("task", name, known, see="figeval ls tasks")


@contextmanager
def as_arguments(arguments: list[str]) -> Iterator[None]:
    """lm-eval's parser reads `sys.argv` and nothing else."""
    before, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def without_its_tasks() -> Iterator[None]:
    """lm-eval's command line makes a TaskManager with no way to say `include_defaults=False`."""
    tasks: Any = import_module("lm_eval.tasks")
    manager = tasks.TaskManager
    tasks.TaskManager = partial(manager, include_defaults=False)
    try:
        yield
    finally:
        tasks.TaskManager = manager
