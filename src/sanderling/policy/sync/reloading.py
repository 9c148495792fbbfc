"""Weights reach samplers through files: written for each version, and whoever samples loads them again.

Samplers hear of a version by being told, or look for themselves before each turn (:class:`WatchedPolicy`, in another process
on a device of its own). They sample on while an update is computed, and while files are written. Knows nothing of the update.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from sanderling.core.types import Sampling
from sanderling.policy.contract import Completion, Delta, PolicyOutageError, SampleKey, Session
from sanderling.policy.sync.tensors import put
from sanderling.policy.sync.weight_files import WeightFiles
from sanderling.policy.transformers_policy import TransformersPolicy
from sanderling.policy.wrapped import WrappedPolicy

Tell = Callable[[Path, int], Awaitable[None]]
"""Has a sampler load a version's directory, and returns when it samples with it."""
_TRIES = 8


class Reloading:
    """Writes each version. See `contract.WeightSync`; without ``tell`` it is published once it is written."""

    def __init__(self, files: WeightFiles, tell: Tell | None = None, version: int = 0) -> None:
        self._files = files
        self._tell = tell
        self._version = version

    @property
    def version(self) -> int:
        return self._version

    def training(self) -> AbstractAsyncContextManager[None]:
        """Does nothing: sampling goes on."""
        return nullcontext()

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Files are written in a thread; what is handed over must not change before this returns."""
        if weights is not None:
            await asyncio.to_thread(self._files.write, weights, version)
            if self._tell is not None:
                await self._tell(self._files.path(version), version)
        self._version = version


class WatchedPolicy(WrappedPolicy):
    """A policy that loads the newest version of a directory before each turn; turns under way go on with it, too."""

    def __init__(self, policy: TransformersPolicy, files: WeightFiles) -> None:
        super().__init__(policy)
        self._live = policy
        self._files = files
        self._loaded: int | None = None

    def open(self, key: SampleKey) -> Session:
        return _Session(self._live.open(key), self)

    def look(self) -> None:
        """Load the newest version, unless it is loaded.

        Raises PolicyOutageError when none can be read, UserError when it is another model's.
        """
        for _ in range(_TRIES):
            newest = self._files.newest()
            if newest is None or newest == self._loaded:
                return
            try:
                weights = self._files.read(newest)
            except FileNotFoundError:  # newer ones have taken its place meanwhile
                continue
            put(self._live.model, weights)
            self._live.bump_version(newest)
            self._loaded = newest
            return
        raise PolicyOutageError(f"The weights in {self._files.directory} are gone faster than they can be read.")


class _Session:
    """A session of the policy, with a look before each turn."""

    def __init__(self, session: Session, policy: WatchedPolicy) -> None:
        self._session = session
        self._policy = policy

    async def generate(
        self, delta: Delta, sampling: Sampling, key: SampleKey, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """See `contract.Session`."""
        self._policy.look()
        return await self._session.generate(delta, sampling, key, on_text)

    def mark(self) -> int:
        return self._session.mark()

    def rewind(self, mark: int) -> None:
        self._session.rewind(mark)

    def close(self) -> None:
        self._session.close()
