"""`figeval data`, through the command line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from figeval import DataError, UnknownName
from figeval.cli.data import data
from figeval.data import sources
from figeval.data.sources import Source, Sources
from figeval.registry import Registry

BODY = b"our own words\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of two files, both in a mirror folder; upstream is a closed port."""
    catalogue: Registry[Sources] = Registry("benchmark", "figeval data ls")
    sha256 = hashlib.sha256(BODY).hexdigest()
    files = tuple(
        Source(path=path, url=f"http://127.0.0.1:9/{path}", sha256=sha256, bytes=len(BODY))
        for path in ("one.txt", "sub/two.txt")
    )
    catalogue.add("bench", Sources(licence="CC0", homepage="https://example.org", citation="-", files=files), "test")
    monkeypatch.setattr(sources, "catalogue", lambda: catalogue)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "mirror" / "bench"
    (folder / "sub").mkdir(parents=True)
    for source in files:
        (folder / source.path).write_bytes(BODY)
    return folder


def call(*arguments: str) -> Result:
    return CliRunner().invoke(data, list(arguments))


def listing(*arguments: str) -> list[dict[str, Any]]:
    result = call("ls", "--json", *arguments)
    assert result.exit_code == 0, result.output
    files: list[dict[str, Any]] = json.loads(result.output)
    return files


def test_ls_tells_states_and_licence(bench: Path) -> None:
    (bench / "one.txt").unlink()
    result = call("ls")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "bench: 2 files, 0.0 MB, licence CC0, https://example.org"
    assert [line.split() for line in lines[1:]] == [["missing", "14", "one.txt"], ["mirror", "14", "sub/two.txt"]]


def test_ls_json_has_what_a_script_needs(bench: Path) -> None:
    first, second = listing("bench")
    assert first == {
        "benchmark": "bench",
        "path": "one.txt",
        "state": "mirror",
        "location": str(bench / "one.txt"),
        "bytes": len(BODY),
        "sha256": hashlib.sha256(BODY).hexdigest(),
        "url": "http://127.0.0.1:9/one.txt",
        "licence": "CC0",
        "origin": None,
        "fetched": None,
    }
    assert second["path"] == "sub/two.txt"


def test_path_gives_one_file_or_all(bench: Path) -> None:
    assert call("path", "bench", "sub/two.txt").output == f"{bench / 'sub/two.txt'}\n"
    assert call("path", "bench").output.splitlines() == [str(bench / "one.txt"), str(bench / "sub/two.txt")]


def test_path_of_a_missing_file_says_how_to_get_it(bench: Path) -> None:
    (bench / "one.txt").unlink()
    result = call("path", "bench", "one.txt")
    assert isinstance(result.exception, DataError)
    assert "`figeval data fetch bench`" in str(result.exception)


def test_fetch_copies_every_file_from_the_mirror_and_says_where_it_is(
    bench: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = own_home / "data" / "bench"
    result = call("fetch", "bench")
    assert result.output.splitlines() == [
        f"bench/one.txt  {cached / 'one.txt'}",
        f"bench/sub/two.txt  {cached / 'sub/two.txt'}",
    ]
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR")
    first, _ = listing("bench")
    assert (first["state"], first["origin"]) == ("cached", str(bench / "one.txt"))
    assert call("fetch", "bench").output == result.output


def test_fetch_without_network_fails_in_one_line(bench: Path) -> None:
    (bench / "one.txt").unlink()
    result = call("fetch")
    assert isinstance(result.exception, DataError)
    assert "cannot be downloaded" in str(result.exception)


def test_verify_passes_fails_and_says_what_to_do(bench: Path) -> None:
    assert call("verify").output.splitlines()[-1] == "2 mirror"
    (bench / "one.txt").write_bytes(b"edited")
    result = call("verify")
    assert "corrupt bench/one.txt" in result.output
    assert isinstance(result.exception, DataError)
    assert "1 of 2 files" in str(result.exception)
    assert "`figeval data fetch --force bench`" in str(result.exception)


def test_verify_minds_missing_files_only_of_named_benchmarks(bench: Path) -> None:
    (bench / "one.txt").unlink()
    assert call("verify").exit_code == 0
    assert isinstance(call("verify", "bench").exception, DataError)


@pytest.mark.parametrize("command", ["ls", "fetch", "verify", "path"])
def test_an_unknown_benchmark_gets_near_names(bench: Path, command: str) -> None:
    result = call(command, "bensh")
    assert isinstance(result.exception, UnknownName)
    assert "did you mean 'bench'" in str(result.exception)


def test_real_data_verifies(real_data: str) -> None:
    result = call("verify", "epic", "impli", "glove")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] in ("25 mirror", "25 cached")
