"""How long a client may take to say what it wants: a request's head arrives in time, or the connection is closed.

The server below has limits for idle connections and none for a head that never ends, with which anybody could hold connections
open for ever. The time runs whenever a connection waits for the head of a request that has begun, the first one included.
Bodies have their time in `limits`.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0
"""For a whole head, from the opening of the connection or the first byte after an earlier request."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for heads; one for each connection."""

    _given_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the clock while a request is answered; start it with the first byte of the next."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        else:
            self._wait()

    def on_response_complete(self) -> None:
        """What came already of the next request is part of its head."""
        self._stop()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._given_up is None and not self.transport.is_closing():
            self._given_up = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None
