"""How sites are asked from here: what their robots.txt allows, one page at a time, with pauses between two pages of a host.

By RFC 9309 a robots.txt that is not there (4xx) allows everything, and one that its site cannot give (5xx) nothing; it is read
anew after a day.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

import httpx

from sanderling.core.errors import UserError
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.public import RobotsError, UnknownHostError, host_of
from sanderling.world.web.reading import Workers
from sanderling.world.web.service import LONGEST_PAUSE_S

AGENT = "sanderling"
"""By which sites may know us, in their robots.txt as well."""
MOST_ROBOTS = 500 << 10  # bytes of a robots.txt that are read
_ANEW_S = 86_400.0
_MOST_KEPT = 1_000  # sites whose robots.txt is remembered


@dataclass
class _Host:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    next: float = 0.0  # when it may be asked again
    delay_s: float = 0.0


class Manners:
    """What is known of hosts: their rules, and when they may be asked again."""

    def __init__(
        self,
        config: LiveConfig,
        own: Collection[str],
        get: Callable[[str], Awaitable[tuple[int, bytes]]],
        workers: Workers,
    ) -> None:
        """``own``: hosts that are one's own, and are asked without pauses; ``get``: status and text of a robots.txt."""
        self._config, self._own, self._get, self._workers = config, own, get, workers
        self._hosts: dict[str, _Host] = {}
        self._rules: dict[str, tuple[float, bytes | bool]] = {}
        if config.robots and find_spec("protego") is None:
            raise UserError(
                "Reading pages from here needs protego, which reads robots.txt: run pip install '.[web]' in sanderling's own "
                "folder, or name another reader with --set 'agent.live.readers=[\"jina\"]'."
            )

    @asynccontextmanager
    async def turn(self, url: str) -> AsyncIterator[None]:
        """While the host of an address is asked, by one at a time and not too soon after another."""
        host = self._host(url)
        async with host.turn:
            await asyncio.sleep(max(host.next - time.monotonic(), 0.0))
            try:
                yield
            finally:
                host.next = max(host.next, time.monotonic() + host.delay_s)

    def busy(self, url: str, seconds: float) -> None:
        """The host of an address asks to be left alone for so long."""
        host = self._host(url)
        host.next = max(host.next, time.monotonic() + min(seconds, LONGEST_PAUSE_S))

    async def check(self, url: str) -> None:
        """Raises RobotsError for an address that robots.txt does not let us read."""
        if not self._config.robots:
            return
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        read_at, rules = self._rules.get(origin, (-_ANEW_S, True))
        if time.monotonic() - read_at > _ANEW_S:
            try:
                status, text = await self._get(f"{origin}/robots.txt")
            except (httpx.HTTPError, UnknownHostError):  # a host that cannot be reached gives no page either
                return
            rules = text if status == 200 else status < 500
            self._rules[origin] = time.monotonic(), rules
            if len(self._rules) > _MOST_KEPT:
                del self._rules[next(iter(self._rules))]
        found = {"allowed": rules, "delay_s": 0.0}
        if isinstance(rules, bytes):
            found = await self._workers.ask("rules", url, AGENT, raw=rules)
        if found is None or not found["allowed"]:  # or rules that cannot be worked out
            raise RobotsError(url)
        host = self._host(url)
        host.delay_s = max(host.delay_s, min(found["delay_s"], LONGEST_PAUSE_S))

    def _host(self, url: str) -> _Host:
        name = host_of(url)
        return self._hosts.setdefault(name, _Host(delay_s=0.0 if name in self._own else self._config.delay_s))
