"""Read sheets of Excel workbooks, `xlsx:FILE`, `xlsx:FILE#SHEET` and `xlsx:FILE#SHEET?header=ROW`.

A sheet is read as the CSV file that a spreadsheet saves of it: every value is a string, the first row that is not blank
names the columns, blank rows are no rows, and of merged cells the first has the value. Numbers are written as in
Python (`3`, `0.5`), dates as `2024-01-31` and `2024-01-31 12:30:00`, truth values as `TRUE` and `FALSE`, formulas as
the value that was stored with them. Columns without a name are left out. Hidden rows and columns are read as others.
Cells with an error, such as `#REF!`, are refused: in a CSV file, it would be a text or a label like any other.

Workbooks come from others. Rows are read one by one, and what a workbook unpacks to is limited.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from importlib.resources.abc import Traversable
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from figeval.data.archives import BROKEN, STREAMED, document_problem, max_unpacked_bytes
from figeval.data.readers import Find, Row
from figeval.data.tables import check_names, named_row, padded_names
from figeval.data.text_files import WORKBOOK_MEMBER, max_row_bytes, too_long
from figeval.errors import DataError
from figeval.extras import needed_for
from figeval.io.text import near, one_line, time_text, valid, whole_number

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

T = TypeVar("T")

MAX_ROWS = 1_048_576  # of a sheet, also in Excel
MAX_STRINGS_BYTES = 1 << 28  # of the table of texts, which is read whole
ADDRESS = re.compile(r"(?P<file>.+?)(?:#(?P<sheet>[^#?]+))?(?:\?(?P<options>[^#?]*))?", re.DOTALL)
FORM = "write xlsx:FILE, xlsx:FILE#SHEET or xlsx:FILE#SHEET?header=ROW"
OLD_WORKBOOK, LOCKED = b"\xd0\xcf\x11\xe0", "EncryptedPackage".encode("utf-16-le")
FORMULA = re.compile(rb"<(?:\w+:)?f[\s>/]")
LINE_END = re.compile(r"\r\n?")
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # a character that XML cannot have or would change (ECMA-376, ST_Xstring)


class SheetAddress(NamedTuple):
    """The place of a table in a workbook.

    Attributes:
        file: name of the file.
        sheet: name of the sheet; empty for the only one.
        header: number of the row that names the columns, from 1; None for the first that is not blank.
    """

    file: str
    sheet: str = ""
    header: int | None = None


def parse_address(address: str) -> SheetAddress:
    """Return the parts of `FILE#SHEET?header=ROW`. Raises `DataError` if it has another form."""
    match = ADDRESS.fullmatch(address)
    options = match["options"] if match else None
    name, _, value = (options or "").partition("=")
    header = whole_number(value)
    if match is None or (options is not None and (name != "header" or not header)):
        raise DataError(f"{address!r:.200} is no address of a sheet; {FORM}, where ROW counts from 1")
    return SheetAddress(match["file"], match["sheet"] or "", header)


def numbered_xlsx(address: str, find: Find) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of a sheet at an address, in the file that `find` finds. Raises as `numbered_sheet` does."""
    try:
        file, table = find(address), SheetAddress(address)
    except DataError:  # a name may hold # and ?, so it comes first
        file, table = _find_table(parse_address(address), find)
    return numbered_sheet(file, table.sheet, table.header)


def _find_table(table: SheetAddress, find: Find) -> tuple[Traversable, SheetAddress]:
    """Return a file and the place in it; the name of a sheet may hold #, too. Raises as `find` does."""
    try:
        return find(table.file), table
    except DataError:
        file, separator, rest = table.file.rpartition("#")
        if not separator:
            raise
        return _find_table(table._replace(file=file, sheet=f"{rest}#{table.sheet}"), find)


def numbered_sheet(file: Traversable, sheet: str = "", header: int | None = None) -> Iterator[tuple[str, Row]]:
    """Yield (file, sheet and number of the row; row by column name) of a sheet.

    Args:
        file: the workbook (.xlsx, .xlsm).
        sheet: name of the sheet; by default the only one that is neither hidden nor empty.
        header: number of the row that names the columns, from 1; by default the first that is not blank.

    Raises:
        DataError: it is no workbook, is damaged or protected, or unpacks to too much; there is no such sheet, or
            several to choose from; the header is blank or names a column twice; a formula has no stored value; a cell
            holds an error such as #N/A.
    """
    reader = _Reader(str(file))
    with reader.open(file) as (workbook, has_formulas):
        title = reader.choose_sheet(workbook, sheet)
        records = reader.records(file, workbook, title, check_formulas=has_formulas)
        yield from reader.rows(records, title, header)


