"""The dock itself: tools of all pools under one roof, who may call them, what is written down of each call."""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
from jsonschema import SchemaError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sanderling.core.errors import UserError
from sanderling.runs.jsonl import JsonlLog
from sanderling.serve.dock.config import DockConfig, PoolConfig, check_dock
from sanderling.serve.dock.pool import DockError, Pool, Trouble
from sanderling.serve.dock.replica import Replica, State
from sanderling.tools.mcp.client import CallRefusedError, Progress
from sanderling.tools.mcp.config import secret
from sanderling.tools.mcp.tools import Arguments
from sanderling.tools.mcp.wire import LEAVE, About, read_context, sent_context

_MOST_AUDIT = 64 << 20  # bytes of a log
_IDLE_CHECK_S = 5.0
_LISTED_S = 20.0  # that a pool has to list its tools: clients wait 30 for all
_LONGEST_NAME = 200  # characters, of a session or of a tool that is asked for
_TOLD = ("number", "pid", "memory_mb", "calls", "served", "failed", "starts", "reason")  # of a replica, on the page


@dataclass(frozen=True)
class Client:
    """Who asks, by the name of the token, and which pools' tools are open to it."""

    name: str = "anybody"
    pools: frozenset[str] = frozenset()
    admin: bool = True  # to whom all are

    def may(self, pool: str) -> bool:
        return self.admin or pool in self.pools


class NoSuchToolError(Exception):
    """There is none of this name, or not for this client."""


