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
    return relation_of(group["proverbs"] for group in read_lists()["paraphrases"]["groups"])


@lru_cache(maxsize=1)
def defensible() -> Mapping[str, frozenset[str]]:
    """Map each proverb id to the ids of the generous list: proverbs that a reader could defend in its place."""
    return relation_of(read_lists()["groups"])


def relation_of(groups: Iterable[Iterable[str]]) -> dict[str, frozenset[str]]:
    """Map each member to those that it shares a group with; the relation is not transitive across groups."""
    partners: dict[str, set[str]] = {}
    for group in groups:
        for proverb, partner in permutations(group, 2):
            partners.setdefault(proverb, set()).add(partner)
    return {proverb: frozenset(members) for proverb, members in partners.items()}


def read_lists() -> JSON:
    """Return the content of `near_duplicates.json`."""
    content: JSON = json.loads((files(__package__) / "near_duplicates.json").read_text(encoding="utf-8"))
    return content
