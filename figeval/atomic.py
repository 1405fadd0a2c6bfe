"""Files that are replaced as a whole: whoever reads one meets the old text or the new one, never half of it."""

from __future__ import annotations

from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Put a text in the place of a file, by way of a draft beside it; other links to the old file keep what it held."""
    draft = file.with_suffix(".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
