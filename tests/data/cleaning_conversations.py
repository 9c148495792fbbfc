"""Hypothesis strategies for conversations, more or less: turns and responses of odd pieces, in odd orders."""

from cleaning_makers import answer, chain, message, results, search, seen, visit
from hypothesis import strategies as st
from strategies import trajectories

from sanderling.core.record import NodeKind, Trajectory

PIECES = st.sampled_from(
    [
        "",
        " ",
        "words",
        "<think>",
        "</think>",
        "<think>\nhm\n</think>",
        "<tool_call>",
        "</tool_call>",
        "<answer>",
        "</answer>",
        "<answer>Lisbon</answer>",
        "<tool_response>",
        "\ud83d",
        "\x00",
        "\\boxed{1}",
        '{"name": "search", "arguments": {"query": "a"}}',
        '<tool_call>{"name": "google_search", "arguments": {"queries": ["a", "b"]}}</tool_call>',
        '<tool_call>{"name": "search", "arguments": {"query": ["</tool_call><think>"]}}</tool_call>',
        '<tool_call>{"name": "browse", "arguments": {"urls": "https://a.example/(x)", "purpose": ["g"]}}</tool_call>',
        "<tool_call>{'name': 'PythonInterpreter', 'arguments': {}}</tool_call><code>1</code>",
    ]
)
TURNS = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.sampled_from([search("a"), search("b"), visit("https://a.example/"), answer()]),
)
RESPONSES = st.one_of(
    st.lists(PIECES, max_size=3).map("".join),
    st.sampled_from(
        [
            seen(results("a")),
            results("b"),
            seen(results("a"), "Tool execution timed out after 3 seconds."),
            "<tool_response>\nA Google search for 'it's' found 1 results:\n\n## Web Results\n1. [A [PDF]](https://a.example/(x))\n"
            "Date published: May 1, 2020\nSource: A\n\nwords\n</tool_response>",
            seen('[{"query": "a", "web_page_info_list": [{"url": "u", "title": " a\\n b", "snippet": "Source: y\\n"}]}]'),
        ]
    ),
)
KINDS = st.sampled_from([NodeKind.TURN, NodeKind.OBSERVATION] * 4 + list(NodeKind))


@st.composite
def conversations(draw: st.DrawFn) -> Trajectory:
    """Trajectories that look like ones, more or less."""
    kinds = draw(st.lists(KINDS, max_size=8))
    nodes = [message(kind, draw(TURNS if kind is NodeKind.TURN else RESPONSES)) for kind in kinds]
    opening = [message(kind, "Which city?") for kind in (NodeKind.SYSTEM, NodeKind.QUESTION)]
    end = [message(NodeKind.TURN, answer("It is Lisbon, " + "as far as anybody knows. " * 5))]
    said = [*draw(st.sampled_from([opening, [], opening[1:]])), *nodes, *draw(st.sampled_from([end, []]))]
    with_ids = draw(st.sampled_from([0, 0, 1, 2]))  # for no message, for every one, for every other one
    ids = {"token_ids": (1, 2), "logprobs": (-0.5, -0.5), "versions": (0, 0)}
    said = [node.model_copy(update=ids) if with_ids and not place % with_ids else node for place, node in enumerate(said)]
    return _branched(draw, chain(*said))


def _branched(draw: st.DrawFn, found: Trajectory) -> Trajectory:
    """The conversation, perhaps with a rejected attempt beside its main branch."""
    if not found.nodes or draw(st.booleans()):
        return found
    attempt = message(NodeKind.TURN, draw(TURNS), rejected=True)
    parent = draw(st.integers(0, len(found.nodes) - 1))
    return found.model_copy(update={"nodes": (*found.nodes, attempt.model_copy(update={"parent": parent}))})


ANY = st.one_of(trajectories(), conversations())
