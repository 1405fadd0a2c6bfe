"""Where files lie: those that travel inside the package (found through `importlib.resources`, never beside
`__file__`), and the folder in which figeval keeps what it fetched or paid for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

TEMPLATES = "figeval.builtin.templates"


def expand_user(path: str | Path) -> Path:
    """The path with `~` and `~user` replaced by home folders; those of unknown users stay as they are, as in a shell.

    `Path.expanduser` raises an error for them instead.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


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


def read_template(name: str, folder: Traversable | None) -> str | None:
    """The source of a template, None if no folder holds it."""
    if ".." in name.split("/") or name.startswith("/"):
        return None
    for place in template_folders(folder):
        file = place.joinpath(*name.split("/"))
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
