"""What work was made with, compared before it is gone on with: other settings are refused, each named.

Two servers may give different models one name, so a model stands here with its place; elsewhere work goes on with a warning.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sanderling.core.asking import ModelClient, placed
from sanderling.core.errors import UserError

_LONGEST = 60
"""Characters of a setting that are shown."""
_MOST = 4
"""Settings that are told, where many differ."""


class MovedModelWarning(UserWarning):
    """Work goes on with a model of the same name at another place."""


def all_placed(clients: Sequence[ModelClient]) -> list[str | dict[str, Any]]:
    """Each model with its place, as JSON."""
    return [placed(client.name, [client.place]) for client in clients]


def without_places(value: Any) -> Any:
    """The same with every model as its name."""
    if isinstance(value, dict):
        return value["model"] if value.keys() == {"model", "at"} else {key: without_places(one) for key, one in value.items()}
    return [without_places(one) for one in value] if isinstance(value, list) else value


def go_on_with(was: Any, now: dict[str, Any], place: Path, way_out: str) -> bool:
    """Whether ``place``, made with ``was``, has to say ``now`` instead from here on; both are JSON.

    Warns of a model that has moved. Raises UserError, which ends in ``way_out``, when anything else differs.
    """
    if was == now:
        return False
    before, after = without_places(was), without_places(now)
    if before != after:
        raise UserError(f"{place} was made with other settings ({_told(before, after)}): {way_out}.")
    if before == was:  # it was begun with models that had no place, and knows of no other
        return True
    moved = f"a model of the same name at another place ({_told(was, now)}): what is done stands, and the rest is this one's"
    warnings.warn(f"{place} was made with {moved}", MovedModelWarning, stacklevel=3)
    return True


def _told(was: Any, now: Any) -> str:
    """The first few of the differences, in words."""
    found = list(dict.fromkeys(_differences(was, now)))
    return "; ".join(found[:_MOST]) + (f"; and {len(found) - _MOST} more" if len(found) > _MOST else "")


def _differences(was: Any, now: Any, at: str = "") -> Iterator[str]:
    """What is another value than before, by its place; a world's fingerprint is said to be one, and other names say enough."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in ["name"] if was.get("name") != now.get("name") else dict.fromkeys((*was, *now)):
            if was.get(key) != now.get(key):
                yield from _differences(was.get(key), now.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for number, (one, other) in enumerate(zip(was, now, strict=True), start=1):
            if one != other:
                yield from _differences(one, other, f"{at} {number}")
    elif at.rpartition(".")[2] in ("fingerprint", "world"):
        yield "the world has changed since"
    else:
        yield f"{at} was {_short(was)} and is {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
