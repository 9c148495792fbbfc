"""A world under a guard, as an agent meets it: leaks are nowhere, for their question alone, and nothing says so but the log."""

import hashlib

import pytest

from sanderling.core.profiles import get_profile
from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolContext
from sanderling.tools.world_tools import world_tools
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import NO_OCCASION, Occasion, Page, answered
from sanderling.world.faults.profiles import get_faults
from sanderling.world.faults.world import FaultyWorld
from sanderling.world.filters import GuardedWorld
from sanderling.world.guard import Guard, GuardKind, GuardLine
from sanderling.world.local import LocalWorld

ASKED = "Which keeper of the northern lighthouse wrote forty odes to the tide before the great storm took his library?"
OTHER = "Which teacher of music in a town known for its bells later kept the northern lighthouse until the great storm?"
QUESTIONS = {"q1": ASKED, "q2": OTHER}
LEAK = "https://quiz.example/1"
LONG_LEAK = "https://quiz.example/long"
FILLER = "The harbour has a quay and a mill. " * 400
PAGES = [
    Page(url="https://w.example/tide", title="Odes to the tide", text="Odes to the tide were written at the lighthouse."),
    Page(url=LEAK, title="Quiz", text=f"{ASKED}\n\nOrlo wrote the odes to the tide."),
    Page(url="https://w.example/keeper", title="Keeper of the lighthouse", text="A keeper lit the lighthouse and wrote odes."),
    Page(
        url=LONG_LEAK, title="Odes and quizzes", text=f"# Odes\n\nOdes to the tide.\n\n{FILLER}\n\n# Answers\n\n{ASKED} Orlo."
    ),
    Page(url="https://w.example/source", title="Orlo", text=" ".join(ASKED.split()[:13]) + " and then slept."),
    Page(url="https://copy.example/set", title="Set", text="tide canary GUID 26b5c67b-86ad odes lighthouse"),
]


@pytest.fixture
def lines() -> list[GuardLine]:
    return []


def guard(lines: list[GuardLine], blocked: str = "") -> Guard:
    return Guard(Blocklist.parse(blocked), QUESTIONS, ["canary GUID 26b5c67b-86ad"], lines.append)


@pytest.fixture
def world(lines: list[GuardLine]) -> GuardedWorld:
    return GuardedWorld(LocalWorld.in_memory(PAGES, name="w"), guard(lines))


def on(question: str = "q1", attempt: int = 0) -> Occasion:
    return Occasion(question=question, attempt=attempt)


def test_leaks_are_dropped_and_the_others_keep_their_order(world: GuardedWorld, lines: list[GuardLine]) -> None:
    plain = answered(LocalWorld.in_memory(PAGES, name="w").search("odes to the tide lighthouse"))
    hidden = {LEAK, LONG_LEAK, "https://copy.example/set"}
    assert hidden < {hit.url for hit in plain.hits}
    assert answered(world.search("odes to the tide lighthouse", occasion=on())).hits == tuple(
        h for h in plain.hits if h.url not in hidden
    )
    told = {line.url: line.kind for line in lines}
    assert told == {
        LEAK: GuardKind.VERBATIM,
        LONG_LEAK: GuardKind.VERBATIM,
        "https://copy.example/set": GuardKind.CANARY,
    } | {url: GuardKind.REPORTED for url in told if url == "https://w.example/source"}


def test_a_leak_is_missing_as_any_missing_page_is(world: GuardedWorld, lines: list[GuardLine]) -> None:
    missing = answered(world.visit("https://no.example/", occasion=on()))
    for url in (LEAK, LONG_LEAK, f"{LONG_LEAK}#page=2", f"{LONG_LEAK}#page=99"):
        reply = answered(world.visit(url, "odes", max_words=50, occasion=on(attempt=3)))
        assert (reply.title, reply.text, reply.status, reply.part, reply.parts, reply.url) == (
            missing.title, missing.text, missing.status, missing.part, missing.parts, url,
        )  # fmt: skip
    assert {(line.question, line.attempt, line.tool, line.kind) for line in lines} == {("q1", 3, "visit", GuardKind.VERBATIM)}
    text = next(page for page in PAGES if page.url == LEAK)
    assert lines[0].sha256 == hashlib.sha256(f"{text.title}\n{text.text}".encode()).hexdigest()


