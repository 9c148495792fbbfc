"""Weight sync: handing a trained model's weights to whoever samples. The contract; each way has a file of its own.

Every token carries the version of the weights that sampled it, and a version is the number of updates behind them. Sessions
that are open when weights change live on. Knows no trainer: weights come by name, whole.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class WeightSync(Protocol):
    """One way from the module that is trained to the one that samples."""

    @property
    def version(self) -> int:
        """Updates behind the weights that sample now."""
        ...

    def training(self) -> AbstractAsyncContextManager[None]:
        """Entered before an update is computed (perhaps in another thread) and left after it, before :meth:`publish`.

        A way that shares the module or its device with the trainer lets nobody sample inside; others do nothing. Tools and
        judges go on either way.
        """
        ...

    async def publish(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """From now on sample with these weights (tensors by parameter name), as this version.

        Returns when they are in place; a token sampled after it carries ``version``. None: this process has no weights to hand
        over (another rank does it), and only hears the version. Raises PolicyOutageError when the sampler cannot be reached,
        UserError when it refuses the weights.
        """
        ...