def sheet_cells(file: Traversable) -> list[list[str]]:
    """Return the cells of the only sheet of a workbook, row by row from the first; blank rows are empty lists.

    Raises:
        DataError: as in `numbered_sheet`.
    """
    reader = _Reader(str(file))
    rows: list[list[str]] = []
    with reader.open(file) as (workbook, has_formulas):
        title = reader.choose_sheet(workbook, "")
        for number, record in reader.records(file, workbook, title, check_formulas=has_formulas):
            rows += [[] for _ in range(number - 1 - len(rows))]
            rows.append(record)
    return rows


class _Reader:
    """Reads a workbook, with its name in every error."""

    def __init__(self, name: str) -> None:
        self._name = name

    @contextmanager
    def open(self, file: Traversable) -> Iterator[tuple[Workbook, bool]]:
        """Open a workbook, and yield it with whether it has formulas."""
        try:
            stream = file.open("rb")
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror or error})") from error
        with stream:
            has_formulas = self._check(stream)
            with closing(self.load(stream)) as workbook:
                yield workbook, has_formulas

    def load(self, stream: IO[bytes], *, data_only: bool = True) -> Workbook:
        """Return the workbook in a stream, with the stored values of formulas or, if not `data_only`, themselves."""
        with needed_for(self._name):
            from openpyxl import load_workbook
        return self._read(lambda: load_workbook(stream, read_only=True, data_only=data_only, keep_links=False))

    def choose_sheet(self, workbook: Workbook, name: str) -> str:
        """Return the name of a sheet, or of the only one that is neither hidden nor empty."""
        sheets: dict[str, Any] = {sheet.title: sheet for sheet in workbook.worksheets}
        if name:
            if name not in sheets:
                listed = one_line(", ".join(map(repr, sheets)), 200) or "none"
                raise DataError(f"{self._name} has no sheet {name!r:.80}{near(name, sheets)}; its sheets are {listed}")
            return name
        visible = [title for title, sheet in sheets.items() if sheet.sheet_state == "visible"]
        filled = [title for title in visible if any(self._cells(workbook, title))] if len(visible) > 1 else visible
        if len(filled) != 1:
            listed = one_line(", ".join(map(repr, filled or sheets)), 200)
            problem = f"has several sheets ({listed})" if filled else f"has no visible sheet with rows ({listed})"
            example = (filled or list(sheets) or ["SHEET"])[0]
            raise DataError(f"{self._name} {problem}; name one, such as xlsx:FILE#{one_line(example, 80)}")
        return filled[0]

    def records(
        self, file: Traversable, workbook: Workbook, sheet: str, *, check_formulas: bool
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield (number of the row, texts of its cells) of the rows of a sheet that are not blank."""
        with ExitStack() as stack:
            numbered = self._cells(workbook, sheet)
            if check_formulas:
                formulas = stack.enter_context(
                    closing(self.load(stack.enter_context(file.open("rb")), data_only=False))
                )
                numbered = self._calculated(numbered, self._cells(formulas, sheet), sheet)
            texts = ((number, [self._cell_text(cell, sheet) for cell in cells]) for number, cells in numbered)
            yield from ((number, record) for number, record in texts if any(map(str.strip, record)))

    def rows(
        self, records: Iterator[tuple[int, list[str]]], sheet: str, header: int | None
    ) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of the records below the header, by the names of the columns."""
        location, limit = f"{self._name}#{sheet}", max_row_bytes()
        number, names = next(((row, record) for row, record in records if header is None or row >= header), (0, []))
        if header is not None and number != header:
            raise DataError(f"{location}: row {header:,} is blank; header= must be the row that names the columns")
        columns = [index for index, name in enumerate(names) if name.strip()]
        names = [names[index] for index in columns]
        check_names(names, location, number)
        padded, is_first = padded_names(names), header is None
        for number, record in records:
            cells = [record[index] if index < len(record) else "" for index in columns]
            width = sum(bool(cell.strip()) for cell in record)
            if is_first and 2 * len(names) <= width > 2:  # as where names are merged over several columns
                cure = f"add ?header=ROW to the address, such as ?header={number}"
                raise DataError(f"{location}: the first row names {len(names)} of {width} columns; {cure}")
            is_first = False
            if sum(map(len, cells)) > limit:
                raise too_long(f"{location}:{number}", limit)
            if any(map(str.strip, cells)):
                yield f"{location}:{number}", named_row(names, cells, padded)

    def _cells(self, workbook: Workbook, sheet: str) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield (number, cells) of the rows with cells."""
        worksheet = workbook[sheet]
        worksheet.reset_dimensions()  # what writers declare is often wrong
        rows = self._read(lambda: worksheet.iter_rows(max_row=MAX_ROWS))
        number = 0
        while (cells := self._read(lambda: next(rows, None))) is not None:
            number += 1
            if cells and any(cell.data_type == "f" or cell.value is not None for cell in cells):
                yield number, cells

    def _calculated(
        self, values: Iterator[tuple[int, Sequence[Any]]], formulas: Iterator[tuple[int, Sequence[Any]]], sheet: str
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the rows of `values`. Raises `DataError` for a formula whose value was not stored."""
        number, cells = next(values, (0, ()))
        for formula_row, formula_cells in formulas:
            is_here = number == formula_row
            for index, cell in enumerate(formula_cells):
                value = cells[index] if is_here and index < len(cells) else None
                if cell.data_type == "f" and (value is None or (value.value is None and value.data_type == "n")):
                    cure = "open the workbook in a spreadsheet and save it, which calculates them"
                    raise DataError(f"{self._name}#{sheet}:{cell.coordinate}: a formula without a stored value; {cure}")
            if is_here:
                yield number, cells
                number, cells = next(values, (0, ()))

    def _cell_text(self, cell: Any, sheet: str) -> str:
        """Return the text of a cell. Raises `DataError` for an error such as #REF!, which would pass for a label."""
        if cell.data_type == "e":
            problem, cure = f"the error {cell.value!r:.40}", "correct or clear the cell"
            raise DataError(f"{self._name}#{sheet}:{cell.coordinate}: {problem}, no value; {cure}")
        return _text(cell.value)

    # ---- what a file may be ------------------------------------------------------------------------------------------

    def _check(self, stream: IO[bytes]) -> bool:
        """Return whether a workbook has formulas. Raises `DataError` if it is none, or unpacks to too much."""
        head = stream.read(len(OLD_WORKBOOK))
        if head == OLD_WORKBOOK:
            locked = LOCKED in head + stream.read(1 << 16)  # the directory of the file
            problem = (
                "is protected by a password; save it without" if locked else "is an old workbook (.xls); save it as"
            )
            raise DataError(f"{self._name} {problem}{'' if locked else ' .xlsx'}")
        stream.seek(0)
        if not zipfile.is_zipfile(stream):
            raise DataError(
                f"{self._name} is no Excel workbook (.xlsx), or is cut off; check the file, or copy it again"
            )
        return self._read(lambda: self._has_formulas(stream))

    def _has_formulas(self, stream: IO[bytes]) -> bool:
        with zipfile.ZipFile(stream) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if WORKBOOK_MEMBER not in sizes:
                problem, cure = document_problem(archive) or ("is no Excel workbook (.xlsx)", "check the file")
                raise DataError(f"{self._name} {problem}; {cure}")
            max_bytes = max_unpacked_bytes(stream)
            strings = max((size for name, size in sizes.items() if "sharedstrings" in name.lower()), default=0)
            if sum(info.file_size for info in archive.infolist()) > max_bytes or strings > MAX_STRINGS_BYTES:
                limit = min(max_bytes, MAX_STRINGS_BYTES) if strings > MAX_STRINGS_BYTES else max_bytes
                raise DataError(
                    f"{self._name} unpacks to more than {limit:,} bytes; save the sheet as CSV if you trust it"
                )
            if other := next((info for info in archive.infolist() if info.compress_type not in STREAMED), None):
                raise DataError(
                    f"{self._name}: {other.filename!r:.80} is not packed by Deflate; save the workbook again"
                )
            return any(_holds_formula(archive, name) for name in sizes if "worksheets/" in name)

    def _read(self, step: Callable[[], T]) -> T:
        """Return what a step of reading returns. Raises `DataError` for whatever a damaged workbook leads to."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about styles and extensions, which are not read
                return step()
        except DataError:
            raise
        except (*BROKEN, KeyError, TypeError, AttributeError, LookupError, SyntaxError) as error:
            reason = one_line(str(error), 100) or type(error).__name__
            raise DataError(f"{self._name} is damaged or no Excel workbook ({reason}); copy it again") from error


def _holds_formula(archive: zipfile.ZipFile, member: str) -> bool:
    rest = b""
    with archive.open(member) as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            if FORMULA.search(rest + piece):
                return True
            rest = piece[-64:]
    return False


def _text(value: object) -> str:
    """Return a cell as the CSV file of its sheet would have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return time_text(value)
    if not isinstance(value, str):
        return str(value)
    text = ESCAPED.sub(lambda match: chr(int(match[1], 16)), value) if "_x" in value else value
    return valid(LINE_END.sub("\n", text))
