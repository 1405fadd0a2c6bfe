"""Examples of a run that the model has seen: marked on their rows, counted, and left out of a score of their own.

A score that rests on seen examples is no estimate for new ones, so it has no interval. Beside it stands the score on
the rest, computed by the same code from the other rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from figeval.evaluation.plan import Plan
from figeval.records.schema import OverlapRecord, Role, ScoreRecord, TaskRecord
from figeval.training.seen import Lineage
from figeval.types import JSON

ROLES: tuple[Role, ...] = ("trained", "chosen")  # the one to be told first is first
Scores: TypeAlias = Callable[[Iterable[JSON], Mapping[str, Any]], list[ScoreRecord]]


def roles_of(plan: Plan, lineage: Lineage) -> dict[str, Role]:
    """How the model has seen the examples of a task, by their ids; those that it has not seen are not there.

    A probe takes something from an example, which leaves its answer as well known as it was: it counts as seen if the
    model has seen the example of the task, or what the probe made of it.
    """
    found: dict[str, Role] = {}
    for example in chain(plan.examples(), plan.originals()):
        role = strongest((lineage.role(example), found.get(example.id)))
        if role is not None:
            found[example.id] = role
    return found


def marked(row: JSON, role: Role | None) -> JSON:
    """The row of an example that was seen so."""
    found = {key: value for key, value in row.items() if key != "seen"}
    return found if role is None else {**found, "seen": role}


@dataclass(frozen=True, slots=True)
class Rest:
    """The examples of a task that the model has not seen. A minimal pair of which it has seen a member is no pair."""

    seen: Collection[str]
    groups: Collection[str]

    def of(self, rows: Iterable[JSON]) -> Iterator[JSON]:
        """Those of the rows that belong to it."""
        for row in rows:
            if row["id"] not in self.seen:
                yield {**row, "group": None} if row["group"] in self.groups else row


def rest_of(rows: Iterable[JSON]) -> Rest:
    """What remains of a task, by the marks on its rows."""
    seen = [(row["id"], row["group"]) for row in rows if row.get("seen")]
    return Rest(frozenset(name for name, _ in seen), frozenset(group for _, group in seen if group is not None))


def overlap(
    task: TaskRecord, rows: Callable[[], Iterable[JSON]], seen: Mapping[Role, int], scores: Scores
) -> OverlapRecord | None:
    """The record of a task's overlap with what the model has seen; of none what stood there before.

    `seen` are the examples by role. Baselines on the same rest are kept.
    """
    before = task.overlap
    if not any(seen.values()):
        return before if before is None or not before.trained + before.chosen else None
    rest = rest_of(rows())
    ids = [row["id"] for row in rest.of(rows())]
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    return OverlapRecord(
        trained=seen.get("trained", 0),
        chosen=seen.get("chosen", 0),
        rest=len(ids),
        rest_sha256=digest,
        scores=scores(rest.of(rows()), task.settings) if ids else [],
        baselines=before.baselines if before is not None and before.rest_sha256 == digest else [],
    )


def strongest(roles: Iterable[Role | None]) -> Role | None:
    """Of several ways in which something was seen the one to be told: to be trained on it is more than to be chosen."""
    found = set(roles)
    return next((role for role in ROLES if role in found), None)


def withheld(score: ScoreRecord, seen: Mapping[Role, int]) -> ScoreRecord:
    """The score, without its interval if it rests on seen examples; `seen` are how many of them, by role."""
    told = [role for role in ROLES if seen.get(role)]
    if not told:
        return score
    why = f"none: {' and '.join(f'{role} on {seen[role]}' for role in told)} of {score.n} examples"
    own = {"low": None, "high": None, "stderr": None, "interval": why, "seen": told[0]}
    return score.model_copy(update=own)
