"""The folder of a run survives kills, full disks and the curious, and refuses what it cannot understand."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import PluginError, RecordError, RunRecord
from figeval.io.text import clean_json, valid
from figeval.records.ids import Ids, digest_of, digests_of, find_repeated
from figeval.records.run_folder import RunFolder, find_record, read_record
from tests.finished_runs import row

RECORD = RunRecord(
    identity="0123abcd",
    status="running",
    started="2026-01-31T23:59:59Z",
    command=["run"],
    config={"model": "random", "tasks": ["t"]},
    model={"name": "random", "backend": "random"},
    provenance={},
)
TEXTS = st.text() | st.sampled_from(["谚语", "a\nb\r\n\u2028\x85c", "\ud800", '"\\', "\x00", "😀" * 40])
ROWS = st.lists(
    st.builds(lambda name, metrics: row(name, metrics=metrics), TEXTS, st.dictionaries(TEXTS, st.floats(0, 1))),
    max_size=6,
    unique_by=lambda row: row["id"],
)


def write(folder: RunFolder, rows: list[dict]) -> None:
    folder.predictions_file("t").parent.mkdir(parents=True, exist_ok=True)
    with folder.appending("t") as writer:
        for row in rows:
            writer.write(row)


# ---- predictions ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(rows=ROWS)
def test_rows_come_back_as_they_were_written(rows: list[dict], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    write(folder, rows)
    assert list(folder.rows("t")) == clean_json(rows, valid)


@pytest.mark.slow
@given(rows=ROWS, later_rows=ROWS, data=st.data())
def test_a_cut_anywhere_keeps_the_whole_lines_and_goes_on_after_them(
    rows: list[dict], later_rows: list[dict], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    write(folder, rows)
    file = folder.predictions_file("t")
    content = file.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    file.write_bytes(content[:cut])
    whole_rows = clean_json(rows, valid)[: content[:cut].count(b"\n")]
    assert list(folder.rows("t")) == whole_rows
    new_rows = [row for row in clean_json(later_rows, valid) if row["id"] not in {row["id"] for row in whole_rows}]
    write(folder, new_rows)
    assert list(folder.rows("t")) == whole_rows + new_rows


def test_a_torn_line_longer_than_a_block_is_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write(folder, [row("1")])
    with folder.predictions_file("t").open("ab") as stream:
        stream.write(b"x" * 200_000)
    write(folder, [row("2")])
    assert [row["id"] for row in folder.rows("t")] == ["1", "2"]


def test_a_task_without_predictions_has_no_rows(tmp_path: Path) -> None:
    assert not list(RunFolder(tmp_path).rows("t"))


@pytest.mark.parametrize("line", [b"{broken}\n", b"\xff\xfe\n", b"[1, 2]\n", b"{}\n", b"\x00\x00\n"])
def test_a_damaged_line_is_named(line: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write(folder, [row("1")])
    with folder.predictions_file("t").open("ab") as stream:
        stream.write(line)
    with pytest.raises(RecordError, match=r"t\.jsonl, line 2, is not a valid prediction .*delete that line"):
        list(folder.rows("t"))


def test_what_json_does_not_know_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"the row of example '1' cannot be stored .*not JSON compliant"):
        write(RunFolder(tmp_path), [row("1", metrics={"acc": float("nan")})])


def test_rows_are_taken_out_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    rows = [row(str(number), status="error" if number % 3 else "ok", raw="…\n") for number in range(7)]
    assert folder.drop("t", lambda row: True) == 0  # no file
    write(folder, rows)
    file = folder.predictions_file("t")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines) + b'{"id": "torn')
    assert folder.drop("t", lambda row: row["status"] == "error") == 4
    assert file.read_bytes() == b"".join(lines[::3])
    before = file.stat().st_ino
    assert folder.drop("t", lambda row: row["status"] == "error") == 0
    assert file.stat().st_ino == before, "nothing to drop, nothing to write"


def test_rows_are_put_in_order(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.arrange("t", digests_of(["1"]))  # no file
    write(folder, [row(name) for name in "24531"])
    folder.arrange("t", digests_of("12345"))
    assert [row["id"] for row in folder.rows("t")] == list("12345")
    before = folder.predictions_file("t").stat().st_ino
    folder.arrange("t", digests_of("12345"))
    assert folder.predictions_file("t").stat().st_ino == before


def test_rows_of_other_folders_are_taken_in_once(tmp_path: Path) -> None:
    folder, *other_folders = (RunFolder(tmp_path / name) for name in "abc")
    write(folder, [row("3", cluster="a")])
    write(other_folders[0], [row("2", cluster="b"), row("4", cluster="b")])
    write(other_folders[1], [row("1", cluster="c"), row("3", cluster="c")])
    with other_folders[0].predictions_file("t").open("a") as file:
        file.write('{"id": "5", "of')
    assert folder.arrange("t", digests_of("12345"), other_folders) == 4
    assert [(row["id"], row["cluster"]) for row in folder.rows("t")] == [("1", "c"), ("2", "b"), ("3", "a"), ("4", "b")]


def test_no_room_for_a_smaller_file_leaves_the_larger_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    write(folder, [row("1"), row("2")])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(RecordError, match="no space left for"):
        patch.setattr("os.fsync", full)
        folder.drop("t", lambda row: row["id"] == "1")
    assert [row["id"] for row in folder.rows("t")] == ["1", "2"]
    assert [file.name for file in folder.predictions_file("t").parent.iterdir()] == ["t.jsonl"]


def test_a_draft_is_no_file_of_the_users(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write(folder, [row("1"), row("2")])
    (tmp_path / "predictions" / "t.jsonl.part").write_text("mine")
    folder.drop("t", lambda row: row["id"] == "1")
    assert (tmp_path / "predictions" / "t.jsonl.part").read_text() == "mine"


WRITER = """
import resource, sys
from pathlib import Path
from figeval.records.run_folder import RunFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
sys.dont_write_bytecode = True  # Python would cut off the file of a large module, too
folder = RunFolder(Path(sys.argv[1]))
with folder.locked(), folder.appending("t") as writer:
    for number in range(1000):
        row = {"id": str(number), "status": "ok", "pred": 0, "gold": 0, "tied": 1, "truncated": False, "metrics": {}}
        writer.write({**row, "cluster": None, "group": None, "meta": {}})
