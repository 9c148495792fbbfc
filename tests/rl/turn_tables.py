"""Turn tables from plain dictionaries, and batches drawn at random, for tests of estimators."""

import numpy as np
from hypothesis import strategies as st

from sanderling.rl.table import TurnTable

grid = st.integers(-8, 8).map(lambda n: n / 8)


def trajectory(outcome, gains, *, group=0, penalties=None, tools=None, trained=True, capped=None, calls=None) -> dict:
    """``outcome`` None: unscored; a gain of None: not scored. ``calls``: a word for each turn's, by default nobody else's."""
    size = len(gains)
    return {
        "group": group,
        "outcome": outcome,
        "gains": gains,
        "penalties": penalties or [0.0] * size,
        "tools": tools or ["search" if gain is None else "visit" for gain in gains[:-1]] + ["answer"],
        "calls": calls or [object()] * size,
        "trained": trained,
        "capped": capped or [False] * size,
    }


def table_of(trajectories: list[dict]) -> TurnTable:
    columns: dict[str, list] = {name: [] for name in TurnTable.__dataclass_fields__}
    states: dict = {}
    for number, t in enumerate(trajectories):
        for turn, gain in enumerate(t["gains"]):
            row = {
                "trajectory": number, "group": t["group"], "turn": turn, "tokens": 1,
                "state": states.setdefault((t["group"], *t["calls"][:turn]), len(states)), "tool": t["tools"][turn],
                "outcome": t["outcome"] or 0.0, "scored": t["outcome"] is not None, "gain": gain or 0.0,
                "gain_scored": gain is not None, "penalty": t["penalties"][turn], "trained": t["trained"],
                "capped": t["capped"][turn],
            }  # fmt: skip
            for name, value in row.items():
                columns[name].append(value)
    kinds = {"tool": np.str_} | dict.fromkeys(("outcome", "gain", "penalty"), np.float64)
    kinds |= dict.fromkeys(("scored", "gain_scored", "trained", "capped"), np.bool_)
    return TurnTable(**{name: np.array(values, dtype=kinds.get(name, np.int64)) for name, values in columns.items()})


@st.composite
def batches(draw, most: int = 7):
    found = []
    for _ in range(draw(st.integers(1, most))):
        turns = draw(st.integers(1, 6))

        def each(values, turns=turns):
            return draw(st.lists(values, min_size=turns, max_size=turns))

        outcome = draw(st.none() | st.sampled_from([0.0, 0.25, 1.0]))
        parts = {
            "penalties": each(st.sampled_from([0.0, 0.0, -1.0])),
            "tools": each(st.sampled_from(["search", "visit", "other"])),
            "calls": each(st.sampled_from("ab")),
        }
        more = {"trained": draw(st.booleans()), "capped": each(st.booleans())} if draw(st.booleans()) else {}
        found.append(trajectory(outcome, each(st.none() | grid), group=draw(st.integers(0, 2)), **parts, **more))
    return found
