"""Parquet and Arrow → rows: the same as of other formats, what values become, and what is refused in one line."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataContext, DataError
from figeval.testing import harness

ROWS = [{"id": f"F{number:03}", "n": number, "text": "a moral"} for number in range(600)]


def read_rows(address: str, folder: Path) -> list[Mapping[str, Any]]:
    scheme, _, path = address.partition(":")
    return list(harness().readers.get(scheme)(path, DataContext(folder=folder, fetch=lambda *_: folder)))


def write_stream(file: Path | io.BytesIO, table: pa.Table) -> None:
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def write_file(file: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "parquet:a.parquet": lambda file, table: pq.write_table(table, file),
    "parquet:groups.parquet": lambda file, table: pq.write_table(table, file, row_group_size=7, compression="zstd"),
    "arrow:stream.arrow": write_stream,
    "arrow:file.arrow": write_file,
    "arrow:a.feather": lambda file, table: pa.feather.write_feather(table, file, compression="lz4"),
}


@pytest.mark.parametrize("address", WRITERS)
def test_rows_are_those_that_were_written(address: str, tmp_path: Path) -> None:
    WRITERS[address](tmp_path / address.partition(":")[2], pa.Table.from_pylist(ROWS))
    assert read_rows(address, tmp_path) == ROWS


@pytest.mark.slow
def test_a_folder_of_save_to_disk(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict, disable_progress_bars

    disable_progress_bars()
    saved = Dataset.from_list(ROWS)
    saved.save_to_disk(tmp_path / "one", num_shards=3)
    DatasetDict({"train": saved, "test": saved.select([2, 0])}).save_to_disk(tmp_path / "several")
    assert read_rows("arrow:one", tmp_path) == ROWS
    assert read_rows("arrow:several/test", tmp_path) == [ROWS[2], ROWS[0]]
    with pytest.raises(DataError, match="has the splits train, test; name one, such as arrow:several/train"):
        read_rows("arrow:several", tmp_path)
    (tmp_path / "one" / "data-00001-of-00003.arrow").unlink()
    with pytest.raises(DataError, match=r"data-00001-of-00003\.arrow is missing; copy the folder again"):
        read_rows("arrow:one", tmp_path)


def test_values_are_those_of_json(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 31, 12, 30)
    values: dict[str, pa.Array] = {
        "kind": pa.array(["idiom", None]).dictionary_encode(),
        "list": pa.array([[1, None], []]),
        "struct": pa.array([{"left": "a", "right": [True]}, None]),
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.00")]),
        "day": pa.array([moment.date(), None]),
        "moment": pa.array([moment, moment.replace(hour=0, minute=0)]),
        "zone": pa.array([moment, None], pa.timestamp("ms", "UTC")),
        "float": pa.array([0.5, float("nan")]),
        "bytes": pa.array([b"caf\xc3\xa9", b"\x89PNG\xff"]),
        "large": pa.array(["x", "y"], pa.large_string()),
    }
    pq.write_table(pa.table(values), tmp_path / "a.parquet")
    first, second = read_rows("parquet:a.parquet", tmp_path)
    assert first == {
        "kind": "idiom",
        "list": [1, None],
        "struct": {"left": "a", "right": [True]},
        "map": {"a": 1},
        "decimal": 1.5,
        "day": "2024-01-31",
        "moment": "2024-01-31 12:30:00",
        "zone": "2024-01-31 12:30:00+00:00",
        "float": 0.5,
        "bytes": "café",
        "large": "x",
    }
    rest = {"decimal": 2, "moment": "2024-01-31", "large": "y", "list": [], "map": {}}
    assert second == dict.fromkeys(values) | rest
    json.dumps([first, second], allow_nan=False)


def saved_bytes(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


PARQUET = saved_bytes(pa.Table.from_pylist(ROWS[:3]))
REFUSED = {
    "parquet:cut.parquet": (PARQUET[:-5], "cut.parquet cannot be read as Parquet ("),
    "parquet:a.csv": (b"id,label\n", "a.csv cannot be read as Parquet ("),
    "parquet:empty.parquet": (b"", "empty.parquet cannot be read as Parquet ("),
    "arrow:a.arrow": (b"ARROW1\0\0", "a.arrow cannot be read as Arrow ("),
    "arrow:text.arrow": (b"id,label\n", "text.arrow cannot be read as Arrow ("),
    "csv:a.parquet": (PARQUET, "a.parquet is a Parquet file; read it with parquet:"),
    "parquet:twice.parquet": (
        saved_bytes(pa.table([pa.array([1]), pa.array([2])], names=["id", "id"])),
        "column 'id' is named twice",
    ),
    "parquet:long.parquet": (saved_bytes(pa.table({"id": ["a", "b" * 1_000_001]})), "row 2: a row of more than 1,000"),
    "parquet:notutf8.parquet": (
        saved_bytes(pa.table({"id": pa.array([b"\xff"]).view(pa.string())})),
        "notutf8.parquet cannot be read as Parquet (",
    ),
}


@pytest.mark.parametrize("address", REFUSED)
def test_refused(address: str, tmp_path: Path) -> None:
    content, message = REFUSED[address]
    (tmp_path / address.partition(":")[2]).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_rows(address, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.data.archives.RATIO_FROM_BYTES", 1 << 17)
    pq.write_table(
        pa.table({"id": ["x" * 999_000] * 20}), tmp_path / "a.parquet", use_dictionary=False, compression="zstd"
    )
    with pytest.raises(DataError, match=r"unpacks to more than [\d,]+ bytes"):
        read_rows("parquet:a.parquet", tmp_path)


MANY_ROWS = 1 << 30
OVERLAPPING = pa.ListViewArray.from_arrays([0] * 4, [1 << 20] * 4, pa.array([0] * (1 << 20), pa.int8()))
BOMBS = {
    "nulls in a list": pa.ListArray.from_arrays(pa.array([0, MANY_ROWS], pa.int32()), pa.nulls(MANY_ROWS)),
    "nulls in lists of one size": pa.FixedSizeListArray.from_arrays(pa.nulls(MANY_ROWS), MANY_ROWS),
    "overlapping lists": pa.ListViewArray.from_arrays([0], [4], OVERLAPPING),
    "a text for each run": pa.ListArray.from_arrays(
        pa.array([0, MANY_ROWS], pa.int32()),
        pa.RunEndEncodedArray.from_arrays(pa.array([MANY_ROWS], pa.int32()), ["x"]),
    ),
    "a text in a dictionary": pa.ListArray.from_arrays(
        [0, 100], pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int8()), ["x" * 900_000])
    ),
    "entries of maps": pa.MapArray.from_arrays(
        [0, 1 << 23], pa.nulls(1 << 23, pa.int8()).fill_null(0), pa.nulls(1 << 23)
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_row_that_is_small_in_memory_only_is_refused(kind: str, tmp_path: Path) -> None:
    write_file(tmp_path / "a.arrow", pa.table({"id": BOMBS[kind]}))
    with pytest.raises(DataError, match=r"row 1: a row of more than 1,000,000 bytes"):
        read_rows("arrow:a.arrow", tmp_path)


def test_buffers_of_arrow_are_not_unpacked_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.data.archives.RATIO_FROM_BYTES", 1 << 17)
    table = pa.table({"n": pa.array([0] * 1_000_000, pa.int64())})
    for number, new in enumerate((pa.ipc.new_file, pa.ipc.new_stream)):
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with new(tmp_path / f"{number}.arrow", table.schema, options=options) as writer:
            writer.write_table(table)
        with pytest.raises(DataError, match=r"unpacks to more than [\d,]+ bytes"):
            read_rows(f"arrow:{number}.arrow", tmp_path)


def test_rows_of_many_long_texts_are_read_in_parts(tmp_path: Path) -> None:
    rows = [{"id": number, "text": f"{number:03}" * 90_000} for number in range(40)]
    table = pa.Table.from_pylist(rows)
    write_file(tmp_path / "a.arrow", table)
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_rows("arrow:a.arrow", tmp_path) == read_rows("parquet:a.parquet", tmp_path) == rows


def saved_stream() -> bytes:
    buffer = io.BytesIO()
    rows = [{"id": "F1", "list": ["a", "b"], "struct": {"n": 1}}, {"id": None, "list": [], "struct": None}]
    write_stream(buffer, pa.Table.from_pylist(rows).append_column("kind", pa.array(["x", "y"]).dictionary_encode()))
    return buffer.getvalue()


ARROW = saved_stream()


@given(offset=st.integers(0, len(ARROW)), put=st.binary(max_size=4), cut=st.integers(0, 4))
def test_a_damaged_arrow_file_gives_rows_or_is_refused(offset: int, put: bytes, cut: int) -> None:
    with tempfile.TemporaryDirectory() as name, suppress(DataError):
        (Path(name) / "a.arrow").write_bytes(ARROW[:offset] + put + ARROW[offset + cut :])
        read_rows("arrow:a.arrow", Path(name))


@given(offset=st.integers(0, len(PARQUET)), put=st.binary(max_size=4), cut=st.integers(0, 4))
def test_a_damaged_file_gives_rows_or_is_refused(offset: int, put: bytes, cut: int) -> None:
    with tempfile.TemporaryDirectory() as name, suppress(DataError):
        (Path(name) / "a.parquet").write_bytes(PARQUET[:offset] + put + PARQUET[offset + cut :])
        read_rows("parquet:a.parquet", Path(name))
