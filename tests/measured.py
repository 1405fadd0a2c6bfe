"""Compare tables in the documentation with the stored runs that they quote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.stored import short

__all__ = ["MEASURED_FOLDER", "short", "table"]

ROOT = Path(__file__).resolve().parent.parent
MEASURED_FOLDER = ROOT / "results" / "measured"


def table(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table in docs/ whose header begins with `heading`, e.g. `task | metric`."""
    inside = False
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        begins = line.startswith(f"| {heading} |")
        inside = begins or (inside and line.startswith("|"))
        if inside and not begins and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]
