"""How the processes of our commands end."""

from __future__ import annotations

import atexit
import gc


def end_quickly() -> None:
    """Spare the interpreter's last garbage collection: where torch and transformers are loaded it takes a second.

    What has a count of references of its own is still released, and whatever waits for `atexit` still runs.
    """
    atexit.register(gc.freeze)
