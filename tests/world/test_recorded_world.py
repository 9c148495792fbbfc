import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role, ToolCall
from sanderling.world.recorded import ReplayTable


def call(name: str, **arguments) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def episode(id: str, *turns: tuple[tuple[ToolCall, ...], str]) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text="?")]
    for calls, said in turns:
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="…", calls=calls))
        text = f"<tool_response>\n{said}\n</tool_response>"
        nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text))
    return Trajectory(id=id, question=Question(id="q", text="?"), nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None)


SEARCH = call("search", query=["a"])


def test_a_saved_table_answers_the_same(tmp_path):
    odd = 'x\u2028\x00 "\ud83d"\n\n'
    table = ReplayTable.from_trajectories([episode("t", ((SEARCH,), odd), ((SEARCH,), "later"))])
    table.save(tmp_path / "r.jsonl")
    again = ReplayTable.load(tmp_path / "r.jsonl")
    assert len(again) == 2
    again.save(tmp_path / "twice.jsonl")
    assert (tmp_path / "twice.jsonl").read_bytes() == (tmp_path / "r.jsonl").read_bytes()
    with pytest.raises(UserError, match="no replay table"):
        ReplayTable.load(tmp_path / "none.jsonl")
    (tmp_path / "r.jsonl").write_text('{"calls": []}\n')
    with pytest.raises(UserError, match="Line 1"):
        ReplayTable.load(tmp_path / "r.jsonl")
