"""Files → rows: where raw files come from, and how they are read."""

from figeval.data.readers import DataContext, Row

__all__ = ["DataContext", "Row"]
