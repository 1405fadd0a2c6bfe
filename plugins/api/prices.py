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


def user_file() -> Path:
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
    path = user_file()
    if path.exists() and (listing := _find_listing(model, path)):
        return KnownPrice(listing[0], f"{path.name} in FIGEVAL_HOME, checked {listing[1]}")
    if official and (listing := _find_listing(model, files(__package__) / FILE)):
        return KnownPrice(listing[0], f"shipped with figeval, checked {listing[1]}")
    return None


def _find_listing(model: str, file: Traversable) -> tuple[Price, str] | None:
    content = read_model(file, PriceFile, ModelError, cure=CURE)
    plain_name = next((name for name in content.models if DATED.fullmatch(model.removeprefix(name))), "")
    price = content.models.get(model) or content.models.get(plain_name)
    return None if price is None else (price, content.checked)
