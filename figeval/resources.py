"""Where files lie: those that travel inside the package (found through `importlib.resources`, never beside
`__file__`), and the folder in which figeval keeps what it fetched or paid for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from figeval.errors import FigevalError, TaskError
from figeval.textfile import is_file, read_text

TEMPLATES = "figeval.builtin.templates"
EXTERNAL = "FIGEVAL_ALLOW_EXTERNAL_FILES"  # an environment variable, so that worker processes inherit it


def expand_user(path: str | Path) -> Path:
    """The path with `~` and `~user` replaced by home folders; those of unknown users stay as they are, as in a shell.

    `Path.expanduser` raises an error for them instead.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def inside(folder: Traversable, path: str, failure: type[FigevalError]) -> Traversable:
    """The file at a path that something of outside origin names, relative to the folder that it came with.

    Raises:
        FigevalError: as `failure`; the path leads out of the folder, also by a symbolic link, and neither
            `--allow_external_files` nor its variable `FIGEVAL_ALLOW_EXTERNAL_FILES` is set.
    """
    file = folder.joinpath(path)
    if os.environ.get(EXTERNAL) or ("\0" not in path and _is_inside(folder, path)):
        return file
    raise failure(
        f"{path!r:.200} leads out of {folder}; copy the file there, or allow such paths with --allow_external_files"
    )


def _is_inside(folder: Traversable, path: str) -> bool:
    if isinstance(folder, Path):  # os.path.realpath, because Path.resolve raises an error for circular links
        return Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))
    return not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts


def home() -> Path:
    """The folder that holds everything figeval keeps between runs: `FIGEVAL_HOME`, else the user's cache folder."""
    given = os.environ.get("FIGEVAL_HOME")
    if given:
        return expand_user(given)
    from platformdirs import user_cache_path

    return user_cache_path("figeval")


def template_folders(folder: Traversable | None) -> Iterator[Traversable]:
    """Where a task's templates may lie: in or beside its own folder, then among the built-in ones."""
    if folder is not None:
        yield folder / "templates"
        parent = getattr(folder, "parent", None)  # a Traversable inside a zip has one too
        if parent is not None:
            yield parent / "templates"
        yield folder
    yield files(TEMPLATES)


def read_template(name: str, folder: Traversable | None, max_bytes: int) -> str | None:
    """The source of a template, None if no folder holds it.

    Raises:
        TaskError: it is larger than `max_bytes`, or cannot be read as text.
    """
    if ".." in name.split("/") or name.startswith("/"):
        return None
    for place in template_folders(folder):
        file = place.joinpath(*name.split("/"))
        if is_file(file):
            return read_text(file, TaskError, max_bytes=max_bytes)
    return None
