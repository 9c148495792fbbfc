"""What an agent of the tiny recipe reads is fixed to the byte: published numbers hang on it."""

import hashlib

from sanderling.core.profiles import get_profile
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.contract import answered
from sanderling.world.encyclopedia import generate_pages
from sanderling.world.local import LocalWorld

GOALS = ("", "born", "who founded it and in which year", "population of the town; mayor", "zzz")
SHORT = "600310be71e1e714808b65cb70dfb4a346824c2bbc01e4b1ffd0e7a324286207"
LONG = "c3e9c22d44b8af0560d174096eae6a0f656d2edb3bbc742c069fd545fa074c28"


async def test_visits_of_the_tiny_profile_keep_their_bytes() -> None:
    pages = list(generate_pages(120, 7))
    tool = world_tools(LocalWorld.in_memory(pages, name="golden"), get_profile("tiny"))["visit"]
    digest = hashlib.sha256()
    for goal in GOALS:
        for page in pages:
            digest.update((await tool({"url": [page.url, f"{page.url}#x"], "goal": goal}, ToolContext())).text.encode())
    assert digest.hexdigest() == SHORT


def test_extracts_of_long_encyclopedia_pages_keep_their_bytes() -> None:
    pages = list(generate_pages(120, 8))
    # Budgets of three full passages and more have no published number.
    joined = [
        page.model_copy(update={"text": "\n\n".join(other.text for other in pages[start : start + 30])})
        for start, page in enumerate(pages[:40])
    ]
    world = LocalWorld.in_memory(joined, name="long")
    digest = hashlib.sha256()
    for goal in GOALS:
        for page in joined:
            for words in (1, 8, 24, 60, 120, 179):
                digest.update(answered(world.visit(page.url, goal, max_words=words)).text.encode())
    assert digest.hexdigest() == LONG
