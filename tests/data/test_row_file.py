"""Files of users: what is read although it is odd, and what is refused in one line that says what to do."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from figeval.data.row_file import RowFile
from figeval.errors import DataError

TABLE = "id,prediction\nF01,E\nF02,B\n"
LINES = '{"id": "F01", "prediction": "E"}\n{"id": "F02", "prediction": "B"}\n'
LIST = f"[{','.join(LINES.splitlines())}]"
BOTH = [("F01", "E"), ("F02", "B")]


def read(name: str, content: bytes | str, folder: Path) -> list[tuple[str, str]]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(row.optional("id"), row.optional("prediction")) for row in RowFile(path, "give a file").rows()]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE),
        ("byte order mark.csv", f"\ufeff{TABLE}"),
        ("byte order mark.jsonl", f"\ufeff{LINES}"),
        ("byte order mark.json", f"\ufeff{LIST}"),
        ("windows.csv", TABLE.replace("\n", "\r\n")),
        ("windows.jsonl", LINES.replace("\n", "\r\n")),
        ("semicolons.csv", TABLE.replace(",", ";")),
        ("tabs.csv", TABLE.replace(",", "\t")),
        ("quotes.csv", TABLE.replace("id,prediction", '"id","prediction"')),
        ("blanks.csv", TABLE.replace("id,", " id , ").replace("E", " E ")),
        ("index.csv", ",id,prediction\n0,F01,E\n1,F02,B\n"),
        ("two unnamed columns.csv", "id,prediction,,\nF01,E,,\nF02,B,,x\n"),
        ("blank rows.csv", "\n\nid,prediction\nF01,E\n,\n\nF02,B\n , \n"),
        ("blank lines.jsonl", f"\n{LINES.replace(chr(10), chr(10) * 2)}"),
        ("lines.json", LINES),
        ("list.jsonl", LIST),
        ("indented.jsonl", LIST.replace(",", ",\n ")),
        ("line separator.jsonl", LINES.replace('"E"', '"E", "note": "a\u2028b"')),
        ("lines", LINES),
        ("list.txt", LIST),
    ],
)
def test_read(name: str, content: str, tmp_path: Path) -> None:
    assert read(name, content, tmp_path) == BOTH


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("utf16.csv", TABLE.encode("utf-16"), "utf16.csv is UTF-16 or UTF-32; save it as UTF-8"),
        ("utf16.jsonl", LINES.encode("utf-16"), "is UTF-16 or UTF-32"),
        ("utf32.csv", TABLE.encode("utf-32"), "is UTF-16 or UTF-32"),
        ("utf16le.csv", TABLE.encode("utf-16-le"), "utf16le.csv:1: a zero byte, which no text has"),
        ("zero.csv", TABLE.replace("E", "E\0"), "zero.csv:2: a zero byte, which no text has; save the file as UTF-8"),
        (
            "latin.csv",
            TABLE.replace("E", "É").encode("latin-1"),
            "byte 0xc9 at offset 18 is not utf-8; convert the file",
        ),
        ("a.csv.gz", gzip.compress(TABLE.encode(), mtime=0), "a.csv.gz is compressed with gzip; unpack it"),
        ("a.jsonl", gzip.compress(LINES.encode(), mtime=0), "is compressed with gzip"),
        ("a.xlsx", b"PK\x03\x04\x14", "is a zip archive or a workbook; unpack it, or save the sheet as CSV"),
        ("a.parquet", b"PAR1\x15\0", "is a Parquet file; save it as CSV or JSON Lines"),
        ("mac.csv", TABLE.replace("\n", "\r"), "its lines end in carriage returns alone; save it with line feeds"),
        ("table.txt", TABLE, r"the format is unknown; the name must end in .csv, .tsv, .jsonl, .json"),
        ("table.jsonl", TABLE, r"table.jsonl:1: not valid JSON"),
        ("twice.csv", "id,prediction,id\n", "twice.csv:1: column 'id' is named twice"),
        ("twice.jsonl", '{"id": 1, "id": 2}', "twice.jsonl:1: not valid JSON: the key 'id' is given twice"),
        ("narrow.csv", "id,prediction\n\nF01\n", "narrow.csv:3: 1 values for 2 columns"),
        ("quote.csv", 'id,prediction\nF01,"E\n', "check the quotes before it"),
        ("long.csv", f"id,prediction\nF01,{'E' * 2_000_000}\n", "long.csv:2: a row of more than 1,000,000 bytes"),
        ("long.jsonl", f'{{"id": "{"E" * 2_000_000}"}}', "long.jsonl:1: a row of more than 1,000,000 bytes"),
        ("deep.jsonl", f'{{"id": {"[" * 500}{"]" * 500}}}', "deep.jsonl:1: not valid JSON: nested too deeply"),
        ("scalar.json", '"F01"', "scalar.json:1: not a JSON object"),
        ("list of texts.json", '["F01"]', "row 1 is a string, not an object"),
    ],
)
def test_refused(name: str, content: bytes | str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(name, content, tmp_path)
    assert "\n" not in str(caught.value)


def test_names_that_differ_only_in_blanks_stay_apart(tmp_path: Path) -> None:
    assert read("a.csv", "id, prediction,prediction\nF01,A,B\n", tmp_path) == [("F01", "B")]


def test_lines_are_those_of_an_editor(tmp_path: Path) -> None:
    for name, content in {
        "a.csv": "id,prediction\n\nF01,E\n,\nF02,B\n",
        "a.jsonl": LINES.replace("\n", "\n\n\n", 1),
    }.items():
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        first, second = RowFile(path, "give a file").rows()
        lines = content.splitlines()
        for row in (first, second):
            assert row.optional("id") in lines[int(row.where.rpartition(":")[2]) - 1]
        assert (first.number, second.number) == (1, 2)
