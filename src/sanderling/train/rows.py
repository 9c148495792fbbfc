"""Trajectories to rows. Where ids exist they are used as they are; text-only trajectories are rendered as the loop would have.

Trained are the policy's own tokens, end tokens included; the generation prompt, observations and hints never are. Rejected
attempts are not trained, and a token that lies on several branches is trained once. Nothing is ever cut: a row that is too long
is left out and counted. Knows no model and no algorithm.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sanderling.errors import UserError
from sanderling.protocol.chat import ChatRenderer
from sanderling.protocol.profile import Profile
from sanderling.protocol.tokens import Tokenizer
from sanderling.train.contract import FloatArray, Row
from sanderling.trajectory.observations import unwrap
from sanderling.trajectory.record import Node, NodeKind, Trajectory
from sanderling.trajectory.turns import turn_indices

TrainTurn = Callable[[int, Node], bool]
"""Whether a turn, by its index and node, is trained."""


@dataclass(frozen=True)
class Encoding:
    """Whose ids rows are made of: a tokenizer, and the profile that says how text becomes ids."""

    tokenizer: Tokenizer
    profile: Profile

    @cached_property
    def renderer(self) -> ChatRenderer:
        """Renders text-only trajectories."""
        return ChatRenderer(self.tokenizer, self.profile)


@dataclass(frozen=True)
class RowSet:
    """Rows, and what was left out."""

    rows: list[Row]
    too_long: int = 0
    without_turns: int = 0
    """Trajectories in which the policy said nothing that is trained."""


def branch_leaves(trajectory: Trajectory) -> list[int]:
    """The branches that hold trained turns: the main one first, then others that are no rejected attempts."""
    if trajectory.leaf is None:
        return []
    others = [leaf for leaf in trajectory.leaves() if leaf != trajectory.leaf and not trajectory.nodes[leaf].rejected]
    return [trajectory.leaf, *others]


def sft_rows(
    trajectories: Sequence[Trajectory], encoding: Encoding, max_tokens: int, train_turn: TrainTurn | None = None
) -> RowSet:
    """One supervised row for each trajectory's main branch. Raises UserError as :func:`sft_row` does."""
    found = [sft_row(trajectory, encoding, train_turn) for trajectory in trajectories]
    trained = [row for row in found if row is not None]
    rows = [row for row in trained if len(row.ids) <= max_tokens]
    return RowSet(rows, too_long=len(trained) - len(rows), without_turns=len(found) - len(trained))


def sft_row(trajectory: Trajectory, encoding: Encoding, train_turn: TrainTurn | None = None) -> Row | None:
    """The main branch as a supervised row; None when it has no trained turn.

    Raises UserError for ids of another tokenizer, records that mix ids and text, and messages that no loop could have sent.
    """
    nodes, pieces = _pieces(trajectory, trajectory.leaf, encoding)
    ids: list[int] = []
    mask: list[bool] = []
    turn = 0
    for node, piece in zip(nodes, pieces, strict=True):
        ids += piece
        if node.kind is not NodeKind.TURN:
            mask += [False] * len(piece)
            continue
        trained = train_turn is None or train_turn(turn, node)
        mask += list(node.loss_mask or [True] * len(piece)) if trained else [False] * len(piece)
        turn += 1
    if not any(mask):
        return None
    return Row(
        ids=np.array(ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.bool_),
        trajectory=trajectory.id,
        group=trajectory.question.id,
    )


def rl_rows(trajectory: Trajectory, advantages: Sequence[float] | FloatArray, encoding: Encoding) -> list[Row]:
    """One row for each branch, with the sampler's log-probabilities and versions; a shared turn is trained on the first only.

    ``advantages`` has one entry for each of :func:`sanderling.trajectory.turns.turn_indices`. Raises UserError for records
    without ids or log-probabilities, or with ids of another tokenizer; ValueError for a wrong number of advantages.
    """
    turns = {node: turn for turn, node in enumerate(turn_indices(trajectory))}
    if len(advantages) != len(turns):
        raise ValueError(f"trajectory {trajectory.id}: {len(advantages)} advantages for {len(turns)} turns")
    _check_tokenizer(trajectory, encoding.tokenizer)
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


def _check_tokenizer(trajectory: Trajectory, tokenizer: Tokenizer) -> None:
    if trajectory.tokenizer is not None and trajectory.tokenizer != tokenizer.fingerprint:
        raise UserError(
            f"Trajectory {trajectory.id} holds ids of tokenizer {trajectory.tokenizer}, the model's is "
            f"{tokenizer.fingerprint}: train the model these were sampled from, or drop the ids."
        )


def _pieces(trajectory: Trajectory, leaf: int | None, encoding: Encoding) -> tuple[list[Node], list[list[int]]]:
    """A branch up to its last turn: nodes, and the ids each adds."""
    nodes = [] if leaf is None else trajectory.branch(leaf)
    while nodes and nodes[-1].kind is not NodeKind.TURN:
        nodes.pop()
    with_ids = Counter(node.token_ids is not None for node in nodes)
    if len(with_ids) > 1:
        raise UserError(f"Trajectory {trajectory.id} has ids for some messages only: import it again, or drop its ids.")
    if with_ids[True]:
        _check_tokenizer(trajectory, encoding.tokenizer)
        return nodes, [list(node.token_ids or ()) for node in nodes]
    return nodes, _render(trajectory.id, nodes, encoding.renderer)


def _render(name: str, nodes: Sequence[Node], renderer: ChatRenderer) -> list[list[int]]:
    """The ids of a text-only branch, as the loop would have sent them."""
    pieces: list[list[int]] = []
    before: NodeKind | None = None
    for index, node in enumerate(nodes):
        following = nodes[index + 1].kind if index + 1 < len(nodes) else None
        match (before, node.kind):
            case (None, NodeKind.SYSTEM):
                pieces.append(renderer.system_ids(node.text))
            case (None | NodeKind.SYSTEM, NodeKind.QUESTION):
                pieces.append(renderer.question_ids(node.text))
            case (NodeKind.QUESTION | NodeKind.OBSERVATION | NodeKind.HINT, NodeKind.TURN):
                pieces.append(renderer.turn_ids(node.text))
            case (NodeKind.TURN, NodeKind.OBSERVATION):
                prompt = following is not NodeKind.HINT
                pieces.append(renderer.observation_ids(unwrap(node.text), previous_ended=True, prompt=prompt))
            case (NodeKind.TURN | NodeKind.OBSERVATION, NodeKind.HINT):
                after_turn = before is NodeKind.TURN
                pieces.append(renderer.hint_ids(unwrap(node.text), previous_ended=True, after_turn=after_turn))
            case _:
                where = "the beginning" if before is None else f"a {before} message"
                raise UserError(f"Trajectory {name} has a {node.kind} message after {where}: clean it before training on it.")
        before = node.kind
    return pieces
