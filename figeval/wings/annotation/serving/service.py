"""Start and end of the local server: its socket, the lock of the folder, and what is counted when it stops."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from figeval import FolderInUse, OptionError, RecordError
from figeval.io.files import locked
from figeval.wings.annotation.items import COMMENT, Key, read_questionnaire
from figeval.wings.annotation.journal import find_journal, find_journals

LOCK = ".serve.lock"
SHUTDOWN_SECONDS = 2  # that requests have to finish when the server stops


def serve(
    folder: Path, key: Key, annotator: str | None, port: int, announce: Callable[[str], None]
) -> Mapping[str, int]:
    """Serve items to browsers on this machine until Ctrl-C, and return the number of judgements of each annotator.

    Args:
        folder: folder of the items, in which the answers are stored.
        key: key to the items, of which nothing but the criteria and the order is shown.
        annotator: the only annotator; by default, everybody chooses a name on the page.
        port: port to listen on; 0 is any free one.
        announce: called with the address as soon as it can be opened.

    Raises:
        MissingPackage: the extra `annotate` is not installed.
        OptionError: the name cannot be used, or the port is not free.
        DataError: there are no items, or the answers so far are damaged.
        FolderInUse: the folder is being served already.
        RecordError: the folder cannot be written.
    """
    import uvicorn

    from figeval.wings.annotation.serving.app import HOST, PatientProtocol, application

    shown = read_questionnaire(folder, key)
    only = None if annotator is None else find_journal(folder, annotator).annotator
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LOCK, FolderInUse(f"{folder} is being served already; use that page")))
        except OSError as error:
            raise RecordError(
                f"cannot write {folder} ({error.strerror or error}), where the judgements are stored; copy the folder "
                "to a place of your own"
            ) from error
        _count_judgements(folder)  # damaged answers are reported before anybody adds to them
        listener = stack.enter_context(_listen(HOST, port))
        number = int(listener.getsockname()[1])
        token = secrets.token_urlsafe(16)
        config = uvicorn.Config(
            application(shown, folder, only, number, token),
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # anybody can send what is no request, and would fill the terminal with warnings
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        announce(f"http://{HOST}:{number}/#token={token}")
        with suppress(KeyboardInterrupt):  # repeated by uvicorn when it has stopped
            uvicorn.Server(config).run(sockets=[listener])
        return _count_judgements(folder)


def _count_judgements(folder: Path) -> Mapping[str, int]:
    journals = find_journals(folder)
    return {journal.annotator: sum(name != COMMENT for _, name in journal.answers()) for journal in journals}


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket to which browsers can connect at once; they wait until requests are handled."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        problem = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise OptionError(f"--port: {port} {problem}; give another one, or 0 for any that is free") from error
    return listener
