"""Ask the same questions through every inference engine, and compare the predictions with those of `causal`.

    python bench/engines.py [--vllm PYTHON] [--llama PYTHON] [--tasks mini_proverbs …] [--limit 40] [--output FOLDER]

`make engines` prepares the environments and calls this. The model is SmolLM2-135M-Instruct in single precision. Engines
without an environment are left out, and so is SGLang, which does not run on a CPU. Each run is a `figeval run` of its
own; a run that is in the folder already is continued, so nothing is computed twice. llama-cpp-python reads the
quantised file itself: its arithmetic differs, so its predictions are compared, but not required to be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 900  # seconds until a server must answer
MAX_TOKENS = 2048
CPU = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR"}
LETTER = ("--route", "choice=by_letter", "--max_new_tokens", "16")
ROUTES: dict[str, tuple[str, ...]] = {"loglikelihood": (), "letter": LETTER, "constrained": (*LETTER, "--constrain")}


@dataclass(frozen=True)
class BenchedEngine:
    """An engine: the model's name in figeval, its options, and the command of its server if it is one.

    Attributes:
        exact: whether it must predict what `causal` does.
    """

    name: str
    python: Path
    model: str
    options: dict[str, str] = field(default_factory=dict)
    serve: Sequence[str] = ()
    exact: bool = True


def engines(arguments: argparse.Namespace, folder: Path) -> Iterator[BenchedEngine]:
    """Yield the engines whose environments are given, `causal` first."""
    python = Path(sys.executable)
    yield BenchedEngine("causal", python, f"causal:{folder}", {"dtype": "float32"})
    server_options = {"tokenizer": str(folder), "base_url": "http://127.0.0.1:{port}/v1", "timeout": "600"}
    if arguments.vllm:
        size = {"dtype": "float32", "enforce_eager": "true", "max_model_len": str(MAX_TOKENS)}
        yield BenchedEngine("vllm", arguments.vllm, f"vllm:{folder}", size)
        flags = ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(MAX_TOKENS), "--port", "{port}"]
        program = ["-m", "vllm.entrypoints.openai.api_server"]  # `vllm serve` looks for a distribution called vllm
        serve = [*program, "--model", str(folder), "--served-model-name", "smollm2", *flags]
        yield BenchedEngine("vllm_server", python, "vllm_server:smollm2", server_options, [str(arguments.vllm), *serve])
    if arguments.llama:
        flags = ["--model", str(weights()), "--logits_all", "true", "--n_ctx", str(MAX_TOKENS), "--port", "{port}"]
        serve = [str(arguments.llama), "-m", "llama_cpp.server", *flags]
        options = {**server_options, "max_length": str(MAX_TOKENS), "max_concurrent": "1"}
        yield BenchedEngine("llama_cpp", python, "llama_cpp:smollm2", options, serve, exact=False)


def weights() -> Path:
    """Return the quantised file in the package of `smollm2`."""
    from figeval.builtin.plugins.causal.packaged import SMOLLM2

    spec = find_spec(SMOLLM2.package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / SMOLLM2.file


@contextmanager
def running(engine: BenchedEngine, log: Path) -> Iterator[dict[str, str]]:
    """Start the engine's server, if it has one, and yield the options with its address."""
    port_file = log.with_suffix(".port")  # a run that is continued has the same address
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", int(port_file.read_text()) if port_file.is_file() else 0))
        port = str(probe.getsockname()[1])
    options = {name: value.replace("{port}", port) for name, value in engine.options.items()}
    if not engine.serve:
        yield options
        return
    port_file.write_text(port)
    command = [part.replace("{port}", port) for part in engine.serve]
    with log.open("w") as output:
        process = subprocess.Popen(command, env={**os.environ, **CPU}, stdout=output, stderr=output)
        try:
            wait(process, f"{options['base_url']}/models", log)
            yield options
        finally:
            process.terminate()
            process.wait()


def wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until a server answers. Raises `RuntimeError` if it ends before, or takes too long."""
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}: see {log}")
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(1)
    raise RuntimeError(f"no answer from {url} within {PATIENCE} s: see {log}")


def run(engine: BenchedEngine, options: dict[str, str], task: str, route: str, arguments: argparse.Namespace) -> float:
    """Run a task, and return the seconds."""
    model_args = ",".join(f"{name}={value}" for name, value in options.items())
    command = [
        *(str(engine.python), "-m", "figeval", "run", "--tasks", task, "--model", engine.model),
        *("--apply_chat_template", "--model_args", model_args, "--limit", str(arguments.limit), "--no_baselines"),
        *(*ROUTES[route], "--output_path", str(arguments.output / f"{engine.name}-{task}-{route}")),
    ]
    began = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, **CPU, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def rows(engine: BenchedEngine, task: str, route: str, output: Path) -> dict[str, dict[str, object]]:
    """Return the rows of a run by example."""
    file = output / f"{engine.name}-{task}-{route}" / "predictions" / f"{task}.jsonl"
    records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {row["id"]: row for row in records}


def compare(engine: BenchedEngine, other: BenchedEngine, task: str, route: str, output: Path) -> tuple[int, int, float]:
    """Return the examples, those with the same prediction, and the largest difference of scores in nats."""
    left, right = rows(engine, task, route, output), rows(other, task, route, output)
    assert left.keys() == right.keys()
    same = sum(left[example_id]["pred"] == right[example_id]["pred"] for example_id in left)
    scores = [(left[example_id].get("scores") or (), right[example_id].get("scores") or ()) for example_id in left]
    gaps = [abs(a - b) for pair in scores for a, b in zip(*pair, strict=True)] if route == "loglikelihood" else [0.0]
    return len(left), same, max(gaps)


def main() -> int:
    """Print a line for each engine, task and route, and return 1 if an engine that must agree does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", type=Path, help="Python of an environment with vLLM and figeval")
    parser.add_argument("--llama", type=Path, help="Python of an environment with llama-cpp-python's server")
    parser.add_argument("--tasks", nargs="+", default=["mini_proverbs", "epic_mcq"])
    parser.add_argument("--routes", nargs="+", choices=ROUTES, default=list(ROUTES))
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "runs" / "engines")
    arguments = parser.parse_args()
    from figeval.builtin.plugins.causal.packaged import SMOLLM2

    arguments.output.mkdir(parents=True, exist_ok=True)
    all_engines = list(engines(arguments, SMOLLM2.folder()))
    has_failed = False
    print(f"{'engine':12} {'task':16} {'route':14} {'n':>4} {'same':>5} {'largest difference':>19} {'seconds':>8}")
    for engine in all_engines:
        with running(engine, arguments.output / f"{engine.name}.log") as options:
            for task in arguments.tasks:
                for route in arguments.routes:
                    seconds = run(engine, options, task, route, arguments)
                    n, same, gap = compare(engine, all_engines[0], task, route, arguments.output)
                    print(
                        f"{engine.name:12} {task:16} {route:14} {n:4} {same:5} {gap:19.1e} {seconds:8.1f}", flush=True
                    )
                    has_failed |= engine.exact and same < n
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
