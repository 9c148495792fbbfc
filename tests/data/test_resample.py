"""Turn-aware resampling: the published counts, and copies that stand apart whenever they can."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role
from sanderling.data.importing import open_trajectories
from sanderling.data.resample import Schedule, resample, resample_file
from sanderling.runs.jsonl import write_trajectories


def ids(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def test_the_published_counts() -> None:
    """Bucket sizes solved for from DR-Venus' counts: 9,365 become 18,745, and the shares of long ones are the paper's."""
    turns = [50] * 3_720 + [100] * 4_400 + [101] * 1_245
    found = resample(ids(len(turns)), turns, Schedule())
    assert len(turns) == 9_365 and len(found.rows) == 18_745
    assert found.before == (3_720, 4_400, 1_245) and found.after == (3_720, 8_800, 6_225)
    assert found.neighbours == 0
    assert round(100 * (4_400 + 1_245) / 9_365, 2) == 60.28 and round(100 * (8_800 + 6_225) / 18_745, 2) == 80.15
    assert round(100 * 1_245 / 9_365, 2) == 13.29 and round(100 * 6_225 / 18_745, 2) == 33.21


WEIGHTS = st.lists(st.integers(0, 7), max_size=9)


def resampled(weights: list[int], seed: int = 0):
    """Rows with these numbers of copies: turn counts that fall into buckets of their own."""
    return resample(ids(len(weights)), list(range(len(weights))), Schedule(tuple(range(len(weights))), (*weights, 1)), seed)


@given(WEIGHTS, st.integers(0, 5))
def test_every_copy_is_there_and_they_stand_apart_where_there_is_room(weights: list[int], seed: int) -> None:
    found = resampled(weights, seed)
    assert Counter(found.rows) == {row: weight for row, weight in enumerate(weights) if weight}
    total, most = sum(weights), max(weights, default=0)
    if most <= total // 4:
        assert found.neighbours == 0


@given(WEIGHTS.filter(lambda weights: len(weights) > 1), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(weights: list[int], random) -> None:
    names, turns = ids(len(weights)), list(range(len(weights)))
    schedule = Schedule(tuple(turns), (*weights, 1))
    mixed = turns.copy()
    random.shuffle(mixed)
    one = resample(names, turns, schedule)
    two = resample([names[row] for row in mixed], [turns[row] for row in mixed], schedule)
    assert [names[row] for row in one.rows] == [names[mixed[row]] for row in two.rows]


def episode(id: str, turns: int) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=f"what {id}")]
    for turn in range(turns):
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text=f"turn {turn} \ud83d"))
        rejected = Node(parent=len(nodes) - 2, role=Role.ASSISTANT, kind=NodeKind.TURN, text="no", rejected=True)
        nodes.append(rejected)
        nodes.append(Node(parent=len(nodes) - 2, role=Role.USER, kind=NodeKind.OBSERVATION, text="seen"))
    return Trajectory(
        id=id, question=Question(id=id, text="?"), nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None, meta={"x": [1.5]}
    )


SHORT = Schedule((2, 4), (1, 2, 5))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("out_suffix", [".jsonl", ".parquet"])
def test_copies_differ_in_their_ids_alone(tmp_path: Path, suffix: str, out_suffix: str) -> None:
    given = {t.id: t for t in (episode("a", 2), episode("b", 3), episode("c", 5), episode("d", 1))}
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{out_suffix}"
    write_trajectories(source, given.values())
    done = resample_file(source, out, SHORT, seed=3)
    found = list(open_trajectories(out))
    assert done.before == (2, 1, 1) and len(done.rows) == len(found) == 9
    assert sorted(t.id for t in found) == ["a", "b", "b~2", "c", "c~2", "c~3", "c~4", "c~5", "d"]
    for copy in found:
        name = copy.id.partition("~")[0]
        assert copy.model_copy(update={"id": name}) == given[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, out.name]), "nothing is left behind"


def test_copies_take_no_id_that_is_there(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_trajectories(source, [episode("a", 5), episode("a~2", 1), episode("a~4", 3)])
    resample_file(source, out, SHORT)
    found = sorted(t.id for t in open_trajectories(out))
    assert found == ["a", "a~2", "a~3", "a~4", "a~4~2", "a~5", "a~6", "a~7"]
