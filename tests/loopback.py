"""HTTP servers of this process, on a free port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer


@contextmanager
def answering(server: HTTPServer) -> Iterator[str]:
    """A server that answers while the context lasts; yields its address.

    It looks every hundredth of a second whether it is to end: with the default of half a second, the ends of servers
    took a minute of all tests. And it lets many clients queue: by default, the sixth that connects at once tries again
    after a second.
    """
    server.socket.listen(128)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
