"""Excel workbooks → rows: the sheet, the header row, what cells become, and what is refused in one line."""

from __future__ import annotations

import csv
import datetime
import io
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataContext, DataError
from figeval.testing import harness

Cells = Sequence[Sequence[Any]]
PAIRS: Cells = [("id", "label"), ("F01", "a"), ("F02", "b")]
PAIR_ROWS = [{"id": "F01", "label": "a"}, {"id": "F02", "label": "b"}]


def read_rows(path: str, folder: Path, scheme: str = "xlsx") -> list[Mapping[str, Any]]:
    return list(harness().readers.get(scheme)(path, DataContext(folder=folder, fetch=lambda *_: folder)))


def write_workbook(file: Path, **sheets: Cells) -> openpyxl.Workbook:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    workbook.save(file)
    return workbook


def replace_in(file: Path, member: str, pattern: bytes, new: bytes) -> None:
    with zipfile.ZipFile(file) as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
    contents[member], count = re.subn(pattern, lambda _: new, contents[member])
    assert count
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_the_only_sheet_with_rows_is_read(tmp_path: Path) -> None:
    workbook = write_workbook(tmp_path / "a.xlsx", Pairs=PAIRS, Empty=[], Notes=[("x", "y")])
    workbook["Notes"].sheet_state = "hidden"
    workbook.save(tmp_path / "a.xlsx")
    assert read_rows("a.xlsx", tmp_path) == read_rows("a.xlsx#Pairs", tmp_path) == PAIR_ROWS
    assert read_rows("a.xlsx#Notes", tmp_path) == []


