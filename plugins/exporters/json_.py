"""JSON with one number per object: the rows of the CSV with their types. The whole record is in `run.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from figeval.records.schema import RunRecord
from figeval.text import shown_json

from ._rows import rows


def export(runs: Sequence[RunRecord]) -> str:
    """All runs as one list; what is not known is null."""
    return shown_json(json.dumps(list(rows(runs)), indent=1, ensure_ascii=False, allow_nan=False)) + "\n"
