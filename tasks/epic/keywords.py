"""Cache of the narratives' keywords, which are extracted once per machine and stored in figeval's home."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from figeval.errors import DataError
from figeval.io.files import home, replace_text
from figeval.io.json_files import read_json
from figeval.language import nltk_data
from figeval.language.tagging import PACKAGES
from figeval.types import JSON

from .extractors import Extractor, NltkExtractor, choose_extractor

COMPARED_NARRATIVES = 100  # narratives on which two extractors are compared


@dataclass(frozen=True, slots=True)
class KeywordAgreement:
    """Agreement of two extractors on n texts: mean Jaccard index of the keyword sets, and share of equal lists."""

    jaccard: float
    equal: float
    n: int


def agreement(first: Extractor, second: Extractor, texts: Sequence[str]) -> KeywordAgreement:
    """Compare two extractors; two empty sets agree. Raises `ValueError` if there are no texts."""
    if not texts:
        raise ValueError("there are no texts to compare keywords on")
    pairs = list(zip(first.keywords(texts), second.keywords(texts), strict=True))
    sets = [(set(a), set(b)) for a, b in pairs]
    jaccard = fmean(len(a & b) / len(a | b) if a | b else 1.0 for a, b in sets)
    return KeywordAgreement(jaccard, fmean(a == b for a, b in pairs), len(pairs))


def keywords_of(texts: Mapping[str, str], notes: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the keywords of each text by its key, as surface forms in text order, and record the extractor in `notes`.

    Raises:
        DataError: the extractor is not available, or the stored keywords cannot be read or written.
    """
    extractor = choose_extractor()
    identity = extractor.identity
    file = home() / "keywords" / f"{_digest(identity, texts)}.json"
    stored = _read(file) if file.is_file() else _extract(extractor, list(texts.values()))
    if not file.is_file():
        _write(file, stored)
    notes["keywords"] = identity | ({"agreement_with_nltk": stored["agreement"]} if stored["agreement"] else {})
    return {key: tuple(words) for key, words in zip(texts, stored["keywords"], strict=True)}


def _digest(identity: JSON, texts: Mapping[str, str]) -> str:
    content = json.dumps([identity, *texts.values()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _extract(extractor: Extractor, texts: list[str]) -> JSON:
    """Return the keywords, and their agreement with NLTK's if its data are there and it is not the extractor."""
    agreed = None
    if not isinstance(extractor, NltkExtractor) and nltk_data.has(PACKAGES):
        spread = texts[:: max(1, len(texts) // COMPARED_NARRATIVES)][:COMPARED_NARRATIVES]  # evenly over all texts
        agreed = asdict(agreement(extractor, NltkExtractor(), spread))
    return {"keywords": extractor.keywords(texts), "agreement": agreed}


def _read(file: Path) -> JSON:
    stored: JSON = read_json(file, DataError, cure="delete it")
    return stored


def _write(file: Path, stored: JSON) -> None:
    """Write a file atomically, because another process may be writing the same one."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps(stored))
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"cannot write {file} ({reason}); set FIGEVAL_HOME to a writable folder") from error
