"""Settings of the live web. Keys come from the environment and are in no settings file."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from sanderling.core.config import Frozen


class LiveConfig(Frozen):
    """Who searches the live web and reads its pages, how patiently, and what that may take."""

    engines: tuple[str, ...] = ()
    """Who searches, each where those before it fail: ``serper``, ``searxng``, ``brave``, ``tavily`` or ``file.py:name``; empty:
    the first of these whose key or address is known."""
    readers: tuple[str, ...] = ()
    """Who reads pages, likewise: ``direct`` (from here), ``rendered`` (by chromium here), ``jina`` or ``file.py:name``; empty:
    ``jina`` if its key or address is known, else ``direct``."""
    urls: dict[str, str] = Field(default={})
    """Where services are, by name: ``urls.searxng=http://127.0.0.1:8888``."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts on this machine or a private network whose pages may be read, at every port: ``wiki.local``, ``[::1]``."""
    prices: dict[str, Annotated[float, Field(ge=0)]] = Field(default={})
    """What a call of a service costs, by name: ``prices.serper=0.001``; the others are free."""
    max_cost: float | None = Field(default=None, ge=0)
    """Most money for searches and pages of a run, those from the cache not counted; past it the agent is told so."""
    per_minute: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})
    """Most calls of a service in a minute, by name."""
    concurrent: int = Field(default=4, ge=1)
    """Calls of a service at the same time."""
    robots: bool = True
    """Keep to what robots.txt of a site says, as far as its pages are read from here."""
    delay_s: float = Field(default=1.0, ge=0)
    """Seconds between two pages that are read from one host from here."""
    cache: Path | None = None
    """Where searches and pages are kept; in the user's cache directory by default."""
    age_h: float = Field(default=24, ge=0)
    """Hours for which a kept search or page is as good as a new one; 0: none is."""
    cache_mb: int = Field(default=2_000, ge=1)
    """Megabytes that this file may hold; what came first makes room."""
    timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for one attempt at a search or page."""
    attempts: int = Field(default=3, ge=1)
    """At one request, where the service or site is busy or broken."""
    pause_s: float = Field(default=1.0, ge=0)
    """Seconds before the second attempt; doubled each time, unless the service says how long."""

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts_alone(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not re.fullmatch(r"[^\s/:@]+|\[[0-9A-Fa-f:.]+\]", host):
                raise ValueError(f"{host!r} is more than a host: leave out scheme, port and path, as in wiki.local or [::1]")
        return hosts
