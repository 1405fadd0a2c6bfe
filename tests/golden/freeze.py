"""Update the expected outcomes of golden runs: `python -m tests.golden.freeze [--only NAME …]` in a checkout.

This replaces the outcomes in `runs/*.json`. Update only what was meant to change, because the tests compare the code
with these files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from tests.golden.cases import Case, files, laid_out, outcomes
from tests.golden.stage import Models


def freeze(only: Collection[str], folder: Path) -> None:
    """Run the cases of these names, or all where there are none, and write their outcomes."""
    models = Models(folder / "models")
    for file in files():
        document = json.loads(file.read_text("utf-8"))
        for fields in document["cases"]:
            if only and fields["name"] not in only:
                continue
            case, began = Case(file=file, **fields), time.perf_counter()
            fields["outcomes"] = outcomes(case, folder / case.name, models)
            print(f"{case.name}: {time.perf_counter() - began:.1f} s", flush=True)
        file.write_text(laid_out(document) + "\n", encoding="utf-8")


def main() -> None:
    """Read the arguments and freeze."""
    import torch

    parser = argparse.ArgumentParser(prog="python -m tests.golden.freeze", description=__doc__)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="names of cases; all by default")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="figeval-golden-") as folder:
        freeze(parser.parse_args().only, Path(folder))


if __name__ == "__main__":
    main()
