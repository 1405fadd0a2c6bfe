"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from figeval.language.word_forms import open_wordnet


@pytest.fixture(scope="module", autouse=True)
def forget_wordnet() -> Iterator[None]:
    """Let tests of other modules find no WordNet, which a process keeps once it is open."""
    yield
    open_wordnet.cache_clear()
