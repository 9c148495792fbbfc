"""Did an attempt read its own question word for word? Looked at after the fact, whatever a guard hid before.

The rule is the guard's (`world.guard`): a page that holds the whole question, or half of its runs, repeats a benchmark; one
that quotes a run of it may be the very source. What tools only say back to the agent does not count: its queries, its goals,
the addresses that it asked for. Every observation is looked at on every branch. Costs a few milliseconds for a million
characters unless there is something to find. Knows no guard, no benchmark and no answer.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from html import unescape

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import ToolCall
from sanderling.world.guard import GuardKind, Wording, as_words, without_echo

_URL = re.compile(r"https?://[^\s\"'<>)\]]+")
_UNSEEN = re.compile(
    "['.\u00ad\u034f\u0640\u061c\u115f\u1160\u180b-\u180f\u2018\u2019\u201b\u02bb\u02bc\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u20dd-\u20e4\ufe00-\ufe0f\ufeff]"
)
"""What may stand within a word without making another of it."""
_TITLE_AND_FIRST_LINE = 2
_SAID_BACK = " (?:q|query|(?:search|results|found) for|(?:user|the) goal)"
"""What stands before the agent's own words in a tool's reply."""


def read_its_question(trajectory: Trajectory) -> bool | None:
    """Whether something that its tools returned repeats the question; None: the question is too short to be told."""
    wording = Wording.of(trajectory.question.text)
    if not wording.whole:
        return None
    return any(
        _may_hold(node.text, wording) and _holds(node.text, wording, _asked_for(trajectory, node))
        for node in trajectory.nodes
        if node.kind is NodeKind.OBSERVATION
    )


def _asked_for(trajectory: Trajectory, node: Node) -> tuple[ToolCall, ...]:
    """The calls that an observation answers: those of the turn before it."""
    at = node.parent
    while at is not None and trajectory.nodes[at].kind is not NodeKind.TURN:
        at = trajectory.nodes[at].parent
    return () if at is None else trajectory.nodes[at].calls


def _holds(text: str, wording: Wording, calls: tuple[ToolCall, ...]) -> bool:
    words = as_words(_without_page_echoes(_URL.sub(" ", text), wording, calls))
    echoes: Counter[str] = Counter()
    for echo, times in (one for call in calls for one in _echoes(call, wording)):
        echoes[echo] += times
    # The longest first: a part of a longer query is not another one.
    for echo, times in sorted(echoes.items(), key=lambda one: -len(one[0])):
        words = re.sub(f"({_SAID_BACK}) {re.escape(echo)}(?= )", r"\1 \n", words, count=times)
    found = wording.found_in(words)
    return found is not None and found[0] is GuardKind.VERBATIM


def _echoes(call: ToolCall, wording: Wording) -> Iterator[tuple[str, int]]:
    """What of a call holds some of the question, and how often an answer to it says that back: once for each thing asked."""
    lists = [value for value in call.arguments.values() if isinstance(value, list)]
    each = max([1, *map(len, lists)])
    alone = [value for value in call.arguments.values() if isinstance(value, str)]
    listed = [value for values in lists for value in values if isinstance(value, str)]
    for text, times in [*((one, each) for one in alone), *((one, 1) for one in listed)]:
        words = as_words(text)
        if wording.found_in(words) is not None:
            yield words.strip(), times


def _without_page_echoes(text: str, wording: Wording, calls: tuple[ToolCall, ...]) -> str:
    """The text without lines in which the pages that were asked for say back what their addresses ask for."""
    values = (value for call in calls for value in call.arguments.values())
    urls = [url for value in values for url in (value if isinstance(value, list) else [value]) if isinstance(url, str)]
    for url in urls:
        if asked := wording.asked_by(url):
            text = "\n".join(_lines_without(text.splitlines(), asked, url))
    return text


def _lines_without(lines: list[str], asked: list[str], url: str) -> Iterator[str]:
    left = _TITLE_AND_FIRST_LINE
    for line in lines:
        words = as_words(line) if left else ""
        kept = without_echo(words, asked, url) if left else ""
        left -= kept != words
        yield line if kept == words else kept


def _may_hold(text: str, wording: Wording) -> bool:
    """False only where no run of the question can be there: a word of each is missing. Cheap, and never wrong about that."""
    if "&" in text:
        text = unescape(text)
    plain = _UNSEEN.sub("", text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold())
    return any(all(word in plain for word in _telling(run)) for run in wording.runs or (wording.whole,))


def _telling(run: str) -> list[str]:
    """Words that are written in one way only, the longest first."""
    return sorted({word for word in run.split() if word.isascii() and word.isalpha()}, key=len, reverse=True)
