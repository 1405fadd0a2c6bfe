"""Update the expected outcomes on real data: `python -m tests.golden.freeze_benchmarks [--only NAME …]` in a checkout.

This replaces the outcomes in `benchmarks/*.json`. It needs the complete data, in the folder FIGEVAL_DATA_MIRROR or in
the one where tests look for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from tests.conftest import MIRROR
from tests.golden.benchmarks import BenchmarkCase, files, outcomes
from tests.golden.cases import laid_out
from tests.golden.stage import Models

SLOW_SECONDS = 4


def freeze(only: Collection[str], folder: Path, mirror: Path) -> None:
    """Run the cases of these names, or all where there are none, and write their outcomes."""
    models = Models(folder / "models")
    for file in files():
        content = json.loads(file.read_text("utf-8"))
        for fields in content["cases"]:
            if only and fields["name"] not in only:
                continue
            case, began = BenchmarkCase(file=file, **fields), time.perf_counter()
            if missing := case.missing(mirror):
                sys.exit(f"{case.name} cannot be frozen without {', '.join(missing)}")
            fields["outcomes"] = outcomes(case, folder / case.name, models, mirror)
            seconds = time.perf_counter() - began
            hint = ": mark it slow" * (seconds > SLOW_SECONDS and not case.slow)
            print(f"{case.name}: {seconds:.1f} s{hint}", flush=True)
        file.write_text(laid_out(content) + "\n", encoding="utf-8")


def main() -> None:
    """Read the arguments and freeze."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # as in tests
    import torch

    parser = argparse.ArgumentParser(prog="python -m tests.golden.freeze_benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="names of cases; all by default")
    only = parser.parse_args().only
    if MIRROR is None:
        parser.error("no real data: set FIGEVAL_DATA_MIRROR to a folder laid out <benchmark>/<path>")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="figeval-golden-") as folder:
        freeze(only, Path(folder), Path(MIRROR))


if __name__ == "__main__":
    main()
