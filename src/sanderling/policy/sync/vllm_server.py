"""A vLLM server takes over weights from files, by the endpoints of its development mode. Run against vLLM 0.32 on a CPU.

Start it as ``VLLM_SERVER_DEV_MODE=1 vllm serve ...`` on a machine that sees the files. An update is: keep new turns back, have
the server pause, ``reload_weights`` from the version's directory on every worker, forget all keys and values, go on. Turns
under way are frozen meanwhile (``/pause?mode=keep``) where the server's own description lists that mode; else they are waited
for, since an older server would abort them. A frozen turn's context is computed again with the new weights, and it goes on
with them; its tokens carry the version at which it was sent. To keep those keys and values is no choice here: the server
would hand them, as a cached prefix, to turns that are begun after the update, and nobody could tell.

With ``sleeps`` the server and the trainer have one GPU in turns: for an update the server ends the turns under way, puts its
weights into the CPU's memory and drops its cache (``/sleep?level=1``; start it with ``--enable-sleep-mode``). Sleeping was
never run: vLLM cannot on a CPU.

Sources: vLLM's documentation of asynchronous RL (pause, resume), of sleep mode (sleep, wake_up, collective_rpc) and its RPC
router (``kwargs`` are strings). A transfer over NCCL is quicker and needs vLLM's own trainer side: not done here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from sanderling.core.errors import UserError
from sanderling.policy.door import Door
from sanderling.policy.http_client import HttpClient

_PAUSES_S = (0.0, 0.1, 0.5, 2.0)
"""Before each time that cached keys and values are asked to go."""


class Served(Protocol):
    """The policy behind the server, such as `endpoint.CompletionEndpointPolicy`."""

    version: int
    door: Door


class Files(Protocol):
    """Where versions are stored, such as `weight_files.WeightFiles`."""

    def write(self, weights: Mapping[str, Any], version: int) -> Path: ...


class VllmServer:
    """Hands weights to a vLLM server. See `contract.WeightSync`."""

    def __init__(self, root: HttpClient, policy: Served, files: Files, *, sleeps: bool = False) -> None:
        """``root`` is the server's address without ``/v1``."""
        self._root = root
        self._policy = policy
        self._files = files
        self._sleeps = sleeps
        self._keeps: bool | None = None

    @property
    def version(self) -> int:
        return self._policy.version

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Nothing, or with ``sleeps``: the server sleeps inside, once the turns under way have ended."""
        if not self._sleeps:
            yield
            return
        async with self._policy.door.closed(empty=True):
            await self._ask("sleep", level=1)
            try:
                yield
            finally:
                await self._ask("wake_up")

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """When the server fails midway it stays paused: nobody samples with half of an update, and the next one resumes it."""
        if weights is not None:
            path = await asyncio.to_thread(self._files.write, weights, version)
            keeps = await self.keeps_turns()
            async with self._policy.door.closed(empty=not keeps):
                await self._reload(path, keeps)
                self._policy.version = version
        self._policy.version = version

    async def _reload(self, path: Path, keeps: bool) -> None:
        if keeps:
            await self._ask("pause", mode="keep")
        try:
            await self._ask("collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(path)}})
        except UserError:  # refused: it still has what it had
            if keeps:
                await self._ask("resume")
            raise
        await self._forget()
        if keeps:
            await self._ask("resume")

    async def _forget(self) -> None:
        """Have the server drop all keys and values, those of frozen turns too.

        It says ``success: false`` (with status 200) where something still holds some; older versions say nothing.
        """
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if (await self._ask("reset_prefix_cache", reset_running_requests="true")).get("success", True):
                return
        raise UserError(
            f"{self._root.base_url} has the new weights and keeps cached keys and values of those before (its log says why): "
            "see that nobody else uses it, or start it with --no-enable-prefix-caching."
        )

    async def keeps_turns(self) -> bool:
        """Whether turns under way may stay while weights change: ``/pause`` has a mode, by what the server tells of itself.

        Asked once.
        """
        if self._keeps is None:
            try:
                told = await self._root.get("openapi.json")
            except UserError:  # it does not describe itself
                told = {}
            pause = told.get("paths", {}).get("/pause", {}).get("post", {})
            self._keeps = any(parameter.get("name") == "mode" for parameter in pause.get("parameters", []))
        return self._keeps

    async def _ask(self, path: str, body: Mapping[str, Any] | None = None, **query: object) -> dict[str, Any]:
        try:
            return await self._root.tell(f"{path}?{urlencode(query)}" if query else path, dict(body or {}))
        except UserError as error:
            flag = " --enable-sleep-mode" if path in ("sleep", "wake_up") else ""
            raise UserError(
                f"The vLLM server did not take the weights at /{path} ({error}): start it with VLLM_SERVER_DEV_MODE=1{flag}, "
                "where it can read the files."
            ) from error
