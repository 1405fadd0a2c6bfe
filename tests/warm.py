"""Fork server for `figeval` and `python`, which saves tests the import of torch and other large libraries.

The tests of documentation pages and trainings start dozens of processes, each of which would spend seconds of CPU on
these imports. Here, every command is forked from a server that has imported them already. The command is still a
separate process with its own working folder, environment and streams; it receives the signals sent to its client, and
is killed if the client ends. Processes that it starts with `sys.executable -m` are forked from the server, too.

client (python -m …) ──folder, environment, arguments, streams──▶ server ──forks──▶ watcher ──forks──▶ command
                     ◀──────────process id, then the exit code──────────────────────┘
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from tests.warm_client import OPTIONS, STREAMS
from tests.wings_here import is_here

ROOT = Path(__file__).resolve().parent.parent
CLIENT = Path(__file__).with_name("warm_client.py")
COMMAND_MODULES = (  # what commands without torch import
    "scipy.stats",
    "figeval.api.runs",
    "figeval.cli.main",
    "figeval.runs",
    "figeval.reporting.table",
    "rich.console",
)
PRELOADED_MODULES = (
    "sklearn.feature_extraction.text",
    "transformers.modeling_utils",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "sentence_transformers",
    "torch.distributed.run",
    "torch.distributed.fsdp",
    *COMMAND_MODULES,
    *(["figeval.wings.training.api"] if is_here("training") else []),
    # transformers imports it whenever it saves a model, and it imports torch's compiler when it trains
    *(["deepspeed", "torch._inductor.compile_fx"] if find_spec("deepspeed") else []),
    "tests.rehearsal",
)


@contextmanager
def warm_figeval(
    imported: Sequence[str] = PRELOADED_MODULES, limits: Mapping[int, int] | None = None
) -> Iterator[Path]:
    """Context manager that returns a folder for PATH with a `figeval` and a `python` that start quickly.

    Args:
        imported: modules that the server imports.
        limits: resource limits of each command, by the constants of the module `resource`.
    """
    with tempfile.TemporaryDirectory(prefix="figeval-", dir="/tmp") as name:  # the path of a socket must be short
        server = start(Path(name), os.getpid(), imported, limits)
        try:
            yield Path(name)
        finally:
            os.kill(server, signal.SIGKILL)


def start(
    folder: Path, owner: int, imported: Sequence[str] = PRELOADED_MODULES, limits: Mapping[int, int] | None = None
) -> int:
    """Start a server, write its commands into the folder and return its process id; it ends when `owner` does."""
    address = folder / "socket"
    ask = f'"{sys.executable}" -SE "{CLIENT}" "{address}"'
    for command, text in {"figeval": f'{ask} -P -m figeval "$@"', "python": f'{ask} "$@"'}.items():
        (folder / command).write_text(f"#!/bin/sh\nexec {text}\n")
        (folder / command).chmod(0o755)
    serving = [sys.executable, "-m", "tests.warm", str(address)]
    serving += [str(owner), str(folder / "python"), json.dumps([*(limits or {}).items()]), *imported]
    # torch and DeepSpeed read these variables when they are imported, so those of a command would come too late
    environment = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", **os.environ, "HF_HUB_OFFLINE": "1"}
    return int(subprocess.run(serving, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True).stdout)


# ---- the server ------------------------------------------------------------------------------------------------------


def serve(address: str, owner: str, limits: str, imported: Sequence[str]) -> dict[str, Any]:
    """Accept requests; fork for each one, and return it in the child process, which serves only this request."""
    for name in imported:
        importlib.import_module(name)
    prepare()
    gc.freeze()  # otherwise a collection would write to the shared memory pages, and so copy them
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        leave()
        owned = os.pidfd_open(int(owner))
        while owned not in select.select([server, owned], [], [])[0]:
            client, _ = server.accept()
            if os.fork() == 0:
                break
            client.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        else:
            shutil.rmtree(Path(address).parent, ignore_errors=True)
            os._exit(0)
    os.close(owned)
    with client:
        order = take(client)
        if command := os.fork():
            watch(client, command)
    for limit, value in json.loads(limits):
        resource.setrlimit(limit, (value, value))
    return order


def prepare() -> None:
    """Import figeval's plugins, parse its task files, and compile what transformers needs to load any model.

    The parsed files stay in the memory of the commands. The plugins do not, since they depend on a command's variables.
    torchrun's log of events names the method that calls it; among so many modules, finding that takes two seconds.
    """
    from figeval import Harness
    from figeval.plugins import plugin_manager

    Harness().catalogue  # noqa: B018
    plugin_manager.cache_clear()
    if "torch.distributed.run" not in sys.modules:
        return
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    with suppress(ImportError):  # transformers 4 does not have it
        from transformers.conversion_mapping import get_checkpoint_conversion_mapping

        get_checkpoint_conversion_mapping("bert")
    dynamic_rendezvous.get_method_name = lambda: "unknown"


def leave() -> None:
    """Detach the server from the process that started it, and print the server's process id there."""
    if server := os.fork():
        os.write(1, str(server).encode())
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.close(nothing)


def take(client: socket.socket) -> dict[str, Any]:
    """Receive a request, and replace the streams of this process by those of the client."""
    _, streams, _, _ = socket.recv_fds(client, 1, len(STREAMS))
    for ours, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, ours)
        os.close(stream)
    order: dict[str, Any] = json.loads(client.makefile("rb").readline())
    return order


def watch(client: socket.socket, command: int) -> NoReturn:
    """Send the client the command's process id and exit code; kill the command if the client ends first."""
    with suppress(OSError):
        client.sendall(f"{command}\n".encode())
    ended = os.pidfd_open(command)
    if ended not in select.select([client, ended], [], [])[0]:
        os.kill(command, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with suppress(OSError):
        client.sendall(f"{code}\n".encode())
    os._exit(0)


def obey(order: dict[str, Any], python: str) -> NoReturn:
    """Run the requested module or code as Python would, but skip the interpreter's shutdown (a second with torch)."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    arguments = [*order["arguments"]]
    safe = "PYTHONSAFEPATH" in os.environ
    while arguments[0] in OPTIONS:
        safe |= arguments.pop(0) == "-P"
    mode, target, *sys.argv[1:] = arguments
    search_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [os.path.abspath(folder) for folder in ([] if safe else [order["folder"]]) + search_path if folder]
    sys.executable = python
    code = 1
    try:
        if mode == "-c":
            sys.argv[0] = mode
            exec(compile(target, "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[0] = target
            runpy.run_module(target, run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    address, owner, python, limits, *imported = sys.argv[1:]
    obey(serve(address, owner, limits, imported), python)
