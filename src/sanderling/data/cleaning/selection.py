"""Fewer calls in a turn: the chosen ones stay with their results, the others go with theirs.

Where results cannot be told apart (not as many blocks as calls) nothing is guessed: the turn cannot be split. Knows no reason
for choosing.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from sanderling.core.profiles import Profile
from sanderling.data.cleaning.graph import Kept, with_text
from sanderling.data.cleaning.responses import join_blocks, split_blocks
from sanderling.data.cleaning.rounds import Round
from sanderling.data.cleaning.turn_text import read_turn, with_calls


def keep_calls(one: Round, chosen: Sequence[bool], profile: Profile) -> Round | None:
    """The round with the chosen calls only (not all); None where it cannot be split."""
    index, node = one.turn
    parsed = read_turn(node, profile)
    if len(parsed.calls) != len(chosen):
        return None
    turn = with_calls(node, parsed, tuple(compress(parsed.calls, chosen)))
    replies = keep_blocks(one, chosen)
    return None if turn is None or replies is None else Round((index, turn), replies)


def keep_blocks(one: Round, chosen: Sequence[bool]) -> tuple[Kept, ...] | None:
    """A round's replies with the chosen calls' results only; None where they cannot be told apart."""
    if one.observation is None:
        return one.replies
    index, node = one.observation
    blocks = split_blocks(node.text)
    if len(blocks) != len(chosen):
        return None
    fields = {"events": tuple(compress(node.events, chosen))} if len(node.events) == len(chosen) else {}
    fewer = with_text(node, join_blocks(list(compress(blocks, chosen))), **fields)
    return tuple((index, fewer) if kept is one.observation else kept for kept in one.replies)


def merge_into(one: Round, turn: Kept, observation: Kept | None) -> Round:
    """The round with another turn and another observation."""
    replies = one.replies
    if observation is not None:
        replies = tuple(observation if kept is one.observation else kept for kept in replies)
    return replace(one, turn=turn, replies=replies)
