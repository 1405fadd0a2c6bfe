"""Lookup of NLTK's data packages, with instructions for installing those that are missing.

NLTK searches the folders of its own default path and those in the environment variable `NLTK_DATA`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from figeval.errors import MissingData

PLACES = {
    "punkt_tab": "tokenizers/punkt_tab/english/",
    "vader_lexicon": "sentiment/vader_lexicon.zip",
    "stopwords": "corpora/stopwords/",
    "averaged_perceptron_tagger_eng": "taggers/averaged_perceptron_tagger_eng/",
}


def has(packages: Iterable[str]) -> bool:
    """Return whether NLTK finds all of these packages."""
    return not any(_find_package(package) is None for package in packages)


def require(packages: Iterable[str]) -> None:
    """Raise `MissingData` if NLTK does not find all of these packages."""
    missing = [package for package in packages if _find_package(package) is None]
    if missing:
        raise MissingData(
            f"NLTK cannot find its data {', '.join(missing)}; run `python -m nltk.downloader {' '.join(missing)}`, "
            "or set NLTK_DATA to a folder that contains them"
        )


def folder(package: str) -> Path:
    """Return the folder of an unpacked package. Raises `MissingData` if NLTK does not find it."""
    require([package])
    return Path(str(_find_package(package)))


def _find_package(package: str) -> Any:
    """Return the result of NLTK's own search, or None if it finds nothing."""
    import nltk

    try:
        return nltk.data.find(PLACES[package])
    except LookupError:
        return None
