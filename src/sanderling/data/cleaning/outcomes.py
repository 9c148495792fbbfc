"""What became of the calls of a round: the tools' own word where recorded, else what the response reads like."""

from sanderling.core.observations import read_observation
from sanderling.core.types import ToolStatus
from sanderling.data.cleaning.responses import split_blocks
from sanderling.data.cleaning.rounds import Round

_FINE = frozenset({ToolStatus.OK, ToolStatus.EMPTY})


def failed_calls(one: Round) -> list[bool]:
    """For each call whether it failed; a search that found nothing did not. Without a response none did."""
    calls = one.node.calls
    if one.observation is None:
        return [False] * len(calls)
    node = one.observation[1]
    if len(node.events) == len(calls):
        return [event.status not in _FINE for event in node.events]
    blocks = split_blocks(node.text)
    if len(blocks) == len(calls):
        return [read_observation(block).status not in _FINE for block in blocks]
    return [read_observation(node.text).status not in _FINE] * len(calls)
