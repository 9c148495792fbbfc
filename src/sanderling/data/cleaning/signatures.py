"""When two calls are the same: tool and what it is asked for; order and repetition of queries or URLs mean nothing."""

import json

from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall


def signature(call: ToolCall, names: ToolNames, *, with_goal: bool) -> str:
    """Equal for equal calls. ``with_goal``: a page read for another goal is another call (DR-Venus says it is the same)."""
    if call.name == names.search and names.search_query in call.arguments:
        return _json([call.name, _parts(call.arguments[names.search_query])])
    if call.name == names.visit and names.visit_url in call.arguments:
        goal = call.arguments.get(names.visit_goal) if with_goal else None
        return _json([call.name, _parts(call.arguments[names.visit_url]), goal])
    return _json([call.name, call.arguments])


def _parts(value: object) -> list[str]:
    """What is asked for, sorted, each once."""
    items = value if isinstance(value, list) else [value]
    return sorted({item.strip() if isinstance(item, str) else _json(item) for item in items})


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
