"""Near-duplicate proverbs, as ids, from two lists in `near_duplicates.json`, which also states the rule of each list.

`groups` is generous (either proverb could be defended); two proverbs of a group are never options of the same
multiple-choice item. `paraphrases` is strict (the same lesson) and defines near-duplicate-aware accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import permutations

from figeval.types import JSON


@lru_cache(maxsize=1)
def near_duplicates() -> Mapping[str, frozenset[str]]:
    """Map each proverb id to the ids of its listed paraphrases; a proverb without paraphrases is not a key."""
    return related(group["proverbs"] for group in listed()["paraphrases"]["groups"])


@lru_cache(maxsize=1)
def defensible() -> Mapping[str, frozenset[str]]:
    """Map each proverb id to the ids of the generous list: proverbs that a reader could defend in its place."""
    return related(listed()["groups"])


def related(groups: Iterable[Iterable[str]]) -> dict[str, frozenset[str]]:
    """Map each member to those that it shares a group with; the relation is not transitive across groups."""
    found: dict[str, set[str]] = {}
    for group in groups:
        for one, other in permutations(group, 2):
            found.setdefault(one, set()).add(other)
    return {one: frozenset(others) for one, others in found.items()}


def listed() -> JSON:
    """Return the content of `near_duplicates.json`."""
    content: JSON = json.loads((files(__package__) / "near_duplicates.json").read_text(encoding="utf-8"))
    return content
