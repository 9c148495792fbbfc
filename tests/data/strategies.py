"""Hypothesis strategies for the records."""

from hypothesis import strategies as st

from sanderling.core.record import Node, NodeKind, Question, Seeds, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus

ODD_TEXTS = ["", "\x00", "a\x00b", "\n", "\r\n", "\u2028\u2029\x85", "潮间带\U0001f426", "\ufeff", '"\\', "\ud83d", "x\udc26y"]
TEXT = st.one_of(st.text(max_size=12), st.sampled_from(ODD_TEXTS))
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(0, 2**31 - 1)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOAT, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)


def tuples(items: st.SearchStrategy, size: int = 3) -> st.SearchStrategy:
    return st.lists(items, max_size=size).map(tuple)


CALLS = st.builds(ToolCall, name=TEXT, arguments=OBJECT, raw=TEXT)
EVENTS = st.builds(
    ToolEvent, name=TEXT, role=TEXT, status=st.sampled_from(ToolStatus), parts=tuples(st.sampled_from(ToolStatus)),
    latency_s=FLOAT, provenance=tuples(TEXT),
)  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Node:
    size = draw(st.none() | st.integers(0, 4))

    def parallel(items: st.SearchStrategy) -> tuple | None:
        if size is None or draw(st.booleans()):
            return None
        return tuple(draw(st.lists(items, min_size=size, max_size=size)))

    return Node(
        parent=draw(st.none() | st.integers(0, index - 1)) if index else None,
        role=draw(st.sampled_from(Role)),
        kind=draw(st.sampled_from(NodeKind)),
        text=draw(TEXT),
        token_ids=None if size is None else tuple(draw(st.lists(COUNT, min_size=size, max_size=size))),
        loss_mask=parallel(st.booleans()),
        logprobs=parallel(FLOAT),
        versions=parallel(COUNT),
        think=draw(st.none() | TEXT),
        calls=draw(tuples(CALLS, 2)),
        answer=draw(st.none() | TEXT),
        problems=draw(tuples(TEXT)),
        rejected=draw(st.booleans()),
        events=draw(tuples(EVENTS, 2)),
        seconds=draw(FLOAT),
        prefilled_tokens=draw(COUNT),
        prompt_tokens=draw(COUNT),
        sampled_tokens=draw(COUNT),
        raw=draw(st.none() | OBJECT),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    size = draw(st.integers(0, 4))
    texts = {name: draw(TEXT) for name in ("id", "profile", "model", "world", "detail")}
    return Trajectory(
        question=Question(
            id=draw(TEXT), text=draw(TEXT), answers=draw(tuples(TEXT)), masked_urls=draw(tuples(TEXT)),
            hops=draw(st.none() | COUNT), meta=draw(OBJECT),
        ),
        nodes=tuple(draw(nodes(index)) for index in range(size)),
        leaf=draw(st.none() | st.integers(0, size - 1)) if size else None,
        ending=draw(st.none() | st.sampled_from(Ending)),
        answer=draw(st.none() | TEXT),
        tokenizer=draw(st.none() | TEXT),
        seeds=Seeds(run=draw(st.integers()), episode=draw(COUNT), attempt=draw(COUNT)),
        seconds=draw(FLOAT),
        meta=draw(OBJECT),
        **texts,
    )  # fmt: skip
