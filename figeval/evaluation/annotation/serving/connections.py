"""Connections that ask for nothing: they are closed after a while, and the oldest ones as soon as there are too many.

A program that opens connections and sends nothing needs no token. Without a limit, it would use up the files that the
server may have open, and nobody else could connect.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 64
IDLE_SECONDS = 10.0  # that a connection may take to send the head of its first or next request


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with a limit of the number of connections and of the time without a request."""

    waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; the one that has been without a request longest makes room for it if necessary."""
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle)
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [one for one in self.connections if isinstance(one, PatientProtocol) and one.is_idle and one != self]
            if idle:
                min(idle, key=lambda one: one.waiting_since).transport.abort()

    @property
    def is_idle(self) -> bool:
        """True while no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Note when the connection began to wait for its next request."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def _close_if_idle(self) -> None:
        if self.transport.is_closing():
            return
        waited = self.loop.time() - self.waiting_since if self.is_idle else 0.0
        if waited >= IDLE_SECONDS:
            self.transport.abort()
        else:
            self.loop.call_later(IDLE_SECONDS - waited, self._close_if_idle)
