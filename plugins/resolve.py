"""Which backend is `--model roberta-large`? The checkpoint's own config says what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figeval.hooks import hookimpl
from figeval.textfile import is_folder

from ._checkpoint import backend_of, locate
from ._hub import NotOnHub


@hookimpl
def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """The backend that serves a folder or hub id, by the table `RULES`; None for heads that none serves.

    Raises:
        ModelError: there is no such folder, or no way to ask the hub, or it has no such `organisation/model`.
    """
    if ":" in model and not is_folder(Path(model)):
        return None  # a misspelt backend: whoever asked knows the names near it
    try:
        return backend_of(locate(model, options.get("revision")))
    except NotOnHub:
        if "/" in model:
            raise
        return None  # as likely the misspelt name of a backend
