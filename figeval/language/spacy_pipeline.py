"""The English spaCy pipeline of this machine, if any: the one in FIGEVAL_SPACY_MODEL, or en_core_web_sm."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from figeval.errors import DataError
from figeval.extras import require

PIPELINE, VARIABLE = "en_core_web_sm", "FIGEVAL_SPACY_MODEL"


def installed_pipeline() -> str | None:
    """Return the name of the pipeline, or None if there is none or FIGEVAL_SPACY_MODEL is set but empty.

    The value of FIGEVAL_SPACY_MODEL is not checked; without it, en_core_web_sm and spaCy must be installed.
    """
    name = os.environ.get(VARIABLE)
    if name is not None:
        return name or None
    return PIPELINE if has_module("spacy") and has_module(PIPELINE) else None


def has_module(name: str) -> bool:
    """Return whether a package is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


def pipeline_folder(name: str) -> Path:
    """Return the folder of a pipeline, given by name or folder.

    Raises:
        MissingPackage: spaCy is not installed.
        DataError: the pipeline is not installed.
    """
    require("spacy", f"{VARIABLE}={name}")
    if (Path(name) / "meta.json").is_file():
        return Path(name)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise DataError(
            f"spaCy has no pipeline {name!r}; run `python -m spacy download {PIPELINE}`, set {VARIABLE} to the folder "
            "of one, or unset it to use NLTK"
        )
    return Path(spec.origin).parent
