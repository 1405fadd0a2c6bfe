"""Fixtures: a local HTTP server for each test, and a catalogue that lists the files that it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from figeval import Registry
from figeval.data import sources
from figeval.data.download import Patience
from figeval.data.sources import DataFile, Sources
from tests.data.loopback import Handler, Server, Site
from tests.loopback import answering


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Start a server for this test, and bypass proxies."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    site = Site()
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"site": site}))
    with answering(server) as site.url:
        yield site
        site.over.set()


@pytest.fixture
def hasty() -> Patience:
    """Shorten delays and timeouts, so that tests of retries are fast."""
    return Patience(attempts=3, connect=2.0, read=1.0, pause=0.01, longest=2.0)


@pytest.fixture
def list_files(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the catalogue list files as the benchmark `bench`."""

    def make(*files: DataFile) -> None:
        catalogue: Registry[Sources] = Registry("benchmark", "figeval data ls")
        upstream = tuple(file.source for file in files)
        catalogue.add("bench", Sources(licence="ours", homepage="-", citation="-", files=upstream), "test")
        monkeypatch.setattr(sources, "catalogue", lambda: catalogue)

    return make