def test_a_page_hides_from_its_own_question_alone(world: GuardedWorld, lines: list[GuardLine]) -> None:
    assert answered(world.visit(LEAK, occasion=on("q2"))).status is ToolStatus.OK
    assert LEAK in {hit.url for hit in answered(world.search("odes to the tide lighthouse", occasion=on("q2"))).hits}
    assert answered(world.visit(LEAK, occasion=on("unknown"))).status is ToolStatus.OK
    assert answered(world.visit(LEAK, occasion=NO_OCCASION)).status is ToolStatus.OK
    assert {line.kind for line in lines} <= {GuardKind.CANARY}
    assert answered(world.visit("https://copy.example/set", occasion=on("q2"))).status is ToolStatus.NOT_FOUND, (
        "a canary, from all"
    )


def test_a_quotation_is_shown_and_reported(world: GuardedWorld, lines: list[GuardLine]) -> None:
    reply = answered(world.visit("https://w.example/source", occasion=on()))
    assert reply.status is ToolStatus.OK and "slept" in reply.text
    assert [(line.kind, line.rule) for line in lines] == [(GuardKind.REPORTED, "1 of 7 runs")]


def test_a_line_stands_before_the_answer(world: GuardedWorld) -> None:
    class FullError(Exception):
        pass

    def full(line: GuardLine) -> None:
        raise FullError(line.url)

    kept = GuardedWorld(LocalWorld.in_memory(PAGES, name="w"), Guard(Blocklist(), QUESTIONS, (), full))
    with pytest.raises(FullError, match=LEAK):
        answered(kept.visit(LEAK, occasion=on()))
    with pytest.raises(FullError):
        answered(kept.search("odes to the tide lighthouse", occasion=on()))


def test_many_copies_are_all_found_for_lists(lines: list[GuardLine]) -> None:
    copies = [
        Page(url=f"https://copy{i}.example/", title=f"Odes {i}", text=f"odes\n\n{FILLER[: i * 70]}\n\n{ASKED}")
        for i in range(70)
    ]
    world = GuardedWorld(LocalWorld.in_memory([*copies, *PAGES], name="w"), guard(lines))
    found = answered(world.search("odes", limit=100, occasion=on()))
    assert found.hits and not {page.url for page in copies} & {hit.url for hit in found.hits}


def test_nothing_left_is_empty(lines: list[GuardLine]) -> None:
    world = GuardedWorld(LocalWorld.in_memory(PAGES[1:2], name="w"), guard(lines))
    assert answered(world.search("odes", occasion=on())).status is ToolStatus.EMPTY


def test_beneath_dynamics_a_leak_stays_hidden(lines: list[GuardLine]) -> None:
    kept = GuardedWorld(LocalWorld.in_memory(PAGES, name="w"), guard(lines))
    world = FaultyWorld(kept, get_faults("web"), 3)
    for seed in range(30):
        told = Occasion(question="q1", episode_seed=seed)
        assert "Orlo wrote" not in answered(world.visit(LEAK, occasion=told)).text
        assert LEAK not in {hit.url for hit in answered(world.search("odes to the tide lighthouse", occasion=told)).hits}


async def test_the_tools_tell_the_guard_who_asks(lines: list[GuardLine]) -> None:
    kept = GuardedWorld(LocalWorld.in_memory(PAGES, name="w"), guard(lines, "w.example/keeper"))
    tools = world_tools(kept, get_profile("tiny"))
    context = ToolContext(question="q1", attempt=4)
    found = await tools["search"]({"query": ["odes to the tide lighthouse"]}, context)
    read = await tools["visit"]({"url": [LEAK, "https://w.example/keeper"], "goal": "odes"}, context)
    assert LEAK not in found.text and "keeper" not in "".join(found.provenance)
    assert read.parts == (ToolStatus.NOT_FOUND,) * 2 and "Orlo wrote" not in read.text
    assert {(line.question, line.attempt) for line in lines} == {("q1", 4)}
    assert {line.tool for line in lines} == {"search", "visit"}


def test_the_fingerprint_says_what_is_hidden(world: GuardedWorld, lines: list[GuardLine]) -> None:
    local = LocalWorld.in_memory(PAGES, name="w")
    same, other = GuardedWorld(local, guard(lines)), GuardedWorld(local, guard(lines, "a.example"))
    assert world.fingerprint == same.fingerprint != other.fingerprint and world.fingerprint != local.fingerprint
    assert (world.name, world.page_count, world.offline) == (local.name, local.page_count, True)
