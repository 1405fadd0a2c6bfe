"""Probes: the same questions with something taken from them, to see how much of a score is owed to it.

A model that does as well without the query answers from the options alone (hypothesis-only baselines: Poliak et al.
2018; Gururangan et al. 2018), and one that does as well with somebody else's query is not reading it.
For pairs the left text (the premise) is the query, for spans the part whose counterpart is sought.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from figeval.errors import TaskError
from figeval.types import ChoiceExample, Example, PairExample, RankingExample, SpanExample

Source: TypeAlias = Callable[[], Iterator[Any]]
QUERY: dict[type, str] = {  # its field
    ChoiceExample: "query",
    RankingExample: "query",
    PairExample: "left",
    SpanExample: "given",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What an example asks about: the text, and as prompts show it."""

    text: str = ""
    prompted: str = ""


def query_of(example: Example) -> Query:
    """Return the query of an example."""
    name = QUERY[type(example)]
    return Query(getattr(example, name), getattr(example.for_prompt(), name))


PROBED = frozenset({"choice", "ranking", "pairs", "spans"})  # the protocols of these


def asked_with(example: Example, query: Query) -> Example:
    """Return the example with another query."""
    name = QUERY[type(example)]
    changes: dict[str, Any] = {name: query.text}
    if example.prompted is not None:
        shown: dict[str, Any] = {name: query.prompted}
        changes["prompted"] = replace(example.prompted, **shown)
    return replace(example, **changes)


def no_query(examples: Source, _seed: int, _task: str) -> Source:
    """The query is left out."""
    return lambda: (asked_with(example, Query()) for example in examples())


def shuffled_query(examples: Source, seed: int, task: str) -> Source:
    """Every example gets the query of another one, never of its own cluster."""
    return Exchange(examples, seed, task)


PROBES: dict[str, Callable[[Source, int, str], Source]] = {"no_query": no_query, "shuffled_query": shuffled_query}


@dataclass
class Exchange:
    """Examples with each other's queries; which depends on the seed alone, not on --limit."""

    examples: Source
    seed: int
    task: str

    def __call__(self) -> Iterator[Example]:
        """The examples in their own order."""
        return (asked_with(example, query) for example, query in zip(self.examples(), self.queries, strict=True))

    @cached_property
    def queries(self) -> list[Query]:
        """The queries, each in the place of the example that gets it.

        Raises:
            TaskError: one cluster has more than half of the examples.
        """
        found = list(self.examples())
        own = list(map(query_of, found))
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
