"""The command that `tests.warm` writes: it lets the server run `python ARGUMENTS …` in place of this process.

It imports little, because it is started for every command.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress

STREAMS = (0, 1, 2)
OPTIONS = ("-u", "-P")  # options of Python that may precede -m and -c
OWN_PACKAGES = ("figeval", "tests.")  # prefixes of the modules that the server runs


def ask(address: str, arguments: list[str]) -> int:
    """Let the server run `python ARGUMENTS …` in place of this process; return the exit code, negative for a signal."""
    mode, target, *_ = [*(argument for argument in arguments if argument not in OPTIONS), "", ""]
    if mode != "-c" and not (mode == "-m" and target.startswith(OWN_PACKAGES)):
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

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, pass_on)
        return int(answers.readline() or 1)


def end(code: int) -> None:
    """Exit with the command's exit code, or by the signal that killed it."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    end(ask(sys.argv[1], sys.argv[2:]))
