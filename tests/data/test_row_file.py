"""Files of users: what is read although it is odd, and what is refused in one line that says what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st

import figeval
from figeval import DataContext, DataError, GenerationExample
from figeval.testing import harness
from tests.data.zip_headers import set_header_field

TABLE = "id,prediction\nF01,E\nF02,B\n"
LINES = '{"id": "F01", "prediction": "E"}\n{"id": "F02", "prediction": "B"}\n'
LIST = f"[{','.join(LINES.splitlines())}]"
ROWS = [("F01", "E"), ("F02", "B")]


@figeval.task(name="letters", type="generation", metrics=["length"])
def letters() -> Iterator[GenerationExample]:
    return (GenerationExample(id=name, inputs={}, references=("",)) for name, _ in ROWS)


def read_rows(name: str, content: bytes | str, folder: Path) -> list[tuple[str, str | None]]:
    """Return the predictions in a file, as `figeval score` reads them; None where a cell is empty."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    run = figeval.score(letters, path, baselines=False, output_path=folder / "run", fresh=True)
    (file,) = (run.path / "predictions").iterdir()
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return [(row["id"], None if row["pred"] is None else row["pred"].strip()) for row in rows]


def zip_archive(*members: str, content: str = TABLE, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for member in members:
            archive.writestr(member, content)
    return buffer.getvalue()


def flip_byte(packed: bytes, offset: int) -> bytes:
    changed = bytearray(packed)
    changed[offset] ^= 0xFF
    return bytes(changed)


GZIP_FILE, ZIP_FILE = gzip.compress(TABLE.encode(), mtime=0), zip_archive("a.csv", method=zipfile.ZIP_STORED)
READABLE_FILES: dict[str, bytes | str] = {
    "a.csv": TABLE,
    "byte order mark.csv": f"\ufeff{TABLE}",
    "byte order mark.jsonl": f"\ufeff{LINES}",
    "byte order mark.json": f"\ufeff{LIST}",
    "two byte order marks.csv": f"\ufeff\ufeff{TABLE}",
    "quotes after the byte order mark.csv": f'\ufeff"id","prediction"\n{TABLE.partition(chr(10))[2]}',
    "windows.csv": TABLE.replace("\n", "\r\n"),
    "windows.jsonl": LINES.replace("\n", "\r\n"),
    "mac.csv": TABLE.replace("\n", "\r"),
    "mac with a line feed in a cell.csv": f"{TABLE}F03,\n".replace("\n", "\r").replace("F03,", '"\n", '),
    "mac.jsonl": LINES.replace("\n", "\r"),
    "mac.json": LIST.replace(",", ",\r"),
    "an object over lines of a mac.jsonl": '{\r"id": "F01",\r"prediction": "E"\r}\n{"id": "F02", "prediction": "B"}',
    "semicolons.csv": TABLE.replace(",", ";"),
    "quoted semicolons.csv": '"id";"prediction"\n"F01";"E"\n"F02";"B"\n',
    "semicolons in cells.csv": 'id;note;prediction\nF01;"a;b, c";E\nF02;"d ""e""\n;";B\n',
    "decimal commas.csv": "id;prediction;score, mean\nF01;E;0,5\nF02;B;1\n",
    "semicolons in a table of commas.csv": "id,prediction,a;b;c\nF01,E,x;y\nF02,B,z\n",
    "tabs.csv": TABLE.replace(",", "\t"),
    "commas.tsv": TABLE,
    "sep.csv": f"sep=;\r\n{TABLE.replace(',', ';')}",
    "quoted sep.csv": f'"sep=,"\n{TABLE}',
    "sep of another character.csv": f"\ufeffsep=|\n{TABLE.replace(',', '|')}",
    "sep of tabs.csv": TABLE.replace(",", "\t").replace("id", "sep=\t\nid"),
    "bars.csv": "id|note|prediction\nF01|a, b|E\nF02|c|B\n",
    "bars.tsv": TABLE.replace(",", "|"),
    "quoted bars.csv": 'id|prediction|note\nF01|E|"a|b"\nF02|B|c\n',
    "bars in a table of commas.csv": "id,prediction,a|b\nF01,E,x|y\nF02,B,z|w\n",
    "carets.csv": "id^note^prediction\nF01^a, b^E\nF02^c^B\n",
    "tildes.csv": TABLE.replace(",", "~"),
    "full-width commas.csv": TABLE.replace(",", "，"),
    "sep in words.csv": TABLE.replace(",", "\t").replace("id", "sep=tab\nid"),
    "sep as programmers write it.csv": TABLE.replace(",", "\t").replace("id", "sep=\\t\nid"),
    "blanks before quotes.csv": 'id, note, prediction\nF01, "a, b", E\nF02, "c ""d""", B\n',
    "blanks before quotes, semicolons.csv": 'id; note; prediction\nF01; "a; b"; E\nF02; c; B\n',
    "blanks before quotes.tsv": 'id\t note\tprediction\nF01\t "a\tb"\tE\nF02\t c\tB\n'.replace("\tpred", "\t pred"),
    "single quotes.csv": "id,note,prediction\nF01,'a, b',E\nF02,it's,B\n",
    "a separator after each row.csv": TABLE.replace("E\n", "E,\n").replace("B\n", "B,,\n").replace(",,", ","),
    "single quotes that are part of a text.csv": "id,note,prediction\nF01,'tis,E\nF02,'a',B\n",
    "quotes.csv": TABLE.replace("id,prediction", '"id","prediction"'),
    "blanks.csv": TABLE.replace("id,", " id , ").replace("E", " E "),
    "no-break spaces.csv": TABLE.replace("id,", "\u00a0id\u202f,\u200b"),
    "index.csv": ",id,prediction\n0,F01,E\n1,F02,B\n",
    "two unnamed columns.csv": "id,prediction,,\nF01,E,,\nF02,B,,x\n",
    "blank rows.csv": '\n,\n\nid,prediction\nF01,E\n,\n\nF02,B\n , \n\u00a0,""\n',
    "no end.csv": TABLE.rstrip("\n"),
    "blank lines.jsonl": f"\n{LINES.replace(chr(10), chr(10) * 2)}",
    "lines.json": LINES,
    "list.jsonl": LIST,
    "indented.jsonl": LIST.replace(",", ",\n "),
    "line separator.jsonl": LINES.replace('"E"', '"E", "note": "a\u2028b"'),
    "lines": LINES,
    "list.txt": LIST,
    "utf16.csv": TABLE.encode("utf-16"),
    "utf16.jsonl": LINES.encode("utf-16"),
    "utf16.json": LIST.encode("utf-16"),
    "utf16be.csv": ("\ufeff" + TABLE.replace("\n", "\r\n")).encode("utf-16-be"),
    "utf16le without a mark.csv": TABLE.encode("utf-16-le"),
    "utf16le without a mark, in another script.csv": "चाँद,id,prediction\n月,F01,E\n,F02,B\n".encode("utf-16-le"),
    "utf16be without a mark.jsonl": LINES.encode("utf-16-be"),
    "utf32.csv": TABLE.encode("utf-32"),
    "utf32 without a mark.csv": TABLE.encode("utf-32-be"),
    "a.csv.gz": GZIP_FILE,
    "unsuspected gzip.csv": GZIP_FILE,
    "two members.csv.gz": b"".join(gzip.compress(part.encode()) for part in TABLE.partition("F02")),
    "utf16.csv.gz": gzip.compress(TABLE.encode("utf-16")),
    "a.jsonl.gz": gzip.compress(LINES.encode()),
    "a.json.gz": gzip.compress(LIST.encode()),
    "a.csv.bz2": bz2.compress(TABLE.encode()),
    "a.jsonl.xz": lzma.compress(LINES.encode()),
    "a.csv.zst": zstd.compress(TABLE.encode()),
    "two frames.csv.zst": b"".join(zstd.compress(part.encode()) for part in TABLE.partition("F02")),
    "skipped frame.csv.zst": b"\x50\x2a\x4d\x18\x04\0\0\0note" + zstd.compress(TABLE.encode()),
    "a.jsonl.zstd": zstd.compress(LINES.encode()),
    "a.json.zst": zstd.compress(LIST.encode()),
    "unsuspected zstd.csv": zstd.compress(TABLE.encode()),
    "a.zip": zip_archive("folder/a.csv"),
    "a.csv.zip": zip_archive("folder/", "__MACOSX/folder/._a.csv", "folder/a.csv", "folder/.DS_Store"),
    "lines.zip": zip_archive("../a.jsonl", content=LINES),
}


@pytest.mark.slow
def test_read(tmp_path: Path) -> None:
    wrong = {}
    for name, content in READABLE_FILES.items():
        try:
            rows = read_rows(name, content, tmp_path)
        except DataError as error:
            wrong[name] = str(error)
        else:
            if rows != ROWS:
                wrong[name] = str(rows)
    assert not wrong


REFUSED_FILES: list[tuple[str, bytes | str, str]] = [
    ("utf16.csv", TABLE.encode("utf-16")[:-1], "utf16.csv is not valid UTF-16 (truncated data); save it as UTF-8"),
    ("zero.csv", TABLE.replace("E", "E\0"), "zero.csv:2: a zero byte, which no text has; remove it"),
    (
        "latin.csv",
        TABLE.replace("E", "É").encode("latin-1"),
        "latin.csv:2: byte 0xc9 at offset 18 is not utf-8; convert",
    ),
    (
        "binary.csv",
        b"id,prediction\n\x01\x02\xff",
        "binary.csv:2: byte 0xff at offset 16 is not utf-8; this is no text",
    ),
    ("cut.csv.gz", GZIP_FILE[:-6], "cut.csv.gz is damaged or cut off"),
    ("wrong sum.csv.gz", flip_byte(GZIP_FILE, -8), "is damaged or cut off (CRC check failed"),
    ("more.csv.gz", GZIP_FILE + b"more", "is damaged or cut off (Not a gzipped file"),
    ("cut.jsonl.xz", lzma.compress(LINES.encode())[:-5], "is damaged or cut off"),
    ("twice.csv.gz", gzip.compress(GZIP_FILE), "twice.csv.gz holds another packed file; unpack it"),
    ("parquet.csv.gz", gzip.compress(b"PAR1\x15\0"), "parquet.csv.gz is a Parquet file; read it with parquet:"),
    ("a.tar.gz", gzip.compress(b"a.csv" + bytes(252) + b"ustar\0"), "a.tar.gz is a tar archive; unpack it"),
    ("two.zip", zip_archive("a.csv", "b.csv"), "two.zip holds 2 files (a.csv, b.csv); unpack it"),
    ("none.zip", zip_archive(), "none.zip holds no file"),
    (
        "a.xlsx",
        zip_archive("xl/workbook.xml", "[Content_Types].xml"),
        "a.xlsx is damaged or no Excel workbook",
    ),
    ("a.xlsb", zip_archive("xl/workbook.bin"), "is a binary workbook (.xlsb); save the sheet as .xlsx or CSV UTF-8"),
    ("a.ods", zip_archive("mimetype", "content.xml"), "is an OpenDocument file; save the sheet as .xlsx or CSV UTF-8"),
    ("cut.zip", ZIP_FILE[:-30], "cut.zip is damaged or cut off (File is not a zip file); copy or download it again"),
    ("wrong sum.zip", flip_byte(ZIP_FILE, ZIP_FILE.index(b"F01")), "is damaged or cut off (Bad CRC-32"),
    ("encrypted.zip", set_header_field(ZIP_FILE, 6, 1), "encrypted.zip is encrypted; unpack it with its password"),
    (
        "bzip2.zip",
        zip_archive("a.csv", method=zipfile.ZIP_BZIP2),
        "bzip2.zip is packed by bzip2, which figeval does not",
    ),
    (
        "deflate64.zip",
        set_header_field(ZIP_FILE, 8, 9),
        "is packed by Deflate64, which figeval does not unpack; unpack it",
    ),
    ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(9), "is an Excel workbook or another file of Office; save"),
    ("a.parquet", b"PAR1\x15\0", "a.parquet cannot be read as Parquet ("),
    ("a.feather", b"ARROW1\0\0", "a.feather cannot be read as Arrow ("),
    ("a.db", b"SQLite format 3\0", "is an SQLite database; export the table as CSV"),
    ("cut.csv.zst", zstd.compress(TABLE.encode())[:-5], "cut.csv.zst is damaged or cut off"),
    ("more.csv.zst", zstd.compress(TABLE.encode()) + b"more", "is damaged or cut off"),
    ("head.csv.zst", b"\x28\xb5\x2f\xfd\0", "is damaged or cut off"),
    ("twice.csv.zst", zstd.compress(GZIP_FILE), "twice.csv.zst holds another packed file; unpack it"),
    ("a.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS and not the data"),
    (
        "table.txt",
        TABLE,
        r"the format is unknown; the name must end in .jsonl, .json, .csv, .tsv, .xlsx, .parquet, .arrow",
    ),
    ("table.jsonl", TABLE, r"table.jsonl:1: not valid JSON"),
    ("mac.jsonl", LINES.replace("\n", "\r") + "{", "mac.jsonl:3: not valid JSON"),
    ("twice.csv", "id,prediction,id\n", "twice.csv:1: column 'id' is named twice"),
    ("twice.jsonl", '{"id": 1, "id": 2}', "twice.jsonl:1: not valid JSON: the key 'id' is given twice"),
    ("narrow.csv", "id,prediction\n\nF01\n", "narrow.csv:3: 1 values for 2 columns"),
    ("ragged semicolons.csv", "sep=;\nid;prediction\nF01;E;x\n", "ragged semicolons.csv:3: 3 values for 2 columns"),
    ("ragged.csv", "id;prediction\nF01;E\n;\nF02;B;C\n", "ragged.csv:4: 3 values for 2 columns"),
    ("ragged mac.csv", 'id,prediction\r"F\r01",E\rF02\r', "ragged mac.csv:4: 1 values for 2 columns"),
    ("ragged with a return.csv", 'id,prediction\n"F\r01","E\n"\nF02\n', "ragged with a return.csv:4: 1 values"),
    ("ragged.csv.gz", gzip.compress(b"id,prediction\nF01,E\nF02\n"), "ragged.csv.gz:3: 1 values for 2 columns"),
    ("markdown.csv", "| id | prediction |\n| -- | :-: |\n| F01 | E |\n", "markdown.csv:1: this is a table in Markdown"),
    ("no sep.csv", f"sep=\n{TABLE}", "no sep.csv:1: 'sep=' names no separator; write one"),
    ("two separators.csv", "id;prediction\nF01,E\nF02,B\n", "the columns are separated by ';', and the values by ','"),
    ("two other.csv", "id,prediction\nF01\tE\n", r"the columns are separated by ',', and the values by '\t'"),
    ("typographic.csv", "id,prediction\nF01,“a, b”\n", 'write straight double quotes (") around cells'),
    ("blank in a text.csv", 'id,note,prediction\nF01,he said, "a, b"\n', "4 values for 3 columns"),
    ("padded.csv", 'id,note,prediction\nF01,a, "b, c"\n', "4 values for 3 columns (id, note, prediction); remove the"),
    (
        "row numbers.csv",
        "id,prediction\n1,F01,E\n2,F02,B\n",
        "is the number of the row, name that column too",
    ),
    ("comment.csv", "# made today\nid,prediction\nF01,E\n", "name the columns; remove the comment above it"),
    ("comment at the end.csv", f"{TABLE}# made today\n", "(id, prediction); remove this line if it is a comment"),
    ("comma.csv", "id,prediction\nF01,E, or B\n", 'write double quotes (") around cells that contain'),
    ("comma at an end.csv", "id,prediction\nF01,E\nF02,B,\n", "comma at an end.csv:3: 3 values for 2 columns"),
    ("commas in texts.csv", "prediction\nE,\nB,\n", "1 columns (prediction); remove ',' at its end, or write"),
    ("backslash.csv", 'id,prediction\nF01,"a \\"b\\", c"\n', "within quotes, a quote is written twice"),
    ("quote.csv", 'id,prediction\nF01,"E\n', "check the quotes before it"),
    (
        "quote.tsv",
        'id\tprediction, note\nF01\t"E, x\nF02\tB\n',
        "quote.tsv:3: unexpected end of data; check",
    ),
    ("long.csv", f"id,prediction\nF01,{'E' * 2_000_000}\n", "long.csv:2: a row of more than 1,000,000 bytes"),
    ("long mac.csv", f"id,prediction\rF01,{'E' * 2_000_000}\r", "long mac.csv:2: a row of more than 1,000,000 bytes"),
    ("long.jsonl", f'{{"id": "{"E" * 2_000_000}"}}', "long.jsonl:1: a row of more than 1,000,000 bytes"),
    ("deep.jsonl", f'{{"id": {"[" * 500}{"]" * 500}}}', "deep.jsonl:1: not valid JSON: nested too deeply"),
    ("scalar.json", '"F01"', "scalar.json:1: not a JSON object"),
    ("list of texts.json", '["F01"]', "row 1 is a string, not an object"),
]


