"""What counts as having read one's question: copies of it, whoever shows them, but not what tools say back to the agent."""

from typing import Any

import pytest

from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role, ToolCall
from sanderling.evaluate.guarding import read_its_question

ASKED = (
    "Which lighthouse keeper's daughter, born in a village whose church burned down twice, later painted the harbour that "
    "her grandfather had once surveyed for a company that no longer exists?"
)
CHINESE = "哪位出生于渔村的画家晚年在海边的灯塔里完成了那幅描绘旧港口的长卷并把它捐给了当地的博物馆"
LEAK = f"Benchmark, row 7. {ASKED.upper()} Answer: somebody"


def attempt(text: str, call: dict[str, Any] | None = None, asked: str = ASKED, later: str = "") -> Trajectory:
    calls = (ToolCall(name="search", arguments={"query": ["harbour painters"]} if call is None else call),)
    nodes = [
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=asked),
        Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="", think=asked, calls=calls),
        Node(parent=1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text),
        Node(parent=2, role=Role.USER, kind=NodeKind.OBSERVATION, text=later),
    ]
    return Trajectory(id="t", question=Question(id="q", text=asked), nodes=tuple(nodes), leaf=3, ending=None)


def half(count: int) -> str:
    """A page that quotes the question's first so many words."""
    return "An essay begins: " + " ".join(ASKED.split()[:count]) + " … and goes on in words of its own."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LEAK, True),
        (LEAK.replace("'", "’").replace(" ", "\n"), True),
        (LEAK.replace("keeper'S".upper(), "KEEPER&#39;S"), True),
        (LEAK.replace("CHURCH", "CHU\u00adRCH"), True),
        ("".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in LEAK), True),
        (half(24), True),
        (half(13), False),
        ("The harbour was surveyed by a company.", False),
        ("", False),
    ],
)
def test_a_page_that_repeats_the_question(text: str, found: bool) -> None:
    assert read_its_question(attempt(text)) is found
    assert read_its_question(attempt("", later=text)) is found, "wherever it stands"


def test_the_agents_own_words_are_no_leak() -> None:
    asked = {"query": [ASKED, "harbour"]}
    echo = f'[{{"query": "{ASKED}", "results": []}}, {{"query": "harbour"}}]'
    assert read_its_question(attempt(echo, asked)) is False
    assert read_its_question(attempt(f"{echo} {LEAK}", asked)) is True, "said back once, and shown once more"
    assert read_its_question(attempt(echo, {"query": ["harbour"]})) is True, "nobody asked for that"
    goal = {"url": ["https://a.example/1", "https://a.example/2"], "goal": f"Find: {ASKED}"}
    pages = f"For the goal Find: {ASKED}\nnothing.\n====\nFor the goal Find: {ASKED}\nnothing either."
    assert read_its_question(attempt(pages, goal)) is False
    assert read_its_question(attempt(f"{pages} For the goal Find: {ASKED}", goal)) is True


@pytest.mark.parametrize(
    "head",
    [
        '[{{"query": "{}", "web_page_info_list": []}}]',
        "A Google search for '{}' found 2 results:",
        "No results found for '{}'. Use other words.",
        '{{"searchParameters": {{"q": "{}"}}}}',
        "The useful information in https://a.example/1 for user goal {} as follows:",
    ],
)
def test_only_where_a_layout_says_a_query_back_is_it_said_back(head: str) -> None:
    asked = {"query": [ASKED]}
    assert read_its_question(attempt(head.format(ASKED), asked)) is False
    assert read_its_question(attempt(f"{head.format(ASKED)}\n1. {LEAK}", asked)) is True
    assert read_its_question(attempt(f"1. {LEAK}", asked)) is True, "the page says it, not the tool"
    assert read_its_question(attempt(f"Question: {ASKED}", asked)) is True
    twice = " ".join([head.format(ASKED)] * 2)
    assert read_its_question(attempt(twice, {"query": [ASKED] * 2})) is False
    assert read_its_question(attempt(twice, asked)) is True


def test_an_address_shows_no_answer() -> None:
    slug = "-".join(ASKED.lower().replace("'", "").split())
    assert read_its_question(attempt(f"See https://forum.example/t/{slug} for more")) is False


def test_scripts_without_blanks_and_short_questions() -> None:
    assert read_its_question(attempt(f"题目：{CHINESE}？答案", asked=CHINESE)) is True
    assert read_its_question(attempt(f"{CHINESE[:27]}，后来如何", asked=CHINESE)) is False
    assert read_its_question(attempt("Who painted it?", asked="Who painted it?")) is None
