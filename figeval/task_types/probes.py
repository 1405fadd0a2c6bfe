"""Probes, i.e. the same questions with something removed, to measure how much of a score depends on it.

A model that scores as well without the query answers from the options alone (hypothesis-only baselines: Poliak et al.
2018; Gururangan et al. 2018), and one that scores as well with the query of another example does not read it. For
pairs, the query is the left text (the premise); for spans, it is the part whose counterpart is to be found.
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
SUBSTITUTES = {"no_query": "shuffled_query"}  # probe → the one that stands in for it as a floor where it ties
Probe: TypeAlias = Callable[[Source, int, str], Source]  # examples, seed, name of the task → examples


def of_query(field: str) -> dict[str, Probe]:
    """Return the probes of a task type with this query field, by name."""
    return {"no_query": partial(no_query, field), "shuffled_query": partial(Exchange, field)}


@dataclass(frozen=True, slots=True)
class Query:
    """Query of an example: its text, and the text that prompts show."""

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
    """Return the examples without their queries."""
    return lambda: (asked_with(field, example, Query()) for example in examples())


@dataclass
class Exchange:
    """Probe that gives every example the query of an example of another cluster.

    The choice depends only on the seed, not on --limit.
    """

    field: str
    examples: Source
    seed: int
    task: str

    def __call__(self) -> Iterator[Example]:
        """Yield the examples in their original order."""
        return (
            asked_with(self.field, example, query) for example, query in zip(self.examples(), self.queries, strict=True)
        )

    @cached_property
    def queries(self) -> list[Query]:
        """Queries in the order of the examples that receive them.

        Raises:
            TaskError: one cluster has more than half of the examples.
        """
        examples = list(self.examples())
        queries = [
            Query(getattr(example, self.field), getattr(example.for_prompt(), self.field)) for example in examples
        ]
        clusters = [
            f"row {index}" if example.cluster is None else example.cluster for index, example in enumerate(examples)
        ]
        try:
            return [queries[index] for index in derangement(clusters, self.seed)]
        except ValueError as error:
            raise TaskError(f"{self.task}: no shuffled_query, {error}; leave out --probes") from error


def derangement(clusters: list[str], seed: int) -> list[int]:
    """Return for each place another place of a different cluster; each place is returned once.

    The places are arranged in a circle, cluster by cluster in random order, which is then rotated. If the rotation is
    at least the size of the largest cluster in either direction, no place is matched with its own cluster.

    Raises:
        ValueError: one cluster has more than half of the places.
    """
    generator = random.Random(seed)
    members: dict[str, list[int]] = {}
    for index, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(index)
    largest = max(map(len, members.values()))
    if 2 * largest > len(clusters):
        raise ValueError(f"one cluster has {largest} of the {len(clusters)} examples")
    groups = list(members.values())
    generator.shuffle(groups)
    circle = [index for group in groups for index in generator.sample(group, len(group))]
    turn = generator.randint(largest, len(circle) - largest)
    successors = dict(zip(circle, circle[turn:] + circle[:turn], strict=True))
    return [successors[index] for index in range(len(clusters))]
