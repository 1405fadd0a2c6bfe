"""Package of the entry-point group `lm_eval.tasks`: its path is the folder of our stubs, created on import."""

from __future__ import annotations

from ..stubs import stubs_folder

__path__ = [str(stubs_folder())]
