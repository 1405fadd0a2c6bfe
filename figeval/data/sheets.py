"""Read the cells of sheets that people have filled in: CSV in the forms of `tables`, or an Excel workbook."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from figeval.data.tables import find_format
from figeval.data.text_files import HEAD_BYTES, binary_format, max_row_bytes, whole_text
from figeval.errors import DataError
from figeval.io.files import is_file


def read_cells(file: Path, cure: str) -> list[list[str]]:
    """Return the cells of a sheet, row by row, the header first; rows may differ in width, and some may be blank.

    Raises:
        DataError: the file cannot be read (`cure` ends the message), or is neither a CSV file nor a workbook.
    """
    if file.exists() and not file.is_file():  # reading a pipe may never end
        raise DataError(f"{file} is not a regular file; {cure}")
    if is_file(file) and binary_format(file) == "xlsx":
        from figeval.data.workbooks import sheet_cells

        return sheet_cells(file)
    csv.field_size_limit(max(max_row_bytes(), csv.field_size_limit()))
    text = whole_text(file, cure=cure)
    table_format = find_format(text[:HEAD_BYTES].encode(), ",", str(file))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), table_format.dialect, strict=True))
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV file ({error}); save the sheet as .xlsx or `CSV UTF-8`") from error
    return rows[int(table_format.is_named) :]
