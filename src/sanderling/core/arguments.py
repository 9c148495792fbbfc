"""Arguments in one family's form, however the model named and shaped them.

``queries`` for ``query``, ``urls`` for ``url``, ``goal`` for ``purpose`` and back; a string where a list is expected becomes a
list of one; a list of goals becomes its first. Anything else is left for the tool to refuse. Knows only the profile's names.
"""

from typing import Any

from sanderling.core.lenient import decode_json
from sanderling.core.messages import ToolCall
from sanderling.core.profile import ToolNames

_QUERY_NAMES = ("query", "queries")
_URL_NAMES = ("url", "urls")
_GOAL_NAMES = ("goal", "purpose")


def normalise_arguments(call: ToolCall, names: ToolNames) -> ToolCall:
    """The call with its arguments in the canonical form of ``names``; other tools' calls come back as they are."""
    arguments = dict(call.arguments)
    if call.name == names.search:
        _rename(arguments, names.search_query, _QUERY_NAMES)
        _listed(arguments, names.search_query)
    elif call.name == names.visit:
        _rename(arguments, names.visit_url, _URL_NAMES)
        _rename(arguments, names.visit_goal, _GOAL_NAMES)
        _listed(arguments, names.visit_url)
        goal = arguments.get(names.visit_goal)
        if isinstance(goal, list):
            arguments[names.visit_goal] = goal[0] if goal else ""
    else:
        return call
    return call.model_copy(update={"arguments": arguments})


def _rename(arguments: dict[str, Any], canonical: str, known: tuple[str, ...]) -> None:
    """Move the first known name to the canonical one, unless that is there already."""
    for name in known:
        if canonical not in arguments and name in arguments:
            arguments[canonical] = arguments.pop(name)


def _listed(arguments: dict[str, Any], key: str) -> None:
    """A string becomes a list of one, or the list that it spells in JSON."""
    value = arguments.get(key)
    if not isinstance(value, str):
        return
    found = decode_json(value.strip()) if value.lstrip().startswith("[") else None
    spelled = found is not None and isinstance(found[0], list) and found[1] == len(value.strip())
    arguments[key] = found[0] if found is not None and spelled else [value]
