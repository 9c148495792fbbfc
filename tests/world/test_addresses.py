"""Addresses: one key for their spellings, and what a blocklist blocks however they are wrapped."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Occasion, Page, answered
from sanderling.world.filters import GuardedWorld, MaskedWorld
from sanderling.world.guard import Blocklist, Guard, GuardKind, GuardLine, spots
from sanderling.world.local import LocalWorld

# Keys


URL_TEXT = st.text(alphabet="ahttps:/.?#%25eE()[]@&=+ :8043\u00e9\u6771~'\"\\\n-_,;", max_size=40)


@given(st.one_of(st.text(max_size=60), URL_TEXT, st.builds("http{}://{}".format, st.sampled_from(["", "s"]), URL_TEXT)))
@example("http://a:80:80/")
@example("https:///../..//.")
@example("%68ttp://x.y/%2e%2E/a#b")
@example("x.com:443")
@example("https://\u00e9.\u6771:80./")
@example("https://a%2Fb%3A.\u00e9/c")
@example("//x.y//z")
@example("///x.y")
@example("\ud800/\x00")
@example("https://a.b/%%41%zz")
def test_idempotent(url):
    once = canonical_url(url)
    assert canonical_url(once) == once
    assert once.isascii()


RULES = Blocklist.parse(
    "huggingface.co/datasets\nhub.example/data/quiz\nleaks.example\nmünchen.example\ngithub.com/own/quiz\n"
    "https://raw.githubusercontent.com/other/set\n*/datasets/owner/quiz"
)
TARGET = "huggingface.co/datasets/a/b"
WAYS_ROUND = [
    f"HTTP://me:secret@WWW.HuggingFace.CO.:8443/{TARGET.partition('/')[2].title()}",
    "https://huggingface.co/api/datasets/a/b",
    "https://huggingface.co//x/%2E%2E%2Fdatasets//a",
    "https://huggingface.co/%252Fdatasets%25252Fa",
    "https://hf.co/datasets/a/b",
    "https://huggingface.co\\datasets\\a",
    f"https://web.archive.org/web/20240102030405if_/http:/{TARGET}",
    f"https://r.jina.ai/{TARGET}",
    f"https://translate.example/t?u=https%253A%252F%252F{TARGET.replace('/', '%252F')}",
    "https://huggingface-co.translate.goog/datasets/a/b?_x_tr_sl=en",
    f"https://webcache.googleusercontent.com/search?q=cache:AbC123:{TARGET}",
    f"https://web.archive.org/web/2024/https://r.jina.ai/https://{TARGET}",
    f"view-source:https://{TARGET}",
    f"https://proxy.example/?x=1&url={TARGET.replace('/', '%252F')}",
    "https://proxy.example/raw.githubusercontent.com/own/quiz/main/x",
    "https://deepwiki.com/own/quiz",
    "https://a.b.leaks.example/x",
    "https://xn--mnchen-3ya.example/x",
    "https://cdn.jsdelivr.net/gh/own/quiz@main/test.json",
    "https://github.com/own/quiz.git",
    "https://mirror-of-it.example/api/datasets/Owner/quiz",
]


@pytest.mark.parametrize("url", WAYS_ROUND)
def test_a_way_round_is_blocked_in_search_and_visit(url: str) -> None:
    assert RULES.blocks(url) and RULES.blocks(canonical_url(url))
    pages = [
        Page(url=url, title="Quiz", text="the tide quiz with answers"),
        Page(url="https://w.example/a", title="Tide", text=f"the tide quiz, [see]({url})"),
        Page(url="https://w.example/b", title="Tide tables", text="tide and time"),
    ]
    lines: list[GuardLine] = []
    local = LocalWorld.in_memory(pages, name="w")
    for world in (MaskedWorld(local, blocklist=RULES), GuardedWorld(local, Guard(RULES, {}, (), lines.append))):
        found = answered(world.search("tide quiz", occasion=Occasion(question="q", attempt=2)))
        assert {hit.url for hit in found.hits} == {"https://w.example/a", "https://w.example/b"}
        assert answered(world.visit(url, occasion=Occasion(question="q", attempt=2))).status is ToolStatus.NOT_FOUND
        assert answered(world.visit("https://w.example/a")).text.startswith("the tide quiz, see")
    assert [(one.question, one.attempt, one.tool, one.kind) for one in lines] == [
        ("q", 2, "search", GuardKind.ADDRESS),
        ("q", 2, "visit", GuardKind.ADDRESS),
    ]
    assert all(one.url in (url, canonical_url(url)) and one.rule and not one.sha256 for one in lines)


def test_lists_are_joined() -> None:
    both = Blocklist.parse("a.example\nb.example/x") | Blocklist.parse("b.example/x\n*/y/z")
    assert both == Blocklist.parse("a.example\nb.example/x\n*/y/z") and both.paths == ("/y/z",)


@pytest.mark.parametrize("line", ["*/", "*", "*//x", "a b", "*/x y"])
def test_a_line_that_would_block_nothing_or_everything_is_refused(line: str) -> None:
    with pytest.raises(UserError, match="Line 2 of the blocklist"):
        Blocklist.parse(f"# comment\n{line}")


@pytest.mark.parametrize("piece", ["https://r.jina.ai/", "https%3A//r.jina.ai/x.y/", "https%253A//google.com/?u=a.b/", "a.b/"])
def test_a_hostile_address_is_looked_at_in_bounds(piece: str) -> None:
    assert len(spots("https://r.jina.ai/" + piece * 2_000)) <= 2 * (1 + 3 * 64)
