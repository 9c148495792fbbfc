"""How long a client may take to say what it wants, and to take what it is given; then the connection is closed.

The server below has limits for idle connections and none for a head that never ends, with which anybody could hold connections
open for ever. The time runs whenever a connection waits for the head of a request that has begun, the first one included.
Bodies have their time in `limits`. A client that takes nothing of its reply is let go too: it would wait in memory for ever.
"""

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0
"""For a whole head, from the opening of the connection or the first byte after an earlier request."""


UNREAD_S = 60.0
"""For a reply that the client does not read, from the moment when no more of it can be sent."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with time limits for heads and for unread replies; one for each connection."""

    _given_up: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock."""
        super().connection_made(cast(asyncio.Transport, transport))  # a server's connections go both ways
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

    def pause_writing(self) -> None:
        """Start the clock of a reply that waits to be read."""
        super().pause_writing()
        self._read()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop it: the client has read on."""
        self._read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop()
        self._read()
        super().connection_lost(exc)

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait(self) -> None:
        if self._given_up is None and not self.transport.is_closing():
            self._given_up = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None
