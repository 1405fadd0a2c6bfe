"""Rows and the readers that yield them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DataContext:
    """What a reader may use: the folder of the task that asks, and the upstream files of a benchmark.

    `folder` is where the task's YAML lies (resources shipped with it are read from there);
    `fetch(benchmark, path)` returns the local path of an upstream file listed in the benchmark's `sources.yaml`,
    from the cache, a mirror or upstream, with its sha256 checked. What a reader puts into `notes` (which tagger found
    the keywords, in which version) goes into the settings of the task's record.
    """

    folder: Traversable
    fetch: Callable[[str, str], Path]
    notes: dict[str, Any] = field(default_factory=dict)


Opener: TypeAlias = Callable[[str, DataContext], Iterator[Row]]
