"""Reading by a model: quotes checked, long pages by parts, and the model-free extract when it fails."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.profiles import ResultLayout, get_profile
from sanderling.core.types import AskingOutageError, Message, Reply, ToolStatus, Usage
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.page_reader import Fallback, OnOutage, PageReader, ReadingLimits, Report, read_report
from sanderling.tools.quotes import PageText
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import Page, VisitReply
from sanderling.world.cutting import Prices, find_links
from sanderling.world.local import LocalWorld

TEXT = (
    "# Orlo\n\nOrlo is a town by the sea.\n\n## History\n\nAnna Bel founded the town hall in 1903 "
    "with [Ivo Kern](https://w.example/Ivo_(mason)). It burnt down in 1911 — and was “rebuilt” by 1920.\n\n"
    "## Trade\n\n| Year | Boats |\n|---|---|\n| 1903 | 12 |\n| 1911 | 7 |\n\nHerring   is\nsold at the café."
)
PAGE = VisitReply("https://w.example/Orlo", "Orlo", TEXT)


def said(*evidence: str, summary: str = "A summary.", rationale: str = "Because.") -> str:
    return json.dumps({"rationale": rationale, "evidence": list(evidence), "summary": summary})


class Model:
    """A client that answers in order, or by a function; keeps what it was asked."""

    name, place = "m", ""

    def __init__(self, *replies: str | Exception, by: Callable[[str], str | Exception] | None = None) -> None:
        self.replies = list(replies)
        self.by = by
        self.asked: list[Sequence[Message]] = []

    async def ask(self, messages: Sequence[Message], **_: object) -> Reply:
        self.asked.append(messages)
        await asyncio.sleep(0)
        reply = self.by(messages[-1].content) if self.by else self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, Usage("m"))


GOAL = "who founded the town hall"
LONG = "\n\n".join(f"Paragraph {n} of the chronicle has about ten words in it." for n in range(40))


@pytest.mark.parametrize("most", [5, 12, 30])
async def test_extract_and_summary_keep_the_budget(most: int) -> None:
    everything = said(
        *(block for block in TEXT.split("\n\n") if not block.startswith("#")), summary="One two three. Four five six."
    )
    reading = await PageReader(Model(everything)).read(PAGE, GOAL, most)
    assert reading.text and Prices(reading.text).whole + Prices(reading.summary).whole <= most


def by_part(content: str) -> str:
    """Quotes every paragraph with a 7 that the part holds; merges when asked to."""
    if '"evidence"' in content:
        return '{"summary": "merged"}'
    return said(*(line for line in content.splitlines() if line.startswith("Paragraph") and "7 of" in line), summary="part")


async def test_a_long_page_is_read_by_parts_and_merged() -> None:
    model = Model(by=by_part)
    reader = PageReader(model, limits=ReadingLimits(part_words=100))
    reading = await reader.read(VisitReply("u", "T", LONG), "sevens", 200)
    assert [line.split()[1] for line in reading.text.split("\n\n")] == ["7", "17", "27", "37"]
    parts = [asked[1].content for asked in model.asked if "<page>" in asked[1].content]
    (merging,) = [asked[1].content for asked in model.asked if "<page>" not in asked[1].content]
    assert all(f'"Paragraph {n} of' in merging for n in (7, 17, 27, 37)) and merging.count('"part"') == 4
    assert len(parts) == 5 and "(part 5 of 5)" in "".join(parts) and reading.summary == "merged"
    assert all(sum(f"Paragraph {n} of" in part for part in parts) == 1 for n in range(40))
    assert reader.counts.asked == 6


WORLD = LocalWorld.in_memory(
    [Page(url=PAGE.url, title="Orlo", text=TEXT), Page(url="https://w.example/long", title="Long", text=LONG)], name="t"
)


def visit_tool(model: Model, layout: ResultLayout, **options):
    profile = get_profile("dr-venus-4b").model_copy(update={"results": layout, "visit_words": 60, "visit_parts": True})
    reader = PageReader(model, **options)
    return world_tools(WORLD, profile, reader)["visit"], world_tools(WORLD, profile)["visit"], reader


async def test_where_nothing_comes_of_it_the_tool_answers_as_without_a_model() -> None:
    for reply in (said("Not there."), AskingOutageError("down"), said()):
        tool, plain, reader = visit_tool(Model(reply), ResultLayout.JSON)
        call = {"url": [PAGE.url], "goal": GOAL}
        assert await tool(call, ToolContext()) == await plain(call, ToolContext())
        assert sum(reader.counts.fallbacks.values()) == 1


async def test_a_refused_outage_is_the_tools_outage() -> None:
    tool, _, _ = visit_tool(Model(AskingOutageError("down")), ResultLayout.JSON, on_outage=OnOutage.REFUSE)
    with pytest.raises(ToolOutageError, match="down"):
        await tool({"url": [PAGE.url], "goal": GOAL}, ToolContext())


async def test_a_model_that_is_late_is_not_waited_for() -> None:
    class Never(Model):
        async def ask(self, *_: object, **__: object) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    profile = get_profile("dr-venus-4b")
    reader = PageReader(Never())
    call = {"url": [PAGE.url, "https://w.example/long"], "goal": GOAL}
    read = await world_tools(WORLD, profile, reader)["visit"](call, ToolContext(deadline_s=0.05))
    assert read == await world_tools(WORLD, profile)["visit"](call, ToolContext())
    assert read.status is ToolStatus.OK and reader.counts.fallbacks[Fallback.LATE] == 2


# -- prompt and reply ------------------------------------------------------------------------------------------

GOOD = {"rationale": "r", "evidence": ["a", "b"], "summary": "s"}
REPORT = Report(("a", "b"), "s")


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD, indent=2)}\n```",
        f"<think>{{\"evidence\": [\"no\"]}}</think>\n{json.dumps(GOOD)}",
        f"Here is what I found {{braces}}: {json.dumps(GOOD)} I hope it helps.",
        json.dumps({"rational": "r", "evidence": ["a", " ", "b"], "summary": "s", "more": 1}),
        json.dumps({"rationale": "r", "evidence": [{"quote": "a"}, {"text": "b"}, 5, None], "summary": "s"}),
        "{rationale: 'r', evidence: ['a', 'b',], summary: 's'}",
        '{"rationale": "r", "evidence": ["a", "b"], "summary": "s\x00"}',
    ],
)  # fmt: skip
def test_replies_as_models_write_them(reply: str) -> None:
    assert read_report(reply) == REPORT


# -- Quotes stand in the page or are dropped: what makes a difference and what does not; what is shown is the page's own ---

SHOWN = PageText(TEXT)


@pytest.mark.parametrize(
    ("quote", "own"),
    [
        ("Orlo is a town by the sea.", "Orlo is a town by the sea."),
        ("“Orlo is a  town\nby the sea”", "Orlo is a town by the sea"),
        ("founded the town hall in 1903 with Ivo Kern.", None),
        ("founded the town hall in 1903 with [Ivo Kern](https://w.example/Ivo_(mason))", None),
        ('It burnt down in 1911 - and was "rebuilt" by 1920.', "It burnt down in 1911 — and was “rebuilt” by 1920."),
        ("Herring is sold at the cafe\u0301", "Herring   is\nsold at the café"),
        ("1911 7", "1911 | 7"),
        ("| 1911 | 7 |", "1911 | 7"),
        ("**Orlo** is a town", "Orlo is a town"),
    ],
)
def test_a_quote_is_given_back_as_it_stands(quote: str, own: str | None) -> None:
    stretches, missed = SHOWN.stretches(quote)
    (passage,) = SHOWN.passages(stretches)
    assert missed == 0
    if own is None:
        assert passage.startswith("founded the town hall") and "[Ivo Kern](https://w.example/Ivo_(mason))" in passage
    else:
        assert passage == own


@pytest.mark.parametrize("quote", ["Orlo ... was founded ... 1911", "Orlo\nsea\n1911", "Orlo. 1911. Herring."])
def test_nothing_is_put_together_of_single_words(quote: str) -> None:
    stretches, missed = SHOWN.stretches(quote)
    assert not stretches and missed == 3


BITS = st.lists(
    st.sampled_from(
        ["alpha", "Beta.", "“x”", "é", "e\u0301", "—", "\n\n", " ", "[w](https://w.example/a_(b))", "|", "東京", "ﬁ", "*b*"]
    ),
    max_size=30,
).map("".join)


@given(BITS, st.data())
def test_any_stretch_between_words_is_found_and_is_the_pages_own(text: str, data: st.DataObject) -> None:
    borders = [0, *(i for i in range(1, len(text)) if text[i - 1].isspace() or text[i].isspace()), len(text)]
    borders = [b for b in borders if not any(link.start < b < link.end for link in find_links(text))]
    start, end = sorted((data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))))
    page = PageText(text)
    stretches, missed = page.stretches(text[start:end])
    if any(char.isalnum() for char in text[start:end]):
        assert stretches and not missed
    assert all(passage in text for passage in page.passages(stretches))
