"""The YAML files by which lm-eval finds our tasks: one per task and route, one per suite."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from figeval.errors import TaskError

if TYPE_CHECKING:
    from figeval.task_types.registry import Routes
    from figeval.task_types.routes import Route
    from figeval.types import JSON

PREFIX = "figeval_"  # of every name: lm-eval silently replaces a task or tag of the same name
LM_CAPABILITIES = frozenset({"loglikelihood", "generate"})  # capabilities of lm-eval's models
GENERATING = frozenset({"generate"})
IN_WORDS = "_in_words"  # suites for models that only generate
# Protocols with requests of two kinds or in rounds, and with scores that depend on all examples.
UNSUPPORTED = frozenset({"joint", "similarity"})


class _Class(str):
    """A class by module and name: `!function module.Class` in lm-eval's YAML."""

    __slots__ = ()


# Before 0.4.12, lm-eval looks for the module only beside the YAML file.
TASK = _Class("_figeval.FigevalTask")
MODULE_FILE = "_figeval.py"
CODE = """from figeval.builtin.plugins.lm_eval_bridge.tasks import FigevalTask

__all__ = ["FigevalTask"]
"""


class _Dumper(yaml.SafeDumper):
    """A YAML dumper for lm-eval's tag."""


_Dumper.add_representer(_Class, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def stubs_folder(include: Iterable[Path] = ()) -> Path:
    """Return a folder below FIGEVAL_HOME with stubs for all tasks of plugins and of the folders `include`.

    Its name is a digest of its content: other tasks make another folder, and the same ones are not written again.
    """
    from figeval.io.files import home

    texts = stubs(tuple(str(folder.resolve()) for folder in include))
    files = {MODULE_FILE: CODE, **{f"{name}.yaml": text for name, text in texts.items()}}
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in files.items()).encode()).hexdigest()
    folder = home() / "lm-eval" / digest[:16]
    if not folder.is_dir():
        _write(folder, files)
    return folder


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write all files or none; a process that creates the same folder concurrently writes the same files."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent))
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(folder)
    except OSError as error:
        if not folder.is_dir():
            reason = error.strerror or str(error)
            raise TaskError(f"cannot write {folder} ({reason}); set FIGEVAL_HOME to a writable folder") from error


def stubs(include: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the YAML of every stub by name."""
    texts: dict[str, str] = {}
    for stub in (*task_stubs(include), *suite_stubs(include)):
        name = str(stub["task"] if "class" in stub else stub["group"])
        if name in texts:
            raise TaskError(f"two tasks or suites would be called {name!r} in lm-eval; rename one")
        texts[name] = yaml.dump(stub, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return texts


def task_stubs(include: tuple[str, ...]) -> Iterator[JSON]:
    """Yield one stub for each route that lm-eval's models can take; the preferred route has the plain name."""
    from figeval.runs import Harness

    harness = Harness(include=tuple(map(Path, include)))
    for _, task in harness.catalogue.tasks.usable(harness.manager):
        for number, route in enumerate(reachable_routes(harness.routes, task.type)):
            origin: JSON = {"task": task.name, "route": route.name}
            yield {
                "task": f"{PREFIX}{task.name}" if number == 0 else f"{PREFIX}{task.name}_{route.name}",
                "class": TASK,
                "metadata": {
                    "version": task.version,
                    "description": task.description,
                    "figeval": origin | ({"include": list(include)} if include else {}),
                },
            }


def suite_stubs(include: tuple[str, ...]) -> Iterator[JSON]:
    """Yield a group for each suite, without a mean over its tasks, as in figeval.

    There is a second group for models that only generate, if that has other tasks. Tasks that lm-eval does not support
    are left out, as in a run.
    """
    from figeval.runs import Harness

    harness = Harness(include=tuple(map(Path, include)))
    for entry in harness.catalogue.suites:
        suite = entry.load()
        tasks = harness.catalogue.expand([suite.name])
        preferred = [f"{PREFIX}{task.name}" for task in tasks if reachable_routes(harness.routes, task.type)]
        generating = [
            f"{PREFIX}{task.name}{ending}"
            for task in tasks
            for ending in _generating_endings(harness.routes, task.type)
        ]
        if preferred:
            yield {"group": f"{PREFIX}{suite.name}", "task": preferred}
        if generating and generating != preferred:
            yield {"group": f"{PREFIX}{suite.name}{IN_WORDS}", "task": generating}


def _generating_endings(all_routes: Routes, task_type: str) -> list[str]:
    """Return the suffix of a task's name for the first route on which a model only generates; [] if there is none."""
    routes = reachable_routes(all_routes, task_type)
    return [f"_{route.name}" if route is not routes[0] else "" for route in routes if route.needs <= GENERATING][:1]


def reachable_routes(all_routes: Routes, task_type: str) -> list[Route]:
    """Return the routes of a task type that lm-eval's models can take, best first; [] if it is not supported."""
    routes = [] if task_type in UNSUPPORTED else all_routes.of(task_type)
    return [route for route in routes if route.needs and route.needs <= LM_CAPABILITIES]
