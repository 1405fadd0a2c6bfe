"""Whether rows are on this machine, found out without downloading or parsing an upstream file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from figeval import DataContext, DataError
from figeval.data import Row
from figeval.data.readers import Opener, availability, read
from figeval.registry import Registry
from tests.data.loopback import Site

BODY = b"rows\n"


def readers(opener: Opener) -> Registry[Opener]:
    registry: Registry[Opener] = Registry("data scheme", "figeval ls plugins")
    registry.add("bench", opener, "test")
    return registry


def read_fetched(path: str, context: DataContext) -> Iterator[Row]:
    """Handles whatever goes wrong with the file, as a reader may."""
    try:
        context.fetch("bench", path).read_text()
    except Exception:
        return
    raise AssertionError("the file was handed out")


def read_copy(path: str, context: DataContext) -> Iterator[Row]:
    """Rows of a user's own copy."""
    for folder in context.copies("bench"):
        if (folder / path).is_file():
            yield {"id": "1"}
            raise AssertionError("read behind the first row")
    raise DataError("there is no copy")


def test_an_upstream_file_is_looked_for_and_neither_read_nor_fetched(
    site: Site, list_files: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file counts as there: whether it is whole is seen when it is read."""
    list_files(site.file("file.txt", BODY))
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", f"{tmp_path},{site.url}")
    assert availability("bench:file.txt", tmp_path, readers(read_fetched)) == "to be fetched"
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.txt").write_text("damaged")
    assert availability("bench:file.txt", tmp_path, readers(read_fetched)) == "here"
    assert availability("bench:other.txt", tmp_path, readers(read_fetched)) == "cannot be read"
    assert site.requests == []


def test_a_copy_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR", raising=False)
    monkeypatch.delenv("FIGEVAL_DATA_COPIES", raising=False)
    assert availability("bench:file.txt", tmp_path, readers(read_copy)) == "needs your copy"
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"bench={tmp_path}")
    assert availability("bench:file.txt", tmp_path, readers(read_copy)) == "needs your copy"
    (tmp_path / "file.txt").write_text("")
    assert availability("bench:file.txt", tmp_path, readers(read_copy)) == "here"


@pytest.mark.parametrize("reference", ["nobody:file.txt", "file.txt", "jsonl:file.jsonl"])
def test_what_no_reader_can_read(reference: str, tmp_path: Path) -> None:
    from figeval.data.row_files import open_jsonl

    registry = readers(read_fetched)
    registry.add("jsonl", open_jsonl, "test")
    assert availability(reference, tmp_path, registry) == "cannot be read"
    (tmp_path / "file.jsonl").write_text('{"id": "1"}\n')
    assert availability("jsonl:file.jsonl", tmp_path, registry) == "here"


@pytest.mark.parametrize("ending", ["bench", "BENCH", "txt"])
def test_data_without_a_scheme_get_the_one_of_their_ending(ending: str, tmp_path: Path) -> None:
    likely = "jsonl" if ending == "txt" else "bench"
    context = DataContext(folder=tmp_path, fetch=lambda *_: pytest.fail("the file was fetched"))
    with pytest.raises(DataError, match=f"write, for example, '{likely}:rows.{ending}'"):
        read(f"rows.{ending}", context, readers(read_fetched))
