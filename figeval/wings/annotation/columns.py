"""Columns and formats that tables of judgements share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from figeval import Column, Score
from figeval.reporting.grid import Row, format_interval, format_number

INTERVAL = "95 % interval"
format_decimals: Callable[[Any], str] = partial(format_number, form=".3f")
format_difference: Callable[[Any], str] = partial(format_number, form="+.3f")
format_p_value: Callable[[Any], str] = partial(format_number, form=".2g")


class Coefficient(NamedTuple):
    """A coefficient of agreement by one criterion, of all annotators or of two `raters`."""

    criterion: str
    score: Score
    raters: tuple[str, ...] = ()


def score_columns(
    score: Callable[[Row], Score], head: str, count: str | None = None, form: str = ".3f"
) -> tuple[Column[Row], ...]:
    """Return the columns of a score, with a heading for people and one for the number of items."""
    return (
        Column("value", "float64", lambda row: score(row).value, head, partial(format_number, form=form)),
        Column(value=lambda row: format_interval(score(row).low, score(row).high), head=INTERVAL, align="right"),
        Column("low", "float64", lambda row: score(row).low),
        Column("high", "float64", lambda row: score(row).high),
        Column("n", "Int64", lambda row: score(row).n, count),
        Column("clusters", "Int64", lambda row: score(row).clusters),
        Column("interval", "string", lambda row: str(score(row).interval)),
    )


COEFFICIENTS: tuple[Column[Coefficient], ...] = (
    Column("criterion", head="criterion"),
    Column("coefficient", "string", lambda row: row.score.metric, "coefficient"),
    Column("rater_a", "string", lambda row: row.raters[0] if row.raters else None),
    Column("rater_b", "string", lambda row: row.raters[1] if row.raters else None),
    *score_columns(lambda row: row.score, "value", "items"),
)
