"""Routes: generators that yield requests, receive their outputs and return a prediction.

    logprobs = yield [Continuation(context, option) for option in example.options]

A route may yield more than once (a second round after the first outputs), and never sees batches, windows or
devices. Which route a model takes follows from its capabilities: no ladder over model or task types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from figeval.errors import CapabilityError, DuplicateName, near
from figeval.plugins import PluginManager
from figeval.registry import fill, loaded, preferred, target_name
from figeval.task_types.briefing import Briefing
from figeval.task_types.shown import OPENING
from figeval.types import Example, Prediction, Request

__all__ = ["Briefing", "Dialogue", "Route", "choose", "covered", "decide", "load_routes"]

Dialogue: TypeAlias = Generator[Sequence[Request], Sequence[Any], Prediction]
READS = {"loglikelihood": "context", "fill": "cloze", "generate": "context"}  # blocks of a route that names none


@dataclass(frozen=True, slots=True)
class Route:
    """A way from an example to a prediction, the capabilities it needs, and the template blocks it renders.

    It may put routes of other protocols together (`of`); which ones (`parts`) depends on the model, see `covered`.
    """

    name: str
    protocol: str
    needs: frozenset[str]
    target: Callable[[Any, Briefing], Dialogue] | str
    owner: str
    blocks: frozenset[str] = frozenset()
    of: tuple[str, ...] = ()
    labels: int | None = None  # how many it can tell apart, None: any number
    parts: tuple[Route, ...] = ()

    @property
    def wants(self) -> tuple[str, ...]:
        """What it needs, in words: capabilities, and routes of other protocols, by their names once they are known."""
        if self.parts:
            return tuple(part.name for part in self.parts)
        return (*sorted(self.needs), *(f"a {protocol} route" for protocol in self.of))

    @property
    def prompted(self) -> bool:
        """Whether the model reads a conversation, in which solved examples and a system message can stand."""
        return bool(self.blocks & OPENING)

    def tells(self, labels: Sequence[str]) -> bool:
        """Whether it can tell these labels apart."""
        return self.labels is None or len(labels) <= self.labels

    def start(self, example: Example, briefing: Briefing) -> Dialogue:
        """Begin the dialogue about one example, as prompts show it on a route that renders one. A route that puts
        others together leaves that to them.

        Raises:
            CapabilityError: the parts of the route are not known.
        """
        if len(self.parts) < len(self.of):
            raise CapabilityError(f"{self.name} puts a {' and a '.join(self.of)} route together: name a --model")
        if self.blocks and not self.of:
            example = example.for_prompt()
        return loaded(self.target)(example, briefing, *self.parts)


def load_routes(manager: PluginManager) -> list[Route]:
    """Every route of every plugin, in order of preference."""
    routes: dict[tuple[str, str], Route] = {}

    def add(  # noqa: PLR0913 - what the hook offers
        protocol: str,
        needs: Iterable[str],
        start: Any,
        blocks: Iterable[str],
        of: Sequence[str],
        labels: int | None,
        *,
        owner: str,
    ) -> None:
        name, offered = target_name(start), frozenset(needs)
        read = frozenset(blocks) or frozenset(READS[capability] for capability in offered & set(READS))
        route = Route(name, protocol, offered, start, owner, read, tuple(of), labels)
        taken = routes.setdefault((protocol, name), route)
        if taken.target is not start:
            raise DuplicateName(f"route {name!r} for {protocol} of {owner} is already registered by {taken.owner}")

    owners = fill(manager, "register_routes", add)
    return preferred(routes.values(), owners)


def choose(protocol: str, offered: frozenset[str], routes: Sequence[Route], wanted: str | None = None) -> Route:
    """The first route of the protocol that the capabilities cover, or the `wanted` one.

    Raises:
        CapabilityError: the model cannot answer such tasks; the message lists what would be needed.
    """
    mine = [route for route in routes if route.protocol == protocol]
    names = [route.name for route in mine]
    if wanted is not None and wanted not in names:
        raise CapabilityError(f"{protocol} has no route {wanted!r}{near(wanted, names)}; it has {', '.join(names)}")
    for route in mine:
        found = covered(route, offered, routes) if wanted in (None, route.name) else None
        if found is not None:
            return found
    ways = "; ".join(f"{r.name} needs {' and '.join(r.wants)}" for r in mine if wanted in (None, r.name))
    has = ", ".join(sorted(offered)) or "nothing"
    raise CapabilityError(f"this model offers {has}, which is not enough for a {protocol} task: {ways}")


def covered(route: Route, offered: frozenset[str], routes: Sequence[Route]) -> Route | None:
    """The route as a model with these capabilities goes it; None where they are not enough.

    One that puts routes together is given the first one of each protocol that they cover, with its needs and blocks.
    """
    if not route.needs <= offered:
        return None
    parts = []
    for protocol in route.of:
        mine = (covered(one, offered, routes) for one in routes if one.protocol == protocol)
        part = next((one for one in mine if one is not None), None)
        if part is None:
            return None
        parts.append(part)
    needs = route.needs.union(*(part.needs for part in parts))
    blocks = route.blocks.union(*(part.blocks for part in parts))
    return replace(route, needs=needs, blocks=blocks, parts=tuple(parts)) if parts else route


def decide(example_id: str, scores: Iterable[float], among: int | None = None) -> Prediction:
    """The prediction that scores amount to, in float64; `among` limits the choice to the first so many.

    NaN anywhere gives status `nan` and no value: a broken model must not look like one that always picks the first
    option. Of several best scores the first is the value, and `tied` counts them; metrics score by expectation.
    """
    values = tuple(float(score) for score in scores)
    if any(math.isnan(value) for value in values):
        return Prediction(example_id=example_id, value=None, scores=values, status="nan")
    domain = values[:among]
    best = max(domain)
    return Prediction(example_id=example_id, value=domain.index(best), scores=values, tied=domain.count(best))
