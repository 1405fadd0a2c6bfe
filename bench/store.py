"""Storage of a benchmark's record: figures, machine and versions, as JSON in `results/measured/bench`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "results" / "measured" / "bench"


def store(name: str, figures: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write `<folder>/<name>.json` with `figures`, command, hardware, versions and load average; return the path."""
    from figeval.records import provenance

    record = {
        "name": name,
        "command": ["python", *[Path(sys.argv[0]).name, *sys.argv[1:]]],
        "measured": provenance.now(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "hardware": provenance.hardware(),
        "versions": provenance.versions(),
        "figures": figures,
    }
    file = file_of(name, folder)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return file


def record_of(name: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """Return a stored record, or None if there is none."""
    file = file_of(name, folder)
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def file_of(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"
