from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.stats import TrajectoryStats, summarise


def node(parent, kind, **fields) -> Node:
    role = Role.ASSISTANT if kind is NodeKind.TURN else Role.USER
    return Node(parent=parent, role=role, kind=kind, text="x", **fields)


def call(name: str) -> ToolCall:
    return ToolCall(name=name, arguments={})


def event(role: str) -> ToolEvent:
    return ToolEvent(name="n", role=role, status=ToolStatus.OK)


def episode(ids: bool) -> Trajectory:
    def tokens(count):
        return {"token_ids": tuple(range(count))} if ids else {}

    nodes = (
        node(None, NodeKind.QUESTION, **tokens(10)),
        node(0, NodeKind.TURN, rejected=True, calls=(call("search"),), **tokens(99)),
        node(0, NodeKind.TURN, calls=(call("lookup"), call("visit")), **tokens(3)),
        node(2, NodeKind.OBSERVATION, events=(event("search"), event("visit")), **tokens(20)),
        node(3, NodeKind.TURN, calls=(call("fetch_url"), call("python")), **tokens(4)),
        node(4, NodeKind.OBSERVATION, events=(event("visit"),), **tokens(20)),
        node(5, NodeKind.TURN, calls=(call("search"),), **tokens(5)),
    )
    question = Question(id="q", text="?")
    return Trajectory(id="t", question=question, nodes=nodes, leaf=6, ending=Ending.ANSWERED, answer="a", seconds=1.5)


def test_figures_of_a_set():
    told = episode(True)
    silent = episode(False).model_copy(update={"ending": None, "answer": None})
    stats = summarise([told, silent, told])
    assert stats == TrajectoryStats(
        trajectories=3,
        turns=9,
        rejected=3,
        searches=6,
        visits=6,
        other_calls=3,
        answered=2,
        with_tokens=2,
        sampled_tokens=24,
        context_tokens=124,
        seconds=4.5,
        endings={"answered": 2, "not recorded": 1},
    )
    assert stats.browse_share == 6 / 15 and stats.turns_per_trajectory == 3 and stats.sampled_tokens_per_trajectory == 12


def test_nothing_has_no_shares():
    stats = summarise([])
    assert (stats.trajectories, stats.browse_share, stats.turns_per_trajectory) == (0, None, None)
    assert stats.sampled_tokens_per_trajectory is None and stats.endings == {}
