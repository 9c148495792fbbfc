"""Trajectories to rows of reinforcement learning: the ids that were sampled, their log-probabilities, versions and credit.

One row for each branch; rejected attempts are not trained, and a turn that lies on several branches is trained once. Nothing is
ever cut or rendered anew.
"""

from collections.abc import Sequence

import numpy as np

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, turn_indices
from sanderling.train.contract import FloatArray, Row
from sanderling.train.encoding import Encoding, branch_leaves, check_tokenizer


def rl_rows(trajectory: Trajectory, advantages: Sequence[float] | FloatArray, encoding: Encoding) -> list[Row]:
    """One row for each branch, with the sampler's log-probabilities and versions; a shared turn is trained on the first only.

    ``advantages`` has one entry for each of :func:`sanderling.core.record.turn_indices`. Raises UserError for records
    without ids or log-probabilities, or with ids of another tokenizer; ValueError for a wrong number of advantages.
    """
    turns = {node: turn for turn, node in enumerate(turn_indices(trajectory))}
    if len(advantages) != len(turns):
        raise ValueError(f"trajectory {trajectory.id}: {len(advantages)} advantages for {len(turns)} turns")
    check_tokenizer(trajectory, encoding.tokenizer)
    rows: list[Row] = []
    trained: set[int] = set()
    for leaf in branch_leaves(trajectory):
        path = trajectory.path(leaf)
        row = _rl_row(trajectory, path, {n: t for n, t in turns.items() if n in path and n not in trained}, advantages)
        trained.update(n for n in path if n in turns)
        if row.loss_mask.any():
            rows.append(row)
    return rows


def _rl_row(
    trajectory: Trajectory, path: Sequence[int], turns: dict[int, int], advantages: Sequence[float] | FloatArray
) -> Row:
    """One branch; ``turns`` maps the nodes trained here to their turn index."""
    ids: list[int] = []
    mask, advantage, logprobs, versions, turn = ([] for _ in range(5))
    for index in path:
        node = trajectory.nodes[index]
        if node.token_ids is None:
            raise UserError(
                f"Trajectory {trajectory.id} has text only, and RL needs the ids that were sampled: "
                "use an in-process policy or an endpoint that returns token ids."
            )
        size = len(node.token_ids)
        ids += node.token_ids
        if index not in turns:
            mask += [False] * size
            advantage += [0.0] * size
            logprobs += [0.0] * size
            versions += [-1] * size
            turn += [-1] * size
            continue
        if node.logprobs is None or node.versions is None:
            raise UserError(
                f"Trajectory {trajectory.id} lacks log-probabilities or policy versions, which RL needs: "
                "use a policy that reports them."
            )
        mask += node.loss_mask or [True] * size
        advantage += [float(advantages[turns[index]])] * size
        logprobs += node.logprobs
        versions += node.versions
        turn += [turns[index]] * size
    return Row(
        ids=np.array(ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.bool_),
        advantages=np.array(advantage, dtype=np.float64),
        sampler_logprobs=np.array(logprobs, dtype=np.float64),
        versions=np.array(versions, dtype=np.int64),
        turn=np.array(turn, dtype=np.int64),
        trajectory=trajectory.id,
        group=trajectory.question.id,
    )
