"""What a run is asked to do: the flags of `figeval run` as one value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The flags of `figeval run`. The names are lm-eval's where lm-eval has the flag."""

    tasks: tuple[str, ...]
    model: str
    model_args: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    num_fewshot: int = 0
    batch_size: int | str | None = None
    device: str | None = None
    seed: int = 0
    routes: Mapping[str, str] = field(default_factory=dict)  # protocol → route
    threshold: float | None = None  # replaces that of the pairs tasks
    by: tuple[str, ...] = ()
    baselines: bool = True
    log_samples: bool = False
    output_path: Path | None = None
    include_path: tuple[Path, ...] = ()
    fresh: bool = False

    def identity(self) -> str:
        """Eight hex digits over all that can change a prediction, and nothing that cannot.

        Batch size and device change how fast an answer comes; folders change where it goes.
        """
        answered = ("tasks", "model", "model_args", "limit", "num_fewshot", "seed", "routes", "threshold")
        values = {key: getattr(self, key) for key in answered}
        text = json.dumps({**values, "log_samples": self.log_samples}, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def record(self) -> dict[str, Any]:
        """As stored in `run.json`, without folders of this machine."""
        hidden = {"output_path", "include_path", "fresh"}
        return {key: value for key, value in asdict(self).items() if key not in hidden}
