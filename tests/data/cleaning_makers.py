"""Small trajectories for the tests of cleaning, and strategies for odd ones: pieces of turns and responses, in odd orders."""

import json
from collections.abc import Iterable

from hypothesis import strategies as st
from strategies import trajectories

from sanderling.core.parse import parse_turn
from sanderling.core.profiles import Profile, get_profile
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role
from sanderling.data.cleaning.cleaner import Cleaner, CleaningRecipe, CleanReport, Outcome

DR_VENUS = get_profile("dr-venus-4b")
PYTHON = ("PythonInterpreter", {"code": "1"})
FIND = ("search", {"query": ["a"]})
MARKDOWN = (
    "A Google search for '\"it's\" [quoted]' found 2 results:\n\n## Web Results\n"
    "1. [Alien [1979] [PDF]](https://en.wikipedia.org/wiki/Alien_(film))\nDate published: May 25, 1979\n\n"
    'In space "no one" can hear [you] (scream).\n\n'
    "2. [Plain](https://a.example/x?y=(1)_)\n\nDate published: within the text"
)
SYSTEM, QUESTION, HINT = NodeKind.SYSTEM, NodeKind.QUESTION, NodeKind.HINT
ROLES = {SYSTEM: Role.SYSTEM, NodeKind.TURN: Role.ASSISTANT}


def call_text(*calls: tuple[str, dict], think: str = "Look it up.") -> str:
    """A turn that makes calls."""
    bodies = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    return "\n\n".join([f"<think>\n{think}\n</think>", *(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)])


def search(*queries: str, think: str = "Look it up.") -> str:
    return call_text(("search", {"query": list(queries)}), think=think)


def visit(*urls: str, goal: str = "dates") -> str:
    return call_text(("visit", {"url": list(urls), "goal": goal}))


def answer(text: str = "Lisbon") -> str:
    return f"<think>\nSure.\n</think>\n\n<answer>\n{text}\n</answer>"


def results(*queries: str) -> str:
    hits = [{"title": "A", "url": "https://a.example/x", "snippet": "s", "date": ""}]
    return json.dumps([{"query": query, "web_page_info_list": hits} for query in queries])


def seen(*blocks: str) -> str:
    """What the tools returned, a block for each call."""
    return "\n".join(f"<tool_response>\n{block}\n</tool_response>" for block in blocks)


def message(kind: NodeKind, text: str, **fields: object) -> Node:
    """A node without a parent yet; turns are parsed."""
    told = {}
    if kind is NodeKind.TURN:
        parsed = parse_turn(text)
        told = {"think": parsed.think, "calls": parsed.calls, "answer": parsed.answer}
        told["problems"] = tuple(problem.value for problem in parsed.problems)
    return Node(parent=None, role=ROLES.get(kind, Role.USER), kind=kind, text=text, **(told | fields))  # pyright: ignore[reportArgumentType]


def chain(*nodes: Node, accepted: tuple[str, ...] = ("Lisbon",), **fields: object) -> Trajectory:
    """A trajectory of one branch."""
    linked = tuple(node.model_copy(update={"parent": place - 1 if place else None}) for place, node in enumerate(nodes))
    last = linked[-1] if linked else None
    told = {
        "id": "t",
        "question": Question(id="q", text="Which city?", answers=accepted),
        "nodes": linked,
        "leaf": len(linked) - 1 if linked else None,
        "ending": None,
        "answer": last.answer if last is not None and last.kind is NodeKind.TURN else None,
    }
    return Trajectory(**(told | fields))  # pyright: ignore[reportArgumentType]


def talk(*texts: str, **fields: object) -> Trajectory:
    """A conversation: system prompt and question, then turns and what was said to them, in turn."""
    kinds = [NodeKind.TURN if place % 2 == 0 else NodeKind.OBSERVATION for place in range(len(texts))]
    said = [message(kind, text) for kind, text in zip(kinds, texts, strict=True)]
    opening = (message(SYSTEM, "You are an agent.\nCurrent date: 2025-07-18"), message(QUESTION, "Which city?"))
    return chain(*opening, *said, **fields)  # pyright: ignore[reportArgumentType]


def texts(trajectory: Trajectory | None) -> list[str]:
    """The texts of the main branch from the first turn on."""
    assert trajectory is not None
    return [node.text for node in trajectory.branch() if node.kind not in (SYSTEM, QUESTION)]


def step(name: str, found: Trajectory, profile: Profile = DR_VENUS, **settings: object) -> Outcome:
    """One step alone, with these settings."""
    recipe = CleaningRecipe.model_validate({"steps": [name], **({name: settings} if settings else {})})
    return next(Cleaner(recipe, profile).steps(found))


def clean(found: Iterable[Trajectory], recipe: CleaningRecipe) -> tuple[list[Trajectory], list[Outcome], CleanReport]:
    """What a recipe keeps and drops of these, for its own profile."""
    cleaner = Cleaner(recipe, get_profile(recipe.profile))
    done = [cleaner.clean(one) for one in found]
    dropped = [one for one in done if isinstance(one, Outcome)]
    return [one for one in done if isinstance(one, Trajectory)], dropped, cleaner.report


def codes(outcome: Outcome) -> dict[str, int]:
    """What a step did, added up."""
    found: dict[str, int] = {}
    for note in outcome.notes:
        found[note.code] = found.get(note.code, 0) + note.number
    return found


def kinds(trajectory: Trajectory | None) -> list[str]:
    """What the messages of the main branch are."""
    assert trajectory is not None
    return [node.kind.value for node in trajectory.branch()]


MARKS = [
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
]
PIECES = st.sampled_from(
    [
        *MARKS,
        *("<answer>Lisbon</answer>", "<tool_response>", "\ud83d", "\x00", "\\boxed{1}"),
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
