"""Probes: the same questions with something taken from them, to see how much of a score is owed to it.

A model that does as well without the query answers from the options alone (hypothesis-only baselines: Poliak et al.
2018; Gururangan et al. 2018), and one that does as well with somebody else's query is not reading it.
For pairs the left text (the premise) is the query, for spans the part whose counterpart is sought.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from figeval.errors import TaskError
from figeval.types import Example

Source: TypeAlias = Callable[[], Iterator[Any]]
Probe: TypeAlias = Callable[[Source, int, str], Source]  # examples, seed, name of the task → examples


def of_query(field: str) -> dict[str, Probe]:
    """Return the probes of a task type whose query is in this field, by name."""
    return {"no_query": partial(no_query, field), "shuffled_query": partial(Exchange, field)}


@dataclass(frozen=True, slots=True)
class Query:
    """What an example asks about: the text, and as prompts show it."""

    text: str = ""
    prompted: str = ""


def asked_with(field: str, example: Example, query: Query) -> Example:
    """Return the example with another query."""
    changes: dict[str, Any] = {field: query.text}
    if example.prompted is not None:
        shown: dict[str, Any] = {field: query.prompted}
        changes["prompted"] = replace(example.prompted, **shown)
    return replace(example, **changes)


def no_query(field: str, examples: Source, _seed: int, _task: str) -> Source:
    """The query is left out."""
    return lambda: (asked_with(field, example, Query()) for example in examples())


@dataclass
class Exchange:
    """Every example gets the query of another one, never of its own cluster; which, depends on the seed alone and not
    on --limit.
    """

    field: str
    examples: Source
    seed: int
    task: str

    def __call__(self) -> Iterator[Example]:
        """The examples in their own order."""
        return (
            asked_with(self.field, example, query) for example, query in zip(self.examples(), self.queries, strict=True)
        )

    @cached_property
    def queries(self) -> list[Query]:
        """The queries, each in the place of the example that gets it.

        Raises:
            TaskError: one cluster has more than half of the examples.
        """
        found = list(self.examples())
        own = [Query(getattr(one, self.field), getattr(one.for_prompt(), self.field)) for one in found]
        clusters = [f"row {place}" if one.cluster is None else one.cluster for place, one in enumerate(found)]
        try:
            return [own[place] for place in derangement(clusters, self.seed)]
        except ValueError as error:
            raise TaskError(f"{self.task}: no shuffled_query, {error}; leave out --probes") from error


def derangement(clusters: list[str], seed: int) -> list[int]:
    """For every place another one with another cluster; each is given once.

    The places stand in a circle, those of a cluster side by side and the clusters in random order. Whoever turns it by
    at least the largest cluster, and leaves as much on the other side, gives nobody one of its own.

    Raises:
        ValueError: one cluster has more than half of the places.
    """
    generator = random.Random(seed)
    members: dict[str, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    largest = max(map(len, members.values()))
    if 2 * largest > len(clusters):
        raise ValueError(f"one cluster has {largest} of the {len(clusters)} examples")
    groups = list(members.values())
    generator.shuffle(groups)
    circle = [place for group in groups for place in generator.sample(group, len(group))]
    turn = generator.randint(largest, len(circle) - largest)
    given = dict(zip(circle, circle[turn:] + circle[:turn], strict=True))
    return [given[place] for place in range(len(clusters))]
