"""The policy has a module of its own beside the one that is trained: it samples on while an update is computed.

Weights are copied between two steps of its engine, so no step sees half of them. Turns under way live on; their earlier keys
and values are of older weights unless the policy computes them again (``reprefill_stale``). Knows nothing of the update.
"""

import copy
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from sanderling.policy.sync.tensors import put
from sanderling.policy.transformers_policy import TransformersPolicy


def twin(model: Any) -> Any:
    """A module of its own with the same weights, to sample with: without gradients, in evaluation mode.

    A trainer that saves memory gives its layers another ``forward``, a function that copying leaves theirs: without it the
    twin's layers are its own.
    """
    other = copy.deepcopy(model).requires_grad_(False).eval()
    for module in other.modules():
        vars(module).pop("forward", None)
    return other


class Copying:
    """Copies into the policy's module. See `contract.WeightSync`.

    Example: ``Copying(TransformersPolicy(twin(model), tokenizer))`` beside a trainer of ``model``.
    """

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy = policy

    @property
    def version(self) -> int:
        return self._policy.version

    def training(self) -> AbstractAsyncContextManager[None]:
        """Does nothing: sampling goes on."""
        return nullcontext()

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Without an await: a step of the engine has either all of the old weights or all of the new ones."""
        if weights is not None:
            put(self._policy.model, weights)
        self._policy.bump_version(version)
