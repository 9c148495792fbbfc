"""What a store of attempts was begun with, in ``NAME.made_with.json`` beside it: it goes on with that, or not at all.

Attempts of two agents, or in two worlds, are no measure of either. A store of before this file was written is known by what its
records say: model, profile and world by their names. Knows no agent and no world.
"""

import json
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.settings import go_on_with, without_places

WAY_OUT = "go on with those, or choose another store"
AGENT, PROFILE, WORLD, JUDGE = "agent", "profile", "world", "judge"


def require_begun_with(store: TrajectoryStore, now: dict[str, Any]) -> None:
    """Write down what a store is begun with. Raises UserError when it was begun with something else.

    ``now``: JSON under the names above, profile and world with a ``name`` each, and whatever else attempts depend on. Another
    judge is nothing else: what it has not judged is judged anew.
    """
    path = store.path.with_name(f"{store.path.name}.made_with.json")
    is_new = next(iter(store), None) is None
    was = None if is_new else _read(path)
    if was is None:
        _require_names(store, now)
    else:
        same_judge = without_places(was.get(JUDGE)) == without_places(now[JUDGE])
        go_on_with(was if same_judge else {**was, JUDGE: now[JUDGE]}, now, store.path, WAY_OUT)
    if was != now:
        replace_file(path, json.dumps(now, ensure_ascii=False, indent=1) + "\n", durable=True)


def _read(path: Path) -> dict[str, Any] | None:
    """What the file says; None where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): restore it, or choose another store.") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} does not say what a store was begun with: restore it, or choose another store.")
    return found


def _require_names(store: TrajectoryStore, now: dict[str, Any]) -> None:
    """Raises UserError for a record of another model, profile or world; an outage before the first turn names none."""
    names = {AGENT: without_places(now[AGENT]), PROFILE: now[PROFILE]["name"], f"{WORLD}.name": now[WORLD]["name"]}
    for record in store:
        said = {AGENT: record.model, PROFILE: record.profile, f"{WORLD}.name": record.world}
        was = {key: name or names[key] for key, name in said.items()}
        go_on_with(was, names, store.path, WAY_OUT)
