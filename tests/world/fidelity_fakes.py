"""Trajectories with searches and visits, made by hand."""

import json
from collections.abc import Sequence

from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Role, ToolCall

Search = tuple[str, Sequence[tuple[str, str]]]
"""Query, and (URL, snippet) of each result."""


def results(*searches: Search) -> str:
    blocks = [
        {"query": query, "web_page_info_list": [{"title": url, "url": url, "snippet": said} for url, said in hits]}
        for query, hits in searches
    ]
    return json.dumps(blocks)


def extract(url: str, text: str) -> str:
    return f"The useful information in {url} for user goal g as follows: \n\nEvidence in page: \n{text}\n\nSummary: \nshort"


def trajectory(id: str, question: str, *observations: str) -> Trajectory:
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=question)]
    for said in observations:
        call = ToolCall(name="search", arguments={"query": [said[:20]]})
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="…", calls=(call,)))
        text = f"<tool_response>\n{said}\n</tool_response>"
        nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text))
    asked = Question(id=question, text=question)
    return Trajectory(id=id, question=asked, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None)