def test_a_name_may_look_like_an_address(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a#1?header=2.xlsx", Pairs=PAIRS)
    assert read_rows("a#1?header=2.xlsx", tmp_path) == PAIR_ROWS
    assert read_rows("a#1?header=2.xlsx#Pairs", tmp_path) == PAIR_ROWS
    write_workbook(tmp_path / "a.xlsx", **{"C#, no. #1": PAIRS, "Other": PAIRS})
    assert read_rows("a.xlsx#C#, no. #1?header=1", tmp_path) == PAIR_ROWS


def test_the_header_may_stand_below_others(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", Pairs=[("About the data",), (), *PAIRS])
    assert read_rows("a.xlsx?header=3", tmp_path) == read_rows("a.xlsx#Pairs?header=3", tmp_path) == PAIR_ROWS


def test_cells_become_what_a_csv_file_has(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 1, 31)
    cells = [7, 2.0, 0.1, 1e20, True, day, day.replace(hour=9), None, " a\u00a0", "_x000D_\nb", "_x005F_x000D_"]
    names = [f"c{number}" for number in range(len(cells))]
    write_workbook(tmp_path / "a.xlsx", Sheet=[names, cells])
    (row,) = read_rows("a.xlsx", tmp_path)
    texts = ["7", "2", "0.1", "1e+20", "TRUE", "2024-01-31", "2024-01-31 09:00:00"]
    assert list(row.values()) == [*texts, "", " a\u00a0", "\nb", "_x000D_"]


def test_blank_rows_and_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    rows = [
        (None, " id ", "label", *[None] * 12_000, " "),
        (),
        ("x", "F01", "a", " "),
        (" ",),
        ("y", "F02", "b", None, "note"),
    ]
    write_workbook(tmp_path / "a.xlsx", Sheet=rows)
    first, second = read_rows("a.xlsx", tmp_path)
    assert dict(first) == {" id ": "F01", "label": "a"}
    assert (second["id"], second["label"]) == ("F02", "b")


def test_names_merged_over_columns_are_no_header(tmp_path: Path) -> None:
    write_workbook(
        tmp_path / "a.xlsx",
        Sheet=[("Texts", None, "Answers", None), ("id", "left", "label", "why"), ("a", "b", "c", "d")],
    )
    with pytest.raises(DataError, match="the first row names 2 of 4 columns; add"):
        read_rows("a.xlsx", tmp_path)
    assert read_rows("a.xlsx?header=2", tmp_path) == [{"id": "a", "left": "b", "label": "c", "why": "d"}]


def test_of_merged_cells_the_first_has_the_value(tmp_path: Path) -> None:
    workbook = write_workbook(tmp_path / "a.xlsx", Sheet=PAIRS)
    workbook["Sheet"].merge_cells("B2:B3")
    workbook.save(tmp_path / "a.xlsx")
    assert read_rows("a.xlsx", tmp_path) == [{"id": "F01", "label": "a"}, {"id": "F02", "label": ""}]


@pytest.mark.parametrize("prefix", [b"", b"x:"], ids=["Excel", "a writer of prefixes"])
def test_formulas_are_the_values_stored_with_them(tmp_path: Path, prefix: bytes) -> None:
    write_workbook(tmp_path / "a.xlsx", Sheet=[*PAIRS, ("F03", "=1+1")])
    with pytest.raises(DataError, match=r"a\.xlsx#Sheet:B4: a formula without a stored value; open the workbook"):
        read_rows("a.xlsx", tmp_path)
    replace_in(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", rb"</f><v */?>(</v>)?", b"</f><v>2</v>")
    if prefix:
        declared = b'<x:f xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        replace_in(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", b"<f>", declared)
        replace_in(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", b"</f>", b"</x:f>")
    assert read_rows("a.xlsx", tmp_path)[-1] == {"id": "F03", "label": "2"}


@pytest.mark.parametrize("value", ["#REF!", "#N/A"])
@pytest.mark.parametrize("is_calculated", [False, True], ids=["a cell", "a formula"])
def test_errors_of_cells_are_no_texts(tmp_path: Path, value: str, is_calculated: bool) -> None:
    write_workbook(tmp_path / "a.xlsx", Sheet=[*PAIRS, ("F03", value)])
    if is_calculated:
        stored = b'<c r="B4" t="e"><f>B9</f><v>'
        replace_in(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", rb'<c r="B4" t="e"><v>', stored)
    with pytest.raises(DataError, match=rf"a\.xlsx#Sheet:B4: the error '{value}', no value; correct or clear the cell"):
        read_rows("a.xlsx", tmp_path)


REFUSED = {
    "a.xlsx#Pair": "has no sheet 'Pair'; did you mean 'Pairs'?; its sheets are 'Pairs', 'Notes', ",
    "a.xlsx": "has several sheets ('Pairs', 'Notes', 'Twice', 'Title'); name one, such as xlsx:FILE#Pairs",
    "a.xlsx#Pairs?header=9": "a.xlsx#Pairs: row 9 is blank",
    "a.xlsx#Pairs?header=0": "where ROW counts from 1",
    "a.xlsx#Pairs?headers=1": "is no address of a sheet; write xlsx:FILE",
    "a.xlsx#Twice": ":1: column 'id' is named twice",
    "a.xlsx#Title": "a.xlsx#Title: the first row names 1 of 3 columns; add ?header=ROW",
    "a.xlsx#Empty": "the file is empty",
    "b.xlsx": "there is no data file 'b.xlsx'",
    "text.xlsx": "text.xlsx is no Excel workbook",
    "old.xls": "is an old workbook (.xls); save it as .xlsx",
    "locked.xlsx": "is protected by a password; save it without",
    "zip.xlsx": "zip.xlsx is no Excel workbook (.xlsx); check the file",
    "writer.odt": "is an OpenDocument file; save the sheet as .xlsx or CSV UTF-8",
    "laughs.xlsx": "laughs.xlsx is damaged or no Excel workbook (",
}


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    title = [("Title",), ("id", "left", "right"), ("F01", "a", "b")]
    write_workbook(folder / "a.xlsx", Pairs=PAIRS, Notes=PAIRS, Twice=[("id", "id"), (1, 2)], Title=title, Empty=[])
    (folder / "text.xlsx").write_text("id,label\n")
    (folder / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le")
    (folder / "locked.xlsx").write_bytes(locked)
    for name, member in (("zip.xlsx", "a.csv"), ("writer.odt", "content.xml")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "id,label\n")
    entities = b"".join(b'<!ENTITY a%d "%s">' % (number, b"&a%d;" % (number - 1) * 10) for number in range(1, 10))
    laughs = b'<!DOCTYPE x [<!ENTITY a0 "haha">' + entities + b"]><"
    write_workbook(folder / "laughs.xlsx", Pairs=PAIRS)
    replace_in(folder / "laughs.xlsx", "xl/worksheets/sheet1.xml", b"<worksheet", laughs + b"worksheet")
    replace_in(folder / "laughs.xlsx", "xl/worksheets/sheet1.xml", b"<sheetData>", b"<sheetData><row><c>&a9;</c></row>")
    return folder


@pytest.mark.parametrize(("path", "message"), REFUSED.items(), ids=REFUSED)
def test_refused(odd_files: Path, path: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_rows(path, odd_files)
    assert "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.data.archives.RATIO_FROM_BYTES", 1 << 17)
    write_workbook(tmp_path / "a.xlsx", Pairs=PAIRS)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet2.xml", bytes(1 << 22))
    with pytest.raises(DataError, match=r"unpacks to more than 1,\d{3},\d{3} bytes"):
        read_rows("a.xlsx", tmp_path)


@pytest.mark.parametrize("row", ["4", pytest.param("999999999999", marks=pytest.mark.slow)])
def test_a_far_row_costs_little(tmp_path: Path, row: str) -> None:
    write_workbook(tmp_path / "a.xlsx", Pairs=PAIRS)
    far = f'<row r="{row}"><c r="A{row}"><v>1</v></c></row></sheetData>'.encode()
    replace_in(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", b"</sheetData>", far)
    assert read_rows("a.xlsx", tmp_path)[:2] == PAIR_ROWS


@pytest.mark.slow
@given(offset=st.integers(0, 6000), put=st.binary(max_size=4), cut=st.integers(0, 4), is_packed=st.booleans())
def test_a_damaged_workbook_gives_rows_or_is_refused(offset: int, put: bytes, cut: int, is_packed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "a.xlsx"
        write_workbook(file, Pairs=PAIRS)
        if is_packed:
            content = file.read_bytes()
            start = offset % len(content)
            file.write_bytes(content[:start] + put + content[start + cut :])
        else:
            with zipfile.ZipFile(file) as archive:
                sheet = archive.read("xl/worksheets/sheet1.xml")
            start = offset % len(sheet)
            replace_in(file, "xl/worksheets/sheet1.xml", re.escape(sheet), sheet[:start] + put + sheet[start + cut :])
        with suppress(DataError):
            read_rows("a.xlsx", Path(name))


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)


@given(rows=st.lists(st.tuples(texts, texts), max_size=4))
def test_a_sheet_and_its_csv_file_have_the_same_rows(rows: list[tuple[str, str]]) -> None:
    rows = [(left, right) for left, right in rows if not left.startswith("=") and not right.startswith("=")]
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([("left", "right"), *rows])
    with tempfile.TemporaryDirectory() as name:
        write_workbook(Path(name) / "a.xlsx", Sheet=[("left", "right"), *rows])
        (Path(name) / "a.csv").write_text(buffer.getvalue(), encoding="utf-8", newline="")
        assert read_rows("a.xlsx", Path(name)) == read_rows("a.csv", Path(name), "csv")


def test_members_that_are_not_packed_by_deflate_are_refused(tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", Pairs=PAIRS)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as source, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name), zipfile.ZIP_BZIP2)
    with pytest.raises(DataError, match="is not packed by Deflate; save the workbook again"):
        read_rows("b.xlsx", tmp_path)
