"""An embedder that is a function of this machine: somebody's own model, in this process, without a socket. Knows no page."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from sanderling.core.errors import UserError
from sanderling.world.dense.embedder import Kind, Vectors

EmbedFunction = Callable[[list[str], str], ArrayLike]
"""Texts and "query" or "document" to one row of numbers for each text."""


class CallableEmbedder:
    """Wraps a function.

    Args:
        function: embeds; deterministic.
        model: names its vectors.

    Example: ``CallableEmbedder(lambda texts, kind: model.encode(texts), "my-model")``

    """

    def __init__(self, function: EmbedFunction, model: str) -> None:
        self._function = function
        self._model = model
        self._dimension = 0

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        """Found out by embedding one word."""
        if not self._dimension:
            found = self.embed(["dimension"], Kind.DOCUMENT)
            if found.ndim != 2 or not found.shape[1]:
                raise UserError(f"The embedder {self._model} returned no row of numbers for a text: mend it.")
            self._dimension = found.shape[1]
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; see `embedder.Embedder`."""
        found = self._function(list(texts), kind.value)
        try:
            return np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise UserError(f"The embedder {self._model} returned no array of numbers ({error}): mend it.") from error


def import_function(module: str, function: str) -> EmbedFunction:
    """A function by name; its module is looked for in the current directory too. Raises UserError when there is none."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), function, None)
    except (ImportError, ValueError) as error:
        raise UserError(f"The module {module!r} cannot be imported ({error}): check its name and place.") from error
    if not callable(found):
        raise UserError(f"The module {module!r} has no function {function!r}: write callable:MODULE:FUNCTION.")
    return cast(EmbedFunction, found)
