"""Files → rows: where raw files come from, and how they are read."""

from figeval.data.rows import DataContext, Row

__all__ = ["DataContext", "Row"]
