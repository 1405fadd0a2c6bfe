"""What is kept of measured runs: enough to compare and to break down, no texts, little room."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import figeval
from bench import measure
from figeval import RecordError
from tests.cli.conftest import Cli
from tests.finished_runs import finished


@pytest.fixture
def packed_runs(tmp_path: Path) -> Path:
    """Two runs on mini, as `results/measured` keeps them."""
    for model in ("overlap", "random"):
        run = finished(tmp_path / "runs" / model, "mini_pairs", "mini_alignment", model=model)
        measure.keep(run, tmp_path / "kept" / model)
    return tmp_path / "kept"


def test_rows_are_packed_without_scores_and_texts(packed_runs: Path) -> None:
    folder = packed_runs / "overlap" / "predictions"
    assert sorted(file.name for file in folder.iterdir()) == ["mini_alignment.jsonl.gz", "mini_pairs.jsonl.gz"]
    with gzip.open(folder / "mini_pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 60
    assert {key for row in rows for key in row} == {*measure.KEPT_FIELDS} - {"language"}  # these tasks have one


def test_the_same_rows_give_the_same_bytes(packed_runs: Path, tmp_path: Path) -> None:
    measure.keep(tmp_path / "runs" / "overlap", tmp_path / "again")
    for file in sorted((packed_runs / "overlap" / "predictions").iterdir()):
        assert (tmp_path / "again" / "predictions" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.wing("comparison")
def test_they_are_compared_and_broken_down_as_the_runs_themselves(packed_runs: Path, tmp_path: Path, cli: Cli) -> None:
    for command, *names in (
        ["compare", "overlap", "random"],
        ["show", "overlap", "--by", "idiom"],
        ["export", "random", "--to", "csv"],
    ):
        outputs = []
        for folder in (tmp_path / "runs", packed_runs):
            done = cli(command, *(str(folder / name) if name in ("overlap", "random") else name for name in names))
            assert done.code == 0, done.err
            outputs.append(done.out.replace(str(folder), "PLACE"))
        assert outputs[0] == outputs[1]


def test_changed_or_torn_predictions_are_refused(packed_runs: Path) -> None:
    file = packed_runs / "overlap" / "predictions" / "mini_pairs.jsonl.gz"
    archive = file.read_bytes()
    rows = gzip.decompress(archive)
    file.write_bytes(gzip.compress(rows.replace(b'"acc":0.0', b'"acc":1.0')))
    with pytest.raises(RecordError, match="has been changed since mini_pairs was scored"):
        figeval.load(packed_runs / "overlap").by("idiom")
    for broken in (archive[:-20], b"no gzip", archive[:40] + b"\0" * 40 + archive[80:]):
        file.write_bytes(broken)
        with pytest.raises(RecordError, match=r"mini_pairs\.jsonl\.gz") as caught:
            list(figeval.load(packed_runs / "overlap").rows("mini_pairs"))
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_an_archive_that_holds_too_much_is_refused(packed_runs: Path) -> None:
    file = packed_runs / "overlap" / "predictions" / "mini_pairs.jsonl.gz"
    file.write_bytes(gzip.compress(random.Random(0).randbytes(6 << 20)) + 513 * gzip.compress(bytes(1 << 20)))
    with pytest.raises(RecordError, match=r"holds more than 536,870,912 bytes; gunzip it"):
        figeval.load(packed_runs / "overlap").by("idiom")


def test_an_archive_that_expands_like_no_predictions_is_refused(packed_runs: Path) -> None:
    """Gigabytes of zeros are megabytes of gzip."""
    (packed_runs / "overlap" / "predictions" / "mini_pairs.jsonl.gz").write_bytes(gzip.compress(b"[]\n" * (6 << 20)))
    with pytest.raises(RecordError, match=r"holds more than 16,777,216 bytes; gunzip it"):
        figeval.load(packed_runs / "overlap").by("idiom")


def test_rows_without_examples_are_refused(packed_runs: Path) -> None:
    """Readers keep the rows in memory, so their number is bounded by the record."""
    file = packed_runs / "overlap" / "predictions" / "mini_pairs.jsonl.gz"
    rows = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(rows + rows.splitlines(keepends=True)[0].replace(b'"id":"', b'"id":"x')))
    remove_digests(packed_runs / "overlap")
    with pytest.raises(RecordError, match="has more rows than mini_pairs has examples"):
        figeval.load(packed_runs / "overlap").by("idiom")


def remove_digests(folder: Path) -> None:
    """Make the record one of rows that were changed on purpose."""
    content = json.loads((folder / "run.json").read_text("utf-8"))
    for task in content["tasks"]:
        task["predictions_sha256"] = None
    (folder / "run.json").write_text(json.dumps(content), "utf-8")


def test_a_long_line_is_refused(packed_runs: Path) -> None:
    remove_digests(packed_runs / "overlap")
    file = packed_runs / "overlap" / "predictions" / "mini_pairs.jsonl.gz"
    file.write_bytes(gzip.compress(b"[" * (1 << 22) + b"\n"))
    with pytest.raises(RecordError, match="line 1, is larger than 4,194,304 bytes"):
        list(figeval.load(packed_runs / "overlap").rows("mini_pairs"))


def test_a_text_in_meta_is_not_kept(tmp_path: Path) -> None:
    row = dict.fromkeys(measure.KEPT_FIELDS) | {"id": "1", "pred": 0, "meta": {"premise": "a whole sentence " * 9}}
    with pytest.raises(SystemExit, match="meta column 'premise' has 153 characters"):
        measure.slim(row)
    assert measure.slim({**row, "meta": {}, "pred": "once upon a time " * 9})["pred"] is None


def test_what_is_kept_takes_little_room_and_holds_what_the_pages_need() -> None:
    files = [file for file in measure.MEASURED.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= measure.MAX_BYTES
    assert {file.suffix for file in files} <= {".json", ".jsonl", ".md", ".gz"}
    for run in (*measure.RUNS, "minilm-pipelined"):
        if run != "demo":
            assert (measure.MEASURED / run / "run.json").is_file(), run


@pytest.mark.wing("comparison")
def test_compare_needs_predictions_packed_or_not(packed_runs: Path) -> None:
    from tests.finished_runs import compare_runs

    assert compare_runs(packed_runs / "overlap", packed_runs / "random", "acc").tasks