def test_refused(tmp_path: Path) -> None:
    wrong = {}
    for name, content, message in REFUSED_FILES:
        try:
            text = f"read: {read_rows(name, content, tmp_path)}"
        except DataError as error:
            text = str(error)
        if message not in text or "\n" in text:
            wrong[name, message] = text
    assert not wrong


@settings(max_examples=50)  # each is a run
@example(name="utf16.csv", offset=373, put=b"", cut=2)  # the answer of a row is lost, and its id is not
@given(
    name=st.sampled_from(["a.csv.gz", "a.csv.bz2", "a.jsonl.xz", "a.csv.zst", "a.zip", "utf16.csv"]),
    offset=st.integers(0, 500),
    put=st.binary(max_size=4),
    cut=st.integers(0, 4),
)
def test_a_damaged_file_gives_its_rows_or_is_refused(name: str, offset: int, put: bytes, cut: int) -> None:
    original = READABLE_FILES[name]
    assert isinstance(original, bytes)
    start = offset % len(original)
    with tempfile.TemporaryDirectory() as folder, suppress(DataError):
        read_rows(name, original[:start] + put + original[start + cut :], Path(folder))


COMPRESS = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd.compress}


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_bomb_is_not_unpacked(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.data.archives.RATIO_FROM_BYTES", 1 << 17)
    content = b"id,prediction\nF01," + b"\n" * (1 << 18)
    with pytest.raises(DataError, match="unpacks to more than 131,072 bytes; unpack it if you trust it"):
        read_rows(f"a.csv.{kind}", COMPRESS[kind](content), tmp_path)


def test_columns_keep_their_names(tmp_path: Path) -> None:
    """A task that names a column with its blanks reads it as before, and one that leaves them out reads it, too."""
    (tmp_path / "a.csv").write_text("id, gold label\u00a0\n1,x\n", encoding="utf-8")
    (row,) = harness().readers.get("csv")("a.csv", DataContext(folder=tmp_path, fetch=lambda *_: tmp_path))
    assert dict(row) == {"id": "1", " gold label\u00a0": "x"}
    assert row["gold label"] == row.get("gold label") == row[" gold label\u00a0"] == "x"
    assert "gold label" in row
    assert "label" not in row


def test_names_that_differ_only_in_blanks_stay_apart(tmp_path: Path) -> None:
    assert read_rows("a.csv", "id, prediction,prediction\nF01,A,E\nF02,C,B\n", tmp_path) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.csv", "id,prediction\n\nF01,E\n,\nF01,B\n", (3, 5)),
        ("a.jsonl", LINES.replace("F02", "F01").replace("\n", "\n\n\n", 1), (1, 4)),
    ],
)
def test_lines_are_those_of_an_editor(name: str, content: str, lines: tuple[int, int], tmp_path: Path) -> None:
    first, second = lines
    with pytest.raises(DataError, match=rf"{name}:{second}: 'id' is 'F01', which .*{name}:{first} has already"):
        read_rows(name, content, tmp_path)
