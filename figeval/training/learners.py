"""The table of learners, by task type and head, as plugins fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from figeval.errors import TrainError, near
from figeval.plugins import Host
from figeval.registry import Registry, fill, plain
from figeval.training.contract import Learner, Setup

ANY = "*"
Factory = Callable[[Setup], Learner]


@dataclass(slots=True)
class Learners:
    """Factories by task type and head, in order of registration."""

    registry: Registry[Factory] = field(default_factory=lambda: Registry("head", "figeval ls heads"))
    summaries: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, task_type: str, head: str, factory: Factory | str, summary: str = "", *, owner: str) -> None:
        """Register a head of a task type."""
        self.registry.add(f"{task_type}:{head}", factory, owner)
        self.summaries[task_type, head] = summary

    def heads(self, task_type: str) -> list[str]:
        """The heads for a task type, its default first, those for any task type last."""
        return [head for wanted in (task_type, ANY) for known, head in self.summaries if known == wanted]

    def choose(self, task_type: str, head: str | None) -> tuple[str, Factory]:
        """The head of this name, or the default of the task type, and its factory.

        Raises:
            TrainError: the task type has no head of its own, or none of this name.
        """
        heads = self.heads(task_type)
        own = [one for one in heads if (task_type, one) in self.summaries]
        wanted = head or next(iter(own), None)
        if wanted is None:
            raise TrainError(
                f"nothing is trained for {task_type} tasks by default; there are --head {', '.join(heads)}"
            )
        if wanted not in heads:
            raise TrainError(
                f"--head {wanted}: no such head for {task_type}{near(wanted, heads)}; there are {', '.join(heads)}"
            )
        return wanted, self.registry.get(f"{task_type if wanted in own else ANY}:{wanted}")


def load_learners(host: Host) -> Learners:
    """All learners of all plugins."""
    learners = Learners()
    fill(host, "register_learners", learners.add, plain)
    return learners
