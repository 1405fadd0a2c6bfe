"""Options of an item: a moral, and its versions in which a synonym or an antonym replaces the same word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from figeval.types import JSON

MORAL, SYNONYM, ANTONYM = KINDS = ("moral", "synonym", "antonym")


def options_of(moral: str, item: Mapping[str, Any]) -> JSON:
    """Return `options`, `versions` (the kind of each option) and `gold` of an item (`building.items`)."""
    texts = {MORAL: moral}
    for kind in (SYNONYM, ANTONYM):
        start, end = item[kind]["place"]
        texts[kind] = f"{moral[:start]}{item[kind]['word']}{moral[end:]}"
    order = item["order"]
    return {
        "options": [texts[kind] for kind in order],
        "versions": [{"version": kind} for kind in order],
        "gold": order.index(MORAL),
    }
