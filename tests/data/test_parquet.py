import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import trajectories
from test_jsonl import make

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Seeds, Trajectory
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


def test_none_and_empty_stay_apart_in_columns(tmp_path):
    items = [turn(), turn(token_ids=(), logprobs=(), think="", answer="", raw={})]
    write_parquet(tmp_path / "t.parquet", items)
    assert list(read_parquet(tmp_path / "t.parquet")) == items
    rows = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["exact"] for row in rows] == [None, None]
    assert [row["nodes"][0]["token_ids"] for row in rows] == [None, []]
    assert [row["nodes"][0]["raw"] for row in rows] == [None, "{}"]


def test_token_columns_have_the_stated_types(tmp_path):
    logprobs = (-0.1, -0.0, 5e-324)
    write_parquet(tmp_path / "t.parquet", [turn(token_ids=(1, 2, 3), logprobs=logprobs, versions=(0, 0, 1))])
    node = pq.read_schema(tmp_path / "t.parquet").field("nodes").type.value_type
    kinds = {name: str(node.field(name).type.value_type) for name in ("token_ids", "logprobs", "versions", "loss_mask")}
    assert kinds == {"token_ids": "int32", "logprobs": "double", "versions": "int32", "loss_mask": "bool"}
    (again,) = read_parquet(tmp_path / "t.parquet")
    assert repr(again.nodes[0].logprobs) == repr(logprobs)


@pytest.mark.parametrize("fields", [{"detail": "\ud83d"}, {"id": "\ud83d"}, {"seeds": Seeds(run=2**64 - 1)}])
def test_what_columns_cannot_hold_is_kept_exactly(tmp_path, fields):
    items = [make("a"), make(**fields)]
    write_parquet(tmp_path / "t.parquet", items)
    assert list(read_parquet(tmp_path / "t.parquet")) == items
    assert pq.read_table(tmp_path / "t.parquet").column("exact").null_count == 1


def test_columns_cover_the_record():
    assert set(parquet.SCHEMA.names) - {"exact"} == set(Trajectory.model_fields)
    assert {field.name for field in parquet.SCHEMA.field("nodes").type.value_type} == set(Node.model_fields)
    assert {field.name for field in parquet.SCHEMA.field("question").type} == set(Question.model_fields)
    assert {field.name for field in parquet.SCHEMA.field("seeds").type} == set(Seeds.model_fields)


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


def test_bad_files_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        list(read_parquet(tmp_path / "none.parquet"))
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 junk")
    with pytest.raises(UserError, match="not a readable trajectory file"):
        list(read_parquet(tmp_path / "junk.parquet"))
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="lacks the column"):
        list(read_parquet(tmp_path / "other.parquet"))


@pytest.mark.parametrize("column", [pa.array([1]), pa.array(["x"]), pa.array([None], pa.string()), pa.array([[1]])])
def test_the_right_names_over_other_columns_are_one_sentence(tmp_path, column):
    pq.write_table(pa.table(dict.fromkeys(parquet.SCHEMA.names, column)), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="is not a readable trajectory file"):
        list(read_parquet(tmp_path / "t.parquet"))


def test_a_file_of_before_turns_said_what_they_took_is_read(tmp_path):
    write_parquet(tmp_path / "t.parquet", [turn(prefilled_tokens=5)])
    rows = pq.read_table(tmp_path / "t.parquet").to_pylist()
    node = parquet.SCHEMA.field("nodes").type.value_type
    fewer = pa.struct([field for field in node if field.name not in ("prompt_tokens", "sampled_tokens")])
    for row in rows:
        row["schema_version"] = 1
        row["nodes"] = [{field.name: one[field.name] for field in fewer} for one in row["nodes"]]
    at = parquet.SCHEMA.get_field_index("nodes")
    pq.write_table(
        pa.Table.from_pylist(rows, schema=parquet.SCHEMA.set(at, pa.field("nodes", pa.list_(fewer)))), tmp_path / "old"
    )
    (old,) = read_parquet(tmp_path / "old")
    assert (old.schema_version, old.nodes[0].prefilled_tokens, old.nodes[0].prompt_tokens) == (1, 5, 0)