class Dock:
    """Pools, started and stopped together: ``async with dock``. Raises UserError for settings that do not go together."""

    def __init__(self, config: DockConfig) -> None:
        check_dock(config)
        self.config, self.began = config, time.time()
        self.pools = {name: Pool(name, one) for name, one in config.pools.items()}
        self.clients = {secret(one.token): Client(name, frozenset(one.pools), one.admin) for name, one in config.tokens.items()}
        if len(self.clients) < len(config.tokens):
            raise UserError("Two tokens of the dock have the same secret: give each its own.")
        self._audit, self.audit_trouble = JsonlLog(config.state / "audit.jsonl", durable=False), ""
        self._idle: asyncio.Task[None] | None = None
        self.metrics = _Metrics(self.pools)

    async def __aenter__(self) -> "Dock":
        for pool in self.pools.values():
            if pool.config.warm:
                pool.start()
        self._idle = asyncio.create_task(self._stop_idle())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._idle is not None:
            self._idle.cancel()
        await asyncio.gather(*(pool.stop(self.config.grace_s) for pool in self.pools.values()))

    async def tools(self, client: Client) -> tuple[list[tuple[Pool, types.Tool]], list[str]]:
        """Each tool that a client may call, with its pool; and of each pool that has not come up, in a sentence, why."""
        found, down = list[tuple[Pool, types.Tool]](), list[str]()

        async def look(pool: Pool) -> None:
            try:
                async with asyncio.timeout(_LISTED_S):
                    found.extend((pool, tool) for tool in (await pool.listed()).values())
            except TimeoutError:
                down.append(f"The pool {pool.name} has not come up yet.")
            except DockError as error:
                if error.trouble is not Trouble.STOPPED:  # by a person, who wants it so
                    down.append(str(error))

        await asyncio.gather(*(look(pool) for name, pool in self.pools.items() if client.may(name)))
        order = [*self.pools]
        return sorted(found, key=lambda one: order.index(one[0].name)), down

    async def find(self, name: str, client: Client) -> tuple[Pool, str]:
        """The pool and tool of ``pool.tool``, or of a tool's own name where only one pool has it.

        Raises NoSuchToolError, and DockError where the pool is down.
        """
        pool, _, tool = name.partition(".")
        if pool in self.pools and client.may(pool):
            if tool in await self.pools[pool].listed():
                return self.pools[pool], tool
            raise NoSuchToolError(f"The pool {pool} has no tool {tool!r}: /mcpapi/server/{pool}/tools lists them.")
        listed, down = await self.tools(client)
        found = [(pool, tool.name) for pool, tool in listed if tool.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(f"{one.name}.{name}" for one, _ in found)
            raise NoSuchToolError(f"Several pools have a tool {name!r}: say {choices}.")
        raise NoSuchToolError(" ".join([f"There is no tool {name!r} here: /mcpapi/tools lists them.", *down]))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        client: Client,
        *,
        session: str = "",
        progress: Progress | None = None,
    ) -> types.CallToolResult:
        """Call a tool by ``pool.tool``. Raises NoSuchToolError, CallRefusedError, DockError."""
        began, replica, outcome = time.perf_counter(), None, "cancelled"
        try:
            pool, tool = await self.find(name, client)
        except DockError as error:  # the pool that the name begins with is down
            self._ended(client, self.pools[name.partition(".")[0]], "", arguments, session, None, error.trouble.value, began)
            raise
        except NoSuchToolError:
            self.write({"client": client.name, "pool": "", "tool": name[:_LONGEST_NAME], "outcome": "unknown"})
            raise
        session, own, meta = _bound(client, pool.tools[tool], meta, session)
        if LEAVE in meta:
            await pool.leave(tool, own)
            return types.CallToolResult(content=[])
        try:
            checker = _checker(json.dumps(pool.tools[tool].input_schema))
            if wrong := checker and checker.wrong(tool, arguments):
                raise CallRefusedError(wrong)
            result, replica = await pool.call(tool, arguments, meta, own, progress)
            outcome = "error" if result.is_error else "ok"
            return result
        except DockError as error:
            outcome = error.trouble.value
            raise
        except CallRefusedError:
            outcome = "refused"
            raise
        finally:
            self._ended(client, pool, tool, arguments, session, replica, outcome, began)

    def _ended(
        self,
        client: Client,
        pool: Pool,
        tool: str,
        arguments: Mapping[str, Any],
        session: str,
        replica: Replica | None,
        outcome: str,
        began: float,
    ) -> None:
        """Count a call, and write down everything of it but the text of arguments and result."""
        seconds = time.perf_counter() - began
        pool.outcomes[outcome] += 1
        if replica is not None:
            pool.seconds.append(seconds)
        self.metrics.called(pool.name, tool, outcome, seconds)
        try:
            digest = hashlib.sha256(json.dumps(arguments, sort_keys=True, default=str).encode()).hexdigest()[:16]
        except RecursionError:
            digest = "nested too deep"
        about = {"client": client.name, "pool": pool.name, "replica": None if replica is None else replica.number}
        about |= {"tool": tool, "session": session[:_LONGEST_NAME], "arguments": digest}
        self.write({**about, "outcome": outcome, "ms": round(seconds * 1_000, 2)})

    def write(self, what: Mapping[str, Any]) -> None:
        """A line of the audit log, dated; nothing fails for it, the page says so. A full one is kept until the next is."""
        path = self._audit.path
        try:
            if path.exists() and path.stat().st_size > _MOST_AUDIT:
                path.replace(path.with_suffix(".1.jsonl"))
            self._audit.append({"at": round(time.time(), 3), **what})
            self.audit_trouble = ""
        except (OSError, UserError) as error:
            self.audit_trouble = f"The audit log cannot be written. {error}"

    async def _stop_idle(self) -> None:
        """Stop pools that are started on demand and were not called for long."""
        while True:
            await asyncio.sleep(_IDLE_CHECK_S)
            for pool in self.pools.values():
                idle = time.monotonic() - pool.last_call > pool.config.idle_s and not pool.waiting
                if not pool.config.warm and pool.is_open and idle and not any(one.calls for one in pool.replicas):
                    await pool.stop(0.0)

    def state(self) -> dict[str, Any]:
        """All that the page shows."""
        return {
            "since": time.strftime("%Y-%m-%d %H:%M", time.localtime(self.began)),
            "audit": self.audit_trouble,
            "pools": [_pool_state(pool) for pool in self.pools.values()],
        }


