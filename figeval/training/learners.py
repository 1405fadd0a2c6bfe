"""The table of learners, by protocol and head, as plugins fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from figeval.errors import TrainError, near
from figeval.plugins import PluginManager
from figeval.registry import Registry, fill
from figeval.training.contract import Learner, Setup

ANY = "*"
Factory = Callable[[Setup], Learner]


@dataclass(slots=True)
class Learners:
    """Factories by protocol and head, the default head of a protocol first."""

    registry: Registry[Factory] = field(default_factory=lambda: Registry("head", "figeval ls heads"))

    def add(self, protocol: str, head: str, factory: Factory | str, summary: str = "", *, owner: str) -> None:
        """Register a head of a protocol."""
        self.registry.add(f"{protocol}:{head}", factory, owner, summary)

    def heads(self, protocol: str) -> list[str]:
        """The heads for a protocol, its default first, those for any protocol last."""
        known = [entry.name.partition(":") for entry in self.registry]
        return [head for wanted in (protocol, ANY) for of, _, head in known if of == wanted]

    def choose(self, protocol: str, head: str | None) -> tuple[str, Factory]:
        """The head of this name, or the default of the protocol, and its factory.

        Raises:
            TrainError: the protocol has no head of its own, or none of this name.
        """
        heads = self.heads(protocol)
        own = [one for one in heads if f"{protocol}:{one}" in self.registry]
        wanted = head or next(iter(own), None)
        if wanted is None:
            raise TrainError(f"nothing is trained for {protocol} tasks by default; there are --head {', '.join(heads)}")
        if wanted not in heads:
            raise TrainError(
                f"--head {wanted}: no such head for {protocol}{near(wanted, heads)}; there are {', '.join(heads)}"
            )
        return wanted, self.registry.get(f"{protocol if wanted in own else ANY}:{wanted}")


def load_learners(manager: PluginManager) -> Learners:
    """All learners of all plugins."""
    learners = Learners()
    learners.registry.prefer(fill(manager, "register_learners", learners.add))
    return learners
