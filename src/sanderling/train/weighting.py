"""How much each token of an optimizer batch weighs in its loss: the aggregations, as weights that sum to 1. Knows no model."""

from collections import Counter
from collections.abc import Sequence

from sanderling.core.errors import UserError
from sanderling.train.config import Aggregation
from sanderling.train.contract import Row


def row_weights(rows: Sequence[Row], aggregation: Aggregation, micro_batches: Sequence[Sequence[int]] = ()) -> list[float]:
    """Weight of each of a row's trained tokens, such that all tokens' weights sum to 1. Rows without trained tokens get 0.

    Rows of one trajectory (same id) share that trajectory's weight in ``trajectory_mean``; rows without an id stand alone. Only
    ``micro_batch_mean`` looks at ``micro_batches``: the rows (by index) of each, over all ranks.
    """
    counts = [int(row.loss_mask.sum()) for row in rows]
    if aggregation is Aggregation.MICRO_BATCH_MEAN:
        shares = _micro_batch_shares(rows, counts, micro_batches)
    elif aggregation is Aggregation.TOKEN_MEAN:
        shares = [row.weight if count else 0.0 for row, count in zip(rows, counts, strict=True)]
    else:
        names = [row.trajectory or f"row {index}" for index, row in enumerate(rows)]
        tokens: Counter[str] = Counter()
        for name, count in zip(names, counts, strict=True):
            tokens[name] += count
        shares = [r.weight / tokens[n] if c else 0.0 for r, n, c in zip(rows, names, counts, strict=True)]
    total = sum(share * count for share, count in zip(shares, counts, strict=True))
    if total <= 0:
        raise UserError("This batch has no token to train on: check the rows' loss masks and weights.")
    return [share / total for share in shares]


def _micro_batch_shares(rows: Sequence[Row], counts: Sequence[int], micro_batches: Sequence[Sequence[int]]) -> list[float]:
    """Every micro-batch with something to train weighs the same; within one, tokens do (times their row's weight)."""
    shares = [0.0] * len(rows)
    for group in micro_batches:
        tokens = sum(rows[i].weight * counts[i] for i in group)
        for i in group:
            shares[i] = rows[i].weight / tokens if counts[i] and tokens > 0 else 0.0
    return shares
