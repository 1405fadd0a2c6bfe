"""Measure on a GPU, in one go of six minutes, what the documentation says about GPUs.

    python -m bench.gpu [--quick] [--seconds N]  (only what is not measured yet on this device with these versions)
    python -m bench.gpu --again --only encoding  (measure a part anew)
    python -m bench.gpu --device cpu --tiny      (tries the code in tiny shapes; the numbers mean nothing)

Parts: log-likelihoods of the packed engine beside lm-eval's `hf`, with random weights in the shapes of Llamas of 1 and
8 billion parameters, in bfloat16 (5 options, 250 options, both also after four solved examples), and the engine's
self-test; an encoder in the shape of RoBERTa-large beside sentence-transformers: throughput and memory; fine-tuning it
beside a plain training loop; and writing beside `generate` of transformers, and vLLM if it is installed. Every part
runs in a process of its own, so that none loses what others have measured. Results are stored after each, with the name
of the device, in results/measured/bench/gpu.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.store import FOLDER, record_of, store
from figeval.models.devices import avoid_cudnn_attention

from .machine import Machine
from .parts import PARTS, GpuPart

NO_GPU = "no GPU is available here; `python -m bench.gpu --device cpu --tiny` tries the code in tiny shapes"
ROOT = Path(__file__).resolve().parents[2]
MAX_OUTPUT_CHARS = 400  # characters of a failed part's last output


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--quick", action="store_true", help="leave out the model of 8 billion parameters")
    parser.add_argument("--only", action="append", choices=names, help="measure only this part; may be repeated")
    parser.add_argument("--again", action="store_true", help="measure what is measured, too")
    parser.add_argument("--seconds", type=float, default=360, help="most time for all parts (default: %(default)g)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to try the code")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of gpu.json (default: %(default)s)")
    parser.add_argument("--part", choices=names, help=argparse.SUPPRESS)  # what a process of a part gets
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run all parts. Returns 1 if one of them failed, and 2 without a GPU."""
    options = arguments()
    if options.part:
        avoid_cudnn_attention()  # as figeval's commands do; it holds for lm-eval and transformers, too
        part = next(part for part in PARTS if part.name == options.part)
        options.into.write_text(json.dumps(part.figures(Machine(options.device), tiny=options.tiny)), encoding="utf-8")
        return 0
    if options.device.startswith("cuda") and not has_gpu():
        print(NO_GPU, file=sys.stderr)
        return 2
    machine = Machine(options.device)
    parts = [part for part in PARTS if part.name in (options.only or [part.name]) and (part.quick or not options.quick)]
    figures = stored_figures(options.output, machine.name)
    missing = [
        part for part in parts if options.again or "failed" in figures.get(part.name, {"failed": "not measured"})
    ]
    for part in parts:
        expected = f"about {part.seconds} s" if part in missing else "measured already"
        print(f"{part.name}: {expected}", file=sys.stderr, flush=True)
    end = time.monotonic() + options.seconds
    for index, part in enumerate(missing):
        # Time that a part leaves is for those after it; a part may take more than it is expected to, but not all.
        later = sum(later_part.seconds for later_part in missing[index + 1 :])
        figures[part.name] = measure_part(part, options, max(1.0, end - time.monotonic() - later))
        print(json.dumps({part.name: figures[part.name]}, indent=1), flush=True)
        store("gpu", {"device": machine.name, **in_order(figures)}, options.output)
    return 1 if any("failed" in figures[part.name] for part in parts) else 0


def stored_figures(folder: Path, device: str) -> dict[str, Any]:
    """Return the figures of the stored record by part, if they are of this device and of the installed versions."""
    from figeval.records import provenance

    record = record_of("gpu", folder)
    if record is None or record["versions"] != provenance.versions() or record["figures"].get("device") != device:
        return {}
    return {name: figures for name, figures in record["figures"].items() if name != "device"}


def in_order(figures: dict[str, Any]) -> dict[str, Any]:
    return {part.name: figures[part.name] for part in PARTS if part.name in figures}


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def measure_part(part: GpuPart, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Return the figures of a part, measured by another process, or {"failed": why}."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        flags = ["--part", part.name, "--into", str(file), "--device", options.device, *["--tiny"] * options.tiny]
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.gpu", *flags],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"failed": f"took more than {seconds:.0f} s"}
        finally:
            with contextlib.suppress(ProcessLookupError):  # an engine may have processes of its own
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode or not file.is_file():
            return {"failed": output.strip()[-MAX_OUTPUT_CHARS:] or f"exit code {process.returncode}"}
        figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return figures


if __name__ == "__main__":
    sys.exit(main())
