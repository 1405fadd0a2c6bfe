"""Cache → mirrors → upstream, with every sum checked on the way."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from figeval import DataError, FigevalError, UnknownName
from figeval.data import cache
from figeval.data import download as web
from figeval.data.download import Patience
from tests.data.loopback import Site, answer, truncate

BODY = b"what the benchmark's authors published\n" * 1000
Listed = Callable[..., None]


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch, hasty: Patience) -> None:
    for transfer in (web.download, web.download_member):
        monkeypatch.setattr(transfer, "__defaults__", (hasty,))


def mirror(folder: Path, body: bytes) -> Path:
    file = folder / "bench" / "sub" / "file.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(body)
    return folder


def one_line(error: pytest.ExceptionInfo[FigevalError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def test_upstream_fills_the_cache_and_is_not_asked_again(site: Site, list_files: Listed, own_home: Path) -> None:
    list_files(site.file("sub/file.txt", BODY))
    first = cache.fetch("bench", "sub/file.txt")
    assert first == own_home / "data" / "bench" / "sub" / "file.txt"
    assert first.read_bytes() == BODY
    assert cache.fetch("bench", "sub/file.txt") == first
    assert len(site.requests) == 1


def test_a_mirror_folder_is_used_in_place(
    site: Site, list_files: Listed, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", BODY)))
    assert cache.fetch("bench", "sub/file.txt") == tmp_path / "disk" / "bench" / "sub" / "file.txt"
    assert site.requests == []
    assert not own_home.exists(), "nothing is copied, nothing is locked"


def test_the_cache_comes_before_the_mirror(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    cached = cache.fetch("bench", "sub/file.txt")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", BODY)))
    assert cache.fetch("bench", "sub/file.txt") == cached


def test_places_without_the_file_are_passed_over(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    (tmp_path / "empty").mkdir()
    site.bodies["/mirror/bench/sub/file.txt"] = BODY
    mirrors = [str(tmp_path / "empty"), str(tmp_path / "nowhere"), f"{site.url}/void", f"{site.url}/mirror/"]
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", ",".join(mirrors))
    assert cache.fetch("bench", "sub/file.txt").read_bytes() == BODY
    assert [request["path"] for request in site.requests] == ["/void/bench/sub/file.txt", "/mirror/bench/sub/file.txt"]


def test_a_wrong_sum_in_a_mirror_is_an_error_and_not_passed_over(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", b"edited")))
    with pytest.raises(DataError, match="replace it in that mirror") as error:
        cache.fetch("bench", "sub/file.txt")
    assert "disk/bench/sub/file.txt is corrupt: sha256 is" in one_line(error)
    assert site.requests == []


def test_a_corrupt_cached_file_is_named_with_the_cure_which_works(site: Site, list_files: Listed) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cached = cache.fetch("bench", "sub/file.txt")
    cached.write_bytes(BODY + b"\n")
    with pytest.raises(DataError, match="run `figeval data fetch --force bench`") as error:
        cache.fetch("bench", "sub/file.txt")
    assert str(cached) in one_line(error)
    assert file.source.sha256 in one_line(error)
    assert cache.store(file, force=True).read_bytes() == BODY
    assert cache.fetch("bench", "sub/file.txt") == cached


def test_fetching_puts_a_file_of_a_mirror_folder_into_the_cache_for_good(
    site: Site, list_files: Listed, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    disk = mirror(tmp_path / "disk", BODY)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(disk))
    stored = cache.store(file)
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR")
    assert cache.fetch("bench", "sub/file.txt") == stored == own_home / "data" / "bench" / "sub" / "file.txt"
    (disk / file.name).write_bytes(b"edited in place")
    assert stored.read_bytes() == BODY
    assert not list(own_home.rglob("*.part"))
    entry = cache.entry_of(file)
    assert entry is not None
    assert entry["origin"] == str(disk / "bench" / "sub" / "file.txt")
    assert entry["sha256"] == file.source.sha256
    assert site.requests == []


def test_what_was_downloaded_is_in_the_ledger_too(site: Site, list_files: Listed) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cache.fetch("bench", "sub/file.txt")
    entry = cache.entry_of(file)
    assert entry is not None
    assert entry["origin"] == file.source.url


def test_a_damaged_ledger_knows_nothing_and_is_written_anew(site: Site, list_files: Listed, own_home: Path) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cache.store(file)
    (own_home / "data" / "bench" / ".fetched.json").write_text("[")
    assert cache.entry_of(file) is None
    cache.store(file, force=True)
    assert cache.entry_of(file) is not None


def test_force_replaces_a_corrupt_file_from_a_good_mirror_folder(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cached = cache.fetch("bench", "sub/file.txt")
    cached.write_bytes(b"broken")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", BODY)))
    assert cache.store(file, force=True) == cached
    assert cached.read_bytes() == BODY


def test_a_mirror_whose_file_changes_while_it_is_copied_leaves_nothing(
    site: Site, list_files: Listed, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", BODY)))
    monkeypatch.setattr(cache.shutil, "copyfile", lambda _file, part: part.write_bytes(BODY[:-1]))
    with pytest.raises(DataError, match="changed while it was copied"):
        cache.store(file)
    assert not [file for file in own_home.rglob("*.txt*") if file.is_file()]


def test_force_without_a_network_loses_nothing(site: Site, list_files: Listed) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cached = cache.fetch("bench", "sub/file.txt")
    site.plan = [answer(404)]
    with pytest.raises(DataError):
        cache.store(file, force=True)
    assert cached.read_bytes() == BODY


def test_the_error_names_every_place_and_the_cure(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    site.bodies.clear()
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", f"{tmp_path},{tmp_path / 'nowhere'}")
    with pytest.raises(DataError) as error:
        cache.fetch("bench", "sub/file.txt")
    message = one_line(error)
    for words in (f"not in {tmp_path};", "nowhere is not a folder", "HTTP 404", "`figeval data fetch bench`"):
        assert words in message


def test_a_download_that_breaks_off_is_never_taken_for_the_file(site: Site, list_files: Listed) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    site.plan = [truncate(10)] + [answer(503)] * 3
    with pytest.raises(DataError):
        cache.fetch("bench", "sub/file.txt")
    assert cache.status(file).state == "missing"
    assert cache.fetch("bench", "sub/file.txt").read_bytes() == BODY


def test_many_at_once_download_once(site: Site, list_files: Listed) -> None:
    list_files(site.file("sub/file.txt", BODY))
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: cache.fetch("bench", "sub/file.txt"), range(8)))
    assert len(paths) == 1
    assert len(site.requests) == 1


def test_unknown_names_get_near_ones(site: Site, list_files: Listed) -> None:
    list_files(site.file("sub/file.txt", BODY))
    with pytest.raises(UnknownName, match="did you mean 'bench'"):
        cache.fetch("bnech", "sub/file.txt")
    with pytest.raises(DataError, match=r"did you mean 'sub/file\.txt'"):
        cache.fetch("bench", "sub/flie.txt")


def test_a_home_that_cannot_be_written_is_one_line(
    site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot write .*set FIGEVAL_HOME") as error:
        cache.fetch("bench", "sub/file.txt")
    one_line(error)


def test_a_full_disk_is_one_line_and_the_next_try_goes_on(site: Site, list_files: Listed, own_home: Path) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
        "sys.dont_write_bytecode = True; "  # Python would cut off the file of a large module, too
        "from figeval.data.cache import obtain; from figeval.data.sources import DataFile, Source; "
        "obtain(DataFile('bench', Source.model_validate_json(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, file.source.model_dump_json()],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "DataError: cannot write" in last
    assert "File too large" in last
    assert not (own_home / "data" / "bench" / "sub" / "file.txt").exists()
    assert cache.fetch("bench", "sub/file.txt").read_bytes() == BODY


def test_status_asks_nobody(site: Site, list_files: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", f"{site.url}/mirror")
    assert cache.status(file).state == "missing"
    assert site.requests == []
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(mirror(tmp_path / "disk", BODY)))
    assert cache.status(file).state == "mirror"
    monkeypatch.delenv("FIGEVAL_DATA_MIRROR")
    cached = cache.fetch("bench", "sub/file.txt")
    assert cache.status(file).state == "cached"
    cached.write_bytes(b"")
    assert cache.status(file).state == "corrupt"


def test_a_file_is_hashed_once_unless_it_changes(
    site: Site, list_files: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site.file("sub/file.txt", BODY)
    list_files(file)
    cached = cache.fetch("bench", "sub/file.txt")
    hashed: list[Path] = []
    real = hashlib.file_digest
    monkeypatch.setattr(
        hashlib, "file_digest", lambda stream, name: hashed.append(Path(stream.name)) or real(stream, name)
    )
    for _ in range(3):
        cache.fetch("bench", "sub/file.txt")
    assert hashed == []
    os.utime(cached, ns=(1, 1))
    cache.fetch("bench", "sub/file.txt")
    assert hashed == [cached]


@pytest.mark.parametrize(
    ("listed_places", "expected"),
    [
        ("", []),
        ("/a", ["/a"]),
        ("/a:/b", ["/a", "/b"]),
        ("/a, /b,", ["/a", "/b"]),
        ("http://h:8080/x", ["http://h:8080/x"]),
        ("/a:https://h:80/x,/b", ["/a", "https://h:80/x", "/b"]),
        ("https://user:word@h/x,http://g", ["https://user:word@h/x", "http://g"]),
        ("http://a:http://b", ["http://a", "http://b"]),
    ],
)
@pytest.mark.skipif(os.pathsep != ":", reason="written for systems where paths are separated by colons")
def test_mirrors_are_split(listed_places: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", listed_places)
    assert cache.mirrors() == expected


def test_the_default_home_is_the_users_cache(
    site: Site, list_files: Listed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    list_files(site.file("sub/file.txt", BODY))
    monkeypatch.delenv("FIGEVAL_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    home = cache.fetch("bench", "sub/file.txt").parents[3]
    assert home.is_relative_to(tmp_path)
    assert home.name == "figeval"
