"""`figeval` and `python`, forked from a process that has imported torch and the like. Pages of docs and trainings start
dozens of processes, and each would spend seconds of CPU on these imports. What runs is a process of its own, with its
own folder, environment and streams; signals reach it, and it dies with the one that asked for it. What it starts itself
with `sys.executable -m` is as quick.

python -m … CLIENT ──folder, environment, arguments, streams──▶ server ──forks──▶ waits ──forks──▶ the process
                   ◀──────────process id, then its exit code──────────────────────┘
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
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
IMPORTED = (
    "sklearn.feature_extraction.text",
    "scipy.stats",
    "transformers.modeling_utils",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "sentence_transformers",
    "torch.distributed.run",
    "torch.distributed.fsdp",
    "figeval.api.runs",
    "figeval.api.trainings",
    "figeval.evaluation",
)
STREAMS = (0, 1, 2)
OPTIONS = ("-u", "-P")  # of Python, before -m and -c
OURS = ("figeval", "tests.")  # modules that are run in this way


@contextmanager
def warm_figeval(imported: Sequence[str] = IMPORTED, limits: Mapping[int, int] | None = None) -> Iterator[Path]:
    """A folder for PATH, whose `figeval` and `python` start quickly while this lasts; `limits` of the module resource
    hold for each.
    """
    with tempfile.TemporaryDirectory(prefix="figeval-", dir="/tmp") as name:  # the path of a socket must be short
        server = start(Path(name), os.getpid(), imported, limits)
        try:
            yield Path(name)
        finally:
            os.kill(server, signal.SIGKILL)


def start(folder: Path, owner: int, imported: Sequence[str] = IMPORTED, limits: Mapping[int, int] | None = None) -> int:
    """Start a server that ends with the process `owner`, and write its two commands into the folder; its process id."""
    address = folder / "socket"
    ask = f'"{sys.executable}" -SE "{__file__}" ask "{address}"'
    for command, text in {"figeval": f'{ask} -P -m figeval "$@"', "python": f'{ask} "$@"'}.items():
        (folder / command).write_text(f"#!/bin/sh\nexec {text}\n")
        (folder / command).chmod(0o755)
    serving = [sys.executable, "-m", "tests.warm", "serve", str(address)]
    serving += [str(owner), str(folder / "python"), json.dumps([*(limits or {}).items()]), *imported]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return int(subprocess.run(serving, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True).stdout)


# ---- the client ------------------------------------------------------------------------------------------------------


def ask(address: str, arguments: list[str]) -> int:
    """Have `python ARGUMENTS …` run as if it were this process; its exit code, negative for a signal."""
    how, what, *_ = [*(argument for argument in arguments if argument not in OPTIONS), "", ""]
    if how != "-c" and not (how == "-m" and what.startswith(OURS)):
        os.execv(sys.executable, [sys.executable, *arguments])
    order = json.dumps({"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"!"], STREAMS)
        server.sendall(order + b"\n")
        answers = server.makefile()
        command = int(answers.readline())

        def pass_on(number: int, _: object) -> None:
            with suppress(ProcessLookupError):
                os.kill(command, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        return int(answers.readline() or 1)


def end(code: int) -> NoReturn:
    """End as the command did."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


# ---- the server ------------------------------------------------------------------------------------------------------


def serve(address: str, owner: str, limits: str, imported: Sequence[str]) -> dict[str, Any]:
    """Wait for orders; returns one, in a process that is there for it alone."""
    for name in imported:
        importlib.import_module(name)
    gc.freeze()  # a collection would touch, and so copy, all that is shared
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


def leave() -> None:
    """Let whoever started the server go on, and tell it which process serves."""
    if server := os.fork():
        os.write(1, str(server).encode())
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.close(nothing)


def take(client: socket.socket) -> dict[str, Any]:
    """An order; the streams of who sent it become those of this process."""
    _, streams, _, _ = socket.recv_fds(client, 1, len(STREAMS))
    for ours, theirs in zip(STREAMS, streams, strict=True):
        os.dup2(theirs, ours)
        os.close(theirs)
    order: dict[str, Any] = json.loads(client.makefile("rb").readline())
    return order


def watch(client: socket.socket, command: int) -> NoReturn:
    """Tell the client of its command, which must not outlive the client."""
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
    """Be Python, but for the interpreter's end, which takes a second where torch is loaded."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    arguments = [*order["arguments"]]
    safe = "PYTHONSAFEPATH" in os.environ
    while arguments[0] in OPTIONS:
        safe |= arguments.pop(0) == "-P"
    how, what, *sys.argv[1:] = arguments
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [os.path.abspath(folder) for folder in ([] if safe else [order["folder"]]) + found if folder]
    sys.executable = python
    code = 1
    try:
        if how == "-c":
            sys.argv[0] = how
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[0] = what
            runpy.run_module(what, run_name="__main__")
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
    what, address, *arguments = sys.argv[1:]
    if what == "ask":
        end(ask(address, arguments))
    owner, python, limits, *imported = arguments
    obey(serve(address, owner, limits, imported), python)
