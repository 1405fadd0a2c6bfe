"""The registry of learners, by task type and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from figeval import JSON, Learner, PluginManager, Registry, Setup, TrainError
from figeval.io.text import near

if TYPE_CHECKING:
    from figeval import Harness

ANY = "*"
Factory = Callable[[Setup], Learner]


@dataclass(slots=True)
class Learners:
    """Factories by task type and head, the default head of a task type first."""

    registry: Registry[Factory] = field(default_factory=lambda: Registry("head", "figeval ls heads"))

    def add(self, task_type: str, head: str, factory: Factory | str, summary: str = "", *, owner: str) -> None:
        self.registry.add(f"{task_type}:{head}", factory, owner, summary)

    def heads(self, task_type: str) -> list[str]:
        """Return the heads for a task type: its own, default first, then those for any task type."""
        names = [registration.name.partition(":") for registration in self.registry]
        return [head for key in (task_type, ANY) for of, _, head in names if of == key]

    def reads_plain_texts(self, task_type: str, head: str) -> bool:
        """Return whether a head is only registered for any task type, so that it learns from texts, not questions."""
        return f"{ANY}:{head}" in self.registry and f"{task_type}:{head}" not in self.registry

    def choose(self, task_type: str, head: str | None) -> tuple[str, Factory]:
        """Return the name and factory of a head, or of the task type's default head if none is given.

        Raises:
            TrainError: the task type has no default head, or no head of this name.
        """
        heads = self.heads(task_type)
        type_heads = [option for option in heads if f"{task_type}:{option}" in self.registry]
        name = head or next(iter(type_heads), None)
        if name is None:
            raise TrainError(f"{task_type} tasks have no default head; choose one with --head: {', '.join(heads)}")
        if name not in heads:
            raise TrainError(
                f"--head {name}: {task_type} tasks have no such head{near(name, heads)}; they have {', '.join(heads)}"
            )
        return name, self.registry.get(f"{task_type if name in type_heads else ANY}:{name}")


def list_heads(harness: Harness) -> Iterator[JSON]:
    """Yield one row per head for `figeval ls heads`, the default of a task type first."""
    for registration in load_learners(harness.manager).registry:
        task_type, _, head = registration.name.partition(":")
        yield {"name": head, "type": task_type, "summary": registration.summary, "owner": registration.owner}


def load_learners(manager: PluginManager) -> Learners:
    learners = Learners()
    learners.registry.fill(manager, "register_learners", learners.add)
    return learners
