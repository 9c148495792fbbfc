"""Turn-aware resampling: the published counts, and an order that follows from ids and the seed."""

from pathlib import Path

import pytest
from test_jsonl import make

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role
from sanderling.data.importing import open_trajectories
from sanderling.data.resample import Schedule, resample, resample_file
from sanderling.runs.jsonl import write_trajectories


def test_the_published_counts() -> None:
    """Bucket sizes solved for from DR-Venus' counts: 9,365 become 18,745, and the shares of long ones are the paper's."""
    turns = [50] * 3_720 + [100] * 4_400 + [101] * 1_245
    found = resample([f"t{number}" for number in range(len(turns))], turns, Schedule())
    assert len(turns) == 9_365 and len(found.rows) == 18_745
    assert found.before == (3_720, 4_400, 1_245) and found.after == (3_720, 8_800, 6_225)
    assert round(100 * (4_400 + 1_245) / 9_365, 2) == 60.28 and round(100 * (8_800 + 6_225) / 18_745, 2) == 80.15
    assert round(100 * 1_245 / 9_365, 2) == 13.29 and round(100 * 6_225 / 18_745, 2) == 33.21


def test_the_order_follows_from_ids_and_seed_and_not_from_the_file() -> None:
    names, turns = [f"t{number}" for number in range(40)], [number % 7 for number in range(40)]

    def order(rows: list[int], seed: int) -> list[str]:
        done = resample([names[row] for row in rows], [turns[row] for row in rows], Schedule((2, 4), (1, 0, 5)), seed)
        return [names[rows[row]] for row in done.rows]

    straight = list(range(40))
    assert order(straight, 1) == order(straight[::-1], 1) != order(straight, 2)


def episode(id: str, turns: int) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?")]
    nodes += [Node(parent=n, role=Role.ASSISTANT, kind=NodeKind.TURN, text=f"t{n}") for n in range(turns)]
    return make(id).model_copy(update={"nodes": tuple(nodes), "leaf": turns, "meta": {"x": [1.5]}})


SHORT = Schedule((2, 4), (1, 2, 5))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_copies_differ_in_their_ids_alone(tmp_path: Path, suffix: str) -> None:
    given = {t.id: t for t in (episode("a", 2), episode("b", 3), episode("c", 5), episode("d", 1), episode("b~2", 1))}
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_trajectories(source, given.values())
    done = resample_file(source, out, SHORT, seed=3)
    found = {t.id: t for t in open_trajectories(out)}
    assert done.before == (3, 1, 1) and len(done.rows) == len(found) == 10
    assert sorted(found) == ["a", "b", "b~2", "b~3", "c", "c~2", "c~3", "c~4", "c~5", "d"], "a copy takes no id that is there"
    for id, copy in found.items():
        name = id if id in given else id.partition("~")[0]
        assert copy.model_copy(update={"id": name}) == given[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, out.name]), "nothing is left behind"
    write_trajectories(source, [episode("a", 2), episode("a", 3)])
    with pytest.raises(UserError, match="more than once"):
        resample_file(source, out, SHORT)
    with pytest.raises(UserError, match="Cannot write"):
        resample_file(source, source / out.name, SHORT)
