"""Options of an item: a moral and two versions of it, one with the same and one with the opposite sense."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from figeval.types import JSON

MORAL, SYNONYM, ANTONYM = KINDS = ("moral", "synonym", "antonym")


def options_of(moral: str, item: Mapping[str, Any]) -> JSON:
    """Return `options`, `versions` (the kind of each option) and `gold` of an item (`building.items`)."""
    texts = {MORAL: moral}
    for kind in (SYNONYM, ANTONYM):
        start, end = item[kind]["place"]
        texts[kind] = f"{moral[:start]}{item[kind]['word']}{moral[end:]}"
    return ordered_options(texts, item["order"])


def ordered_options(texts: Mapping[str, str], order: Sequence[str]) -> JSON:
    """Return `options`, `versions` and `gold` of texts by their kind."""
    return {
        "options": [texts[kind] for kind in order],
        "versions": [{"version": kind} for kind in order],
        "gold": order.index(MORAL),
    }


def draw_orders(count: int, seed: str) -> list[tuple[str, ...]]:
    """Return an order of the kinds for each item; all orders are equally frequent."""
    all_orders = list(permutations(KINDS))
    orders = [all_orders[index % len(all_orders)] for index in range(count)]
    random.Random(seed).shuffle(orders)
    return orders
