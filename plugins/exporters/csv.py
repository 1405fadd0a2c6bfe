"""CSV with one number per row (`pandas.read_csv` needs no options)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from figeval.records.schema import RunRecord
from figeval.text import csv_cell

from ._rows import COLUMNS, rows


def export(runs: Sequence[RunRecord]) -> str:
    """All runs in one file; what is not known is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows(runs))
    return text.getvalue()
