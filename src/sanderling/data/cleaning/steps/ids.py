"""Ids throughout, or none: training refuses a record that has token ids for some messages only.

A record that some step rewrote keeps the ids of no message, and its turns are written out with the reasoning tag that their
prompt held. A record that nothing touched keeps all of them. Ids are never made up for a new text.
"""

from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Note, Outcome, Target
from sanderling.data.cleaning.graph import Kept, main_branch, rebuild, with_text
from sanderling.data.cleaning.turn_text import written_out

_NO_IDS = {"token_ids": None, "loss_mask": None, "logprobs": None, "versions": None}


def whole_ids(trajectory: Trajectory, target: Target) -> Outcome:
    """The trajectory with ids on all of its main branch, or on none of it."""
    branch = main_branch(trajectory)
    with_ids = sum(node.token_ids is not None for _, node in branch)
    if with_ids in (0, len(branch)):
        return Outcome(trajectory)
    return Outcome(
        *rebuild(trajectory, [_text_only(kept, target) for kept in branch], [Note("messages_without_ids", with_ids)])
    )


def _text_only(kept: Kept, target: Target) -> Kept:
    index, node = kept
    if node.token_ids is None:
        return kept
    text = written_out(node, target.profile) if node.kind is NodeKind.TURN else node.text
    return index, with_text(node.model_copy(update=_NO_IDS), text)
