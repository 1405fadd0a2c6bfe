"""One number per row as Apache Parquet: the rows of the CSV, with types."""

from __future__ import annotations

import io
from collections.abc import Sequence

from figeval.errors import FigevalError
from figeval.io.text import cleaned, valid
from figeval.records.schema import RunRecord
from figeval.wings.exporters.long_format import COLUMNS, rows

NUMBERS = {"value", "sd", "low", "high", "stderr", "effective_clusters"}
COUNTS = {"version", "n", "clusters"}


def export(runs: Sequence[RunRecord]) -> bytes:
    """Return a Parquet file; unknown values are null. Texts are unchanged: no reader takes them for formulas.

    Raises:
        FigevalError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise FigevalError("--to parquet needs the library pyarrow; pip install 'figeval[parquet]'") from error
    kinds = {
        **dict.fromkeys(NUMBERS, pyarrow.float64()),
        **dict.fromkeys(COUNTS, pyarrow.int64()),
        "higher_is_better": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])
    lines = [cleaned(row, valid) for row in rows(runs)]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(lines, schema=schema), stream)
    return stream.getvalue()
