"""Downloads from a real server that truncates, stalls, refuses and lies."""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
import zipfile
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from figeval import DataError
from figeval.data.download import Patience, Unavailable, download, download_member, retry_after
from figeval.data.sources import DataFile, Source
from tests.data.loopback import Site, answer, stall, truncate
from tests.data.zip_headers import set_header_field

BODY = random.Random(7).randbytes(300_000)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "file.bin"


def partial_files(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_arrives_whole_and_leaves_no_part(site: Site, target: Path, hasty: Patience) -> None:
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert partial_files(target) == ["file.bin"]
    assert site.requests[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("announced", [True, False])
def test_goes_on_where_the_server_hung_up(site: Site, target: Path, hasty: Patience, announced: bool) -> None:
    site.etag = '"one"'
    site.plan = [truncate(100_000, announced=announced), truncate(50_000, announced=announced)]
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.sent == len(BODY), "no byte twice"
    assert [request.get("Range") for request in site.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert site.requests[1]["If-Range"] == '"one"'


def test_a_stalled_server_is_asked_again(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [stall(120_000)]
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.sent == len(BODY)


@pytest.mark.slow
def test_gives_up_on_a_server_that_always_stalls_and_keeps_the_part(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [stall(100_000), stall(0), stall(0)]
    file = site.file("file.bin", BODY)
    with pytest.raises(Unavailable, match=r"was lost .*3 times in a row"):
        download(file.source.url, file, target, hasty)
    assert partial_files(target) == ["file.bin.part"]
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.sent == len(BODY), "the second call went on with the part of the first"


def test_a_server_that_ignores_range_is_read_from_the_start(site: Site, target: Path, hasty: Patience) -> None:
    site.ranges = False
    site.plan = [truncate(100_000)]
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.sent == 100_000 + len(BODY)


def test_a_file_that_changed_in_between_is_read_from_the_start(site: Site, target: Path, hasty: Patience) -> None:
    file = site.file("file.bin", BODY)
    site.bodies["/file.bin"], site.etag = bytes(len(BODY)), '"old"'

    def publish(handler: object, body: bytes) -> None:
        truncate(100_000)(handler, body)  # type: ignore[arg-type]
        site.bodies["/file.bin"], site.etag = BODY, '"new"'

    site.plan = [publish]
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("size", [100_000, len(BODY), len(BODY) + 1])
def test_a_part_of_another_file_is_thrown_away(site: Site, target: Path, hasty: Patience, size: int) -> None:
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(bytes(size))
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY


def test_a_complete_part_needs_no_request(site: Site, target: Path, hasty: Patience) -> None:
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(BODY)
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.requests == []


def test_a_range_that_the_server_cannot_give_starts_again(site: Site, target: Path, hasty: Patience) -> None:
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(BODY[:10])
    site.plan = [answer(416)]
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_final(site: Site, target: Path, hasty: Patience, status: int) -> None:
    site.plan = [answer(status)]
    file = site.file("file.bin", BODY)
    with pytest.raises(Unavailable, match=f"HTTP {status}"):
        download(file.source.url, file, target, hasty)
    assert len(site.requests) == 1
    assert partial_files(target) == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(
    site: Site, target: Path, hasty: Patience, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    site.plan = [answer(status), answer(status)]
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert capsys.readouterr().err.count(f"HTTP {status}; trying again") == 2


def test_a_server_that_stays_busy_is_given_up(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [answer(503)] * 9
    file = site.file("file.bin", BODY)
    with pytest.raises(Unavailable, match="HTTP 503, 3 times in a row"):
        download(file.source.url, file, target, hasty)
    assert len(site.requests) == hasty.attempts


@pytest.mark.slow
@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(site: Site, target: Path, hasty: Patience, as_date: bool) -> None:
    asks = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True) if as_date else "1"
    site.plan = [answer(429, Retry_After=asks)]
    file = site.file("file.bin", BODY)
    begun = time.monotonic()
    download(file.source.url, file, target, hasty)
    assert time.monotonic() - begun > 0.9
    assert target.read_bytes() == BODY


def test_a_server_that_asks_for_an_hour_is_given_up_at_once(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [answer(429, Retry_After="3600")]
    file = site.file("file.bin", BODY)
    with pytest.raises(Unavailable, match="HTTP 429; the server asks to wait 3,600 s"):
        download(file.source.url, file, target, hasty)
    assert len(site.requests) == 1


@pytest.mark.parametrize("value", ["", "soon", "-5", "Wed, 32 Nov 2020 00:00:00 GMT", "Wed, 01 Jan 2020 00:00:00 GMT"])
def test_a_senseless_retry_after_asks_for_nothing(value: str) -> None:
    assert retry_after(value) == 0.0


def test_wrong_bytes_are_an_error_and_nothing_is_kept(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [answer(200, bytes(len(BODY)))]
    file = site.file("file.bin", BODY)
    with pytest.raises(DataError, match=f"sha256 .*expected {file.source.sha256}.*nothing was kept") as caught:
        download(file.source.url, file, target, hasty)
    assert not isinstance(caught.value, Unavailable), "a wrong sum must not send us on to another place"
    assert partial_files(target) == []


@pytest.mark.parametrize("size", [1_200, len(BODY) + 1])
def test_a_file_of_another_size_is_refused_before_it_is_read(
    site: Site, target: Path, hasty: Patience, size: int
) -> None:
    site.plan = [answer(200, b"<" * size)]
    file = site.file("file.bin", BODY)
    with pytest.raises(DataError, match=f"of {size:,} bytes, expected {len(BODY):,}"):
        download(file.source.url, file, target, hasty)
    assert len(site.requests) == 1
    assert partial_files(target) == []


def test_an_endless_answer_is_cut_short(site: Site, target: Path, hasty: Patience) -> None:
    file = site.file("file.bin", BODY)
    site.bodies["/file.bin"] = BODY * 20
    site.plan = [truncate(len(BODY) * 20, announced=False)]
    with pytest.raises(DataError, match="expected"):
        download(file.source.url, file, target, hasty)
    assert partial_files(target) == []


def test_a_closed_port_is_not_asked_twice(target: Path, hasty: Patience, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/file.bin"
    file = DataFile("bench", Source(path="file.bin", url=url, sha256="0" * 64, bytes=1))
    with pytest.raises(Unavailable, match="cannot be reached"):
        download(url, file, target, hasty)
    assert "trying again" not in capsys.readouterr().err


def test_a_redirect_is_followed_and_a_circle_of_them_is_not(site: Site, target: Path, hasty: Patience) -> None:
    file = site.file("file.bin", BODY)
    site.plan = [answer(302, Location="/file.bin")]
    download(f"{site.url}/elsewhere", file, target, hasty)
    assert target.read_bytes() == BODY
    site.plan = [answer(302, Location="/round")] * 30
    with pytest.raises(Unavailable, match="redirects"):
        download(f"{site.url}/round", file, target, hasty)


def test_a_killed_download_goes_on_in_another_process(site: Site, target: Path, hasty: Patience) -> None:
    site.plan = [stall(200_000)]
    file = site.file("file.bin", BODY)
    program = (
        "import sys; from pathlib import Path; from figeval.data.download import download; "
        "from figeval.data.sources import DataFile, Source; "
        "file = DataFile('bench', Source.model_validate_json(sys.argv[1])); "
        "download(file.source.url, file, Path(sys.argv[2]))"
    )
    root = Path(__file__).resolve().parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", program, file.source.model_dump_json(), str(target)],
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    part = target.with_name("file.bin.part")
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    partial_size = part.stat().st_size
    assert not target.exists()
    sent_before = site.sent
    download(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert site.sent - sent_before == len(BODY) - partial_size


def zip_archive(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def test_a_member_of_an_archive_is_taken_out_and_checked(site: Site, target: Path, hasty: Patience) -> None:
    archive = zip_archive("inner.txt", BODY)
    site.plan = [truncate(1000)]
    file = site.file("archive.zip", archive, member="inner.txt", content=BODY)
    download_member(file.source.url, file, target, hasty)
    assert target.read_bytes() == BODY
    assert partial_files(target) == ["file.bin"]
    assert site.sent == len(archive)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (b"<html>log in</html>", "not a zip archive that contains 'inner.txt'"),
        (zip_archive("other.txt", BODY), "not a zip archive that contains 'inner.txt'"),
        (zip_archive("inner.txt", BODY[::-1]), f"expected {hashlib.sha256(BODY).hexdigest()}"),
        (zip_archive("inner.txt", BODY * 3), f"{len(BODY) + 1:,} bytes"),
        (zip_archive("inner.txt", BODY)[:-40], "not a zip archive"),
        (
            zip_archive("inner.txt", BODY, zipfile.ZIP_STORED).replace(BODY[:9], BODY[1:10]),
            "Bad CRC-32.*try again",
        ),
        (set_header_field(zip_archive("inner.txt", BODY), 16, 9), "damaged"),
        (
            set_header_field(zip_archive("inner.txt", BODY), 6, 1),
            "is encrypted; unpack it yourself and put 'inner.txt' at bench/",
        ),
        (
            set_header_field(zip_archive("inner.txt", BODY), 8, 9),
            r"is packed by Deflate64, .*; unpack it yourself and put",
        ),
        (zip_archive("inner.txt", BODY, zipfile.ZIP_BZIP2), r"is packed by bzip2, .*; unpack it yourself and put"),
    ],
    ids=[
        "page",
        "other member",
        "other content",
        "longer content",
        "cut off",
        "wrong content",
        "wrong sum",
        "encrypted",
        "unknown method",
        "bzip2",
    ],
)
def test_an_archive_of_something_else_leaves_nothing(
    site: Site, target: Path, hasty: Patience, archive: bytes, message: str
) -> None:
    file = site.file("archive.zip", archive, member="inner.txt", content=BODY)
    with pytest.raises(DataError, match=message):
        download_member(file.source.url, file, target, hasty)
    assert partial_files(target) == []


@pytest.mark.parametrize("announced", [True, False])
def test_an_archive_of_unknown_size_has_a_limit(
    site: Site, target: Path, hasty: Patience, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr("figeval.data.download.MAX_ARCHIVE_BYTES", 1_000)
    archive = zip_archive("inner.txt", BODY)
    file = site.file("archive.zip", archive, member="inner.txt", content=BODY)
    site.plan = [truncate(len(archive), announced=announced)]
    with pytest.raises(DataError, match=r"at most 1,000 are downloaded; .*state its size as archive_bytes") as caught:
        download_member(file.source.url, file, target, hasty)
    assert not isinstance(caught.value, Unavailable)
    assert partial_files(target) == []
    stated = DataFile("bench", file.source.model_copy(update={"archive_bytes": len(archive)}))
    download_member(file.source.url, stated, target, hasty)
    assert target.read_bytes() == BODY


def test_an_archive_of_another_size_is_refused(site: Site, target: Path, hasty: Patience) -> None:
    archive = zip_archive("inner.txt", BODY)
    file = site.file("archive.zip", archive, member="inner.txt", content=BODY)
    wrong = DataFile("bench", file.source.model_copy(update={"archive_bytes": len(archive) - 1}))
    with pytest.raises(DataError, match=f"a file of {len(archive):,} bytes, expected {len(archive) - 1:,}"):
        download_member(file.source.url, wrong, target, hasty)
    assert partial_files(target) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_drawn_on_a_terminal_only(
    site: Site, target: Path, hasty: Patience, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site.file("file.bin", BODY)
    download(file.source.url, file, target, hasty)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    download(file.source.url, file, target, hasty)
    assert "bench/file.bin" in terminal.getvalue()
