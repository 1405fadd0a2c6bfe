"""What worker processes of this machine leave on disk."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from figeval import RunConfig
from figeval.runs.workers import local
from figeval.runs.workers.protocol import Order

RECORD: Any = None


class Ended:
    """A process that ended at once."""

    returncode = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stdin, self.stdout = BytesIO(), BytesIO()

    def wait(self, _seconds: float) -> None:
        """Nothing to wait for."""


@pytest.fixture
def often() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often")
def test_one_worker_begins_while_another_one_takes_its_log_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.subprocess, "Popen", Ended)
    order = Order(RunConfig(tasks=("t",), model="m", processes=2), RECORD, ".")
    workers = local.LocalWorkers(order, tmp_path, 2)
    errors: list[Exception] = []

    def begin_and_end(number: int) -> None:
        try:
            for _ in range(500):
                workers.hire(number).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=begin_and_end, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("printed", "last"),
    [
        (b"", ""),
        (b"first\nlast \n\n", "last"),
        (b"loading: 0 %\rloading: 50 %\rloading: 99 %", "loading: 99 %"),  # a bar moves within one line
        (b"x" * 1_000_000 + b"\n" + b"\xff the end\n", "\N{REPLACEMENT CHARACTER} the end"),
    ],
)
def test_the_last_line_says_how_a_worker_ended(tmp_path: Path, printed: bytes, last: str) -> None:
    (tmp_path / "log").write_bytes(printed)
    assert local.last_line(tmp_path / "log") == last
