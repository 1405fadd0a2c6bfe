"""Rows of predictions from files and programs: whatever they hold, they are read, or refused in one line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import figeval
from figeval import FigevalError
from tests.fuzz.hostile import as_json, damaged_values, torn

SOUND_ROWS: list[dict[str, Any]] = [
    {"id": "F01", "prediction": "E", "task": "mini_fables", "seed": 1},
    {"id": "F02", "scores": [0.1, 0.2, 0.3, 0.4, 0], "task": "mini_fables", "seed": 1},
    {"id": "F03", "prediction": 3, "scores": None, "task": "mini_fables", "seed": 1},
]
MANY_EXAMPLES = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_table(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "prediction", "scores", "task", "seed"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


FILES = {
    "a.csv": as_table(SOUND_ROWS),
    "a.jsonl": b"\n".join(map(as_json, SOUND_ROWS)),
    "a.json": as_json(SOUND_ROWS),
}


def score(tmp_path: Path, predictions: Any, **options: Any) -> figeval.Run:
    """Score predictions of the first three fables."""
    options = {"limit": 3, "baselines": False, "fresh": True, **options}
    return figeval.score("mini_fables", predictions, name="x", output_path=tmp_path / "run", **options)


def check_scored_or_refused(tmp_path: Path, predictions: Any) -> None:
    """No row is taken for another answer than it says: what is scored has an option of the example as its answer."""
    try:
        run = score(tmp_path, predictions)
    except FigevalError as error:
        assert "\n" not in str(error)
        return
    for file in run.path.rglob("mini_fables.jsonl"):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            assert row["status"] in ("ok", "empty", "nan")
            assert row["pred"] in (None, 0, 1, 2, 3, 4)


@MANY_EXAMPLES
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
def test_torn_files(name: str, data: st.DataObject, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(data.draw(torn(FILES[name])))
    check_scored_or_refused(tmp_path, file)


@pytest.mark.slow
@MANY_EXAMPLES
@given(rows=damaged_values(SOUND_ROWS), form=st.sampled_from(["jsonl", "rows"]))
def test_damaged_rows_are_scored_or_refused(rows: Any, form: str, tmp_path: Path) -> None:
    if not isinstance(rows, list):
        return
    file = tmp_path / "given.jsonl"
    file.write_bytes(b"\n".join(map(as_json, rows)))
    check_scored_or_refused(tmp_path, file if form == "jsonl" else rows)


def test_rows_of_a_data_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": ["F01", "F02", "F03"],
            "prediction": pd.array([4, None, None], dtype="Int64"),
            "scores": [None, np.array([0, 1, 0, 0, 0], dtype="float32"), None],
            0: [np.int64(1), np.float32(2), None],
        }
    )
    run = score(tmp_path, frame.to_dict("records"))
    assert [(row["pred"], row["status"]) for row in run.rows("mini_fables")] == [
        (4, "ok"),
        (1, "ok"),
        (None, "empty"),
    ]


def test_long_arrays_have_digests_of_their_own(tmp_path: Path) -> None:
    @figeval.task(name="long", type="choice", labels=(), metrics=("acc",), baselines=())
    def long() -> Iterator[figeval.ChoiceExample]:
        yield figeval.ChoiceExample(id="a", query="q", options=tuple(map(str, range(5_000))), gold=0)

    first, other = np.zeros(5_000), np.zeros(5_000)
    other[2_000] = 1
    runs = [figeval.score(long, [{"id": "a", "scores": scores}], name="x") for scores in (first, other)]
    assert runs[0].path != runs[1].path
    assert runs[0].record.config["model_args"] != runs[1].record.config["model_args"]


def test_a_data_frame_is_no_list_of_rows() -> None:
    with pytest.raises(figeval.DataError, match=r"row 1 is 'id'; give mappings .* frame.to_dict"):
        figeval.score("mini_fables", pd.DataFrame({"id": ["F01"], "prediction": [0]}), name="x")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": ["F01"], "prediction": 0}, "'id' must be a text or a number, not \\['F01'\\]"),
        ({"id": None, "prediction": 0}, "'id' is empty"),
        ({"id": "F01", "prediction": 0, "seed": 1.5}, "'seed' is '1.5', not an integer"),
        ({"id": "F01", "prediction": 0, "seed": True}, "'seed' is 'True', not an integer"),
    ],
)
def test_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(figeval.DataError, match=f"^row 1: {message}"):
        score(tmp_path, [row])


def test_numbers_as_pandas_writes_them(tmp_path: Path) -> None:
    @figeval.task(name="numbered", type="choice", labels=(), metrics=("acc",), baselines=())
    def numbered() -> Iterator[figeval.ChoiceExample]:
        for name in ("7", "8"):
            yield figeval.ChoiceExample(id=name, query="q", options=("a", "b"), gold=0)

    rows = [{"id": 7.0, "prediction": 0, "seed": 2.0}, {"id": 8, "prediction": 0, "seed": "2"}]
    run = figeval.score(numbered, rows, name="x", output_path=tmp_path / "run")
    (seed,) = run.path.glob("seed-*")
    assert seed.name == "seed-2"
    assert [row["status"] for row in figeval.load(seed).rows("numbered")] == ["ok", "ok"]