@lru_cache(maxsize=4_096)
def _checker(schema: str) -> Arguments | None:
    """What a tool's schema says of arguments; None: it is none, and checks nothing."""
    with suppress(SchemaError):
        return Arguments(json.loads(schema))


def _bound(client: Client, tool: types.Tool, meta: Mapping[str, Any], session: str) -> tuple[str, str, Mapping[str, Any]]:
    """A call's session by the client's name and by ours, in which it is nobody else's, and what goes to the server.

    Where a tool keeps something, calls that name no session are of the client's own. Raises CallRefusedError.
    """
    context = read_context(meta)
    session = session or str(meta.get(LEAVE) or "") or context.session
    if len(session) > _LONGEST_NAME:
        raise CallRefusedError(f"The name of a session is too long: give one of {_LONGEST_NAME} characters at most.")
    keeps = About.of(tool).keeps
    own = f"{client.name}/{session}" if session or keeps else ""
    return session, own, {**meta, **sent_context(replace(context, session=own))} if keeps else meta


def _pool_state(pool: Pool) -> dict[str, Any]:
    times = sorted(pool.seconds)
    return {
        "name": pool.name,
        "command": _shown(pool.config),
        "open": pool.is_open,
        "tools": list(pool.tools),
        "waiting": len(pool.waiting),
        "calls": sum(pool.outcomes.values()),
        "outcomes": dict(pool.outcomes),
        "retried": pool.retried,
        "p50_ms": round(times[len(times) // 2] * 1_000, 1) if times else None,
        "p99_ms": round(times[min(len(times) - 1, len(times) * 99 // 100)] * 1_000, 1) if times else None,
        "replicas": [
            {"state": one.state.value, "log": list(one.log)[-40:], **{name: getattr(one, name) for name in _TOLD}}
            for one in pool.replicas
        ],
    }


def _shown(config: PoolConfig) -> str:
    """What a pool runs; of an address nothing that may be a secret."""
    if config.url:
        parts = urlsplit(config.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return " ".join(filter(None, (config.image, *config.command)))


class _Metrics:
    """For Prometheus: counted as calls end; the state is looked at when it is asked for."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools, self._registry = pools, CollectorRegistry()
        about = {"registry": self._registry, "namespace": "sanderling_dock"}
        self._calls = Counter("calls", "Calls by what became of them.", ("pool", "tool", "outcome"), **about)
        bounds = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
        self._seconds = Histogram("call_seconds", "Time of a call, waiting included.", ("pool",), buckets=bounds, **about)
        self._replicas = Gauge("replicas", "Replicas by state.", ("pool", "state"), **about)
        self._running = Gauge("calls_running", "Calls under way.", ("pool",), **about)
        self._waiting = Gauge("calls_waiting", "Calls that wait for a replica.", ("pool",), **about)
        self._memory = Gauge("memory_bytes", "Memory of the replicas' processes.", ("pool",), **about)
        self._starts = Gauge("replica_starts", "Starts of replicas, first ones included.", ("pool",), **about)

    def called(self, pool: str, tool: str, outcome: str, seconds: float) -> None:
        self._calls.labels(pool, tool, outcome).inc()
        self._seconds.labels(pool).observe(seconds)

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        for name, pool in self._pools.items():
            for state in State:
                self._replicas.labels(name, state).set(sum(one.state is state for one in pool.replicas))
            self._running.labels(name).set(sum(one.calls for one in pool.replicas))
            self._waiting.labels(name).set(len(pool.waiting))
            self._starts.labels(name).set(sum(one.starts for one in pool.replicas))
            self._memory.labels(name).set(sum((one.memory_mb or 0) << 20 for one in pool.replicas))
        return generate_latest(self._registry)
