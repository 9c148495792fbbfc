"""Which prompt tokens are computed together: pure planning, without tensors of a model.

Forwards of the prefill step are ragged. Rows of similar length go together, padding is bounded, and one forward takes a bounded
number of tokens, so that activations stay in the processor's cache and a long prompt cannot need a huge mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_FILL = 0.5
"""A row joins a forward when it fills at least this share of its width."""


@dataclass(frozen=True)
class Slice:
    """Tokens ``start`` to ``stop`` of request number ``index``."""

    index: int
    start: int
    stop: int
    last: bool
    """Whether the request's prompt ends here, so that its next token can be sampled."""

    @property
    def size(self) -> int:
        return self.stop - self.start


def plan_prefill(spans: Sequence[tuple[int, int]], budget: int) -> list[list[Slice]]:
    """Arrange the new tokens ``(start, stop)`` of some requests in forwards of at most ``budget`` tokens, padding included.

    A prompt longer than the budget is cut; its parts come in order, in forwards of their own until the last.
    """
    forwards: list[list[Slice]] = []
    finals: list[Slice] = []
    for index, (start, stop) in enumerate(spans):
        while stop - start > budget:
            forwards.append([Slice(index, start, start + budget, last=False)])
            start += budget
        finals.append(Slice(index, start, stop, last=True))
    finals.sort(key=lambda part: -part.size)
    width = 0
    for part in finals:
        joins = part.size >= _LEAST_FILL * width and forwards and (len(forwards[-1]) + 1) * width <= budget
        if width and joins:
            forwards[-1].append(part)
        else:
            forwards.append([part])
            width = part.size
    return forwards


@dataclass(frozen=True)
class Padded:
    """A ragged forward as arrays: M rows, padded on the left to Q tokens, so that every row's last token stands last."""

    ids: NDArray[np.int64]
    """(M, Q)."""
    positions: NDArray[np.int64]
    """(M, Q); 0 on padding."""
    valid: NDArray[np.bool_]
    """(M, Q)."""
    length: int
    """Positions that exist after this forward in the longest row."""


def pad_left(parts: Sequence[Slice], tokens: Sequence[Sequence[int]]) -> Padded:
    """Arrays of one forward; ``tokens`` are each part's own new ids."""
    width = max(part.size for part in parts)
    ids = np.zeros((len(parts), width), dtype=np.int64)
    positions = np.zeros_like(ids)
    valid = np.zeros(ids.shape, dtype=np.bool_)
    for row, (part, new) in enumerate(zip(parts, tokens, strict=True)):
        ids[row, width - part.size :] = new
        positions[row, width - part.size :] = np.arange(part.start, part.stop)
        valid[row, width - part.size :] = True
    return Padded(ids, positions, valid, max(part.stop for part in parts))
