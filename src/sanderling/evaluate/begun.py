"""What a store of attempts was begun with, in its run's database: it goes on with that, or not at all.

Attempts of two agents, or in two worlds, are no measure of either. A store that came without its run is known by what its
records say: model, profile and world by their names.
"""

from typing import Any

from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import Run
from sanderling.runs.settings import go_on_with, without_places

WAY_OUT = "go on with those, or choose another store"
AGENT, PROFILE, WORLD, JUDGE = "agent", "profile", "world", "judge"
ATTEMPTS = "attempts"
"""Under which the run says it."""


def require_begun_with(run: Run, store: TrajectoryStore, now: dict[str, Any]) -> None:
    """Write down what a store is begun with. Raises UserError when it was begun with something else.

    ``now``: JSON under the names above, profile and world with a ``name`` each, and whatever else attempts depend on. Another
    judge is nothing else: what it has not judged is judged anew.
    """
    about = run.table("about")
    was = about.get(ATTEMPTS)
    if next(iter(store), None) is None:
        about.remove(ATTEMPTS)
    elif was is None:
        names = {AGENT: without_places(now[AGENT]), PROFILE: now[PROFILE]["name"], f"{WORLD}.name": now[WORLD]["name"]}
        for record in store:
            said = {AGENT: record.model, PROFILE: record.profile, f"{WORLD}.name": record.world}
            go_on_with({key: name or names[key] for key, name in said.items()}, names, store.path, WAY_OUT)
    elif without_places(was.get(JUDGE)) != without_places(now[JUDGE]):
        go_on_with({**was, JUDGE: now[JUDGE]}, now, store.path, WAY_OUT)
        about.put(ATTEMPTS, now)
    run.claim(now, ATTEMPTS, WAY_OUT)