"""


def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, tmp_path], capture_output=True, text=True, check=False)
    assert "RecordError: no space left for" in done.stderr
    assert "what was written is kept" in done.stderr
    folder = RunFolder(tmp_path)
    stored_ids = [row["id"] for row in folder.rows("t")]
    assert stored_ids == [str(number) for number in range(len(stored_ids))]
    assert 30 < len(stored_ids) < 50
    write(folder, [row("next")])
    assert [row["id"] for row in folder.rows("t")] == [*stored_ids, "next"]


# ---- the folder -----------------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from figeval.records.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_the_lock_ends_with_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with (
            pytest.raises(RecordError, match="another figeval run is writing to this folder"),
            RunFolder(tmp_path).locked(),
        ):
            pass
        holder.kill()
    with RunFolder(tmp_path).locked():
        pass


def test_a_place_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = RunFolder(tmp_path / "file" / "run")
    with pytest.raises(RecordError, match=r"cannot write .*choose another place with --output_path"), folder.locked():
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RecordError, match=r"Permission denied.*--output_path"), RunFolder(tmp_path / "run").locked():
        pass


# ---- run.json -------------------------------------------------------------------------------------------------------


def test_a_record_comes_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read() is None
    folder.write(RECORD)
    assert folder.read() == RECORD


def test_a_kill_while_writing_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.write(RECORD)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        folder.write(RECORD.model_copy(update={"status": "complete"}))
    monkeypatch.undo()
    assert folder.read() == RECORD
    folder.write(RECORD.model_copy(update={"status": "complete"}))
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"], "no draft is left"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "run.json:1: not valid JSON"),
        ("[]", "has schema version None"),
        (json.dumps({"schema_version": "3.0"}), "has schema version 3.0, but this version of figeval reads 2.5"),
        (json.dumps({**RECORD.model_dump(), "schema_version": "10.1"}), "has schema version 10.1"),
        (json.dumps({**RECORD.model_dump(), "status": "half"}), "status must be 'running'"),
        (json.dumps({**RECORD.model_dump(), "extra": 1}), "unknown key 'extra'"),
    ],
)
def test_a_file_that_is_no_record_of_ours(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RecordError) as caught:
        RunFolder(tmp_path).read()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_minor_version_is_read(tmp_path: Path) -> None:
    RunFolder(tmp_path).write(RECORD.model_copy(update={"schema_version": "1.7"}))
    assert read_record(find_record(tmp_path)).schema_version == "1.7"


def test_a_missing_record_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot be read .*give a run folder"):
        read_record(find_record(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("config", {"seed": "first"}, "config: seed must be an integer"),
        ("config", {"seed": None}, "config: seed must be an integer"),
        ("config", {"tasks": "t"}, "config: tasks must be a list"),
        ("config", {"settings": 5}, "config: settings must be a mapping"),
        ("config", {"metrics": [3]}, "config: metrics.0 must be a string"),
        ("settings", {"languages": None}, "tasks.0.settings: languages must be a list"),
        ("settings", {"languages": ["en", 3]}, "tasks.0.settings: languages.1 must be a string"),
        ("settings", {"labels": "yes"}, "tasks.0.settings: labels must be a list"),
        ("settings", {"orders": 2}, "tasks.0.settings: orders must be a string"),
        ("settings", {"verbalizer": []}, "tasks.0.settings: verbalizer must be a mapping"),
        ("settings", {"signatures": ["acc"]}, "tasks.0.settings: signatures must be a mapping"),
        ("description", {"warnings": None}, "model.description: warnings must be a list"),
        ("description", {"warnings": [{"a": 1}]}, "model.description: warnings.0 must be a string"),
        ("description", {"fell_back_because": 5}, "model.description: fell_back_because must be a string"),
        ("description", {"sampling": "x"}, "model.description: sampling must be a mapping"),
        ("description", {"about": "x"}, "model.description: about must be a mapping"),
    ],
)
def test_settings_that_were_edited_are_named(section: str, changes: dict, message: str, tmp_path: Path) -> None:
    record = json.loads(RECORD.model_dump_json())
    task = {"task": "t", "version": 1, "task_type": "choice", "route": "by_cosine", "status": "done", "n": 1}
    task |= {"available": 1, "examples_sha256": "", "predictions": "predictions/t.jsonl", "settings": {"own": [1]}}
    record["tasks"] = [task]
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert read_record(tmp_path / "run.json").tasks[0].settings == {"own": [1]}
    sections = {"config": record["config"], "settings": task["settings"], "description": record["model"]["description"]}
    sections[section].update(changes)
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(RecordError) as raised:
        read_record(tmp_path / "run.json")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


# ---- sets of ids: the same answers as lists and dicts of texts ------------------------------------------------------

NAMES = st.lists(st.text(alphabet="ab\ud800é", max_size=3))


@given(NAMES, NAMES)
def test_a_set_knows_its_ids_and_their_first_places(names: list[str], digested: list[str]) -> None:
    names = list(dict.fromkeys(names))
    ids = Ids.of(names)
    assert len(ids) == len(names)
    assert {name: ids.number(name) for name in digested} == {
        name: names.index(name) if name in names else None for name in digested
    }
    first_indices = ids.first_places(digests_of(digested)).tolist()
    assert first_indices == [digested.index(name) if name in digested else -1 for name in names]


@given(NAMES)
def test_a_repetition_is_found(names: list[str]) -> None:
    again = find_repeated(digests_of(names))
    twice = {digest_of(name) for name in names if names.count(name) > 1}
    assert again in twice if twice else again is None


def test_a_digest_that_ends_in_nul_is_found_like_any_other() -> None:
    names = [str(number) for number in range(2_000)]
    (name, *_) = [name for name in names if digest_of(name).endswith(b"\0")]
    assert Ids.of(names).number(name) == int(name)
    assert Ids.of(other for other in names if other != name).number(name) is None
