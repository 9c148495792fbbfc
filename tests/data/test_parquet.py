import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import trajectories
from test_jsonl import make

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role
from sanderling.runs import parquet
from sanderling.runs.parquet import read_parquet, write_parquet


@given(st.lists(trajectories(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_parquet_round_trip_is_exact(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("p") / "t.parquet"
    assert write_parquet(path, items) == len(items)
    assert repr(list(read_parquet(path))) == repr(items)


def turn(**fields) -> Trajectory:
    node = Node(parent=None, role=Role.ASSISTANT, kind=NodeKind.TURN, text="x", **fields)
    return make(nodes=(node,))


def test_token_columns_have_the_stated_types(tmp_path):
    logprobs = (-0.1, -0.0, 5e-324)
    write_parquet(tmp_path / "t.parquet", [turn(token_ids=(1, 2, 3), logprobs=logprobs, versions=(0, 0, 1))])
    node = pq.read_schema(tmp_path / "t.parquet").field("nodes").type.value_type
    kinds = {name: str(node.field(name).type.value_type) for name in ("token_ids", "logprobs", "versions", "loss_mask")}
    assert kinds == {"token_ids": "int32", "logprobs": "double", "versions": "int32", "loss_mask": "bool"}
    (again,) = read_parquet(tmp_path / "t.parquet")
    assert repr(again.nodes[0].logprobs) == repr(logprobs)


def test_row_groups_bound_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 2)
    items = [make(str(index)) for index in range(5)]
    write_parquet(tmp_path / "t.parquet", iter(items))
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 3
    assert list(read_parquet(tmp_path / "t.parquet")) == items


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(path, [make("old")])

    def failing():
        yield make("new")
        raise KeyError("teacher died")

    with pytest.raises(KeyError):
        write_parquet(path, failing())
    assert [t.id for t in read_parquet(path)] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
