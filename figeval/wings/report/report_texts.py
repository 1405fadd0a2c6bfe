"""The example texts of a report, which are read from the user's own data and never from a run folder."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval.data.sources import Sources, catalogue, data_file
from figeval.errors import FigevalError
from figeval.plugins import PluginManager
from figeval.records.schema import TaskRecord
from figeval.runs.harness import Harness
from figeval.runs.variants import recorded_examples
from figeval.types import Example
from figeval.wings.report.buckets import Measured, measured

NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|excludes commercial", re.IGNORECASE)
NONE_STATED = "none stated"
COMMON = frozenset(one.name for one in dataclasses.fields(Example))
SHARED = 8  # a list with more texts is stored once, because many examples may have the same one


@dataclass(slots=True)
class TaskTexts:
    """The texts of a task's examples, or the reason why there are none.

    Attributes:
        fields: field → its value for each example id: a text, a list of texts, or a place in `lists`.
        lists: long lists of texts, each once.
        options: field with the list that an index in a prediction refers to; empty if there is none.
        measured: length and overlap of each example by id.
        spans: right spans of the parts of a joint example by id, as [start, end] in `passage`.
        passage: field with the text that a pair of positions in a prediction refers to; empty if there is none.
        notice: sentence about the licence.
        missing: reason why there are no texts.
    """

    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    lists: list[list[str]] = field(default_factory=list)
    measured: dict[str, Measured] = field(default_factory=dict)
    spans: dict[str, list[list[int]]] = field(default_factory=dict)
    options: str = ""
    passage: str = ""
    notice: str = ""
    missing: str = ""


class ExampleTexts:
    """Reader of example texts. Only files on this machine are read; nothing is downloaded.

    Args:
        manager: plugin manager.
        include: further folders with task files.
        allow_noncommercial: whether to return texts whose licence excludes commercial use.
    """

    def __init__(
        self, manager: PluginManager, include: tuple[Path, ...] = (), *, allow_noncommercial: bool = False
    ) -> None:
        self._allow = allow_noncommercial
        self._used: dict[str, None] = {}
        self._harness = Harness(manager, include, fetch=self._local)

    def of(self, task: TaskRecord, seed: int, ids: Collection[str]) -> TaskTexts:
        """Return the texts of some examples of a recorded task, if they are still the ones that the run was made on."""
        self._used.clear()
        try:
            variant, examples = recorded_examples(task, seed, self._harness)
            licences = self._licences(variant.task.owner)
            if refused := [name for name, one in licences.items() if not self._allow and is_noncommercial(one)]:
                return TaskTexts(
                    missing=f"the licence of {', '.join(refused)} excludes commercial use; --allow_noncommercial "
                    "includes them"
                )
            found = TaskTexts(notice=_condition(licences))
            kind = variant.task.task_type
            wanted, places = frozenset(ids), dict[tuple[str, ...], int]()
            for example in examples:
                if example.id in wanted:
                    if parts := getattr(example, "parts", ()):
                        found.spans[example.id] = [[part.gold.start, part.gold.end] for part in parts if part.gold]
                    found.measured[example.id] = measured(
                        variant.task.with_language(example), kind.options, kind.gold_fields[0]
                    )
                    for name, value in _texts(example, kind.gold_fields):
                        found.fields.setdefault(name, {})[example.id] = _stored(value, places)
        except FigevalError as error:
            return TaskTexts(missing=str(error))
        found.lists = _shared(found.fields, list(places))
        found.options = next((name for name in (kind.options, "candidates") if name in found.fields), "")
        found.passage = "query" if found.spans else "text" if "text" in found.fields else ""
        return found

    def _local(self, benchmark: str, path: str) -> Path:
        from figeval.data.cache import local_path

        self._used[benchmark] = None
        return local_path(data_file(benchmark, path))

    def _licences(self, owner: str) -> Mapping[str, Sources]:
        """Return the sources that were read, or else all of the plugin that owns the task (a user's own copies)."""
        known = {entry.name: entry for entry in catalogue()}
        names = [name for name in self._used if name in known]
        names = names or [name for name, entry in known.items() if entry.owner.rpartition(".")[2] == owner]
        return {name: known[name].load() for name in names}


def is_noncommercial(sources: Sources) -> bool:
    """Return whether the licence of a benchmark, or the note on it, excludes commercial use."""
    return NON_COMMERCIAL.search(f"{sources.licence} {sources.note}") is not None


def _condition(licences: Mapping[str, Sources]) -> str:
    """Return a sentence on the licences of the texts in the page."""
    told = "; ".join(f"{name}: {one.licence}" for name, one in licences.items())
    if not told:
        return ""
    unknown = any(one.licence.startswith(NONE_STATED) for one in licences.values())
    return f"Licence of the texts: {told}." + (" Without a licence, do not publish this page." if unknown else "")


def _texts(example: Example, hidden: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an example that hold texts, without the gold answer; named inputs are fields as well."""
    for one in dataclasses.fields(example):
        value = getattr(example, one.name)
        if one.name in COMMON or (one.name in hidden and one.name != "references"):
            continue
        named = value.items() if isinstance(value, Mapping) else [(one.name, value)]
        for name, text in named:
            is_list = isinstance(text, tuple) and text and all(isinstance(part, str) for part in text)
            if (isinstance(text, str) and text) or is_list:
                yield str(name), text


def _stored(value: str | tuple[str, ...], places: dict[tuple[str, ...], int]) -> Any:
    if isinstance(value, str):
        return value
    return places.setdefault(value, len(places)) if len(value) > SHARED else list(value)


def _shared(fields: Mapping[str, dict[str, Any]], lists: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Put lists that only one example has, such as its words, back into its field; return the others."""
    used = Counter(value for column in fields.values() for value in column.values() if isinstance(value, int))
    kept = {place: number for number, place in enumerate(place for place, times in used.items() if times > 1)}
    for column in fields.values():
        for key, value in column.items():
            if isinstance(value, int):
                column[key] = kept.get(value, list(lists[value]))
    return [list(lists[place]) for place in kept]
