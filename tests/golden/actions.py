"""What a case does beside commands of figeval: what people do with files between two commands, and calls in Python.

`["prepare", COMMAND…]` runs a command whose outcome other cases cover. `["evaluate", EXPRESSION]` evaluates Python with
`figeval` at hand.
"""

from __future__ import annotations

import csv
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.golden.markup import page


def write(file: str, *lines: str) -> None:
    """Write a file with these lines."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def replace(file: str, old: str, new: str) -> None:
    """Replace the first occurrence of a text in a file. Raises `ValueError` if there is none."""
    text = Path(file).read_text("utf-8")
    if old not in text:
        raise ValueError(f"{file} does not contain {old!r}")
    Path(file).write_text(text.replace(old, new, 1), encoding="utf-8")


def copy(source: str, target: str) -> None:
    """Copy a file or a folder."""
    if Path(source).is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def cut_file(file: str, lines: str) -> None:
    """Leave the first lines of a file, as after a kill, and a part of the next one."""
    old_lines = Path(file).read_bytes().splitlines(keepends=True)
    after = old_lines[int(lines)][:20] if int(lines) < len(old_lines) else b""
    Path(file).write_bytes(b"".join(old_lines[: int(lines)]) + after)


def forget_digests(file: str) -> None:
    """Make the record of a run one without digests, as it was before figeval wrote them."""
    record = json.loads(Path(file).read_text("utf-8"))
    del record["digests"]
    for task in record["tasks"]:
        task["predictions_sha256"] = None
    Path(file).write_text(json.dumps(record), encoding="utf-8")


def date(file: str, day: str) -> None:
    """Make a run one of this day; boards sort runs by their times, which else may be those of one second or of two."""
    record = json.loads(Path(file).read_text("utf-8"))
    record |= {"started": f"{day}T00:00:00Z", "finished": f"{day}T00:00:01Z"}
    Path(file).write_text(json.dumps(record), encoding="utf-8")


def annotate(folder: str, sheet: str, annotator: str) -> None:
    """Fill in a sheet as an annotator who often agrees with others, skips some items and follows attention checks."""
    key = json.loads((Path(folder) / "key.json").read_text("utf-8"))
    scales = {criterion["name"]: criterion["labels"] for criterion in key["criteria"]}
    file = Path(folder) / sheet
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        checked_labels = key.get("checks", {}).get(row["item"], {})
        for criterion, labels in scales.items():
            row[criterion] = checked_labels.get(criterion) or label_of_annotator(
                row["item"], criterion, annotator, labels
            )
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def label_of_annotator(item: str, criterion: str, annotator: str, labels: list[str]) -> str:
    """Return the label that an annotator gives, in one of four cases another one than the majority would."""
    usual, other = (zlib.crc32(text.encode()) for text in (f"{item} {criterion}", f"{item} {criterion} {annotator}"))
    if other % 16 == 0:
        return ""
    return str(labels[(usual + (other // 16 % 4 == 0)) % len(labels)])


def evaluated(expression: str) -> Any:
    """Return the value of a Python expression as a frozen outcome has it."""
    import figeval

    return rendered(eval(expression, {"figeval": figeval}))  # an expression of this repository


def rendered(value: Any) -> Any:
    """Return a value as JSON: a table as its dtypes and its CSV, other objects as they are shown."""
    if hasattr(value, "to_csv") and hasattr(value, "dtypes"):
        lines = value.to_csv(index=False, float_format="%.7f", lineterminator="\n").splitlines()
        return {"dtypes": {name: str(kind) for name, kind in value.dtypes.items()}, "csv": lines}
    if isinstance(value, str):
        return value.splitlines()
    if value is None or isinstance(value, bool | int | float | list | tuple | dict):
        return json.loads(json.dumps(value, default=str))
    shown = {"str": str(value).splitlines(), "repr": repr(value)}
    return {**shown, "html": page(value._repr_html_())["lines"]} if hasattr(value, "_repr_html_") else shown


ACTIONS: dict[str, Callable[..., Any]] = {
    "write": write,
    "replace": replace,
    "copy": copy,
    "cut": cut_file,
    "date": date,
    "forget_digests": forget_digests,
    "annotate_sheet": annotate,
    "evaluate": evaluated,
}
