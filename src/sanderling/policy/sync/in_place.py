"""Sampler and trainer take turns with one module: nothing is copied, and nobody samples while an update is computed.

What is handed to ``publish`` is not read: the weights are where they have to be. Turns under way wait and then go on, with keys
and values of older weights unless the policy computes them again (``reprefill_stale``). Knows nothing of the update.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Shared(Protocol):
    """A policy whose module somebody else changes, such as `transformers_policy.TransformersPolicy`."""

    @property
    def version(self) -> int: ...

    def paused(self) -> AbstractAsyncContextManager[None]: ...

    def bump_version(self, to: int | None = None) -> int: ...


class InPlace:
    """The policy samples with the very module that is trained. See `contract.WeightSync`."""

    def __init__(self, policy: Shared) -> None:
        self._policy = policy

    @property
    def version(self) -> int:
        return self._policy.version

    def training(self) -> AbstractAsyncContextManager[None]:
        """No step of the sampler runs inside; nothing is awaited on the way in."""
        return self._policy.paused()

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        self._policy.bump_version(version)
