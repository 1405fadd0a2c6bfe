"""Prices of models behind an API: those that figeval ships with, and a user's own file, which wins.

The shipped file, `prices.json` beside this module, has list prices in US dollars with the day on which they were
checked. They hold at the companies' own addresses only. `prices.json` in `FIGEVAL_HOME` has the same form and may name
models of any server, in any currency.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from figeval.errors import ModelError
from figeval.io.files import home
from figeval.io.json_files import read_model

FILE = "prices.json"
CURE = 'write it like {"checked": "2026-07-05", "models": {"gpt-4o-mini": {"input": 0.15, "output": 0.6}}}'
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)")


class Price(BaseModel):
    """Price per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


class PriceFile(BaseModel):
    """Content of a `prices.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checked: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")  # a day
    models: dict[str, Price]


@dataclass(frozen=True, slots=True)
class KnownPrice:
    """Price of a model, and where it is from, in a few words."""

    price: Price
    source: str


def own_file() -> Path:
    """Return the path of the user's own file, which need not exist."""
    return home() / FILE


def price_of(model: str, *, official: bool) -> KnownPrice | None:
    """Return the price of a model, or None if no file has it.

    A name with a date behind it ("gpt-4o-mini-2024-07-18") has the price of the name without, unless it is listed.

    Args:
        model: name of the model.
        official: whether it is asked at its company's own address.

    Raises:
        ModelError: the user's file is damaged.
    """
    own = own_file()
    if own.exists() and (found := _listed(model, own)):
        return KnownPrice(found[0], f"{own.name} in FIGEVAL_HOME, checked {found[1]}")
    if official and (found := _listed(model, files(__package__) / FILE)):
        return KnownPrice(found[0], f"shipped with figeval, checked {found[1]}")
    return None


def _listed(model: str, file: Traversable) -> tuple[Price, str] | None:
    content = read_model(file, PriceFile, ModelError, cure=CURE)
    undated = next((name for name in content.models if DATED.fullmatch(model.removeprefix(name))), "")
    price = content.models.get(model) or content.models.get(undated)
    return None if price is None else (price, content.checked)
