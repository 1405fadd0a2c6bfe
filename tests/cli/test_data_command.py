"""`figeval data`, through the command line."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

BODY = b"our own words\n"
PATHS = ("one.txt", "sub/two.txt")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> Path:
    """A plugin's benchmark of two files, both in a mirror folder; upstream is a closed port."""
    files = [
        {
            "path": path,
            "url": f"http://127.0.0.1:9/{path}",
            "sha256": hashlib.sha256(BODY).hexdigest(),
            "bytes": len(BODY),
        }
        for path in PATHS
    ]
    about = {"licence": "CC0", "homepage": "https://example.org", "citation": "-", "files": files}
    package = tmp_path / "plugins" / "bench"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sources.yaml").write_text(json.dumps(about))
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "bench", raising=False)
    install("bench")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "mirror" / "bench"
    (folder / "sub").mkdir(parents=True)
    for path in PATHS:
        (folder / path).write_bytes(BODY)
    return folder


def listing(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    done = cli("data", "ls", "--json", *arguments)
    assert done.code == 0, done.err
    files: list[dict[str, Any]] = json.loads(done.out)
    return files


def test_ls_tells_states_and_licence(bench: Path, cli: Cli) -> None:
    (bench / "one.txt").unlink()
    result = cli("data", "ls", "bench")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "bench: 2 files, 0.0 MB, licence CC0, https://example.org"
    assert [line.split() for line in lines[1:]] == [["missing", "14", "one.txt"], ["mirror", "14", "sub/two.txt"]]


def test_ls_json_has_what_a_script_needs(bench: Path, cli: Cli) -> None:
    first, second = listing(cli, "bench")
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


def test_path_gives_one_file_or_all(bench: Path, cli: Cli) -> None:
    assert cli("data", "path", "bench", "sub/two.txt").out == f"{bench / 'sub/two.txt'}\n"
    assert cli("data", "path", "bench").out.splitlines() == [str(bench / "one.txt"), str(bench / "sub/two.txt")]


def test_path_of_a_missing_file_says_how_to_get_it(bench: Path, cli: Cli) -> None:
    (bench / "one.txt").unlink()
    assert "`figeval data fetch bench`" in cli("data", "path", "bench", "one.txt").complaint


def test_fetch_copies_every_file_from_the_mirror_and_says_where_it_is(
    bench: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    cached = own_home / "data" / "bench"
    result = cli("data", "fetch", "bench")
    assert result.out.splitlines() == [
        f"bench/one.txt  {cached / 'one.txt'}",
        f"bench/sub/two.txt  {cached / 'sub/two.txt'}",
    ]
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR")
    first, _ = listing(cli, "bench")
    assert (first["state"], first["origin"]) == ("cached", str(bench / "one.txt"))
    assert cli("data", "fetch", "bench").out == result.out


def test_fetch_without_network_fails_in_one_line(bench: Path, cli: Cli) -> None:
    (bench / "one.txt").unlink()
    assert "cannot be downloaded" in cli("data", "fetch", "bench").complaint


def test_verify_passes_fails_and_says_what_to_do(bench: Path, cli: Cli) -> None:
    assert cli("data", "verify", "bench").out.splitlines()[-1] == "2 mirror"
    (bench / "one.txt").write_bytes(b"edited")
    result = cli("data", "verify", "bench")
    assert "corrupt bench/one.txt" in result.out
    assert "1 of 2 files" in result.complaint
    assert "`figeval data fetch --force bench`" in result.complaint


def test_verify_minds_missing_files_only_of_named_benchmarks(bench: Path, cli: Cli) -> None:
    (bench / "one.txt").unlink()
    assert cli("data", "verify").code == 0
    assert "1 of 2 files" in cli("data", "verify", "bench").complaint


@pytest.mark.parametrize("command", ["ls", "fetch", "verify", "path"])
def test_an_unknown_benchmark_gets_near_names(bench: Path, command: str, cli: Cli) -> None:
    assert "did you mean 'bench'" in cli("data", command, "bensh").complaint


def test_real_data_verifies(real_data: str, cli: Cli) -> None:
    result = cli("data", "verify", "epic", "impli", "glove")
    assert result.code == 0, result.out
    assert result.out.splitlines()[-1] in ("25 mirror", "25 cached")
