"""Find the raw files of benchmarks, and read them as rows."""

from figeval.data.readers import DataContext, Row

__all__ = ["DataContext", "Row"]
