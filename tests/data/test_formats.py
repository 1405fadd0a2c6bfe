"""Plain files → rows: golden cases, and what no input may do."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataContext, DataError
from figeval.testing import harness

Row = Mapping[str, Any]
READERS: dict[str, Callable[[str, DataContext], Iterator[Row]]] = {
    name: harness().readers.get(name) for name in ("jsonl", "json", "csv", "tsv")
}
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "data" / "formats.json").read_text(encoding="utf-8"))


def no_fetch(benchmark: str, path: str) -> Path:
    raise AssertionError("plain files are not fetched")


def read_rows(folder: Path, reader: str, content: bytes) -> list[Row]:
    (folder / f"data.{reader}").write_bytes(content)
    return list(READERS[reader](f"data.{reader}", DataContext(folder=folder, fetch=no_fetch)))


@pytest.mark.parametrize("case", GOLDEN, ids=[case["why"][:60] for case in GOLDEN])
def test_golden(tmp_path: Path, case: dict[str, Any]) -> None:
    content = case["latin1"].encode("latin-1") if "latin1" in case else case["text"].encode()
    if "rows" in case:
        assert read_rows(tmp_path, case["reader"], content) == case["rows"]
        return
    with pytest.raises(DataError) as error:
        read_rows(tmp_path, case["reader"], content)
    assert re.search(case["error"], str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reader", READERS)
def test_a_missing_file_is_named_with_its_neighbour(tmp_path: Path, reader: str) -> None:
    (tmp_path / "pairs.txt").write_text("")
    with pytest.raises(DataError, match=r"no data file 'pair\.txt' in .*; did you mean 'pairs\.txt'"):
        list(READERS[reader]("pair.txt", DataContext(folder=tmp_path, fetch=no_fetch)))


def test_a_wide_header_takes_linear_time(tmp_path: Path) -> None:
    names = ",".join(map(str, range(10_000)))
    with pytest.raises(DataError, match="column '7' is named twice"):
        read_rows(tmp_path, "csv", f"{names.replace('9999', '7')}\n".encode())
    with pytest.raises(DataError, match="10,001 columns, but at most 10,000 are read"):
        read_rows(tmp_path, "csv", f"{names},x\n".encode())


FILE_BYTES = 10_000_000
LONG_ROWS = {
    "jsonl": b'{"a": 1}\n{"a": "' + b"x" * FILE_BYTES + b'"}\n',
    "json": b'[{"a": 1},\n{"a": "' + b"x" * FILE_BYTES + b'"}]',
    "csv": b"a,b\n1,2\n1," + b"x" * FILE_BYTES + b"\n",
    "tsv": b"a\tb\n1\t2\n1\t" + b"x" * FILE_BYTES + b"\n",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_10_mb_row_is_one_line(tmp_path: Path, reader: str) -> None:
    with pytest.raises(DataError, match="row of more than 1,000,000 bytes") as error:
        read_rows(tmp_path, reader, LONG_ROWS[reader])
    assert re.search(r"(:[23]|row 2): ", str(error.value))
    assert len(str(error.value)) < 300


@pytest.mark.slow
def test_a_row_of_many_lines_is_long_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 1,000,000"):
        read_rows(tmp_path, "csv", b"a,b\n1,2\n1," + b",".join([b'"' + b"x\n" * 200_000 + b'"'] * 3) + b"\n")


@pytest.mark.parametrize("reader", READERS)
def test_the_limit_can_be_raised(tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_MAX_ROW_BYTES", "20000000")
    assert len(read_rows(tmp_path, reader, LONG_ROWS[reader])) == 2
    monkeypatch.setenv("FIGEVAL_MAX_ROW_BYTES", "20 MB")
    with pytest.raises(DataError, match="set it to a number"):
        read_rows(tmp_path, reader, LONG_ROWS[reader])


@pytest.mark.parametrize("reader", ["jsonl", "json"])
def test_deep_nesting_is_an_error_and_no_crash(tmp_path: Path, reader: str) -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        read_rows(tmp_path, reader, b"[" * 100_000)


# In a process of its own: threads that other tests have left behind allocate, too.
PEAK = """
import sys, tracemalloc
from pathlib import Path
from figeval import DataContext
from figeval.testing import harness

reader, folder, rows = harness().readers.get(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
tracemalloc.start()
assert sum(1 for _ in reader("data", DataContext(folder=folder, fetch=None))) == rows
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["jsonl", "csv", "tsv"])
def test_memory_is_flat_in_the_size_of_the_file(tmp_path: Path, reader: str) -> None:
    row = {"jsonl": '{"text": "%s"}\n', "csv": "%s\n", "tsv": "%s\n"}[reader] % ("word " * 40)
    peaks = []
    for times in (2_000, 20_000):
        (tmp_path / "data").write_text(("" if reader == "jsonl" else "text\n") + row * times)
        command = [sys.executable, "-c", PEAK, reader, str(tmp_path), str(times)]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert peaks[1] < peaks[0] * 1.15


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("reader", "content"), [("jsonl", b"[1, 2]\n" + b'{"a": 1}\n' * 9), ("csv", b"a,b\n1\n" + b"1,2\n" * 9)]
)
def test_a_refused_row_leaves_no_file_open(tmp_path: Path, reader: str, content: bytes) -> None:
    with pytest.raises(DataError) as raised:  # as long as the error is kept, so are the frames of its traceback
        read_rows(tmp_path, reader, content)
    opened = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    assert str(tmp_path / f"data.{reader}") not in opened
    assert raised.traceback


def test_a_first_row_comes_before_a_later_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b'{"a": 1}\nbroken')
    rows = READERS["jsonl"]("data", DataContext(folder=tmp_path, fetch=no_fetch))
    assert next(rows) == {"a": 1}


@given(reader=st.sampled_from(sorted(READERS)), content=st.binary(max_size=200))
def test_any_bytes_give_rows_or_a_data_error(reader: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = read_rows(Path(folder), reader, content)
        except DataError as error:
            assert "\n" not in str(error)
        else:
            assert all(isinstance(row, dict) for row in rows)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(rows=st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=5))
def test_what_json_writes_is_read_back(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        assert read_rows(Path(folder), "jsonl", lines.encode()) == rows
        assert read_rows(Path(folder), "json", json.dumps(rows).encode()) == rows


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@given(
    rows=st.lists(st.tuples(cells, cells), max_size=5),
    dialect=st.sampled_from(["csv", "tsv"]),
    ending=st.sampled_from([("\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_MINIMAL), ("\r", csv.QUOTE_ALL)]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_what_a_spreadsheet_writes_is_read_back(
    rows: list[tuple[str, str]], dialect: str, ending: tuple[str, Any], encoding: str
) -> None:
    buffer = io.StringIO(newline="")
    name, (end, quoting) = "excel" if dialect == "csv" else "excel-tab", ending  # a lone \r leaves \n unquoted
    writer = csv.writer(buffer, dialect=name, quoting=quoting, lineterminator=end)
    writer.writerows([("left", "right"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        rows_read = read_rows(Path(folder), dialect, buffer.getvalue().encode(encoding))
    assert rows_read == [{"left": left, "right": right} for left, right in rows if left.strip() or right.strip()]
