"""Download one file from one address: it is streamed into `<target>.part`, resumed, checked, then renamed.

An incomplete file keeps the suffix `.part` and is never read as data; the next attempt, in this process or a later
one, resumes where it ended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from figeval.data.archives import ArchiveError, LockedArchiveError, open_archive, open_member, reading
from figeval.data.sources import DataFile
from figeval.errors import DataError
from figeval.io.files import digest_of_file
from figeval.io.frontend import notice, wants_progress
from figeval.io.text import whole_number

if TYPE_CHECKING:
    import httpx

MAX_ARCHIVE_BYTES = 1 << 32  # 4 GiB, of an archive whose size `sources.yaml` does not state
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may change a little later


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of a download: number of attempts, and timeouts in seconds."""

    attempts: int = 5
    connect: float = 10.0
    read: float = 30.0  # between two chunks of one response
    pause: float = 1.0  # before the second attempt; doubles each time
    longest: float = 120.0  # a server that asks for a longer pause is given up


PATIENCE = Patience()


class Unavailable(DataError):
    """This address cannot provide the file now; another one may."""


class _Passing(Exception):
    """This attempt failed but the next may succeed; `wait` is the pause that the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def download(url: str, file: DataFile, target: Path, patience: Patience = PATIENCE) -> None:
    """Download `file` from `url` to `target`.

    Raises:
        Unavailable: the address cannot be reached, refuses, or kept failing.
        DataError: the download is not the expected file.
    """
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    transfer = Transfer(url, file.name, part, file.source.bytes, patience)
    transfer.run()
    if transfer.resumed and digest_of_file(part).hex() != file.source.sha256:
        part.unlink()  # the two halves may come from different files: try once more from the start
        transfer.run()
    settle(part, target, file, url)


def download_member(url: str, file: DataFile, target: Path, patience: Patience = PATIENCE) -> None:
    """Download the zip archive at `url` and extract `file` from it. Raises like `download`."""
    archive = target.with_name(f"{target.name}.zip.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    Transfer(url, file.name, archive, file.source.archive_bytes, patience).run()
    part = target.with_name(f"{target.name}.part")
    try:
        extract(archive, file, part)
    except LockedArchiveError as error:
        part.unlink(missing_ok=True)
        cure = f"unpack it yourself and put {file.source.member!r} at {file.name} in a folder of FIGEVAL_DATA_MIRROR"
        raise DataError(f"{file.name}: the archive at {url} {error.problem}; {cure}") from error
    except ArchiveError as error:
        part.unlink(missing_ok=True)
        raise DataError(
            f"{file.name}: {url} is not a zip archive that contains {file.source.member!r} (it {error.problem}); try "
            f"again later, and tell the benchmark's maintainers if the problem persists"
        ) from error
    finally:
        archive.unlink()
    settle(part, target, file, url)


def extract(archive: Path, file: DataFile, part: Path) -> None:
    """Extract the member that `file` names, up to one byte more than expected, which shows that it is wrong.

    Raises:
        ArchiveError: the archive cannot be read.
        OSError: `part` cannot be written.
    """
    with (
        archive.open("rb") as stream,
        open_archive(stream) as opened,
        open_member(opened, file.source.member or "") as inside,
        part.open("wb") as out,
    ):
        left = file.source.bytes + 1
        while piece := _piece(inside, min(left, 1 << 20)):
            out.write(piece)
            left -= len(piece)


def _piece(inside: IO[bytes], max_bytes: int) -> bytes:
    with reading():
        return inside.read(max_bytes)


def settle(part: Path, target: Path, file: DataFile, url: str) -> None:
    """Rename the file if its checksum is right; otherwise delete it and raise `DataError`."""
    actual = digest_of_file(part).hex()
    if actual != file.source.sha256:
        size = part.stat().st_size
        part.unlink()
        raise wrong_bytes(file.name, url, f"{size:,} bytes with sha256 {actual}, expected {file.source.sha256}")
    part.replace(target)


def wrong_bytes(name: str, url: str, problem: str) -> DataError:
    """Return the error for a server that sent something else, of which nothing is kept."""
    return DataError(
        f"{name}: {url} sent {problem}; nothing was kept. A proxy or a login page may have answered: open the address "
        f"in a browser, or set FIGEVAL_DATA_MIRROR to a folder that has the file"
    )


@dataclass(slots=True)
class Transfer:
    """Download of `url` into `part`, in as many attempts as `patience` allows.

    `size` is None if it is unknown; at most `MAX_ARCHIVE_BYTES` are downloaded then.
    """

    url: str
    name: str
    part: Path
    size: int | None
    patience: Patience
    resumed: bool = False
    etag: str = ""

    def run(self) -> None:
        """Download the file. Raises `Unavailable`, or `DataError` if the server offers a file of another size."""
        self.resumed = False
        for attempt in range(self.patience.attempts):
            try:
                return self._attempt()
            except _Passing as failure:
                self._wait(attempt, failure)
        return None

    def _wait(self, attempt: int, failure: _Passing) -> None:
        if attempt + 1 == self.patience.attempts:
            raise Unavailable(f"{self.url}: {failure}, {attempt + 1} times in a row") from failure
        wait = max(self.patience.pause * 2**attempt, failure.wait)
        if wait > self.patience.longest:
            raise Unavailable(f"{self.url}: {failure}; the server asks to wait {wait:,.0f} s") from failure
        notice(f"figeval: {self.name}: {failure}; trying again in {wait:g} s")
        time.sleep(wait)

    def _attempt(self) -> None:
        import httpx

        timeout = httpx.Timeout(self.patience.read, connect=self.patience.connect)
        try:
            with httpx.Client(timeout=timeout, follow_redirects=True) as client:
                self._receive(client)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # no network: retrying would not help
            raise Unavailable(f"{self.url}: cannot be reached ({_say(error)})") from error
        except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise _Passing(f"the connection was lost ({_say(error)})") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{self.url}: {_say(error)}") from error

    def _receive(self, client: httpx.Client) -> None:
        start = self._already()
        if start == self.size:
            self.resumed = True  # downloaded completely by an earlier attempt
            return
        headers = {"Accept-Encoding": "identity"}  # a range of a compressed response is not a range of the file
        if start:
            headers["Range"] = f"bytes={start}-"
            headers |= {"If-Range": self.etag} if self.etag else {}
        with client.stream("GET", self.url, headers=headers) as response:
            goes_on = self._accept(response, start)
            self.resumed |= goes_on
            self._write(response, start if goes_on else 0)
        if self.size is not None and (got := self._already()) < self.size:
            raise _Passing(f"cut off at {got:,} of {self.size:,} bytes")

    def _already(self) -> int:
        """Return the number of bytes already downloaded; a part that is too long is deleted."""
        got = self.part.stat().st_size if self.part.exists() else 0
        if self.size is not None and got > self.size:
            self.part.unlink()
            return 0
        return got

    def _accept(self, response: httpx.Response, start: int) -> bool:
        """Return whether the response resumes at `start`; if not, it is the whole file (servers may ignore Range)."""
        status = response.status_code
        content_range = response.headers.get("Content-Range", "")
        if status in PASSING:
            raise _Passing(f"HTTP {status}", retry_after(response.headers.get("Retry-After", "")))
        if status == 416 or (status == 206 and not content_range.startswith(f"bytes {start}-")):
            self.part.unlink(missing_ok=True)
            raise _Passing(f"HTTP {status} instead of the rest from byte {start:,}")
        if status not in (200, 206):
            raise Unavailable(f"{self.url}: HTTP {status}")
        total = content_range.rpartition("/")[2] if status == 206 else response.headers.get("Content-Length", "")
        declared = whole_number(total)
        if self.size is not None and declared not in (None, self.size):
            self.part.unlink(missing_ok=True)
            raise wrong_bytes(self.name, self.url, f"a file of {declared:,} bytes, expected {self.size:,}")
        if self.size is None and declared is not None and declared > MAX_ARCHIVE_BYTES:
            raise self._too_large(f"{declared:,} bytes")
        etag = response.headers.get("ETag", "")
        self.etag = "" if etag.startswith("W/") else etag  # a weak ETag does not guarantee the same bytes
        return status == 206

    def _write(self, response: httpx.Response, start: int) -> None:
        length = whole_number(response.headers.get("Content-Length", ""))
        total = self.size or (None if length is None else start + length)
        max_bytes = MAX_ARCHIVE_BYTES if self.size is None else self.size
        with self.part.open("ab" if start else "wb") as out, progress(self.name, total, start) as advance:
            for piece in response.iter_raw():
                out.write(piece)
                advance(len(piece))
                if out.tell() > max_bytes:
                    break  # already too long: the checksum will fail
        if self.size is None and self.part.stat().st_size > max_bytes:
            raise self._too_large(f"more than {max_bytes:,} bytes")

    def _too_large(self, size: str) -> DataError:
        """Delete what has been downloaded and return the error for an archive beyond the limit."""
        self.part.unlink(missing_ok=True)
        return DataError(
            f"{self.name}: {self.url} sends {size}, but of an archive of unknown size at most {MAX_ARCHIVE_BYTES:,} "
            f"are downloaded; if the address is right, state its size as archive_bytes in sources.yaml"
        )


def _say(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def retry_after(value: str) -> float:
    """Return the seconds that a `Retry-After` header asks for, as a number or a date; 0 if it is neither."""
    seconds = whole_number(value.strip())
    if seconds is not None:
        return float(seconds)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


@contextmanager
def progress(name: str, total: int | None, start: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal and progress is wanted; yield a function that takes a byte count."""
    if not wants_progress() or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(name, total=total, completed=start)
        yield lambda count: bars.advance(bar, count)
