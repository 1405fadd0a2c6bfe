"""The same rows in every format: predictions, scores and sums do not depend on what the rows lay in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

import figeval
from figeval import FigevalError, GenerationExample

ROWS = [
    {"id": f"F{number}", "left": f"He spilled it {number}, and\n“left”.", "right": f"He told {number}.", "label": label}
    for number, label in enumerate(["same", "other", "other"] * 3)
]
TASK = """
name: told
type: pairs
labels: [same, other]
data: {{test: "{address}"}}
fields: {{id: row.id, left: row.left, right: row.right, label: row.label}}
"""


def write_rows(folder: Path, rows: list[dict[str, str]]) -> None:
    """Write the rows in every format, and a copy of a data set of the hub in `mirror`."""
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    csv_file, lines = table.getvalue().encode(), "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    workbook = openpyxl.Workbook()
    for cells in (["About these rows"], [], list(rows[0]), *(list(row.values()) for row in rows)):
        workbook.active.append(cells)
    workbook.active.title = "Rows"
    workbook.create_sheet("Notes").append(["nothing"])
    workbook.save(folder / "rows.xlsx")
    columns = pa.Table.from_pylist(rows)
    pq.write_table(columns, folder / "rows.parquet")
    with pa.ipc.new_stream(folder / "rows.arrow", columns.schema) as stream:
        stream.write_table(columns)
    copy = folder / "mirror" / "acme" / "told" / "data"
    copy.mkdir(parents=True)
    card = "---\nconfigs:\n- {config_name: x, data_files: [{split: test, path: data/test-*}]}\n---\n"
    (copy.parent / "README.md").write_text(card)
    pq.write_table(columns.slice(0, 4), copy / "test-00000-of-00002.parquet")
    pq.write_table(columns.slice(4), copy / "test-00001-of-00002.parquet")
    contents = {"csv": csv_file, "csv.gz": gzip.compress(csv_file), "csv.zst": zstd.compress(csv_file)}
    for suffix, content in (contents | {"jsonl": lines, "jsonl.zst": zstd.compress(lines)}).items():
        (folder / f"rows.{suffix}").write_bytes(content)


ADDRESSES = (
    "csv:rows.csv",
    "csv:rows.csv.gz",
    "csv:rows.csv.zst",
    "jsonl:rows.jsonl",
    "jsonl:rows.jsonl.zst",
    "xlsx:rows.xlsx#Rows?header=3",
    "parquet:rows.parquet",
    "arrow:rows.arrow",
    "hub:acme/told#test",
)


def test_predictions_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path, ROWS)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    outcomes = {}
    for number, address in enumerate(ADDRESSES):
        (tmp_path / "told.task.yaml").write_text(TASK.format(address=address))
        run = figeval.run(
            "told", model="overlap", include_path=[tmp_path], output_path=tmp_path / str(number), baselines=False
        )
        (file,) = (run.path / "predictions").iterdir()
        outcomes[address] = file.read_bytes(), run.record.tasks[0].examples_sha256
    assert set(outcomes.values()) == {outcomes["csv:rows.csv"]}
    assert run.record.tasks[0].settings["hub"]["files"].keys() == {
        f"data/test-0000{number}-of-00002.parquet" for number in range(2)
    }


@figeval.task(name="letters", type="generation", metrics=["length"])
def letters() -> Iterator[GenerationExample]:
    return (GenerationExample(id=row["id"], inputs={}, references=("",)) for row in ROWS)


def test_predictions_of_other_systems_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path, ROWS)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.chdir(tmp_path)
    addresses = [*ADDRESSES, "rows.xlsx#Rows?header=3", "rows.parquet", "rows.arrow", tmp_path / "rows.csv.zst"]
    predictions = set()
    for number, address in enumerate(addresses):
        run = figeval.score(
            letters, address, columns={"prediction": "right"}, output_path=tmp_path / str(number), baselines=False
        )
        (file,) = (run.path / "predictions").iterdir()
        predictions.add(file.read_bytes())
    assert len(predictions) == 1


LIBRARIES = {
    "csv:rows.csv.zst": ("backports.zstd", "pip install 'figeval[zstd]', or pack it with gzip"),
    "xlsx:rows.xlsx#Rows?header=3": ("openpyxl", "pip install 'figeval[xlsx]'"),
    "parquet:rows.parquet": ("pyarrow", "pip install 'figeval[parquet]'"),
    "arrow:rows.arrow": ("pyarrow", "pip install 'figeval[parquet]'"),
    "hub:acme/told#test": ("datasets", "pip install 'figeval[hub]'"),
}


@pytest.mark.parametrize("address", LIBRARIES)
def test_a_missing_library_is_named(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path, ROWS)
    module, cure = LIBRARIES[address]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FigevalError, match=re.escape(cure)) as caught:
        figeval.score(letters, address, columns={"prediction": "right"}, output_path=tmp_path / "run")
    assert "\n" not in str(caught.value)
