"""Slow language model for tests that interrupt a run: FIGEVAL_PLUGINS=slow_model.

SLOW_SECONDS is the time per request. It is not an option of the model, so a run can be resumed with another value.
"""

from __future__ import annotations

import os
import time
import zlib

from figeval import hookimpl


class Slow:
    """Log-likelihoods that are a hash of the texts."""

    def __init__(self, model: str = "") -> None:
        self.seconds = float(os.environ.get("SLOW_SECONDS", "0"))

    def loglikelihood(self, requests):
        time.sleep(self.seconds * len(requests))
        return [-zlib.crc32(f"{r.context}|{r.continuation}".encode()) / 2**32 for r in requests]

    def fingerprint(self):
        return "slow 1"


@hookimpl
def register_backends(register):
    register("slow", Slow, "for tests")
