"""`scheme:path` → rows, through the readers that plugins register."""

from __future__ import annotations

from collections.abc import Iterator

from figeval.data.rows import DataContext, Opener, Row
from figeval.errors import DataError
from figeval.plugins import PluginManager
from figeval.registry import Registry


def load_readers(manager: PluginManager) -> Registry[Opener]:
    """Every reader of every plugin, by scheme."""
    return Registry.collect(manager, "register_sources", "data scheme", "figeval ls plugins")


def read(reference: str, context: DataContext, readers: Registry[Opener]) -> Iterator[Row]:
    """The rows behind `scheme:path`.

    Raises:
        UnknownName: nobody reads this scheme.
        DataError: the reference has no scheme; whatever the reader finds wrong with the file.
    """
    scheme, colon, path = reference.partition(":")
    if not colon:
        raise DataError(f"data {reference!r} has no scheme; write for example 'jsonl:{reference}'")
    return readers.get(scheme)(path, context)
