"""Answers on disk: together with their price or not at all, whoever else writes, whenever it is killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from figeval import RecordError
from figeval.builtin.plugins.api.archive import PaidAnswer, Usage, open_archive

WRITER = """
import sys
from pathlib import Path
from figeval.builtin.plugins.api.archive import PaidAnswer, Usage, open_archive
file, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with open_archive(file) as archive:
    for number in range(n):
        archive.record("run", [PaidAnswer(Usage(2, 1), f"{name}{number}", "an answer")])
"""


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "answers.sqlite3"
    with open_archive(file) as archive:
        assert archive.spent("run") == Usage()
        entries = [PaidAnswer(Usage(3, 2), "a", "A"), PaidAnswer(Usage(1, 0)), PaidAnswer(Usage(10, 10), "b", None)]
        assert archive.record("run", entries) == Usage(14, 12)
        assert archive.record("run", [PaidAnswer(Usage(1, 1), "a", "another")]) == Usage(15, 13)
        archive.record("other", [PaidAnswer(Usage(5, 5), "c", "C")])
    with open_archive(file) as archive:
        assert archive.known(["a", "b", "c", "d"]) == {"a": "another", "c": "C"}
        assert (archive.spent("run"), archive.spent("other")) == (Usage(15, 13), Usage(5, 5))
    assert file.parent.stat().st_mode & 0o077 == 0


def test_more_keys_than_one_query_takes(tmp_path: Path) -> None:
    keys = [f"key {number}" for number in range(1700)]
    with open_archive(tmp_path / "a") as archive:
        archive.record("run", [PaidAnswer(Usage(), key, key.upper()) for key in keys])
        assert archive.known([*keys, "none"]) == {key: key.upper() for key in keys}
        assert archive.known([]) == {}


def test_several_processes_write_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "a"
    commands = [[sys.executable, "-c", WRITER, str(file), name, "15"] for name in "abc"]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    with open_archive(file) as archive:
        assert len(archive.known(f"{name}{number}" for name in "abc" for number in range(15))) == 45
        assert archive.spent("run") == Usage(90, 45)


@pytest.mark.slow
def test_a_kill_loses_neither_answers_nor_prices(tmp_path: Path) -> None:
    file = tmp_path / "a"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(file), "x", "100000"])
    while not has_spent(file):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open_archive(file) as archive:
        known_count = len(archive.known(f"x{number}" for number in range(100_000)))
        assert known_count
        assert archive.spent("run") == Usage(2 * known_count, known_count)


def has_spent(file: Path) -> bool:
    if not file.exists():
        return False
    with open_archive(file) as archive:
        return archive.spent("run") != Usage()


def test_an_entry_that_cannot_be_written_leaves_the_account_alone(tmp_path: Path) -> None:
    with open_archive(tmp_path / "a") as archive:
        with pytest.raises(sqlite3.Error):
            archive.record("run", [PaidAnswer(Usage(1, 1), "a", "A"), PaidAnswer(Usage(1, 1), "b", object())])  # type: ignore[arg-type]
        assert archive.spent("run") == Usage()
        assert archive.known(["a"]) == {}


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no database" * 200)
    cure = "delete it if it is damaged, or set FIGEVAL_HOME to another folder"
    with pytest.raises(RecordError, match=cure), open_archive(tmp_path / "a"):
        raise AssertionError("it must not open")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cure = r"cannot make .*; free some space there or set FIGEVAL_HOME"
    with pytest.raises(RecordError, match=cure), open_archive(tmp_path / "file" / "a"):
        raise AssertionError("it must not open")
