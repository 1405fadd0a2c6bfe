"""The raw files of benchmarks: where they come from, and how they are read as rows."""

from figeval.data.readers import DataContext, Row

__all__ = ["DataContext", "Row"]
