"""Several calls in one turn as one call, where their tool takes lists: queries of searches, pages read for one goal.

Results are joined as the tool itself would have laid them out. Calls that cannot be joined with the first are not kept.
"""

import json

from sanderling.core.lenient import decode_json
from sanderling.core.profiles import ToolNames
from sanderling.core.prompts import BETWEEN
from sanderling.core.types import ToolCall

_MOST_RESULTS = 64


def joinable(calls: tuple[ToolCall, ...], names: ToolNames) -> list[bool]:
    """For each call whether it can be joined with the first one; true of the first."""
    return [index == 0 or _same_kind(calls[0], call, names) for index, call in enumerate(calls)]


def join_calls(calls: tuple[ToolCall, ...], names: ToolNames) -> ToolCall:
    """One call asking for all that these ask for; each of them is joinable with the first."""
    key = _list_key(calls[0], names)
    if key is None or len(calls) == 1:
        return calls[0]
    items = [item for call in calls for item in call.arguments[key]]
    return calls[0].model_copy(update={"arguments": calls[0].arguments | {key: items}})


def join_results(blocks: list[str]) -> str:
    """Results as one: JSON lists become one list, all other text is joined as the tools do."""
    lists = [_json_list(block) for block in blocks[:_MOST_RESULTS]]
    if len(blocks) <= _MOST_RESULTS and all(found is not None for found in lists):
        return json.dumps([item for found in lists for item in found or ()], ensure_ascii=False)
    return BETWEEN.join(blocks)


def _same_kind(first: ToolCall, other: ToolCall, names: ToolNames) -> bool:
    key = _list_key(first, names)
    if key is None or _list_key(other, names) != key or first.name != other.name:
        return False
    return first.arguments.get(names.visit_goal) == other.arguments.get(names.visit_goal)


def _list_key(call: ToolCall, names: ToolNames) -> str | None:
    """The argument that holds what a call asks for, where it is a list."""
    key = {names.search: names.search_query, names.visit: names.visit_url}.get(call.name)
    return key if key is not None and isinstance(call.arguments.get(key), list) else None


def _json_list(block: str) -> list[object] | None:
    found = decode_json(block) if block.startswith("[") else None
    return found[0] if found is not None and isinstance(found[0], list) and found[1] == len(block) else None
