"""`figeval` forked from a process that has imported torch and the like. Pages of docs start dozens of commands, and
each would spend seconds of CPU on these imports. What it runs is a process of its own, with its own folder,
environment and streams.

figeval CLIENT ──folder, environment, arguments, streams──▶ server ──forks──▶ waits ──forks──▶ the command
               ◀───────────────exit code──────────────────────────────────────┘
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import socket
import subprocess
import sys
import tempfile
import time
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
    "figeval.evaluation",
)
STREAMS = (0, 1, 2)


@contextmanager
def warm_figeval(imported: Sequence[str] = IMPORTED, limits: Mapping[int, int] | None = None) -> Iterator[Path]:
    """A folder for PATH, whose `figeval` is quick while this lasts; `limits` of the module resource hold for each."""
    with tempfile.TemporaryDirectory(prefix="figeval-", dir="/tmp") as name:  # the path of a socket must be short
        address, command = Path(name) / "socket", Path(name) / "figeval"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{__file__}" ask "{address}" "$@"\n')
        command.chmod(0o755)
        given = [str(address), json.dumps([*(limits or {}).items()]), *imported]
        serving = [sys.executable, "-m", "tests.warm", "serve", *given]
        server = subprocess.Popen(serving, cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        try:
            while not address.exists():
                assert server.poll() is None
                time.sleep(0.05)
            yield command.parent
        finally:
            server.kill()
            server.wait()


def ask(address: str, arguments: list[str]) -> int:
    """Have a command run as if it were this process; its exit code."""
    order = json.dumps({"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"!"], STREAMS)
        server.sendall(order)
        server.shutdown(socket.SHUT_WR)
        return int(server.makefile().read() or 1)


def serve(address: str, limits: str, imported: Sequence[str]) -> dict[str, Any]:
    """Wait for orders; returns one, in a process that is there for it alone."""
    for name in imported:
        importlib.import_module(name)
    gc.freeze()  # a collection would touch, and so copy, all that is shared
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{address}.draft")
        server.listen()
        os.rename(f"{address}.draft", address)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                break
            client.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    with client:
        order = take(client)
        if command := os.fork():
            client.sendall(str(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])).encode())
            os._exit(0)
    for limit, value in json.loads(limits):
        resource.setrlimit(limit, (value, value))
    return order


def take(client: socket.socket) -> dict[str, Any]:
    """An order; the streams of who sent it become those of this process."""
    _, streams, _, _ = socket.recv_fds(client, 1, len(STREAMS))
    for ours, theirs in zip(STREAMS, streams, strict=True):
        os.dup2(theirs, ours)
        os.close(theirs)
    order: dict[str, Any] = json.load(client.makefile("rb"))
    return order


def obey(order: dict[str, Any]) -> NoReturn:
    """Be `figeval`, but for the interpreter's end, which takes a second where torch is loaded."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    found = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [os.path.abspath(folder) for folder in found if folder]
    sys.argv = ["figeval", *order["arguments"]]
    code = 1
    try:
        runpy.run_module("figeval", run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    what, address, *arguments = sys.argv[1:]
    if what == "ask":
        sys.exit(ask(address, arguments))
    obey(serve(address, arguments[0], arguments[1:]))
