"""Import this module to run figeval once: processes forked afterwards find its imports and caches in memory.

Afterwards, no plugin is loaded, because every process has plugins of its own.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import figeval
from figeval.data.sources import catalogue
from figeval.plugins import plugin_manager

with tempfile.TemporaryDirectory() as folder:
    with patch.dict(os.environ, {"FIGEVAL_PLUGINS": "", "FIGEVAL_HOME": folder}):
        run = figeval.run("mini_proverbs", "overlap", limit=2, output_path=Path(folder) / "run")
    assert str(run)
    catalogue.cache_clear()
    plugin_manager.cache_clear()
