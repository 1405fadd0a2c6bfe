"""The English spaCy pipeline that this machine has, if any: named by FIGEVAL_SPACY_MODEL, or en_core_web_sm."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from figeval.errors import DataError

PIPELINE, VARIABLE = "en_core_web_sm", "FIGEVAL_SPACY_MODEL"


def installed_pipeline() -> str | None:
    """Return the pipeline that FIGEVAL_SPACY_MODEL names, else en_core_web_sm where both it and spaCy are installed,
    else None; None also where the variable is there and empty. Whether the named one can be found is not looked at.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named or None
    return PIPELINE if has_module("spacy") and has_module(PIPELINE) else None


def has_module(name: str) -> bool:
    """Return whether a package is installed; nothing is imported."""
    return importlib.util.find_spec(name) is not None


def pipeline_folder(name: str) -> Path:
    """The folder of an installed pipeline, or the folder named. Raises `DataError` if there is none, or no spaCy."""
    if not has_module("spacy"):
        raise DataError(f"{VARIABLE} is {name!r}, but spaCy is missing; pip install 'figeval[spacy]', or unset it")
    if (Path(name) / "meta.json").is_file():
        return Path(name)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise DataError(
            f"spaCy has no pipeline {name!r}; run `python -m spacy download {PIPELINE}`, set {VARIABLE} to the folder "
            "of one, or unset it to use NLTK"
        )
    return Path(spec.origin).parent
