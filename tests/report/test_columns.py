"""Columns are declared once: what people, DataFrames and CSV files get of the same rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from figeval import Column, Result, Table

COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("model", head="model"),
    Column("acc", "float64", head="accuracy", text=lambda value: "–" if value is None else f"{value:.2f}"),
    Column("low", "float64"),
    Column(value=lambda row: f"{row['n']} of 9", head="answered", align="right", is_spare=True),
    Column("n", "Int64"),
    Column("gold", "object", text=str),
)
ROWS = [{"model": "=a", "acc": 0.5, "low": 0.25, "n": 8, "gold": [1, 2]}, {"model": "b", "acc": None, "n": 9}]
TABLE = Table(COLUMNS, ROWS, "Models")


class Models(Result):
    """Two models."""

    @property
    def tables(self) -> list[Table[Any]]:
        """Two tables, the second without columns for people."""
        return [TABLE, Table([Column("n", "Int64")], ROWS)]

    def notes(self) -> Iterator[str]:
        """A note."""
        yield "one of them has no answer"


def test_people_see_the_columns_with_a_heading() -> None:
    assert str(Models()).splitlines() == [
        "Models",
        "model  accuracy  answered",
        "=a         0.50    8 of 9",
        "b             –    9 of 9",
        "  one of them has no answer",
    ]


def test_a_narrow_terminal_leaves_out_what_is_spare() -> None:
    out = io.StringIO()
    TABLE.grid.print(Console(file=out, force_terminal=True, width=16, color_system=None))
    lines = [line.split() for line in out.getvalue().splitlines()[1:]]
    assert lines == [["model", "accuracy"], ["=a", "0.50"], ["b", "–"]]


def test_programs_get_the_columns_with_a_name() -> None:
    pytest.importorskip("pandas")
    frame = Models().to_frame()
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        "model": "string",
        "acc": "float64",
        "low": "float64",
        "n": "Int64",
        "gold": "object",
    }
    assert frame["low"].isna().tolist() == [False, True]
    assert dict(TABLE.to_frame().dtypes) == dict(Table(COLUMNS, []).to_frame().dtypes)


def test_in_a_csv_file_nothing_is_a_formula_and_nothing_is_none() -> None:
    assert TABLE.to_csv().splitlines() == ["model,acc,low,n,gold", '\'=a,0.5,0.25,8,"[1, 2]"', "b,,,9,"]


def test_a_result_without_tables_for_people_is_a_text() -> None:
    class Advice(Result):
        """Lines."""

        def notes(self) -> Iterator[str]:
            """Two lines, of which one could move the cursor."""
            yield from ("first", "then\x1b[2J")

    out = io.StringIO()
    Advice().print(Console(file=out))
    assert out.getvalue() == f"{Advice()}\n"
    assert "\x1b" not in str(Advice())
    assert str(Advice()).startswith("first\nthen")
