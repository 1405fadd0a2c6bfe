"""Which proverbs say the same, as ids: `near_duplicates.json` beside this file has two lists and the rule of each.

`groups` is generous (either proverb could be defended) and keeps options of one multiple-choice item apart;
`paraphrases` is strict (the same lesson) and says what counts as right in near-duplicate-aware accuracy.
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
    """Proverb id → ids of its listed paraphrases, itself not among them. A proverb without any is no key."""
    return related(group["proverbs"] for group in listed()["paraphrases"]["groups"])


@lru_cache(maxsize=1)
def defensible() -> Mapping[str, frozenset[str]]:
    """The same for the generous list: proverbs that a reader could defend in the place of the key."""
    return related(listed()["groups"])


def related(groups: Iterable[Iterable[str]]) -> dict[str, frozenset[str]]:
    """Each member → those it shares a group with. Not transitive across groups."""
    found: dict[str, set[str]] = {}
    for group in groups:
        for one, other in permutations(group, 2):
            found.setdefault(one, set()).add(other)
    return {one: frozenset(others) for one, others in found.items()}


def listed() -> JSON:
    """The content of the file."""
    content: JSON = json.loads((files(__package__) / "near_duplicates.json").read_text(encoding="utf-8"))
    return content
