"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from figeval.language.word_forms import open_wordnet


@pytest.fixture(scope="module", autouse=True)
def forget_wordnet() -> Iterator[None]:
    """Let tests of other modules find no WordNet, which a process keeps once it is open."""
    yield
    open_wordnet.cache_clear()


@pytest.fixture
def nltk_data(real_data: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NLTK's packages beside the real data; NLTK reads the variable only when it is imported."""
    import nltk

    packages = Path(real_data) / "nltk" / "packages"
    if not packages.is_dir():
        pytest.skip("no NLTK data beside the real data")
    monkeypatch.setattr(nltk.data, "path", [str(packages)])
    monkeypatch.setenv("NLTK_DATA", str(packages))
    return packages
